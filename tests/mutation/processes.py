"""Work in processes of its own, forked from this one, which has imported everything."""

from __future__ import annotations

import os
import resource
import select
import signal
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

MEMORY = 2 << 30  # bytes that a process may take more than the one that forks it
ENDED = "ended by signal"  # begins what is said of a process that has no result
T = TypeVar("T")


def forked(work: Callable[[], str], limit_s: float) -> str:
    """The result of a function that a new process calls, which may take so much time of a core.

    A process that ends otherwise gives "ended by signal N", one that takes too long among them.
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(reader)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.dup2(1, 2)
            signal.setitimer(signal.ITIMER_VIRTUAL, limit_s)
            used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, resource.RLIM_INFINITY))
            with os.fdopen(writer, "w") as pipe:
                pipe.write(work())
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        if not select.select([pipe], [], [], 30 + 10 * limit_s)[0]:  # it waits for ever
            os.kill(pid, signal.SIGKILL)
        said = pipe.read().decode(errors="replace")
    _, status = os.waitpid(pid, 0)
    return said if status == 0 else f"{ENDED} {status & 127}"


def at_once(work: Callable[[T], Any], over: Sequence[T], processes: int) -> Iterator[Any]:
    """The results of a function, in order, of which so many processes each make a part."""
    context = get_context("fork")

    def part(first: int, writer: Any) -> None:
        for each in over[first::processes]:
            writer.send(work(each))

    readers = []
    for first in range(processes):
        reader, writer = context.Pipe(duplex=False)
        context.Process(target=part, args=(first, writer), daemon=True).start()
        writer.close()
        readers.append(reader)
    for number in range(len(over)):
        yield readers[number % processes].recv()
