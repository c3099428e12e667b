"""The kernels of LeanMD: Lennard-Jones atoms, with neighbour lists and velocity Verlet.

In reduced units (sigma = epsilon = mass = 1) two atoms at distance r < cutoff have

    U(r) = 4 (1 / r^12 - 1 / r^6)        F = (48 / r^12 - 24 / r^6) / r^2  times  (x_i - x_j)

(Lennard-Jones 1924; Allen and Tildesley, Computer Simulation of Liquids, 2017). Positions are
multiples of a power of two, the position quantum, such that differences of any two, and the edges
of the box added to them, are exact in float64. So the force of a pair depends neither on which
periodic image of an atom is used nor on which of the two atoms it is computed for. Each pair's
force is rounded to a multiple of `FORCE_UNIT` and added as an integer: a sum has the same bits in
every order, and the forces on all atoms add up to exactly zero. In single precision, "float32", an
exact difference is rounded to float32 once. What follows is computed in float32, each operation
rounded on its own: r^2 = (dx dx + dy dy) + dz dz, i6 = (1 / r^2)^3, and the force
((i6 - 1/2) (48 (i6 / r^2))) dx. It is rounded to a multiple of `SINGLE_UNIT`; sums are int32.

Arrays: ``position`` (3, room) float64: the block's ``count`` atoms first, then ghosts, then `WIDTH`
empty places at `FAR`. ``velocity`` (3, room) float64. ``force`` (3, room) int64 in `FORCE_UNIT`.
``flags`` (4,) int64: error flags; `kernels.leanmd.units` describes them and the units.

Atoms that are neighbours in space are neighbours in memory. `WIDTH` atoms in a row form a
*cluster*, which has one neighbour list: all atoms within reach of any of its own, as indices
``neighbors[starts[k]:starts[k + 1]]`` for cluster k. ``own`` is True if these are indices of the
block's own atoms and ghosts, and False if they are those of another cell's atoms. If it is True,
the atoms of a cluster are not in its list, but still interact with each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from miniapps.devices.backend import Array, Memory


class ClusterLists(Protocol):
    """The lists of all clusters of a cell: ``starts`` (n + 1,) int64, ``neighbors`` uint32."""

    own: bool
    starts: Array
    neighbors: Array

    @property
    def all_clusters(self) -> Array:
        """The indices of the clusters, (n,) uint32."""


class PairTask(NamedTuple):
    """A request for the forces between the atoms of two cells, or of one cell.

    ``first``, ``second``: results of `LeanmdKernels.sent_positions`, the same one for one cell.
    ``lists``: the result of `LeanmdKernels.pair_lists`.
    """

    first: Any
    second: Any
    lists: Any


class InQuanta(Protocol):
    """Positions as integers: their numbers of position quanta."""

    position: Array

    def update(self, first: int, end: int) -> None:
        """Take over the positions of the places from ``first`` to ``end``."""


class QuantaOf(Protocol):
    """Makes `InQuanta` of positions (3, places); nothing is taken over yet."""

    def __call__(self, position: Array, quantum: float) -> InQuanta:
        """Make it."""


class Forces(Protocol):
    """Sets the forces on the atoms of some clusters."""

    def __call__(
        self, position: Any, others: Any, clusters: Array, first_cluster: int,
        end_cluster: int, starts: Array, neighbors: Array, own: bool, cutoff: float, force: Array,
        flags: Array,
    ) -> None:  # fmt: skip
        """Set ``force`` (3, room) int64, in `FORCE_UNIT`, for the atoms of some clusters.

        These are ``clusters[first_cluster:end_cluster]``, of (n,) uint32, with their lists
        ``starts`` (n + 1,) int64 and ``neighbors`` uint32; the rest of a last cluster is written,
        too. ``others``: the positions to which the indices in the lists refer. Positions are (3,
        room) float64, or `InQuanta` if the kernels have QUANTA of the precision. ``cutoff`` in
        sigma. Sets ``flags[CLOSE]``, of (4,) int64, if a pair is closer than `CLOSEST`.
        """


class PairForces(Protocol):
    """Computes the forces that many blocks request, as the function of a `Batch`."""

    def __call__(self, tasks: list[PairTask]) -> list[list[tuple[np.ndarray, int]]]:
        """Return for each cell of each task the forces on its atoms and its error flag `CLOSE`.

        Forces are (3, places) int64 in `FORCE_UNIT`, on the host, with a place for each atom and
        for the rest of the last cluster. The flag is ``NO_ERROR[CLOSE]`` if no pair is too close.
        There is at least one task. Waits for the device.
        """


class LeanmdKernels(Protocol):
    """The functions that blocks call; the packages `cpu` and `gpu` implement them.

    Arrays are on the device unless a function says otherwise. No function checks its arguments.
    """

    WIDTH: int  # atoms of a cluster
    FORCES: Mapping[str, Forces]  # by the precision in which the force of a pair is computed
    QUANTA: Mapping[str, QuantaOf]
    PAIR_FORCES: Mapping[str, PairForces]

    def energies(
        self, count: int, position: Array, others: Array, starts: Array, neighbors: Array,
        own: bool, cutoff: float, totals: Array,
    ) -> None:  # fmt: skip
        """Add up over all pairs (i, j) and (j, i): energy, virial (force times distance), pairs.

        ``others``: as for `Forces`. ``totals`` (6,) int64, 0 before: each sum as two integers, 2^32
        times the first plus the second; energies in `ENERGY_UNIT`, virials in `VIRIAL_UNIT`.
        """

    # Motion --------------------------------------------------------------------------------------

    def kick_and_drift(
        self, count: int, position: Array, velocity: Array, force: Array, origin: Array, dt: float,
        quantum: float, allowed2: float, flags: Array,
    ) -> None:  # fmt: skip
        """Advance the velocities by half a time step and then the positions by a whole one.

        ``dt``: the time step. Positions move by multiples of ``quantum``. ``origin`` (3, room)
        float64: the positions when the neighbour lists were made. If the largest squared distance
        from there is more than ``allowed2``, or NaN, it is stored in ``flags[STRAY]``.
        """

    def kick(
        self, count: int, position: Array, velocity: Array, force: Array, origin: Array, dt: float,
        quantum: float, allowed2: float, flags: Array,
    ) -> None:  # fmt: skip
        """Advance the velocities by half a time step.

        On a GPU, store in ``flags[FORESEEN]`` what `kick_and_drift` will store in ``flags[STRAY]``
        if it gets the same arguments next.
        """

    def clear(self, flags: Array) -> None:
        """Set the error ``flags`` to ``NO_ERROR``."""

    def sums_of_motion(
        self, count: int, velocity: Array, force: Array, totals: Array, flags: Array
    ) -> None:
        """Add up v^2, as two integers as in `energies`, and velocities and forces along each axis.

        ``totals`` (8 or more,) int64, 0 before: v^2 and velocities in `ENERGY_UNIT`, forces in
        `FORCE_UNIT`. Sets ``flags[FAST]`` if an atom is faster than `FASTEST`.
        """

    def draw(self, ids: Array, seed: int, numbers: Array) -> None:
        """Set ``numbers`` (3, n) float64 to random numbers from -1/2 to 1/2 for each atom.

        They depend only on ``seed`` and on the atom's id, ``ids`` (n,) int64.
        """

    def adjust(self, count: int, velocity: Array, drift: np.ndarray, factor: float) -> None:
        """Subtract ``drift`` (3,), on the host, from all velocities and multiply the result."""

    # Neighbour lists -----------------------------------------------------------------------------

    def sort_into_bins(
        self, count: int, position: Array, low: np.ndarray, density: np.ndarray, bins: np.ndarray,
        turning: bool, starts: Array, order: Array,
    ) -> None:  # fmt: skip
        """Sort atoms by bin; a bin is a box, and bins are numbered in C order of (x, y, z).

        On the host: ``low`` (3,) float64, the corner of the first bin; ``density`` (3,) float64,
        bins per length along each axis; ``bins`` (3,) int64, how many there are. Sets ``order``
        (count,) uint32 to the indices of the atoms, those of bin b from ``starts[b]`` to
        ``starts[b + 1]``; ``starts`` (bins + 1,) int64. An atom outside all bins is in the nearest
        one. With ``turning`` every other row of bins is traversed backwards, so that consecutive
        atoms are always near each other; ``starts`` is then undefined.
        """

    def fill_lists(
        self, count: int, position: Array, others: Array, own: bool, low: np.ndarray,
        density: np.ndarray, bins: np.ndarray, first_in: Array, order: Array, reach: float,
        starts: Array, neighbors: Array, last: Array,
    ) -> Any:  # fmt: skip
        """Make the list of each cluster: the ``others`` within ``reach`` of any of its atoms.

        Some may be farther away, by less than a millionth of the box that the bins fill.

        ``low``, ``density``, ``bins`` and, as ``first_in`` and ``order``, the results of
        `sort_into_bins` for ``others``. If ``own``, the others are the atoms of the clusters and
        their ghosts, and a cluster's own atoms are not listed. Sets ``starts`` (clusters + 1,)
        int64, ``neighbors`` (room,) uint32, in any order within a list, and ``last`` (clusters,)
        uint32: the highest index in each list and, if ``own``, in the cluster. Returns the number
        of entries, or -1 if there was not enough room for them; on a GPU a `HostCopy` of it, and
        without enough room all lists are empty.
        """

    # Exchange ------------------------------------------------------------------------------------

    def choose(self, count: int, values: Array, below: float, above: float, which: Array) -> Any:
        """Sort the indices of ``values`` (count or more,), float64 or uint32, into three groups.

        Sets ``which`` (count or more,) uint32 to the indices of the values less than ``below``,
        then of those from ``above`` on, then of the rest. Each group is in ascending order. A value
        in both of the first two groups is listed twice. Returns the sizes of the groups, on a GPU
        a `HostCopy` of them.
        """

    def gather(
        self, rows: Array, which: Array, sizes: Sequence[int], axis: int, over: Sequence[float],
        messages: Sequence[Any],
    ) -> None:  # fmt: skip
        """Fill two messages (m, size) with the first m ``rows`` of the atoms to send.

        ``which`` has ``sizes[0]`` indices of atoms for the first message, then ``sizes[1]`` for the
        second. To the row ``axis`` of each message its element of ``over`` (2,) is added.
        """

    def place(self, rows: Array, first: int, parts: Sequence[Any]) -> None:
        """Copy one or two arrays or messages (m, size) into the first m of the ``rows``.

        They fill the columns from ``first`` on. All are float64, or all are int64.
        """

    def arrange(self, first: int, count: int, rows: Array, order: Array, into: Array) -> None:
        """Copy ``count`` columns of ``rows`` in the order that ``order[first:]`` gives.

        Column ``order[first + n]`` becomes column n of ``into`` (m, room).
        """

    def end_here(self, position: Array, total: int) -> None:
        """Write `WIDTH` empty places after ``total`` atoms, far from all atoms and each other."""

    def first_outside(self, count: int, position: Array, low: np.ndarray, high: np.ndarray) -> Any:
        """Return the first atom that is not in [low, high), on a GPU a `HostCopy` of the number.

        If there is none, -1 or ``count``. ``low``, ``high`` (3,) float64, on the host.
        """

    # The pairs decomposition ---------------------------------------------------------------------

    def pack_positions(self, rows: Array, message: Any) -> None:
        """Fill a message (3, n) with positions, or (4, n) with positions and the bits of ids.

        ``rows`` (m, room) float64: positions first, the bits of ids in the last row.
        """

    def sent_positions(self, message: Any, over: list[float] | None, device: Memory) -> Any:
        """Return the positions in a cell's message, with ``over`` (3,) added unless it is None.

        Both in sigma. The result has a ``shape``, (3, n) or (4, n), and is for `PairTask` and
        `rows_of`, as long as the message is valid (`Buffers.received`).
        """

    def pair_lists(
        self, first: Any, second: Any, lists: Sequence[ClusterLists], cutoff: float, quantum: float
    ) -> Any:
        """Return what a `PairTask` needs besides positions, until its lists are made anew.

        ``first``, ``second``: as in the task. ``lists``: those of each cell's atoms. ``cutoff``
        and ``quantum``, the position quantum, in sigma.
        """

    def rows_of(self, positions: Any) -> Array:
        """Return the result of `sent_positions` as an array, (3, n) or (4, n) float64."""
