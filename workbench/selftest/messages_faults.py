"""Faults of messages and reductions, for every app and driver.

They are made where a block is resumed: in what it posts, and in what it is answered. The first
block is wrong, once, in a message in the middle of the run. Some apps have, say, no messages of
floats, so `Acted.now` is called where a fault has changed anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from miniapps.contract import EXACT, AllReduce, Collect, Post, PostSum
from miniapps.devices.messages import packed
from miniapps.drivers.reduction import packed_value, result_of
from miniapps.faults import ACTED, fault, in_place_of, rounded

RESUME = "miniapps.drivers.timing:Stepper.resume"
AT = 8  # the number of the block's Post or Collect that is wrong
POSTS = Post, PostSum
Messages = dict[Any, np.ndarray]


def is_chosen(stepper: Any) -> bool:
    """Whether this block is to be wrong, and now: counts its messages."""
    if any(stepper.block.index):
        return False
    vars(stepper)["met"] = vars(stepper).get("met", 0) + 1
    return bool(stepper.met >= AT and not vars(stepper).get("done"))


def did(stepper: Any) -> None:
    """Record that this block has been wrong, and is not to be again."""
    vars(stepper)["done"] = True
    ACTED.now()


def sent(right: Any, change: Callable[[Messages], Messages | None]) -> Any:
    """``Stepper.resume`` with a change of what is posted; None where it would change nothing."""

    def resume(self: Any, answer: Any) -> Any:
        request = right(self, answer)
        if type(request) in POSTS and request.messages and is_chosen(self):
            changed = change(dict(request.messages))
            if changed is not None:
                did(self)
                return request._replace(messages=changed)
        return request

    return resume


def received(right: Any, change: Callable[[Messages], Messages | None]) -> Any:
    """``Stepper.resume`` with a change of what is collected."""

    def resume(self: Any, answer: Any) -> Any:
        if vars(self).pop("collects", False) and answer and is_chosen(self):
            changed = change(dict(answer))
            if changed is not None:
                did(self)
                answer = changed
        request = right(self, answer)
        if type(request) is Collect:
            vars(self)["collects"] = True
        return request

    return resume


def contributed(right: Any, change: Callable[[Any, str], Any]) -> Any:
    """``Stepper.resume`` with a change of what the first block gives to a reduction."""

    def resume(self: Any, answer: Any) -> Any:
        request = right(self, answer)
        if type(request) is AllReduce and not any(self.block.index):
            value = noted(request.value, change(request.value, request.op))
            return AllReduce(value, request.op)
        return request

    return resume


def noted(before: Any, after: Any) -> Any:
    """The value after a change, recorded if it is another one."""
    if np.asarray(before).tobytes() != np.asarray(after).tobytes():
        ACTED.now()
    return after


def each(change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Messages], Messages | None]:
    """A change of every message, where it changes the bytes or the shape of any."""

    def changed(messages: Messages) -> Messages | None:
        new = {edge: packed(change(np.array(m))) for edge, m in messages.items()}
        return new if any(differ(new[edge], m) for edge, m in messages.items()) else None

    return changed


def differ(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two messages differ."""
    return a.shape != b.shape or a.tobytes() != b.tobytes()


def exchanged(messages: Messages) -> Messages | None:
    """Two messages that differ, each along the other's edge; None if there are no two."""
    edges = list(messages)
    for n, one in enumerate(edges):
        for other in edges[n + 1 :]:
            if differ(messages[one], messages[other]):
                return messages | {one: messages[other], other: messages[one]}
    return None


# What is sent ------------------------------------------------------------------------------------


@fault(RESUME, conditional=True)
def lost(right: Any) -> Any:
    """A message is never sent."""
    return sent(right, lambda messages: dict(list(messages.items())[1:]))


@in_place_of(RESUME, conditional=True)
def sent_twice(right: Any, self: Any, answer: Any) -> Any:
    """Messages are sent twice."""
    again = vars(self).pop("again", None)
    if again is not None:
        return again
    request = right(self, answer)
    if type(request) in POSTS and request.messages and is_chosen(self):
        did(self)
        copies = {edge: packed(np.array(m)) for edge, m in request.messages.items()}
        self.again = request._replace(messages=copies)
    return request


@fault(RESUME, conditional=True)
def misrouted(right: Any) -> Any:
    """Two messages are each sent along the other's edge."""
    return sent(right, exchanged)


@in_place_of(RESUME, conditional=True)
def of_the_step_before(right: Any, self: Any, answer: Any) -> Any:
    """Messages hold what was sent the last time: a buffer that is not filled anew."""
    request = right(self, answer)
    if type(request) in POSTS and request.messages and not any(self.block.index):
        kept, mine = vars(self).setdefault("kept", {}), dict(request.messages)
        old = kept.get(request.phase)
        kept[request.phase] = {edge: np.array(m) for edge, m in mine.items()}
        if old and is_chosen(self) and any(differ(old[edge], mine[edge]) for edge in mine):
            did(self)
            return request._replace(messages={e: packed(m) for e, m in old.items()})
    return request


