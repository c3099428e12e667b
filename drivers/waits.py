"""What each block of a run does or waits for, in sentences, when a run makes no progress."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from miniapps.contract import SETUP, AllReduce, Collect, CollectSum, Edge, Place

MOST = 12  # sentences
COMPUTES = "computes"
NO_EDGE = "which it does not have"


def step_name(step: int) -> str:
    """A round's first step in messages for users."""
    return "setup" if step == SETUP else f"step {step}"


class Wait(NamedTuple):
    """What a block does in the round that begins at ``step``, or a rank in ``part`` of a benchmark.

    ``missing``: the edges whose messages it waits for, and the block at the other end of each.
    """

    place: Place
    step: int
    does: str
    missing: list[tuple[Edge, Place]]
    part: str | None = None

    @property
    def waits(self) -> bool:
        """Whether it waits for another block, rather than being the reason why others wait."""
        return self.does.startswith("waits")

    @property
    def computes(self) -> bool:
        """Whether its own code is running."""
        return self.does == COMPUTES


def wait_of(runner: Any, missing: Iterable[Edge] | None = None) -> Wait:
    """What the block of a runner does; ``missing``: edges, if its inbox does not show them."""
    request, neighbors = runner.request, runner.block.neighbors
    waiting = isinstance(request, Collect | CollectSum) and not computes(runner)
    edges = (
        list(missing) if missing is not None else runner.inbox.missing(request) if waiting else []
    )
    unknown = next((edge for edge in edges if edge not in neighbors), None)
    if unknown is not None:
        does = f"waits for phase {request.phase!r} on edge {unknown!r}, {NO_EDGE}"
        return Wait(runner.place, runner.inbox.step, does, [])
    ends = [(edge, neighbors[edge].place) for edge in edges]
    return Wait(runner.place, runner.inbox.step, _does(runner, request, ends), ends)


def computes(runner: Any) -> bool:
    """Whether the block's own code is running at this moment."""
    return bool(getattr(runner.stepper.generator, "gi_running", False))


def _does(runner: Any, request: Any, missing: list[tuple[Edge, Place]]) -> str:
    if computes(runner):
        return COMPUTES
    if request is None:
        return "has ended its round"
    if isinstance(request, AllReduce):
        return f"waits for the other blocks in an AllReduce by {request.op!r}"
    if missing:
        return f"waits for phase {request.phase!r}"
    return f"has yielded {type(request).__name__} and may continue"


def sentences(waits: Sequence[Wait]) -> list[str]:
    """A sentence for each block, those first that wait for no other, then the earliest steps."""
    steps = {wait.place: wait.step for wait in waits}
    ordered = sorted(waits, key=lambda wait: (wait.waits, wait.step, wait.place))
    shown = [_sentence(wait, steps) for wait in ordered[:MOST]]
    return shown + [f"and {len(waits) - MOST} more blocks"] * (len(waits) > MOST)


def _sentence(wait: Wait, steps: dict[Place, int]) -> str:
    kind, index = wait.place
    text = f"{wait.part or step_name(wait.step)}: {kind} {index} {wait.does}"
    if not wait.missing:
        return text
    edge, sender = wait.missing[0]
    known = f", which is at {step_name(steps[sender])}" if sender in steps else ""
    more = f", and on {len(wait.missing) - 1} more edges" if len(wait.missing) > 1 else ""
    return f"{text} on edge {edge} from {sender[1]}{known}{more}"
