"""Reciprocals and roots of GPU kernels have the bits of those that their CPU counterparts use."""

from __future__ import annotations

from typing import Any

import estimates
import numpy as np
import pytest
import skips

from miniapps.devices.cpu.vectors import fma


@pytest.fixture
def unbranched() -> Any:
    """`devices.cuda.unbranched`."""
    skips.without("compile")
    from miniapps.devices.cuda import unbranched

    return unbranched


@pytest.fixture(scope="module")
def numbers() -> np.ndarray:
    """A million numbers."""
    return np.concatenate([estimates.drawn(1, 1_000_000), estimates.special()])


@pytest.mark.long
def test_bits_are_those_of_the_compiler(unbranched: Any, numbers: np.ndarray) -> None:
    """Catches operations that round otherwise for some number or estimate."""
    assert estimates.wrong_reciprocals(unbranched.refining(fma), numbers) == 0
    assert estimates.wrong_roots(unbranched.refining_root(fma), numbers) == 0
    assert estimates.wrong_in_single(unbranched.refining_in_single(fma)) == 0


@pytest.mark.slow
def test_other_operations_are_found(numbers: np.ndarray) -> None:
    """Catches a comparison that cannot fail: of a reciprocal Newton's first step is not enough."""

    def reciprocal(a, estimate):  # type: ignore[no-untyped-def]
        near = fma(fma(-a, estimate, 1.0), estimate, estimate)
        return fma(fma(-a, near, 1.0), near, near)

    def root(a, estimate):  # type: ignore[no-untyped-def]
        error = fma(-a, estimate * estimate, 1.0)
        return a * fma(estimate * error, fma(0.375, error, 0.5), estimate)

    def in_single(a, estimate):  # type: ignore[no-untyped-def]
        return estimate + estimate * (np.float32(1.0) - a * estimate)

    assert estimates.wrong_reciprocals(reciprocal, numbers) > 0
    assert estimates.wrong_roots(root, numbers) > 0
    assert estimates.wrong_in_single(in_single) > 0
