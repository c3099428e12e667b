"""The kernels of PIC: particles that move through the field of fixed charges.

The particle-in-cell kernel of the Parallel Research Kernels (Georganas, Van der Wijngaart and
Mattson, IPDPS 2016). A mesh point (x, y) holds a charge Q(x, y). A particle of charge q in cell
(i, j) feels the Coulomb force of the cell's four corners. With unit mass and unit time step:

    a = sum over corners of  q Q r / |r|^3          r from the corner to the particle
    x += v + a / 2          v += a          x modulo the grid's size, y likewise

Particles are a structure of arrays, of which the first ``count`` elements are in use: ``x``, ``y``
(cells), ``vx``, ``vy`` (cells per step), ``charge``, all float64; ``ids``, ``cells`` (x L + y of
the cell where a particle began, for a grid of L x L cells), ``motions`` (which rule of the problem
moves it), all int64. ``arrays`` is the tuple of the eight, in this order. In a message
(particles, 8) float64 a row holds the eight numbers of a particle; the integers are stored as
their bits.

After a push every particle has an *owner*, the block in which it then is, and the *counters* hold
how many left; `kernels.pic.counters` describes both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from miniapps.devices.backend import Array

Particles = tuple[Array, ...]  # the eight arrays


class ForAll(Protocol):
    """Does the work of many blocks, whose arrays are in one stream, by the launches of one."""

    def __call__(self, tasks: Sequence[tuple[Any, ...]]) -> None:
        """Do the work of the tasks; `PicKernels.FOR_ALL` says what these are."""


class PicKernels(Protocol):
    """The functions that blocks call; the packages `cpu` and `gpu` implement them.

    Arrays are on the device unless a function says otherwise. No function checks its arguments.
    """

    # On a GPU, by name; empty on the CPU. Tasks of "push" and "pack" are the arguments of these
    # functions; of "store" the arguments of `unpack` and of `close_gaps`, None where there is
    # nothing to do; of "sort" (count, x, x0, starts, places, spare, arrays).
    FOR_ALL: Mapping[str, ForAll]

    # At the beginning, on the host for every device ----------------------------------------------

    def count_columns(
        self, means: np.ndarray, own: np.ndarray, kept: np.ndarray, size: int, counts: np.ndarray
    ) -> None:
        """Set ``counts`` (width,) int64 to how many particles begin in each column of a block.

        ``means`` (width,) float64: expected particles per cell of each column. ``own`` (4,) int64:
        the block's cells x0, x1, y0, y1 of a grid of ``size`` x ``size``; particles are kept only
        in the cells ``kept``, given likewise. Every cell of the grid takes two numbers of the
        random generator, column by column. All arrays are on the host.
        """

    def place(
        self, means: np.ndarray, own: np.ndarray, kept: np.ndarray, size: int, cells: np.ndarray
    ) -> None:
        """Set ``cells`` (particles,) int64 to the cells where they begin, column by column.

        The arguments are those of `count_columns`, which says how many there are. The random
        numbers are drawn again, which takes less memory than one count per cell. On the host.
        """

    def foresee_removed(
        self, cells: np.ndarray, ids: np.ndarray, alive: np.ndarray, size: int, shift: np.ndarray,
        patch: np.ndarray, seed: np.uint64, limit: np.uint64, sums: np.ndarray,
    ) -> None:  # fmt: skip
        """Mark which of the particles that begin now a later removal will take.

        ``cells``, ``ids`` (particles,) int64; ``alive`` (particles,) bool becomes False for those;
        ``shift`` (2,) int64: cells that they will have moved along x and y by then; ``patch``,
        ``seed``, ``limit``: see `find_removed`. Adds to ``sums`` (3,) uint64 their number, their
        ids and their mixed ids, modulo 2^64. Uses integers only, so it is exact. On the host.
        """

    def start(
        self, first: int, numbers: Array, begin: Array, motion: int, size: int, drift: float,
        force: float, x: Array, y: Array, vx: Array, vy: Array, charge: Array, ids: Array,
        cells: Array, motions: Array,
    ) -> None:  # fmt: skip
        """Put particles at the centres of cells, at the places of the arrays from ``first`` on.

        ``numbers`` (n,) int64: their ids. ``begin`` (n,) int64: their cells. ``drift``: velocity
        along y, in cells per step. ``force``: the charge with which the mesh moves a particle as
        the rule says; it is negated in odd columns.
        """

    # In every step -------------------------------------------------------------------------------

    def push(
        self, count: int, steps: int, x: Array, y: Array, vx: Array, vy: Array, charge: Array,
        mesh: Array, frame: np.ndarray, size: float, known: int, owners: Array, counters: Array,
        leaving: Array, motions: Array = None, shifts: Array = None,
    ) -> None:  # fmt: skip
        """Move particles by some steps, set their ``owners``, and count and list those that leave.

        ``mesh`` (columns, rows) int8: the charges, in units of the mesh's charge, at the corners of
        the block's cells, and of as many cells above, below and to the right as particles may reach
        before their last step. They are 1, -1 or another power of two, so that a charge times a
        reciprocal has the bits of a quotient. ``frame`` (9,) float64, on the host, all modulo the
        grid's ``size``: the block's cells x0, x1, y0, y1; relative to x0, where the next block but
        one begins and ends; relative to y0, where the block above ends and the block below begins;
        and the lowest row of the mesh. ``owners`` (count,) uint8. The other arguments are those of
        `find_leaving`.
        The counters of emigrants must be 0, as `pack` and `close_gaps` leave them.

        ``shifts`` (2 motions,) float64, of a GPU only: how far, along x and y, particles of each
        motion go in the next round, by less than ``size``. With it, the push adds to the counters
        from `FORESEEN` on where each particle that stays will go then; and one that is lost loses
        velocity and charge, stays, and has -1 in ``motions``, so that it can be found later.
        """

    def find_leaving(
        self, count: int, owners: Array, known: int, counters: Array, leaving: Array
    ) -> None:
        """List the places of the particles that leave, and count them by owner.

        Sets ``counters`` from 0 to `LEFT`. ``leaving`` (room,) int64 gets as many places as it has
        room for, in any order; all are counted. ``known``: one bit per owner that exists. If a
        particle has another owner, its place goes to ``counters[FIRST_LOST]`` and the rest of the
        result is undefined.
        """

    def pack(
        self, total: int, leaving: Array, owners: Array, counters: Array, arrays: Particles,
        messages: Mapping[Any, Any],
    ) -> None:  # fmt: skip
        """Copy the first ``total`` of the ``leaving`` particles into messages.

        ``messages``: by edge, each (particles, 8), with as many rows as the ``counters`` say for
        the owner at that edge. Rows are in any order. Sets the counters of emigrants to 0.

        On a GPU messages may have been made for as many as were foreseen. If others leave, either
        a counter of emigrants is not 0 afterwards, or ``counters[UNFORESEEN]`` grows, and no other
        memory is written.
        """

    def unpack(
        self, came: Mapping[Any, Any], frame: np.ndarray, gaps: Array, free: int, count: int,
        owners: Array, counters: Array, arrays: Particles, size: float = 0.0, shifts: Array = None,
    ) -> None:  # fmt: skip
        """Copy messages into the first ``free`` of the ``gaps``, then behind ``count`` particles.

        ``came``: by edge, as a Collect returned them. ``frame``: as for `push`. ``gaps`` (room,)
        int64. A row that is in none of the block's cells is put into the first one, so that no
        kernel reads beyond the mesh; the first such row, counted over all messages, goes to
        ``counters[MISROUTED]``. ``size``, ``shifts``: as for `push`, to foresee where those that
        have come go next.
        """

    def close_gaps(
        self, count: int, gaps: Array, first: int, end: int, owners: Array, counters: Array,
        spare: Array, arrays: Particles,
    ) -> None:  # fmt: skip
        """Move the last of ``count`` particles into ``gaps[first:end]``.

        The gaps are as `find_leaving`, `push` or `find_removed` list them, and ``owners`` (count,)
        says who stays, as those functions leave it. ``spare`` (room,) uint64 is work space.
        Afterwards the counters are ready for the next `push`.
        """

    def places_by_column(
        self, count: int, x: Array, x0: float, starts: Array, places: Array
    ) -> None:
        """Set ``places`` (count,) int32 to where particles go to be sorted by column.

        ``x0``: the block's first column. ``starts`` (width + 1,) int64 is work space.
        """

    def reorder(self, count: int, places: Array, spare: Array, arrays: Particles) -> None:
        """Move each particle to its place; ``spare`` (room,) uint64 is work space."""

    # Now and then --------------------------------------------------------------------------------

    def find_removed(
        self, count: int, x: Array, y: Array, ids: Array, patch: np.ndarray, seed: np.uint64,
        limit: np.uint64, owners: Array, counters: Array, removed: Array,
    ) -> None:  # fmt: skip
        """List the places of the particles that a removal takes, in any order.

        ``patch`` (4,) int64, on the host: the cells x0, x1, y0, y1 from which it takes particles.
        It takes those whose id, added to ``seed`` and mixed, is at most ``limit``. Sets ``removed``
        (count,) int64, ``owners`` and ``counters[LEFT]``, which must be 0 before.
        """

    def resized(self, array: Array, used: int, room: int) -> Array:
        """Return an array of ``room`` elements that begins with the ``used`` first of this one.

        The given array must not be used any more.
        """

    def row_of(self, message: Any, row: int) -> np.ndarray:
        """Return one row of a received message, (8,) float64, on the host; waits for the device."""

    def largest_error(
        self, count: int, x: Array, y: Array, cells: Array, motions: Array, shifts: Array,
        size: float,
    ) -> float:  # fmt: skip
        """Return how far the particle with the largest error is from its exact place, in cells.

        ``shifts`` (motions, 2) int64: cells that particles of each motion have moved along x and y.
        The larger of the distances along x and y counts, on the periodic grid. Returns NaN if any
        coordinate is NaN. Waits for the device.
        """

    def sums_of_ids(self, count: int, ids: Array) -> np.ndarray:
        """Return number, sum of ids and sum of mixed ids, modulo 2^64: (3,) uint64, on the host."""
