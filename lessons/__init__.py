"""The lessons: exercises in parallel programming, whose answers are checked bit for bit.

Each package here is a lesson. It exports `LESSON`, which says what the student's program must
compute, and contains the page (``page.md``), a skeleton per runtime (``for_mpi4py.py``,
``for_charm4py.py``), three hints (``hints.md``), right programs (``right/``) and known mistakes
(``mistakes/``). docs/teaching/lessons.md describes all of it.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # NumPy's library starts threads, and what is started may prepare that first
    from miniapps.lessons.lesson import Lesson

FOLDER = Path(__file__).parent


def names() -> list[str]:
    """The names of all lessons, in the order in which they build on each other."""
    found = [load(path.parent.name) for path in FOLDER.glob("*/page.md")]
    return [lesson.name for lesson in sorted(found, key=lambda lesson: lesson.number)]


def load(name: str) -> Lesson:
    """A lesson by its name."""
    lesson: Lesson = importlib.import_module(f"miniapps.lessons.{name}").LESSON
    return lesson
