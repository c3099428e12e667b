"""Messages in memory that the processes of one host share, read where the sender packed them.

A `Pool` is the memory in which one process packs messages for others. Each message has a slot of
its own, which the pool hands out before the block packs the message, so nothing is copied. What
travels is a `Handle`. The receiver's array is a view of the slot, which is given back when the last
reference to that array is dropped: until then the block, an inbox or a pickle may use it.

A slot is a header of `HEADER_BYTES` and a message. The header holds the number of the message, by
which a reader notices that a slot was reused too early, and a byte for each reader, which is 1
until the reader gives the slot back. The reader must have read the message before it clears that
byte. No barrier enforces this order, so this is for x86 only, where no store becomes visible before
an earlier load was made: see `unusable`.

The memory has no name in any folder (memfd), so nothing is left of it, however its processes end.
"""

from __future__ import annotations

import math
import mmap
import os
import platform
import secrets
import struct
from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from miniapps.contract import MessageError
from miniapps.devices.messages import (
    BYTE,
    HEADER_BYTES,
    Allocate,
    Envelope,
    envelope_of,
    packed,
    plain_envelope,
)

CAPACITY = 256 << 20  # bytes of a pool, usually; the system provides only pages that are written
NUMBER = struct.Struct("<q")  # of a message, at the beginning of the header
READERS = NUMBER.size  # where the bytes of the readers begin
MOST_READERS = HEADER_BYTES - READERS
LOOKS = 8  # slots at which an allocation looks whether they were given back
PAGE = mmap.PAGESIZE
ORDERED = ("x86_64", "AMD64")  # processors that keep loads before later stores
ANOTHER = "its slot in shared memory holds another one, or was given back"
EARLY = "its slot in shared memory was given back or used again while the message was in use"


class Handle(NamedTuple):
    """A message in a pool, as it travels. ``reader``: which of the slot's readers receives it."""

    owner: int
    offset: int
    number: int
    reader: int
    shape: tuple[int, ...]
    dtype: str
    writeable: bool


class Offer(NamedTuple):
    """How other processes of a host open a pool: by a file that its owner has opened."""

    host: str
    process: int
    file: int
    name: str
    nbytes: int


def unusable() -> str | None:
    """Why this system does not provide such memory, or may reorder loads and stores."""
    if not hasattr(os, "memfd_create"):
        return "this system has no memory without a name (memfd)"
    if platform.machine() not in ORDERED:
        return f"a processor of kind {platform.machine()} may store before it has loaded"
    return None


class Slot(Envelope):
    """The memory of one message in a pool of this process.

    When the last array in it is dropped, the pool takes it back, or waits for its readers.
    """

    pool: Pool | None = None  # None: a view that NumPy made
    offset = size = number = readers = 0

    def __del__(self) -> None:
        if self.pool is not None:
            self.pool.take_back(self)