@fault(RESUME, conditional=True)
def in_single_precision(right: Any) -> Any:
    """Floats are rounded to float32 on their way."""
    return sent(right, each(rounded))


def flipped(message: np.ndarray) -> np.ndarray:
    """A message with one wrong bit in its first element."""
    first = message.reshape(-1)[:1].view(np.uint8)
    first[len(first) // 2 :][:1] ^= 1
    return message


@fault(RESUME, conditional=True)
def one_bit(right: Any) -> Any:
    """One bit of one element is wrong."""
    return sent(right, each(flipped))


@fault("miniapps.contract:Check.ok", RESUME, conditional=True)
def one_bit_and_loosened_tolerances(right: Any) -> Any:
    """One bit of one element is wrong, and every check with a tolerance holds."""
    if isinstance(right, property):
        return property(lambda check: bool(check.limit > 0 or check.value <= check.limit))
    return sent(right, each(flipped))


@fault(RESUME, conditional=True)
def before_it_is_written(right: Any) -> Any:
    """Messages are sent before they are written: they hold what the memory held."""
    return sent(right, each(lambda m: np.frombuffer(b"\x41" * m.nbytes, m.dtype).reshape(m.shape)))


@fault(RESUME, conditional=True)
def empty_memory(right: Any) -> Any:
    """Messages are all zero."""
    return sent(right, each(np.zeros_like))


@fault(RESUME, conditional=True)
def reversed_elements(right: Any) -> Any:
    """The elements of messages are in reverse order."""
    return sent(right, each(lambda m: np.ascontiguousarray(m.reshape(-1)[::-1]).reshape(m.shape)))


@fault(RESUME, conditional=True)
def swapped_axes(right: Any) -> Any:
    """Elements are in the order of the other axis: a view that was sent as if contiguous."""
    return sent(right, each(lambda m: np.ascontiguousarray(m.T).reshape(m.shape)))


@fault(RESUME, conditional=True)
def cut_short(right: Any) -> Any:
    """The last row of messages is missing."""
    return sent(right, each(lambda message: np.ascontiguousarray(message[:-1])))


# What is received --------------------------------------------------------------------------------


@fault(RESUME, conditional=True)
def received_at_another_edge(right: Any) -> Any:
    """Two messages are each received at the other's edge: matched by their sender only."""
    return received(right, exchanged)


@in_place_of(RESUME, conditional=True)
def buffer_used_again(right: Any, self: Any, answer: Any) -> Any:
    """The block reads the messages of an earlier Collect: a receive buffer that is reused."""
    phase = vars(self).pop("collects", "")
    if phase and not any(self.block.index):
        kept = vars(self).setdefault("kept", {})
        old, came = kept.get(phase), dict(answer)
        kept[phase] = {edge: np.array(message) for edge, message in came.items()}
        if old and is_chosen(self) and any(differ(old[edge], came[edge]) for edge in came):
            did(self)
            answer = old
    request = right(self, answer)
    if type(request) is Collect:
        vars(self)["collects"] = request.phase
    return request


@fault(RESUME, conditional=True)
def overwritten_while_read(right: Any) -> Any:
    """Half of a received message is overwritten by zeros before the block reads it."""

    def overwritten(message: np.ndarray) -> np.ndarray:
        message.reshape(-1)[: -(-message.size // 2)] = 0
        return message

    return received(right, each(overwritten))


# Reductions --------------------------------------------------------------------------------------


@fault(RESUME, conditional=True)
def reduction_without_one_block(right: Any) -> Any:
    """The first block does not contribute to sums, maxima and minima."""

    def nothing(value: Any, op: str) -> Any:
        kept = np.asarray(value)
        if op in ("sum", EXACT):
            return np.zeros_like(kept)[()]
        worst = np.finfo(kept.dtype) if kept.dtype.kind == "f" else np.iinfo(kept.dtype)
        return np.full_like(kept, worst.min if op == "max" else worst.max)[()]

    return contributed(right, nothing)


@fault(RESUME, conditional=True)
def reduction_counts_one_block_twice(right: Any) -> Any:
    """The first block contributes twice to sums."""
    return contributed(right, lambda value, op: 2 * value if op in ("sum", EXACT) else value)


@in_place_of(RESUME, conditional=True)
def reduction_of_one_block(right: Any, self: Any, answer: Any) -> Any:
    """Every block is answered with its own value, as if it were alone."""
    if "reduces" in vars(self):
        answer = noted(answer, vars(self).pop("reduces"))
    request = right(self, answer)
    if type(request) is AllReduce:
        value, op = request.value, request.op
        vars(self)["reduces"] = result_of(packed_value(value, op), value, op)
    return request
