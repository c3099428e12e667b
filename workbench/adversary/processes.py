"""Does work in processes that are copies of this one, so nothing has to be pickled but results."""

from __future__ import annotations

import gc
import signal
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from multiprocessing import get_context
from typing import Any, TypeVar

Part = TypeVar("Part")
Result = TypeVar("Result")


def in_processes(
    work: Callable[[Sequence[Part]], Iterator[Result]], parts: Sequence[Part], processes: int
) -> Generator[Result, None, None]:
    """The results of all parts, in their order.

    ``work(parts)`` yields one result per part. Each process gets every n-th part; one process is
    this one. A process that is ahead waits until its results have been taken, and all end when this
    iterator is closed. Raises ChildProcessError if a process ends early.
    """
    processes = min(processes, len(parts))
    if processes <= 1:
        yield from work(parts)
        return
    context = get_context("fork")
    pipes, workers = [], []
    try:
        for number in range(processes):
            pipe, end = context.Pipe(duplex=False)
            pipes.append(pipe)
            given = work, parts[number::processes], end, pipes
            workers.append(context.Process(target=_work, args=given, daemon=True))
            workers[-1].start()
            end.close()
        for number in range(len(parts)):
            try:
                yield pipes[number % processes].recv()
            except EOFError:
                raise ChildProcessError("a process of the search ended early") from None
    finally:
        for worker in workers:
            worker.terminate()
            worker.join()


def _work(work: Callable[[Any], Iterator[Any]], parts: Any, end: Any, pipes: list[Any]) -> None:
    """Send the results of some parts through ``end``, until the parent has ended.

    ``pipes``: the parent's ends, which must be open nowhere else. Ctrl-C is left to the parent.
    """
    for pipe in pipes:
        pipe.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()  # what exists is no garbage: the collector need not look at it again
    with suppress(BrokenPipeError):
        for result in work(parts):
            end.send(result)
