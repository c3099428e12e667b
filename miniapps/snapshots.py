"""What a run writes of its state at other times than the end: the interface of snapshot writers.

A writer gets groups of HDF5 files as they are; no app imports the library.
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

from miniapps.contract import Piece


class SnapshotWriter(Protocol):
    """Writes something of the state after some rounds; must pickle."""

    name: ClassVar[str]  # of its snapshots in the files of PEs

    def wants(self, before: int, step: int) -> bool:
        """Whether it writes after a round from step ``before`` to ``step``."""

    def add(self, frame: Any, pieces: list[Piece]) -> None:
        """Add a block's pieces to its PE's part of a snapshot, an HDF5 group."""

    def join(
        self, file: Any, frames: dict[int, list[Any]], record: dict[str, Any], steps: int
    ) -> None:
        """Write all snapshots to the run's file, given each step's parts, in the order of steps.

        ``steps``: how many the run has made, warm-up included.
        """


def append(data: Any, rows: Any) -> None:
    """Add rows at the end of a growing dataset."""
    before = data.shape[0]
    data.resize(before + len(rows), axis=0)
    data[before:] = rows
