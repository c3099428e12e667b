"""LeanMD: against LAMMPS, plain NumPy and exact arithmetic, and programs that are wrong."""

from __future__ import annotations

import dataclasses
import math
import pickle
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import lammps_peer
import llvmlite.binding
import numpy as np
import pytest
import support
from hypothesis import given
from hypothesis import strategies as st
from placed_atoms import Placed
from profiles import examples

from miniapps import apps, kernels
from miniapps.audit import AuditPlan
from miniapps.devices.backend import Device
from miniapps.devices.cpu.fused import fused
from miniapps.drivers.engine import Engine
from miniapps.kernels.leanmd.units import ENERGY_UNIT, FAR, FAST, FASTEST, FORCE_UNIT, NO_ERROR
from miniapps.leanmd.atoms import Bins, Lists
from miniapps.leanmd.block import LeanmdBlock
from miniapps.leanmd.domain import Explosion
from miniapps.leanmd.problem import Gradient, LeanmdProblem
from miniapps.leanmd.reference_solution import reference_hash
from miniapps.leanmd.thermo import all_rows, kept_energy, table, wide

APP = apps.load("leanmd")
CPU = kernels.load("leanmd", "cpu")
BOTH = ("blocks", "pairs")
KEYS = ("temperature", "kinetic", "potential", "total", "pressure")  # as `lammps_peer.KEYWORDS`
Grid = tuple[int, int, int]
PLAN = AuditPlan(samples=16, every=0, seed=3)


def solve(problem: LeanmdProblem, steps: int, grid: Grid = (1, 1, 1)) -> support.Solved:
    """A problem solved under the serial driver, and audited."""
    return support.solve("leanmd", problem, grid, steps, plan=PLAN)


def blocks_of(problem: LeanmdProblem, grid: Grid = (1, 1, 1)) -> list[Any]:
    """All blocks of a problem, of both kinds where there are two."""
    layout = support.layout_of(problem, grid)
    return [APP.Block(problem, layout, index, Device()) for _, index in layout.numbers]


def domains(blocks: list[Any]) -> list[Any]:
    """Those that own atoms."""
    return [block for block in blocks if block.kind != "compute"]


def begun(problem: LeanmdProblem, grid: Grid = (1, 1, 1)) -> list[Any]:
    """The domains of a problem, once the first forces are known and before the first step."""
    blocks = blocks_of(problem, grid)
    Engine(blocks).setup()
    return domains(blocks)


def moved(problem: LeanmdProblem, steps: int, grid: Grid = (1, 1, 1)) -> list[Any]:
    """The domains of a problem after some steps, which nothing validates."""
    blocks = blocks_of(problem, grid)
    engine = Engine(blocks).setup()
    for step in range(steps):
        engine.round(step, 1)
    engine.close(steps)
    return domains(blocks)


def by_id(owners: list[Any], name: str) -> np.ndarray:
    """An array of all atoms 1 to n: (3, n)."""
    ids = np.concatenate([owner.atoms.ids for owner in owners])
    rows = np.concatenate([getattr(o.atoms, name)[:, : o.atoms.count] for o in owners], axis=1)
    return rows[:, np.argsort(ids)]


def forces_of(owners: list[Any]) -> np.ndarray:
    """Forces on atoms 1 to n, in epsilon / sigma."""
    return by_id(owners, "force") * FORCE_UNIT


def ids_of(owners: list[Any]) -> list[int]:
    """The ids of the atoms that exist."""
    return sorted(int(n) for owner in owners for n in owner.atoms.ids)


def thermo_of(solved: support.Solved) -> list[dict[str, Any]]:
    """The thermo table of a record."""
    return solved.problem.results(solved.outcome.measures)["thermo"]


def kept(problem: LeanmdProblem, rows: np.ndarray) -> np.ndarray:
    """For each row of a thermo table, the energy per atom that the motion keeps."""
    return np.array([kept_energy(problem, row[1:]) for row in rows])


