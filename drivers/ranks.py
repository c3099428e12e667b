"""What drivers with one block per rank share: a transport over links, and the course of a run."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from miniapps.contract import (
    Collect,
    CollectSum,
    Edge,
    MessageError,
    Peer,
    Place,
    Post,
    PostSum,
    checked_messages,
)
from miniapps.decomposition import Layout
from miniapps.devices.backend import OPENED
from miniapps.devices.messages import Allocate, plain_envelope
from miniapps.drivers.agreements import End
from miniapps.drivers.audits import Auditor
from miniapps.drivers.engine import Engine, Runner, Transport, run_phases, unknown_edge, write_state
from miniapps.drivers.gpu_ipc import Sharers, sharers
from miniapps.drivers.headers import phase_code
from miniapps.drivers.job import Job, RunError, Watcher
from miniapps.drivers.links import Link, pause
from miniapps.drivers.lives import Lives
from miniapps.drivers.outcome import Part


class Group(Protocol):
    """The ranks of a run, as mpi4py's communicators describe them; objects are pickled."""

    @property
    def rank(self) -> int:
        """The number of this rank."""

    @property
    def size(self) -> int:
        """The number of ranks."""

    def bcast(self, obj: Any) -> Any:
        """The object of rank 0."""

    def gather(self, sendobj: Any) -> list[Any] | None:
        """The objects of all ranks; None on other ranks than 0."""

    def allgather(self, sendobj: Any) -> list[Any]:
        """The objects of all ranks."""

    def send(self, obj: Any, dest: int) -> None:
        """Send an object to a rank."""

    def recv(self, *, source: int) -> Any:
        """Wait for an object from a rank."""

    def Barrier(self) -> None:
        """Wait for all ranks."""


