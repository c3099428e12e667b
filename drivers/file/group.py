"""The ranks of a run that exchange files: reductions, barriers, and objects for start and end."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

from miniapps.contract import REDUCTIONS
from miniapps.devices.messages import HEADER_BYTES, packed
from miniapps.drivers.file.links import Folder
from miniapps.drivers.headers import HEAD, enveloped, kind_of, read_kind
from miniapps.drivers.job import RunError
from miniapps.drivers.reduction import packed_value, result_of

TAG = 0  # of no edge
NOTHING = np.zeros(0, np.int8)


class Group:
    """All ranks, with messages between any two of them; `drivers.ranks.Group`.

    ``folder``: of the messages; None: there is one rank.
    """

    def __init__(self, rank: int, size: int, folder: Folder | None) -> None:
        self.rank, self.size, self.folder = rank, size, folder
        self.sent, self.received = [0] * size, [0] * size  # messages to and from each rank
        self.room = np.empty(HEADER_BYTES, np.uint8)

    # Arrays ---------------------------------------------------------------------------------------

    def put(self, array: np.ndarray, rank: int) -> None:
        """Send an array to a rank."""
        assert self.folder is not None
        array = packed(array)
        buffer = enveloped(array)
        kind = kind_of(0, self.rank, TAG, array.shape, array.dtype)
        HEAD.pack_into(buffer.data, 0, self.sent[rank], kind)
        self.folder.put(f"{self.rank}to{rank}-{self.sent[rank]}", buffer)
        self.sent[rank] += 1

    def get(self, rank: int) -> np.ndarray:
        """Wait for an array from a rank; it may be used until the next is waited for."""
        assert self.folder is not None
        name = f"{rank}to{self.rank}-{self.received[rank]}"
        self.room = self.folder.take(name, self.room)
        number, head = HEAD.unpack_from(self.room.data)
        kind = read_kind(head)
        if (number, kind.rank) != (self.received[rank], rank):
            path, which = self.folder.path / name, f"message {number} of rank {kind.rank}"
            raise RunError(f"{path}: is {which}, not message {self.received[rank]} of rank {rank}")
        self.received[rank] += 1
        return np.ndarray(kind.shape, kind.dtype, self.room, HEADER_BYTES)

    def all_reduce(self, value: Any, op: str) -> Any:
        """Combine the values of all ranks, by recursive doubling.

        Every rank makes the same additions with operands in the same order, so all have the same
        bits. Raises RunError if ranks name several operations or sizes.
        """
        total = packed_value(value, op)
        pairs = 1 << (self.size.bit_length() - 1)  # ranks that meet in pairs; others join one
        partner = self.rank ^ pairs
        if self.rank >= pairs:
            self.put(total, partner)
            return result_of(self.get(partner), value, op)
        if partner < self.size:
            total = combined(total, self.get(partner), op)
        distance = 1
        while distance < pairs:
            other = self.rank ^ distance
            self.put(total, other)
            theirs = self.get(other)
            first, second = (total, theirs) if self.rank < other else (theirs, total)
            total = combined(first, second, op)
            distance *= 2
        if partner < self.size:
            self.put(total, partner)
        return result_of(total, value, op)

    def Barrier(self) -> None:
        """Wait for all ranks."""
        self.all_reduce(NOTHING, "max")

    # Objects --------------------------------------------------------------------------------------

    def send(self, obj: Any, dest: int) -> None:
        """Send an object to a rank."""
        self.put(np.frombuffer(pickle.dumps(obj), np.uint8), dest)

    def recv(self, *, source: int) -> Any:
        """Wait for an object from a rank."""
        return pickle.loads(self.get(source).data)

    def gather(self, sendobj: Any) -> list[Any] | None:
        """The objects of all ranks; None on other ranks than 0."""
        if self.rank:
            self.send(sendobj, 0)
            return None
        return [sendobj, *(self.recv(source=rank) for rank in range(1, self.size))]

    def bcast(self, obj: Any) -> Any:
        """The object of rank 0."""
        if self.rank:
            return self.recv(source=0)
        for rank in range(1, self.size):
            self.send(obj, rank)
        return obj

    def allgather(self, sendobj: Any) -> list[Any]:
        """The objects of all ranks."""
        found: list[Any] = self.bcast(self.gather(sendobj))
        return found


def combined(first: np.ndarray, second: np.ndarray, op: str) -> np.ndarray:
    """Two packed values, combined. Raises RunError if they have different sizes or types."""
    if (first.shape, first.dtype) != (second.shape, second.dtype):
        raise RunError(f"blocks reduce by different operations or sizes: one by {op!r}")
    total: np.ndarray = REDUCTIONS[op](first, second)
    return total
