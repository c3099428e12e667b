"""Does work in processes that are copies of this one, so nothing has to be pickled but results."""

from __future__ import annotations

import gc
import signal
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from multiprocessing import get_context
from typing import Any, TypeVar

ENDING = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
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
            _start(workers[-1])
            end.close()
        for number in range(len(parts)):
            try:
                yield pipes[number % processes].recv()
            except EOFError:
                raise ChildProcessError("a process of the search ended early") from None
    finally:
        for worker in workers:
            worker.kill()
            worker.join()


def _start(worker: Any) -> None:
    """Start a process. No signal ends this one meanwhile, as Python drops exceptions in a fork."""
    usual = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        worker.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, usual)


def _work(work: Callable[[Any], Iterator[Any]], parts: Any, end: Any, pipes: list[Any]) -> None:
    """Send the results of some parts through ``end``, until the parent has ended.

    ``pipes``: the parent's ends, which must be open nowhere else. Ctrl-C and SIGHUP are left to the
    parent.
    """
    for pipe in pipes:
        pipe.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    gc.freeze()  # what exists is no garbage: the collector need not look at it again
    with suppress(BrokenPipeError):
        for result in work(parts):
            end.send(result)
