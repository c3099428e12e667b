"""The kernels of Stencil3D: a seven-point average.

The formula is that of Galvez et al. (2018), CLUSTER, sections V-A and V-B:

    new[i, j, k] = (1/7) * (u[i, j, k] + u[i-1, j, k] + u[i+1, j, k]
                            + u[i, j-1, k] + u[i, j+1, k] + u[i, j, k-1] + u[i, j, k+1])

added from left to right, the constant being the double 1.0 / 7.0. No fast-math is used and nothing
is contracted into a fused multiply-add, so a cell gets the same bits on every device and in
whatever region, strip or tile it is computed.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from miniapps.devices.backend import Array


class Stencil3dKernels(Protocol):
    """The functions that blocks call; the modules `cpu` and `gpu` implement them.

    ``old`` and ``new``: two different arrays on the device, float64 or float32, C order, of the
    same shape (planes, rows, columns), ghost layers and any padding included. A value is a
    dimensionless temperature. Bounds x0:x1 (planes), y0:y1 (rows) and z0:z1 (columns) are indices
    into the arrays; the cells around the region must exist. No function checks its arguments.
    """

    def sweep(
        self, old: Array, new: Array, x0: int, x1: int, y0: int, y1: int, z0: int, z1: int
    ) -> None:
        """Relax the cells [x0, x1) x [y0, y1) x [z0, z1) of ``old`` once, into ``new``."""

    def sweep_residual(
        self, old: Array, new: Array, x0: int, x1: int, y0: int, y1: int, z0: int, z1: int
    ) -> float:
        """Do `sweep` and return the largest |new - old| over the region.

        Returns 0.0 for an empty region, and NaN if a cell became NaN. Waits for the device.
        """

    def sweep_tile(
        self, old: Array, new: Array, sweeps: int, x0: int, x1: int, y0: int, y1: int, z0: int,
        z1: int, grow: np.ndarray,
    ) -> int:  # fmt: skip
        """Relax the cells [x0, x1) x [y0, y1) x [z0, z1) ``sweeps`` >= 1 times, while in cache.

        As `Jacobi2dKernels.sweep_tile`, with three axes: ``grow`` (6,) int64 has the sides in the
        order low x, high x, low y, high y, low z, high z, and the ghosts that are scratch because
        whole cache lines may be swept are those below z0 where grow[4] = 1 and beyond z1 where
        grow[5] = 1: aligned lines if z0 is a multiple of a line and at least ``sweeps`` + 7.
        """
