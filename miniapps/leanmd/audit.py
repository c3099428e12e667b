"""The audit of LeanMD: steps of atoms near drawn points, and the table's sums, in plain NumPy.

Before and after an audited step the blocks contribute all atoms around points in space. From those
before, the audit computes where the atoms close to a point must be after the step: forces from all
pairs, kick, drift, kick. All bits must agree. docs/leanmd.md lists the checks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from miniapps.audit import BaseAudit, Contribution, Found
from miniapps.contract import Check, Measure, Piece
from miniapps.decomposition import Layout
from miniapps.leanmd import plain, plain_input
from miniapps.leanmd.close_pairs import ClosePairs

ATOMS = 2  # audited around each point, on average
MARGIN = 0.3  # sigma; atoms that move farther in the audited step are left out
FIRST = 8  # atoms of a block whose energy and virial are computed again
START_ERROR = 1e-10  # of a drawn velocity, over the thermal one; the scale is summed in any order
TABLE_ERROR = 1e-9  # relative; the sums that the table is compared with are rounded
FILE_ERROR = 1e-8  # relative, of a velocity from a file in other units; constants have 9 digits
FROM_FILE = 256  # atoms that are compared with the input file, about
COLUMNS = 7  # of a contributed row: id, position, velocity


class Audit(BaseAudit):
    """Draws points in the box, half of their coordinates on planes between blocks."""

    def __init__(self, problem: Any, layout: Layout, seed: int, samples: int) -> None:
        super().__init__(problem, layout, seed, samples)
        self.points = np.array([self._point() for _ in range(samples)])
        share = ATOMS * math.prod(problem.extent) / problem.atoms
        self.near = (3 * share / (4 * math.pi)) ** (1 / 3)
        self.far = self.near + problem.cutoff + MARGIN
        blocks = [place for place in layout.numbers if place[0] != "cell"]
        self.chosen = {self.random.choice(blocks) for _ in range(samples)}
        self.probed = self.random.choice(blocks)  # on its PE, close pairs are computed again
        # After the last audited step: number of atoms, sum of v^2, and momentum along each axis.
        self.motion = np.zeros(5)
        # By the number of steps made: energy, virial and pairs of all atoms, as of `energies`.
        self.potentials: dict[int, np.ndarray] = {}

    def _point(self) -> np.ndarray:
        """A random point; each coordinate is on a plane between blocks with probability 1/2."""
        layout, draw = self.layout, self.random
        bounds = layout.bounds(draw.choice(layout.indices()))
        at = [
            low / cells if draw.random() < 0.5 else draw.random()
            for (low, _), cells in zip(bounds, layout.shape, strict=True)
        ]
        return np.array(at) * self.problem.box

    # What blocks contribute ----------------------------------------------------------------------

    def set_up(self, block: Any) -> Contribution:
        """The potential of the block's atoms at the start, and wrong forces of close pairs."""
        found = {"potential": potential_of(block)}
        if (block.kind, tuple(block.index)) == self.probed:
            pairs = ClosePairs(self.problem.dtype, self.seed, self.problem.atoms)
            found["wrong in pairs"] = Measure("sum", pairs.wrong(*block.probed(pairs)))
        return found

    def begin(self, block: Any, step: int, count: int) -> Contribution:
        """The atoms near the points; at the start also sums over all atoms."""
        if block.kind == "compute":
            return {}
        found = {"atoms": Measure("join", self._around(block))}
        if step == 0 and self.problem.draws_velocities:
            sums = plain.sums_of_drawn(block.atoms.ids, self.problem.seed)
            found["drawn"] = Measure("sum", sums)
        return found

    def end(self, block: Any, step: int, count: int) -> Contribution:
        """The atoms near the points, sums over all atoms, and the potential of some atoms."""
        found = {"potential": potential_of(block)}
        if block.kind != "compute":
            velocity = block.atoms.own("velocity")
            square = sum(np.dot(v, v) for v in velocity)
            sums = np.array([velocity.shape[1], square, *velocity.sum(axis=1)])
            found["atoms"] = Measure("join", self._around(block))
            found["motion"] = Measure("sum", sums)
        if (block.kind, tuple(block.index)) in self.chosen:
            samples = block.potentials(FIRST)
            wrong = [
                totals != plain.potential(some, others, self.problem.cutoff)
                for some, others, totals in samples
            ]
            missing = int(not samples)
            found["wrong potentials"] = Measure("sum", sum(wrong) + missing)
        return found

    def misstated(self, block: Any, pieces: Sequence[Piece]) -> int:
        """The number of atoms near the points that are not as in the block, within the box."""
        if block.kind == "compute":
            return len(pieces)
        (piece,), box = pieces, self.problem.box[:, np.newaxis]
        assert piece.ids is not None
        rows = self._around(block)
        order = np.argsort(piece.ids)
        place = order[np.searchsorted(piece.ids, rows[:, 0], sorter=order).clip(max=len(order) - 1)]
        position, velocity = np.hsplit(piece.values[place], 2)
        wrong = (
            (piece.ids[place] != rows[:, 0])
            | (remainders(position.T - rows[:, 1:4].T, self.problem.box) != 0).any(axis=0)
            | ((position.T < 0) | (position.T >= box)).any(axis=0)
            | (velocity != rows[:, 4:]).any(axis=1)
        )
        return int(np.count_nonzero(wrong))

    def _around(self, block: Any) -> np.ndarray:
        """The block's atoms within `far` of any point: (n, `COLUMNS`) float64."""
        position, velocity = block.atoms.own("position"), block.atoms.own("velocity")
        near = np.zeros(len(block.atoms.ids), bool)
        for point in self._points_near(block):
            near[self._within(point, position)] = True
        rows = np.empty((np.count_nonzero(near), COLUMNS))
        rows[:, 0] = block.atoms.ids[near]
        rows[:, 1:4], rows[:, 4:] = position[:, near].T, velocity[:, near].T
        return rows

    def _points_near(self, block: Any) -> np.ndarray:
        """The points that may be within `far` of the block's atoms, (n, 3)."""
        off = np.abs(self.points - (block.low + block.high) / 2)
        off = np.minimum(off, self.problem.box - off)
        reach = (
            (block.high - block.low) / 2 + self.far + MARGIN
        )  # atoms may have left by half a skin
        return self.points[(off <= reach).all(axis=1)]

    def _within(self, point: np.ndarray, position: np.ndarray) -> np.ndarray:
        """The indices of positions (3, n) within `far` of a point, or of one of its images."""
        box = self.problem.box
        found = np.flatnonzero(self._close(position[0], point, 0))
        for axis in (1, 2):
            found = found[self._close(position[axis, found], point, axis)]
        off = plain.apart(point[:, np.newaxis], position[:, found], box)[:, 0]
        return found[(off**2).sum(axis=0) < self.far**2]

    def _close(self, along: np.ndarray, point: np.ndarray, axis: int) -> np.ndarray:
        """Whether coordinates are within `far` of a point's along an axis; lets some more pass."""
        off = np.abs(along - point[axis])
        return (off < self.far) | (off > self.problem.box[axis] - self.far)

    # Validation -----------------------------------------------------------------------------------

    def validate_setup(self, found: Found) -> list[Check]:
        """Keep the potential at the start, for the comparison with the table."""
        self.potentials[0] = found["potential"].value
        wrong = found["wrong in pairs"].value if "wrong in pairs" in found else 0
        return [Check("audit: wrong forces of close pairs", wrong, 0)]

    def validate(self, step: int, count: int, began: Found, ended: Found) -> list[Check]:
        """Compare a step of the atoms near each point, and the start with one from ids alone."""
        before, after = (side["atoms"].value for side in (began, ended))
        self.motion = ended["motion"].value
        self.potentials[step + count] = ended["potential"].value
        wrong = np.zeros(2, int)
        for point in self.points:
            near = (rows[self._within(point, rows[:, 1:4].T)].T for rows in (before, after))
            wrong += self._wrong_step(point, *near)
        places = velocities = 0
        if step == 0 and self.problem.source is None:
            places = self._wrong_places(before)
        elif step == 0:
            places, velocities = self._wrong_in_file(before[:: max(1, len(before) // FROM_FILE)])
        if step == 0 and self.problem.draws_velocities:
            velocities += self._wrong_start(before, began["drawn"].value)
        potentials = ended["wrong potentials"].value if "wrong potentials" in ended else 0
        return [
            Check("audit: wrong initial positions", places, 0),
            Check("audit: wrong initial velocities", velocities, 0),
            Check("audit: wrong positions", int(wrong[0]), 0),
            Check("audit: wrong velocities", int(wrong[1]), 0),
            Check("audit: wrong energies or virials", int(potentials), 0),
        ]

    def _wrong_places(self, rows: np.ndarray) -> int:
        """The number of atoms that do not begin where their ids say."""
        ids, position = rows[:, 0].astype(np.int64), rows[:, 1:4].T
        known = (ids >= 1) & (ids <= self.problem.atoms)
        right = plain.sites(self.problem, np.where(known, ids, 1))
        off = remainders(position - right, self.problem.box)
        return int(np.count_nonzero(~known | (off != 0).any(axis=0)))

    def _wrong_in_file(self, rows: np.ndarray) -> tuple[int, int]:
        """How many atoms do not begin where the input file says, and with another velocity.

        All of them, if the box is another one, or if the second program cannot read the file.
        """
        problem, wrong = self.problem, np.zeros(2, int)
        ids = set(rows[:, 0].astype(int).tolist())
        try:
            found = plain_input.read(problem.input, ids, problem.units == "argon")
        except (LookupError, ValueError):
            return len(rows), len(rows)
        converted = bool(problem.source.scale.said)  # so the last bits may differ
        margin = converted * problem.quantum
        box = np.rint(np.array(found.box) / problem.quantum) * problem.quantum
        same_box = bool((np.abs(problem.box - box) <= margin).all())
        for row in rows:
            position, velocity = found.atoms.get(int(row[0]), ([math.nan] * 3, None))
            right = np.rint(np.array(position) / problem.quantum) * problem.quantum
            off = remainders((row[1:4] - right)[:, np.newaxis], problem.box)
            wrong[0] += not (same_box and (np.abs(off) <= margin).all())
            if velocity is None:
                wrong[1] += problem.source.has_velocities
            else:
                error = np.abs(row[4:] - velocity)
                wrong[1] += not (error <= converted * FILE_ERROR * np.abs(velocity)).all()
        return int(wrong[0]), int(wrong[1])

    def _wrong_start(self, rows: np.ndarray, drawn: np.ndarray) -> int:
        """The number of atoms that do not begin with the velocities drawn for their ids.

        ``drawn``: the sums of all drawn numbers and of their squares, (4,).
        """
        atoms, temperature = self.problem.atoms, self.problem.temperature
        mean = drawn[:3] / atoms
        scale = math.sqrt((3 * atoms - 3) * temperature / (drawn[3] - atoms * np.dot(mean, mean)))
        numbers = plain.drawn(rows[:, 0].astype(np.int64), self.problem.seed)
        right = (numbers - mean[:, np.newaxis]) * scale
        off = np.abs(right - rows[:, 4:].T).max(axis=0)
        return int(np.count_nonzero(~(off <= START_ERROR * math.sqrt(temperature))))

    def _wrong_step(
        self, point: np.ndarray, before: np.ndarray, after: np.ndarray
    ) -> tuple[int, int]:
        """How many atoms near a point have wrong positions or ids, and wrong velocities.

        ``before`` and ``after`` the step: (7, n) ids, positions, velocities.
        """
        problem, box = self.problem, self.problem.box
        off = plain.apart(point[:, np.newaxis], before[1:4], box)[:, 0]
        core = before[:, (off**2).sum(axis=0) < self.near**2]
        half = 0.5 * problem.dt * plain.FORCE_UNIT
        kicked = plain.fused(half, self._forces(core[1:4], before), core[4:])
        magic = 1.5 * 2.0**52 * problem.quantum
        moved = plain.fused(problem.dt, kicked, magic) - magic
        slow = (moved**2).sum(axis=0) < MARGIN**2
        core, kicked, position = core[:, slow], kicked[:, slow], (core[1:4] + moved)[:, slow]
        right = plain.fused(half, self._forces(position, after), kicked)
        place = positions_of(core[0], after[0])
        lost = place < 0
        moved_away = remainders(after[1:4, place] - position, box).any(axis=0)
        other_velocity = (after[4:, place] != right).any(axis=0)
        return int((lost | moved_away).sum()), int((lost | other_velocity).sum())

    def _forces(self, position: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """The forces on atoms at ``position`` (3, m) from those of ``rows``; (3, m) float64."""
        problem = self.problem
        given = problem.box, problem.cutoff, problem.dtype
        return plain.forces(position, rows[1:4], *given).astype(float)

    def validate_results(
        self, steps: int, measures: Found, results: Mapping[str, Any]
    ) -> list[Check]:
        """Compare the thermo table with the formulae and with the sums over the atoms."""
        problem, rows = self.problem, results["thermo"]
        sums = sums_of_rows(measures)
        right = with_drift(problem, list(sums.values()))
        errors = [
            relative(row[name], value)
            for row, values in zip(rows, right, strict=True)
            for name, value in values.items()
        ]
        atoms, square, *momentum = self.motion
        errors.append(relative(results["atoms"], atoms))
        errors.append(relative(rows[-1]["kinetic"], square / 2 / atoms))
        for found, value in zip(results["momentum"], momentum, strict=True):
            errors.append(relative(found / atoms, value / atoms))
        if problem.draws_velocities:
            errors.append(relative(rows[0]["temperature"], problem.temperature))
        box = problem.extent if problem.source is not None else box_of(problem)
        errors += map(relative, results["box"], box)
        steps_of_rows = [row["step"] - problem.first_step for row in rows]
        if steps_of_rows != list(sums) or steps_of_rows != reported(problem.thermo, steps):
            errors.append(math.inf)
        if any(sums[step][1:] != wide(found) for step, found in self.stated(sums)):
            errors.append(math.inf)
        drift = results["energy_drift_per_atom_and_step"] * max(steps, 1)
        errors.append(relative(drift, drifted(problem, list(sums.values()))[-1]))
        return [Check("audit: error of the thermo table", max(errors), TABLE_ERROR)]

    def stated(self, sums: Mapping[int, Any]) -> list[tuple[int, np.ndarray]]:
        """The steps of rows after which blocks contributed their potential, and that."""
        return [(step, found) for step, found in self.potentials.items() if step in sums]


def relative(value: float, right: float) -> float:
    """The error of a value, over the right one or 1, whichever is larger; NaN becomes infinite."""
    error = abs(value - right) / max(abs(right), 1.0)
    return error if error == error else math.inf


def remainders(differences: np.ndarray, box: np.ndarray) -> np.ndarray:
    """Differences of positions (3, n) without whole boxes."""
    sides = box[:, np.newaxis]
    return differences - sides * np.rint(differences / sides)


def positions_of(wanted: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """The place of each wanted id among ``ids``; -1 unless it is there exactly once."""
    equal = wanted[:, np.newaxis] == ids
    return np.where(equal.sum(axis=1) == 1, equal.argmax(axis=1) if len(ids) else -1, -1)


def potential_of(block: Any) -> Measure:
    """Energy, virial and pairs of the atoms of a block or compute, (6,) as of `energies`."""
    found = np.zeros(6, np.int64)
    if block.kind == "block":
        found += block.energies()
    elif block.kind == "compute":
        found += sum(block.energies(edge) for edge in block.neighbors)
    return Measure("sum", found)


def wide(columns: Iterable[int]) -> list[int]:
    """Sums that have two columns each, as whole numbers."""
    numbers = [int(column) for column in columns]
    return [(high << 32) + low for high, low in zip(numbers[::2], numbers[1::2], strict=True)]


def sums_of_rows(measures: Found) -> dict[int, list[int]]:
    """The sums of each row of the thermo table, as whole numbers, by the steps made until then.

    v^2, energy, virial and pairs; the last row is for the end of the run.
    """
    time, last = int(measures["time"].value), measures["totals"].value
    rows = measures["rows"].value.tolist()
    if rows[-1][0] != time:
        rows.append([time, *last.tolist()])
    return {row[0]: wide([*row[1:3], *row[9:15]]) for row in rows}


def reported(period: int, steps: int) -> list[int]:
    """After how many steps the table of a run has rows."""
    return sorted({0, steps, *(range(0, steps, period) if period else ())})


def box_of(problem: Any) -> list[float]:
    """The lengths of a box whose atoms begin on a lattice or in cells."""
    if problem.cells is not None:
        sides = [n * (problem.cutoff + problem.skin) for n in problem.cells]
    else:
        sides = [n * math.cbrt(4 / problem.density) for n in problem.lattice]
    return [round(side / problem.quantum) * problem.quantum for side in sides]


def with_drift(problem: Any, rows: Sequence[list[int]]) -> list[dict[str, float]]:
    """What rows of the table must say, given their sums; drift is that of the shifted energy."""
    found, farthest = [thermo(problem, sums) for sums in rows], 0.0
    for row, drift in zip(found, drifted(problem, rows), strict=True):
        farthest = max(farthest, abs(drift))
        row["max_drift"] = farthest
    return found


def drifted(problem: Any, rows: Sequence[list[int]]) -> list[float]:
    """By how much the shifted energy per atom has changed since the first row, at each row."""
    kept = [thermo(problem, sums, shift=True)["total"] for sums in rows]
    return [energy - kept[0] for energy in kept]


def thermo(problem: Any, sums: list[int], shift: bool | None = None) -> dict[str, float]:
    """What a row of the table must say; see "The thermo table" in docs/leanmd.md.

    ``shift``: whether the potential is shifted to 0 at the cutoff; None: as the problem says.
    """
    square, energy = (number * plain.ENERGY_UNIT for number in sums[:2])
    atoms, volume = problem.atoms, math.prod(problem.extent)
    virial, pairs = sums[2] * plain.VIRIAL_UNIT / 2, sums[3] / 2
    inverse3 = 1 / problem.cutoff**3
    shifted = problem.shift if shift is None else shift
    kinetic = square / 2
    potential = energy / 2 - pairs * 4 * (inverse3**4 - inverse3**2) * shifted
    return {
        "temperature": 2 * kinetic / (3 * (atoms - 1)),
        "kinetic": kinetic / atoms,
        "potential": potential / atoms,
        "total": (kinetic + potential) / atoms,
        "pressure": (2 * kinetic + virial) / 3 / volume,
        "virial": virial / 3 / volume,
    }
