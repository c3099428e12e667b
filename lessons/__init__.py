"""The lessons: exercises in parallel programming, whose answers are checked bit for bit.

Each package here is a lesson. It exports `LESSON`, which says what the student's program must
compute, and contains the page (``page.md``), a skeleton per runtime (``for_mpi4py.py``,
``for_charm4py.py``), three hints (``hints.md``), right programs (``right/``) and known mistakes
(``mistakes/``). docs/teaching/lessons.md describes all of it.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

from miniapps import drivers
from miniapps.drivers.descriptor import importable, pip_install
from miniapps.lessons.lesson import RUNTIMES, Lesson

NUMBA_CUDA = "numba-cuda>=0.30,<0.31"  # without a compiler: the simulator needs none
FOLDER = Path(__file__).parent


def names() -> list[str]:
    """The names of all lessons, in the order in which they build on each other."""
    found = [load(path.parent.name) for path in FOLDER.glob("*/page.md")]
    return [lesson.name for lesson in sorted(found, key=lambda lesson: lesson.number)]


def load(name: str) -> Lesson:
    """A lesson by its name."""
    lesson: Lesson = importlib.import_module(f"miniapps.lessons.{name}").LESSON
    return lesson


def unavailable(runtime: str) -> str | None:
    """Why programs for a runtime cannot run here, in one line; None if they can."""
    if runtime == "numba" and not importable("numba_cuda"):
        return f"numba-cuda is not installed: {pip_install(NUMBA_CUDA)}"
    return drivers.get(RUNTIMES[runtime]).unavailable()


def runner(runtime: str) -> ModuleType:
    """The module that runs programs for a runtime, which imports the runtime."""
    return importlib.import_module(f"miniapps.lessons.{RUNTIMES[runtime]}.programs")
