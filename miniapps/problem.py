"""The interface of problems to drivers and the command line, with default implementations."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from miniapps.contract import JOIN, Check, Measure
from miniapps.decomposition import STRIDED, Layout, least_surface
from miniapps.parameters import require, require_allowed
from miniapps.quantities import Overlay, Quantity
from miniapps.snapshots import SnapshotWriter


class Variant(NamedTuple):
    """A value of a field that changes how a problem is solved, but not the answer.

    If it causes ``several_kinds`` of blocks, the problem does not run under the mpi driver and
    takes no over-decomposition factor.
    """

    field: str
    value: Any
    several_kinds: bool = False

    def __str__(self) -> str:
        return f"{self.field} {self.value}"


@dataclasses.dataclass(frozen=True)
class BaseProblem:
    """A problem: frozen parameters, their checks, and how the problem scales.

    ``presets`` maps names to values of fields, of ``steps`` and of ``warmup``.
    """

    presets: ClassVar[dict[str, dict[str, Any]]] = {}
    app: ClassVar[str | None] = None  # the name of its kernels; None if it has none
    unit: ClassVar[str] = "points"  # of `work` and of the rate
    last_axis_cut: ClassVar[float] = STRIDED  # relative cost of cutting a PE's part across it
    variants: ClassVar[tuple[Variant, ...]] = ()  # must not change the answer; for `verify`
    # Fields of `tiny` with which `verify` solves variants that have several kinds of blocks.
    tiny_of_kinds: ClassVar[dict[str, Any]] = {}
    quantities: ClassVar[dict[str, Quantity]] = {}  # what each named `Piece` of the state is
    only_output: ClassVar[tuple[str, ...]] = ()  # fields that change what is written, no result
    needs_output: ClassVar[tuple[str, ...]] = ()  # fields that concern the output file only
    instead_of_size: ClassVar[tuple[str, ...]] = ()  # fields that make the first one void, if set
    positional: ClassVar[str | None] = None  # the words that `from_positional` reads, for help

    @property
    def shape(self) -> tuple[int, ...]:
        """Cells along each axis of the grid that is cut into blocks."""
        raise NotImplementedError

    @property
    def periodic(self) -> tuple[bool, ...]:
        """Per axis, whether the last block neighbours the first."""
        return (True,) * len(self.shape)

    @property
    def least_cells(self) -> tuple[int, ...]:
        """The least number of cells of a block along each axis."""
        return (1,) * len(self.shape)

    @property
    def extent(self) -> tuple[float, ...]:
        """The length of the domain along each axis, in the unit of positions (default: cells).

        Thumbnails of particles and atoms need it.
        """
        return self.shape

    @property
    def shown(self) -> str | None:
        """The part of the state that thumbnails show (default: the first by name)."""
        return min(self.quantities, default=None)

    def overlays(self) -> dict[str, Overlay]:
        """The parts of the state that thumbnails show over that one, where they exist."""
        return {}

    def snapshots(self) -> tuple[SnapshotWriter, ...]:
        """The writers of what an output file contains beside the final state."""
        return ()

    def cut(self, pes: int, odf: int, pe_grid: tuple[int, ...] | None) -> Layout:
        """The layout for ``pes`` PEs, on the given grid of PEs or that of least surface.

        Raises InputError.
        """
        cut = pes, odf, pe_grid, self.last_axis_cut, self.least_cells
        return Layout.create(self.shape, self.periodic, *cut)

    def work(self) -> float:
        """Units of work in one time step, from which the rate is computed."""
        raise NotImplementedError

    def work_done(self, first: int, end: int, measures: dict[str, Measure]) -> float:
        """Units of work in the steps from ``first`` to ``end``; override it if steps differ."""
        return self.work() * (end - first)

    def least_bytes(self) -> float:
        """The memory that all blocks together need at least, bytes; 0: not known."""
        return 0.0

    def check_steps(self, steps: int) -> None:
        """Raise InputError if the problem cannot make ``steps`` steps, warm-up included."""

    def results(self, measures: dict[str, Measure]) -> dict[str, Any]:
        """Entries that records of this app have in addition to those of all records."""
        return {}

    @classmethod
    def fixing(cls, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Those of a problem's parameters, by name, that fix the result."""
        free = {*cls.only_output, *(variant.field for variant in cls.variants)}
        return {name: value for name, value in parameters.items() if name not in free}

    @classmethod
    def lines(cls, record: dict[str, Any]) -> list[str]:
        """Lines on this app's own results, for the summary of a finished run."""
        return []

    @classmethod
    def from_positional(cls, words: list[str]) -> dict[str, Any]:
        """Values of fields, of ``steps`` and of ``warmup``, read from words without options.

        Raises InputError.
        """
        raise NotImplementedError

    def steps_per_round(self, step: int) -> int:
        """The number of time steps that a block may take in a round that begins at ``step``."""
        return 1

    def kinds_at(self, step: int) -> frozenset[str] | None:
        """The kinds of blocks that exist in a step; None: all exist in all steps.

        Those of step -1 have a setup. All processes must find the same. A kind that ends in one
        step cannot exist in the next one; a later one can have it again, with new blocks.
        """
        return None

    def may_finish(self, step: int) -> bool:
        """Whether blocks may report after step ``step`` that the whole run is finished.

        A run that ends elsewhere is not valid: steps are missing.
        """
        return False

    def prepared(self, layout: Layout, device: str, measure: bool = False) -> Self:
        """The problem with every "auto" replaced by a value for this layout.

        With ``measure``, values may be measured on this machine; without it, all processes get the
        same values.

        Raises InputError if the problem cannot be cut this way.
        """
        return self

    def void(self) -> dict[str, str]:
        """Fields without effect because of others, each with the reason.

        The command line refuses options for them, and ignores what a preset says of them.
        """
        return {}

    def weak(self, pes: int) -> Self:
        """The problem that gives each of ``pes`` PEs as much work as this one gives a single PE."""
        raise NotImplementedError

    def smaller(self) -> Self:
        """A problem with about half the work. Raises InputError if there is none."""
        raise NotImplementedError

    def parameters(self) -> dict[str, Any]:
        """The fields as plain data, for records."""
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True)
class SizedProblem(BaseProblem):
    """A problem on a grid of ``size`` cells along its ``axes``, by which it scales."""

    axes: ClassVar[int]

    size: tuple[int, ...]

    def __post_init__(self) -> None:
        named = f"must name {self.axes} {'axes' if self.axes > 1 else 'axis'}"
        require(len(self.size) == self.axes, "--size", self.size, named)
        require(min(self.size) >= 1, "--size", self.size, "must be 1 or more along each axis")
        require_allowed(self)

    @property
    def shape(self) -> tuple[int, ...]:
        """The size."""
        return self.size

    def weak(self, pes: int) -> Self:
        """The same cells per PE, more along x first."""
        return dataclasses.replace(self, size=grown(self.size, pes))

    def smaller(self) -> Self:
        """Half the cells."""
        return dataclasses.replace(self, size=halved(self.size))


def halved(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A grid with half the cells: the longest axis is halved, of several the last one."""
    longest = max(range(len(shape)), key=lambda axis: (shape[axis], axis))
    return tuple(n // 2 if axis == longest else n for axis, n in enumerate(shape))


def grown(shape: tuple[int, ...], factor: int) -> tuple[int, ...]:
    """A grid ``factor`` times as large, stretched along all axes as evenly as possible, x first."""
    stretch = least_surface((1 << 40,) * len(shape), factor)
    return tuple(n * s for n, s in zip(shape, stretch, strict=True))


def steps_of(block: Any) -> dict[str, Measure]:
    """What a block gives `steps_made`: the number of steps that it has made."""
    return {"steps made": Measure(JOIN, np.array([block.time]))}


def steps_made(steps: int, measures: Mapping[str, Measure]) -> Check:
    """Check that each block counts as many steps as the run: its other measures are of so many."""
    off = np.abs(measures["steps made"].value - steps).max()
    return Check("steps that blocks count otherwise", float(off), 0)
