"""The kernels of CG: the operator A on a box of points, without a matrix, and what goes with it.

The operator is that of HPCG (Dongarra, Heroux, Luszczek 2016, IJHPCA 30), or the seven-point one:

    (A u)[c] = 26 u[c] - the sum of u at the 26 points around c,    points = 27
    (A u)[c] = 6 u[c] - the sum of u at the 6 points beside c,      points = 7

with u = 0 beyond the box. With 27 points it is computed as 27 u[c] - box, where box is a sum of 27:

    line[j] = (u[i-1, j, k] + u[i, j, k]) + u[i+1, j, k]
    column[k] = (line[j-1] + line[j]) + line[j+1]
    box = (column[k-1] + column[k]) + column[k+1]

With 7 points x-1, x+1, y-1, y+1, z-1, z+1 are added from left to right. Nothing is contracted into
a fused multiply-add, and dot products are exact, so that numbers have the same bits on every device
and in whatever region they are computed.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from miniapps.devices.backend import Array


class CgKernels(Protocol):
    """The functions that blocks call; the modules `cpu` and `gpu` implement them.

    All vectors: different arrays on the device, float64, C order, of one shape (planes, rows,
    columns), with a ghost layer or more around the region x0:x1, y0:y1, z0:z1, whose bounds are
    indices into the arrays. ``words``: an accumulator of `kernels.exact_sum` on the device, to
    which a dot product over the region is added. ``points``: 27 or 7. No function checks its
    arguments.
    """

    def apply(
        self, points: int, u: Array, v: Array,
        x0: int, x1: int, y0: int, y1: int, z0: int, z1: int, words: Array,
    ) -> None:  # fmt: skip
        """Write v = A u, and add the dot product of u and v. The ghosts of ``u`` are read."""

    def multiply(
        self, points: int, u: Array, v: Array,
        x0: int, x1: int, y0: int, y1: int, z0: int, z1: int,
    ) -> None:  # fmt: skip
        """Write v = A u, as `apply` does."""

    def clear(self, z: Array) -> None:
        """Set a vector to zero, ghosts and padding included."""

    def turn(
        self, z: Array, p: Array, beta: float,
        x0: int, x1: int, y0: int, y1: int, z0: int, z1: int,
    ) -> None:  # fmt: skip
        """Replace p by z + beta p."""

    def advance(
        self, x: Array, r: Array, p: Array, q: Array, alpha: float,
        x0: int, x1: int, y0: int, y1: int, z0: int, z1: int, words: Array,
    ) -> None:  # fmt: skip
        """Replace x by x + alpha p and r by r - alpha q, and add the dot product of r and r.

        One layer of ghosts of ``x`` is updated too: those of ``p`` are the neighbours' points.
        """

    def advance_pipelined(
        self, x: Array, r: Array, p: Array, q: Array, s: Array, w: Array, z: Array,
        alpha: float, beta: float,
        x0: int, x1: int, y0: int, y1: int, z0: int, z1: int, rr: Array, wr: Array,
    ) -> None:  # fmt: skip
        """Make the updates of a pipelined iteration, in this order, and add r r and w r.

        s = w + beta s, p = r + beta p, x + alpha p, r - alpha s; then z = q + beta z and
        w - alpha z. The first four are made in one layer of ghosts, too. ``rr``, ``wr``:
        accumulators.
        """

    def dot(
        self, a: Array, b: Array, x0: int, x1: int, y0: int, y1: int, z0: int, z1: int, words: Array
    ) -> None:
        """Add the dot product of a and b, which may be one array."""

    def relax(
        self, points: int, z: Array, r: Array, colours: np.ndarray,
        x0: int, x1: int, y0: int, y1: int, z0: int, z1: int,
    ) -> None:  # fmt: skip
        """Solve the equations A z = r of some colours' points, each for the value of its own point.

        First those of the first colour, and so on. ``colours``: (n,) int64, on the host. The points
        of a colour are x0 + a, x0 + a + 2, ... along x, and so on, where its bits 4, 2 and 1 are a,
        b and c for x, y and z: a point's value becomes (r + around) * (1 / d),
        where d is the diagonal. With 27 points ``around`` is side[k] + (column[k-1] + column[k+1]),
        where side = ((u[i-1, j] + u[i+1, j]) + (u[i, j-1] + u[i, j+1])) + ((u[i-1, j-1] +
        u[i-1, j+1]) + (u[i+1, j-1] + u[i+1, j+1])) in column k, and column = side + u[i, j].
        """
