"""The submissions in a folder: whose they are, and for which lesson."""

from __future__ import annotations

import ast
import stat
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from miniapps import drivers, lessons
from miniapps.drivers.descriptor import importable, pip_install
from miniapps.lessons.checking import rules
from miniapps.lessons.lesson import IMPORTED, RUNTIMES, Lesson
from miniapps.parameters import InputError, one_line, require
from miniapps.workbench.errors import explained

NUMBA_CUDA = "numba-cuda>=0.30,<0.31"  # without a compiler: the simulator needs none
LONGEST = 1 << 17  # bytes of a program
DEPTH = 3  # folders between a student's and the program


class Submission(NamedTuple):
    """A student's program for a lesson. ``trouble``: why it cannot be run; then empty paths."""

    student: str
    lesson: str
    program: Path = Path()
    runtime: str = ""
    trouble: str = ""


class Unfit(Exception):
    """A program that cannot be run; says why, in one line."""

    def __init__(self, why: str) -> None:
        super().__init__(one_line(why))


def lesson_of(program: Path) -> str:
    """The lesson that the name of a program says: ``halo.py``, or ``halo_charm4py.py``.

    The second form is that of a program for one more runtime. Raises InputError.
    """
    name, _, runtime = program.stem.partition("_")
    names = lessons.names()
    known = name in names and (program.stem == name or runtime in lessons.load(name).runtimes)
    allowed = f"its name must say the lesson: {', '.join(f'{name}.py' for name in names)}"
    require(known, "lesson check", program, allowed)
    return name


def found_in(folder: Path, lesson: str | None, runtime: str | None = None) -> list[Submission]:
    """All submissions in a folder, by student and lesson; ``lesson``, ``runtime``: only these.

    The entries of the folder are students: a folder with a file ``halo.py`` in it or below, or, if
    the lesson is given, a file ``STUDENT.py``. With a runtime, ``halo_RUNTIME.py`` goes before
    ``halo.py``. Hidden entries are left out. Raises InputError.
    """
    try:
        entries = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise InputError("lesson mark", folder, error.strerror or "cannot be read") from None
    names = [lesson] if lesson else lessons.names()
    if runtime:
        taught = {name: lessons.load(name).runtimes for name in names}
        allowed = f"the lesson {lesson} is for {' and '.join(taught[names[0]])}"
        names = [name for name in names if runtime in taught[name]]
        require(bool(names), "--for", runtime, allowed)
    found = [one for entry in entries for one in _of_entry(entry, names, bool(lesson), runtime)]
    what = f"STUDENT/{names[0]}.py" if lesson else "STUDENT/LESSON.py, or --lesson and STUDENT.py"
    require(bool(found), "lesson mark", folder, f"holds no submissions ({what})")
    for one, other in pairwise(sorted((one.student, one.lesson) for one in found)):
        require(one != other, "lesson mark", folder, f"holds {one[0]} and {one[0]}.py")
    return found


def _of_entry(
    entry: Path, names: Sequence[str], one_lesson: bool, runtime: str | None
) -> Iterator[Submission]:
    """The submissions of one student."""
    if not entry.is_dir() or entry.is_symlink():
        if one_lesson and entry.suffix == ".py":
            yield submission(entry.stem, names[0], [entry], runtime)
        return
    files = [path for depth in range(DEPTH) for path in entry.glob("*/" * depth + "*.py")]
    for name in names:
        mine, more = (
            sorted(path for path in files if path.name == wanted)
            for wanted in (f"{name}.py", f"{name}_{runtime}.py")
        )
        if mine or more or one_lesson:
            yield submission(entry.name, name, more or mine, runtime)


def submission(
    student: str, lesson: str, files: Sequence[Path], only: str | None = None
) -> Submission:
    """A student's submission, from the files with the lesson's name; ``only``: for this runtime."""
    if len(files) != 1:
        many = f"{len(files)} files {lesson}.py" if files else f"no file {lesson}.py"
        return Submission(student, lesson, trouble=many)
    try:
        runtime = runtime_of(files[0], lessons.load(lesson))
    except Unfit as error:
        return Submission(student, lesson, trouble=str(error))
    except Exception as error:  # so that one strange file is no loss for all others
        return Submission(student, lesson, trouble=f"cannot be read: {explained(error)}")
    if only not in (None, runtime):
        return Submission(student, lesson, trouble=f"is for {runtime}, not for {only}")
    return Submission(student, lesson, files[0], runtime)


def runtime_of(program: Path, lesson: Lesson) -> str:
    """The runtime that a program imports. Raises Unfit if it cannot or must not be run."""
    tree = parsed(program)
    modules = {
        name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names
    }
    modules |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    tops = {module.split(".")[0] for module in modules}
    packages = {name: IMPORTED.get(name, name) for name in RUNTIMES}
    runtime = next((name for name, package in packages.items() if package in tops), None)
    if runtime is None:
        raise Unfit(f"imports none of {', '.join(packages.values())}, so it is for no runtime")
    if runtime not in lesson.runtimes:
        raise Unfit(f"imports {runtime}; the lesson is for {' and '.join(lesson.runtimes)}")
    breach = rules.breach(tree, lesson)
    if breach:
        raise Unfit(breach)
    return runtime


def require_runtime(runtime: str, command: str, value: object) -> None:
    """Raise InputError if programs for a runtime cannot run here."""
    missing = drivers.get(RUNTIMES[runtime]).unavailable()
    if runtime == "numba" and not importable("numba_cuda"):
        missing = f"numba-cuda is not installed: {pip_install(NUMBA_CUDA)}"
    require(missing is None, command, value, str(missing))


def parsed(program: Path) -> ast.Module:
    """A program's syntax tree. Raises Unfit."""
    try:
        about = program.lstat()
        if not stat.S_ISREG(about.st_mode):
            raise Unfit("is no ordinary file")
        if about.st_size > LONGEST:
            raise Unfit(f"is longer than {LONGEST} bytes")
        return ast.parse(program.read_bytes())
    except OSError as error:
        raise Unfit(error.strerror or "cannot be read") from None
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        if isinstance(error, SyntaxError):
            line = f"line {error.lineno}: " if error.lineno else ""
            raise Unfit(f"{line}this is no Python: {error.msg}") from None
        raise Unfit(f"this is no Python: {str(error) or 'nested too deeply'}") from None
