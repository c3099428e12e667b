"""The PEs of the charm driver: data shared by the chares of a PE, and messages for them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

import numpy as np
from charm4py import Chare, Future, Reducer, charm

from miniapps.contract import Batch, MessageError, Place
from miniapps.drivers.audits import Auditor
from miniapps.drivers.charm import CharmOptions, output, yielding
from miniapps.drivers.charm.loads import Loads
from miniapps.drivers.charm.mail import Mail
from miniapps.drivers.charm.payloads import MOVING, Payloads, require_countable
from miniapps.drivers.checkpoints import Part as CheckpointPart
from miniapps.drivers.checkpoints import words_of_state
from miniapps.drivers.crashes import watch_crashes
from miniapps.drivers.engine import audits_before, write_state
from miniapps.drivers.exits import end_at_once, error_of
from miniapps.drivers.gpu_ipc import Ledger, Offer, Sharers, offered, opened
from miniapps.drivers.job import Job, Segment, Store, Watcher
from miniapps.drivers.outcome import Part
from miniapps.drivers.shares import Share
from miniapps.drivers.sizes import pickled_bytes
from miniapps.drivers.timing import PELog, answer_batches
from miniapps.drivers.waits import Wait, wait_of

FAILED = 3  # exit status
ANSWER_S = 0.5  # between two looks whether the watcher asks what blocks wait for


class PE(Chare):
    """Data and methods of a PE: compiled kernels, the log, the watcher, sending messages."""

    def __init__(self, job: Job[CharmOptions], watcher: Watcher, earlier: list[Any]) -> None:
        self.job, self.watcher, self.earlier = job, watcher, earlier
        self.auditor: Auditor | None = None
        self.jit_s = 0.0
        self.log = PELog(charm.myPe())
        self.checkpoint = CheckpointPart(job.checkpoint_writer, self.log)
        self.retired = False  # the run is over
        self.round = -1  # the step at which the last round began here
        self.mail = Mail(self)
        self.arrays: dict[str, Any] = {}  # proxies, by kind
        self.here: dict[str, dict[Any, Any]] = {}  # the chares on this PE, by kind and index
        self.where = np.empty(0, np.int64)  # the PE of each block, if there are several kinds
        self.batches: list[tuple[Any, Batch]] = []  # queued batches and their chares
        self.incoming: list[np.ndarray] = []  # tables received since the last load balancing
        self.loads: Loads | None = None  # what the runtime measures
        self.waiting = 0  # chares that wait for the load-balancing step

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Report an exception of the code inside to the watcher and end the whole run."""
        try:
            yield
        except BaseException as raised:
            self.give_up(error_of(raised))

    def give_up(self, error: Exception) -> None:
        """Report an error to the watcher and end the whole run."""
        self.watcher.fail(error)
        fail(FAILED)

    def host(self) -> str:
        """The name of this PE's host."""
        return os.uname().nodename

    def prepare(self, local_ranks: list[int]) -> None:
        """Open a device and compile kernels; ``local_ranks``: each PE's number on its host."""
        balanced = self.job.options.lb_period > 0
        with self.guard():
            # One queue: else the time of a block's kernels has waits for those of others in it.
            self.backend = self.job.take_device(local_ranks[charm.myPe()], balanced)
            self.jit_s = self.job.compile()
            self.auditor = Auditor.of(self.job)
        room = MOVING if balanced and self.job.device != "cpu" else None
        self.payloads = Payloads(charm.myPe(), self.job.options.shortest_shared, room)
        charm.arrayElemLeave = self.packed
        self.watcher.attend(charm.myPe(), self.waits, threaded=False)
        self.crashes = watch_crashes(self.watcher.fail)  # the runtime has its own handlers
        output.restore()
        yielding.begin()
        self.answer()

    def offer(self) -> Any:
        """How other PEs of this host read messages of this one; None if they cannot."""
        return self.payloads.offer()

    def open(self, offers: list[Any]) -> None:
        """Open the pools of PEs of this host; ``offers``: of all PEs."""
        self.payloads.open(offers)

    def begin_sharing(self) -> str | None:
        """Use shared memory from now on, where other PEs read it; returns why some do not."""
        self.payloads.begin(self.job.layout.pes)
        return self.payloads.why

    def offer_gpu(self) -> Offer | None:
        """The memory on this PE's GPU that others may try to open."""
        with self.guard():
            return offered(self.backend)

    def try_offers(self, offers: list[Offer | None]) -> set[int]:
        """Try to open memory of PEs on this GPU; returns of which ones. ``offers``: of all PEs."""
        with self.guard():
            return opened(charm.myPe(), offers, self.backend)

    def share_gpu(self, answers: list[set[int]]) -> None:
        """Lend messages to the PEs on this GPU from now on; ``answers``: of all PEs."""
        self.mail.sharers = Sharers.of(charm.myPe(), answers)
        self.mail.ledger = Ledger(charm.myPe(), self.job.layout.pes)

    def give_back(self, numbers: list[int]) -> None:
        """Use the memory of messages again that others have copied."""
        with self.guard():
            if not self.retired:
                self.mail.ledger.give_back(numbers)

    def waits(self) -> list[Wait]:
        """What each block of this PE does or waits for."""
        return [wait_of(chare.runner) for chare in self.chares() if chare.block is not None]

    def answer(self) -> None:
        """Answer the watcher, now and later: the runtime lets no other thread of a PE run."""
        if not self.retired:
            self.watcher.answer(charm.myPe())
            charm.scheduleCallableAfter(self.answer, ANSWER_S)

    # Location of blocks --------------------------------------------------------------------------

    def location(self, number: int) -> int | None:
        """The PE of a block; None if blocks migrate and only the runtime knows where they are."""
        known = len(self.here) > 1 or self.job.options.lb_period == 0
        return int(self.where[number]) if known else None

    def introduce(self, arrays: dict[str, Any]) -> None:
        """Store the proxies of the chare arrays."""
        self.arrays = arrays
        self.here = {kind: charm.arrays[array.aid] for kind, array in arrays.items()}

    def store_placement(self) -> None:
        """Store the PE of each block after creation, which is the one of the layout."""
        layout = self.job.layout
        self.where = np.array([layout.home(*place) for place in layout.numbers])
        self.mail.relearn()
        if self.job.options.lb_period:
            self.loads = Loads.of(self.arrays, self.here)

    def packed(self, array: int, index: tuple[int, ...]) -> bytes:
        """The chare that leaves this PE, as the runtime sends it, which asks for it by a method.

        The runtime takes its size for a C int, whatever it is.
        """
        pickled: bytes = type(charm).arrayElemLeave(charm, array, index)
        with self.guard():
            require_countable(f"block {index[0]} migrates", len(pickled))
        return pickled

    def learn(self, pes: np.ndarray) -> None:
        """Store the PEs of the blocks of a kind after a load-balancing step.

        ``pes`` (blocks,): 1 + PE, by number; 0 for blocks of other kinds. Once all kinds are known,
        no block is migrating any more, and the blocks of this PE continue.
        """
        with self.guard():
            self.incoming.append(pes)
            if len(self.incoming) < len(self.arrays):
                return
            self.where, self.incoming = np.sum(self.incoming, axis=0) - 1, []
            self.mail.relearn()
            for chare in self.chares():
                chare.wake_up()

    def chares(self) -> Iterator[Any]:
        """The chares on this PE, of all kinds."""
        return chain.from_iterable(family.values() for family in self.here.values())

    def blocks(self) -> Iterator[Any]:
        """Their blocks, of those that have one now."""
        return (chare.block for chare in self.chares() if chare.block is not None)

    # Runs that are over ---------------------------------------------------------------------------

    def retire(self) -> None:
        """Release the blocks of a completed run; their chares cannot be removed."""
        self.retired = True
        for chare in self.chares():
            chare.retire()
        self.payloads = Payloads(charm.myPe(), 0)
        if self.mail.sharers.some:
            self.mail.ledger.lent.clear()
            self.backend.end_sharing()

    def balance_retired(self) -> None:
        """Make the chares of earlier runs call AtSync, as the runtime waits for every chare."""
        for pes in self.earlier:
            pes.sync_retired()

    def sync_retired(self) -> None:
        """Let the chares of a completed run take part in a load-balancing step of a later run."""
        if self.job.options.lb_period:
            for chare in list(self.chares()):
                chare.AtSync()

    def balance(self, step: int) -> None:
        """Record that a chare waits for the load-balancing step before ``step``.

        After the last one of this PE, the loads are recorded, before the runtime looks at them: the
        message comes before those of the runtime.
        """
        self.log.begin_wait(step)
        self.waiting += 1
        if self.waiting == sum(map(len, self.here.values())):
            self.waiting = 0
            self.thisProxy[charm.myPe()].note_loads(step)

    def note_loads(self, step: int) -> None:
        """Record the loads of the chares of this PE, which all wait.

        Until they continue nothing is measured. Else messages that come early would add to loads
        that were recorded, before the runtime looks at them. It has measured the host's time, so
        the loads of blocks on a GPU are replaced by the time of their kernels.
        """
        with self.guard():
            if self.loads is not None:
                charm.LBTurnInstrumentOff()
                if self.job.device != "cpu":
                    self.loads.write(self.chares(), self.log.computed())
                self.log.note_loads(step, self.loads.read(self.chares()))

    def balanced(self, step: int, came: bool) -> None:
        """Record that a chare continues here after that load-balancing step, and if it ``came``."""
        if self.loads is not None:
            charm.LBTurnInstrumentOn()
        self.log.end_wait(step, came)

    # Batches -------------------------------------------------------------------------------------

    def batch(self, chare: Any, request: Batch) -> None:
        """Queue a chare's batch; it runs after all other chares of this PE have run."""
        self.batches.append((chare, request))
        if len(self.batches) == 1:
            self.thisProxy[charm.myPe()].do_batches(1)

    def do_batches(self, asked: int) -> None:
        """Run the queued batches, or wait again if more than ``asked`` are queued by now."""
        with self.guard():
            if len(self.batches) > asked:
                self.thisProxy[charm.myPe()].do_batches(len(self.batches))
                return
            batches, self.batches = self.batches, []
            for chare, answer in answer_batches(batches):
                chare.go_on(answer, at_once=not self.job.options.lb_period)

    # Messages from other PEs, if there are several kinds of blocks --------------------------------

    def fan_out(self, step: int, phase: str, sender: Place, targets: list[Any], *sent: Any) -> None:
        """Pass messages that were sent in one call to the blocks of this PE."""
        with self.guard():
            arrays = self.payloads.received(sent)
            for kind, number, edge, which in targets:
                chare = self.found(kind, number)
                if chare.put(step, phase, edge, sender, arrays[which]):
                    chare.wake_up()

    def take_sum(
        self, step: int, phase: str, kind: str, number: int, edges: Any, sent: Any
    ) -> None:
        """Pass a block the sum of the messages of another PE's blocks."""
        with self.guard():
            (total,) = self.payloads.received([sent])
            self.found(kind, number).put_sum(step, phase, edges, total)

    def found(self, kind: str, number: int) -> Any:
        """The chare of a block. Raises MessageError if it is not on this PE."""
        chare = self.here[kind].get((number,))
        if chare is None:
            raise MessageError(f"a message for {kind} {number} came to PE {charm.myPe()}")
        return chare

    # Measuring -----------------------------------------------------------------------------------

    def start_log(self) -> None:
        """Discard the timings of the warm-up and set the time origin to now."""
        if self.job.checkpoint_async and not self.checkpoint.room:
            self.checkpoint.make_room(self.blocks())
        self.log.start()
        for chare in self.chares():
            chare.runner.forget_audits(chare.step)

    def stop_log(self) -> None:
        """End the time in which disturbances by other programs are measured."""
        self.log.stop()

    def keep(self, segment: Segment, latest: Future) -> None:
        """Store the blocks of this PE in a snapshot. ``latest``: when the last PE was `rested`.

        The runtime would count the time as load if a chare did this.
        """
        with self.guard():
            runners = (chare.runner for chare in self.chares())
            end_s = self.log.rested(audits_before(runners, segment.stop))
            self.job.keep(charm.myPe(), segment, self.blocks())
            self.reduce(latest, end_s, Reducer.max)

    def end_after(self, step: int) -> None:
        """Audit the round at ``step``, which is the last one."""
        if self.auditor is not None:
            self.auditor.last = step

    def rest(self, step: int, latest: Future) -> None:
        """Say when this PE was `rested`, before a checkpoint; ``latest``: when the last one was."""
        with self.guard():
            runners = (chare.runner for chare in self.chares())
            end_s = self.log.rested(audits_before(runners, step))
            self.reduce(latest, end_s, Reducer.max)

    def take_checkpoint(self, behind: bool) -> bool:
        """Take what is to be written; returns whether blocks report that the run is finished."""
        with self.guard():
            self.checkpoint.take(self.blocks(), behind)
            return any(chare.finished for chare in self.chares())

    def do_for_checkpoint(self, task: str, given: tuple[Any, ...]) -> None:
        """Begin a task for a checkpoint."""
        with self.guard():
            self.checkpoint.begin(task, *given)

    def ready_for_checkpoint(self, wait: bool) -> bool:
        """Whether such a task is done; ``wait``: until it is."""
        with self.guard():
            return self.checkpoint.ready(wait)

    def share(self) -> Share:
        """What this PE will write."""
        return self.checkpoint.share

    def words(self) -> np.ndarray:
        """The share of this PE's blocks in the state hash."""
        with self.guard():
            return words_of_state(self.blocks())

    def go_on(self, end_s: float, checkpoint: bool) -> None:
        """Let the clock continue where the last PE was `rested`, after a checkpoint or snapshot."""
        stood_s = self.log.go_on(end_s)
        if checkpoint:
            self.log.checkpoints_s += stood_s
        else:
            self.log.snapshots_s += stood_s

    def note_checkpoints(self, agreeing_s: float, waiting_s: float) -> None:
        """Add to the seconds in which PEs agreed on checkpoints, and waited for earlier ones."""
        self.log.agreeing_s.append(agreeing_s)
        self.log.waiting_s += waiting_s

    def note_begin(self, step: int) -> None:
        """Report to the watcher, once per round, that this PE begins the round at ``step``."""
        if step != self.round:
            self.round = step
            self.watcher.heartbeat(charm.myPe(), step)

    def part(self) -> Part:
        """The part of this PE in the outcome."""
        with self.guard():
            self.payloads.check()
            if self.mail.sharers.some:
                self.mail.ledger.synchronize()
            self.watcher.finish(charm.myPe())
            runners = [chare.runner for chare in self.chares()]
            part = Part.of(self.job, runners, self.log, self.jit_s)
            require_countable(f"what PE {charm.myPe()} measured", pickled_bytes(part))
            return part

    def store(self, store: Store, made: bool) -> bool:
        """Write the blocks of this PE, which may have none; returns whether the store exists."""
        with self.guard():
            return write_state(store, self.blocks(), made)


def fail(status: int) -> None:
    """End this PE at once; charmrun and the runtime then end the others."""
    end_at_once(status)
