"""The progress file: every PE of this host writes its current step for the launching process.

The file has one slot per PE and is mapped into memory by the launching process and all PEs. Writing
a slot takes less than a microsecond and no message, so PEs do it every round. Fields are written
one by one, because the launching process may read at any time and `struct.pack_into` would clear a
slot first. On other hosts, PEs have a file of the same kind, which a watcher mirrors
(`host_watcher`).
"""

from __future__ import annotations

import faulthandler
import mmap
import os
import pickle
import re
import signal
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any, NamedTuple

from miniapps import drivers
from miniapps.drivers.job import RunError
from miniapps.drivers.waits import Wait
from miniapps.workbench.errors import explained, tell
from miniapps.workbench.run.launched import launch_folder
from miniapps.workbench.run.processes import process_state

ERRORS = "errors"  # file beside the progress file, with a line from each PE that failed
# The names of files beside it that reach the launching process from other hosts. PEs append to the
# first two; the others are whole when they have their name.
MIRRORED = re.compile(r"errors|notes|record-\d+\.json|waits-\d+|stack-\d+")
FORKED = "forked"  # files beside it, with a number: a PE that no process of the launch has started
SLOT = struct.Struct("=qqdq")  # pid, step, time of the last change, phase
# After the slots: whether PEs must write what their blocks wait for, and whether they are to stop.
ASKED = struct.Struct("=qq")
FIELDS = 4
ANSWER_S = 0.5  # between two looks at it
ENDED_S = 5.0  # for the launching process to end this one after it has found another one dead
STARTING, RUNNING, FINISHING = range(3)


class Slot(NamedTuple):
    """The contents of one PE's slot."""

    pid: int
    step: int
    changed: float  # s, by the monotonic clock, which nobody sets
    phase: int


