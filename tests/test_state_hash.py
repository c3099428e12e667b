"""The state hash: blind to the decomposition, and to nothing else."""

from __future__ import annotations

import math
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from miniapps.kernels.state_hash import digest, hash_cells, hash_rows

MASK = (1 << 64) - 1
PINNED = "42f78d76d688e5fd7f481bd68003f0e7f0fe6b235c774b12abb8b765e176210e"


def mixed(z: int) -> int:
    """SplitMix64's finalizer, in integers of any size."""
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
    return z ^ (z >> 31)


def by_hand(name: str, elements: list[tuple[int, int]]) -> str:
    """The digest of (global index, 64 bits) pairs, written out without numpy or numba."""
    words = [0, 0, 0, 0]
    seed = zlib.crc32(name.encode())
    for index, bits in elements:
        place = mixed((index * 0x9E3779B97F4A7C15 + seed) & MASK)
        element = bits ^ place
        for n, value in enumerate(
            (
                element,
                element + place * 0xD1342543DE82EF95,
                element * 0x2545F4914F6CDD1D + place,
                (~element & MASK) + (place << 1),
            )
        ):
            words[n] = (words[n] + mixed(value & MASK)) & MASK
    return "".join(f"{word:016x}" for word in words)


def field(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Random numbers of both signs."""
    return np.random.default_rng(seed).normal(size=shape)


def whole(values: np.ndarray, name: str = "u") -> str:
    """The digest of a global array."""
    return digest(hash_cells(name, values, (0,) * values.ndim, values.shape))


def test_pinned_value() -> None:
    """Catches any change of the hash: records of different versions could not be compared."""
    values = np.array([[0.0, -0.0, 1.0], [-2.5, np.inf, 1e-310]])
    bits = [0, 1 << 63, 0x3FF0000000000000, 0xC004000000000000, 0x7FF0000000000000, 0x12688B70E62B]
    assert whole(values, "u") == PINNED
    assert by_hand("u", list(enumerate(bits))) == PINNED


@given(st.integers(0, 1000))
def test_against_integers_of_any_size(seed: int) -> None:
    """Catches an overflow that numba treats otherwise than modulo 2^64."""
    values = field((3, 2, 4), seed)
    elements = [(n, int(x.view(np.uint64))) for n, x in enumerate(values.reshape(-1))]
    assert whole(values, "name") == by_hand("name", elements)


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8, np.int64, np.uint64])
def test_other_types_against_integers(dtype: type) -> None:
    """Catches elements of less than 64 bits that are read two at a time or sign-extended."""
    values = np.array([[0, 1, 3], [100, 127, 7]]).astype(dtype)
    values[0, 0] = -1.5 if dtype is np.float32 else np.iinfo(dtype).min or np.iinfo(dtype).max
    elements = [
        (n, int.from_bytes(x.tobytes(), "little")) for n, x in enumerate(values.reshape(-1))
    ]
    assert whole(values) == by_hand("u", elements)


@st.composite
def splits(draw: st.DrawFn) -> tuple[tuple[int, ...], list[list[int]], int]:
    """A shape of 1 to 3 axes, cuts along each, and a seed for the order of blocks."""
    shape = tuple(draw(st.integers(1, 9)) for _ in range(draw(st.integers(1, 3))))
    cuts = [sorted({0, n, *draw(st.lists(st.integers(0, n), max_size=3))}) for n in shape]
    return shape, cuts, draw(st.integers(0, 99))


@given(splits())
def test_blind_to_split_and_order(case: tuple[tuple[int, ...], list[list[int]], int]) -> None:
    """Catches a hash that follows the decomposition: equal runs would look different."""
    shape, cuts, seed = case
    values = field(shape, seed)
    boxes = [()]
    for axis in cuts:
        boxes = [(*box, span) for box in boxes for span in zip(axis, axis[1:], strict=False)]
    np.random.default_rng(seed).shuffle(boxes)
    total = np.zeros(4, np.uint64)
    for box in boxes:
        part = values[tuple(slice(int(a), int(b)) for a, b in box)]
        total += hash_cells("u", part, tuple(int(a) for a, _ in box), shape)
    assert digest(total) == whole(values)


def test_blind_to_memory_layout() -> None:
    """Catches a block's view, with ghosts around it, that is hashed as if it were contiguous."""
    values = field((7, 5))
    padded = np.full((9, 16), np.nan)
    padded[1:8, 8:13] = values
    assert whole(padded[1:8, 8:13]) == whole(values) == whole(np.asfortranarray(values))


@given(st.integers(0, 34), st.integers(0, 34))
def test_sees_swapped_cells(a: int, b: int) -> None:
    """Catches a plain sum over elements, which two swapped cells leave as it is."""
    values = field((7, 5))
    swapped = values.copy()
    swapped.reshape(-1)[[a, b]] = values.reshape(-1)[[b, a]]
    assert (whole(swapped) == whole(values)) == (a == b)


@given(st.integers(0, 34), st.integers(0, 63))
def test_sees_every_bit(cell: int, bit: int) -> None:
    """Catches a hash of rounded values: each of the 64 bits must change each of the 4 words."""
    values = field((7, 5))
    changed = values.copy()
    changed.reshape(-1).view(np.uint64)[cell] ^= np.uint64(1 << bit)
    before, after = whole(values), whole(changed)
    assert all(before[n : n + 16] != after[n : n + 16] for n in range(0, 64, 16))


def test_sees_the_sign_of_zero() -> None:
    """Catches a hash of values rather than bits: -0.0 == 0.0."""
    zeros = np.zeros((7, 5))
    negative = zeros.copy()
    negative[6, 4] = -0.0
    assert whole(zeros) != whole(negative)


def test_sees_the_name() -> None:
    """Catches two fields that were exchanged."""
    values = field((7, 5))
    assert whole(values, "u") != whole(values, "v")
    a, b = field((7, 5), 1), field((7, 5), 2)
    right = hash_cells("u", a, (0, 0), (7, 5)) + hash_cells("v", b, (0, 0), (7, 5))
    wrong = hash_cells("v", a, (0, 0), (7, 5)) + hash_cells("u", b, (0, 0), (7, 5))
    assert digest(right) != digest(wrong)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("by", [1, -1])
def test_sees_a_shift(axis: int, by: int) -> None:
    """Catches a hash that is relative to the block: all cells one further along an axis."""
    values = field((5, 4, 3))
    assert whole(np.roll(values, by, axis)) != whole(values)


def test_sees_a_block_in_the_wrong_place() -> None:
    """Catches an origin that is not used, or used in the wrong order."""
    block, shape = field((2, 2)), (7, 5)
    found = {
        digest(hash_cells("u", block, origin, shape)) for origin in np.ndindex(shape[0] - 1, 4)
    }
    assert len(found) == 6 * 4


def test_sees_a_missing_and_a_repeated_block() -> None:
    """Catches a hash that combines by xor, where a block counted twice would vanish."""
    values = field((7, 5))
    words = hash_cells("u", values, (0, 0), (7, 5))
    once_more = hash_cells("u", values[:2], (0, 0), (7, 5))
    assert len({digest(words), digest(words + once_more), digest(words - once_more)}) == 3


@given(st.integers(0, 20), st.integers(1, 3), st.integers(0, 50))
def test_particles_in_any_order(count: int, width: int, seed: int) -> None:
    """Catches a hash of particles that depends on where they are kept."""
    rng = np.random.default_rng(seed)
    ids, values = rng.permutation(100)[:count].astype(np.int64), rng.normal(size=(count, width))
    order = rng.permutation(count)
    split = count // 3
    parts = order[:split], order[split:]
    total = sum((hash_rows("x", values[p], ids[p]) for p in parts), np.zeros(4, np.uint64))
    elements = [
        (int(ids[row]) * width + column, int(values[row, column].view(np.uint64)))
        for row in range(count)
        for column in range(width)
    ]
    assert digest(total) == digest(hash_rows("x", values, ids)) == by_hand("x", elements)


def test_particles_belong_to_their_ids() -> None:
    """Catches rows that keep their values but lose their identity, and components swapped."""
    values, ids = field((4, 2)), np.array([3, 9, 1, 40])
    right = digest(hash_rows("x", values, ids))
    assert right != digest(hash_rows("x", values, ids[::-1]))
    assert right != digest(hash_rows("x", values[:, ::-1], ids))
    assert right != digest(hash_rows("x", values[:3], ids[:3]))
    assert digest(hash_rows("m", values[:, 0], ids)) == digest(hash_rows("m", values[:, :1], ids))


def test_empty_blocks_add_nothing() -> None:
    """Catches a block without particles, or an empty array, that raises or counts."""
    assert not hash_rows("x", np.zeros((0, 2)), np.zeros(0, np.int64)).any()
    assert not hash_cells("u", np.zeros((0, 5)), (3, 0), (7, 5)).any()
    assert not hash_cells("u", np.zeros((3, 0)), (3, 0), (7, 5)).any()


def test_digest_is_64_hex_digits() -> None:
    """Catches a word with leading zeros that is printed shorter."""
    for words in (np.zeros(4, np.uint64), np.array([1, 2, MASK, 0], np.uint64)):
        text = digest(words)
        assert len(text) == 64 and set(text) <= set("0123456789abcdef")
    assert digest(np.array([1, 2, MASK, 0], np.uint64)) == (
        f"{1:016x}" + f"{2:016x}" + "f" * 16 + "0" * 16
    )


def test_no_collisions_among_near_fields() -> None:
    """Catches weak mixing: constant fields, small counters and single cells must all differ."""
    shape = (13, 11)
    fields = [np.full(shape, float(n)) for n in range(20)]
    for cell in range(math.prod(shape)):
        one = np.zeros(shape)
        one.reshape(-1)[cell] = 1.0
        fields.append(one)
    fields += [np.arange(math.prod(shape)).reshape(shape) * (n + 1.0) for n in range(20)]
    hashes = [whole(values) for values in fields]
    for start in range(0, 64, 16):
        assert len({text[start : start + 16] for text in hashes}) == len(fields)