def apart(problem: LeanmdProblem, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """From b to a by the shortest way."""
    box = problem.box.reshape(3, *[1] * (a.ndim - 1))
    return a - b - box * np.rint((a - b) / box)


# Beside LAMMPS -----------------------------------------------------------------------------------


def jittered(**values: Any) -> LeanmdProblem:
    """864 atoms at a liquid's density, each a little off its place."""
    return LeanmdProblem(**({"cells": (4, 3, 4), "per_cell": 18} | values))


@pytest.mark.slow
@pytest.mark.parametrize("decomposition", BOTH)
@pytest.mark.parametrize("shift", [False, True])
def test_forces_and_thermo_of_lammps(tmp_path: Path, decomposition: str, shift: bool) -> None:
    """Catches a wrong force, image, cutoff or shift, or energies and pressure of another theory.

    A pair's force is off by half a `FORCE_UNIT`, 4e-12, and the sum of an atom's 60 to 80 by less
    than 80 times that: 2e-12 of the largest of 350, 2e-11 of the smallest of 25. Seen: 3e-13 and
    4e-12. Energies and pressures, with random roundings: 1e-14.
    """
    problem = jittered(decomposition=decomposition, shift=shift)
    owners = begun(problem, (2, 1, 1))
    position = by_id(owners, "position") % problem.box[:, None]
    right, (row,) = lammps_peer.ask(tmp_path, position, by_id(owners, "velocity"), problem)
    off = np.linalg.norm(forces_of(owners) - right, axis=0)
    strength = np.linalg.norm(right, axis=0)
    assert off.max() <= 1e-10 * np.abs(right).max()
    assert (off <= 1e-10 * strength).all()
    ours = table(problem, owners[0].rows)[0]
    np.testing.assert_allclose([ours[key] for key in KEYS], row, rtol=1e-12)


@pytest.mark.slow
def test_melt_of_lammps(tmp_path: Path) -> None:
    """Catches another time step or order of kicks and drifts than velocity Verlet's.

    On the lattice all of a shell's pairs are rounded alike, by up to half an `ENERGY_UNIT`: for an
    atom's 27 pairs 6e-12, or 1e-12 of its energy; a little less is seen.

    A melt's Lyapunov exponent is near 1 / tau in these units, so chaos has hardly begun after 100
    steps, half a tau. Seen: 4e-14 in temperature and energies, 1e-12 in pressure; after 300 steps
    3e-12 and 4e-11. Positions that differ from LAMMPS's by 1e-13, the error of a step's rounded
    force, would have grown by exp(5) = 150 at ten times that exponent: 2e-11. The pressure is a
    difference of numbers 20 times as large, and its slope steep: a hundred times that.

    By pairs of cells the atoms have the same bits, see `test_any_cells_on_any_blocks`.
    """
    problem, steps = LeanmdProblem(), 100
    owners = begun(problem)
    begin = by_id(owners, "position"), by_id(owners, "velocity")
    _, rows = lammps_peer.ask(tmp_path, *begin, problem, steps=(0, steps))
    ours = np.array([[row[key] for key in KEYS] for row in thermo_of(solve(problem, steps))])
    np.testing.assert_allclose(ours[0], rows[0], rtol=1e-12)
    np.testing.assert_allclose(ours[1, :4], rows[1, :4], rtol=2e-11)
    np.testing.assert_allclose(ours[1, 4], rows[1, 4], rtol=2e-9)


def test_a_box_that_is_narrower_than_two_cutoffs(tmp_path: Path) -> None:
    """Catches atoms that meet the nearest image alone, where a second one is within the cutoff."""
    problem = LeanmdProblem(lattice=(2, 2, 3))
    owners = begun(problem)
    right, (row,) = lammps_peer.ask(
        tmp_path, by_id(owners, "position"), by_id(owners, "velocity"), problem
    )
    ours = table(problem, owners[0].rows)[0]
    np.testing.assert_allclose([ours[key] for key in KEYS], row, rtol=1e-11)
    # On a lattice all forces are nothing: 54 roundings of half a unit each are left.
    np.testing.assert_allclose(forces_of(owners), right, atol=54 * FORCE_UNIT)
    assert solve(problem, 10).failed == set()  # the reference sees them, too


# Physics -----------------------------------------------------------------------------------------


def test_forces_are_slopes_of_the_energy() -> None:
    """Catches a force and an energy of different potentials, both wrong or not.

    The error of the difference quotient of fourth order is h^4 / 30 times the fifth derivative,
    below 4 12 13 14 15 16 / r^17 = 4e7 for each neighbour at 0.84, say six: 3e-8. Energies are
    multiples of 2^-40 per pair, so a quotient of them is off by up to 1.5 (76 2^-41) / h = 2e-7.
    """
    h = 2.0**-12
    still = jittered(cells=(3, 3, 3))
    owners = begun(still)
    at, force = by_id(owners, "position"), forces_of(owners)

    def energy(atom: int, axis: int, off: float) -> tuple[float, int]:
        moved = at.copy()
        moved[axis, atom] += off
        problem = Placed(cells=(3, 3, 3), at=moved, speed=np.zeros_like(at))
        totals = begun(problem)[0].rows[0, 1:]
        return wide(totals, 8) * ENERGY_UNIT / 2, wide(totals, 12)

    validated = 0
    for atom, axis in [(n, n % 3) for n in range(0, still.atoms, 41)]:
        seen = [energy(atom, axis, n * h) for n in (-2, -1, 1, 2)]
        if len({pairs for _, pairs in seen}) > 1:
            continue  # one crosses the cutoff, where the potential is cut off
        u = [value for value, _ in seen]
        slope = (8 * (u[2] - u[1]) - (u[3] - u[0])) / (12 * h)
        assert abs(force[axis, atom] + slope) < 3e-7
        validated += 1
    assert validated >= 9


RADIUS = 0.6  # of the orbit, half the distance
PULL = 24 / 1.2**7 - 48 / 1.2**13
SPEED = math.sqrt(PULL * RADIUS)
TIME = 1.25 * 2 * math.pi * RADIUS / SPEED  # of a turn and a quarter


ALONG, ACROSS = np.array([[0.6, 0.8, 0.0], [0.0, 0.0, 1.0]])


def circling(steps: int) -> Placed:
    """Two atoms that circle about the corner of the box, in a plane at an angle to it."""
    return Placed(
        cells=(3, 3, 3), dt=TIME / steps, thermo=1, rebuild=7,
        at=RADIUS * np.array([ALONG, -ALONG]).T, speed=SPEED * np.array([ACROSS, -ACROSS]).T,
    )  # fmt: skip


def orbit(steps: int, grid: Grid) -> tuple[float, float, float, float]:
    """After `TIME`: how far one of them is off, changes of energy and of angular momentum.

    And the position quantum.
    """
    problem = circling(steps)
    owners = moved(problem, steps, grid)
    ends = [spin(problem, now) for now in (begun(problem, grid), owners)]
    at = by_id(owners, "position")[:, 0]
    off = np.linalg.norm(apart(problem, at, RADIUS * ACROSS))
    energy = np.ptp(kept(problem, owners[0].rows))
    return float(off), float(energy), float(np.abs(ends[1] - ends[0]).max()), problem.quantum


def spin(problem: LeanmdProblem, owners: list[Any]) -> np.ndarray:
    """The angular momentum of two atoms about the point between them."""
    (x, y), (v, w) = by_id(owners, "position").T, by_id(owners, "velocity").T
    return np.cross(apart(problem, x, y), v - w) / 2


@pytest.mark.slow
@pytest.mark.parametrize("grid", [(1, 1, 1), (2, 3, 3)])
def test_two_atoms_circle(grid: Grid) -> None:
    """Catches a wrong period or image: they circle about a corner where eight blocks meet.

    Velocity Verlet goes around too slowly by a share of dt^2 and swings about its circle by as
    much. Energy is kept up to dt^2 times a function of the distance, so up to dt^4. Both hold but
    for terms of the next order: a distance swings 5.5 rad per tau, (5.5 dt)^2 is 0.08 at first.

    Angular momentum is kept but for roundings: of half a `FORCE_UNIT` of force all the time, at the
    arm `RADIUS`, and of half a quantum of position in each step; for two axes and two atoms each.
    """
    counts = 80, 160
    coarse, fine = (orbit(steps, grid) for steps in counts)
    assert coarse[0] / fine[0] == pytest.approx(4, rel=0.03)
    assert coarse[1] / fine[1] == pytest.approx(16, rel=0.03)
    assert fine[0] < 0.03 * RADIUS
    for steps, (_, _, turned, quantum) in zip(counts, (coarse, fine), strict=True):
        assert turned < 2 * (TIME * RADIUS * FORCE_UNIT + steps * SPEED * quantum)


@pytest.mark.slow
@pytest.mark.parametrize("decomposition", BOTH)
def test_forces_add_up_to_nothing(decomposition: str) -> None:
    """Catches a pair that is seen from one side only, and momentum from anywhere but roundings.

    A kick rounds a velocity, which is below 16 here, by up to 2^-50; there are two in a step.
    """
    steps = 20
    problem = jittered(decomposition=decomposition, thermo=1)
    begin = by_id(begun(problem), "velocity")
    solved = solve(problem, steps)
    rows = all_rows(solved.outcome.measures)
    assert len(rows) == steps + 1 and (rows[:, 6:9] == 0).all()
    end = solved.fields["atoms"][:, 3:].T
    assert np.abs(end).max() < 16
    for before, after in zip(begin, end, strict=True):
        change = math.fsum([*after, *-before])
        assert abs(change) <= problem.atoms * 2 * steps * 2.0**-50


@pytest.mark.slow
def test_single_precision_on_every_grid() -> None:
    """Catches bits that depend on blocks, on pairs or on a migration, and a check of other bits."""
    problem = jittered(dtype="float32", rebuild=3)
    solved = [solve(problem, 7, grid) for grid in ((1, 1, 1), (2, 1, 2))]
    solved.append(solve(dataclasses.replace(problem, decomposition="pairs"), 7))
    for one in solved:
        assert one.failed == set()
        assert "differs from reference" in [check.name for check in one.checks]
    blocks = blocks_of(problem, (2, 1, 1))
    Engine(blocks).setup()
    for step in range(7):
        blocks = [pickle.loads(pickle.dumps(block)) for block in blocks]
        Engine(blocks).round(step, 1)
    double = solve(dataclasses.replace(problem, dtype="float64"), 7)
    hashes = {*(one.state_hash for one in solved), support.state_hash_of(blocks)}
    assert len(hashes) == 1 and double.state_hash not in hashes


@pytest.mark.slow
def test_energy_is_kept_for_10000_steps() -> None:
    """Catches energy that is pumped in or leaks out, by 1e-4 of the kinetic energy in 50 tau.

    What is left is a random walk: where a pair crosses the cutoff within a step its force sets in
    or ends at once, F = 0.039, and the energy changes by F v dt times -1/2 to 1/2. With v^2 = 4 T
    for those that cross, 1e-4 each; an atom's surface of 4 pi 2.5^2 is crossed 32 times per tau.
    That is 4e-3 / sqrt(atoms) per atom after 50 tau, or 5.5e-5 of the kinetic energy. The same
    seed walks the same way on every machine; seen: 5.5e-5.
    """
    problem = LeanmdProblem(thermo=100, shift=True)
    solved = solve(problem, 11_000)
    energy = kept(problem, all_rows(solved.outcome.measures))[10:]  # the lattice has melted
    kinetic = np.mean([row["kinetic"] for row in thermo_of(solved)[10:]])
    drift = (energy[-10:].mean() - energy[:10].mean()) / kinetic
    assert len(energy) == 101 and abs(drift) < 1e-4


@pytest.mark.long
def test_energy_error_falls_with_dt_squared() -> None:
    """Catches an integrator of first order, or kicks with old forces.

    Over 0.4 tau of the same path the energy's error is dt^2 times a function of time. What the
    crossings of the cutoff add, in proportion to dt, is a random 1e-4 (dt / 0.005) sqrt(32 0.4 /
    500): 6e-6 at the shortest step, 2 % of the error of 4e-4 there.
    """
    spread = []
    for dt in (0.008, 0.004, 0.002):
        every = round(0.008 / dt)
        problem = LeanmdProblem(lattice=(5, 5, 5), dt=dt, thermo=every, shift=True)
        (owner,) = moved(problem, 50 * every)
        spread.append(np.ptp(kept(problem, owner.rows)))
    for coarse, fine in zip(spread, spread[1:], strict=False):
        assert coarse / fine == pytest.approx(4, rel=0.06)


# Atoms that change domain ------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("grid", "decomposition", "steps"), [((3, 3, 3), "blocks", 150), ((1, 1, 1), "pairs", 40)]
)
def test_atoms_after_many_changes_of_domain(grid: Grid, decomposition: str, steps: int) -> None:
    """Catches an atom that is lost, doubled or in another's domain, after many moves."""
    problem = LeanmdProblem(
        cells=(3, 3, 3), per_cell=9, temperature=8.0, rebuild=1, decomposition=decomposition
    )
    blocks = blocks_of(problem, grid)
    engine, owners = Engine(blocks).setup(), domains(blocks)
    moves, before = 0, {int(n): owner.index for owner in owners for n in owner.atoms.ids}
    for step in range(steps):
        engine.round(step, 1)
        now = {int(n): owner.index for owner in owners for n in owner.atoms.ids}
        assert ids_of(owners) == list(range(1, problem.atoms + 1))
        moves += sum(now[n] != before[n] for n in now)
        before = now
    for owner in owners:
        at = owner.atoms.own("position")
        assert (at >= owner.low[:, None]).all() and (at < owner.high[:, None]).all()
    assert moves > steps
    alone = moved(dataclasses.replace(problem, decomposition="blocks"), steps)
    assert support.state_hash_of(owners) == support.state_hash_of(alone)


