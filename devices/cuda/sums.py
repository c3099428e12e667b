"""Sums of integers in device memory to which many blocks contribute, computed together.

A block may post a `Job` for others to combine: a message that is not computed yet. A driver adds
jobs to a `Sum` by what it does with arrays, `copy` and ``+=``. Nothing is launched before somebody
needs a sum; then one kernel does all jobs of this process that wait, and adds what it finds to
their sums by itself. Integers add up exactly, so neither order nor number of launches shows.

What a sum is sent is a *term* of it: a job, or an array of the host, which is what has been added
up elsewhere. Whichever comes first, a job and an array make a sum on the device.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from devices.backend import OPENED
from devices.cuda import memory, streams
from devices.cuda.buffers import Bundle, Parcel, each_bundle, stage
from devices.cuda.compiler import blocks, cuda, kernel
from devices.messages import DeviceMessage

THREADS = 64  # of a thread block
Report = Callable[[], None]  # raises what a launch that is over has found wrong


class Job(DeviceMessage):
    """Integers that a kernel can find; subclasses say which ones, and how."""

    dtype = np.dtype(np.int64)
    reads: tuple[Bundle, ...] = ()  # what it needs of those that others write

    @staticmethod
    def launch(jobs: list[tuple[Any, Any]], stream: Any) -> Report:
        """Launch the kernel that does some jobs and adds what they find to parcels."""
        raise NotImplementedError

    def copy(self) -> Sum:
        """A sum with this term."""
        total = Sum(self.shape)
        total += self
        return total

    def __array_ufunc__(self, ufunc: Any, method: str, array: Any, _: Any, **options: Any) -> Any:
        """What an array's ``+=`` gives: a sum on the device."""
        if ufunc is not np.add or method != "__call__" or not isinstance(array, np.ndarray):
            return NotImplemented
        total = self.copy()
        total += array
        return total

    def on_host(self) -> np.ndarray:
        """What it finds, in host memory."""
        total = self.copy()
        total.stage()
        return total.on_host()


class Sum(DeviceMessage):
    """The sum of some terms, computed when it is needed."""

    dtype = Job.dtype

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.parcel: Parcel | None = None  # where it lies, from the first launch on
        self.waits = False  # for a launch, with some of its terms
        self.staged = False  # it is complete, and must go to the host
        self.host_bytes = 0  # of terms that came from there

    def __iadd__(self, term: Job | np.ndarray) -> Sum:
        assert term.shape == self.shape and not self.staged
        pool().terms.append((self, term))
        self.waits = True
        if isinstance(term, np.ndarray):
            self.host_bytes += term.nbytes
        return self

    def landed(self) -> Parcel:
        """Where it lies, as soon as kernels that have been launched are done."""
        pool().launch()
        assert self.parcel is not None
        return self.parcel

    def stage(self) -> int:
        """Have it copied to the host; returns the bytes.

        That launches nothing yet, for others may still bring jobs to the same launch.
        """
        self.staged = True
        if self.parcel is not None and not self.waits:
            stage([self.parcel], pool().stream)
        return math.prod(self.shape) * self.dtype.itemsize

    def on_host(self) -> np.ndarray:
        """It in host memory; raises what was found wrong on the way."""
        parcel = self.landed()
        pool().heed()
        return parcel.on_host()

    def __reduce__(self) -> tuple[Any, ...]:
        raise AssertionError("a block migrates before its sums have been collected")


class Launch(NamedTuple):
    """What nobody has looked at yet: a mark after it, host memory it reads, and its report."""

    done: Any
    kept: list[np.ndarray]
    report: Report | None


class Pool:
    """The terms of this process that wait for a launch, and launches that nobody has looked at.

    All happens on a stream of its own. It waits for what others write, they for its reading, once
    per launch and bundle.
    """

    def __init__(self, toolkit: Any) -> None:
        self.stream = toolkit.stream()
        self.terms: list[tuple[Sum, Job | np.ndarray]] = []
        self.launches: list[Launch] = []

    def follow(self, array: Any) -> None:
        """Let launches wait for kernels that have been asked to write a device array."""
        if not hasattr(array, "followed"):
            streams.wait_for(streams.mark(array.stream), self.stream)
            array.followed = True

    def launch(self) -> None:
        """Add all terms that wait to their sums."""
        terms, self.terms = self.terms, []
        if not terms:
            return
        sums = {id(total): total for total, _ in terms}.values()
        self._make_room([total for total in sums if total.parcel is None])
        jobs = [(term, total.parcel) for total, term in terms if isinstance(term, Job)]
        read = each_bundle(bundle for job, _ in jobs for bundle in job.reads)
        for bundle in read:
            streams.wait_for(bundle.ready, self.stream)
        report = jobs[0][0].launch(jobs, self.stream) if jobs else None
        arrays = [(term, t.parcel) for t, term in terms if not isinstance(term, Job)]
        kept = [self._add(*those) for those in arrays]
        done = streams.mark(self.stream)
        for bundle in read:
            bundle.read = done
            streams.wait_for(done, bundle.stream)  # and so what has its memory next
        self.launches.append(Launch(done, kept, report))
        self._finish(sums, done)

    def _make_room(self, sums: list[Sum]) -> None:
        """Give new sums their memory, all of it at once."""
        if not sums:
            return
        shapes = {number: total.shape for number, total in enumerate(sums)}
        bundle = Bundle(shapes, Sum.dtype, self.stream, memory.zeros)
        for number, total in enumerate(sums):
            total.parcel = bundle[number]

    def _add(self, array: np.ndarray, parcel: Any) -> np.ndarray:
        """Add an array of the host to a sum; returns host memory to keep until that is done."""
        host = self.stream.toolkit.pinned(array.nbytes).view(array.dtype)
        host[:] = array.reshape(-1)
        if array.size:
            there = memory.empty(array.size, array.dtype, self.stream)
            there.copy_to_device(host, stream=self.stream)
            launch = blocks(array.size, THREADS), THREADS, self.stream
            _add[launch](array.size, there, parcel.bundle.buffer, parcel.start)
        return host

    def _finish(self, sums: Iterable[Sum], done: Any) -> None:
        """Say from when on sums hold their terms, and copy those to the host that must go there."""
        staged = []
        for total in sums:
            assert total.parcel is not None
            total.parcel.bundle.ready, total.waits = done, False
            if total.staged:
                staged.append(total.parcel)
        stage(staged, self.stream)

    def heed(self) -> None:
        """Wait for what has been launched, and raise the first that was found wrong."""
        launches, self.launches = self.launches, []
        for done, _, report in launches:
            streams.reached(done)
            try:
                if report is not None:
                    report()
            except Exception:
                self.terms.clear()  # the run is over
                raise


@cache
def pool() -> Pool:
    """That of this process."""
    backend: Any = OPENED.get("gpu")
    return Pool(backend.toolkit)


@kernel("void(uint32, int64[::1], int64[::1], int64)")
def _add(count, terms, sums, start):  # type: ignore[no-untyped-def]
    n = np.int64(cuda.grid(1))
    if n < count:
        sums[start + n] += terms[n]
