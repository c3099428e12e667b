"""Crashes of compiled code, standard files that an app closes, and too little shared memory."""

from __future__ import annotations

import ctypes
import faulthandler
import json
import mmap
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import support
from test_failures import sabotage

from miniapps import apps, drivers, lessons
from miniapps.communication import session
from miniapps.communication.catalogue import CATALOGUE
from miniapps.communication.progress import Progress
from miniapps.communication.settings import Settings, Span
from miniapps.devices.cpu import host_memory
from miniapps.drivers import shared_memory
from miniapps.drivers.crashes import crashes_told
from miniapps.drivers.file import FileOptions, launch
from miniapps.drivers.file.driver import unusual_path
from miniapps.drivers.shared_memory import Offer, Pools
from miniapps.workbench import cli, doctor, standard_output
from miniapps.workbench.errors import explained
from miniapps.workbench.run import launch as launches
from miniapps.workbench.run.batch import solve_all


def end_of(work: Callable[[], None]) -> tuple[int, str]:
    """The exit status of a forked process that does some work, and what it prints."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.dup2(writing, 1)
            os.dup2(writing, 2)
            faulthandler.disable()  # pytest's
            work()
            os._exit(0)
        finally:
            os._exit(1)  # else it would make further tests, if the work raises
    os.close(writing)
    with open(reading) as said:
        text = said.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), text


def say(error: Exception) -> None:
    os.write(2, explained(error).encode())


def beyond_the_end() -> None:
    """Touch memory of a file that has none there, as where /dev/shm is full."""
    with tempfile.TemporaryFile() as file:
        file.truncate(mmap.PAGESIZE)
        memory = mmap.mmap(file.fileno(), mmap.PAGESIZE)
        file.truncate(0)
        memory[0] = 1


def calls_itself() -> None:
    """Fill the stack of C: what Python limits are calls of Python functions alone.

    Calls that release Python's lock would crash, now and then, while they hold its mutex.
    """
    sys.setrecursionlimit(1 << 30)
    again = ctypes.PYFUNCTYPE(None)(lambda: again())
    again()


CRASHES = {
    "SIGSEGV (Segmentation fault) at test_crashes.py": calls_itself,
    "SIGSEGV (Segmentation fault) at __init__.py": lambda: ctypes.string_at(0),
    "SIGBUS (Bus error) at test_crashes.py": beyond_the_end,
    "SIGABRT (Aborted) at test_crashes.py": lambda: ctypes.PyDLL(None).abort(),
    "SIGFPE (Floating point exception) at": lambda: os.kill(os.getpid(), signal.SIGFPE),
}


@pytest.mark.parametrize("words", CRASHES)
def test_a_crash_is_told(words: str) -> None:
    """Mistake: the process is gone, with a status of its own and without a word."""

    def crash() -> None:
        with crashes_told(say):
            CRASHES[words]()

    status, said = end_of(crash)
    assert status == 3 and said.startswith(words)
    assert ("/dev/shm has" in said) == ("SIGBUS" in words)
    full = CRASHES[words] is calls_itself
    assert said.endswith("MB (ulimit -s): a recursion is too deep") == full


def test_a_report_that_crashes_too_ends_the_process() -> None:
    """Mistake: a crash in the report of a crash, again and again."""

    def crash() -> None:
        with crashes_told(lambda error: ctypes.string_at(0)):
            ctypes.string_at(0)

    status, _ = end_of(crash)
    assert status == -signal.SIGSEGV


def test_handlers_are_restored() -> None:
    """Mistake: a notebook that dies without its own report, after a run."""

    def crash() -> None:
        with crashes_told(say):
            pass
        ctypes.string_at(0)

    assert end_of(crash) == (-signal.SIGSEGV, "")


CRASH = "import ctypes; ctypes.string_at(0)"


@pytest.mark.launch
@pytest.mark.parametrize("driver", ["sim", "charm"])
def test_a_run_says_which_block_crashed(driver: str, tmp_path: Path) -> None:
    """Mistake: no word under sim; under charm, the PE that charmrun happens to see end first."""
    run = ("run", "jacobi2d", "--size", "40x40", "--time-tile", "1", "--driver", driver)
    where = ("--pe-grid", "2x1") if driver == "sim" else ("-n", "2")
    done = support.miniapps(*run, *where, env={"PYTHONPATH": sabotage(tmp_path, CRASH)})
    pe = "" if driver == "sim" else "PE 1, "
    told = f"miniapps: run failed: {pe}block (1, 0), step 5: SIGSEGV (Segmentation fault) at "
    assert done.returncode == 3 and done.stderr.startswith(told)
    assert done.stderr.count("\n") == 1


def test_a_crash_of_one_of_many_runs_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mistake: `batch` or `verify` ends without a word, as who keeps the error ends, too."""
    echo = apps.load("echo")

    def work() -> None:
        sys.stderr = open(2, "w", closefd=False)
        monkeypatch.setattr(echo.Block, "state", lambda *_: ctypes.string_at(0))
        solve_all([cli.spec_of(["run", "echo", "--preset", "minimal"])])

    status, said = end_of(work)
    assert status == 3 and said.count("\n") == 1
    assert said.startswith("miniapps: run failed: echo under serial: SIGSEGV (Segmentation fault)")


