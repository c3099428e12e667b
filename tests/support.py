"""What the tests share: running the program, and solving small problems in this process."""

from __future__ import annotations

import atexit
import fcntl
import io
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import (
    AbstractContextManager,
    contextmanager,
    nullcontext,
    redirect_stderr,
    redirect_stdout,
    suppress,
)
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np
import pytest

from miniapps import apps
from miniapps.audit import AuditPlan, checks_of
from miniapps.contract import Check
from miniapps.decomposition import Layout
from miniapps.devices.backend import get
from miniapps.drivers import serial
from miniapps.drivers.descriptor import Balancing
from miniapps.drivers.engine import Engine
from miniapps.drivers.job import Job
from miniapps.drivers.outcome import Outcome, hashed
from miniapps.kernels.state_hash import digest
from miniapps.workbench.cli import main, spec_of
from miniapps.workbench.run import batch, launch, scratch, warm
from miniapps.workbench.run.cases import Case
from miniapps.workbench.run.processes import SHARED
from miniapps.workbench.run.progress_file import NoProgressFile, ProgressFile
from miniapps.workbench.selftest import faults
from miniapps.workbench.selftest.faulty import FaultySpec
from miniapps.workbench.study.plan import NO_BALANCING, Study
from miniapps.workbench.study.statistics import Interval

ROOT = Path(__file__).resolve().parent.parent
# The packages, in the order in which they may import each other.
LAYERS = ("devices", "kernels", "miniapps", "drivers", "communication", "workbench", "lessons")
BIN = Path(sys.executable).parent  # not resolved: a virtual environment's python is a link
SCRIPT = BIN / "miniapps"
PROGRAM = [SCRIPT] if SCRIPT.exists() else [sys.executable, "-m", "miniapps"]  # not installed
TOY_APPS = Path(__file__).parent / "toyapps"
AT_START = dict(os.environ)
WARMED = "jacobi2d", "stencil3d", "pic", "leanmd"  # apps whose kernels a warm process has loaded
MARK = "TEST_OF_MINIAPPS"  # environment variable that marks the processes of a test
FASTEST = {
    "points": 4e9,
    "particles": 2e8,
    "atom-steps": 6e6,
    "flop": 4e10,
    "bytes": 3e10,
}  # of a fast core, per s
# What a command may take, and what is left of it when it has ended. Only a failing test takes as
# long; on a busy machine a start has taken 30 s instead of 0.7.
PATIENCE_S, ENDING_S = 200.0, 60.0
COMPILING_S = 60.0  # that no PE makes progress, while kernels are compiled
GPU_GAIN = 75  # at most, of a GPU over such a core: 3e11 points per second at 4.8 TB/s
TOOLKIT = "MINIAPPS_CUDA_TOOLKIT"  # by which a whole test run may use the stub driver
LAUNCHER_VARIABLES = ("PMI_", "OMPI_", "MV2_", "SLURM_", "PMIX_", "HYDI_", "MINIAPPS_", "NETSTART")
HOST: dict[str, Any] = {  # of records by hand
    "system": "Linux 6", "processor": "Abacus", "cores": 4, "memory_bytes": 2**33,
}  # fmt: skip

Done = subprocess.CompletedProcess[str]


def of_a_launcher(variable: str) -> bool:
    """Whether a variable of the environment is one that a launcher sets."""
    return variable.startswith(LAUNCHER_VARIABLES) and variable != TOOLKIT


def clean_environment(more: dict[str, str] | None = None) -> dict[str, str]:
    """The environment without what a launcher around the tests would have put there."""
    kept = {k: v for k, v in os.environ.items() if not of_a_launcher(k)}
    return kept | (more or {})


def execute(
    command: Iterable[object],
    timeout: float = PATIENCE_S,
    env: dict[str, str] | None = None,
    given: str = "",
    cwd: Path | None = None,
    check: bool = False,
) -> Done:
    """Run a command to its end, with no terminal and no launcher around it, and input ``given``.

    ``check``, also below: whether it must end with status 0.
    """
    done = subprocess.run(
        [str(word) for word in command],
        input=given,
        capture_output=True,
        text=True,
        timeout=timeout,
        env=clean_environment(env),
        cwd=cwd,
    )
    return checked(done, check)


