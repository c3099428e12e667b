"""What the drivers and the command line may ask of a problem, with the usual answers."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, NamedTuple, Self

from miniapps.contract import Measure
from miniapps.decomposition import STRIDED, Layout, least_surface
from miniapps.snapshots import SnapshotWriter


class Variant(NamedTuple):
    """A value of a field that changes how a problem is solved, not the answer.

    Where it makes ``several_kinds`` of blocks, a problem is not for the mpi driver and takes no
    over-decomposition factor.
    """

    field: str
    value: Any
    several_kinds: bool = False

    def __str__(self) -> str:
        return f"{self.field} {self.value}"


@dataclasses.dataclass(frozen=True)
class BaseProblem:
    """A problem: frozen parameters, how they are checked, and how they scale.

    ``presets`` maps a name to values of fields, and of ``steps`` and ``warmup``.
    """

    presets: ClassVar[dict[str, dict[str, Any]]] = {}
    app: ClassVar[str | None] = None  # names the kernel files; None where there are none
    unit: ClassVar[str] = "points"  # what `work` counts and the rate is given in
    last_axis_cut: ClassVar[float] = STRIDED  # price of cutting a PE's part there, over other axes
    variants: ClassVar[tuple[Variant, ...]] = ()  # what must not change the answer, for `verify`
    positional: ClassVar[str | None] = None  # words that `from_positional` reads, for the help

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
        """Cells that a block must have along each axis."""
        return (1,) * len(self.shape)

    @property
    def extent(self) -> tuple[float, ...]:
        """The lengths of the domain along each axis, in the unit of positions: cells, if no other.

        Thumbnails of particles and atoms need it.
        """
        return self.shape

    def snapshots(self) -> tuple[SnapshotWriter, ...]:
        """What a run with an output file writes beside its final state."""
        return ()

    def cut(self, pes: int, odf: int, pe_grid: tuple[int, ...] | None) -> Layout:
        """The layout for so many PEs, on a given grid of them or the one of least surface.

        Raises InputError.
        """
        cut = pes, odf, pe_grid, self.last_axis_cut, self.least_cells
        return Layout.create(self.shape, self.periodic, *cut)

    def work(self) -> float:
        """Units of work in one time step, for the rate."""
        raise NotImplementedError

    def work_done(self, first: int, end: int, measures: dict[str, Measure]) -> float:
        """Units of work in the steps from ``first`` to ``end``, where they differ between steps."""
        return self.work() * (end - first)

    def check_steps(self, steps: int) -> None:
        """Raise InputError where the problem cannot be run for so many steps, warm-up included."""

    def results(self, measures: dict[str, Measure]) -> dict[str, Any]:
        """What a record of this app holds besides what all records hold."""
        return {}

    @classmethod
    def lines(cls, record: dict[str, Any]) -> list[str]:
        """What a finished run's summary says, for people, of this app's own results."""
        return []

    @classmethod
    def from_positional(cls, words: list[str]) -> dict[str, Any]:
        """Values of fields, and of ``steps`` and ``warmup``, from words without options.

        Raises InputError.
        """
        raise NotImplementedError

    def steps_per_round(self, step: int) -> int:
        """How many time steps a block may take in one go, beginning at ``step``."""
        return 1

    def prepared(self, layout: Layout, device: str, measure: bool = False) -> Self:
        """The problem with every "auto" settled for this layout.

        With ``measure`` it may be settled by measuring on this machine; without, all processes
        come to the same answer.

        Raises InputError where the problem cannot be cut this way.
        """
        return self

    def weak(self, pes: int) -> Self:
        """The problem that gives each of ``pes`` PEs the work that this one gives a single PE."""
        raise NotImplementedError

    def smaller(self) -> Self:
        """The problem with about half the work; raises InputError where there is none."""
        raise NotImplementedError

    def parameters(self) -> dict[str, Any]:
        """The fields as plain data, for records."""
        return dataclasses.asdict(self)


def halved(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A grid with half the cells: its longest axis is cut, the last of several."""
    longest = max(range(len(shape)), key=lambda axis: (shape[axis], axis))
    return tuple(n // 2 if axis == longest else n for axis, n in enumerate(shape))


def grown(shape: tuple[int, ...], factor: int) -> tuple[int, ...]:
    """A grid ``factor`` times as large, stretched as evenly as its factors allow, x first."""
    stretch = least_surface((1 << 40,) * len(shape), factor)
    return tuple(n * s for n, s in zip(shape, stretch, strict=True))