def hashes(problem: LeanmdProblem, steps: int, grids: Sequence[Grid]) -> set[str]:
    """State hashes of runs on blocks, and by pairs where there are cells enough."""
    runs = [moved(problem, steps, grid) for grid in grids]
    if min(problem.shape) >= 3:
        runs.append(moved(dataclasses.replace(problem, decomposition="pairs"), steps))
    return {support.state_hash_of(run) for run in runs}


@pytest.mark.slow
@given(
    st.tuples(st.integers(2, 4), st.integers(2, 3), st.integers(2, 3)), st.data(),
    st.integers(0, 8), st.integers(0, 8), st.integers(1, 9), st.integers(0, 99),
)  # fmt: skip
@examples(20)
def test_any_cells_on_any_blocks(cells, data, low, high, rebuild, seed):
    """Catches another bit on odd grids, with empty cells, and with lists of any age."""
    if low + high < 3:
        low, high = 3, high
    problem = LeanmdProblem(
        cells=cells, cutoff=1.6, gradient=Gradient(low, high), rebuild=rebuild, seed=seed
    )
    grid = data.draw(st.tuples(*(st.integers(1, n) for n in cells)))
    assert hashes(problem, 8, [grid]) == {reference_hash(problem, 8)}


GRIDS = [(1, 1, 1), (2, 1, 1), (1, 3, 2), (3, 2, 1), (2, 2, 2), (5, 3, 3)]