def checked(done: Done, check: bool) -> Done:
    """A process that has ended; with status 0, if ``check``."""
    said = f"{done.args}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert done.returncode == 0 or not check, said
    return done


def benchmark(name: str, *arguments: object, timeout: float = PATIENCE_S, **more: Any) -> Done:
    """Run a benchmark as a developer would: from the root, as nothing of it is installed."""
    command = [sys.executable, "-m", f"benchmarks.{name}", *arguments]
    return execute(command, timeout, cwd=ROOT, **more)


def miniapps(*arguments: object, timeout: float = PATIENCE_S, **more: Any) -> Done:
    """Run the command ``miniapps`` as a user would."""
    return execute([*PROGRAM, *arguments], timeout, **more)


def in_process(*arguments: object, check: bool = False) -> Done:
    """Run the command ``miniapps`` in this process, with no launcher around it.

    A process of its own would import NumPy and Numba again, which takes longer than a small run.
    """
    out, err = io.StringIO(), io.StringIO()
    words = [str(word) for word in arguments]
    with mock.patch.dict(os.environ, clean_environment(), clear=True):
        with redirect_stdout(out), redirect_stderr(err), pes_forked(words):
            try:
                status = main(words)
            except SystemExit as ended:
                status = int(ended.code or 0)
    done = subprocess.CompletedProcess(words, status, out.getvalue(), err.getvalue())
    return checked(done, check)


def refused(words: Sequence[object]) -> str:
    """The line in which a command line is refused, with status 2."""
    done = in_process(*words)
    assert done.returncode == 2 and not done.stdout, done
    assert re.fullmatch("miniapps: .{1,700}\n", done.stderr), done.stderr
    return done.stderr


def run_record(
    *arguments: object, timeout: float = PATIENCE_S, env: dict[str, str] | None = None
) -> dict[str, Any]:
    """The record of ``miniapps run ...``, which must end with status 0.

    The command runs in this process, or in one of its own where it needs another environment.
    """
    if env is None and "--" not in arguments:
        (record,) = records_of([shlex.join(map(str, arguments))])
        assert record.get("valid"), f"{arguments}: {record}"
        return record
    arguments = ("run", *arguments)
    at = arguments.index("--") if "--" in arguments else len(arguments)
    words = (*arguments[:at], "--json", "-", *arguments[at:])
    more = {"timeout": timeout, "env": env}
    done = in_process(*words, check=True) if env is None else miniapps(*words, check=True, **more)
    return json.loads(done.stdout.splitlines()[-1])


@cache
def reference_pages() -> dict[str, Any]:
    """The functions of docs/reference_pages.py."""
    return runpy.run_path(str(ROOT / "docs/reference_pages.py"))


def unlisted(record: Any, key: str = "") -> set[str]:
    """The keys of a record that docs/record-keys.md does not list; ``key``: where this value is."""
    if key in reference_pages()["record_keys"]():
        return set()  # and so is what it contains, such as an app's parameters
    if isinstance(record, dict):
        every = (unlisted(value, f"{key}.{name}".lstrip(".")) for name, value in record.items())
    elif isinstance(record, list):
        every = (unlisted(value, f"{key}[]") for value in record)
    else:
        return {key}
    return set().union(*every)