@pytest.mark.slow
@pytest.mark.launch
def test_a_block_that_closes_standard_output_loses_no_result(tmp_path: Path) -> None:
    """Mistake: a traceback and status 1, that of a wrong result, for a right one."""
    path = sabotage(tmp_path, "import os; sys.stdout.close(); sys.stderr.close(); os.open('/', 0)")
    run = ("run", "jacobi2d", "--size", "40x40", "--time-tile", "1", "--pe-grid", "2x1")
    done = support.miniapps(*run, "--json", "-", env={"PYTHONPATH": path})
    assert (done.returncode, done.stderr) == (0, "") and json.loads(done.stdout)["valid"]


def test_standard_files_are_restored() -> None:
    """Mistake: what comes later goes to the file that has taken the number, or nowhere."""

    def work() -> None:
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)
        with standard_output.kept() as restore:
            os.close(1)
            os.open("/dev/null", os.O_WRONLY)
            sys.stderr = None
            restore()
            print("here", flush=True)
            print("there", file=sys.stderr, flush=True)

    assert end_of(work) == (0, "here\nthere\n")


PRINT = "[print('x' * 60) for _ in range(3000)]; print('y' * (1 << 20))"


@pytest.mark.launch
def test_a_block_prints_as_much_as_it_likes(tmp_path: Path) -> None:
    """Mistake: under charm a print that never returns, as its pipe is read by the same PE."""
    run = ("run", "jacobi2d", "--size", "40x40", "--time-tile", "1", "--driver", "charm", "-n", "2")
    done = support.miniapps(*run, env={"PYTHONPATH": sabotage(tmp_path, PRINT)})
    assert (done.returncode, done.stderr) == (0, "")


REMOVE = "import os, shutil; shutil.rmtree(os.environ['MINIAPPS_RUN_FOLDER'])"


@pytest.mark.slow
@pytest.mark.launch
def test_a_run_whose_temporary_folder_is_removed_is_delivered(tmp_path: Path) -> None:
    """Mistake: a right result is lost, as nobody can write it, and the line names only a file."""
    run = ("run", "jacobi2d", "--size", "40x40", "--time-tile", "1", "--driver", "mpi", "-n", "2")
    done = support.miniapps(*run, env={"PYTHONPATH": sabotage(tmp_path, REMOVE)})
    assert (done.returncode, done.stderr) == (0, "") and "  state " in done.stdout


def test_a_removed_folder_is_named(tmp_path: Path) -> None:
    """Mistake: a traceback for the log, in place of what has happened."""
    said = launches._failed(tmp_path, "PE 1 died", 1)
    assert said == f"the run's temporary folder was removed: {tmp_path}; PE 1 died"


# What a launcher says -------------------------------------------------------------------------

LOG = """[proxy:0] HYDU_create_process (launch.c:24): pipe error (Too many open files)
[proxy:0] launch_procs (pmip_cb.c:1020): create process returned error
"""


