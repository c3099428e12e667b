"""Measures on two ranks what the ways to send a message by mpi4py consist of.

Alone are timed: a send and a receive with MPI_PROC_NULL, with which mpi4py enters MPI, which
returns at once; finding address, length and type of a buffer, by a broadcast of a rank to itself;
pickling; the header of the mpi driver.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from mpi4py import MPI
from mpi4py.util import pkl5

from miniapps.communication.anatomy import BUFFERS, COPIES, HEADER, PICKLING, PYTHON
from miniapps.communication.mpi import ARRAY, IN_BAND, LINK, OUT_OF_BAND, RUNTIME, SPEC, C
from miniapps.communication.mpi.in_c import InC, compiled
from miniapps.communication.parts import Anatomy, MessagePath, Parts, PingPong, fastest
from miniapps.communication.progress import Progress
from miniapps.communication.settings import Settings
from miniapps.contract import Peer
from miniapps.devices.messages import packed
from miniapps.drivers.headers import HEAD, enveloped, kind_of, phase_code, read_kind
from miniapps.drivers.mpi.links import Link

TAG = 7
PHASE = phase_code("anatomy", False)


class MPIAnatomy(Anatomy):
    """The measurements of one rank of two; ``ranks``: a `communication.mpi.world.Ranks`."""

    names = RUNTIME.anatomy

    def __init__(self, ranks: Any, settings: Settings, progress: Progress) -> None:
        super().__init__(ranks, settings, progress)
        self.comm, self.versions = ranks.comm, ranks.versions
        self.objects = pkl5.Intracomm(self.comm)
        self.in_c: InC | None = None

    def measured(self) -> dict[str, Any]:
        """Check and time all sizes; what `communication.anatomy.rows` takes.

        Raises WrongData on all ranks if a rank has received a wrong byte.
        """
        with TemporaryDirectory(prefix="miniapps-") as folder:
            self.in_c, reason = self._compiled(Path(folder))
            found = super().measured()
        return found | {
            "without_c": reason,
            "library": self.versions["mpi"],
            "provided_level": self.versions["mpi_thread_level"],
        }

    def _compiled(self, folder: Path) -> tuple[InC | None, str | None]:
        """The ping-pong in C, or None and the reason why a rank has none."""
        try:
            made, reason = InC(compiled(folder), MPI, self.comm, self.other), None
        except OSError as error:
            made, reason = None, str(error)
        reasons = [said for said in self.comm.allgather(reason) if said is not None]
        return (None, reasons[0]) if reasons else (made, None)

    def ping_pongs(self, data: np.ndarray, stack: ExitStack) -> dict[str, PingPong]:
        """All paths for an array of bytes; the one in C only if it was compiled."""
        paths, link = self.paths(data)
        stack.callback(link.close)
        found = {name: self.ping_pong(path) for name, path in paths.items()}
        if self.in_c is not None:
            came = np.zeros_like(data)
            seconds = partial(self.in_c.seconds, data, came, self.leads)

            def exchange() -> np.ndarray:
                seconds(1)
                return came

            found[C] = PingPong(exchange, seconds)
        return found

    def paths(self, data: np.ndarray) -> tuple[dict[str, MessagePath], Link]:
        """All paths but C for an array of bytes, and the link that one of them uses."""
        comm, other, came = self.comm, self.other, np.empty_like(data)

        def path(send: Any, sent: Any, receive: Any, into: Any) -> MessagePath:
            where = None if into is None else came
            receiving = partial(receive, into, other, TAG)
            return MessagePath(partial(send, sent, other, TAG), receiving, where)

        link = Link(comm, (0,), Peer("block", (other,), (0,)), other)
        message = packed(data)
        paths = {
            SPEC: path(comm.Send, [data, MPI.BYTE], comm.Recv, [came, MPI.BYTE]),
            ARRAY: path(comm.Send, data, comm.Recv, came),
            IN_BAND: path(comm.send, data, comm.recv, None),
            OUT_OF_BAND: path(self.objects.send, data, self.objects.recv, None),
            LINK: MessagePath(
                partial(link.send, 0, PHASE, message), partial(link.receive, 0, PHASE)
            ),
        }
        return paths, link

    def alone(self, data: np.ndarray) -> Parts:
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