@pytest.mark.slow
@pytest.mark.parametrize("per_cell", [None, 1, 2, 5, 7])
def test_few_atoms_in_a_cell(per_cell: int | None) -> None:
    """Catches lanes without an atom that push, are counted, or are written beyond the end.

    And a block without atoms or ghosts, and clusters that are not full: None is 0, 5, 10, 15, 20.
    """
    filled = {"per_cell": per_cell} if per_cell else {"gradient": Gradient(0, 20)}
    problem = LeanmdProblem(cells=(5, 3, 3), cutoff=1.7 if per_cell else 2.1, **filled)
    assert per_cell or problem.per_layer.tolist() == [0, 5, 10, 15, 20]
    assert hashes(problem, 12, GRIDS) == {reference_hash(problem, 12)}


@pytest.mark.slow
def test_age_and_order_of_lists_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a sum that depends on its order, a list that is too old, and a skin that matters."""
    hot, seen = LeanmdProblem(lattice=(5, 5, 5), temperature=4.0), set()
    for rebuild in (1, 2, 5, 20, 1000):
        for skin in (0.05, 0.3):
            problem = dataclasses.replace(hot, rebuild=rebuild, skin=skin)
            seen.add(support.state_hash_of(moved(problem, 30, (2, 1, 2))))
    right = Bins.sort

    def backwards(*arguments: Any, **named: Any) -> np.ndarray:
        order = right(*arguments, **named)
        return order[::-1].copy() if named.get("turning") else order

    monkeypatch.setattr(Bins, "sort", backwards)
    seen.add(support.state_hash_of(moved(hot, 30)))
    assert seen == {reference_hash(hot, 30)}


# Explosions --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("decomposition", BOTH)
@pytest.mark.parametrize(
    ("dt", "said"),
    [
        (0.05, r"step [1-9]\d*: atom \d+ is 0\.\d+ from another one; below 0\.66"),
        (100.0, r"step 1: atom \d+ flies too fast"),
        (1e300, r"step 1: atom \d+ flies apart"),
    ],
)
def test_a_step_that_is_too_long(decomposition: str, dt: float, said: str) -> None:
    """Catches forces that overflow their integers, are clamped, or an atom that is nowhere."""
    problem = LeanmdProblem(lattice=(6, 6, 6), dt=dt, decomposition=decomposition)
    with pytest.raises(Explosion, match=said):
        solve(problem, 200)


@pytest.mark.slow
@pytest.mark.parametrize("decomposition", BOTH)
@pytest.mark.parametrize("grid", [(1, 1, 1), (2, 2, 2)])
def test_atoms_that_begin_too_close(decomposition: str, grid: Grid) -> None:
    """Catches a limit off by one, on either side, and the wrong atom or step in the message."""
    away = np.array([[5.0, 5.0, 5.0]] * 2)
    middle = np.array([[2.8, 2.8, 2.8]] * 2)  # where cells and blocks meet
    for apart, raises in ((0.0, True), (0.6599, True), (0.6601, False)):
        at = np.concatenate([away, middle]).T.copy()
        at[0] += [-0.9, 0.9, -apart / 2, apart / 2]
        problem = Placed(
            cells=(4, 4, 4), at=at, speed=np.zeros((3, 4)), decomposition=decomposition
        )
        if raises:
            said = f"step 0: atom [34] is {apart:.3g}".replace(".", r"\.")
            with pytest.raises(Explosion, match=said):
                begun(problem, grid)
        else:
            force = forces_of(begun(problem, grid))[0, 3]
            right = 48 / apart**13 - 24 / apart**7
            assert force == pytest.approx(right, rel=1e-12) and force < 2**14


@pytest.mark.slow
@pytest.mark.parametrize("decomposition", BOTH)
def test_explosion_on_the_command_line(decomposition: str) -> None:
    """Catches a result that is given all the same, or an error that does not name the place."""
    words = ["--lattice", "7x7x7", "--dt", "0.05", "--steps", "60"]
    done = support.in_process("run", "leanmd", *words, "--decomposition", decomposition)
    assert done.returncode == 3 and "state" not in done.stdout
    said = (
        r"miniapps: run failed: step \d+: atom \d+ is 0\.\d+ from another one; "
        r"below .* cannot be computed\n"
    )
    assert re.fullmatch(said, done.stderr)


def test_atoms_almost_at_rest() -> None:
    """Catches a right run that is refused: the rounding of energies is no drift."""
    assert solve(LeanmdProblem(lattice=(4, 4, 4), cutoff=2.0, temperature=1e-12), 8).failed == set()


@pytest.mark.slow
@pytest.mark.parametrize("decomposition", BOTH)
def test_atoms_too_fast_to_sum(decomposition: str) -> None:
    """Catches squares of velocities that overflow their sum: a run with temperature -6e6 passed."""
    at = np.array([[2.0, 6.0], [2.0, 6.0], [2.0, 6.0]])
    for speed, raises in ((900.0, False), (3000.0, True)):
        fast = np.array([[speed, -speed], [0, 0], [0, 0]])
        problem = Placed(cells=(4, 4, 4), at=at, speed=fast, decomposition=decomposition)
        if raises:
            with pytest.raises(Explosion, match="step 0: atom [12] is faster than 1000"):
                begun(problem)
        else:
            row = table(problem, begun(problem)[0].rows)[0]
            assert row["kinetic"] == pytest.approx(speed**2 / 2, rel=1e-12)


# Kernels -----------------------------------------------------------------------------------------

moderate = st.floats(-1e100, 1e100, allow_subnormal=True)


@given(moderate, moderate, moderate, st.sampled_from([0, 1, -1, 2]))
def test_fused(a: float, b: float, c: float, nearly: int) -> None:
    """Catches a product that is rounded before c is added: nothing but its error would be left."""
    if nearly:
        c = float(np.nextafter(-a * b, nearly * math.inf)) if nearly != 2 else -a * b
    assert fused(a, b, c) == float(Fraction(a) * Fraction(b) + Fraction(c))


def test_fused_of_arrays() -> None:
    """Catches lanes that take another's numbers."""
    a, b, c = np.random.default_rng(3).uniform(-1, 1, (3, 101))
    c[::2] = -a[::2] * b[::2]
    right = [
        float(Fraction(x) * Fraction(y) + Fraction(z)) for x, y, z in zip(a, b, c, strict=True)
    ]
    assert fused(a, b, c).tolist() == right


