"""A checker of the order of memory accesses, over the stub driver: a happens-before analysis.

``MINIAPPS_CUDA_TOOLKIT=races:Checked`` chooses it. Host and streams have vector clocks, which say
how much of the work of each they come after. A launch, a copy, a record or a wait moves them as
CUDA orders them. Each piece of memory knows who has read and written it last, and when; an access
after one that its clock does not cover is a race. Races are kept in ``RACES.found``, and appended
to the file that the variable `FILE` names.

Copies to the host arrive late: at the first wait of the host that covers them. Until then there is
poison in their place.
"""

from __future__ import annotations

import bisect
import ctypes
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache, wraps
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pool
import stores
from stub import Stub

from miniapps.devices.cuda import backend, buffers, driver, exports, memory, moves
from miniapps.devices.cuda.compiler import Kernel
from miniapps.devices.cuda.toolkit import Launcher
from miniapps.drivers.gpu_ipc import Ledger, Loan

FILE = "MINIAPPS_RACES"
ROOT = Path(__file__).resolve().parents[4]
HOST = "the host"
PASSED_ON = (  # by these files: places of accesses are where they are called
    "devices/cuda/driver.py",
    "devices/cuda/launches.py",
    "devices/cuda/memory.py",
    "devices/cuda/streams.py",
    "devices/cuda/tasks.py",
    "devices/cuda/toolkit.py",
    "tests/gpu/stub/",
)
WORD = 8
COMPARED = 3  # launches of a kernel, whose arrays must change as its source says
MOST = 1024  # streams, and the host
Clock = np.ndarray  # (MOST,) int64: of each, how many of its actions have happened before


class Race(RuntimeError):
    """The first race, where a run ends at it."""


class Access(NamedTuple):
    """Who has accessed memory, by its number, as which of its actions, and where in the program."""

    who: int
    time: int
    what: str
    where: tuple[str, int]

    def comes_before(self, clock: Clock) -> bool:
        """Whether it has happened before what has this clock."""
        return clock[self.who] >= self.time

    @property
    def words(self) -> str:
        """Who, and where."""
        return f"{self.what} at {shown(self.where)}"


