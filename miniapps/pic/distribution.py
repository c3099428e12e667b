"""Distributions of the initial particles: the four of the Parallel Research Kernels.

Each gives the expected number of particles in a cell of every column x of L x L cells, n in all:

    geometric:rho          A rho^x, A = n (1 - rho) / (1 - rho^L) / L
    sinusoidal             2 cos^2(pi x / L) n / L^2
    linear:alpha,beta      n (beta - alpha x / L) / W / L, W = beta L - alpha (L - 1) / 2
    patch:xl,xr,yb,yt      n / cells of the patch, whose bounds are inclusive; nothing outside it
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from miniapps.parameters import integer, require

LARGEST = 1e100  # keeps all products finite
NUMBERS = {"geometric": 1, "sinusoidal": 0, "linear": 2, "patch": 4}


@dataclass(frozen=True)
class Distribution:
    """A distribution's name and numbers; ``str`` gives its form on the command line."""

    name: str
    numbers: tuple[float, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Distribution:
        """Read, for example, ``geometric:0.999``. Raises ValueError with what is allowed."""
        name, _, rest = text.lower().partition(":")
        words = rest.split(",") if rest else []
        if len(words) != NUMBERS.get(name):
            raise ValueError("geometric:RHO, sinusoidal, linear:ALPHA,BETA or patch:XL,XR,YB,YT")
        try:
            return cls(name, tuple((integer if name == "patch" else float)(word) for word in words))
        except ValueError:
            kind = "integers" if name == "patch" else "numbers"
            raise ValueError(f"{name}: with {kind}") from None

    def __str__(self) -> str:
        numbers = ",".join(map(str, self.numbers))
        return f"{self.name}:{numbers}" if numbers else self.name

    def check(self, size: int) -> None:
        """Raise InputError if the distribution is not possible on ``size`` x ``size`` cells."""
        option = "--distribution"
        if self.name == "geometric":
            (rho,) = self.numbers
            holds = rho > 0 and size * math.log(rho) <= math.log(LARGEST)  # false for NaN
            require(holds, option, self, f"RHO must be above 0, and RHO^L at most {LARGEST:g}")
        elif self.name == "linear":
            alpha, beta = self.numbers
            holds = 0 < beta <= LARGEST and -LARGEST <= alpha <= beta
            require(holds, option, self, "BETA must be above 0 and ALPHA at most BETA, finite")
        elif self.name == "patch":
            check_patch(option, self, self.numbers, size)

    def means(self, particles: int, size: int) -> np.ndarray:
        """Expected particles in a cell of each column, inside ``kept``; (size,) float64."""
        x = np.arange(size, dtype=np.float64)
        if self.name == "geometric":
            (rho,) = self.numbers
            if rho == 1:
                return np.full(size, particles / size / size)
            return particles * ((1 - rho) / (1 - rho**size)) / size * rho**x
        if self.name == "sinusoidal":
            return 2 * np.cos(x * (np.pi / size)) ** 2 * particles / (size * size)
        if self.name == "linear":
            alpha, beta = self.numbers
            weight = beta * size - 0.5 * alpha * (size - 1)
            return particles * ((beta - alpha * (x / size)) / weight) / size
        x0, x1, y0, y1 = self.kept(size)
        return np.full(size, particles / ((x1 - x0) * (y1 - y0)))

    def kept(self, size: int) -> tuple[int, int, int, int]:
        """The cells x0, x1, y0, y1 (half open) that keep the particles drawn in them."""
        if self.name != "patch":
            return 0, size, 0, size
        xl, xr, yb, yt = map(int, self.numbers)
        return xl, xr + 1, yb, yt + 1


def check_patch(option: str, shown: object, bounds: tuple[float, ...], size: int) -> None:
    """Raise InputError unless inclusive ``bounds`` xl, xr, yb, yt lie in the grid."""
    xl, xr, yb, yt = bounds
    holds = 0 <= xl <= xr < size and 0 <= yb <= yt < size
    require(holds, option, shown, f"the patch must lie within cells 0 to {size - 1}, low to high")