def test_draw() -> None:
    """Catches numbers beyond their range, off their mean or spread, or that follow from a place."""
    ids = np.random.default_rng(5).permutation(1 + np.arange(20_000))
    numbers = np.empty((3, len(ids)))
    CPU.draw(ids, 11, numbers)
    assert numbers.min() >= -0.5 and numbers.max() < 0.5
    deviation = 1 / math.sqrt(12)
    assert np.abs(numbers.mean(axis=1)).max() < 5 * deviation / math.sqrt(len(ids))
    # The fourth moment of a uniform number is 9/5 of its variance squared.
    spread = 5 * math.sqrt(0.8 / len(ids))
    assert np.abs(numbers.var(axis=1) * 12 - 1).max() < spread
    assert np.abs(np.corrcoef(numbers) - np.eye(3)).max() < 5 / math.sqrt(len(ids))
    alone, other = np.empty((3, 1)), np.empty((3, 1))
    CPU.draw(ids[7:8].copy(), 11, alone)
    CPU.draw(ids[7:8].copy(), 12, other)
    assert (alone[:, 0] == numbers[:, 7]).all() and (other != alone).all()


@given(st.integers(0, 40), st.integers(0, 1 << 32), st.sampled_from([1.0, 30.0, 300.0]))
def test_sums_of_motion(count: int, seed: int, fast: float) -> None:
    """Catches a sum that overflows, loses low bits or takes in empty places, and flags not cleared.

    An atom's own v^2 must be below 2^22, its speed below 2048.
    """
    rng = np.random.default_rng(seed)
    velocity = rng.normal(0, fast, (3, count + 5))
    force = rng.integers(-(1 << 55), 1 << 55, (3, count + 5))
    totals = np.zeros(8, np.int64)
    flags = np.ones(4, np.int64)
    CPU.clear(flags)  # else an old STRAY makes atoms change domain in every step
    CPU.sums_of_motion(count, velocity, force, totals, flags)
    too_fast = np.flatnonzero((np.abs(velocity[:, :count]) > FASTEST).any(axis=0))
    wanted = list(NO_ERROR)
    wanted[FAST] = min(too_fast, default=NO_ERROR[FAST])
    assert flags.tolist() == wanted
    v = [[Fraction(x) for x in row[:count].tolist()] for row in velocity]
    per_unit = round(1 / ENERGY_UNIT)
    # Fractions round as numbers in NumPy do, halves to even.
    assert totals[2:5].tolist() == [sum(round(x * per_unit) for x in row) for row in v]
    assert totals[5:8].tolist() == [sum(row[:count].tolist()) for row in force]
    vx, vy, vz = velocity[:, :count]
    v2 = fused(vz, vz, fused(vy, vy, vx * vx))
    assert wide(totals, 0) == sum(round(Fraction(x) * per_unit) for x in v2.tolist())
    assert (totals[1] >> 32) < max(count, 1)


