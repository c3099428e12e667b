"""LeanMD: Lennard-Jones atoms in a periodic box, integrated by velocity Verlet.

All quantities are in reduced units: lengths in sigma, energies in epsilon, masses in that of an
atom, times in tau = sigma sqrt(mass / epsilon), temperatures in epsilon / k.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from miniapps.contract import Index, Measure
from miniapps.decomposition import Layout
from miniapps.kernels.leanmd.units import ENERGY_UNIT
from miniapps.leanmd import si
from miniapps.leanmd.inputs import MOST_ATOMS, Input, atoms_between, opened
from miniapps.leanmd.lattice import Sites, in_cells, on_lattice
from miniapps.leanmd.pair_layout import PairLayout
from miniapps.leanmd.presets import DENSITY, PER_CELL, PRESETS
from miniapps.leanmd.thermo import all_rows, kept_energy, table, thermo_lines
from miniapps.leanmd.trajectory import LENGTH_UNIT, SPEED_UNIT, Trajectory
from miniapps.parameters import (
    Number,
    extents,
    integer,
    parameter,
    require,
    require_allowed,
    shown,
    yes_or_no,
)
from miniapps.problem import BaseProblem, Variant, grown, halved
from miniapps.quantities import AXES, Quantity
from miniapps.snapshots import SnapshotWriter

MOST_LAYERS = 1 << 20  # of --cells along x, each of which has a number of atoms
FINE = 1.0  # sigma; a box from a file is cut into blocks at planes about this far apart
EXACT_BITS = {"float64": 52, "float32": 31}  # of positions, by the precision of forces
DTYPES = tuple(EXACT_BITS)
LONGEST = 512  # sigma; a box in single precision, so that positions are multiples of 2^-20 or less
LENGTH = Number(zero=False, least=1e-3, most=1e9)  # sigma; of a cutoff or a skin
LIST_SKIN = 0.3  # sigma; lists reach this far beyond the cutoff, or as far as a thinner skin


@dataclass(frozen=True)
class Gradient:
    """The numbers of atoms in the first and in the last cells along x."""

    low: int
    high: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``"100,250"``. Raises ValueError with what is allowed."""
        try:
            low, high = map(integer, text.split(","))
        except ValueError:
            raise ValueError("two integers with a comma between, such as 100,250") from None
        return cls(low, high)

    def __str__(self) -> str:
        return f"{self.low},{self.high}"


