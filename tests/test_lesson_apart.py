"""Submissions that harm: each is ended, and leaves nothing behind."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import threading
from dataclasses import replace
from pathlib import Path

import pytest
import skips
import support

from miniapps import lessons
from miniapps.lessons.checking import apart, sandbox
from miniapps.lessons.checking.apart import MIB, Apart, Limits, obstacle
from miniapps.lessons.checking.running import End, Task
from miniapps.lessons.lesson import Case
from miniapps.workbench.run.processes import TOPOLOGIES, family, process_state

CASE = Case(2, (3,), 7)
LIMITS = Limits(
    wall_s=20,
    memory=512 * MIB,
    all_memory=1024 * MIB,
    processes=30,
    folder=128 * MIB,
    file_size=32 * MIB,
)
TIGHT = {"takes shared memory": replace(LIMITS, all_memory=500 * MIB)}
FORKS = "import os, time\nfor _ in range(7): os.fork()\ntime.sleep(1000)"
FOR_EVER = """
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
"""
WRITES = """
from pathlib import Path
def collect(comm, mine):
    written = []
    try:
        for number in range(200):
            written.append(Path(f"{comm.rank}-{number}"))
            written[-1].write_bytes(bytes(1 << 20))
    except OSError:
        pass
    comm.Barrier()
    for file in written:
        file.unlink()
    raise ValueError(f"wrote {len(written)} files" if len(written) == 200 else "was stopped")
"""
FILLS = """
from pathlib import Path
def collect(comm, mine):
    for number in range(200):
        Path(f"{comm.rank}-{number}").write_bytes(bytes(1 << 20))
    while True:
        pass
"""
PRINTS = "def collect(comm, mine):\n    while True: print('x' * 100_000)"
STAYS = """
import os, time
def collect(comm, mine):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(1000)
        os._exit(0)
    raise ValueError("has started another process")
