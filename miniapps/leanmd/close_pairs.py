"""Pairs of atoms so close that a wrong rounding of their forces shows, for audits.

A pair's force is rounded to a unit that is far above the last bit of most forces. So code that
rounds otherwise gives another force on one atom of some hundred only, which a sample of a run
rarely meets. Where forces are largest, the last bit is a fourth of the unit.
"""

from __future__ import annotations

import numpy as np

from miniapps.leanmd import plain

SITES = 2, 8  # pairs along each axis, at least and at most
SHARE = 8  # atoms of the run for each pair
APART = 2.75  # sigma, between the first atoms of neighbouring pairs
CUTOFF = 1.0  # sigma, below APART - 2 FARTHEST: atoms of two pairs do not interact
CLOSEST, FARTHEST = 0.661, 0.8  # sigma, in a pair; kernels refuse atoms within 0.66
# Of every second pair, 1 / r^6: 48 / r^6 is just above a power of two, and less 24 it is below. The
# difference has a bit more than the product, so code that rounds the product, too, shows.
JUST_ABOVE = 2**9 / 48, (2**9 + 24) / 48
QUANTUM = {"float64": 2.0**-44, "float32": 2.0**-20}  # sigma, of positions
PART = 64  # pairs whose energies are added: in one sum, wrong roundings may cancel


class ClosePairs:
    """Random pairs, by ``seed``, for a run of ``atoms``. ``dtype``: the precision of forces.

    ``position`` (3, n) float64 of the atoms: multiples of ``quantum``. ``ends``: so many of the
    first atoms have their energies added.
    """

    cutoff = CUTOFF

    def __init__(self, dtype: str, seed: int, atoms: int) -> None:
        self.dtype, self.quantum = dtype, QUANTUM[dtype]
        random = np.random.default_rng(seed)
        sites = int(np.clip(np.cbrt(atoms / SHARE), *SITES))
        first = APART * (np.indices((sites,) * 3).reshape(3, -1) - sites / 2)
        pairs = first.shape[1]
        above = random.uniform(*JUST_ABOVE, pairs) ** (-1 / 6)
        length = np.where(np.arange(pairs) % 2, above, random.uniform(CLOSEST, FARTHEST, pairs))
        off = random.normal(size=first.shape)
        off = np.rint(off * (length / np.sqrt((off**2).sum(axis=0))) / self.quantum) * self.quantum
        # The two atoms of half of the pairs are in a row, so in one cluster; others meet in lists.
        order = [*range(pairs), *range(pairs, 2 * pairs, 2), *range(pairs + 1, 2 * pairs, 2)]
        self.position = np.stack([first, first + off], axis=2).reshape(3, -1)[:, order]
        self.off = np.stack([-off, off], axis=2).reshape(3, -1)[:, order]
        self.ends = [*range(2 * PART, 2 * pairs, 2 * PART), 2 * pairs]

    def wrong(self, forces: np.ndarray, energies: list[tuple[int, int, int]]) -> int:
        """How many atoms have wrong forces, and how many sums are wrong.

        ``forces`` (3, n) int64; ``energies``: for each of ``ends`` the energy, virial and number
        of pairs of the first atoms, in units.
        """
        right = plain.PAIR_FORCES[self.dtype](self.off, CUTOFF)
        totals = np.cumsum(plain.pair_energies(self.off, CUTOFF), axis=1)
        sums = [tuple(totals[:, end - 1].tolist()) for end in self.ends]
        different = sum(a != b for a, b in zip(sums, energies, strict=True))
        return int((forces != right).any(axis=0).sum()) + different