class Piece:
    """Memory that is handed out as a whole; `stream`: in whose work; None: pinned memory."""

    def __init__(self, begin: int, size: int, stream: Any) -> None:
        self.begin, self.size, self.stream = begin, size, stream
        self.writes: dict[Any, Access] = {}
        self.reads: dict[Any, Access] = {}

    def words(self) -> np.ndarray:
        """What is in it, as integers."""
        return np.frombuffer(ctypes.string_at(self.begin, self.size // WORD * WORD), np.int64)


class Copy(NamedTuple):
    """A copy from or to the host that may be going on.

    ``holder``: the host's array if it is not pinned; ``data``: what is copied.
    """

    access: Access
    place: int
    data: bytes
    to_host: bool
    holder: Any

    def is_at(self, begin: int, size: int) -> bool:
        """Whether its memory on the host is among these bytes."""
        return self.place < begin + size and begin < self.place + len(self.data)


@cache
def in_tree(file: str) -> str:
    """The path of a file of the program from the root, which links do not change; else the file."""
    return str(Path(file).resolve()).removeprefix(f"{ROOT}/")


@cache
def is_passed_on(file: str) -> bool:
    """Whether a place in a file is not one to name."""
    return in_tree(file).startswith(("/", *PASSED_ON))


def here() -> tuple[str, int]:
    """The place in the program that is being executed: file and line."""
    frame: Any = sys._getframe(1)
    while frame.f_back is not None and is_passed_on(frame.f_code.co_filename):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def shown(where: tuple[str, int]) -> str:
    """A place in words."""
    return f"{in_tree(where[0])}:{where[1]}"


def join(clock: Clock, other: Clock) -> None:
    """Let a clock come after another, too."""
    np.maximum(clock, other, out=clock)


class Races:
    """The clocks, the memory, the copies that go on, and the races found so far."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}
        self.clocks: defaultdict[Any, Clock] = defaultdict(lambda: np.zeros(MOST, np.int64))
        self.events: dict[int, Clock] = {}
        self.pieces: dict[int, Piece] = {}
        self.begins: list[int] = []
        self.copies: list[Copy] = []
        self.found: dict[str, None] = {}
        self.ends_run = False  # whether the first race does

    # Clocks

    def begin(self, who: Any) -> Clock:
        """The clock of a new action of a stream, or of the host."""
        if self.found and self.ends_run:
            raise Race(next(iter(self.found)))
        clock = self.clocks[who]
        join(clock, self.clocks[HOST])
        clock[self.number(who)] += 1
        return clock

    def number(self, who: Any) -> int:
        """The number of a stream, or of the host."""
        return self.numbers.setdefault(who, len(self.numbers))

    def record(self, event: int, stream: int) -> None:
        """Note what an event comes after."""
        self.events[event] = self.begin(stream).copy()

    def wait(self, stream: int, event: int) -> None:
        """Let a stream come after an event."""
        join(self.begin(stream), self.events[event])

    def host_waits(self, clock: Clock) -> None:
        """Let the host come after what has a clock; copies arrive."""
        self.look_at_copies()
        join(self.clocks[HOST], clock)
        going_on = []
        for copy in self.copies:
            if not copy.access.comes_before(self.clocks[HOST]):
                going_on.append(copy)
            elif copy.to_host:
                ctypes.memmove(copy.place, copy.data, len(copy.data))
        self.copies = going_on

    def read_time(self, event: int) -> None:
        """The host asks for an event's time, which is an error before it is reached."""
        if (self.events[event] > self.clocks[HOST]).any():
            self.report(f"the time of a mark that may not be reached is read at {shown(here())}")

    # Memory

    def given(self, begin: int, size: int, stream: Any) -> None:
        """Memory is handed out."""
        if begin not in self.pieces:
            self.pieces[begin] = Piece(begin, size, stream)
            bisect.insort(self.begins, begin)

    def freed(self, begin: int, size: int, stream: Any) -> None:
        """Memory is freed: whoever gets it next may write it at once."""
        piece = self.pieces[begin]
        clock = self.clocks[HOST].copy()
        if stream is not pool.PINNED:
            join(clock, self.clocks[stream])
        self.check(piece, clock, True, Access(0, 0, "freed", here()))
        self.copies = [copy for copy in self.copies if not copy.is_at(begin, size)]

    def piece(self, address: int) -> Piece | None:
        """The piece of memory that has an address."""
        number = bisect.bisect_right(self.begins, address) - 1
        piece = self.pieces[self.begins[number]] if number >= 0 else None
        return piece if piece and address < piece.begin + piece.size else None

    def check(self, piece: Piece, clock: Clock, writes: bool, now: Access) -> None:
        """Report earlier accesses that conflict with one and do not come before it."""
        for done, kind in ((piece.writes, "written"), (piece.reads if writes else {}, "read")):
            for access in done.values():
                if not access.comes_before(clock):
                    self.report(f"{kind} {access.words}, and with no order {now.words}")

    def access(self, who: Any, address: int, writes: bool, what: str) -> Access:
        """The host or a stream accesses memory, in its action that has begun last."""
        clock = self.clocks[who]
        kind = "written" if writes else "read"
        number = self.number(who)
        now = Access(number, int(clock[number]), what, here())
        piece = self.piece(address)
        if piece is not None:
            self.check(piece, clock, writes, now._replace(what=f"{kind} {what}"))
            if writes:
                piece.writes, piece.reads = {who: now}, {}
            else:
                piece.reads[who] = now
        return now

    def host(self, address: int, writes: bool, what: str = "by the host") -> None:
        """The host accesses memory."""
        self.begin(HOST)
        self.access(HOST, address, writes, what)

    # Copies

    def copy(self, stream: int, place: int, address: int, size: int, to_host: bool) -> None:
        """Begin a copy between host and device."""
        self.look_at_copies()
        if not to_host and self.piece(place) is not None:
            self.host(place, True)  # at the latest now; `look_at_copies` notices later writes
        self.begin(stream)
        what = f"by a copy {'to' if to_host else 'from'} the host"
        self.access(stream, place, to_host, what)
        now = self.access(stream, address, not to_host, what)
        data = ctypes.string_at(address if to_host else place, size)
        if to_host:
            ctypes.memset(place, pool.POISON, size)
        else:
            ctypes.memmove(address, data, size)
        holder = None if self.piece(place) is not None else HELD.pop(place, None)
        self.copies.append(Copy(now, place, data, to_host, holder))

    def look_at_copies(self) -> None:
        """Report copies whose memory on the host was changed or freed while they go on."""
        kept = []
        for copy in self.copies:
            # The array is held by the copy, and as the argument.
            if copy.holder is not None and sys.getrefcount(copy.holder) <= 2:
                wrong = "freed"
            elif not copy.to_host and ctypes.string_at(copy.place, len(copy.data)) != copy.data:
                wrong = "changed"
            else:
                kept.append(copy)
                continue
            words = copy.access.words
            self.report(f"host memory, used {words}, is {wrong} before {shown(here())}")
        self.copies = kept

    def host_reads(self, begin: int, size: int) -> None:
        """The host reads its memory: no copy to it may be going on."""
        for copy in self.copies:
            if copy.to_host and copy.is_at(begin, size):
                self.report(
                    f"written {copy.access.words}, and with no order read at {shown(here())}"
                )

    # Launches

    def launch(self, kernel: Kernel, stream: int, arguments: tuple[Any, ...]) -> None:
        """A kernel begins."""
        self.look_at_copies()
        self.begin(stream)
        name, stored = kernel.function.__qualname__, stores.arguments(kernel.function)
        every = [(n, a) for n, a in enumerate(arguments) if isinstance(a, driver.DeviceArray)]
        arrays = [(number, array) for number, array in every if array.size]
        for number, array in arrays:
            self.access(stream, array.address, number in stored, f"by {name}")
        views = stores.views(kernel.function)
        if not views:
            return
        tables = [pool.host_view(a) for _, a in arrays if a.dtype.itemsize == WORD]
        tables += [np.array(a) for a in arguments if isinstance(a, tuple)]
        for table in tables:
            words, written = table.view(np.int64), set[int]()
            every = [words.reshape(-1)]
            for view in views:
                if view.column is None or words.ndim == 1:
                    continue
                addresses = self.addresses(words[:, view.column])
                there = [piece for piece in map(self.piece, addresses) if piece is not None]
                if view.is_stored:
                    written |= {piece.begin for piece in there}
                if view.is_table:
                    every += [piece.words() for piece in there]
            for address in self.addresses(np.concatenate(every)):
                piece = self.piece(address)
                changed = piece is not None and piece.begin in written
                self.access(stream, address, changed, f"by {name}")

    def addresses(self, words: np.ndarray) -> Iterator[int]:
        """Those of some words that are addresses of memory, one for each piece."""
        words = np.unique(words)
        low, high = np.searchsorted(words, [self.begins[0], self.begins[-1] + (1 << 40)])
        seen: set[int] = set()
        for word in words[low:high].tolist():
            piece = self.piece(word)
            if piece is not None and piece.begin not in seen:
                seen.add(piece.begin)
                yield word

    def report(self, words: str) -> None:
        """Keep a race, once."""
        if words not in self.found:
            self.found[words] = None
            if FILE in os.environ:
                with open(os.environ[FILE], "a") as file:
                    file.write(f"{words}\n")


RACES = Races()
HELD: dict[int, Any] = {}  # arrays of the host by address, whose copy begins next
BORROWED: dict[bytes, int] = {}  # addresses of other processes' memory, by place
PLACES: dict[int, bytes] = {}  # of what was lent, by the number of the loan


class Watched:
    """NVIDIA's driver as `devices.cuda.driver` calls it, with the checker looking on."""

    def __init__(self, real: Any) -> None:
        self.real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def cuStreamSynchronize(self, stream: Any) -> Any:  # noqa: N802
        RACES.host_waits(RACES.clocks[int(stream)])
        return self.real.cuStreamSynchronize(stream)

    def cuEventRecord(self, event: Any, stream: Any) -> Any:  # noqa: N802
        RACES.record(int(event), int(stream))
        return self.real.cuEventRecord(event, stream)

    def cuEventSynchronize(self, event: Any) -> Any:  # noqa: N802
        RACES.host_waits(RACES.events[int(event)])
        return self.real.cuEventSynchronize(event)

    def cuEventQuery(self, event: Any) -> Any:  # noqa: N802
        result = self.real.cuEventQuery(event)
        if not result[0]:
            RACES.host_waits(RACES.events[int(event)])
        return result

    def cuStreamWaitEvent(self, stream: Any, event: Any, flags: int) -> Any:  # noqa: N802
        RACES.wait(int(stream), int(event))
        return self.real.cuStreamWaitEvent(stream, event, flags)

    def cuEventElapsedTime(self, first: Any, last: Any) -> Any:  # noqa: N802
        RACES.read_time(int(first))
        RACES.read_time(int(last))
        return self.real.cuEventElapsedTime(first, last)

    def cuMemcpyDtoHAsync(self, place: int, address: int, size: int, stream: Any) -> Any:  # noqa: N802
        RACES.copy(int(stream), place, address, size, True)
        return (0,)

    def cuMemcpyHtoDAsync(self, address: int, place: int, size: int, stream: Any) -> Any:  # noqa: N802
        RACES.copy(int(stream), place, address, size, False)
        return (0,)

    def cuMemcpyDtoDAsync(self, to: int, source: int, size: int, stream: Any) -> Any:  # noqa: N802
        RACES.begin(int(stream))
        RACES.access(int(stream), source, False, "by a copy")
        RACES.access(int(stream), to, True, "by a copy")
        return self.real.cuMemcpyDtoDAsync(to, source, size, stream)

    def cuMemsetD8Async(self, address: int, value: int, size: int, stream: Any) -> Any:  # noqa: N802
        RACES.begin(int(stream))
        RACES.access(int(stream), address, True, "by zeroing")
        return self.real.cuMemsetD8Async(address, value, size, stream)


class Checked(Stub):
    """The toolkit of the stub driver, with the checker."""

    checks_parameters = False

    def __init__(self) -> None:
        super().__init__()
        self.compared: Counter[Kernel] = Counter()
        watch()

    def compile(self, kernel: Kernel) -> Launcher:
        """A kernel whose launches the checker sees."""
        launcher, compared = super().compile(kernel), self.compared

        def checked(how: tuple[Any, ...]) -> Any:
            launch = launcher(how)

            def both(*arguments: Any, **options: Any) -> None:
                RACES.launch(kernel, int(how[-1].handle), arguments)
                if compared[kernel] == COMPARED:
                    launch(*arguments, **options)
                    return
                compared[kernel] += 1
                before = read_only(kernel, arguments)
                launch(*arguments, **options)
                assert before == read_only(kernel, arguments), kernel.function.__qualname__

            return both

        return checked

    def is_last_user(self, array: Any) -> bool:
        """Memory of messages that will be used again is as good as freed."""
        last = super().is_last_user(array)
        if last and array.size:
            pool.end(array.memory.stream, array.memory.bytes)
        return last

    def for_mpi(self, array: Any) -> Any:
        """MPI reads it."""
        RACES.host(array.address, False, "by MPI")
        return super().for_mpi(array)


def read_only(kernel: Kernel, arguments: tuple[Any, ...]) -> list[bytes]:
    """What is in the arrays that a kernel should not write, by its source.

    An array that is given twice may be written as one of them.
    """
    stored = stores.arguments(kernel.function)
    arrays = [(n, a) for n, a in enumerate(arguments) if isinstance(a, driver.DeviceArray)]
    written = {array.address for n, array in arrays if n in stored}
    return [pool.host_view(a).tobytes() for _, a in arrays if a.address not in written]


@cache
def watch() -> None:
    """Let the checker see the driver, memory, and what the host reads, from now on."""
    driver.driver = Watched(driver.driver)
    pool.watchers.given, pool.watchers.freed = RACES.given, RACES.freed
    beside, room = driver.DeviceArray._beside, backend.Gpu.room
    to_host, on_host = memory.to_host, buffers.MessageBuffer.on_host
    copied, arrived = moves.Leaving.copied, memory.PinnedCopy.arrived

    @wraps(beside)
    def held(self: Any, host: np.ndarray) -> tuple[int, int]:
        place, size = beside(self, host)
        HELD.clear()
        HELD[place] = host if host.base is None else host.base
        return place, size

    @wraps(room)
    def received(self: Any, *what: Any) -> Any:
        view = room(self, *what)
        RACES.host(view.address, True, "by MPI")
        return view

    @wraps(to_host)
    def read(array: Any) -> np.ndarray:
        copy = to_host(array)
        RACES.host_reads(copy.ctypes.data, copy.nbytes)
        return copy

    @wraps(on_host)
    def message(self: Any, edge: Any) -> np.ndarray:
        array = on_host(self, edge)
        RACES.host(array.ctypes.data, False)
        return array

    @wraps(copied)
    def left(self: Any, *room: Any) -> np.ndarray:
        array = copied(self, *room)
        RACES.host_reads(array.ctypes.data, array.nbytes)
        return array

    @wraps(arrived)
    def got(self: Any) -> np.ndarray:
        numbers = arrived(self)
        RACES.host(self.pinned.ctypes.data, False)
        return numbers

    driver.DeviceArray._beside, backend.Gpu.room = held, received  # type: ignore[method-assign]
    memory.PinnedCopy.arrived = got  # type: ignore[method-assign]
    memory.to_host = read
    moves.Leaving.copied = left  # type: ignore[method-assign]
    buffers.MessageBuffer.on_host = message  # type: ignore[method-assign]
    watch_sharing()


def watch_sharing() -> None:
    """Let the checker see which memory other processes read, and which of theirs is read here."""
    place, array_at = exports.Exports.place, exports.Exports.array
    read, give_back = Loan.read, Ledger.copied

    @wraps(place)
    def lent(self: Any, array: Any) -> Any:
        RACES.host(array.address, False, "by another process")
        return place(self, array)

    @wraps(array_at)
    def borrowed(self: Any, *what: Any) -> Any:
        array = array_at(self, *what)
        RACES.given(array.address, array.size * array.dtype.itemsize, array.stream)
        BORROWED[what[0]] = array.address
        return array

    @wraps(read)
    def numbered(loan: bytes) -> Loan:
        found = read(loan)
        PLACES[found.number] = found.place
        return found

    @wraps(give_back)
    def given_back(self: Any) -> Any:
        found = give_back(self)
        for number in chain.from_iterable(found.values()):
            RACES.host(BORROWED.get(PLACES[number], 0), True, "by its owner")  # 0: it is empty
        return found

    exports.Exports.place, exports.Exports.array = lent, borrowed  # type: ignore[method-assign]
    Loan.read, Ledger.copied = staticmethod(numbered), given_back  # type: ignore