def strewn(count: int, seed: int, low: float = -1.0, high: float = 7.0) -> np.ndarray:
    """Points in and around a box from 0 to 6: (3, count), and places behind them."""
    position = np.full((3, count + CPU.WIDTH), 1.0)
    position[:, :count] = np.random.default_rng(seed).uniform(low, high, (3, count))
    position[:, count:] = FAR * np.arange(1, CPU.WIDTH + 1)
    return position


@given(st.integers(0, 300), st.integers(0, 99), st.booleans())
def test_sort_into_bins(count: int, seed: int, turning: bool) -> None:
    """Catches an atom that is dropped or doubled, in another bin, or a row walked far back."""
    position = strewn(count, seed)
    bins = Bins(np.zeros(3), np.array([6.0, 5.0, 4.0]))
    order = bins.sort(CPU, position, count, turning)
    assert sorted(order.tolist()) == list(range(count))
    places = ((position[:, :count].T - bins.low) * bins.density).astype(int)
    places = np.clip(places, 0, bins.bins - 1)[order]
    if turning:
        jumps = np.abs(np.diff(places, axis=0))[:, :2].sum(axis=1)
        rows = places[:, 0] * bins.bins[1] + places[:, 1]
        assert len(set(rows)) == 1 + np.count_nonzero(np.diff(rows)) or count == 0
        assert count < 200 or jumps.max() == 1
        return
    keys = np.ravel_multi_index(tuple(places.T), tuple(bins.bins))
    counted = np.searchsorted(keys, np.arange(bins.bins.prod() + 1))
    assert (np.diff(keys) >= 0).all() and bins.starts.tolist() == counted.tolist()


def within_reach(
    position: np.ndarray, others: np.ndarray, total: int, reach: float, own: bool
) -> list[set[int]]:
    """By brute force, for each cluster of four places, the others near any of them."""
    dx, dy, dz = position[:, :, None] - others[:, None, :total]
    near = fused(dz, dz, fused(dy, dy, dx * dx)) < reach * reach
    lists = []
    for first in range(0, position.shape[1] - CPU.WIDTH + 1, CPU.WIDTH):
        found = set(np.flatnonzero(near[first : first + CPU.WIDTH].any(axis=0)).tolist())
        lists.append(found - set(range(first, first + CPU.WIDTH)) if own else found)
    return lists


@given(st.integers(1, 90), st.integers(0, 120), st.integers(0, 99), st.booleans())
@examples(40)
def test_lists(count: int, more: int, seed: int, own: bool) -> None:
    """Catches a pair that no list holds, one that is far apart, and one that is listed twice."""
    reach, corners = 1.3, (np.full(3, -1.0), np.full(3, 7.0))
    total = count + more if own else more
    others = strewn(total, seed, -2.0, 8.0)  # some lie beyond the bins
    position = others if own else strewn(count, seed + 100, 0.0, 6.0)
    lists = Lists(own)
    lists.fill(CPU, count, position, others, total, corners, reach)
    right = within_reach(position, others, total, reach, own)
    for cluster, end in enumerate(lists.starts[1:]):
        entries = lists.neighbors[lists.starts[cluster] : end].tolist()
        first = cluster * CPU.WIDTH
        assert len(set(entries)) == len(entries) and set(entries) <= right[cluster]
        mine = position[:, first : min(first + CPU.WIDTH, count)]
        padded = np.concatenate([mine, np.full((3, CPU.WIDTH - mine.shape[1]), 5e9)], axis=1)
        (needed,) = within_reach(padded, others, total, reach, False)
        needed -= set(range(first, first + CPU.WIDTH)) if own else set()
        assert needed <= set(entries)
        assert lists.last[cluster] == max(*entries, 0, own * (first + CPU.WIDTH - 1))


