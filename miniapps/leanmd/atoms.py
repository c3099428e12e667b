"""The atoms of a block, its ghosts, and its neighbour lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, cast

import numpy as np

from miniapps import kernels
from miniapps.arrays import arrived
from miniapps.devices.backend import Device, HostCopy, Memory, known
from miniapps.kernels.leanmd.interface import LeanmdKernels
from miniapps.kernels.leanmd.units import NO_ERROR

ROOM = 1.1  # capacity of new arrays over the number of atoms
COLUMN, STORY = 1.6, 0.6  # sigma: size of the bins in x and y, for clusters of 4, and in z
ROWS = 7  # numbers of an atom that changes domain: position, velocity, and the bits of its id
CPU = Device()


class Atoms:
    """Structure of arrays: ``count`` atoms, then ghosts up to ``total``, then unused entries.

    ``rows`` (7, room) float64: positions, velocities and the bits of ids; ``position`` and
    ``velocity`` are views of it. ``force`` (3, room) int64, ``origin`` (3, room) float64 and
    ``error_flags`` (4,) int64, see `kernels.leanmd.units`. All are on the device.
    """

    rows: Any
    position: Any
    velocity: Any

    def __init__(self, device: Device) -> None:
        self.device = device
        self.count = self.total = 0
        self._make_room(0)
        self._watch(device.to_device(np.array(NO_ERROR)))

    @cached_property
    def kernels(self) -> LeanmdKernels:
        """The kernels for the device."""
        return cast(LeanmdKernels, kernels.load("leanmd", self.device.name))

    def __getstate__(self) -> dict[str, Any]:
        """The atoms and ghosts, without unused entries."""
        leaving, own, ghosts = self.device.leaving, slice(self.count), slice(self.count, self.total)
        state = {name: getattr(self, name) for name in ("device", "count", "total")}
        for name in ("rows", "force", "origin"):
            state[name] = leaving(getattr(self, name), own)
        state["ghosts"] = leaving(self.position, ghosts)
        return state | {"error_flags": leaving(self.error_flags)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Put the atoms and ghosts back on the device."""
        self.device, self.count = state["device"], state["count"]
        self._make_room(state["total"])
        offsets = {"rows": 0, "force": 0, "origin": 0, "ghosts": self.count}
        for name, first in offsets.items():
            into = self.position if name == "ghosts" else getattr(self, name)
            self.kernels.place(into, first, [self.device.arriving(state[name])])
        self._watch(arrived(self.device, state["error_flags"]))
        self.end_here(state["total"])

    def clear_error_flags(self) -> None:
        """Clear all error flags."""
        self.kernels.clear(self.error_flags)

    def _watch(self, error_flags: Any) -> None:
        """Use these error flags from now on."""
        self.error_flags, self.copy = error_flags, self.device.host_copy(error_flags)
        self.shown: HostCopy | None = None

    def show(self) -> None:
        """Let the error flags be `seen` later as they are after all kernels launched so far."""
        if self.copy is not None:
            self.copy.begin()
            self.shown = self.copy

    def seen(self) -> np.ndarray | None:
        """The error flags last shown: never on the CPU."""
        return None if self.shown is None else np.array(self.shown.get())

    # Room ----------------------------------------------------------------------------------------

    def _make_room(self, total: int) -> None:
        """Allocate arrays for ``total`` atoms and ghosts; their contents are lost."""
        room = int(ROOM * total) + 2 * self.kernels.WIDTH
        self._take(self.device.empty((ROWS, room), np.float64))
        self.origin = self.device.empty((3, room), np.float64)
        self.force = self.device.to_device(np.zeros((3, room), np.int64))

    def _take(self, rows: Any) -> None:
        """Use these rows from now on."""
        self.rows, self.position, self.velocity = rows, rows[:3], rows[3:6]

    def has_room(self, total: int) -> bool:
        """Whether there is room for ``total`` atoms and ghosts."""
        return total + self.kernels.WIDTH <= self.rows.shape[1]

    def reserve(self, total: int) -> None:
        """Make room for ``total`` atoms and ghosts; keeps everything but the forces."""
        if not self.has_room(total):
            rows, origin = self.rows, self.origin
            self._make_room(total)
            self.kernels.place(self.rows, 0, [rows])
            self.kernels.place(self.origin, 0, [origin])

    # Contents ------------------------------------------------------------------------------------

    def set(self, ids: np.ndarray, position: np.ndarray, velocity: np.ndarray) -> None:
        """Replace all atoms by these, (n,) and (3, n) on the host; removes the ghosts."""
        rows = np.ascontiguousarray(np.concatenate([position, velocity, [ids.view(np.float64)]]))
        everyone = np.arange(len(ids), dtype=np.uint32)
        self.arrange(len(ids), self.device.to_device(rows), self.device.to_device(everyone))

    def arrange(self, count: int, rows: Any, order: Any) -> None:
        """Replace all atoms by (7, n) rows, in ``order``; sets their origins, removes ghosts."""
        if self.has_room(count):
            self._take(self.device.empty(self.rows.shape, np.float64))
        else:
            self._make_room(count)
        for into in (self.rows, self.origin):
            self.kernels.arrange(0, count, rows, order, into)
        self.count = count
        self.end_here(count)

    def extend(self, parts: Sequence[Any]) -> None:
        """Append ghosts, given in parts of shape (3, n)."""
        total = self.total + sum(part.shape[1] for part in parts)
        self.reserve(total)
        self.kernels.place(self.position, self.total, parts)
        self.end_here(total)

    def end_here(self, total: int) -> None:
        """Mark the entries from ``total`` on as unused."""
        self.total = total
        self.kernels.end_here(self.position, total)

    def own(self, name: str) -> np.ndarray:
        """The atoms' part of an array, without ghosts, on the host: (m, count)."""
        return self.device.to_host(getattr(self, name))[:, : self.count]

    @property
    def ids(self) -> np.ndarray:
        """The ids of the atoms, on the host: (count,) int64."""
        return self.device.to_host(self.rows[ROWS - 1])[: self.count].view(np.int64)

    def identity(self, side: float) -> np.ndarray:
        """The sums over all atoms of id times the bits of velocity and x, modulo 2^64; on a GPU 0.

        x is wrapped into the box, whose ``side`` is along x. While atoms do not move, the sums over
        all blocks change only if an atom gets another id, velocity or position. (3,) uint64.
        """
        if self.device.name != "cpu":
            return np.zeros(3, np.uint64)  # the copy to the host would take longer than a step
        ids, x = self.ids.view(np.uint64), self.position[0, : self.count]
        x = x + side * (x < 0) - side * (x >= side)
        return self.velocity.view(np.uint64)[:, : self.count] @ ids + x.view(np.uint64) @ ids

    def sums_of_ids(self) -> np.ndarray:
        """The number of atoms and sums of their ids: (3,) uint64; see `kernels.state_hash.cpu`."""
        return kernels.load("state_hash", "cpu").sums_of_ids(self.count, self.ids)


