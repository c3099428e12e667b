"""Exact sums on the GPU: the bits of the CPU, for any numbers in any order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from miniapps import kernels
from miniapps.devices import backend as device
from miniapps.kernels import exact_sum

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


def test_arrays_that_differ_are_refused() -> None:
    """Catches a kernel that reads beyond the end of an array."""
    for a, b in ((np.ones(3), np.ones(2)), (np.ones(3), np.ones(3, np.float32))):
        for name in KERNELS:
            with pytest.raises(ValueError, match="must be alike"):
                added(name, "add_dot", a, b[: len(b)])
