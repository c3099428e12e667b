"""Faults of the mpi driver."""

from __future__ import annotations

from typing import Any

from miniapps.drivers.mpi import around
from miniapps.drivers.rank_faults import from_the_header, own_value
from miniapps.drivers.shared_memory_faults import (  # noqa: F401  # faults of this driver, too
    shared_slot_given_back_early,
    shared_slot_not_waited_for,
    shared_slot_of_another_message,
    shared_slot_with_the_message_before,
)
from miniapps.faults import fault, in_place_of, rounded

LINK = "miniapps.drivers.mpi.links:Link"
SHORT = 80  # bytes: of a header, and two numbers


@in_place_of("miniapps.drivers.mpi.driver:run")
def singletons(right: Any, job: Any, *more: Any) -> Any:
    """A launcher of another MPI starts each rank as a run of its own."""
    from mpi4py import MPI

    from miniapps.faults import replaced

    with replaced("miniapps.drivers.mpi.driver:MPI.COMM_WORLD", lambda world: MPI.COMM_SELF):
        return right(job, *more)


@in_place_of("miniapps.drivers.job:Job.phases")
def ranks_of_different_runs(right: Any, self: Any) -> Any:
    """The ranks were started with different command lines."""
    launcher = around()
    warmup, (first, end) = right(self)
    return warmup, (first, end + (launcher.rank if launcher else 0))


@in_place_of(f"{LINK}._write_head")
def header_of_the_next_step(right: Any, self: Any, buffer: Any, step: int, *more: Any) -> None:
    """Messages say that they are of the step after."""
    right(self, buffer, step + 1, *more)


@in_place_of(f"{LINK}.send", conditional=True)
def sent_in_single_precision(right: Any, self: Any, step: int, code: int, message: Any) -> None:
    """Messages to other ranks are rounded to float32 when the block has posted them."""
    right(self, step, code, rounded(message))


@in_place_of(f"{LINK}._body")
def header_read_as_data(right: Any, self: Any, *kind: Any) -> Any:
    """The elements of a message begin one too early, in its header."""
    return from_the_header(right(self, *kind))


@fault(f"{LINK}._longer", "miniapps.drivers.mpi.links:FIRST_CAPACITY")
def rest_of_a_long_message_lost(right: Any) -> Any:
    """The second part of a message that is longer than the posted buffer is not written."""
    if isinstance(right, int):
        return SHORT

    def longer(self: Any, nbytes: int) -> Any:
        begun = self.receives[0].buffer.nbytes
        buffer = right(self, nbytes)
        buffer[begun:] = 0x41
        return buffer

    return longer


@in_place_of("miniapps.drivers.mpi.driver:Ranks.all_reduce", conditional=True)
def reduction_of_one_rank(right: Any, self: Any, value: Any, op: str) -> Any:
    """A reduction is the rank's own value."""
    return own_value(right(self, value, op), value)