class Bins:
    """The bins of a box, into which points are sorted.

    ``width``: how many atoms in a row form a cluster. As many in a column of bins fill about a cube
    in a dense system: the more compact a cluster, the fewer pairs beyond the cutoff.
    """

    def __init__(
        self, low: np.ndarray, high: np.ndarray, device: Memory = CPU, width: int = 4
    ) -> None:
        sides = np.maximum(high - low, 1e-6)
        self.low, self.device = np.array(low), device
        column = COLUMN * (width / 4) ** (1 / 3)
        self.bins = np.maximum(sides / (column, column, STORY), 1).astype(np.int64)
        self.density = self.bins / sides
        self.starts = device.empty((int(self.bins.prod()) + 1,), np.int64)

    def sort(self, kernels: LeanmdKernels, position: Any, count: int, turning: bool) -> Any:
        """The order of points by bins: (count,) uint32; see `LeanmdKernels`."""
        order = self.device.empty((count,), np.uint32)
        kernels.sort_into_bins(
            count, position, self.low, self.density, self.bins, turning, self.starts, order
        )
        return order


class Lists:
    """Neighbour lists: for each cluster of atoms, the ``others`` within reach."""

    ON_DEVICE = "starts", "neighbors", "last"

    def __init__(self, own: bool, device: Memory = CPU) -> None:
        self.own, self.device = own, device  # own: the others are the same atoms and ghosts
        self.clusters = self.entries = 0
        self.starts = device.to_device(np.zeros(1, np.int64))
        self.neighbors, self.last = (device.empty((0,), np.uint32) for _ in range(2))
        self.found: Any = None  # the number of entries, or -1, until it is known
        self.widen: Callable[[], None] | None = None  # makes them again with more room, until then

    @cached_property
    def all_clusters(self) -> Any:
        """The indices of all clusters."""
        return self.device.to_device(np.arange(self.clusters, dtype=np.uint32))

    def __getstate__(self) -> dict[str, Any]:
        """The attributes, ``neighbors`` without unused entries; ``all_clusters`` is made again."""
        kept = {name: value for name, value in self.__dict__.items() if name != "all_clusters"}
        used = {"neighbors": slice(self.entries)}
        arrays = {
            name: self.device.leaving(getattr(self, name), used.get(name, slice(None)))
            for name in self.ON_DEVICE
        }
        return kept | arrays

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Put the arrays back on the device."""
        arrays = {name: arrived(state["device"], state[name]) for name in self.ON_DEVICE}
        self.__dict__.update(state | arrays)

    def fill(
        self, kernels: LeanmdKernels, count: int, position: Any, others: Any, total: int,
        corners: tuple[np.ndarray, np.ndarray], reach: float,
    ) -> None:  # fmt: skip
        """List which of ``total`` others in a box are within reach of ``count`` atoms.

        On a GPU kernels may read the lists, but what they compute counts only if `made_again`
        returns False, as there may not have been enough room.
        """
        bins = Bins(*corners, self.device, kernels.WIDTH)
        order = bins.sort(kernels, others, total, turning=False)
        self.clusters = -(-count // kernels.WIDTH)
        self.__dict__.pop("all_clusters", None)
        self.starts = self.device.empty((self.clusters + 1,), np.int64)
        self.last = self.device.empty((self.clusters,), np.uint32)

        def fill() -> None:
            self.found = kernels.fill_lists(
                count, position, others, self.own, bins.low, bins.density, bins.bins, bins.starts,
                order, reach, self.starts, self.neighbors, self.last,
            )  # fmt: skip

        def widen() -> None:
            room = int(1.3 * self.neighbors.size) + 40 * total + 1000
            self.neighbors = self.device.empty((room,), np.uint32)
            fill()

        self.widen = widen
        if self.neighbors.size:
            fill()
        else:
            widen()
        while not isinstance(self.found, HostCopy) and self.made_again():
            pass

    def made_again(self) -> bool:
        """Make the lists again if there was not enough room for them; return whether.

        Waits until the GPU has counted the entries.
        """
        if self.widen is None:
            return False
        self.entries = known(self.found)
        if self.entries < 0:
            self.widen()
            return True
        self.found = self.widen = None
        return False

    def parted(self, kernels: LeanmdKernels, first_ghost: int) -> tuple[Any, Any]:
        """All clusters, those without nearby ghosts first; what `choose` returns, their number."""
        numbers = self.device.empty((self.clusters,), np.uint32)
        return numbers, kernels.choose(self.clusters, self.last, first_ghost, first_ghost, numbers)