def records_of(
    runs: Iterable[str], timeout: float = PATIENCE_S, env: dict[str, str] | None = None
) -> list[dict[str, Any]]:
    """The records of runs, given as arguments of ``miniapps run``, made by few launches.

    A run that failed has ``failed``, the reason, instead of a record. Unless they need another
    environment, runs under serial and sim are made in this process, and PEs of others are forked.
    """
    lines = [f"run {run}" for run in runs]
    if env is None:
        with mock.patch.dict(os.environ, clean_environment(), clear=True):
            specs = [spec_of(shlex.split(line)) for line in lines]
            with pes_forked(spec.driver for spec in specs):
                found = batch.solve_all(specs)
        found = [{"failed": one} if isinstance(one, str) else one for one in found]
        return json.loads(json.dumps(found))
    # Emulated kernels are compiled in the run, which may take longer than any step.
    patient = [*PROGRAM, "batch", "-", "--stall", COMPILING_S]
    done = execute(patient, timeout, env, "\n".join(lines))
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(records) == len(lines), f"{done.returncode}\n{done.stderr}"
    return records


def pes_forked(used: Iterable[str]) -> AbstractContextManager[None]:
    """A context in which PEs are forked, which costs a tenth, if launching drivers are ``used``.

    Variables that Python and Numba read when they start need PEs that start.
    """
    changed = {name for name, _ in os.environ.items() ^ AT_START.items()}
    anew = any(name.startswith(("NUMBA_", "PYTHON")) for name in changed)
    if anew or not {"mpi", "charm", "file"}.intersection(used):
        return nullcontext()
    return launch.pes_started_by(warm_program())


@cache
def warm_program() -> list[str]:
    """The program by which a launcher has its PEs forked from a warm process of this worker."""
    tiny = [f"run {app} --preset tiny --steps 8 --driver serial" for app in WARMED]
    started = warm.started([spec_of(words.split()) for words in tiny])
    atexit.register(started.__exit__, None, None, None)
    return started.__enter__()


def with_fault(app: str, key: str) -> AbstractContextManager[None]:
    """A context in which the program has a fault of the catalogue, such as "grid: other order"."""
    return faults.of(app, "miniapps.drivers.serial")[key].applied(app)


def launched_with(
    keys: Iterable[str], app: str, problem: Any, case: Case, folder: Path, **asked: Any
) -> dict[str, dict[str, Any]]:
    """The record of a run with each of some faults, by the fault's key; "" is none.

    ``folder``: where faults note that they have acted; ``asked``: further fields of the runs.
    """
    specs = [
        FaultySpec.around(case.spec(app, problem, **asked), key or None, folder / key)
        for key in keys
    ]
    with pes_forked(spec.driver for spec in specs):
        results = batch.solve_all(specs)
    assert all(isinstance(result, dict) for result in results), results
    return dict(zip(keys, results, strict=True))  # type: ignore[arg-type]


def marked(mark: object) -> list[int]:
    """The processes that were started with ``mark`` in their environment, as `MARK` says."""
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [pid for pid in pids if environment_of(pid).get(MARK) == str(mark)]


def environment_of(pid: int) -> dict[str, str]:
    """The environment of a process; empty if it has ended."""
    try:
        words = Path(f"/proc/{pid}/environ").read_text(errors="replace").split("\0")
    except OSError:
        return {}
    return dict(word.split("=", 1) for word in words if "=" in word)


def stepping(mark: object, pes: int) -> list[int]:
    """The processes of a marked run, PE by PE, once every PE has made some steps; none before."""
    for folder in {environment_of(pid).get(launch.FOLDER) for pid in marked(mark)} - {None}:
        path = Path(str(folder)) / launch.PROGRESS
        with suppress(OSError, ValueError):  # the run is starting or ending
            slots = ProgressFile(path, pes).slots() if path.exists() else []
            if slots and all(slot.step > 20 for slot in slots):
                return [slot.pid for slot in slots]
    return []


def wait_for(
    condition: Callable[[], Any], seconds: float = PATIENCE_S, shown: Callable[[], Any] = str
) -> Any:
    """Wait until a condition holds; returns what it returned. Says ``shown()`` if it never does."""
    end, pause_s = time.monotonic() + seconds, 0.01
    while not (found := condition()):
        assert time.monotonic() < end, f"waited too long: {shown()}"
        time.sleep(pause_s)
        pause_s = min(1.2 * pause_s, 0.1)  # to look for processes takes as long as to start one
    return found


