"""Small problems that enter every branch of kernels and blocks, and what runs of them show."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import support
from mutation.examples import EXAMPLES
from placed_atoms import Placed

from miniapps import apps
from miniapps.amr import faults as amr_faults
from miniapps.audit import AuditPlan
from miniapps.cg import faults as cg_faults
from miniapps.drivers import serial
from miniapps.drivers.sim import SimOptions
from miniapps.drivers.sim import driver as sim
from miniapps.faults import Fault, replaced
from miniapps.leanmd import faults as leanmd_faults
from miniapps.pic import faults as pic_faults
from miniapps.pic.distribution import Distribution
from miniapps.pic.events import Event
from miniapps.transpose import faults as transpose_faults
from miniapps.workbench.selftest import messages_faults as messages

PLAN = AuditPlan(samples=24, every=1, seed=5)
SEED = 3  # of the order of events under the sim driver


class Case(Protocol):
    """What shows whether the program is right."""

    def see(self) -> Seen:
        """Try it."""


class Seen(NamedTuple):
    """What a run shows: the checks that failed, and what is the same in every such run."""

    failed: tuple[str, ...]
    facts: str


@dataclass(frozen=True, eq=False)
class Run:
    """A run of an app's preset ``tiny`` with other values for some fields, on a grid of blocks.

    ``moving``: under the sim driver, so that messages come in any order and blocks migrate.
    """

    app: str
    grid: tuple[int, ...]
    steps: int
    values: dict[str, Any] = field(default_factory=dict)
    odf: int = 1
    moving: bool = False
    atoms: tuple[Any, Any] | None = None  # positions and velocities, where given; not audited
    wrong: Callable[[], AbstractContextManager[None]] = nullcontext  # a mistake to be reported
    large: bool = False  # too large for kernels as plain Python

    @cached_property
    def problem(self) -> Any:
        """The problem."""
        if self.atoms is not None:
            at, speed = self.atoms
            return Placed(at=np.array(at), speed=np.array(speed), **self.values)
        return support.small_problem(apps.load(self.app), **self.values)

    def see(self) -> Seen:
        """Make the run; one that ends by an error shows only that."""
        driver, options = (sim, SimOptions(seed=SEED)) if self.moving else (serial, None)
        with np.errstate(all="ignore"), self.wrong():
            try:
                solved = support.solve(
                    self.app, self.problem, self.grid, self.steps, odf=self.odf,
                    plan=None if self.atoms else PLAN, driver=driver, options=options,
                )  # fmt: skip
            except Exception as error:
                what = f"{type(error).__name__}: {error}"
                return Seen((what,), what)
        failed = tuple(check.name for check in solved.checks if not check.ok)
        return Seen(failed, self.facts(solved))

    def facts(self, solved: support.Solved) -> str:
        """The number of steps, the state hash, and a hash of the measures and of all messages.

        Measured floats are rounded, as the order of NumPy's additions depends on the machine.
        """
        found = hashlib.sha256()
        for name, (_, value) in sorted(solved.outcome.measures.items()):
            values = np.asarray(value)
            values = np.round(values, 6) + 0.0 if values.dtype.kind == "f" else values
            found.update(f"{name} {values.dtype} {values.shape}".encode() + values.tobytes())
        pairs = self.values.get("decomposition") == "pairs"  # they send unused entries, too
        for part in () if pairs else solved.outcome.audits:
            found.update(f"{part.step} {part.count} {part.sent}".encode())
        return f"{solved.outcome.steps_done} {solved.state_hash} {found.hexdigest()}"


def stencil(
    app: str, grid: tuple[int, ...], steps: int, size: tuple[int, ...], tile: int,
    odf: int = 1, moving: bool = False, **values: Any,
) -> Run:  # fmt: skip
    """A run of a stencil app, whose ``tile`` is the number of sweeps per exchange."""
    given = {"size": size, "time_tile": tile} | values
    return Run(app, grid, steps, given, odf, moving)


FIRST_CHANGE = {"tolerance": 0.2 * 513 - 1, "check_every": 1}  # met, but by no smaller number
JACOBI2D = (
    stencil("jacobi2d", (1, 1), 3, (9, 25), 1),
    stencil("jacobi2d", (2, 2), 3, (9, 25), 1, moving=True),
    stencil("jacobi2d", (2, 3), 5, (13, 43), 2),
    stencil("jacobi2d", (1, 2), 6, (17, 40), 3, boundary="periodic", odf=2),
    stencil("jacobi2d", (1, 1), 4, (9, 530), 4),
    stencil("jacobi2d", (2, 1), 9, (15, 17), 2, tolerance=1e-9, check_every=3),
    stencil("jacobi2d", (1, 2), 9, (8, 8), 1, tolerance=50.0, check_every=2),
    stencil("jacobi2d", (1, 2), 3, (9, 25), 1, odf=2),
    stencil("jacobi2d", (2, 2), 14, (15, 17), 4, tolerance=8.0, check_every=4),
    stencil("jacobi2d", (2, 2), 14, (15, 17), 2, tolerance=12.0, check_every=3),
    stencil("jacobi2d", (2, 1), 14, (15, 17), 2, tolerance=9.0, check_every=2),
    stencil("jacobi2d", (1, 1), 4, (5, 7), 1, initial="ones", **FIRST_CHANGE),
)  # fmt: skip
# Sizes at which the last cells are in a strip of their own, or just are not.
JACOBI2D += (
    *(stencil("jacobi2d", (1, 1), 5, (5, n), 5) for n in (484, 499)),
    stencil("jacobi2d", (1, 1), 4, (5, 507), 4),
    stencil("jacobi2d", (2, 1), 3, (16, 9), 3),
    stencil("jacobi2d", (1, 2), 9, (9, 34), 9),
    stencil("jacobi2d", (1, 2), 2, (9, 32), 2),
    stencil("jacobi2d", (1, 2), 10, (10, 882), 10),
)
STENCIL3D = (
    stencil("stencil3d", (1, 1, 1), 3, (4, 5, 11), 1, boundary="heated"),
    stencil("stencil3d", (1, 1, 1), 3, (4, 5, 19), 1),
    stencil("stencil3d", (2, 1, 2), 3, (6, 5, 23), 2),
    stencil("stencil3d", (2, 2, 1), 3, (7, 5, 9), 1, moving=True),
    stencil("stencil3d", (2, 1, 1), 5, (9, 7, 11), 2, boundary="heated"),
    stencil("stencil3d", (1, 2, 2), 3, (4, 13, 21), 3, boundary="heated"),
)  # fmt: skip
STENCIL3D += (
    stencil("stencil3d", (1, 1, 2), 9, (9, 9, 20), 9, boundary="heated"),
    stencil("stencil3d", (1, 1, 1), 2, (2, 8, 2500), 2, boundary="heated"),
    stencil("stencil3d", (1, 2, 1), 2, (2, 16, 2500), 2, boundary="heated"),
)
WORK = {"imbalance": "paper", "imbalance_mode": "work", "imbalance_scale": 0.05}
WAIT = WORK | {"imbalance_mode": "wait"}
STENCIL3D += (
    stencil("stencil3d", (2, 2, 1), 3, (7, 5, 9), 1, **WORK),
    stencil("stencil3d", (2, 1, 1), 2, (7, 5, 9), 1, **WAIT),
)  # fmt: skip


def pic(grid: tuple[int, int], steps: int, *events: str, **values: Any) -> Run:
    """A run of PIC with few particles, and events as on the command line."""
    moving, block = values.pop("moving", False), values.pop("wrong", None)
    usual = {"size": 24, "particles": 120, "k": 0, "m": 1, "distribution": "geometric:0.9"}
    given = usual | {"events": tuple(map(Event.parse, events)), "time_tile": 1} | values
    given["distribution"] = Distribution.parse(given["distribution"])
    wrong: Any = partial(replaced, "miniapps.pic:Block", block) if block else nullcontext
    wrong = partial(block.applied, "pic") if isinstance(block, Fault) else wrong
    return Run("pic", grid, steps, given, moving=moving, wrong=wrong)


TWO_EVENTS = "inject:2:40:3,15,4,20:0,-2", "remove:4:2,20,3,18:0.5"
FOUR_EVENTS = (
    "inject:1:30:0,11,0,11:1,1",
    "inject:3:25:5,20,2,19:0,-1",
    *(f"remove:{step}:0,22,3,24:0.3" for step in (2, 5)),
)
PIC = (
    pic((1, 1), 4),
    pic((2, 2), 6, *TWO_EVENTS, particles=500, moving=True),
    pic((3, 3), 8, *TWO_EVENTS, k=1, m=-2),
    pic((2, 3), 8, *TWO_EVENTS, time_tile=3),
    pic((3, 1), 4, size=12, particles=99, k=2),
    pic((1, 1), 2, size=6, particles=9, k=3),
    pic((1, 3), 5, distribution="patch:3,9,4,20", m=2),
    pic((2, 1), 2, distribution="sinusoidal", particles=2400, size=16),
    pic((2, 1), 3, distribution="linear:1,2", m=0),
    pic((4, 5), 8, *TWO_EVENTS, size=22, particles=400, k=1, time_tile=2),
    pic((4, 3), 7, *FOUR_EVENTS, size=26, particles=300, m=-2),
    pic((4, 1), 4, time_tile=2, k=1),
    pic((2, 2), 4, m=0, time_tile=4, k=1),
    pic((3, 3), 8, wrong=pic_faults.wrong_sign),
    pic((3, 3), 8, wrong=pic_faults.sent_to_another_neighbour, time_tile=2),
    pic((3, 4), 8, wrong=pic_faults.sent_to_another_neighbour, k=1, m=-1, particles=400),
    pic((3, 3), 8, wrong=pic_faults.hurled),
    *(
        pic(grid, 8, "remove:2:0,22,3,23:0", wrong=wrong, k=1, m=-1, particles=many, moving=moving)
        for grid, many, moving in [((3, 4), 400, True), ((2, 3), 900, False)]
        for wrong in (pic_faults.sent_to_another_neighbour, pic_faults.hurled)
    ),
    pic((2, 2), 4, "remove:2:0,22,3,23:0"),
    pic((4, 3), 8, wrong=pic_faults.hurled, size=26, k=1, m=-1),
    pic((1, 1), 8, wrong=pic_faults.nan_position, particles=9),
)  # fmt: skip


def leanmd(
    grid: tuple[int, int, int], steps: int, moving: bool = False, wrong: Any = None, **values: Any
) -> Run:
    """A run of LeanMD with few atoms."""
    usual = {"lattice": (3, 3, 3), "density": 0.4, "cutoff": 1.6, "skin": 0.3, "rebuild": 2}
    mistake = partial(wrong.applied, "leanmd") if wrong else nullcontext
    given = usual | {"thermo": 2} | values
    large = values.get("decomposition") == "pairs" or steps > 5 or "lattice" in values
    return Run("leanmd", grid, steps, given, moving=moving, wrong=mistake, large=large)


SIDE = 8.4  # of the box of a few atoms


def in_a_row(along_x: list[float], velocity: Any, steps: int = 1, **values: Any) -> Run:
    """Atoms on a line along x, in a box of `SIDE`; ``velocity``: (3, n)."""
    at = [along_x, [4.0] * len(along_x), [4.0] * len(along_x)]
    given = {"cells": (3, 3, 3)} | values
    return Run("leanmd", (1, 1, 1), steps, given, atoms=(at, velocity))


def two_atoms(apart: float, speed: Any, steps: int = 1, **values: Any) -> Run:
    """Two atoms in a box, along x so far apart.

    ``speed``: of the first along x and of the second along y, or (3, 2).
    """
    velocity = speed * np.eye(3, 2) if np.ndim(speed) == 0 else speed
    return in_a_row([2.5, 2.5 + apart], velocity, steps, **values)


def approaching(apart: float, speed: float, steps: int = 1, **values: Any) -> Run:
    """Two atoms of which one flies towards the other."""
    return two_atoms(apart, speed * np.eye(3, 2) * [1.0, 0.0], steps, **values)


LEANMD = (
    two_atoms(1.2, 0.5),
    leanmd((1, 1, 1), 3),
    leanmd((2, 1, 2), 3, moving=True),
    two_atoms(0.6, 0.0),
    two_atoms(0.6, 0.0, decomposition="pairs"),
    two_atoms(3.0, 2000.0),
    two_atoms(3.0, 900.0, dt=0.03),
    two_atoms(3.0, -900.0, dt=0.03),
)  # fmt: skip
LEANMD += (
    two_atoms(2.5, 0.0),  # as far apart as the cutoff
    two_atoms(3.0, np.array([[0.0, 0.0], [900.0, 0.0], [0.0, 0.0]]), dt=0.03),
    two_atoms(3.0, np.array([[0.0, 0.0], [0.0, 0.0], [0.0, -900.0]]), dt=0.03),
    leanmd((2, 1, 1), 9, moving=True, rebuild=20, temperature=6.0),  # lists anew in step 5
    leanmd((2, 1, 1), 3, wrong=leanmd_faults.ghosts_of_one_side_lost),
    leanmd((2, 1, 1), 24, wrong=leanmd_faults.swapped_ids, temperature=9.0),
    leanmd((1, 1, 1), 2, decomposition="pairs"),
    leanmd((1, 1, 1), 2, decomposition="pairs", wrong=leanmd_faults.one_sided_compute),
    leanmd((1, 1, 1), 2, decomposition="pairs", dtype="float32"),
    leanmd((1, 1, 1), 3, decomposition="pairs", moving=True),
    approaching(1.0, 100.0, decomposition="pairs"),
    approaching(1.0, 100.0, steps=2),
    approaching(2.85, 74.0),  # into the cutoff, from where lists do not reach
    two_atoms(3.0, np.array([[0.0, 900.0], [0.0, 0.0], [0.0, 0.0]]), dt=1e306),
    in_a_row([0.5, 4.0, 4.6], np.zeros((3, 3))),
    in_a_row([0.0, 4.0], np.zeros((3, 2))),  # on the box's face
    *(
        in_a_row([at, 4.0], speed * np.eye(3, 2), dt=2.0**-8)  # to the other face, or beyond one
        for at, speed in [(SIDE - 2.0**-5, 8.0), (SIDE - 2.0**-6, 8.0), (2.0**-6, -8.0)]
    ),
    leanmd((3, 3, 3), 3, moving=True),  # fewer atoms per block than an audit asks for
    leanmd((1, 1, 1), 3, lattice=(5, 5, 5)),  # with clusters of atoms far from all ghosts
    leanmd((2, 1, 1), 5, dtype="float32", rebuild=3),  # positions seen as integers
)
ECHO = (
    Run("echo", (2, 3), 4),
    Run("echo", (3, 2), 4, {"bytes": 128}, moving=True),
    *(
        Run("echo", (2, 3), 8, {"bytes": 128}, wrong=partial(fault.applied, "echo"))
        for fault in (messages.one_bit, messages.cut_short, messages.of_the_step_before)
    ),
)  # fmt: skip
CG = (
    Run("cg", (1, 1, 1), 4, {"size": (3, 4, 11)}),
    Run("cg", (2, 2, 2), 4, {"size": (7, 5, 9)}, moving=True),
    Run("cg", (1, 2, 3), 4, {"size": (4, 5, 19), "operator": 7, "solution": "ones"}),
    Run("cg", (2, 2, 2), 3, {"size": (6, 6, 7), "preconditioner": "sgs"}, moving=True),
    Run("cg", (1, 3, 1), 3, {"size": (3, 7, 4), "preconditioner": "sgs", "operator": 7}),
    Run("cg", (3, 1, 2), 4, {"size": (7, 3, 9), "pipelined": True}, moving=True),
    Run("cg", (1, 2, 1), 40, {"size": (4, 4, 4), "tolerance": 1e-3}),
    Run("cg", (1, 2, 1), 40, {"size": (4, 4, 4), "tolerance": 1e-3, "pipelined": True}),
    Run("cg", (1, 1, 1), 4, {"size": (1, 1, 2)}),
    *(
        Run("cg", (1, 1, 1), 4, {"size": (1, 1, 1), "solution": solution, "pipelined": pipelined})
        for solution in ("ones", "noise")
        for pipelined in (False, True)
    ),
    *(
        Run("cg", (2, 2, 1), 6, {"size": (5, 5, 4), **values}, wrong=partial(fault.applied, "cg"))
        for fault, values in [
            (cg_faults.no_halo, {}),
            (cg_faults.forward_only, {"preconditioner": "sgs"}),
            (cg_faults.sums_of_one_block, {"pipelined": True}),
        ]
    ),
)  # fmt: skip
TRANSPOSE = (
    Run("transpose", (1, 1), 3, {"size": (19,)}),
    Run("transpose", (3, 1), 4, {"size": (29,)}, moving=True),
    Run("transpose", (7, 1), 3, {"size": (7,)}),
    Run("transpose", (1, 1, 1), 2, {"size": (4, 3, 5), "fft": True}),
    Run("transpose", (3, 2, 1), 2, {"size": (5, 4, 7), "fft": True}, moving=True),
    Run("transpose", (2, 4, 1), 2, {"size": (3, 9, 4), "fft": True}),
    *(
        Run("transpose", grid, 4, values, wrong=partial(fault.applied, "transpose"))
        for fault, grid, values in [
            (transpose_faults.not_transposed, (3, 1), {"size": (13,)}),
            (transpose_faults.one_part_left_out, (2, 2, 1), {"size": (5, 4, 7), "fft": True}),
        ]
    ),
)  # fmt: skip
SMALL_AMR = {"size": (9, 8), "refinement": (4, 3), "level": 1, "period": 3, "duration": 2}
AMR = (
    Run("amr", (1, 1), 7, SMALL_AMR),
    Run("amr", (2, 2), 8, SMALL_AMR, moving=True),
    Run("amr", (4, 1), 14, SMALL_AMR | {"initial": "linear", "placement": "no-talk"}),
    Run("amr", (1, 4), 2, SMALL_AMR),
    Run("amr", (2, 2), 5, SMALL_AMR | {"period": 1, "duration": 1, "placement": "high-water"}),
    Run("amr", (1, 3), 5, SMALL_AMR | {"level": 2, "sub_iterations": 1}, odf=2, moving=True),
    *(
        Run("amr", (2, 2), 7, SMALL_AMR, wrong=partial(fault.applied, "amr"))
        for fault in (amr_faults.no_halo, amr_faults.end_lost, amr_faults.last_part_lost)
    ),
    Run(
        "amr", (1, 1), 3, SMALL_AMR | {"initial": "linear"},
        wrong=partial(amr_faults.last_row_left_out.applied, "amr"),
    ),
)  # fmt: skip
RUNS = {
    "amr": AMR,
    "cg": CG,
    "transpose": TRANSPOSE,
    "echo": ECHO,
    "jacobi2d": JACOBI2D,
    "stencil3d": STENCIL3D,
    "pic": PIC,
    "leanmd": LEANMD,
}


@dataclass(frozen=True)
class Example:
    """Calls of kernels."""

    written: Callable[[], list[Any]]

    def see(self) -> Seen:
        """Make the calls; one that ends by an error shows only that."""
        found = hashlib.sha256()
        with np.errstate(all="ignore"):
            try:
                for part in map(np.asarray, self.written()):
                    same = (
                        np.where(part == part, part, part.dtype.type(7))
                        if part.dtype.kind == "f"
                        else part
                    )
                    found.update(f"{part.dtype} {part.shape}".encode() + same.tobytes())
            except Exception as error:
                return Seen((f"{type(error).__name__}: {error}",), "error")
        return Seen((), found.hexdigest())


def cases_of(file: str) -> Sequence[Case]:
    """The runs of the apps that use a file, its own app, the two stencils or all; and examples."""
    parts = set(file.split("/"))
    own = [app for app in RUNS if {app, OTHER_KERNELS.get(app)} & parts]
    if not own:
        stencils = {"halo", "grid_block.py"} & parts
        own = ["jacobi2d", "stencil3d"] if stencils else ["jacobi2d", "pic", "leanmd"]
    calls = [
        written for prefix in EXAMPLES if file.startswith(prefix) for written in EXAMPLES[prefix]
    ]
    small = file.startswith("kernels/") and not file.endswith("/pairs.py")
    runs = [run for app in own for run in RUNS[app] if not (small and run.large)]
    if "exact_sum" in parts:
        runs = runs[:1]  # to see whether a run notices; the examples reach more
    return (*map(Example, calls), *runs)


def known() -> dict[str, str]:
    """What each case shows, by its name."""
    calls = {Example(written) for group in EXAMPLES.values() for written in group}
    cases: dict[str, Case] = {case.written.__name__: case for case in calls}
    cases |= {f"{app} {n}": run for app, runs in RUNS.items() for n, run in enumerate(runs)}
    return {name: cases[name].see().facts for name in sorted(cases)}


OTHER_KERNELS = {"transpose": "pencils", "cg": "exact_sum"}  # of apps that have several
ENOUGH = (
    "grows-4500",
    "half-2048",
    "wide-2048",
    "zeros-2048",
    "fine-1",
)  # as Python others take long
TESTS = {  # of files, what runs cannot show
    "miniapps/grid_block.py": (
        "test_stencils.py::test_blocks_that_share_a_queue",
        "test_stencils.py::test_a_block_goes_on_from_saved_cells",
    ),
    "miniapps/stencil3d/block.py": (
        "test_stencils.py::test_waiting_takes_as_long_as_it_should",
        "test_stencils.py::test_work_is_as_much_as_it_should_be",
        "test_stencils.py::test_each_step_bears_the_load_of_its_sweeps",
    ),
    "miniapps/cg/block.py": (
        "test_cg.py::test_a_matrix_that_is_not_definite",
        "test_cg.py::test_curvatures_and_products",
        "test_cg.py::test_a_large_problem_is_validated_too",
        "test_cg.py::test_memory_of_blocks_that_have_migrated",
        "test_cg.py::test_continued_on_other_blocks",
        "test_cg.py::test_numbers_of_a_checkpoint",
        "test_cg.py::test_the_tolerance_is_met_at_once",
        "test_cg.py::test_ghosts_are_exchanged_as_often_as_needed",
    ),
    "miniapps/cg/pipelined.py": (
        "test_cg.py::test_a_matrix_that_is_not_definite",
        "test_cg.py::test_a_reduction_travels_while_a_block_waits_for_its_halo",
    ),
    "miniapps/transpose/block.py": (
        "test_transpose.py::test_steps_of_a_checkpoint",
        "test_transpose.py::test_matrices_are_compared_in_parts",
        "test_transpose.py::test_rows_of_another_length",
    ),
    "miniapps/echo/block.py": ("test_checkpoints.py::test_numbers_of_echo_go_on",),
    "miniapps/transpose/pencils.py": (
        "test_transpose.py::test_steps_of_a_checkpoint",
        "test_transpose.py::test_continued_on_other_blocks",
        "test_transpose.py::test_fields_in_parts",
        "test_transpose.py::test_sums_over_many_points",
    ),
    "kernels/transpose/cpu.py": (
        "test_transpose.py::test_rows_for_others",
        "test_transpose.py::test_rows_from_others",
        "test_transpose.py::test_own_rows",
    ),
    "kernels/pencils/cpu.py": (
        "test_transpose.py::test_parts_of_lines",
        "test_transpose.py::test_transforms_are_fourier_transforms",
    ),
    "miniapps/amr/block.py": (
        "test_amr.py::test_a_large_problem_is_validated_too",
        "test_amr.py::test_continued_on_other_blocks",
        "test_amr.py::test_blocks_of_refinements_migrate",
    ),
    "miniapps/amr/layout.py": (
        "test_amr.py::test_blocks_of_refinements_cover_them_once",
        "test_amr.py::test_placements",
        "test_amr.py::test_thin_parts_are_joined",
        "test_amr.py::test_edges_that_have_no_label",
        "test_amr.py::test_edges_lead_there_and_back",
    ),
    "kernels/amr/cpu.py": (
        "test_amr.py::test_a_sweep",
        "test_amr.py::test_interpolation",
        "test_amr.py::test_a_check",
    ),
    "kernels/cg/cpu.py": (
        # Rows that begin at cache lines: without a compiler, no line may end beyond an array.
        *(
            f"test_cg.py::test_the_operator[{numbers}-cells{n}-{p}]"
            for numbers in ("lines", "lines, many magnitudes")
            for n in range(7)
            for p in (27, 7)
        ),
        "test_cg.py::test_strips_of_rows",
        "test_cg.py::test_updates",
        "test_cg.py::test_digits_get_room_after_each_plane",
        "test_cg.py::test_several_colours",
        "test_cg.py::test_strips_of_colours[3-27]",
        "test_cg.py::test_one_colour",
    ),
    "miniapps/leanmd/pairs.py": (
        "test_checkpoints.py::test_resumed_as_if_never_stopped[leanmd, pairs]",
    ),
    "miniapps/leanmd/domain.py": ("test_checkpoints.py::test_other_decomposition_of_leanmd",),
    "kernels/leanmd/cpu/neighbours.py": (
        "test_leanmd.py::test_lists",
        "test_leanmd.py::test_pairs_as_far_apart_as_lists_reach",
        "test_leanmd.py::test_lists_without_room",
    ),
    "kernels/leanmd/cpu/motion.py": ("test_leanmd.py::test_sums_of_motion",),
    "kernels/state_hash/__init__.py": ("test_state_hash.py",),
    "kernels/exact_sum/__init__.py": ("test_exact_sums.py",),
    "kernels/exact_sum/cpu.py": (
        "test_exact_sums.py::test_hostile_numbers",
        "test_exact_sums.py::test_nan_and_inf",
        *(f"test_exact_sums.py::test_long_arrays[{kind}]" for kind in ENOUGH),
        "test_exact_sums.py::test_long_arrays_of_float32",
        "test_exact_sums.py::test_products_of_one_size",
        "test_exact_sums.py::test_products_that_are_0",
        "test_exact_sums.py::test_which_products_the_fast_loop_takes",
        "test_exact_sums.py::test_which_numbers_the_fast_loop_takes",
        "test_exact_sums.py::test_a_chunk_like_the_one_before_is_fast",
        "test_exact_sums.py::test_which_products_are_added_one_by_one",
        "test_exact_sums.py::test_errors_of_products_are_finer_than_products",
        "test_exact_sums.py::test_error_of_a_product_underflows",
        "test_exact_sums.py::test_numbers_that_fill_the_bins",
        "test_exact_sums.py::test_digits_get_room_again",
        "test_exact_sums.py::test_room_is_made_in_time",
        "test_exact_sums.py::test_room_is_made_for_each_chunk",
        "test_exact_sums.py::test_arrays_that_are_not_alike_are_refused",
    ),
}


def tests_of(file: str) -> Sequence[str]:
    """The tests of a file, by their names in pytest."""
    return TESTS.get(file, ())