class RankTransport(Transport):
    """Moves the messages of one rank's block. A driver defines `link`, and the reductions.

    ``rank``: of this process.
    """

    sharers = Sharers()

    def __init__(self, rank: int, layout: Layout) -> None:
        super().__init__()
        self.rank, self.layout = rank, layout
        self.links: dict[Edge, Link] = {}  # to other ranks
        self.kinds = list(layout.counts())

    def share_gpu(self, group: Group, job: Job[Any]) -> None:
        """Exchange messages with other ranks of this GPU there, unless the user says no."""
        if job.device != "cpu" and job.options.gpu_ipc == "auto":
            self.backend = OPENED.get(job.device)
            self.sharers = sharers(group, self.backend)

    def link(self, runner: Runner, edge: Edge, peer: Peer, rank: int) -> Link:
        """A link from a block's edge to its neighbour on another rank."""
        raise NotImplementedError

    def connect(self, runners: dict[Place, Runner]) -> None:
        """Make the links to the neighbours on other ranks.

        Raises MessageError for two edges to one rank whose messages could not be told apart.
        """
        super().connect(runners)
        (runner,) = runners.values()
        self.links = self.links_of(runner)
        equip(runner, self.links)

    def links_of(self, runner: Runner) -> dict[Edge, Link]:
        """Links to the neighbours of a block on other ranks."""
        found = {}
        for edge, peer in runner.block.neighbors.items():
            rank = self.layout.home(*peer.place)
            if rank != self.rank:
                found[edge] = self.link(runner, edge, peer, rank)
        tags = {(link.rank, link.receive_tag) for link in found.values()}
        if len(tags) < len(found):
            raise MessageError("two edges to one rank differ by a multiple of 32: one tag for both")
        return found

    def kinds_of(self, runner: Runner, peer: Peer) -> tuple[int, int]:
        """The numbers of the kinds of a block and of a neighbour."""
        return self.kinds.index(runner.block.kind), self.kinds.index(peer.kind)

    def post(self, runner: Runner, request: Post | PostSum) -> None:
        """Send messages in host memory, and queue messages on the device for `flush`."""
        step, code = runner.inbox.step, phase_code(request.phase, type(request) is PostSum)
        links, neighbors = self.links, runner.block.neighbors
        staged: list[tuple[Any, Any]] = []
        for edge, message in checked_messages(request).items():
            link = links.get(edge)
            if link is None:  # an edge to a block of this rank
                if edge not in neighbors:
                    raise unknown_edge(runner, request, edge)
                self.deliver(runner, neighbors[edge], request, message)
            elif isinstance(message, np.ndarray):
                link.send(step, code, message)
            else:
                staged.append((link, message))
        for direct in (False, True) if staged else ():
            some = [pair for pair in staged if pair[0].takes_device is direct]
            if some:
                runner.stage(request, some, not direct)

    def flush(self, runner: Runner) -> None:
        """Send the queued messages; waits until the device has finished them."""
        for departure in runner.departures():
            code = phase_code(departure.phase, summed=False)
            direct = departure.messages[0][0].takes_device
            messages = departure.messages if direct else departure.on_host()
            for link, message in messages:
                link.send(departure.step, code, message)

    def collect(self, runner: Runner, request: Collect | CollectSum) -> Any:
        """Wait for the messages that the block collects; returns the answer to its request."""
        links, inbox = self.links, runner.inbox
        if not links:
            return super().collect(runner, request)
        step, phase, summed = inbox.step, request.phase, type(request) is CollectSum
        code = phase_code(phase, summed)
        if summed:
            for edge in request.edges:
                if edge in links:
                    inbox.add(step, phase, (edge,), links[edge].receive(step, code))
            return super().collect(runner, request)
        own = [edge for edge in request.edges if edge not in links]
        mine = inbox.pick(phase, own)
        if mine is None:
            return None
        return {e: mine[e] if e in mine else links[e].receive(step, code) for e in request.edges}

    def missing(self, runner: Runner) -> list[Edge] | None:
        """The edge on which this rank waits; None if all edges lead to the block itself."""
        return [edge for edge, link in self.links.items() if link.waits] if self.links else None

    def begin(self) -> None:
        """Begin a round. Raises MessageError if the block has not collected a message."""
        for link in self.links.values():
            link.advance()

    def close(self) -> None:
        """End all communication."""
        self.close_links()
        if self.sharers.some:  # a rank that ends frees memory that others may have opened
            self.backend.end_sharing()
            self.barrier()

    def close_links(self) -> None:
        """End the communication along all links."""
        for link in self.links.values():
            link.close()


class OfPlaces(RankTransport):
    """Moves the messages of several blocks of a rank, which exist for a time.

    A rank has one block of each kind at most, so a kind and an edge name a receiver there. The
    links of a place are kept from its first block on, as a message for its next block may come
    early. A driver derives its transport from this and its own.
    """

    def connect(self, runners: dict[Place, Runner]) -> None:
        """Get to know the places."""
        Transport.connect(self, runners)
        kinds = [kind for kind, _ in runners]
        if len({*kinds}) < len(kinds):
            raise RunError(f"rank {self.rank} has several blocks of one kind: {', '.join(kinds)}")
        self.links_at: dict[Place, dict[Edge, Link]] = {}
        self.idle_since = 0.0

    def meet(self, runner: Runner) -> None:
        """Make the links of a place when its first block is made, and let each block use them."""
        if runner.place not in self.links_at:
            self.links_at[runner.place] = self.links_of(runner)
        equip(runner, self.links_at[runner.place])

    def post(self, runner: Runner, request: Post | PostSum) -> None:
        """Send a block's messages."""
        self.links = self.links_at[runner.place]
        super().post(runner, request)

    def collect(self, runner: Runner, request: Collect | CollectSum) -> Any:
        """The answer to a Collect; None if messages are missing."""
        step, code = runner.inbox.step, phase_code(request.phase, summed=False)
        links = self.links = self.links_at[runner.place]
        if not all([links[edge].has(step, code) for edge in request.edges if edge in links]):
            return None
        answer = super().collect(runner, request)
        if answer is not None:
            self.idle_since = 0.0
        return answer

    def missing(self, runner: Runner) -> list[Edge] | None:
        """None: all edges of a Collect are shown until every message has come."""
        return None

    def wait(self) -> bool:
        """Look again, after a pause that grows; messages of other ranks may be on their way."""
        now = perf_counter()
        self.idle_since = self.idle_since or now
        pause(now - self.idle_since)
        return any(self.links_at[place] for place, runner in self.places.items() if runner.request)

    def begin(self) -> None:
        """Begin a round. Raises MessageError if a block has not collected a message."""
        for links in self.links_at.values():
            self.links = links
            super().begin()

    def close_links(self) -> None:
        """End the communication along the links of all places."""
        for links in self.links_at.values():
            self.links = links
            super().close_links()