START = subprocess.Popen.__init__


def refuse_process(process: Any, command: Any, *arguments: Any, **options: Any) -> None:
    """Skip the test that would start a process; it takes the place of Popen's ``__init__``.

    The shell that removes a folder if a run is killed takes a millisecond, and may start.
    """
    if scratch.REMOVE not in command:
        pytest.skip("starts a process, which --quick leaves out")
    START(process, command, *arguments, **options)


def made_once(factory: Any, name: str, make: Callable[[Path], None]) -> Path:
    """A folder that one worker of a test run fills by ``make(folder)``, and all workers use."""
    root = factory.getbasetemp()
    root = root.parent if "PYTEST_XDIST_WORKER" in os.environ else root
    folder = root / name
    with open(root / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "made").exists():
            folder.mkdir(exist_ok=True)  # where making it has failed before
            make(folder)
            (folder / "made").touch()
    return folder


def toy_environment() -> dict[str, str]:
    """An environment in which the apps of tests/toyapps are found beside the project's own."""
    return {"MINIAPPS_PATH": str(TOY_APPS / "apps")}


def in_every_process(folder: Path, program: str) -> dict[str, str]:
    """An environment in which each Python process, also one that is launched, begins with this.

    ``folder``: where the program is kept.
    """
    (folder / "sitecustomize.py").write_text(program)
    return {"PYTHONPATH": str(folder)}


@dataclass
class Solved:
    """A run under the serial engine: its outcome, hash, whole fields and checks."""

    problem: Any
    layout: Layout
    outcome: Outcome
    fields: dict[str, np.ndarray]
    state_hash: str
    checks: list[Check]

    @property
    def failed(self) -> set[str]:
        """Names of the checks that do not hold, "mode (1, 2) error" shortened to "mode"."""
        return {check.name.split(" (")[0] for check in self.checks if not check.ok}


# Words of Python's about a program, which say nothing about a file to those who have only that.
OF_PYTHON = re.compile(
    r"[A-Z]\w+Error\b|object (has no|is not|does not|cannot)|NoneType|unpack|unsupported operand"
    r"|argument (must|of type)|indices must|out of range|positional argument|unhashable"
)


class Gather:
    """A store that keeps the whole state; `drivers.job.Store`."""

    def __init__(self) -> None:
        self.fields: dict[str, np.ndarray] = {}

    snapshots = ()

    def wants(self, before: int, step: int) -> bool:
        """No state but the last."""
        return False

    def create(self, pieces: list[Any]) -> None:
        """Make room."""
        for piece in pieces:
            shape = piece.shape if piece.origin is not None else (0, *piece.values.shape[1:])
            self.fields[piece.name] = np.zeros(shape, piece.values.dtype)

    def write(self, pieces: list[Any]) -> None:
        """Put a block's part in its place; rows of particles one after another."""
        self.create([piece for piece in pieces if piece.name not in self.fields])
        for piece in pieces:
            field = self.fields[piece.name]
            if piece.origin is None:
                self.fields[piece.name] = np.concatenate([field, piece.values])
                continue
            spans = zip(piece.origin, piece.values.shape, strict=True)
            field[tuple(slice(a, a + n) for a, n in spans)] = piece.values


def layout_of(problem: Any, grid: tuple[int, ...], odf: int = 1) -> Layout:
    """A layout with the given grid of PEs."""
    pes = int(np.prod(grid))
    return problem.cut(pes, odf, grid)


def cut_of(problem: Any) -> tuple[int, ...]:
    """A grid of several blocks, into which the problem can be cut."""
    blocks = {1: 5, 2: 6, 3: 4}[len(problem.shape)]
    found: tuple[int, ...] = problem.cut(blocks, 1, None).pe_grid
    return found


