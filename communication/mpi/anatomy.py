"""Measures on two ranks what the ways to send a message by mpi4py consist of.

Alone are timed: a send and a receive with MPI_PROC_NULL, with which mpi4py enters MPI, which
returns at once; finding address, length and type of a buffer, by a broadcast of a rank to itself;
pickling; the header of the mpi driver.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
from mpi4py import MPI
from mpi4py.util import pkl5

from communication.anatomy import (
    ARRAY,
    BUFFERS,
    COPIES,
    HEADER,
    IN_BAND,
    LINK,
    OUT_OF_BAND,
    PATHS,
    PICKLING,
    PYTHON,
    SPEC,
    C,
)
from communication.catalogue import ANATOMY, LARGE
from communication.movement import Block
from communication.mpi.in_c import InC, compiled
from communication.pattern import difference, sent
from communication.session import Progress, WrongData
from communication.settings import Settings
from devices.messages import packed
from drivers.headers import HEAD, enveloped, kind_of, phase_code, read_kind
from drivers.mpi.links import Link
from miniapps.contract import Peer

TAG = 7
# Of a whole call and of a part alone, the fastest loop counts, as only disturbances differ.
TRIPS, LOOPS = 20, 15  # round trips per loop; loops of a part alone
PHASE = phase_code("anatomy", False)
US = 1e6
Function = Callable[[], Any]


@dataclass(frozen=True)
class Way:
    """A path: two functions, of which the second may return what was received."""

    send: Function
    receive: Function
    received: np.ndarray | None = None  # where it is if the second returns nothing

    def got(self) -> np.ndarray:
        """Receive; the bytes that came."""
        if self.received is not None:
            self.received[:] = 0
        came = self.receive()
        return np.asarray(came if self.received is None else self.received)


class Anatomy:
    """The measurements of one rank of two; ``ranks``: a `communication.mpi.world.Ranks`."""

    def __init__(self, ranks: Any, settings: Settings, progress: Progress) -> None:
        self.ranks, self.comm, self.settings = ranks, ranks.comm, settings
        self.progress, self.part = progress, 0
        self.other, self.leads = 1 - ranks.rank, ranks.rank == 0
        self.objects = pkl5.Intracomm(self.comm)

    def measured(self) -> dict[str, Any]:
        """Check and time all sizes; what `communication.anatomy.rows` takes.

        Raises WrongData on all ranks if a rank has received a wrong byte.
        """
        with TemporaryDirectory(prefix="miniapps-") as folder:
            in_c, reason = self._compiled(Path(folder))
            sizes = {str(size): self._size(size, in_c) for size in self.settings.sizes(ANATOMY)}
        return {
            "whole": {size: found["whole"] for size, found in sizes.items()},
            "alone": {size: found["alone"] for size, found in sizes.items()},
            "without_c": reason,
            "library": self.ranks.versions["mpi"],
            "provided_level": self.ranks.versions["mpi_thread_level"],
        }

    def _compiled(self, folder: Path) -> tuple[InC | None, str | None]:
        """The ping-pong in C, or None and the reason why a rank has none."""
        try:
            made, reason = InC(compiled(folder), MPI, self.comm, self.other), None
        except OSError as error:
            made, reason = None, str(error)
        reasons = [said for said in self.comm.allgather(reason) if said is not None]
        return (None, reasons[0]) if reasons else (made, None)

    def _size(self, size: int, in_c: InC | None) -> dict[str, Any]:
        """The times of one size: whole calls by path and trial, and parts alone by path."""
        data = sent(self.ranks.rank, self._block(self.ranks.rank, size), 0).copy()
        ways, link = self.ways(data)
        self._agree(size, {name: self._exchanged(way) for name, way in ways.items()})
        seconds = {name: partial(self._seconds, way) for name, way in ways.items()}
        if in_c is not None:
            came = np.zeros_like(data)
            seconds[C] = partial(in_c.seconds, data, came, self.leads)
            seconds[C](1)
            self._agree(size, {C: came})
        times = self.settings.iterations_of(ANATOMY, size)
        whole: dict[str, list[float]] = {name: [] for name in PATHS if name in seconds}
        order = random.Random(self.settings.seed)
        for trial in range(self.settings.trials):
            self._begin(f"times {size} B in trial {trial + 1}")
            for name in order.sample(list(whole), len(whole)):
                self.comm.Barrier()
                loops = [seconds[name](TRIPS) for _ in range(-(-times // TRIPS))]
                whole[name].append(US * min(loops))
        self._begin(f"times the parts of {size} B")
        alone = self.alone(data)
        self.comm.Barrier()
        link.close()
        return {"whole": whole, "alone": alone}

    def _begin(self, doing: str) -> None:
        self.part += 1
        self.progress(self.part, doing)

    def _block(self, source: int, size: int) -> Block:
        """The message of a rank, whose bytes `communication.pattern` knows."""
        return Block((source,), 1 - source, size)

    def ways(self, data: np.ndarray) -> tuple[dict[str, Way], Link]:
        """All paths but C for an array of bytes, and the link that one of them uses."""
        comm, other, came = self.comm, self.other, np.empty_like(data)
        link = Link(comm, (0,), Peer("block", (other,), (0,)), other)
        message = packed(data)
        ways = {
            SPEC: Way(
                partial(comm.Send, [data, MPI.BYTE], other, TAG),
                partial(comm.Recv, [came, MPI.BYTE], other, TAG),
                came,
            ),
            ARRAY: Way(
                partial(comm.Send, data, other, TAG), partial(comm.Recv, came, other, TAG), came
            ),
            IN_BAND: Way(
                partial(comm.send, data, other, TAG), partial(comm.recv, None, other, TAG)
            ),
            OUT_OF_BAND: Way(
                partial(self.objects.send, data, other, TAG),
                partial(self.objects.recv, None, other, TAG),
            ),
            LINK: Way(partial(link.send, 0, PHASE, message), partial(link.receive, 0, PHASE)),
        }
        return ways, link

    def _exchanged(self, way: Way) -> np.ndarray:
        """The bytes of the other rank that come in one round trip."""
        if self.leads:
            way.send()
        came = way.got()
        if not self.leads:
            way.send()
        return came

    def _agree(self, size: int, found: dict[str, np.ndarray]) -> None:
        """Raise WrongData on all ranks if a rank has got a wrong byte by a path."""
        right = sent(self.other, self._block(self.other, size), 0)
        wrong = {name: difference(came, right) for name, came in found.items()}
        mine = [
            f"anatomy, {size} B: rank {self.ranks.rank}, {PATHS[name]}: the message {words}"
            for name, words in wrong.items()
            if words is not None
        ]
        for words in self.comm.allgather(mine):
            if words:
                raise WrongData(words[0])

    def _seconds(self, way: Way, times: int) -> float:
        """Seconds per message of ``times`` round trips."""
        first, second = (way.send, way.receive) if self.leads else (way.receive, way.send)
        begin = perf_counter()
        for _ in range(times):
            first()
            second()
        return (perf_counter() - begin) / (2 * times)

    def alone(self, data: np.ndarray) -> dict[str, dict[str, float]]:
        """Microseconds of the parts of each path but C, of a send and a receive together."""
        small, size = data[:1].copy(), data.nbytes
        calls = null(self.comm.Send, data) + null(self.comm.Recv, data)
        parts = {
            name: {PYTHON: calls, BUFFERS: 2 * looked_up(buffer)}
            for name, buffer in ((SPEC, [data, MPI.BYTE]), (ARRAY, data))
        }
        for name, comm, pickled in (
            (IN_BAND, self.comm, in_band),
            (OUT_OF_BAND, self.objects, out_of_band),
        ):
            once = fastest(partial(pickled, small), 1)
            parts[name] = {
                PYTHON: null(comm.send, data) + null(comm.recv, None),
                PICKLING: once,
                COPIES: fastest(partial(pickled, data), size) - once,
            }
        head = fastest(partial(header, packed(small)), 1)
        parts[LINK] = {PYTHON: self._link(small) - head, HEADER: head}
        return parts

    def _link(self, data: np.ndarray) -> float:
        """A message of a link to its own rank, without what MPI takes to move it.

        That is the same calls of MPI to the own rank, less those calls with MPI_PROC_NULL.
        """
        link = Link(MPI.COMM_SELF, (0,), Peer("block", (0,), (0,)), 0)
        message = packed(data)

        def through_link() -> None:
            link.send(0, PHASE, message)
            link.receive(0, PHASE)

        whole = fastest(through_link, data.nbytes)
        link.close()
        own, null = (posted(rank, enveloped(message)) for rank in (0, MPI.PROC_NULL))
        return whole - own + null


def posted(rank: int, buffer: np.ndarray) -> float:
    """Microseconds of the calls of a link to the own rank, or to nobody."""
    comm = MPI.COMM_SELF
    receive = comm.Recv_init(np.empty_like(buffer), rank, TAG)

    def calls() -> None:
        receive.Start()
        sending = comm.Isend(buffer, rank, TAG)
        receive.Wait()
        sending.Test()

    us = fastest(calls, buffer.nbytes)
    receive.Free()
    return us


def looked_up(buffer: Any) -> float:
    """Microseconds in which mpi4py finds address, length and type of a buffer.

    That is a broadcast of a rank to itself, less such a broadcast of nothing.
    """
    nothing = fastest(partial(MPI.COMM_SELF.Bcast, [None, 0, MPI.BYTE], 0), 1)
    return fastest(partial(MPI.COMM_SELF.Bcast, buffer, 0), 1) - nothing


def null(function: Callable[..., Any], argument: Any) -> float:
    """Microseconds of a send to nobody, or of a receive."""
    return fastest(partial(function, argument, MPI.PROC_NULL, TAG), 1)


def in_band(array: np.ndarray) -> Any:
    """Pickle and unpickle, all data in the pickle."""
    return MPI.pickle.loads(MPI.pickle.dumps(array))


def out_of_band(array: np.ndarray) -> Any:
    """Pickle and unpickle, the data outside of the pickle and received into new memory."""
    made, buffers = MPI.pickle.dumps_oob(array)
    return MPI.pickle.loads_oob(made, [MPI.buffer.allocate(one.nbytes) for one in buffers])


def header(message: np.ndarray) -> None:
    """Write and read the header of the mpi driver."""
    envelope = enveloped(message)
    HEAD.pack_into(envelope.data, 0, 0, kind_of(PHASE, 0, TAG, message.shape, message.dtype))
    read_kind(HEAD.unpack_from(envelope.data)[1])


def fastest(function: Function, nbytes: int) -> float:
    """Microseconds of a call, in the fastest of `LOOPS` loops; fewer calls for many bytes."""
    count = 200 if nbytes <= LARGE else 10
    found = []
    for _ in range(LOOPS):
        begin = perf_counter()
        for _ in range(count):
            function()
        found.append((perf_counter() - begin) / count)
    return US * min(found)