def equip(runner: Runner, links: dict[Edge, Link]) -> None:
    """Let a block pack its messages where the links read them."""

    def allocator(edge: Edge) -> Allocate:
        return links[edge].allocate if edge in links else plain_envelope

    runner.block.device.allocator = allocator


Ranks = TypeVar("Ranks", bound=RankTransport)


class Ran(NamedTuple):
    """A run of which all steps are made: the job, and the parts of all ranks, on rank 0 only."""

    job: Job[Any]
    parts: list[Part] | None
    end: End


def run_block(
    job: Job[Any],
    group: Group,
    local_rank: int,
    transport_of: Callable[[Job[Any]], Ranks],
    watcher: Watcher,
) -> tuple[Ran, Ranks]:
    """Run this rank's blocks; returns what was measured, and the transport.

    ``local_rank``: the number of this rank on its host. Raises RunError unless all ranks have been
    started for this job.
    """
    if group.size != job.layout.pes:
        raise RunError(started_on(job.layout.pes, group.size))
    if len({*group.allgather(checksum(job))}) > 1:
        raise RunError("the ranks were started with different options")
    job = replace(job, audit=group.bcast(job.audit))  # each rank may have drawn a seed
    job.take_device(local_rank)
    jit_s = job.compile()
    transport = transport_of(job)
    here = [place for place in job.layout.numbers if job.layout.home(*place) == group.rank]
    lives = Lives.of(job, here)
    blocks = [job.build(index) for _, index in here] if lives is None else []
    engine = Engine(blocks, job.traced, transport, Auditor.of(job), lives)
    log, end = run_phases(job, engine, group.rank, watcher)
    store_in_turn(group, job, engine.blocks)
    parts = group.gather(Part.of(job, engine.places.values(), log, jit_s))
    return Ran(job, parts, end), transport


def checksum(job: Job[Any]) -> int:
    """A checksum of what all ranks must have been told alike, or they wait for each other.

    Names of files are left out, as hosts may have other paths to the same folder.
    """
    store, writer = job.store, job.checkpoint_writer
    snapshots = None if store is None else store.snapshots
    checkpoints = writer and writer.every, job.checkpoint_every_s, job.checkpoint_async
    told = job.problem, job.layout, job.phases(), job.device, job.options, snapshots, checkpoints
    return zlib.crc32(repr((*told, job.time_limit_s > 0)).encode())


def started_on(asked: int | None, ranks: int) -> str:
    """That another number of ranks was started; each is alone if it does not know its launcher."""
    alone = "; is it the launcher of this MPI library? (srun: --mpi=pmi2 or --mpi=pmix)"
    return f"asked for {asked} ranks, started on {ranks}{alone if ranks == 1 else ''}"


def store_in_turn(group: Group, job: Job[Any], blocks: list[Any]) -> None:
    """Write the final state, one rank after the other, so that no rank holds all of it."""
    if job.store is None:
        return
    created = bool(group.rank) and group.recv(source=group.rank - 1)
    created = write_state(job.store, blocks, created)
    if group.rank + 1 < group.size:
        group.send(created, group.rank + 1)
    group.Barrier()
