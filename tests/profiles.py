"""How many examples property tests make: 50, the same ones every time, where nothing else is said.

``pytest --hypothesis-profile thorough`` makes twenty times as many, others each time.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings

USUAL = 50

# No deadline: the first example of a test may compile a kernel.
settings.register_profile("usual", deadline=None, derandomize=True, max_examples=USUAL)
settings.register_profile("thorough", deadline=None, max_examples=20 * USUAL)
settings.load_profile("usual")


def examples(usual: int, **more: Any) -> settings:
    """The settings of a test that makes so many examples in the usual profile."""
    return settings(max_examples=usual * settings().max_examples // USUAL, **more)
