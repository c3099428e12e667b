"""The fused multiply-add of arrays outside of kernels, as a NumPy ufunc.

Importing this loads machine code, a tenth of the time of a run's start, so only those who call it
do.
"""

from __future__ import annotations

from miniapps.devices.cpu.compiler import vectorize
from miniapps.devices.cpu.vectors import fma


@vectorize(["float32(float32, float32, float32)", "float64(float64, float64, float64)"], cache=True)
def fused(a, b, c):  # type: ignore[no-untyped-def]
    """The product a b plus c, rounded once."""
    return fma(a, b, c)
