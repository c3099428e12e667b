"""LeanMD's formulae in plain NumPy, for the code that validates runs.

Reference and audit use this module. It shares no kernel, generator or table of constants with the
code that they validate, so a mistake there is not repeated here. The formulae are those of
docs/leanmd.md.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from miniapps.plain_hash import mixed

FORCE_UNIT, VIRIAL_UNIT, ENERGY_UNIT = 2.0**-37, 2.0**-38, 2.0**-41
SINGLE_UNIT = 2.0**-17
FCC = np.array([(0.0, 0.5, 0.5, 0.0), (0.0, 0.5, 0.0, 0.5), (0.0, 0.0, 0.5, 0.5)])
AT_ONCE = 2048  # atoms for which numbers are drawn at once: 50 kB, which stay in cache

# Fused multiply-add ------------------------------------------------------------------------------


def two_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rounded sum of two arrays, and its error; exact (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def two_product(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rounded product of two arrays, and its error; exact (Dekker)."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = halves(a), halves(b)
    error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return product, error


def halves(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two arrays of numbers with half the bits each, whose sum is ``a`` (Veltkamp)."""
    scaled = (2.0**27 + 1) * a
    high = scaled - (scaled - a)
    return high, a - high


def odd_sum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The sum of two arrays, rounded to odd: of its two neighbours, that with a last bit of 1."""
    total, error = two_sum(a, b)
    bits = np.array(total).view(np.int64)
    away = np.where((error > 0) == (total > 0), 1, -1)
    return np.where((error != 0) & (bits % 2 == 0), bits + away, bits).view(np.float64)


def fused(a: Any, b: Any, c: Any) -> np.ndarray:
    """The product a b plus c of arrays, rounded once (Boldo, Melquiond, IEEE TC 57, 2008)."""
    high, low = two_product(np.asarray(a, float), np.asarray(b, float))
    above, below = two_sum(np.asarray(c, float), low)
    total, rest = two_sum(high, above)
    return total + odd_sum(below, rest)


# The start ---------------------------------------------------------------------------------------


def drawn(ids: np.ndarray, seed: int) -> np.ndarray:
    """Three random numbers from -1/2 to 1/2 for each atom: (3, n)."""
    places = 3 * ids.astype(np.uint64) + np.arange(3, dtype=np.uint64)[:, np.newaxis]
    numbers = mixed(mixed(places) + np.uint64(seed % 2**64))
    return (numbers >> np.uint64(24)).astype(np.int64) * 2.0**-40 - 0.5


def sums_of_drawn(ids: np.ndarray, seed: int) -> np.ndarray:
    """Of the numbers drawn for some atoms, the sum along each axis and that of squares: (4,)."""
    sums = np.zeros(4)
    for first in range(0, len(ids), AT_ONCE):
        numbers = drawn(ids[first : first + AT_ONCE], seed)
        sums += [*numbers.sum(axis=1), np.vdot(numbers, numbers)]
    return sums


def sites(problem: Any, ids: np.ndarray) -> np.ndarray:
    """The initial positions of atoms, from their ids alone: (3, n)."""
    exact = on_lattice(problem, ids) if problem.cells is None else in_cells(problem, ids)
    return np.rint(exact / problem.quantum) * problem.quantum


def on_lattice(problem: Any, ids: np.ndarray) -> np.ndarray:
    """Positions on the face-centred cubic lattice, before rounding: (3, n)."""
    cell, corner = np.divmod(ids - 1, 4)
    cells = np.array(problem.lattice)[:, np.newaxis]
    at = np.stack([cell // (cells[1] * cells[2]), cell // cells[2] % cells[1], cell % cells[2]])
    return (at + FCC[:, corner]) * problem.box[:, np.newaxis] / cells


def in_cells(problem: Any, ids: np.ndarray) -> np.ndarray:
    """Positions near the sites of a cubic lattice in each of ``--cells``, before rounding."""
    layers, rows, columns = problem.cells
    ends = problem.gradient
    low, high = (ends.low, ends.high) if ends else (problem.per_cell, problem.per_cell)
    counts = np.rint(np.linspace(low, high, layers)).astype(int)  # atoms in a cell, by layer
    first = np.concatenate([[0], np.cumsum(counts * rows * columns)])
    x = np.searchsorted(first, ids - 1, side="right") - 1
    count = counts[x]
    cell, atom = np.divmod(ids - 1 - first[x], count)
    side = np.ceil(np.round(count ** (1 / 3), 9)).astype(int)
    place = atom * side**3 // count
    corner = np.stack([place // side**2, place // side % side, place % side])
    width = (problem.box / np.array(problem.cells))[:, np.newaxis]
    at = (np.stack([x, cell // columns, cell % columns]) + (corner + 0.5) / side) * width
    return at + 0.1 * drawn(ids, problem.seed) * (width.min() / side)


# Interaction -------------------------------------------------------------------------------------


def apart(some: np.ndarray, others: np.ndarray, box: np.ndarray | None) -> np.ndarray:
    """Displacements to each of m atoms from the nearest image of each of n: (3, m, n); exact.

    Without a box, from the n themselves.
    """
    displacements = some[:, :, np.newaxis] - others[:, np.newaxis, :]
    if box is None:
        return displacements
    sides = box[:, np.newaxis, np.newaxis]
    return displacements - sides * np.rint(displacements / sides)


def pairs_within(
    some: np.ndarray, others: np.ndarray, box: np.ndarray | None, cutoff: float
) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of m atoms and images of n others within the cutoff, and perhaps a few more.

    Returns the numbers of the first atoms, ascending, (k,), and the displacements, (3, k).
    """
    every = apart(some, others, box)
    if box is not None and 2 * cutoff > box.min():  # second images may be within the cutoff
        shifts = box * np.array(list(itertools.product((-1, 0, 1), repeat=3)))
        every = np.concatenate([every + shift[:, None, None] for shift in shifts], axis=2)
    r2 = every[0] ** 2 + every[1] ** 2 + every[2] ** 2
    atoms, columns = np.nonzero((r2 > 0) & (r2 < 1.001 * cutoff**2))
    return atoms, every[:, atoms, columns]


