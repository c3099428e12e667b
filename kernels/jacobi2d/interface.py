"""The kernels of Jacobi2D: a five-point Jacobi relaxation for the Laplace equation.

The formula is that of Fink et al. (2021), ESPM2, section III-B:

    new[i, j] = 0.2 * (u[i, j] + u[i-1, j] + u[i+1, j] + u[i, j-1] + u[i, j+1])

added from left to right. No fast-math is used and nothing is contracted into a fused multiply-add,
so a cell gets the same bits on every device and in whatever region, strip or tile it is computed.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from miniapps.devices.backend import Array


class Jacobi2dKernels(Protocol):
    """The functions that blocks call; the modules `cpu` and `gpu` implement them.

    ``old`` and ``new``: two different arrays on the device, float64 or float32, C order, of the
    same shape (rows, columns), ghost layers and any padding included. A value is a dimensionless
    temperature. Bounds x0:x1 (rows) and y0:y1 (columns) are indices into the arrays; the cells
    around the region must exist. No function checks its arguments.
    """

    def sweep(self, old: Array, new: Array, x0: int, x1: int, y0: int, y1: int) -> None:
        """Relax the cells [x0, x1) x [y0, y1) of ``old`` once, into ``new``."""

    def sweep_residual(self, old: Array, new: Array, x0: int, x1: int, y0: int, y1: int) -> float:
        """Do `sweep` and return the largest |new - old| over the region.

        Returns 0.0 for an empty region, and NaN if a cell became NaN. Waits for the device.
        """

    def sweep_tile(
        self, old: Array, new: Array, sweeps: int, x0: int, x1: int, y0: int, y1: int,
        grow: np.ndarray,
    ) -> int:  # fmt: skip
        """Relax the cells [x0, x1) x [y0, y1) ``sweeps`` >= 1 times, while they are in cache.

        Sweep s = 1..sweeps covers the cells widened on side d by grow[d] * (sweeps - s).
        ``grow`` (4,) int64 has the sides in the order low x, high x, low y, high y. grow[d] = 1:
        the cells of a neighbour, received ``sweeps`` layers deep into ``old``, are computed again
        here. grow[d] = 0: the boundary of the domain; the ghost cells next to it, along the whole
        widened region, must be the same in both arrays, and are read and never written.

        The sweeps alternate between the arrays. Returns 1 if ``new`` holds the newest values, 0 if
        ``old`` does; in the region itself the other array then holds older values. The cells of
        the widened region around it are scratch, and so are all ghosts left of y0 where
        grow[2] = 1 and right of y1 where grow[3] = 1, because whole cache lines may be swept
        there: aligned ones if y0 is a multiple of a line and at least ``sweeps`` + 7.
        """