class ProgressFile:
    """The progress file mapped into memory; a `drivers.job.Watcher`."""

    def __init__(self, path: Path, pes: int) -> None:
        self.path, self.pes = path, pes
        if not path.exists():
            path.write_bytes(bytes(SLOT.size * pes + ASKED.size))
        with path.open("r+b") as file:
            self.memory = mmap.mmap(file.fileno(), SLOT.size * pes + ASKED.size)
            # The clock that stamps files may be milliseconds behind others.
            self.opened = os.fstat(file.fileno()).st_ctime
        self.integers = memoryview(self.memory).cast("q")
        self.reals = memoryview(self.memory).cast("d")
        self.pid = os.getpid()
        self.waits: dict[int, Callable[[], list[Wait]]] = {}  # of PEs of this process
        self.closed = threading.Event()

    def heartbeat(self, pe: int, step: int) -> None:
        """Store that a PE of this process begins a step."""
        self._write(pe, step, RUNNING)

    def finish(self, pe: int) -> None:
        """Store that a PE has made its last step, and now validates and writes output."""
        self._write(pe, self.slot(pe).step, FINISHING)
        self.waits[pe] = list  # its blocks wait for nothing; a launch's next run needs their memory

    def _write(self, pe: int, step: int, phase: int) -> None:
        """Write a slot, the phase last: a reader that sees the phase sees the other fields too."""
        at = FIELDS * pe
        self.integers[at] = self.pid
        self.integers[at + 1] = step
        self.reals[at + 2] = monotonic()  # the same clock in all processes
        self.integers[at + 3] = phase

    def mirror(self, pe: int, step: int, phase: int, changed: float) -> None:
        """Write the slot of a PE of another host, whose process is none of this host's."""
        at = FIELDS * pe
        self.integers[at + 1] = step
        self.reals[at + 2] = changed
        self.integers[at + 3] = phase

    def signal(self, pe: int) -> None:
        """Make a PE of this host write its stack, if it has said that it can."""
        with suppress(ProcessLookupError):
            if self.slot(pe).pid and self.stack(pe) is not None:  # else it would end the process
                os.kill(self.slot(pe).pid, signal.SIGUSR1)

    def slot(self, pe: int) -> Slot:
        """The current contents of a PE's slot."""
        return Slot(*SLOT.unpack_from(self.memory, SLOT.size * pe))

    def slots(self) -> list[Slot]:
        """All slots."""
        return [self.slot(pe) for pe in range(self.pes)]

    def forked(self) -> list[int]:
        """The processes of PEs that are no descendants of the launcher."""
        return [int(file.suffix[1:]) for file in self.path.parent.glob(f"{FORKED}.*")]

    # What blocks wait for ------------------------------------------------------------------------

    def attend(self, pe: int, waits: Callable[[], list[Wait]], threaded: bool = True) -> None:
        """Answer with ``waits()``, from a thread or in `answer`, what the blocks of a PE wait for.

        By SIGUSR1 the process is made to write its stack, even while it runs no Python code. What
        Python does by this signal, if anything, is done too.
        """
        stack = self._stack(pe)
        if not stack.exists():
            chain = callable(signal.getsignal(signal.SIGUSR1))
            faulthandler.register(signal.SIGUSR1, stack.open("wb"), False, chain)
        alone = not self.waits
        self.waits[pe] = waits
        if threaded and alone:
            threading.Thread(target=self._attend, args=(pe,), daemon=True).start()

    def _attend(self, pe: int) -> None:
        while not self.closed.wait(ANSWER_S):
            self.answer(pe)

    def answer(self, pe: int) -> None:
        """Write what the blocks of a PE wait for, if asked and not yet done."""
        if self.asked() and not self._answer(pe).exists():
            aside = self._answer(pe).with_suffix(".part")
            aside.write_bytes(pickle.dumps(self.waits[pe]()))
            aside.rename(self._answer(pe))

    def stop(self) -> None:
        """Ask all PEs to write a checkpoint and stop."""
        self.integers[FIELDS * self.pes + 1] = 1

    def signalled(self) -> bool:
        """Whether they are asked to."""
        return bool(self.integers[FIELDS * self.pes + 1])

    def close(self) -> None:
        """End the thread and the handler of `attend` in this process."""
        self.closed.set()
        faulthandler.unregister(signal.SIGUSR1)

    def ask(self) -> None:
        """Ask all PEs what their blocks wait for."""
        self.integers[FIELDS * self.pes] = 1

    def asked(self) -> bool:
        """Whether they are asked that."""
        return bool(self.integers[FIELDS * self.pes])

    def silent(self) -> list[int]:
        """The PEs that have not answered yet."""
        return [pe for pe in range(self.pes) if not self._answer(pe).exists()]

    def answers(self) -> list[Wait]:
        """The answers of all PEs that have answered."""
        files = [self._answer(pe) for pe in range(self.pes)]
        return [wait for file in files if file.exists() for wait in pickle.loads(file.read_bytes())]

    def stack(self, pe: int) -> str | None:
        """The stack that a PE has written; None if it cannot write one."""
        file = self._stack(pe)
        return file.read_text(encoding="utf-8", errors="replace") if file.exists() else None

    def _answer(self, pe: int) -> Path:
        return self.path.with_name(f"waits-{pe}")

    def _stack(self, pe: int) -> Path:
        return self.path.with_name(f"stack-{pe}")

    # Failure -------------------------------------------------------------------------------------

    def fail(self, error: Exception) -> None:
        """Write for the launching process, in one line, why this process failed.

        If another PE is gone, messages fail because of that: the launching process says so.
        """
        slots = self.slots()
        here = [slot.pid for slot in slots if slot.pid and slot.phase == RUNNING]
        if any(process_state(pid) in "XZ" for pid in here):
            sleep(ENDED_S)
        mine = [pe for pe, slot in enumerate(slots) if slot.pid == self.pid]
        where = f"PE {mine[0]}, " if mine and self.pes > 1 else ""
        self.path.parent.mkdir(exist_ok=True)  # it may have been removed
        with self.path.with_name(ERRORS).open(
            "a", encoding="utf-8", errors="backslashreplace"
        ) as file:
            file.write(where + explained(error) + "\n")

    def __reduce__(self) -> tuple[Any, ...]:
        return reopened, (self.path, self.pes)


def first_error(file: Path) -> str | None:
    """The first line of a file of errors; None if there is none, as when the disk was full."""
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines() if file.exists() else []
    return lines[0] if lines else None


def reopened(path: Path, pes: int) -> ProgressFile | NoProgressFile:
    """Map the progress file in another process, on another host that of its own launch's folder."""
    folder = launch_folder()
    if folder is not None:
        path = folder / path.name
    return ProgressFile(path, pes) if path.exists() else NoProgressFile()


class NoProgressFile:
    """The watcher of a process without a progress file."""

    def __init__(self) -> None:
        self.stopping = False

    def stop(self) -> None:
        """Ask this process to write a checkpoint and stop, with all others."""
        self.stopping = True

    def signalled(self) -> bool:
        """Whether it is asked to."""
        return self.stopping

    def heartbeat(self, *_: Any, **__: Any) -> None:
        """Do nothing, as the methods that follow."""

    finish = attend = answer = heartbeat

    def fail(self, error: Exception) -> None:
        """Print on stderr why this process failed."""
        if not drivers.rank_zero_speaks() or not isinstance(error, RunError):  # all ranks raise it
            where = f"rank {drivers.rank()}, " if drivers.launchers() else ""
            tell(where + explained(error))