def sums_by_atom(values: np.ndarray, atoms: np.ndarray, count: int) -> np.ndarray:
    """Sums of int64 values (..., k) of pairs over those of each atom: (..., count)."""
    ends = np.searchsorted(atoms, np.arange(count + 1))
    sums = np.zeros((*values.shape[:-1], values.shape[-1] + 1), np.int64)
    np.cumsum(values, axis=-1, out=sums[..., 1:])
    return np.diff(sums[..., ends], axis=-1)


def inverses(displacements: np.ndarray, cutoff: float) -> tuple[np.ndarray, np.ndarray]:
    """1 / r^2 and 1 / r^6 of displacements (3, k); both are 0 beyond the cutoff."""
    dx, dy, dz = displacements
    r2 = fused(dz, dz, fused(dy, dy, dx * dx))
    inverse2 = np.where(r2 < cutoff * cutoff, 1.0 / r2, 0.0)
    return inverse2, inverse2 * inverse2 * inverse2


def pair_forces(displacements: np.ndarray, cutoff: float) -> np.ndarray:
    """The forces of atoms at displacements (3, k): (3, k) int64, in `FORCE_UNIT`."""
    inverse2, inverse6 = inverses(displacements, cutoff)
    pull = fused(48.0, inverse6, -24.0) * (inverse6 * inverse2)
    magic = 1.5 * 2.0**52 * FORCE_UNIT
    with np.errstate(invalid="ignore"):  # in a run that is wrong, atoms may overlap
        rounded = fused(pull, displacements, magic) - magic
        return np.rint(rounded / FORCE_UNIT).astype(np.int64)


def pair_forces_in_single(displacements: np.ndarray, cutoff: float) -> np.ndarray:
    """As `pair_forces`, computed in float32 and rounded to `SINGLE_UNIT`."""
    single = np.float32
    dx, dy, dz = displacements.astype(single)
    r2 = dx * dx + dy * dy + dz * dz
    inverse2 = np.where(r2 < single(cutoff * cutoff), single(1) / r2, single(0))
    inverse6 = inverse2 * inverse2 * inverse2
    pull = (inverse6 - single(0.5)) * (single(48) * (inverse6 * inverse2))
    with np.errstate(invalid="ignore"):  # in a run that is wrong, atoms may overlap
        terms = np.rint(pull * np.stack([dx, dy, dz]) * single(1 / SINGLE_UNIT))
        return terms.astype(np.int64) * int(SINGLE_UNIT / FORCE_UNIT)


PAIR_FORCES = {"float64": pair_forces, "float32": pair_forces_in_single}


def forces(
    some: np.ndarray, others: np.ndarray, box: np.ndarray | None, cutoff: float, dtype: str
) -> np.ndarray:
    """The forces on m atoms from all images of n atoms: (3, m) int64, in `FORCE_UNIT`."""
    atoms, displacements = pairs_within(some, others, box, cutoff)
    return sums_by_atom(PAIR_FORCES[dtype](displacements, cutoff), atoms, some.shape[1])


def potential(some: np.ndarray, others: np.ndarray, cutoff: float) -> tuple[int, int, int]:
    """Energy, virial and pairs of m atoms with n others, images among them, in units."""
    for axis in range(3 if some.size else 0):  # most of the others are far away
        low, high = some[axis].min() - cutoff, some[axis].max() + cutoff
        others = others[:, (others[axis] >= low) & (others[axis] <= high)]
    _, displacements = pairs_within(some, others, None, cutoff)
    energy, virial, pairs = pair_energies(displacements, cutoff).sum(axis=1).tolist()
    return energy, virial, pairs


def pair_energies(displacements: np.ndarray, cutoff: float) -> np.ndarray:
    """Energy, virial and number of the pairs at displacements (3, k): (3, k) int64, in units."""
    inverse2, inverse6 = inverses(displacements, cutoff)
    with np.errstate(invalid="ignore"):
        u = fused(4.0, inverse6, -4.0) * inverse6
        w = fused(48.0, inverse6, -24.0) * inverse6
        energies = np.rint(u / ENERGY_UNIT).astype(np.int64)
        virials = np.rint(w / VIRIAL_UNIT).astype(np.int64)
    return np.stack([energies, virials, (inverse2 != 0).astype(np.int64)])