@pytest.mark.parametrize("size", [(500, 4, 4), (4, 20, 60), (3.2, 40, 3.2), (3.2, 3.2, 3.2)])
@pytest.mark.parametrize("is_near", [True, False])
def test_pairs_as_far_apart_as_lists_reach(size: Sequence[float], is_near: bool) -> None:
    """Catches pairs that float32 or a place beyond all bins loses, and a list of farther ones."""
    count, rng, (low, sides, reach) = 200, np.random.default_rng(5), (1e5, np.array(size), 1.3)
    farther = reach + 2.0**-20 * (sides.max() / 2 + reach)  # twice what the kernel adds
    steps = rng.normal(size=(count, 3))
    steps *= (0.999999999 * reach if is_near else 1.000000001 * farther) / np.linalg.norm(
        steps, axis=1, keepdims=True
    )
    ones = low + 1.5 + rng.random((count, 3)) * (sides - 3.0)
    ones = ones[ones[:, 1].argsort()]
    position = np.concatenate([ones, ones + steps, np.full((CPU.WIDTH, 3), FAR)]).T.copy()
    lists, total = Lists(False), 2 * count
    lists.fill(CPU, total, position, position, total, (low + sides / 4, low + sides * 0.75), reach)
    least, most = (within_reach(position, position, total, r, False) for r in (reach, farther))
    for cluster, (begin, end) in enumerate(pairwise(lists.starts)):
        assert least[cluster] <= {*lists.neighbors[begin:end].tolist()} <= most[cluster]


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize(("count", "high"), [(41, 6.0), (20, 0.5)])
def test_lists_without_room(count: int, high: float, own: bool) -> None:
    """Catches a list that runs over its end: nothing is written there, and -1 comes back."""
    reach, clusters = 1.5, -(-count // CPU.WIDTH)
    position = strewn(count, 4, 0.0, high)
    bins = Bins(np.zeros(3), np.full(3, 6.0))
    order = bins.sort(CPU, position, count, turning=False)
    starts, last = np.zeros(clusters + 1, np.int64), np.empty(clusters, np.uint32)
    results = []
    for room in range(400):
        neighbors = np.full(room + 50, 12345, np.uint32)
        found = CPU.fill_lists(
            count, position, position, own, bins.low, bins.density, bins.bins, bins.starts, order,
            reach, starts, neighbors[:room], last,
        )  # fmt: skip
        assert found <= room and (neighbors[room:] == 12345).all()
        results.append(found)
    enough = results.index(results[-1])
    assert results[-1] > 50 and set(results[:enough]) == {-1}
    assert set(results[enough:]) == {results[-1]}


@pytest.mark.slow
def test_vector_instructions() -> None:
    """Catches lanes that LLVM takes apart: four divisions one by one would take four times as long.

    Four lanes are a register of 256 bits; without AVX, two of 128.
    """
    code = support.machine_code(CPU.forces)
    registers = set(re.findall(r"divpd\s.*%([xyz]mm)", code))
    wide_ones = llvmlite.binding.get_host_cpu_features().get("avx")
    assert registers == {"ymm" if wide_ones else "xmm"}
    assert "divsd" not in code


# Programs that are wrong -------------------------------------------------------------------------

NET, MOMENTUM, ENERGY = "net force", "momentum change per atom", "energy drift"
STRAYED, VIRIAL, MIXED = "atoms outside their cell", "virial error", "ids that left their atoms"
MISSING = {"missing atoms", "id checksum error", "mixed id checksum error"}
# Faults of the catalogue, the decomposition, and the checks that see them where no reference is.
CHECKS = {
    "forces every other step": ("blocks", {ENERGY}),
    "atoms keep their domain": ("blocks", {NET, STRAYED}),
    "lists too seldom": ("blocks", {NET, MOMENTUM}),
    "lost atom": ("blocks", MISSING),
    "swapped ids": ("blocks", {MIXED}),
    "one sided compute": ("pairs", {NET, VIRIAL}),
}
WITHOUT_REFERENCE = {"lattice": (8, 6, 6), "temperature": 6.0, "thermo": 10}
LAST = 60  # steps


def seen_in(problem: LeanmdProblem) -> set[str]:
    """Which checks a run fails."""
    grid = (2, 2, 2) if problem.decomposition == "blocks" else (1, 1, 1)
    return solve(problem, LAST, grid).failed


@pytest.mark.slow
@pytest.mark.parametrize("wrong", CHECKS)
def test_wrong_programs_fail(wrong: str) -> None:
    """Catches checks that cannot fail: each mistake trips its own."""
    decomposition, right = CHECKS[wrong]
    problem = LeanmdProblem(**WITHOUT_REFERENCE, decomposition=decomposition)
    with support.with_fault("leanmd", f"leanmd: {wrong}"):
        assert right <= seen_in(problem)


@pytest.mark.slow
@pytest.mark.parametrize("decomposition", BOTH)
def test_right_programs_pass(decomposition: str) -> None:
    """Catches checks that always fail."""
    assert seen_in(LeanmdProblem(**WITHOUT_REFERENCE, decomposition=decomposition)) == set()


@pytest.mark.slow
def test_cells_that_keep_their_atoms() -> None:
    """Catches cells that nobody leaves, with *pairs*: by where their atoms are.

    Both atoms of a pair miss each other, for ever, so no energy or momentum comes of it.
    """
    problem = LeanmdProblem(
        cells=(3, 4, 3), per_cell=4, cutoff=1.6, temperature=6.0, decomposition="pairs"
    )
    assert solve(problem, 40).failed == set()
    with support.with_fault("leanmd", "leanmd: atoms keep their domain"):
        assert solve(problem, 40).failed == {STRAYED, "differs from reference"}


# The command -------------------------------------------------------------------------------------

REFUSED = {
    "--lattice 4x4x4 --cutoff 9": "--cutoff 9.0: cutoff and skin must fit into the box",
    "--cutoff 0": "--cutoff: 0: must be from 0.001",
    "--cutoff nan": "--cutoff: nan: must be from 0.001",
    "--dt -0.005": "--dt: -0.005: must be above 0",
    "--dt inf": "--dt: inf: must be above 0",
    "--density -1": "--density: -1: must be from 1e-09",
    "--temperature -1": "--temperature: -1: must be 0 or more",
    "--skin 0": "--skin: 0: must be from 0.001",
    "--rebuild 0": "--rebuild 0: must be 1 or more",
    "--thermo -1": "--thermo -1: must be 0 or more",
    "--seed -1": "--seed -1: must be 0 or more",
    "--lattice 4x4": "--lattice 4x4: must be three integers of 1 or more",
    "--cells 3x3x3x3": "--cells 3x3x3x3: must be three integers of 1 or more",
    "--cells 3x3x3 --per-cell 0": "--per-cell 0: must be 1 or more",
    "--cells 1x1x1 --per-cell 1": "--per-cell 1: there must be two atoms or more",
    "--cells 3x3x3 --gradient 0,0": "--gradient 0,0: there must be two atoms or more",
    "--gradient 0,20": "--gradient 0,20: needs --cells",
    "--cells 3x3x3 --gradient=-1,4": "--gradient -1,4: must be 0 or more each",
    "--cells 3x3x3 --gradient 5": "5: must be two integers with a comma between",
    "--lattice 400x4x4 --dtype float32": "--dtype float32: must be float64 in a box with a side",
    "--decomposition triples": "invalid choice: 'triples'",
    "--lattice 4x4x4 --decomposition pairs": "--decomposition pairs: needs 3 cells along each",
    "--lattice 8x8x8 --decomposition pairs --driver mpi -n 2": "--driver mpi: has one block per",
    "--lattice 8x8x8 --decomposition pairs --driver charm --odf 2": "--odf 2: --decomposition",
    "--lattice 4x4x4 --pe-grid 4x4x4": "--pe-grid 4x4x4: blocks need 2x2x2 cells",
    "--lattice 4x4x4 --driver mpi -n 27": "-n 27: 27 blocks do not fit into 4x4x4 cells",
    "--lattice 4x4x4 --driver charm --odf 64": "--odf 64: 64 blocks do not fit into 4x4x4",
    "--per-cell 20": "--per-cell 20: needs --cells",
    "--cells 3x3x3 --lattice 4x4x4": "--lattice 4x4x4: not together with --cells",
    "--preset paper --density 1": "--density 1.0: not together with --cells",
    "--cells 3x3x3 --gradient 5,9 --per-cell 7": "--per-cell 7: not together with --gradient",
    "--trajectory 5": "--trajectory 5: needs --output FILE.h5",
    "--units neon": "invalid choice: 'neon'",
}


@pytest.mark.parametrize("grid, parts", [((1, 1, 1), 1), ((1, 2, 1), 2), ((2, 1, 2), 3)])
def test_forces_are_found_in_as_few_parts_as_messages_need(grid, parts, monkeypatch):
    """Catches a launch more per step, and clusters whose forces are found twice or not at all."""
    problem = LeanmdProblem(lattice=(8, 8, 8), cutoff=1.3, skin=0.2, rebuild=9, temperature=0.1)
    blocks = blocks_of(problem, grid)
    engine, seen = Engine(blocks).setup(), []
    monkeypatch.setattr(
        LeanmdBlock, "add_forces", lambda block, *part: seen.append((block.index, part))
    )
    engine.round(0, 1)
    for block in blocks:
        assert block.built == 0 and 0 < block.inner < block.lists.clusters
        ends = [end for index, part in seen if index == block.index for end in part]
        assert ends[0] == 0 and ends[1:-1:2] == ends[2::2] and ends[-1] == block.lists.clusters
        assert len(ends) == 2 * parts and (parts == 1 or ends[-2] == block.inner)


@pytest.mark.parametrize("words", REFUSED)
def test_bad_input_is_refused(refused: Callable[..., str], words: str) -> None:
    """Catches a problem that cannot be run as asked, and is launched all the same."""
    assert REFUSED[words] in refused("run", "leanmd", *words.split())


@pytest.mark.long
def test_units_change_no_bit() -> None:
    """Catches SI units that reach the state; test_leanmd_tables.py has their factors."""
    run = "leanmd --preset tiny --steps 4 --warmup 0"
    plain, argon = support.records_of([run, f"{run} --units argon"])
    assert plain["state_hash"] == argon["state_hash"] and plain["thermo"] == argon["thermo"]
    assert "si" in argon and "si" not in plain


def test_summary_says_where_atoms_come_from() -> None:
    """Catches a run with random velocities whose user believes that they are those of a file."""
    lattice = LeanmdProblem(lattice=(4, 5, 6), cutoff=1.5)
    assert lattice.initial == {
        "positions": "fcc lattice 4x5x6 of density 0.8442",
        "velocities": "random, of temperature 1.44 (seed 87287)",
    }
    cells = LeanmdProblem(cells=(3, 3, 3), per_cell=20, seed=5)
    assert cells.initial["positions"] == "cells 3x3x3 of 20 atoms (seed 5)"
