"""The interface of snapshot writers, which store the state of a run before its end.

A writer receives open HDF5 groups, so it need not import h5py.
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

from miniapps.contract import Piece


class SnapshotWriter(Protocol):
    """Writes part of the state after some rounds. Must be picklable."""

    name: ClassVar[str]  # of its snapshots, in the files that PEs write

    @property
    def every(self) -> int:
        """Steps between two snapshots; 0: none."""

    @property
    def frame_bytes(self) -> float:
        """The bytes of a snapshot in the run's file, about; 0: not known."""

    def wants(self, before: int, step: int) -> bool:
        """Whether to write a snapshot after a round from step ``before`` to ``step``.

        The setup is a round from step -1 to 0.
        """

    def add(self, frame: Any, pieces: list[Piece]) -> None:
        """Add a block's pieces to its PE's part of a snapshot, an HDF5 group."""

    def join(
        self, file: Any, frames: dict[int, list[Any]], record: dict[str, Any], steps: int
    ) -> None:
        """Write all snapshots to the run's file; ``frames``: their parts by step, in order.

        ``steps``: the number of steps of the run, warm-up included.
        """

    def earlier(self, file: Any) -> dict[int, list[Any]]:
        """The snapshots that `join` has written to a file, by step, as `join` takes them.

        The file stays open until they are joined. Among them may be the final state of its run.
        """


def append(data: Any, rows: Any) -> None:
    """Add rows at the end of a growing dataset."""
    before = data.shape[0]
    data.resize(before + len(rows), axis=0)
    data[before:] = rows
