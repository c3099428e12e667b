"""The atoms of a block, its ghosts, and lists of neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np

ROOM = 1.1  # times as many places as are needed
COLUMN, STORY = 1.6, 0.6  # sigma: size of the bins in x and y, and in z


class Atoms:
    """Structure of arrays: ``count`` atoms, then ghosts up to ``total``, then empty places."""

    def __init__(self, kernels: Any) -> None:
        self.count = self.total = 0
        self.ids = np.empty(0, np.int64)
        self.velocity = np.empty((3, 0))
        self.empty = kernels.FAR * np.arange(1, kernels.WIDTH + 1)  # far from each other too
        self._make_room(0)

    def __getstate__(self) -> dict[str, Any]:
        """The atoms and ghosts, without the room behind them."""
        state = self.__dict__.copy()
        for name, end in (("position", self.total), ("force", self.count), ("origin", self.count)):
            state[name] = np.ascontiguousarray(state[name][:, :end])
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Make room again."""
        kept = {name: state.pop(name) for name in ("position", "force", "origin")}
        self.__dict__.update(state)
        self.ids, self.velocity = np.array(self.ids), np.array(self.velocity)
        self._make_room(self.total)
        for name, values in kept.items():
            getattr(self, name)[:, : values.shape[1]] = values
        self.end_here(self.total)

    def _make_room(self, total: int) -> None:
        """Arrays for ``total`` atoms and ghosts; whatever was in them is gone."""
        room = int(ROOM * total) + 2 * len(self.empty)
        self.position, self.origin = np.empty((3, room)), np.empty((3, room))
        self.force = np.zeros((3, room), np.int64)

    def reserve(self, total: int) -> None:
        """Have room for so many atoms and ghosts; all but the forces stay."""
        room = self.position.shape[1]
        if total + len(self.empty) <= room:
            return
        position, origin = self.position, self.origin
        self._make_room(total)
        self.position[:, :room], self.origin[:, :room] = position, origin

    def set(self, ids: np.ndarray, position: np.ndarray, velocity: np.ndarray) -> None:
        """Be these atoms, without ghosts."""
        self.count, self.ids, self.velocity = len(ids), ids, velocity
        self.total = 0
        self.extend(position)

    def extend(self, position: np.ndarray) -> None:
        """Put ghosts behind the others."""
        total = self.total + position.shape[1]
        self.reserve(total)
        self.position[:, self.total : total] = position
        self.end_here(total)

    def end_here(self, total: int) -> None:
        """Say that places from ``total`` on hold no atom."""
        self.total = total
        self.position[:, total : total + len(self.empty)] = self.empty

    def own(self, name: str) -> np.ndarray:
        """An array without ghosts: (3, count)."""
        return getattr(self, name)[:, : self.count]


class Bins:
    """Points of a box, counted and numbered bin by bin."""

    def __init__(self, low: np.ndarray, high: np.ndarray) -> None:
        sides = np.maximum(high - low, 1e-6)
        self.low = np.array(low)
        self.bins = np.maximum(sides / (COLUMN, COLUMN, STORY), 1).astype(np.int64)
        self.density = self.bins / sides
        self.starts = np.empty(int(self.bins.prod()) + 1, np.int64)

    def sort(self, kernels: Any, position: np.ndarray, count: int, turning: bool) -> np.ndarray:
        """The order of points by bins: (count,) uint32; see `kernels.leanmd_cpu`."""
        order = np.empty(count, np.uint32)
        kernels.sort_into_bins(
            count, position, self.low, self.density, self.bins, turning, self.starts, order
        )
        return order


class Lists:
    """Which ``others`` each cluster of atoms must look at."""

    def __init__(self, own: bool) -> None:
        self.own = own  # the others are the same atoms, and their ghosts
        self.starts = np.zeros(1, np.int64)
        self.neighbors = np.empty(0, np.uint32)
        self.last = np.empty(0, np.uint32)
        self.all_clusters = np.empty(0, np.uint32)
        self.places = 0  # in all clusters

    def __getstate__(self) -> dict[str, Any]:
        """Everything, but of the entries only those that there are."""
        return self.__dict__ | {"neighbors": self.neighbors[: self.starts[-1]]}

    def fill(
        self, kernels: Any, count: int, position: np.ndarray, others: np.ndarray, total: int,
        corners: tuple[np.ndarray, np.ndarray], reach: float,
    ) -> None:  # fmt: skip
        """List what is within reach of ``count`` atoms, among ``total`` others in a box."""
        bins = Bins(*corners)
        order = bins.sort(kernels, others, total, turning=False)
        clusters = -(-count // kernels.WIDTH)
        self.all_clusters = np.arange(clusters, dtype=np.uint32)
        self.places = clusters * kernels.WIDTH
        self.starts, self.last = np.zeros(clusters + 1, np.int64), np.empty(clusters, np.uint32)
        while True:
            found = kernels.fill_lists(
                count, position, others, self.own, bins.low, bins.density, bins.bins, bins.starts,
                order, reach, self.starts, self.neighbors, self.last,
            )  # fmt: skip
            if found >= 0:
                return
            self.neighbors = np.empty(int(1.3 * len(self.neighbors)) + 40 * total + 1000, np.uint32)

    def clusters(self, first_ghost: int, width: int) -> tuple[np.ndarray, np.ndarray]:
        """The clusters that no ghost is near, and the others: uint32 numbers."""
        numbers = self.all_clusters
        inner = (self.last < first_ghost) & (width * (numbers + 1) <= first_ghost)
        return numbers[inner], numbers[~inner]