class Pool:
    """The memory in which one process packs messages that others of its host read.

    Slots of a few sizes, powers of two, are cut from the memory when none is free. The slot that
    was given back last is used first, as it may still be in a cache.
    """

    def __init__(self, owner: int, least: int, nbytes: int | None = None) -> None:
        """``owner``: number of the process; ``least``: bytes of the shortest message in a slot.

        ``nbytes``: of the pool; `CAPACITY` if not given.
        Raises OSError if the system provides no such memory.
        """
        self.owner, self.least, self.nbytes = owner, least, nbytes or CAPACITY
        self.name = f"miniapps-{secrets.token_hex(8)}"
        self.file = os.memfd_create(self.name)
        os.ftruncate(self.file, self.nbytes)
        self.memory = mmap.mmap(self.file, self.nbytes)
        self.end = PAGE  # of what has been cut into slots; the first page says who reads
        self.number = 0  # of the last message
        self.free: dict[int, list[int]] = defaultdict(list)  # offsets, by size
        self.lent: deque[tuple[int, int, int]] = deque()  # offset, size and readers

    def close(self) -> None:
        """Close the file; the memory remains until nobody uses a message in it."""
        os.close(self.file)

    def offer(self) -> Offer:
        """What other processes need to open the pool."""
        return Offer(os.uname().nodename, os.getpid(), self.file, self.name, self.nbytes)

    def is_read_by(self, process: int) -> bool:
        """Whether a process, by its number, has opened the pool."""
        return self.memory[process] == 1

    def envelope(self, nbytes: int) -> Envelope:
        """Memory for a message and its header; ordinary if it is short or no slot is free."""
        if nbytes - HEADER_BYTES < self.least:
            return plain_envelope(nbytes)
        size = max(PAGE, 1 << (nbytes - HEADER_BYTES - 1).bit_length()) + PAGE
        found = self._found(size)
        if found is None:
            return plain_envelope(nbytes)
        offset, size = found
        self.number += 1
        NUMBER.pack_into(self.memory, offset, self.number)
        slot = Slot(nbytes, BYTE, self.memory, offset)
        slot.pool, slot.offset, slot.size, slot.number = self, offset, size, self.number
        return slot

    def _found(self, size: int) -> tuple[int, int] | None:
        """Offset and size of a free slot of at least a size; None if there is none."""
        if not self.free[size]:
            self._reclaim()
        if self.free[size]:
            return self.free[size].pop(), size
        if self.end + size <= self.nbytes:
            self.end += size
            return self.end - size, size
        for larger, offsets in self.free.items():
            if larger > size and offsets:
                return offsets.pop(), larger
        return None

    def _reclaim(self) -> None:
        """Look at the slots that were lent first; those still in use are looked at again later."""
        for _ in range(min(LOOKS, len(self.lent))):
            offset, size, readers = self.lent.popleft()
            begin = offset + READERS
            if self.memory.find(b"\1", begin, begin + readers) < 0:
                self.free[size].append(offset)
            else:
                self.lent.append((offset, size, readers))

    def take_back(self, slot: Slot) -> None:
        """Take a slot that this process no longer uses."""
        if slot.readers:
            self.lent.append((slot.offset, slot.size, slot.readers))
        else:
            self.free[slot.size].append(slot.offset)

    def lend(self, message: np.ndarray) -> Handle | None:
        """A handle for one reader of a message, which is copied unless it has a slot of this pool.

        None if the message is short, if no slot is free, or if the slot has too many readers.
        """
        if message.nbytes < self.least:
            return None
        slot = slot_of(message)
        if slot is None or slot.pool is not self:
            slot = slot_of(packed(message, self.envelope))
        if slot is None or slot.readers == MOST_READERS:
            return None
        reader = slot.readers
        slot.readers += 1
        self.memory[slot.offset + READERS + reader] = 1
        what = message.shape, message.dtype.str, message.flags.writeable
        return Handle(self.owner, slot.offset, slot.number, reader, *what)


def slot_of(message: np.ndarray) -> Slot | None:
    """The slot in which a message was packed, if any."""
    envelope = envelope_of(message)
    return envelope if type(envelope) is Slot else None


class Loan(np.ndarray):
    """The slot of another process, while a message in it is used here."""

    lender: PoolView | None = None
    handle: Handle

    def __del__(self) -> None:
        if self.lender is not None:
            self.lender.give_back(self.handle)


