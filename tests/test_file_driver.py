"""The file driver: its messages, reductions, launcher and folder. Others test whole runs, too."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import support
from test_inherited import in_a_step

from miniapps import drivers
from miniapps.contract import MessageError, Peer
from miniapps.devices.messages import HEADER_BYTES, packed
from miniapps.drivers.file import launch
from miniapps.drivers.file.group import Group
from miniapps.drivers.file.links import Folder, Link
from miniapps.drivers.headers import phase_code
from miniapps.drivers.job import RunError
from miniapps.workbench.run.processes import process_state

LOW, HIGH = (-1,), (1,)
A, B = phase_code("a", False), phase_code("b", False)
RUN = ("run", "echo", "--preset", "tiny", "--driver", "file", "--json", "-")


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """A folder of messages whose owner lives."""
    (tmp_path / launch.LOCK).touch()
    return Folder(tmp_path)


@pytest.fixture
def links(folder: Folder) -> tuple[Link, Link]:
    """The two ends of an edge from a rank to itself: what the first sends, the second receives."""
    low, high = (Link(folder, 0, 0, a, Peer("block", (0,), b), 0) for a, b in EDGES)
    return low, high


EDGES = ((LOW, HIGH), (HIGH, LOW))


# Messages ----------------------------------------------------------------------------------------


def test_messages_may_be_collected_in_another_order(links: Any, folder: Folder) -> None:
    """Catches an early message that the next one overwrites, and files that are left."""
    low, high = links
    for code, size, value in ((A, 3, 1.0), (B, 4, 2.0), (A + 1, 700, 3.0)):
        low.send(5, code, packed(np.full(size, value)))
    assert high.receive(5, A + 1).tolist() == [3.0] * 700
    assert high.receive(5, B).tolist() == [2.0] * 4
    assert high.receive(5, A).tolist() == [1.0] * 3
    assert os.listdir(folder.fd) == [launch.LOCK]


def test_a_message_of_another_step_is_named(links: Any, folder: Folder) -> None:
    """Catches an old file that is taken for the message of this step."""
    low, high = links
    low.send(6, A, np.ones(3))
    with pytest.raises(MessageError, match=rf"{folder.path}/0-0-\d+-0: .*a message of step 6"):
        high.receive(5, A)


def test_a_message_that_nobody_collects_is_an_error(links: Any) -> None:
    """Catches a message that is lost without a word at the end of a run."""
    low, high = links
    low.send(5, A, np.ones(3))
    with pytest.raises(MessageError, match="never collected"):
        high.close()


@pytest.mark.parametrize("contents", [b"", b"x", b"x" * HEADER_BYTES, b"\0" * 200])
def test_a_file_that_is_no_message_is_named(links: Any, folder: Folder, contents: bytes) -> None:
    """Catches a file of another program, or one cut short, whose bytes are taken for numbers."""
    _, high = links
    name = f"{high.mine}-0"
    (folder.path / name).write_bytes(contents)
    with pytest.raises(MessageError, match=f"{name}: is no message: {len(contents)} bytes"):
        high.receive(5, A)


def test_a_message_cut_short_is_named(links: Any, folder: Folder) -> None:
    """Catches a check that looks at the header only."""
    low, high = links
    low.send(5, A, np.ones(3))
    (name,) = (path for path in folder.path.iterdir() if path.name != launch.LOCK)
    name.write_bytes(name.read_bytes()[:-1])
    with pytest.raises(MessageError, match="is no message: 87 bytes"):
        high.receive(5, A)


def test_a_full_disk_is_named(links: Any, monkeypatch: pytest.MonkeyPatch, folder: Folder) -> None:
    """Catches a traceback, or an error that does not say which disk is full and what to do."""

    def full(file: int, data: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left.*--file-dir") as caught:
        links[0].send(5, A, np.ones(3))
    assert str(folder.path) in str(caught.value)


def test_a_rank_that_waits_ends_when_the_run_has_been_ended(links: Any, folder: Folder) -> None:
    """Catches ranks that wait for ever for one that has failed on another host."""
    folder.end()
    with pytest.raises(RunError, match="another rank has ended"):
        links[0].receive(5, A)


# Reductions --------------------------------------------------------------------------------------


def on_ranks(folder: Path, size: int, work: Callable[[Group], Any]) -> list[Any]:
    """What ``work`` returns, or the error that it raises, on each of some ranks, in threads."""
    (folder / launch.LOCK).touch()
    found: list[Any] = [None] * size

    def one(rank: int) -> None:
        try:
            found[rank] = work(Group(rank, size, Folder(folder)))
        except RunError as error:
            found[rank] = error

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    return found


@pytest.mark.parametrize("size", [1, 2, 3, 5, 6, 8])
def test_reductions(tmp_path: Path, size: int) -> None:
    """Catches a rank that is left out or counted twice, and ranks that get other bits."""

    def work(group: Group) -> list[Any]:
        value = 0.1 * 3.0**group.rank
        ints = np.array([group.rank, 1 << group.rank])
        found = [group.all_reduce(value, op) for op in ("sum", "min", "max")]
        group.Barrier()
        return [*found, *group.all_reduce(ints, "sum"), group.allgather(value), group.bcast(value)]

    found = on_ranks(tmp_path, size, work)
    values = [0.1 * 3.0**rank for rank in range(size)]
    total, least, most, ranks, bits, gathered, first = found[0]
    assert total == pytest.approx(sum(values), rel=1e-15) and (least, most) == (0.1, max(values))
    assert ranks == size * (size - 1) // 2 and bits == (1 << size) - 1
    assert gathered == values and first == 0.1
    assert all(repr(other) == repr(found[0]) for other in found)
    assert [path.name for path in tmp_path.iterdir()] == [launch.LOCK]


@pytest.mark.parametrize(
    ("value", "op"), [(1.0, "max"), (np.ones(2), "sum"), (np.float32(1), "sum")]
)
def test_reductions_that_differ_are_an_error(tmp_path: Path, value: Any, op: str) -> None:
    """Catches ranks that all get a wrong number, as one of them reduces something else."""
    found = on_ranks(
        tmp_path, 2, lambda group: group.all_reduce(*((value, op) if group.rank else (1.0, "sum")))
    )
    assert all(isinstance(one, RunError) for one in found), found


# Folders -----------------------------------------------------------------------------------------


def left_by_the_dead(within: Path) -> Path:
    """A folder of messages whose owner and guard were killed."""
    dead = within / f"{launch.PREFIX}dead"
    dead.mkdir()
    (dead / launch.LOCK).write_text(launch.mark(dead))
    return dead


def test_only_folders_of_dead_runs_are_removed(tmp_path: Path) -> None:
    """Catches a start that removes the messages of another run, or leaves those of a dead one."""
    dead = left_by_the_dead(tmp_path)
    (dead / "0-1-16-0").write_bytes(b"old")
    with launch.owned(tmp_path) as living:
        assert launch.remove_stale(tmp_path) == [dead]
        assert [*tmp_path.iterdir()] == [living] and (living / launch.LOCK).exists()
    assert not [*tmp_path.iterdir()]


@pytest.mark.slow
@pytest.mark.launch
def test_a_run_says_what_it_finds_and_does_not_read_it(tmp_path: Path) -> None:
    """Catches a run that reads old messages, or removes them without a word, or leaves any."""
    dead = left_by_the_dead(tmp_path)
    done = support.miniapps(*RUN, "-n", 2, "--file-dir", tmp_path, check=True)
    line = f"miniapps: removed {dead}, the messages of a run that was killed\n"
    assert done.stderr == line and not [*tmp_path.iterdir()]


@pytest.mark.slow
@pytest.mark.launch
def test_a_benchmark_has_its_messages_in_the_folder(tmp_path: Path) -> None:
    """Catches a folder that only the launcher of files knows, and not the ranks of a Slurm step."""
    words = ("comm", "latency", "--driver", "file", "-m", "8:8", "-i", 5, "--trials", 1)
    asked, current = tmp_path / "asked", tmp_path / "current"
    for folder in (asked, current):
        folder.mkdir()
    dead = left_by_the_dead(asked)
    done = support.miniapps(*words, "--file-dir", asked, "--json", "-")
    assert done.returncode == 0 and f"removed {dead}, the messages" in done.stderr, done.stderr
    assert json.loads(done.stdout)["versions"]["file"] == f"files in {asked}"
    ranks = step_of(current, 2, *words, "--file-dir", asked, "--json", "-")
    (out, errors), _ = (rank.communicate(timeout=support.PATIENCE_S) for rank in ranks)
    assert [rank.returncode for rank in ranks] == [0, 0], errors
    assert json.loads(out)["versions"]["file"] == f"files in {asked}"
    assert not [*asked.iterdir(), *current.iterdir()]


# The launcher ------------------------------------------------------------------------------------


def launched(folder: Path, ranks: int, program: str, *options: str) -> Any:
    """Start a Python program on some ranks by the launcher."""
    start = [sys.executable, "-I", "-S", launch.__file__, "-n", ranks, "--dir", folder, *options]
    return support.execute([*start, "--", sys.executable, "-I", "-S", "-c", program])


ENDS = """
import os, signal, time
rank = int(os.environ["MINIAPPS_FILE_RANK"])
assert os.path.isdir(os.environ["MINIAPPS_FILE_FOLDER"])
{end} if rank == 1 else time.sleep(1000)
"""


@pytest.mark.launch
@pytest.mark.parametrize(
    ("end", "status", "how"),
    [("os._exit(5)", 5, "status 5"), ("os.kill(os.getpid(), 9)", 128 + 9, "signal 9")],
)
def test_a_rank_that_fails_ends_the_others(tmp_path: Path, end: str, status: int, how: str) -> None:
    """Catches ranks that go on for a minute, a status of 0, and a folder that is left."""
    done = launched(tmp_path, 3, ENDS.format(end=end))
    assert done.returncode == status and "rank 1, PID" in done.stderr and how in done.stderr
    assert not [*tmp_path.iterdir()]


# Rank 0 writes every 10 ms whether the folder of messages is there.
LOOKS = """
import os, time
rank, folder = int(os.environ["MINIAPPS_FILE_RANK"]), os.environ["MINIAPPS_FILE_FOLDER"]
with open("{seen}", "a", buffering=1) as seen:
    while rank == 0:
        seen.write(f"{{os.path.isdir(folder)}}\\n")
        time.sleep(0.01)
