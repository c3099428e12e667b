"""Runs in poor environments: damaged caches, full disks, leftover variables, hidden packages."""

from __future__ import annotations

import errno
import importlib.util
import json
import logging
import mmap
import subprocess
import sys
import time
from pathlib import Path

import h5py
import pytest
import support

from miniapps import apps, tiling
from miniapps.devices.cpu import disk_cache, own_folder
from miniapps.devices.cpu.disk_cache import caching, checked, tell
from miniapps.workbench import cli
from miniapps.workbench.run import processes
from miniapps.workbench.run.processes import SHARED

FILES = caching.IndexDataCacheFile
KERNEL = """
from miniapps.devices.cpu.compiler import njit

@njit("int64(int64)", cache=True)
def double(n):
    return 2 * n
"""


@pytest.fixture(autouse=True)
def nothing_told() -> None:
    """Let each test be told anew what a process is told once."""
    tell.cache_clear()


DAMAGE = {  # of the bytes of a file
    "emptied": lambda b: b"",
    "cut short": lambda b: b[: len(b) // 2],
    "a changed bit": lambda b: (
        b[: len(b) // 2] + bytes([b[len(b) // 2] ^ 1]) + b[len(b) // 2 + 1 :]
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
def test_a_damaged_cache_file_is_named_and_replaced(tmp_path, caplog, damage, suffix):
    """Mistake: a traceback in every run until the user finds the file; or changed machine code."""
    files = checked(FILES)(str(tmp_path), "kernel", "stamp")
    files.save("key", b"machine code" * 100)
    (file,) = tmp_path.glob(f"*.{suffix}")
    file.write_bytes(DAMAGE[damage](file.read_bytes()))
    assert files.load("key") is None
    assert caplog.messages == [f"miniapps: {file} was damaged: its kernel is compiled again"]
    files.save("key", b"new code")
    assert files.load("key") == b"new code"


def test_code_of_other_sources_is_not_taken(tmp_path):
    """Mistake: kernels with code of a file that they import, as it was before it was changed."""
    old, new = (checked(FILES, sources)(str(tmp_path), "k", "s") for sources in ("old", "new"))
    old.save("key", b"machine code")
    assert old.load("key") == b"machine code" and new.load("key") is None


def kernel_in(folder: Path):
    """A compiled function of a new module in a folder, with its cache there too."""
    (folder / "kernel.py").write_text(KERNEL)
    spec = importlib.util.spec_from_file_location("kernel", folder / "kernel.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.double


def test_numba_uses_the_checked_files(tmp_path, caplog):
    """Mistake: checks that a new version of Numba does not call."""
    kernel_in(tmp_path)
    (index,) = (tmp_path / "__pycache__").glob("*.checked.nbi")
    assert not kernel_in(tmp_path).stats.cache_misses and not caplog.messages
    index.write_bytes(b"")
    assert kernel_in(tmp_path)(21) == 42 and len(caplog.messages) == 1
    assert index.stat().st_size


def test_a_full_disk_only_costs_the_cache(tmp_path, caplog, monkeypatch):
    """Mistake: a run that fails because its kernels cannot be stored."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(caching.IndexDataCacheFile, "save", full)
    with caplog.at_level(logging.WARNING):
        assert kernel_in(tmp_path)(21) == 42
    line = "miniapps: compiled kernels are not cached on disk: No space left on device"
    assert caplog.messages == [line]


def test_kernels_are_kept_where_neither_sources_nor_home_can_be_written(
    tmp_path, monkeypatch, caplog
):
    """Mistake: "no locator available" and no run; or code that is taken from another user."""
    last = tmp_path / "last"
    monkeypatch.setattr(own_folder, "LAST", last)
    usual = caching.CacheImpl._locator_classes
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", usual[-1:])
    assert kernel_in(tmp_path)(21) == 42 and list(last.rglob("*.nbc")) and not caplog.messages
    assert last.stat().st_mode & 0o777 == 0o700
    for spoil in (lambda: last.chmod(0o777), lambda: last.rename(tmp_path / "x")):
        spoil()
        if not last.exists():
            last.symlink_to(tmp_path / "x")
        with pytest.raises(PermissionError, match="is not this user's alone"):
            own_folder.require_own(last)
    assert kernel_in(tmp_path)(21) == 42
    assert len(caplog.messages) == 1 and "are not cached on disk" in caplog.messages[0]


def test_without_a_home_nothing_is_kept_in_the_current_folder(tmp_path, monkeypatch):
    """Mistake: code loaded from a folder "~" of the current one; no run, or no study, without."""

    def unknown(_: int) -> None:
        raise KeyError("uid not found")

    monkeypatch.setattr("pwd.getpwuid", unknown)
    for name in ("HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    last = tmp_path / "last"
    monkeypatch.setattr(own_folder, "LAST", last)
    usual = caching.CacheImpl._locator_classes
    wide = [one for one in usual if one is caching.UserWideCacheLocator]
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", wide)
    monkeypatch.setattr(caching, "IndexDataCacheFile", FILES)  # so that it is put back
    disk_cache.use_checked_files()
    assert kernel_in(tmp_path)(21) == 42 and list(last.rglob("*.nbc"))
    assert tiling.cache_folder() == last / "parallel-miniapps"
    monkeypatch.setenv("HOME", str(tmp_path / "absent"))
    assert tiling.cache_folder() == last / "parallel-miniapps"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert tiling.cache_folder() == tmp_path / ".cache" / "parallel-miniapps"
    assert not Path("~").exists()


NOTE = """
import atexit, os

def note():
    from miniapps.devices.cpu.disk_cache import tell
    tell("a note")

if "MINIAPPS_RUN_FOLDER" in os.environ:
    atexit.register(note)
"""


@pytest.mark.slow
def test_what_pes_report_reaches_the_user_once(tmp_path):
    """Mistake: a line for each rank, or none, because it is in the launcher's log."""
    run = ("run", "jacobi2d", "--preset", "tiny", "--driver", "mpi", "-n", 2)
    done = support.miniapps(*run, env=support.in_every_process(tmp_path, NOTE))
    assert done.returncode == 0 and done.stderr.count("miniapps: a note\n") == 1


HELPERS = """
import os, time

def helper(lives):
    pid = os.fork()
    if not pid:
        time.sleep(lives)
        os._exit(0)
    return pid

if "MINIAPPS_RUN_FOLDER" in os.environ:
    os.waitpid(helper(0.4), 0)
    helper(0.4)
    time.sleep(2)
"""


@pytest.mark.slow
def test_a_process_that_a_pe_starts_is_no_pe(tmp_path):
    """Mistake: a helper that libraries start while they load ends, and is taken for a lost PE.

    One of these helpers ends and is gone, one stays a zombie.
    """
    run = ("run", "jacobi2d", "--preset", "tiny", "--driver", "mpi", "-n", 2)
    done = support.miniapps(*run, env=support.in_every_process(tmp_path, HELPERS))
    assert (done.returncode, done.stderr) == (0, "")


LARGE = """
import subprocess, sys
memory = bytes([1]) * 10**9
subprocess.run(sys.argv[1:], check=True)
"""


@pytest.mark.slow
def test_the_memory_of_a_run_is_its_own(tmp_path):
    """Mistake: a maximum that includes the process that started the run, such as a notebook."""
    record = tmp_path / "record.json"
    run = support.BIN / "miniapps", "run", "jacobi2d", "--preset", "tiny", "--json", record
    support.execute([sys.executable, "-c", LARGE, *run], check=True)
    assert 10**7 < json.loads(record.read_text())["peak_rss_bytes"] < 10**9


LAUNCHER = """#!/bin/sh
: > "$LEFT" || exit 2
exit 1
"""


def test_the_memory_of_ranks_killed_at_their_start_is_removed(tmp_path):
    """Mistake: a file of shared memory of a rank that died before anybody saw that it had it."""
    left = SHARED / f"sm_segment.{tmp_path.name}.left"
    launcher = tmp_path / "launcher"
    launcher.write_text(LAUNCHER)
    launcher.chmod(0o755)
    run = ("run", "jacobi2d", "--preset", "tiny", "--driver", "mpi", "-n", 2)
    try:
        done = support.miniapps(*run, "--launcher", launcher, env={"LEFT": str(left)})
        assert done.returncode == 3, done.stderr
        assert not left.exists()
    finally:
        left.unlink(missing_ok=True)


def test_memory_of_another_run_is_left_alone(tmp_path, monkeypatch):
    """Mistake: removing memory that is in use, or that was there before the run that failed.

    In a folder of its own: runs of other tests that fail remove what nobody uses.
    """
    monkeypatch.setattr(processes, "SHARED", tmp_path)
    monkeypatch.setattr(processes, "TOPOLOGIES", tmp_path / "none")
    file = tmp_path / "mpich_shm_0"
    file.write_bytes(bytes(mmap.PAGESIZE))
    created = file.stat().st_ctime
    with file.open("r+b") as opened, mmap.mmap(opened.fileno(), mmap.PAGESIZE) as memory:
        assert processes.orphans(created) == set()
        # Mistake: a rank that is dying at the first look keeps its memory for ever.
        monkeypatch.setattr(time, "sleep", lambda _: memory.close())
        assert processes.orphans(created) == {file}
    assert processes.orphans(created + 0.001) == set()


@pytest.mark.slow
@pytest.mark.launch
@pytest.mark.parametrize("driver", ["mpi", "file", "charm"])
def test_a_folder_whose_name_is_no_utf_8(driver, tmp_path):
    """Mistake: Charm4Py's UnicodeEncodeError in place of the run."""
    file = tmp_path / "caf\udce9" / "run.h5"
    file.parent.mkdir()
    words = "--preset", "tiny", "--driver", driver, "-n", 2
    done = support.miniapps("run", "echo", *words, "--output", file)
    assert (done.returncode, done.stderr) == (0, "") and file.exists()


@pytest.mark.slow
def test_a_program_without_docstrings_runs():
    """Mistake: a traceback and status 1, a wrong result, under PYTHONOPTIMIZE=2."""
    done = support.miniapps("list", env={"PYTHONOPTIMIZE": "2"})
    assert done.returncode == 0 and not done.stderr
    assert done.stdout.split()


def test_other_packages_of_these_names_change_nothing(tmp_path):
    """Mistake: a traceback for a user's program `drivers.py`, or after `pip install kernels`."""
    for name in apps.PARTS:
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('their {name}')")
    done = support.miniapps("run", "echo", env={"PYTHONPATH": str(tmp_path)})
    assert (done.returncode, done.stderr) == (0, "")


def test_a_folder_of_results_hides_no_package(tmp_path):
    """Mistake: a folder that is called `miniapps` keeps the program from running."""
    (tmp_path / "miniapps").mkdir()
    done = support.miniapps("list", env={"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 0 and not done.stderr


@pytest.mark.parametrize("rank", ["0", "1"])
def test_leftover_variables_of_a_launcher_are_reported(rank, monkeypatch):
    """Mistake: status 2 without a word, because rank 0 is expected to speak and does not exist."""
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", rank)
    monkeypatch.setattr(support, "of_a_launcher", lambda variable: False)
    done = support.in_process("run", "echo")
    assert done.returncode == 2
    assert "cannot run on the 2 ranks of this MPI launcher" in done.stderr


def test_ctrl_c_ends_a_command_in_one_line(capsys, monkeypatch):
    """Mistake: a traceback, or silence that leaves open whether anything was kept."""

    def interrupted(words: list[str]) -> None:
        raise KeyboardInterrupt("lb-pic.jsonl has 3 finished runs")

    monkeypatch.setattr(cli, "build_parser", interrupted)
    assert cli.main(["list"]) == 130
    assert capsys.readouterr().err == "miniapps: interrupted: lb-pic.jsonl has 3 finished runs\n"


def test_an_unexpected_error_is_no_wrong_result(tmp_path):
    """Mistake: status 1, Python's own, which here means that the result is wrong."""
    program = (
        "import sys; from miniapps.workbench import cli; cli.build_parser = lambda words: 1 / 0; "
        "sys.exit(cli.main(['list']))"
    )
    done = support.execute([sys.executable, "-c", program])
    assert done.returncode == 3
    told = "ZeroDivisionError: division by zero (<string>:1; MINIAPPS_LOG=1 shows the traceback)"
    assert done.stderr == f"miniapps: {told}\n"


@pytest.mark.slow
@pytest.mark.launch
@pytest.mark.parametrize(
    ("closed", "driver"),
    [("<&-", "serial"), (">&-", "serial"), ("2>&-", "serial"), ("<&- >&- 2>&-", "mpi -n 2")],
)
def test_a_caller_that_has_closed_a_standard_file(closed, driver, tmp_path):
    """Mistake: a traceback and status 1 where there is no standard output; lines in the output."""
    words = f"run echo --preset tiny --driver {driver} --output o.h5 {closed}"
    done = subprocess.run(
        ["/bin/sh", "-c", f'"{support.BIN}/miniapps" {words}'],
        cwd=tmp_path,
        env=support.clean_environment(),
        capture_output=True,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    with h5py.File(tmp_path / "o.h5") as file:
        assert json.loads(file.attrs["record"])["valid"]
