"""Exact sums on the GPU: the bits of the CPU, for any numbers in any order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from miniapps import kernels
from miniapps.devices import backend as device
from miniapps.devices.cuda.primitives import THREADS
from miniapps.kernels import exact_sum
from miniapps.kernels.exact_sum import gpu

# In the simulator NumPy warns of inf times 0, and of integers modulo 2^64.
pytestmark = pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
KERNELS = {name: kernels.load("exact_sum", name) for name in ("cpu", "gpu")}


def added(name: str, function: str, *arrays: np.ndarray) -> np.ndarray:
    """An accumulator of what a kernel of a device has added, in two calls."""
    on = device.get(name)
    words, half = on.to_device(exact_sum.accumulator()), len(arrays[0]) // 2
    for part in (slice(half), slice(half, None)):
        given = [on.to_device(array[part].copy()) for array in arrays]
        getattr(KERNELS[name], function)(*given, words)
    return np.array(on.to_host(words))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("function", ["add_sum", "add_dot"])
def test_exact_sums_of_hostile_numbers(function: str, dtype: Any) -> None:
    """Catches a digit in another place, a lost sign or carry, and an inf that is a number."""
    rng, count = np.random.default_rng(7), 41
    limits = np.finfo(dtype)
    low, high = int(limits.minexp - limits.nmant), int(limits.maxexp - 1)
    a = np.ldexp(rng.uniform(-1, 1, count), rng.integers(low, high, count)).astype(dtype)
    b = rng.permutation(a)
    for specials in ([], [np.inf, -np.inf, np.nan, 0.0]):
        a[: len(specials)] = specials
        arrays = (a, b) if function == "add_dot" else (a,)
        words = added("gpu", function, *arrays)
        assert np.array_equal(words, added("cpu", function, *arrays))
        order = rng.permutation(count)
        assert np.array_equal(words, added("gpu", function, *[array[order] for array in arrays]))
    assert np.array_equal(added("gpu", function, *[array[:0] for array in arrays]), words * 0)


def long_products(kind: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Factors of products, some of which do not fit the units that the first ones chose."""
    rng = np.random.default_rng(11)
    a, b = rng.standard_normal((2, count))
    if kind == "zeros":
        a[rng.random(count) < 0.3] = 0.0
    if kind == "larger later":
        a = np.ldexp(a, np.arange(count) * 300 // count)
    if kind == "tiny":  # products become zero, or their errors do
        a[::7], b[::7] = 1e-200, np.ldexp(b[::7], -450)
    if kind == "small":  # the errors of every second one are no floats
        a, b = np.ldexp(rng.uniform(1, 2, (2, count)), [[-485], [-486]])
        a[::2], b[::2] = 2.0**-464, 2.0 ** (-457 - gpu.ROOM)
    if kind == "fine":  # every second product is a multiple of the units, but not its error
        a[::2] = b[::2] = 1.0
        a[1::2] = np.ldexp(a[1::2], -49 + gpu.ROOM)
    if kind == "full":  # more than an int64 can add, and as large as the first ones allow
        a, b = np.ones(count), np.ones(count)
        a[gpu.CHUNK * THREADS :] = 2.0**gpu.ROOM - 1.0
    return a, b


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["normal", "zeros", "larger later", "tiny", "small", "fine", "full"]
)
def test_many_products_of_a_thread(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches units that do not fit and are kept, sums of other units, and an int64 that is full.

    One thread block adds all, so its threads have more products than they add at once.
    """
    monkeypatch.setattr(gpu, "MANY_BLOCKS", 1)
    a, b = long_products(kind, 9 * gpu.MOST * THREADS // 2 if kind == "full" else 5000)
    for function, arrays in (("add_dot", (a, b)), ("add_sum", (a,))):
        words = added("gpu", function, *arrays)
        assert np.array_equal(words, added("cpu", function, *arrays))


def test_arrays_that_differ_are_refused() -> None:
    """Catches a kernel that reads beyond the end of an array."""
    for a, b in ((np.ones(3), np.ones(2)), (np.ones(3), np.ones(3, np.float32))):
        for name in KERNELS:
            with pytest.raises(ValueError, match="must be alike"):
                added(name, "add_dot", a, b[: len(b)])