def test_the_cause_in_a_launchers_log_is_told(tmp_path: Path) -> None:
    """Mistake: the last line of a launcher, which says only that something went wrong."""
    (tmp_path / launches.RUNS).touch()
    (tmp_path / launches.LOG).write_text(LOG)
    said = launches._failed(tmp_path, None, 255)
    assert "pipe error (Too many open files)" in said
    (tmp_path / launches.LOG).write_text("sh: 0: Invalid argument\n")
    assert launches._failed(tmp_path, None, 2).endswith("status 2: sh: 0: Invalid argument")


# Too little shared memory ---------------------------------------------------------------------


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Set how much shared memory is free, in MB."""

    def set_free(free: float) -> None:
        usage = SimpleNamespace(total=64 * 10**6, free=int(free * 1e6))
        monkeypatch.setattr(host_memory.shutil, "disk_usage", lambda _: usage)

    return set_free


def test_mpi_says_what_it_needs_before(shared: Any, refused: Callable[..., str]) -> None:
    """Mistake: ranks that die by SIGBUS in MPI_Init, in a container with little /dev/shm."""
    shared(2)
    said = refused("run", "jacobi2d", "--driver", "mpi", "-n", "2")
    assert "needs 2.2 MB of shared memory: /dev/shm has 2.0 of 64.0 MB free" in said
    assert "needs 2.2 MB" in refused("comm", "latency")
    assert "MB of shared memory" in refused("verify", "echo")


def test_doctor_says_what_ranks_of_a_launcher_need(shared, monkeypatch):
    """Mistake: "PE 1 died" alone, or an MPI called broken that works with less than MPICH needs."""
    shared(1)
    ends = {"false": "PE 1 died", "true": {"versions": {}, "valid": True}}
    monkeypatch.setattr(launches, "launch_all", lambda _, words, __: [ends[Path(words[0]).name]])
    died, works = (doctor.driver_works(drivers.get("mpi"), launcher) for launcher in ends)
    assert "MB of shared memory: /dev/shm has 1.0 of 64.0 MB free" in died.found
    assert works.works and not died.works


def test_lessons_say_what_they_need_before(shared, capsys, tmp_path):
    """Mistake: a right program is told, or marked, to be wrong, as MPI could not start."""
    shared(1)
    answer = lessons.load("ring").answer("mpi4py")
    program = shutil.copy(answer, tmp_path / "ring.py")
    with pytest.raises(SystemExit, match="2"):
        cli.main(["lesson", "check", str(program)])
    told = "miniapps: lesson ring.py: needs 1.1 MB of shared memory: /dev/shm has 1.0 of"
    assert capsys.readouterr().err.startswith(told)


def test_files_say_what_they_need_before(shared, refused, tmp_path):
    """Mistake: a run, or a benchmark, by files that ends at its first message, as the disk is full.

    Also that of another folder than the one where messages are.
    """
    shared(0.01)
    run = ("run", "jacobi2d", "--driver", "file", "-n", "2")
    said = refused(*run)
    assert "needs 0.0164 MB of shared memory: /dev/shm has 0.0 of 64.0 MB free; a contain" in said
    assert said.count("--file-dir chooses another folder") == 1
    said = refused(*run, "--file-dir", tmp_path)
    assert f"{tmp_path} has 0.0 of 64.0 MB free; --file-dir chooses another folder" in said
    shared(3)
    message = ("comm", "latency", "--driver", "file", "-m")
    assert "needs 4.21 MB of shared memory: /dev/shm has 3.0 of" in refused(*message, 1 << 22)


def test_windows_of_mpi_say_what_they_need_before(shared: Any, refused: Callable[..., str]) -> None:
    """Mistake: "PE 1 died in step 0", for a window of MPI that does not fit into /dev/shm."""
    shared(64)
    said = refused("comm", "put_latency", "-m", "67108864:67108864")
    assert "needs 69.3 MB of shared memory: /dev/shm has 64.0 of 64.0 MB free" in said
    shared(3)
    assert "needs 6.39 MB" in refused("comm", "get_bw", "-m", "65536", "-i", "1")


@pytest.mark.parametrize(
    ("name", "gigabytes"), [("latency", 4), ("bcast", 2), ("gather", 4), ("alltoall", 12)]
)
def test_messages_longer_than_the_memory(name, gigabytes, refused, monkeypatch):
    """Mistake: "PE 1 died before its first step", minutes later, while the machine is stuck."""
    words = ("comm", name, "-n", "3" if name == "alltoall" else "2", "-m", "1000000000:1000000000")
    monkeypatch.setattr(host_memory, "memory_bytes", lambda: gigabytes * 10**9 - 1)
    said = f"needs {gigabytes}.0 GB of memory at least, this machine has {gigabytes}.0 GB"
    assert said in refused(*words)
    monkeypatch.setattr(host_memory, "memory_bytes", lambda: gigabytes * 10**9)
    monkeypatch.setattr(launches, "launch", lambda *_: 0)
    assert cli.main(list(words)) == 0


@pytest.mark.parametrize("name", ["put_latency", "get_bw"])
@pytest.mark.parametrize("size", [1, 1 << 20, 3 << 25])
@pytest.mark.parametrize("given", [{}, {"no_check": True}, {"touch": "sender"}, {"window": 3}])
def test_what_windows_need_is_what_is_allocated(name, size, given, monkeypatch):
    """Mistake: a need that is not that of the buffers, so that right runs are refused or die."""
    settings = Settings(span=Span(size, size), trials=1, iterations=1, **given)
    found = []

    def data(benchmark: Any, movement: Any, kind: Any, apart: bool, shared: bool):
        blocks = movement.receives or movement.sends
        at_once = 1 if shared and benchmark.windowed else len(blocks)
        found.append(at_once * blocks[0].size)
        raise LookupError

    monkeypatch.setattr(session, "Data", data)
    made = session.Session(
        SimpleNamespace(rank=1, ranks=2, local_rank=0, barrier=lambda: None),
        CATALOGUE[name],
        settings,
        Progress(lambda *_: None),
    )
    touching = settings.touch != "none"
    for work in (lambda: made._checked(size), lambda: made._once(size, touching)):
        with pytest.raises(LookupError):
            work()
    expected = found[settings.no_check :]
    assert session.most_bytes(CATALOGUE[name], settings) == max(expected)


def test_messages_that_cannot_be_shared_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mistake: datagrams in place of shared memory, without a word in the record."""
    mine = Pools(0, 1)
    mine.open([None, Offer(os.uname().nodename, os.getpid(), 0, "another file", 4096)])
    assert mine.why is not None and mine.why.startswith("shared memory of PE 1: ")

    def refuse(*_: Any) -> None:
        raise OSError("not permitted")

    with monkeypatch.context() as patch:
        patch.setattr(shared_memory, "Pool", refuse)
        assert mine.offer() is None and mine.why == "shared memory: not permitted"
    monkeypatch.setattr(shared_memory, "unusable", lambda: "no such memory")
    assert mine.offer() is None and mine.why == "no such memory"


