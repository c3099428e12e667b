"""Faults of the steps that are made, and of how blocks' results are joined, for every app."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from miniapps.contract import SETUP, Measure, Piece
from miniapps.faults import ACTED, fault, in_place_of

MEASURED = "miniapps.drivers.outcome:measured"
HASHED = "miniapps.drivers.outcome:hashed"
JOINED = "miniapps.drivers.outcome:joined"
PHASES = "miniapps.drivers.job:Job.phases"


# Steps -------------------------------------------------------------------------------------------


@in_place_of(PHASES)
def warm_up_left_out(right: Any, self: Any) -> Any:
    """The steps of the warm-up are counted, and not made."""
    return (0, 0), right(self)[1]


@in_place_of(PHASES)
def a_step_too_many(right: Any, self: Any) -> Any:
    """The last step of the warm-up is made twice: the timed steps begin with it."""
    warmup, (first, end) = right(self)
    return warmup, (first - 1, end)


@in_place_of(PHASES)
def a_step_too_few(right: Any, self: Any) -> Any:
    """The run ends one step early."""
    warmup, (first, end) = right(self)
    return warmup, (first, end - 1)


@in_place_of(JOINED)
def two_steps_too_many_counted(right: Any, *given: Any) -> Any:
    """The result is validated after two steps more than were made: a public version's mistake."""
    outcome = right(*given)
    return replace(outcome, steps_done=outcome.steps_done + 2)


@in_place_of("miniapps.drivers.job:Job.build", conditional=True)
def block_in_place_of_another(right: Any, self: Any, index: Any) -> Any:
    """The last block is created as a second first one."""
    places = self.layout.indices()
    if index != places[-1] or len(places) == 1:
        return right(self, index)
    ACTED.now()
    return right(self, places[0])


@in_place_of("miniapps.drivers.timing:Stepper._begin", conditional=True)
def block_that_ends_its_process(right: Any, self: Any, life: Any) -> Any:
    """The first block calls sys.exit(0) in its second round, on one rank alone."""
    vars(self)["rounds"] = vars(self).get("rounds", 0) + (self.step != SETUP)
    ends = of_one(self.block) and self.rounds == 2
    return right(self, process_ended() if ends else life)


def process_ended() -> Iterator[None]:
    """A step, a generator, that ends its process."""
    ACTED.now()
    sys.exit(0)
    yield


# Results -----------------------------------------------------------------------------------------


def of_one(block: Any) -> bool:
    """Whether a block is the one whose result is wrong."""
    return not any(block.index)


@in_place_of(MEASURED, conditional=True)
def block_that_is_not_counted(right: Any, block: Any, *more: Any) -> dict[str, Measure]:
    """One block's result is lost on its way."""
    if not of_one(block):
        return dict(right(block, *more))
    ACTED.now()
    return {}


@in_place_of(MEASURED, conditional=True)
def block_that_is_counted_twice(right: Any, block: Any, *more: Any) -> dict[str, Measure]:
    """One block's result is added twice."""
    measures = dict(right(block, *more))
    if not of_one(block):
        return measures
    ACTED.now()
    return {n: Measure(op, 2 * v if op == "sum" else v) for n, (op, v) in measures.items()}


def hash_of(right: Any, change: Callable[[Piece], Piece]) -> Any:
    """``hashed`` of changed pieces; `ACTED` is told where the change is another state."""

    def hashed(pieces: list[Piece]) -> Any:
        changed = [change(piece) for piece in pieces]
        words = right(changed)
        if words.tobytes() != right(pieces).tobytes():
            ACTED.now()
        return words

    return hashed


def stated(right: Any, change: Callable[[Piece], Piece]) -> Any:
    """``measured`` of blocks whose final state is changed, for the hash and the file alike."""

    def measured(block: Any, *more: Any) -> dict[str, Measure]:
        pieces = block.state()
        changed = [change(piece) for piece in pieces]
        if hashed_bytes(changed) != hashed_bytes(pieces):
            ACTED.now()
        block.state = lambda: changed
        return dict(right(block, *more))

    return measured


