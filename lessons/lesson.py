"""What a lesson is: cases to compute, and the right answer to each."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, NamedTuple
from zlib import crc32

import numpy as np

from miniapps.drivers.job import RunError
from miniapps.lessons.mistakes import Mistake

FOLDER = Path(__file__).parent
RUNTIMES = {  # what programs are written for, and the driver that starts their processes
    "mpi4py": "mpi",
    "charm4py": "charm",
    "block": "sim",  # this project's contract
    "numba": "serial",  # a kernel for a GPU, in Numba's simulator
}
PARTS = {  # by runtime: what has a part of the problem
    "mpi4py": "process",
    "charm4py": "chare",
    "block": "block",
    "numba": "process",
}
IMPORTED = {"block": "miniapps"}  # by runtime: the package that shows it, if not of that name
# A NaN that no computation makes, only passes on, also in single precision.
UNSET = float(np.array(0x7FF8_BAD0_0000_0000, np.uint64).view(np.float64))
RIGHT = "right"  # in the folder of a lesson: right programs, which students do not get
MISTAKES = "mistakes"  # there: differences from them, or for students whole wrong programs


class Case(NamedTuple):
    """One problem on a number of processes, of a size as the lesson defines, with random data.

    ``chares``: their number under Charm4Py, if they are not as many as processes.
    """

    processes: int
    size: tuple[int, ...]
    seed: int
    periodic: bool = False
    chares: int = 0

    @property
    def parts(self) -> int:
        """How many processes or chares there are, each with its own part of the problem."""
        return self.chares or self.processes

    def random(self) -> np.random.Generator:
        """The generator of the case's data, the same in all processes."""
        return np.random.default_rng([self.seed, self.processes, *self.size])


class Kernels(NamedTuple):
    """What the kernels of a program did in one case, together.

    ``loads``, ``stores``: of cells in arrays that are not shared; ``warp_loads``: the same, but
    those that the threads of a warp make at once count as one; ``lines``: of memory that each of
    these touched, their sum; ``rows``, ``columns``: threads of a block along y and x in the last
    launch; ``copied_in``, ``copied_out``: arrays that were copied to the GPU, and back.
    """

    loads: int
    stores: int
    warp_loads: int
    lines: int
    blocks: int
    rows: int
    columns: int
    copied_in: int
    copied_out: int


class Traffic(NamedTuple):
    """The messages of one process, chare or block in one case.

    ``sent``: their number by receiver, which is not known of Charm4Py; ``received``: of Charm4Py
    only, the number of calls of the chare's methods, without prepare and start; ``swept``: of
    mpi4py only, how many cells the lesson's sweep computed, and how many of them while messages
    were under way; ``handed``: of mpi4py only, the bytes that it gave to MPI for others.
    ``computed``: blocks that the lesson's own function computed: number, step and process or PE.
    ``gpu``: of numba only; ``trouble``: of numba only, what a kernel did that it must not do.
    ``open``: of mpi4py only, how many messages it began and did not wait for. ``part``: what sent
    them, as in `PARTS`. ``got``: of Charm4Py only, the bytes of the numbers that came with calls.
    """

    sent: dict[int, int] | None = None
    received: int | None = None
    swept: tuple[int, int] | None = None
    handed: int | None = None
    computed: tuple[tuple[int, int, int], ...] = ()
    gpu: Kernels | None = None
    trouble: str = ""
    open: int = 0
    part: str = PARTS["mpi4py"]
    got: int = 0


class Criterion(NamedTuple):
    """What brings points, in words, and the cases in which it must hold.

    ``messages``: not the results alone are meant, but also how many messages went where.
    """

    points: int
    words: str
    about: Callable[[Case], bool] = lambda case: True
    messages: bool = False


