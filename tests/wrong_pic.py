"""Wrong versions of PIC for `mutation.problems`, which needs runs that enter branches of failure.

Each takes the right Block and returns a wrong one, a class that a problem can name.
"""

from __future__ import annotations

from typing import Any

import numpy as np

MISTAKE_AT = 7  # step; later than the events


def wrong_sign(right: Any) -> Any:
    """Particles of odd columns have the charge of even ones, so they move backwards."""

    class Block(right):
        def begin(self, *arguments: Any) -> None:
            """Begin, all with positive charges."""
            super().begin(*arguments)
            self.particles.charge = np.abs(self.particles.charge)

    return Block


def misrouted(right: Any) -> Any:
    """Particles that leave through one side are sent through another."""

    class Block(right):
        def pack(self, left: int) -> Any:
            """Pack what belongs to the neighbour at another edge."""
            messages = super().pack(left)
            edges = list(self.targets)
            return dict(zip(edges, (messages[edge] for edge in edges[1:] + edges[:1]), strict=True))

    return Block


def scattered(right: Any) -> Any:
    """Particles are hurled, and what comes is elsewhere: in all directions."""

    class Block(right):
        def settle(self, left: int, came: Any) -> None:
            """Take in what came, in other places; hurl all."""
            size, far = self.problem.size, np.array([(-2, 0), (3, 0), (0, -2), (0, 3)])
            elsewhere = {edge: message.copy() for edge, message in came.items()}
            for message in elsewhere.values():
                message[:, :2] += 0.5 * size * np.resize(far, (len(message), 2))
            super().settle(left, elsewhere)
            mine, count = self.particles, self.particles.count
            mine.vx[:count], mine.vy[:count] = size * np.resize(far, (count, 2)).T

    return Block


def nan_position(right: Any) -> Any:
    """One particle's position is no number."""

    class Block(right):
        def settle(self, left: int, came: Any) -> None:
            """Take in what came; spoil one."""
            super().settle(left, came)
            if self.time == MISTAKE_AT and self.particles.count:
                self.particles.y[0] = np.nan

    return Block