while not os.path.getsize("{seen}"):
    time.sleep(0.01)
os._exit(5)
"""


@pytest.mark.launch
def test_the_folder_outlives_ranks_on_all_hosts(tmp_path: Path) -> None:
    """Catches ranks elsewhere that live on, or report a lost folder in place of what happened."""
    shell, seen, folder = tmp_path / "shell", tmp_path / "seen", tmp_path / "folder"
    shell.write_text('#!/bin/sh\nshift\nexec /bin/sh -c "$*"\n')
    shell.chmod(0o755)
    folder.mkdir()
    words = ["--hosts", "a:1,b:1", "--remote-shell", str(shell)]
    done = launched(folder, 2, LOOKS.format(seen=seen), *words)
    assert done.returncode == 5 and "rank 1, PID" in done.stderr and "host b" in done.stderr
    looks = seen.read_text()
    assert set(looks.split()) == {"True"} and not [*folder.iterdir()]
    time.sleep(0.1)
    assert seen.read_text() == looks


@pytest.mark.launch
def test_ranks_are_pinned(tmp_path: Path) -> None:
    """Catches ranks that all run on one core, or anywhere."""
    program = "import os; print(os.environ['MINIAPPS_FILE_RANK'], os.sched_getaffinity(0))"
    cores = sorted(os.sched_getaffinity(0))[:2]
    done = launched(tmp_path, len(cores), program, "--cores", ",".join(map(str, cores)))
    expected = [f"{rank} {{{core}}}" for rank, core in enumerate(cores)]
    assert sorted(done.stdout.splitlines()) == expected


@pytest.mark.parametrize("words", [["--cores", "0"], ["--other"], ["--cores", "x"]])
def test_wrong_options_of_the_launcher_are_refused(tmp_path: Path, words: list[str]) -> None:
    """Catches a traceback, and ranks that are started all the same."""
    done = launched(tmp_path, 2, "print('started')", *words)
    assert done.returncode == 2 and "started" not in done.stdout
    assert "Traceback" not in done.stderr and not [*tmp_path.iterdir()]


@pytest.mark.parametrize("where", ["missing", "file"])
def test_a_wrong_folder_is_refused(tmp_path: Path, where: str) -> None:
    """Catches a launch that fails later, in the launcher."""
    (tmp_path / "file").touch()
    done = support.in_process(*RUN, "-n", 2, "--file-dir", tmp_path / where)
    assert done.returncode == 2 and done.stderr.startswith("miniapps: --file-dir ")
    assert "must be a folder" in done.stderr


# Slurm -------------------------------------------------------------------------------------------


def step_of(folder: Path, ranks: int, *words: object) -> list[subprocess.Popen[str]]:
    """Start what ``srun`` would start: a process for each rank, which finds itself in a step."""
    step = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": str(ranks)}
    step |= {"SLURM_STEP_NUM_NODES": "2"}  # messages are in the current folder
    return [
        subprocess.Popen(
            [support.BIN / "miniapps", *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
            env=support.clean_environment(step | {"SLURM_PROCID": str(rank)}),
        )
        for rank in range(ranks)
    ]


@pytest.mark.slow
@pytest.mark.launch
def test_a_step_of_slurm(tmp_path: Path, run_record: Callable[..., Any]) -> None:
    """Catches ranks that are runs of their own, do not find each other, or leave their folder."""
    ranks = step_of(tmp_path, 2, *RUN)
    (out, errors), (silent, others) = (
        rank.communicate(timeout=support.PATIENCE_S) for rank in ranks
    )
    assert [rank.returncode for rank in ranks] == [0, 0], errors + others
    record = json.loads(out)
    assert (record["pes"], silent) == (2, "")
    assert record["state_hash"] == run_record("echo", "--preset", "tiny")["state_hash"]
    assert not [*tmp_path.iterdir()]


@pytest.mark.slow
@pytest.mark.launch
@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_rank_ends_a_step(tmp_path: Path, victim: int) -> None:
    """Catches a rank that waits for ever for rank 0, and a folder that outlives rank 0.

    That rank 1 is killed only Slurm sees: it ends rank 0, here by SIGTERM.
    """
    ranks = step_of(tmp_path, 2, *RUN, "--steps", 10**7)
    support.wait_for(lambda: [*tmp_path.glob(f"{launch.PREFIX}*/0-*")])
    os.kill(ranks[victim].pid, signal.SIGKILL)
    if victim == 1:
        ranks[0].terminate()
    for rank in ranks:
        _, errors = rank.communicate(timeout=support.PATIENCE_S)
    support.wait_for(lambda: not [*tmp_path.iterdir()], support.ENDING_S)
    if victim == 0:
        assert ranks[1].returncode == 3
    assert all(process_state(rank.pid) == "X" for rank in ranks)


def test_several_drivers_may_run_in_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a driver that is refused as another one could run there, too; or one that cannot."""
    in_a_step(monkeypatch, 2)
    around = drivers.launchers()
    assert {name: launcher.size for name, launcher in around.items()} == {"file": 2, "mpi": 2}
    run = "run", "echo", "--dry-run", "--driver"
    ends = {name: support.in_process(*run, name) for name in ("file", "mpi", "serial")}
    assert [done.returncode for done in ends.values()] == [0, 0, 2]
    assert "use --driver file or mpi" in ends["serial"].stderr
    monkeypatch.setenv("SLURM_STEP_ID", "4294967291")  # a batch script
    assert drivers.launchers() == {}