class Lesson:
    """A lesson. Its program defines ``function``, which all processes call in every case."""

    name: ClassVar[str]
    number: ClassVar[int]
    title: ClassVar[str]
    minutes: ClassVar[int]
    function: ClassVar[dict[str, str]]  # by runtime: what the student's program defines
    criteria: ClassVar[tuple[Criterion, ...]]  # by which programs are marked
    offers: ClassVar[frozenset[str]] = frozenset()  # what else programs may import
    most_pes: ClassVar[int] = 2  # among which chares are distributed

    def cases(self, processes: int, seed: int, more: int = 0) -> list[Case]:
        """The cases on a number of processes, each ``more`` numbers longer than the public ones."""
        raise NotImplementedError

    def cases_for(self, runtime: str, processes: int, seed: int, more: int = 0) -> list[Case]:
        """The cases for programs of a runtime, if they differ from those for others."""
        return self.cases(processes, seed, more)

    def home(self, case: Case, part: int, pes: int) -> int:
        """The PE on which a chare is at the beginning."""
        return part * pes // case.parts

    def arguments(self, case: Case, rank: int) -> tuple[Any, ...]:
        """The arguments of the student's function on one process, after the communicator."""
        raise NotImplementedError

    def expected(self, case: Case, rank: int) -> np.ndarray:
        """What the function must return on that process."""
        raise NotImplementedError

    def forbidden(self, case: Case, rank: int, traffic: Traffic) -> str:
        """Why the messages of a process are not allowed; empty if they are."""
        return ""

    def not_computed(self, case: Case, traffic: Traffic) -> str:
        """Why a right result is no answer: a process did not compute it as asked; else empty."""
        return ""

    def forbidden_together(self, case: Case, traffic: Sequence[Traffic]) -> str:
        """Why the messages of all processes together are not allowed; empty if they are."""
        return ""

    def words(self, case: Case) -> str:
        """The case in words, without the number of processes."""
        return " x ".join(map(str, case.size))

    @property
    def folder(self) -> Path:
        """The folder of all that belongs to the lesson."""
        return FOLDER / self.name

    @property
    def runtimes(self) -> list[str]:
        """The runtimes for which there is a skeleton."""
        return [name for name in RUNTIMES if (self.folder / f"for_{name}.py").exists()]

    def skeleton(self, runtime: str) -> str:
        """The program as it is handed out."""
        return (self.folder / f"for_{runtime}.py").read_text(encoding="utf-8")

    def answer(self, runtime: str) -> Path:
        """The model answer, which students do not get."""
        return self.folder / RIGHT / f"answer_{runtime}.py"

    def right(self, runtime: str) -> list[Path]:
        """The right programs, the model answer first; students get none."""
        others = sorted((self.folder / RIGHT).glob(f"{runtime}_*.py"))
        return [path for path in (self.answer(runtime), *others) if path.exists()]

    def hints(self) -> list[str]:
        """Three hints, of increasing clarity."""
        return [
            text.strip()
            for text in (self.folder / "hints.md").read_text(encoding="utf-8").split("\n---\n")
        ]

    def mistakes(self, runtime: str) -> list[Mistake]:
        """The known mistakes in programs for a runtime."""
        return [Mistake(path) for path in sorted(self.folder.glob(f"{MISTAKES}/{runtime}_*.*"))]


def fill_new_arrays() -> None:
    """Let NumPy fill new arrays with `UNSET`: what a program never sets is always the same."""

    def filled(make: Any) -> Any:
        @wraps(make)
        def made(*arguments: Any, **named: Any) -> Any:
            array = make(*arguments, **named)
            if array.dtype == np.float64:
                array.fill(UNSET)
            return array

        return made

    for name in ("empty", "empty_like"):
        setattr(np, name, filled(getattr(np, name)))


def load_program(path: Path) -> ModuleType:
    """Import a student's program under a name of its own, without running its main part.

    The name is the same in all processes, so that objects of its classes can travel between them.
    Python stores nothing in the student's folder.
    """
    name = f"student_{crc32(os.fsencode(path)):x}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    usual, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = usual
    return module


def load_function(path: Path, name: str) -> Callable[..., Any]:
    """What a student's program defines under a name. Raises RunError."""
    module = load_program(path)
    found: Any = getattr(module, name, None)
    if not callable(found):
        called = [(key, one) for key, one in vars(module).items() if callable(one)]
        own = [key for key, one in called if getattr(one, "__module__", "") == module.__name__]
        instead = f"; it defines {', '.join(own) or 'nothing'}"
        raise RunError(f"line 1: the program defines no {name}, which the check calls{instead}")
    return found