def hashed_bytes(pieces: list[Piece]) -> list[tuple[Any, ...]]:
    """What distinguishes the pieces of two states."""
    return [
        (p.values.tobytes(), p.origin, None if p.ids is None else p.ids.tobytes()) for p in pieces
    ]


@fault(MEASURED, conditional=True)
def state_with_ids_reversed(right: Any) -> Any:
    """The final state gives the first particle the last id, and so on."""
    return stated(right, lambda p: p if p.ids is None else p._replace(ids=p.ids[::-1]))


@fault(MEASURED, conditional=True)
def state_with_columns_exchanged(right: Any) -> Any:
    """The final state has two columns of particles, or of cells, in each other's place."""

    def change(piece: Piece) -> Piece:
        columns = [1, 0, *range(2, piece.values.shape[-1])]
        return piece._replace(values=piece.values[..., columns[: piece.values.shape[-1]]])

    return stated(right, change)


@fault(MEASURED, conditional=True)
def state_of_other_cells(right: Any) -> Any:
    """The final state has each block's cells at those of the first block."""

    def change(piece: Piece) -> Piece:
        return piece._replace(origin=piece.origin and (0,) * len(piece.origin))

    return stated(right, change)


@in_place_of(MEASURED, conditional=True)
def hash_joined_by_the_largest(right: Any, block: Any, *more: Any) -> dict[str, Measure]:
    """The state hash is the largest of the blocks' hashes, not their sum."""
    measures = dict(right(block, *more))
    if not of_one(block) and measures["words"].value.any():
        ACTED.now()
    return measures | {"words": Measure("max", measures["words"].value)}


@in_place_of("miniapps.workbench.run.record:digest")
def hash_cut_short(right: Any, words: Any) -> Any:
    """The record has the lower half of the words of the state hash only."""
    return right(words & np.uint64(0xFFFFFFFF))


@fault(HASHED, conditional=True)
def hash_without_the_place(right: Any) -> Any:
    """The state hash takes all elements for those of the first row, or of the first id."""

    def change(piece: Piece) -> Piece:
        if piece.ids is not None:
            return piece._replace(ids=np.zeros_like(piece.ids))
        return piece._replace(origin=(0,) * len(piece.shape))

    return hash_of(right, change)


@fault(HASHED, conditional=True)
def hash_without_the_data(right: Any) -> Any:
    """The state hash looks at no element, only at where elements are."""
    return hash_of(right, lambda piece: piece._replace(values=np.zeros_like(piece.values)))


@fault(HASHED, conditional=True)
def hash_of_high_bits(right: Any) -> Any:
    """The state hash rounds floats to float32."""

    def change(piece: Piece) -> Piece:
        single = piece.values.astype(np.float32).astype(piece.values.dtype)
        return piece._replace(values=single)

    return hash_of(right, change)


@fault(HASHED, conditional=True)
def hash_without_the_last(right: Any) -> Any:
    """The state hash misses the last row of every block."""

    def change(piece: Piece) -> Piece:
        ids = None if piece.ids is None else piece.ids[:-1]
        return piece._replace(values=piece.values[:-1], ids=ids)

    return hash_of(right, change)


@in_place_of(JOINED, conditional=True)
def part_that_is_not_joined(right: Any, job: Any, parts: Any, *more: Any) -> Any:
    """The result of the last PE is missing."""
    if len(parts) > 1:
        ACTED.now()
        parts = [*parts[:-1], parts[0]]
    return right(job, parts, *more)


# Audits ------------------------------------------------------------------------------------------


@in_place_of("miniapps.drivers.audits:Auditor.is_planned", conditional=True)
def audit_of_drawn_rounds_skipped(right: Any, self: Any, step: int, count: int) -> bool:
    """The first and the last round are audited, the drawn ones are not."""
    planned = bool(right(self, step, count))
    if planned and 0 < step < step + count < self.total:
        ACTED.now()
        return False
    return planned


@in_place_of("miniapps.drivers.audits:Auditor.begin", conditional=True)
def audit_of_one_block_skipped(right: Any, self: Any, block: Any, *more: Any) -> Any:
    """One block contributes nothing to audits."""
    if not of_one(block):
        return right(self, block, *more)
    ACTED.now()
    return None