class PoolView:
    """A pool as a process reads it."""

    def __init__(self, offer: Offer, process: int) -> None:
        """``process``: the number of this process. Raises OSError if it cannot open the pool."""
        if process >= PAGE:
            raise OSError(f"process {process}: only the first {PAGE} share memory")
        path = f"/proc/{offer.process}/fd/{offer.file}"
        if offer.name not in os.readlink(path):  # here that is another process, or another file
            raise FileNotFoundError(f"{path} is not {offer.name}")
        file = os.open(path, os.O_RDWR)
        try:
            self.memory = mmap.mmap(file, offer.nbytes)
        finally:
            os.close(file)
        self.memory[process] = 1
        self.wrong: str | None = None

    def open(self, handle: Handle) -> np.ndarray:
        """The message of a handle, in place. Raises MessageError if its slot holds another one."""
        self.check()
        if not self._lent(handle):
            raise MessageError(f"message {handle.number} of PE {handle.owner}: {ANOTHER}")
        dtype = np.dtype(handle.dtype)
        nbytes = math.prod(handle.shape) * dtype.itemsize
        loan = Loan(nbytes, BYTE, self.memory, handle.offset + HEADER_BYTES)
        loan.lender, loan.handle = self, handle
        message = np.ndarray(handle.shape, dtype, loan)
        if not handle.writeable:
            message.flags.writeable = False
        return message

    def give_back(self, handle: Handle) -> None:
        """Give a slot back to the pool's owner, which may use it again."""
        if not self._lent(handle):
            self.wrong = f"message {handle.number} of PE {handle.owner}: {EARLY}"
        self.memory[handle.offset + READERS + handle.reader] = 0

    def check(self) -> None:
        """Raise MessageError if a message was in use here when its slot was used again."""
        if self.wrong is not None:
            raise MessageError(self.wrong)

    def _lent(self, handle: Handle) -> bool:
        """Whether a slot holds this message, and this reader has not given it back."""
        (number,) = NUMBER.unpack_from(self.memory, handle.offset)
        return number == handle.number and self.memory[handle.offset + READERS + handle.reader] == 1


class Pools:
    """The pool of a process, and those of the other processes of its host, as it reads them."""

    def __init__(self, process: int, least: int, nbytes: int | None = None) -> None:
        """``least``: bytes of the shortest message that goes through shared memory.

        ``nbytes``: of the pool, if not as usual.
        """
        self.process, self.least, self.nbytes = process, least, nbytes
        self.pool: Pool | None = None
        self.views: dict[int, PoolView] = {}  # by process
        self.readers: set[int] = set()  # the processes that read the pool of this one
        self.everyone = False  # whether all do
        self.why: str | None = None  # messages that were to go through shared memory do not

    def offer(self) -> Offer | None:
        """Create the pool; returns what others need to open it, None if there is none."""
        self.why = unusable()
        if self.why is not None:
            return None
        try:
            self.pool = Pool(self.process, self.least, self.nbytes)
        except OSError as error:  # messages take another way
            self.why = f"shared memory: {error}"
            return None
        return self.pool.offer()

    def open(self, offers: Sequence[Offer | None]) -> None:
        """Open the pools of the processes of this host; ``offers``: of all processes."""
        host = os.uname().nodename
        for process, offer in enumerate(offers):
            if offer is None or offer.host != host:
                continue
            try:
                self.views[process] = PoolView(offer, self.process)
            except OSError as error:
                self.why = f"shared memory of PE {process}: {error}"

    def begin(self, processes: int) -> None:
        """Find out which of all processes have opened the pool; without readers it is not used."""
        if self.pool is None:
            return
        self.readers = {process for process in range(processes) if self.pool.is_read_by(process)}
        self.everyone = len(self.readers) == processes
        self.pool.close()
        if self.readers <= {self.process}:
            self.pool = None

    def share(self, group: Any) -> None:
        """Create the pool and open those of others, in each process of an MPI communicator."""
        self.open(group.allgather(self.offer()))
        group.Barrier()
        self.begin(group.size)

    @property
    def allocate(self) -> Allocate:
        """What gives blocks of this process the memory of their messages."""
        return plain_envelope if self.pool is None else self.pool.envelope

    def lend(self, message: np.ndarray, process: int | None) -> Handle | None:
        """A handle of a message for a process; None if the message must take another way.

        ``process`` is None if it is not known where the receiver is.
        """
        if self.pool is None or not (self.everyone or process in self.readers):
            return None
        return self.pool.lend(message)

    def borrow(self, handle: Handle) -> np.ndarray:
        """The message of a handle, in place. Raises MessageError if its slot holds another one."""
        return self.views[handle.owner].open(handle)

    def check(self) -> None:
        """Raise MessageError if a slot was used again while its message was in use here."""
        for view in self.views.values():
            view.check()