"""
HARMFUL = {  # a program, and what is said about it
    "forks": (FORKS, "it started more than 30 processes"),
    "hangs": ("def collect(comm, mine):\n    while True: pass", "no progress"),
    "writes": (WRITES, "was stopped"),
    "writes a large file": (
        "def collect(comm, mine):\n"
        "    written = open(str(comm.rank), 'wb', 0).write(bytes(64 << 20))\n"
        "    raise ValueError(written)",
        f"ValueError: {32 * MIB}",
    ),
    "prints": (PRINTS, ""),
    "stays": (STAYS, "has started another process"),
    "takes memory": (
        "def collect(comm, mine):\n    x = [0]\n    while True: x += x",
        "out of memory",
    ),
    "takes shared memory": (
        "import mmap\nkept = []\nfor n in range(100):\n    kept.append(mmap.mmap(-1, 1 << 24))\n"
        "    kept[-1][:] = bytes(1 << 24)\nwhile True: pass",
        "it took more than 500 MiB of memory",
    ),
    "ends its parents": (
        "import os, signal\nos.kill(1, signal.SIGKILL)\nos.kill(-1, signal.SIGKILL)",
        "",
    ),
    "returns too much": (
        "import numpy\ndef collect(comm, mine): return numpy.zeros((4000, 2000))",
        "it left no room for results",
    ),
    "exits": ("import os\nos._exit(0)", "died in step 0"),
}
UNPROTECTED = {name: HARMFUL[name] for name in ("forks", "prints", "stays")}
UNPROTECTED["writes"] = (FILLS, "it wrote more than 128 MiB")


def run(program: Path, apart: Apart) -> End:
    """Run a program in one case; returns how it ended."""
    (end,) = apart.run([Task.of(lessons.load("ring"), "mpi4py", program, CASE)])
    return end


def written(folder: Path, text: str) -> Path:
    """A program for the lesson ring."""
    program = folder / "ring.py"
    program.write_text(text)
    return program


@pytest.fixture(scope="module")
def isolated() -> None:
    """Skip where the kernel does not isolate programs: some would then harm this machine."""
    reason = obstacle(())
    unshare = shutil.which("unshare")
    if reason and unshare:
        words = ["--user", "--map-root-user", "--net", "--pid", "--fork", "--mount-proc", "true"]
        assert support.execute([unshare, *words]).returncode, f"this user may, but {reason}"
    if reason:
        pytest.skip(f"{skips.NO_ISOLATION}: {reason}")


@pytest.fixture
def nothing_left(tmp_path, monkeypatch):
    """Fail if a process or a file of a submission is left."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setenv(support.MARK, str(tmp_path))
    yield
    assert not support.marked(str(tmp_path))
    assert list(scratch.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("harm", HARMFUL)
def test_what_harms_is_ended(harm: str, tmp_path, isolated, nothing_left) -> None:
    """Catches a submission that is not ended, or that leaves processes or files."""
    text, said = HARMFUL[harm]
    end = run(written(tmp_path, text), Apart((), True, TIGHT.get(harm, LIMITS)))
    assert isinstance(end, str) and said in end


def test_files_of_other_runs_are_left(tmp_path, isolated, nothing_left) -> None:
    """Catches a submission marked by the file of another run, which it sees but cannot remove."""
    text, said = HARMFUL["exits"]
    file = TOPOLOGIES.with_name(TOPOLOGIES.name.replace("*", tmp_path.name))
    ended = threading.Event()

    def keep() -> None:
        while not ended.wait(0.01):
            file.touch()  # as if created now; a run beside this one may remove it

    storing = threading.Thread(target=keep)
    storing.start()
    try:
        end = run(written(tmp_path, text), Apart((), True, LIMITS))
    finally:
        ended.set()
        storing.join()
        file.unlink(missing_ok=True)
    assert isinstance(end, str) and said in end


@pytest.mark.slow
def test_the_kernel_limits_processes(tmp_path, isolated, nothing_left, monkeypatch) -> None:
    """Catches endless forks that end only when the process that watches gets a core."""
    if sandbox.RELEASE < sandbox.NUMBERS_INSIDE:
        pytest.skip(f"{skips.NO_ISOLATION}: this kernel does not limit the processes of root")
    seen = []

    def first_two(pid: int) -> list[int]:
        found = family(pid)
        seen.append(len(found))
        return found[:2]

    monkeypatch.setattr(apart, "family", first_two)
    end = run(written(tmp_path, FOR_EVER), Apart((), True, replace(LIMITS, wall_s=6.0)))
    assert end == "it was not ready after 6 s"
    assert LIMITS.processes < max(seen) < sandbox.LEAST_NUMBERS


def test_processes_that_were_not_listed_are_ended(monkeypatch) -> None:
    """Catches processes that stay because the kernel left them out while others ended."""
    spared, lists = set(family(os.getpid())), []
    first, second = (subprocess.Popen(["sleep", "100"]) for _ in range(2))

    def some(pid: int) -> list[int]:
        lists.append([one for one in family(pid) if one != second.pid or len(lists) > 1])
        return lists[-1]

    monkeypatch.setattr(apart, "family", some)
    apart.end_all(os.getpid(), spared)
    assert process_state(first.pid) == process_state(second.pid) == "X" and len(lists) > 3


WRITES_10_GB = """
import os
from pathlib import Path
def tried(act):
    try:
        return act()
    except OSError as error:
        return None
def collect(comm, mine):
    sizes = []
    if comm.rank == 0:
        sparse = tried(lambda: Path("sparse").touch() or os.truncate("sparse", 10 << 30) or 1)
        for folder in (".", "/dev/shm", "/tmp", "/var/tmp", "{folder}", "{home}"):
            files = [Path(folder, f"mine-{{number}}") for number in range(10 << 5)]
            sizes.append(0)
            for file in files:
                done = tried(lambda: file.open("wb", 0).write(bytes(32 << 20)))
                sizes[-1] += done or 0
                if done != 32 << 20:
                    break
            for file in files:
                tried(file.unlink)
        raise ValueError(f"{{sparse}} {{[size >> 20 for size in sizes]}}")
    comm.Barrier()
"""


@pytest.mark.slow
def test_ten_gigabytes_are_not_written(tmp_path, isolated, nothing_left) -> None:
    """Catches a submission that fills the disk, within the limits that `mark` really has."""
    text = WRITES_10_GB.format(folder=tmp_path, home=Path.home())
    end = run(written(tmp_path, text), Apart((), True))
    assert isinstance(end, str)
    found = re.search(r"ValueError: None \[(\d+), (\d+), 0, 0, 0, 0\]", end)
    most = Limits().folder // MIB
    assert found and 0 < int(found[1]) <= most and int(found[2]) <= most, end
    assert Limits().file_size < 10 << 30 and [*tmp_path.glob("mine-*")] == []


@pytest.mark.slow
@pytest.mark.parametrize("harm", UNPROTECTED)
def test_what_harms_is_ended_without_namespaces(harm: str, tmp_path, nothing_left) -> None:
    """Catches limits that only the kernel's namespaces keep."""
    sandbox.adopt()
    text, said = UNPROTECTED[harm]
    with support.no_shared_memory_left():
        end = run(written(tmp_path, text), Apart((), False, LIMITS))
    assert isinstance(end, str) and said in end


READS = """
import os, socket
from pathlib import Path
def tried(act):
    try:
        return str(act())
    except OSError as error:
        return error.strerror
def collect(comm, mine):
    neighbour = tried(lambda: Path("{folder}/bob/ring.py").read_text())
    others = tried(lambda: os.listdir("{folder}"))
    writes = tried(lambda: Path("{folder}/../mine").write_text("x"))
    sends = tried(lambda: socket.create_connection(("127.0.0.1", {port}), 1))
    sees = len([name for name in os.listdir("/proc") if name.isdigit()]) < 20
    raise ValueError(f"{{neighbour}}|{{others}}|{{writes}}|{{sends}}|{{sees}}|")
"""


@pytest.mark.slow
def test_neighbours_and_the_network_are_out_of_reach(tmp_path, isolated) -> None:
    """Catches a submission that copies another one, or that sends it away."""
    folder = tmp_path / "class"
    (folder / "bob").mkdir(parents=True)
    (folder / "bob" / "ring.py").write_text("the answer")
    with socket.create_server(("127.0.0.1", 0)) as server:
        text = READS.format(folder=folder, port=server.getsockname()[1])
        end = run(written(tmp_path, text), Apart((folder,), True, LIMITS))
    assert isinstance(end, str)
    nothing, no_entries, read_only, refused, alone = end.split("ValueError: ")[1].split("|")[:5]
    assert (nothing, no_entries, refused) == (os.strerror(2), "[]", os.strerror(111))
    assert read_only == os.strerror(30) and alone == "True"
    assert not (tmp_path / "mine").exists()