WITHOUT = "import os; del os.memfd_create"


@pytest.mark.slow
@pytest.mark.launch
@pytest.mark.parametrize(("driver", "path"), [("charm", "datagrams"), ("mpi", "mpi")])
def test_the_record_says_that_memory_is_not_shared(driver: str, path: str, tmp_path: Path) -> None:
    """Mistake: a reason that never reaches the record, or one where nothing was asked for."""
    run = ("jacobi2d", "--preset", "tiny", "--driver", driver, "-n", "2")
    env = support.in_every_process(tmp_path, WITHOUT)
    lines = [" ".join([*run, *more]) for more in ((), ("--shared-memory", "0"))]
    fallen, asked = support.records_of(lines, env=env)
    assert fallen["transport"]["path"] == path and "memfd" in fallen["transport"]["reason"]
    assert asked["transport"] is None


def test_files_that_are_not_in_memory_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mistake: messages on a disk, or on NFS, that count as messages in memory."""
    monkeypatch.setenv(launch.FOLDER, "/tmp/messages")
    monkeypatch.setattr(launch, "in_memory", lambda: False)
    path, why = unusual_path(FileOptions()) or ("", "")
    assert path == "files on disk" and "/dev/shm" in why
    assert unusual_path(FileOptions(dir=Path("/tmp"))) is None
    monkeypatch.undo()
    assert unusual_path(FileOptions()) is None