def solve(
    app: str,
    problem: Any,
    grid: tuple[int, ...],
    steps: int,
    warmup: int = 0,
    validated_steps: int | None = None,
    odf: int = 1,
    device: str = "cpu",
    plan: AuditPlan | None = None,
    driver: Any = serial,
    options: Any = None,
) -> Solved:
    """Solve a problem on a grid of blocks in this process, and validate it.

    ``odf``: into how many blocks each part of the grid is cut once more; ``validated_steps``: the
    number of steps that `validate` gets, if not the one that was made; ``plan``: how the run is
    audited, if it is; ``driver``: the module that runs the job, with these ``options``.
    """
    layout = layout_of(problem, grid, odf)
    problem = problem.prepared(layout, device)
    store, outcomes = Gather(), []
    job = Job(app, problem, layout, steps, warmup, device, store, options=options, audit=plan)
    assert driver.run(job, lambda outcome: outcomes.append(outcome) or 0, NoProgressFile()) == 0
    (outcome,) = outcomes
    state_hash = digest(outcome.words)
    steps_made = outcome.steps_done if validated_steps is None else validated_steps
    module, measures = apps.load(app), outcome.measures
    checks = module.validate(problem, steps_made, measures, state_hash)
    if plan is not None:
        made = outcome.audits, warmup + steps, steps_made
        checks += checks_of(module, problem, layout, plan, *made, measures, state_hash)
    return Solved(problem, layout, outcome, store.fields, state_hash, checks)


def machine_code(kernel: Any) -> str:
    """The assembly of a kernel of the CPU, compiled anew: what comes from a cache has none."""
    fresh = type(kernel)(kernel.py_func, targetoptions=kernel.targetoptions)
    for signature in kernel.signatures:
        fresh.compile(signature)
    return "\n".join(fresh.inspect_asm().values())


def blocks_of(
    app: str,
    problem: Any,
    grid: tuple[int, ...],
    make: Any = None,
    device: str = "cpu",
    odf: int = 1,
) -> list[Any]:
    """The blocks of a problem on a grid; of another class where ``make`` is given.

    ``odf``: as of `solve`.
    """
    layout = layout_of(problem, grid, odf)
    problem = problem.prepared(layout, device)
    build: Callable[..., Any] = make or apps.load(app).Block
    return [build(problem, layout, index, get(device)) for index in layout.indices()]


def states_on(device: str, app: str, problem: Any, grid: tuple[int, ...]) -> list[bytes]:
    """The states of a problem's blocks on a device after two steps, as bytes."""
    engine = Engine(blocks_of(app, problem, grid, device=device)).setup()
    for step in range(2):
        engine.round(step, 1)
    return [piece.values.tobytes() for block in engine.blocks for piece in block.state()]


def state_hash_of(blocks: Iterable[Any]) -> str:
    """The state hash of blocks between steps."""
    return digest(sum((hashed(block.state()) for block in blocks), np.zeros(4, np.uint64)))


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays have the same shape, type and bits."""
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


def noise(shape: tuple[int, ...], seed: int = 1, dtype: str = "float64") -> np.ndarray:
    """Numbers of both signs over many magnitudes, so that every addition rounds."""
    rng = np.random.default_rng(seed)
    return (rng.normal(size=shape) * 10.0 ** rng.integers(-6, 7, shape)).astype(dtype)


def small_problem(app: ModuleType, **values: Any) -> Any:
    """An app's problem of the preset ``tiny``, with other values for some fields."""
    preset = {k: v for k, v in app.Problem.presets["tiny"].items() if k not in ("steps", "warmup")}
    return app.Problem(**(preset | values))