@dataclass(frozen=True)
class LeanmdProblem(BaseProblem):
    """Parameters of LeanMD, in reduced units."""

    app: ClassVar[str] = "leanmd"
    unit: ClassVar[str] = "atom-steps"
    quantities: ClassVar[dict[str, Quantity]] = {
        "atoms": Quantity(
            "position, wrapped into the box, and velocity of each atom",
            columns=dict.fromkeys(AXES, LENGTH_UNIT)
            | dict.fromkeys((f"v{axis}" for axis in AXES), SPEED_UNIT),
        )
    }
    last_axis_cut: ClassVar[float] = 1.0
    only_output: ClassVar[tuple[str, ...]] = "trajectory", "units"
    needs_output: ClassVar[tuple[str, ...]] = ("trajectory",)
    instead_of_size: ClassVar[tuple[str, ...]] = "cells", "input"
    variants: ClassVar[tuple[Variant, ...]] = (
        Variant("decomposition", "blocks"),
        Variant("decomposition", "pairs", several_kinds=True),
    )
    tiny_of_kinds: ClassVar[dict[str, Any]] = {"lattice": (6, 4, 4)}  # 540 blocks, not 1215
    presets: ClassVar[dict[str, dict[str, Any]]] = PRESETS

    lattice: tuple[int, ...] = parameter(
        "--lattice", (10, 10, 10), extents, "cubic cells of four atoms along each axis"
    )
    density: float = parameter(
        "--density",
        DENSITY,
        Number(zero=False, least=1e-9, most=1e9),
        "atoms per sigma^3, on a lattice",
    )
    cells: tuple[int, ...] | None = parameter(
        "--cells", None, extents, "instead of a lattice, cells of cutoff + skin along each axis"
    )
    per_cell: int = parameter("--per-cell", PER_CELL, int, "atoms in each of the --cells")
    gradient: Gradient | None = parameter(
        "--gradient", None, Gradient.parse, "LO,HI: atoms in the first and last --cells along x"
    )
    temperature: float = parameter(
        "--temperature", 1.44, Number(zero=True), "at the beginning, epsilon / k"
    )
    cutoff: float = parameter("--cutoff", 2.5, LENGTH, "of the potential, sigma")
    skin: float = parameter("--skin", 0.3, LENGTH, "beyond the cutoff, sigma")
    dt: float = parameter("--dt", 0.005, Number(zero=False), "time step, tau")
    shift: bool = parameter(
        "--shift", False, yes_or_no, "shift the potential to zero at the cutoff", flag=True
    )
    decomposition: str = parameter(
        "--decomposition", "blocks", str, "of space", choices=("blocks", "pairs")
    )
    seed: int = parameter("--seed", 87287, int, "of velocities, and of --cells")
    input: Path | None = parameter(
        "--input", None, Path, "start from H5MD, extended XYZ or a LAMMPS data file"
    )
    trajectory: int = parameter("--trajectory", 0, int, "steps between frames in --output")
    rebuild: int = parameter("--rebuild", 20, int, "steps after which atoms change cell at latest")
    dtype: str = parameter("--dtype", "float64", str, "of the force of a pair", DTYPES)
    thermo: int = parameter("--thermo", 0, int, "steps between rows; 0: first and last only")
    units: str = parameter(
        "--units",
        "reduced",
        str,
        "argon: print and write SI units, too, and read LAMMPS data in units real or metal",
        choices=("reduced", *si.SUBSTANCES),
    )

    def __post_init__(self) -> None:
        require_allowed(self)
        require(self.rebuild >= 1, "--rebuild", self.rebuild, "must be 1 or more")
        require(self.thermo >= 0, "--thermo", self.thermo, "must be 0 or more")
        require(self.trajectory >= 0, "--trajectory", self.trajectory, "must be 0 or more")
        require(self.seed >= 0, "--seed", self.seed, "must be 0 or more")
        require(self.per_cell >= 1, "--per-cell", self.per_cell, "must be 1 or more")
        for option, grid in (("--lattice", self.lattice), ("--cells", self.cells)):
            if grid is not None:
                fits = len(grid) == 3 and min(grid) >= 1
                require(fits, option, grid, "must be three integers of 1 or more")
        if self.gradient is not None:
            ends = self.gradient.low, self.gradient.high
            require(self.cells is not None, "--gradient", self.gradient, "needs --cells")
            require(min(ends) >= 0, "--gradient", self.gradient, "must be 0 or more each")
        if self.input is not None:
            require(self.cells is None, "--input", self.input, "not together with --cells")
        self._check_atoms()
        few = "there must be two atoms or more"
        given = {"--input": self.input, "--gradient": self.gradient, "--per-cell": self.per_cell}
        option, value = next(item for item in given.items() if item[1])
        require(self.atoms >= 2, option, value, few)
        reach, shortest = self.reach, float(min(self.box))
        allowed = f"cutoff and skin must fit into the box, whose shortest side is {shortest:.6g}"
        require(reach <= shortest, "--cutoff", self.cutoff, allowed)
        long = f"must be float64 in a box with a side above {LONGEST}, where positions are coarse"
        fits = self.dtype == "float64" or max(self.box) <= LONGEST
        require(fits, "--dtype", self.dtype, long)

    def _check_atoms(self) -> None:
        """Raise InputError if there are too many atoms for ids; counts none, as that takes time."""
        allowed = f"must be at most {MOST_ATOMS:g} atoms"
        sites = 4 * math.prod(self.lattice)
        require(self.cells is not None or sites <= MOST_ATOMS, "--lattice", self.lattice, allowed)
        if self.cells is not None:
            ends = self.gradient or Gradient(self.per_cell, self.per_cell)
            most = max(ends.low, ends.high, 1) * math.prod(self.cells)
            require(most <= MOST_ATOMS, "--cells", self.cells, allowed)
            long = f"must be at most {MOST_LAYERS} along x"
            require(self.cells[0] <= MOST_LAYERS, "--cells", self.cells, long)

    # The box ------------------------------------------------------------------------------------

    @cached_property
    def source(self) -> Input | None:
        """The file that the run starts from, if any. Raises InputError."""
        substance = si.SUBSTANCES.get(self.units)
        return None if self.input is None else opened(self.input, substance)

    @property
    def first_step(self) -> int:
        """The number of the step that the run starts from: that of the input file, else 0."""
        return 0 if self.source is None else self.source.step

    @cached_property
    def box(self) -> np.ndarray:
        """Lengths of the box: (3,), multiples of the position quantum."""
        if self.source is not None:
            sides = np.array(self.source.box)
        elif self.cells is not None:
            sides = np.array(self.cells) * (self.cutoff + self.skin)
        else:
            sides = np.array(self.lattice) * (4 / self.density) ** (1 / 3)
        quantum = position_quantum(sides, self.dtype)
        return np.rint(sides / quantum) * quantum

    @cached_property
    def quantum(self) -> float:
        """Positions are multiples of this power of two, so the difference of any two is exact."""
        return position_quantum(self.box, self.dtype)

    @cached_property
    def per_layer(self) -> np.ndarray:
        """Atoms in a cell of each layer of --cells along x: (layers,) int64."""
        assert self.cells is not None
        layers = self.cells[0]
        ends = self.gradient or Gradient(self.per_cell, self.per_cell)
        return np.rint(np.linspace(ends.low, ends.high, layers)).astype(np.int64)

    @cached_property
    def atoms(self) -> int:
        """The number of atoms."""
        if self.source is not None:
            return self.source.atoms
        if self.cells is not None:
            return int(self.per_layer.sum()) * self.cells[1] * self.cells[2]
        return 4 * math.prod(self.lattice)

    @property
    def reach(self) -> float:
        """The reach of neighbour lists."""
        return self.cutoff + self.list_skin

    @property
    def list_skin(self) -> float:
        """The reach of neighbour lists beyond the cutoff."""
        return min(self.skin, LIST_SKIN)

    @property
    def drift_limit(self) -> float:
        """The allowed energy drift over the kinetic energy; like the error, it falls with dt^2."""
        return 0.01 * (self.dt / 0.005) ** 2 + 1e-5

    @cached_property
    def energy_at_cutoff(self) -> float:
        """The potential at the cutoff, which a shift subtracts."""
        inverse6 = self.cutoff**-6
        return 4 * inverse6 * (inverse6 - 1)

    @property
    def draws_velocities(self) -> bool:
        """Whether initial velocities are random; if not, they come from the input file."""
        return self.source is None or not self.source.has_velocities

    def void(self) -> dict[str, str]:
        """The options for atoms that the input file, or --cells, replaces."""
        if self.source is None and self.cells is None:
            return {"per_cell": "needs --cells"}
        if self.source is None:
            found = dict.fromkeys(("lattice", "density"), "not together with --cells")
            return found | ({"per_cell": "not together with --gradient"} if self.gradient else {})
        positions, velocities = (
            f"not together with --input {self.input}, which has {what}"
            for what in ("positions", "velocities")
        )
        found = dict.fromkeys(("lattice", "density", "per_cell"), positions)
        drawn = {} if self.draws_velocities else dict.fromkeys(("temperature", "seed"), velocities)
        return found | drawn

    @property
    def initial(self) -> dict[str, str]:
        """Where the initial positions and velocities come from, in words."""
        seed = f"seed {self.seed}"
        positions = f"fcc lattice {shown(self.lattice)} of density {self.density:g}"
        velocities = f"random, of temperature {self.temperature:g} ({seed})"
        if self.cells is not None:
            atoms = self.gradient or self.per_cell
            positions = f"cells {shown(self.cells)} of {atoms} atoms ({seed})"
        if self.source is not None:
            step = f" at step {self.first_step}" if self.first_step else ""
            positions = f"{self.input}{step}{self.source.scale.said}{self.source.note}"
            velocities = velocities if self.draws_velocities else positions
        return {"positions": positions, "velocities": velocities}

    def beginning(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, ...]:
        """The initial atoms in [low, high): ids (n,), positions and velocities (3, n)."""
        if self.source is not None:
            return atoms_between(self.source, low, high, self.quantum)
        ids, position = self.sites(low, high)
        return ids, position, np.zeros_like(position)

    def sites(self, low: np.ndarray, high: np.ndarray) -> Sites:
        """Ids and positions of the initial atoms in [low, high) if there is no input file."""
        if self.cells is None:
            return on_lattice(self.box, self.lattice, low, high, self.quantum)
        return in_cells(self.box, self.cells, self.per_layer, low, high, self.quantum, self.seed)

    # Decomposition ------------------------------------------------------------------------------

    @property
    def extent(self) -> tuple[float, ...]:
        """The lengths of the box."""
        return tuple(self.box.tolist())

    def snapshots(self) -> tuple[SnapshotWriter, ...]:
        """The trajectory."""
        return (Trajectory(self.extent, self.dt, self.first_step, self.trajectory, self.atoms),)

    @property
    def shape(self) -> tuple[int, ...]:
        """The grid that is cut into blocks; for *pairs*, the grid of cells."""
        if self.cells is None and self.decomposition == "pairs":
            return tuple((self.box / (self.cutoff + self.skin) + 1e-9).astype(int).tolist())
        if self.source is not None:
            return tuple(np.maximum(self.box / FINE, 1).astype(int).tolist())
        return self.lattice if self.cells is None else self.cells

    def cut(self, pes: int, odf: int, pe_grid: tuple[int, ...] | None) -> Layout:
        """The layout for ``pes`` PEs; for *pairs*, every cell and pair of cells is a block."""
        if self.decomposition == "blocks":
            return super().cut(pes, odf, pe_grid)
        require(odf == 1, "--odf", odf, "--decomposition pairs has a block for each cell and pair")
        fits = min(self.shape) >= 3
        require(
            fits, "--decomposition", "pairs", f"needs 3 cells along each axis, has {self.shape}"
        )
        plain = Layout.create(self.shape, self.periodic, pes, 1, pe_grid)
        return PairLayout(self.shape, self.periodic, plain.pe_grid, (1, 1, 1))

    @property
    def least_cells(self) -> tuple[int, ...]:
        """A block is at least as wide as lists reach, so its neighbours have all its ghosts."""
        return tuple(
            math.ceil(self.reach / (side / cells) - 1e-9)
            for side, cells in zip(self.box, self.shape, strict=True)
        )

    def plane(self, axis: int, number: int) -> float:
        """The coordinate where cell ``number`` begins; a multiple of the position quantum."""
        exact = number * self.box[axis] / self.shape[axis]
        return float(np.rint(exact / self.quantum) * self.quantum)

    def corners(self, layout: Layout, index: Index) -> tuple[np.ndarray, np.ndarray]:
        """The lowest and highest corner of a block: (3,) each."""
        bounds = layout.bounds(index)
        low, high = (
            np.array([self.plane(axis, span[side]) for axis, span in enumerate(bounds)])
            for side in (0, 1)
        )
        return low, high

    # The interface of every problem -------------------------------------------------------------

    def parameters(self) -> dict[str, Any]:
        """The fields as plain data."""
        plain = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        text = {name: plain[name] and str(plain[name]) for name in ("gradient", "input")}
        return plain | text

    def least_bytes(self) -> float:
        """Position, velocity, force and id of every atom, without lists of neighbours."""
        return 80.0 * self.atoms

    def work(self) -> float:
        """The number of atoms, each moved once per step."""
        return float(self.atoms)

    def results(self, measures: dict[str, Measure]) -> dict[str, Any]:
        """The thermo table, one object per row; energy drift and momentum."""
        rows = all_rows(measures)
        last, steps = rows[-1], max(int(rows[-1, 0]), 1)
        kept = kept_energy(self, last[1:]) - kept_energy(self, rows[0, 1:])
        thermo, box = table(self, rows), self.box.tolist()
        in_units = {} if self.units == "reduced" else si.in_si(self.units, thermo, box, self.dt)
        return {
            "atoms": self.atoms,
            "initial": self.initial,
            "box": box,
            "thermo": thermo,
            **({"si": in_units} if in_units else {}),
            "energy_drift_per_atom_and_step": kept / steps,
            "momentum": [momentum * ENERGY_UNIT for momentum in last[3:6].tolist()],
        }

    @classmethod
    def lines(cls, record: dict[str, Any]) -> list[str]:
        """The origin of the atoms, the thermo table, energy drift and momentum."""
        rows = record["thermo"]
        drift, momentum = record["energy_drift_per_atom_and_step"], record["momentum"]
        return [
            *(f"initial {what}: {origin}" for what, origin in record["initial"].items()),
            *thermo_lines(rows),
            *(si.lines(record["si"]) if "si" in record else []),
            f"{record['atoms']} atoms, energy drift {drift:.3g} per atom and step, "
            f"momentum {max(map(abs, momentum)):.3g}",
        ]

    def is_reported(self, step: int) -> bool:
        """Whether the thermo table has a row for a step."""
        return self.thermo > 0 and step % self.thermo == 0

    def weak(self, pes: int) -> Self:
        """The same number of atoms per PE. Raises InputError if they come from a file."""
        require(self.input is None, "--input", self.input, "a file's atoms cannot be multiplied")
        if self.cells is None:
            return dataclasses.replace(self, lattice=grown(self.lattice, pes))
        return dataclasses.replace(self, cells=grown(self.cells, pes))

    def smaller(self) -> Self:
        """Half the atoms. Raises InputError if they come from a file."""
        require(self.input is None, "--input", self.input, "a file's atoms cannot be halved")
        if self.cells is None:
            return dataclasses.replace(self, lattice=halved(self.lattice))
        return dataclasses.replace(self, cells=halved(self.cells))


def position_quantum(box: np.ndarray, dtype: str = "float64") -> float:
    """A power of two: float64 holds its multiples up to four times the box exactly.

    In single precision, int32 holds their numbers up to that length.
    """
    return 2.0 ** (math.ceil(math.log2(4 * float(np.max(box)))) - EXACT_BITS[dtype])
