"""The kernels of AMR: a sweep of a grid by a star stencil, and the first values of a refinement.

The stencil is that of the Parallel Research Kernels (Van der Wijngaart and others, ISC 2017): the
sum of the two first derivatives, on a grid whose spacing is 1 / scale:

    S[i, j] = scale/4 ((u[i+1, j] - u[i-1, j]) + (u[i, j+1] - u[i, j-1]))
            + scale/8 ((u[i+2, j] - u[i-2, j]) + (u[i, j+2] - u[i, j-2]))

A sweep makes sums += S and then u += 1, in this order of additions, without fast-math or
contraction. All weights are powers of two, so if ``u`` has few bits, as in this app, all results
are exact, and numbers may be added up in any order.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from miniapps.devices.backend import Array
from miniapps.kernels.halo.interface import Region


class AmrKernels(Protocol):
    """The functions that blocks call; the modules `cpu` and `gpu` implement them.

    ``u``, ``new``, ``sums``: arrays on the device, float64 or float32, C order, of the same shape
    (rows, columns), ghost layers and any padding included; all dimensionless. A region has the
    indices (x0, x1, y0, y1) of the points [x0, x1) x [y0, y1). No function checks its arguments.
    """

    IN_PLACE: bool  # whether `sweep` writes into ``u``; else ``new`` must be another array

    def sweep(
        self, u: Array, new: Array, sums: Array, scale: int, active: Region, own: Region
    ) -> None:
        """Add S of ``u`` to the points ``active`` of ``sums``, and set new = u + 1 at ``own``.

        ``active``: a region in ``own``, or an empty one. ``scale``: a power of two. The points of
        all arrays up to `REACH` beside ``own`` must exist. Points beside it are not written.
        """

    def interpolate(
        self, coarse: Array, u: Array, level: int, first: tuple[int, int], own: Region
    ) -> None:
        """Set the points ``own`` of ``u`` to values between those of ``coarse``: first along x.

        ``coarse``: (rows, columns) on the device, of the type of ``u``. There are 2^level points of
        ``u`` for one of it along an axis. ``first``: the number of the first own point in the
        refinement; ``coarse`` begins at the last of its points that is not behind this. Beyond its
        end it goes on as it ends.
        """

    def check(
        self, u: Array, sums: Array, first: tuple[float, float], spacing: float, due: float,
        active: Region, own: Region,
    ) -> Any:  # fmt: skip
        """Return the sum of the absolute ``sums`` at ``active``, and how many numbers are wrong.

        For a grid whose values were x + y. At ``own`` right values are x + y where x and y are
        ``first`` at its first point and grow by ``spacing``; right sums are ``due`` at ``active``,
        a region in ``own`` or an empty one, and 0 beside it. A point may have two wrong numbers.
        Computed in float64, where all these numbers are exact, and so is their sum as long as
        none is wrong. Of both numbers a GPU returns a `HostCopy`.
        """

    def report(self, row: np.ndarray, message: Any) -> None:
        """Copy some int64 of the host into a message of this size on the device."""

    def reported(self, message: Any) -> Any:
        """Return the numbers of a message that came, on the host; a GPU returns a `HostCopy`."""
