"""Faults of Transpose."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import numpy as np

from miniapps.contract import Collect, Post
from miniapps.faults import ACTED, fault, in_place_of, off_in_its_last_bit, skipping, spoiling

BLOCK = "miniapps.transpose.block:TransposeBlock"
PENCIL = "miniapps.transpose.pencils:PencilBlock"
KERNELS = "miniapps.kernels.transpose.cpu"
LINES = "miniapps.kernels.pencils.cpu"
FEW = {"size": (37,), "steps": 6, "warmup": 1}
FFT = {"fft": True, "size": (9, 8, 10)}
PROBLEMS = {"tiny": FEW}  # others are the presets
UNSEEN: dict[str, str] = {"transpose: last bit off": "the last bit of one element, at the end"}

# Matrices ----------------------------------------------------------------------------------------


def adding(change: Callable[[np.ndarray, np.ndarray], None]) -> Any:
    """A kernel that puts a message into its part of B by another operation."""

    def add(b: Any, columns: Any, came: Any) -> None:
        for edge, (low, high) in columns.items():
            ACTED.now()
            change(b[:, low:high], came[edge])

    return add


@fault(f"{KERNELS}:add", conditional=True)
def not_transposed(right: Any) -> Any:
    """What comes from other blocks is added as it is."""

    def put(b: np.ndarray, came: np.ndarray) -> None:
        b += came.reshape(b.shape)

    return adding(put)


@fault(f"{KERNELS}:add", conditional=True)
def b_replaced(right: Any) -> Any:
    """What comes from other blocks replaces what is in B."""

    def put(b: np.ndarray, came: np.ndarray) -> None:
        b[...] = came.T

    return adding(put)


@in_place_of(f"{KERNELS}:add", conditional=True)
def one_block_left_out(right: Any, b: Any, columns: Any, came: Any) -> None:
    """What comes from one of the other blocks is not added."""
    if columns:
        ACTED.now()
    right(b, dict(list(columns.items())[1:]), came)


@in_place_of(f"{KERNELS}:take", conditional=True)
def one_added_before(right: Any, a: Any, columns: Any, messages: Any) -> None:
    """A += 1 is made before the columns are copied for other blocks."""
    right(a, columns, messages)
    for message in messages.values():
        ACTED.now()
        message += 1


@in_place_of(f"{KERNELS}:take", conditional=True)
def nothing_added_to_a(right: Any, a: Any, columns: Any, messages: Any) -> None:
    """A += 1 is not made where columns are copied for other blocks."""
    right(a, columns, messages)
    for low, high in columns.values():
        ACTED.now()
        a[:, low:high] -= 1


@fault(f"{KERNELS}:turn")
def own_rows_left_out(right: Any) -> Any:
    """The rows that stay in a block are left as they are."""
    return lambda a, b, low: None


@in_place_of(f"{KERNELS}:turn")
def own_rows_not_transposed(right: Any, a: Any, b: Any, low: int) -> None:
    """The rows that stay in a block are added as they are."""
    own = slice(low, low + len(a))
    b[:, own] += a[:, own]
    a[:, own] += 1


@in_place_of(f"{BLOCK}._start")
def starts_transposed(right: Any, self: Any) -> Any:
    """A(i, j) is N i + j at first."""
    a, b = right(self)
    a[...] = (self.low + np.arange(len(a)))[:, np.newaxis] + self.order * np.arange(self.order)
    return a, b


@fault(f"{BLOCK}.step")
def skipped_step(right: Any) -> Any:
    """The blocks make one step less than they say."""

    def count_it(block: Any, count: int) -> None:
        block.time += count

    return skipping(right, lambda made: made == 2, count_it)


@fault(f"{BLOCK}.step")
def step_left_out(right: Any) -> Any:
    """The blocks make one step less, and count so."""
    return skipping(right, lambda made: made == 2)


@fault(f"{BLOCK}.step")
def nan(right: Any) -> Any:
    """One element of B becomes NaN."""

    def spoil(block: Any) -> None:
        block.b[0, 0] = np.nan

    return spoiling(right, spoil)


@fault(f"{BLOCK}.state")
def last_bit_off(right: Any) -> Any:
    """One element of A is off in its last bit at the end."""
    return off_in_its_last_bit(right)


@in_place_of(f"{BLOCK}.__getstate__", migrating=True)
def b_forgotten(right: Any, self: Any) -> dict[str, Any]:
    """A migrating block begins with a new B."""
    state = right(self)
    return state | {"b": np.zeros_like(state["b"])}


# Transforms --------------------------------------------------------------------------------------


@fault(f"{LINES}:transform", given=FFT)
def nothing_transformed(right: Any) -> Any:
    """Lines are left as they are."""
    return lambda lines, back: lines


@in_place_of(f"{LINES}:transform", given=FFT)
def not_normalised(right: Any, lines: Any, back: bool) -> Any:
    """The transform back is not divided by the number of points."""
    found = right(lines, back)
    return found * found.shape[-1] if back else found


@in_place_of(f"{LINES}:transform", given=FFT)
def divided_on_the_way(right: Any, lines: Any, back: bool) -> Any:
    """Both transforms are divided by the root of the number of points."""
    found = right(lines, back)
    root = np.sqrt(found.shape[-1])
    return found * root if back else found / root


@fault(f"{LINES}:transform", given=FFT)
def other_sign(right: Any) -> Any:
    """The sign of the exponents is the other one, forward and back."""
    return lambda lines, back: right(lines.conj(), back).conj()


@fault(f"{LINES}:transform", given=FFT)
def in_single_precision(right: Any) -> Any:
    """Lines are transformed in single precision."""
    return lambda lines, back: right(lines.astype(np.complex64), back).astype(complex)


@in_place_of(f"{LINES}:transform", given=FFT)
def by_another_library(right: Any, lines: Any, back: bool) -> Any:
    """The last bits of a line depend on how many there are."""
    found = right(lines, back)
    return found * (1 + 2e-16 * (lines.shape[0] * lines.shape[1] % 3))


@in_place_of(f"{LINES}:transform", given=FFT)
def waves_shifted(right: Any, lines: Any, back: bool) -> Any:
    """Waves are in an order with 0 in the middle, forward and back."""
    if back:
        return right(np.fft.ifftshift(lines, axes=-1), back)
    return np.fft.fftshift(right(lines, back), axes=-1)


@in_place_of(f"{PENCIL}._exchanged", given=FFT, conditional=True)
def one_part_left_out(
    right: Any, self: Any, phase: str, lines: Any, old: Any, new: Any, found: Any, put: Any
) -> Generator[Any, Any, Any]:
    """The part of lines that comes from one of the other blocks is not put in its place."""
    found[...] = 0
    lost = list(new.others.values())[:1]

    def put_most(part: Any, low: int, high: int, lines: Any, at: int) -> None:
        if lost and at == lost[0][0]:
            ACTED.now()
        else:
            put(part, low, high, lines, at)

    return (yield from right(self, phase, lines, old, new, found, put_most))


@in_place_of(f"{PENCIL}._exchanged", given=FFT, conditional=True)
def parts_of_the_same_place(
    right: Any, self: Any, phase: str, lines: Any, old: Any, new: Any, found: Any, put: Any
) -> Generator[Any, Any, Any]:
    """All parts of lines are cut at the first point."""
    shapes = {e: (*lines.shape[:2], high - low) for e, (low, high) in old.others.items()}
    messages = self.device.messages(shapes, complex)
    for edge, (low, _) in old.others.items():
        if low:
            ACTED.now()
        self.kernels.cut(lines, 0, messages[edge])
    yield Post(phase, messages)
    put(lines, *old.own, found, new.own[0])
    came = yield Collect(phase, tuple(old.others))
    for edge, part in came.items():
        put(part, 0, part.shape[2], found, new.others[edge][0])
    return found


@in_place_of(f"{PENCIL}.forward", f"{PENCIL}.backward", given=FFT, conditional=True)
def two_lines_of_waves_exchanged(
    right: Any, self: Any, phase: str, lines: Any, *sides: Any
) -> Generator[Any, Any, Any]:
    """Two lines of the spectrum are in each other's place, until the transform back."""
    if phase == "x to y":
        exchange_two(self, lines)
    found = yield from right(self, phase, lines, *sides)
    if phase == "y to x":
        exchange_two(self, found)
    return found


def exchange_two(block: Any, lines: np.ndarray) -> None:
    """Exchange the first and the last line of the first block."""
    if not any(block.index) and lines.shape[:2] != (1, 1):
        ACTED.now()
        lines[0, 0], lines[-1, -1] = lines[-1, -1].copy(), lines[0, 0].copy()


@fault("miniapps.transpose.pencils:field", given=FFT)
def field_of_another_run(right: Any) -> Any:
    """The field at step 0 is another one."""
    return lambda problem, bounds: right(problem, bounds).conj()


@fault(f"{PENCIL}.step", given=FFT)
def steps_without_transforms(right: Any) -> Any:
    """After the first step the blocks make none."""
    return skipping(right, lambda made: made > 1)


@fault(f"{PENCIL}.state", given=FFT)
def last_bit_of_a_point_off(right: Any) -> Any:
    """One point is off in its last bit at the end."""
    return off_in_its_last_bit(right)