def whole_record(given: dict[str, Any], step_s: float, work: float = 1.0) -> dict[str, Any]:
    """A valid record without contradictions, by hand: every step takes ``step_s``, half computing.

    ``given``: the configuration, and other values of keys; ``work``: of a step. The entries of
    ``lb`` need what differs from no gain, in the order of the load-balancing steps.
    """
    steps, wall = given["steps"], given["steps"] * step_s
    first = list(range(given["warmup"], given["warmup"] + steps))
    balancing = Balancing(lb_period=given.get("lb_period", 0), lb_first=given.get("lb_first"))
    due = balancing.steps_due([(step, 1) for step in first])
    balanced = {"moved": 0, "seconds": 0.0, "paid_after": None}
    balanced |= {"imbalance_before": 1.0, "imbalance_after": 1.0}
    entries = zip_longest(due, given.get("lb", ()), fillvalue={})
    lb = [balanced | {"step": step} | entry for step, entry in entries]
    return {
        "device": "cpu",
        "pe_grid": [given["pes"]],
        "blocks": [given["pes"] * given["odf"]],
        "valid": True,
        "checks": [
            {"name": name, "value": 0.0, "limit": 0.0, "ok": True}
            for name in ("missing cells", "audit: cells that differ")
        ],
        "state_hash": "ab" * 32,
        "step_time_s": dict.fromkeys(("median", "min", "max"), step_s),
        "wall_s": wall,
        "rate": {"value": work / step_s, "unit": "points/s"},
        "compute_s": wall * given["pes"] / 2,
        "utilisation": 0.5,
        "imbalance": 1.0,
        "migrations": sum(entry["moved"] for entry in lb),
        "rounds": {"first": first, "count": [1] * steps, "wall_s": [step_s] * steps},
        "jit_s": 0.5,
        "import_s": 1.0,
        "peak_rss_bytes": 1 << 27,
        "versions": {"python": "3"},
        "host": HOST,
        "oversubscribed": given["pes"] > HOST["cores"],
        **given,
        "lb": lb,
    }


def record_of(spec: Any, step_s: float = 1e-3, work: float = 1.0, **other: Any) -> dict[str, Any]:
    """A `whole_record` of the run that a spec asks for, as the run writes it."""
    asked = {"app": spec.app, **spec.recorded(), "pes": spec.pes, "steps": spec.steps}
    asked |= {"problem": spec.prepared.parameters(), "warmup": spec.warmup}
    return dict(json.loads(json.dumps(whole_record(asked | other, step_s, work))))


def between_trials(data: Any, *_: Any) -> Interval:
    """In place of a bootstrap: a mean, or a ratio of two, from the least to the largest trial."""
    if len(data) == 1:
        return Interval(*(float(take(data[0])) for take in (np.mean, np.min, np.max)))
    over, under = data
    ends = over.min() / under.max(), over.max() / under.min()
    return Interval(float(over.mean() / under.mean()), *map(float, ends))


def small_study(**values: Any) -> Study:
    """A strong scaling study of a small Jacobi problem under all drivers, on one and two PEs."""
    usual: dict[str, Any] = {
        "kind": "strong",
        "app": "jacobi2d",
        "problem": apps.load("jacobi2d").Problem(size=(61, 43), initial="noise", time_tile=2),
        "steps": 8,
        "warmup": 2,
        "device": "cpu",
        "pes": (1, 2),
        "drivers": ("serial", "mpi", "charm"),
        "odfs": (2,),
        "balancer_settings": (NO_BALANCING, ("RefineB", 4)),
        "halvings": 0,
        "pe_grid": None,
        "shuffle_seed": 7,
    }
    return Study(**(usual | values))


def shared_memory_in_use() -> set[Path]:
    """The files and folders in /dev/shm that a living process has mapped or opened."""
    names: set[str] = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            names |= {line.split(None, 5)[-1] for line in (process / "maps").open()}
            names |= {os.readlink(file) for file in (process / "fd").iterdir()}
    inside = [Path(name.strip()).relative_to(SHARED) for name in names if f"{SHARED}/" in name]
    return {SHARED / path.parts[0] for path in inside}


@contextmanager
def no_shared_memory_left() -> Iterator[None]:
    """Assert that what runs inside leaves no file in /dev/shm.

    Other tests have files there, too, which go or are in use.
    """
    before = set(SHARED.iterdir())
    yield
    made = set(SHARED.iterdir()) - before

    def left() -> set[Path]:
        there = {file for file in made if file.exists()}
        return there - shared_memory_in_use() if there else there

    wait_for(lambda: not left(), shown=left)
