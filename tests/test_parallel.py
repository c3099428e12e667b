"""Real launches: the same bits from every driver, decomposition, balancer and blocking depth.

Nothing here asks whether mpi4py or charm4py is installed: where one is missing, tests must fail.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import support

from miniapps import apps
from miniapps.drivers import garbage
from miniapps.drivers.ranks import checksum
from miniapps.kernels.state_hash import digest, hash_cells
from miniapps.workbench.cli import main, spec_of
from miniapps.workbench.run import batch
from miniapps.workbench.run.execute import store_of

Run = Callable[..., dict[str, Any]]
Records = dict[str, dict[str, Any]]
WARMUP, STEPS = 2, 12
PROBLEMS = {
    "heated": "jacobi2d --size 17x11 --boundary heated --initial noise",
    "zero": "jacobi2d --size 17x11 --boundary zero --initial noise",
    "periodic": "jacobi2d --size 17x11 --boundary periodic --initial ramp",
    "box": "stencil3d --size 9x8x7 --initial noise",
    "heated box": "stencil3d --size 9x8x7 --boundary heated --initial noise",
    "echo": "echo --size 7x6 --bytes 5000",
}


@cache
def right_hash(problem: str) -> str:
    """The hash of the app's NumPy reference: no driver takes part in it."""
    app, *words = PROBLEMS[problem].split()
    values = dict(zip((word[2:] for word in words[::2]), words[1::2], strict=True))
    values["size"] = tuple(map(int, values["size"].split("x")))
    module = apps.load(app)
    fields = module.Problem.__dataclass_fields__
    known = {k: int(v) if k == "bytes" else v for k, v in values.items() if k in fields}
    field = module.reference(module.Problem(**known), WARMUP + STEPS)
    name = "counters" if app == "echo" else "u"
    return digest(hash_cells(name, field, (0,) * field.ndim, field.shape))


MPI = [
    ("heated", "-n 2 --time-tile 1"),
    ("heated box", "-n 2 --pe-grid 1x1x2 --time-tile 1"),
    ("heated", "-n 4 --time-tile 4"),
    ("zero", "-n 4 --time-tile 3"),
    ("periodic", "-n 4 --time-tile 2"),
    ("box", "-n 4 --time-tile 2"),
]
CHARM = [
    ("heated", "-n 2 --odf 8 --time-tile 1"),
    ("periodic", "-n 2 --odf 3 --time-tile 2"),
    ("box", "-n 2 --odf 1 --time-tile 3"),
]
BALANCED = [  # and how often
    ("heated", "--balancer Greedy --lb-period 1 --time-tile 1", 11),
    ("echo", "--balancer Greedy --lb-period 5", 2),
    ("periodic", "--balancer Rotate --lb-period 5 --time-tile 2", 2),
    ("box", "--balancer Rotate --lb-period 1 --time-tile 1", 11),
    ("echo", "--balancer Rotate --lb-period 5 --lb-first 3", 3),
    ("zero", "--balancer GreedyRefine --lb-period 5 --time-tile 1", 2),
    ("heated box", "--balancer GreedyRefine --lb-period 1 --time-tile 2", 5),
]
BALANCED_PES = "--driver charm -n 2 --odf 4"
TOLERANCE = "jacobi2d --size 13x11 --tolerance 3 --check-every 4 --steps 60 --warmup 3"
ENDS_EARLY = [
    "--driver mpi -n 4 --time-tile 3",
    "--driver charm -n 2 --odf 2 --time-tile 1 --balancer Rotate --lb-period 5",
]


def words_of(problem: str, ways: str) -> str:
    """The arguments of a run."""
    return f"{PROBLEMS[problem]} --steps {STEPS} --warmup {WARMUP} {ways}"


MPI_RUNS = [(words_of(problem, f"--driver mpi {ways}"), problem) for problem, ways in MPI]
CHARM_RUNS = [(words_of(problem, f"--driver charm {ways}"), problem) for problem, ways in CHARM]
BALANCED_RUNS = [
    (words_of(problem, f"{BALANCED_PES} {ways}"), problem, times)
    for problem, ways, times in BALANCED
]


@pytest.fixture(scope="session")
def records(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Records:
    """The records of the runs of all tests below that are made, by a launch for each number of PEs.

    It leaves no scratch folder behind. PEs are forked; other tests, of the number of PEs, start
    them.
    """
    tests = [item for item in request.session.items if "records" in item.fixturenames]
    runs = [test.callspec.params["run"] for test in tests if test.path == Path(__file__)]

    def make(folder: Path) -> None:
        scratch = folder / "scratch"
        scratch.mkdir()
        with (
            support.pes_forked(["mpi", "charm"]),  # before: it has a scratch folder of its own
            mock.patch.object(tempfile, "tempdir", str(scratch)),
        ):
            found = batch.solve_all([spec_of(["run", *run.split()]) for run in runs])
        assert list(scratch.iterdir()) == []
        records = [{"failed": one} if isinstance(one, str) else one for one in found]
        (folder / "records.json").write_text(json.dumps(records))

    folder = support.made_once(tmp_path_factory, "launched runs", make)
    return dict(zip(runs, json.loads((folder / "records.json").read_text()), strict=True))


def check_run(record: dict[str, Any], run: str, problem: str) -> None:
    """Check a run: valid, of the right state, on as many PEs as were asked for; its keys."""
    assert "failed" not in record, record
    assert support.unlisted(record) == set()
    assert record["state_hash"] == right_hash(problem)
    assert record["valid"] is True and record["steps"] == STEPS
    _, *words = run.split()
    asked = dict(zip(words[::2], words[1::2], strict=True))
    assert record["driver"] == asked["--driver"]
    assert record["pes"] == int(asked["-n"])
    assert record["odf"] == int(asked.get("--odf", 1))
    assert np.prod(record["blocks"]) == record["pes"] * record["odf"]
    assert record["oversubscribed"] is (record["pes"] > record["host"]["cores"])
    assert {"mpi": "mpi", "charm": "charm"}[record["driver"]] in record["versions"]


def test_references_differ() -> None:
    """Catches problems so plain that all of them end in the same state."""
    hashes = {right_hash(problem) for problem in PROBLEMS}
    assert len(hashes) == len(PROBLEMS)


@pytest.mark.parametrize(("run", "problem"), MPI_RUNS)
def test_mpi(records: Records, run: str, problem: str) -> None:
    """Catches a rank that gets another's halo, a corner that is missing, or a wrong order."""
    check_run(records[run], run, problem)


@pytest.mark.parametrize(("run", "problem"), CHARM_RUNS)
def test_charm(records: Records, run: str, problem: str) -> None:
    """Catches a chare that gets another's halo, on the same PE or across, whatever the ODF."""
    record = records[run]
    check_run(record, run, problem)
    assert record["lb"] == [] and record["migrations"] == 0


@pytest.mark.parametrize(("run", "problem", "times"), BALANCED_RUNS)
def test_charm_with_balancing(records: Records, run: str, problem: str, times: int) -> None:
    """Catches state or messages that are lost when a chare migrates, and balancing left out."""
    record = records[run]
    check_run(record, run, problem)
    assert len(record["lb"]) == times
    assert record["migrations"] == sum(entry["moved"] for entry in record["lb"])
    for entry in record["lb"]:
        assert set(entry) == {"step", "moved", "imbalance_before", "imbalance_after", "seconds"} | {
            "paid_after"
        }
        assert WARMUP < entry["step"] < WARMUP + STEPS and 0 <= entry["moved"] <= 8
        assert 1 <= entry["imbalance_before"] <= 2 and 1 <= entry["imbalance_after"] <= 2
    if "Rotate" in run:
        assert all(entry["moved"] == 8 for entry in record["lb"])


@pytest.mark.parametrize("run", [f"{TOLERANCE} {ways}" for ways in ENDS_EARLY])
def test_tolerance_ends_every_driver_at_the_same_step(records: Records, run: str) -> None:
    """Catches PEs that stop apart, hang at the end, or stop at another step than serially."""
    problem = apps.load("jacobi2d").Problem(
        size=(13, 11), time_tile=1, tolerance=3.0, check_every=4
    )
    right = support.solve("jacobi2d", problem, (1, 1), 60, warmup=3)
    record = records[run]
    assert record["steps"] + 3 == right.outcome.steps_done == 32
    assert record["state_hash"] == right.state_hash


# Number of PEs -----------------------------------------------------------------------------------

SMALL = "run jacobi2d --size 7x5 --steps 3 --json -".split()


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["mpi", "charm"])
def test_singletons_are_an_error(miniapps: Callable[..., Any], driver: str) -> None:
    """Catches N runs of one rank each, all of them "valid", under another MPI's launcher."""
    done = miniapps(*SMALL, "--driver", driver, "-n", 2, "--no-launch")
    assert done.returncode == 3 and "state_hash" not in done.stdout
    assert "started on 1" in done.stderr and "asked for 2" in done.stderr


def mpiexec(ranks: int, *words: object) -> Any:
    """Start ranks as a user's own script would."""
    command = [support.BIN / "mpiexec", "-n", ranks, support.BIN / "miniapps", *words]
    return support.execute(command)


# MPI, which ends after this, does not: as by exit(0) or MPI_Abort(0) after the last step.
WITHOUT_AN_END = """
import atexit, os

if "PMI_RANK" in os.environ:
    atexit.register(os._exit, 0)
"""


@pytest.mark.launch
def test_memory_of_ranks_that_do_not_end_mpi(tmp_path) -> None:
    """Catches memory that is left in /dev/shm because the launcher's status is 0."""
    environment = support.in_every_process(tmp_path, WITHOUT_AN_END)
    with support.no_shared_memory_left():
        (record,) = support.records_of(
            ["jacobi2d --preset tiny --driver mpi -n 2"], 60, environment
        )
    assert record.get("valid") or "ended with status 0" in record["failed"]  # whoever is first


@pytest.mark.slow
def test_users_own_mpiexec() -> None:
    """Catches ranks that start launchers of their own, or each print a record."""
    done = mpiexec(2, *SMALL, "--driver", "mpi")
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record["pes"] == 2 and record["valid"] is True


@pytest.mark.slow
def test_mpiexec_of_another_size() -> None:
    """Catches -n that is quietly replaced by what mpiexec started; a failure that leaves memory."""
    with support.no_shared_memory_left():
        done = mpiexec(2, *SMALL, "--driver", "mpi", "-n", 3)
    assert done.returncode == 2 and done.stdout == ""
    assert "-n 3: this MPI launcher has 2 ranks: give the same number to both" in done.stderr


def test_ranks_with_different_problems() -> None:
    """Catches ranks that were told different things and exchange halos all the same."""
    other = [word if word != "7x5" else "9x5" for word in SMALL]
    program = [support.BIN / "miniapps", *SMALL, "--driver", "mpi"]
    with support.no_shared_memory_left():
        done = mpiexec(
            1, *SMALL, "--driver", "mpi", ":", "-n", 1, program[0], *other, "--driver", "mpi"
        )
    assert done.returncode == 3 and done.stdout == ""
    assert "different options" in done.stderr


@pytest.mark.slow
def test_a_rank_that_refuses_its_input_alone() -> None:
    """Catches ranks that wait for ever for one whose node has no such folder, which says nothing.

    Before, it ended before MPI began, so that the others could not notice.
    """
    program = [support.BIN / "miniapps", *SMALL, "--driver", "mpi"]
    with support.no_shared_memory_left():
        alone = [":", "-n", 1, *program, "--output", "/proc/x.h5"]
        done = mpiexec(1, *program[1:], *alone)
    assert done.returncode == 2 and done.stdout == ""
    assert "miniapps: rank 1: --output /proc/x.h5: cannot be written" in done.stderr


def told(words: str) -> int:
    """The checksum of what the ranks of a command line have been told."""
    spec = spec_of(["run", *f"jacobi2d --size 9x7 --steps 20 --driver mpi {words}".split()])
    return checksum(spec.job(store_of(spec)))


def test_what_ranks_must_have_been_told_alike(tmp_path: Path) -> None:
    """Catches ranks that wait for each other for ever: only one has an --output, or a checkpoint.

    What need not be alike are the paths of one folder on several hosts, and the drawn audits.
    """
    files = f"--output {tmp_path}/a.h5 --checkpoint {tmp_path}/c.h5"
    full = f"{files} --checkpoint-every 5 --hash-every 5"
    ways = ["", *full.split(" --checkpoint ")[:1], full]
    ways += [f"{full} --snapshot-every 3", f"{full} --checkpoint-async", "--shared-memory 0"]
    ways += [full.replace("every 5 ", "every 6 "), full.replace("-every 5 ", "-minutes 5 ")]
    assert len({*map(told, ways)}) == len(ways)
    assert told(full) == told(full.replace("a.h5", "b.h5").replace("c.h5", "d.h5") + " --audit 3")


@pytest.mark.launch
def test_users_own_charmrun(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Catches a printed charmrun command that does not work when it is typed by hand.

    On a busy machine a PE may hang at its very end, if charmrun has ended before it: then it cannot
    send ("Socket error"). `miniapps run` ends such PEs; here the test does, so it reads files.
    """
    assert main([*SMALL[:-2], *"--driver charm -n 2 --odf 2 --dry-run".split()]) == 0
    words = shlex.split(capsys.readouterr().out)
    at = words.index("--")
    command, env = [*words[:at], "--json", "-", *words[at:]], support.clean_environment()
    said, errors = tmp_path / "out", tmp_path / "err"
    with said.open("w") as out, errors.open("w") as err:
        started = subprocess.Popen(command, stdout=out, stderr=err, env=env, start_new_session=True)
        try:
            status = started.wait(support.PATIENCE_S)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(started.pid, signal.SIGKILL)
    assert status == 0, errors.read_text()
    assert json.loads(said.read_text().splitlines()[-1])["pes"] == 2


# What is missing must show -----------------------------------------------------------------------

HIDE = """
import sys
class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {libraries}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Hide())
"""


@pytest.mark.parametrize(
    ("driver", "libraries"), [("mpi", ["mpi4py"]), ("charm", ["charm4py", "charmrun"])]
)
def test_missing_library_fails_the_run(driver, libraries, tmp_path, miniapps):
    """Catches a run without mpi4py or charm4py that falls back to one process, hangs or raises.

    Since every test above asks for status 0, it fails where the library is missing.
    """
    environment = support.in_every_process(tmp_path, HIDE.format(libraries=libraries))
    done = miniapps(*SMALL, "--driver", driver, "-n", 2, env=environment)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert f"--driver {driver}: {libraries[0]} is not installed" in done.stderr


@pytest.mark.parametrize("ways", ["mpi -n 2 -- -bind-to core", "charm -n 2 -- +setcpuaffinity"])
def test_pinned_pes_are_not_taken_for_oversubscribed(run_record: Run, ways: str) -> None:
    """Mistake: counting cores in a process that is pinned to one of them."""
    cores = len(os.sched_getaffinity(0))
    record = run_record("jacobi2d", "--preset", "tiny", "--driver", *ways.split())
    assert record["host"]["cores"] == cores
    assert record["oversubscribed"] is (cores < 2)


GIVES_UP = """
import gc, os, pathlib
give_up, calls = os.sched_yield, []
def counted():
    give_up()
    calls.append(None)
    if len(calls) == 2:  # the first is that of `begin`; how many follow depends on the machine
        pathlib.Path({folder!r}, str(os.getpid())).write_text(str(gc.get_threshold()))
os.sched_yield = counted
"""


@pytest.mark.slow
def test_pes_that_wait_give_up_their_cores(tmp_path: Path) -> None:
    """Catches PEs that poll while others wait for a core, each for a whole time slice.

    And PEs that make full garbage collections in steps.
    """
    seen = tmp_path / "seen"
    seen.mkdir()
    environment = support.in_every_process(tmp_path, GIVES_UP.format(folder=str(seen)))
    (record,) = support.records_of(["jacobi2d --preset tiny --driver charm -n 3"], 60, environment)
    assert record["valid"] is True
    thresholds = [file.read_text() for file in seen.iterdir()]
    assert thresholds == [str(garbage.RARELY)] * record["pes"]


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["mpi", "charm"])
def test_a_python_without_the_project_installed(driver: str, tmp_path: Path) -> None:
    """Catches a launch that needs the script ``miniapps`` where the packages alone are there."""
    bare = tmp_path / "python3"
    bare.symlink_to(Path(sys.executable).resolve())
    paths = [str(support.ROOT), sysconfig.get_path("purelib")]
    env = {
        "PYTHONPATH": os.pathsep.join(paths),
        "PATH": os.pathsep.join([str(support.BIN), os.environ["PATH"]]),
        "LD_LIBRARY_PATH": str(Path(sys.prefix, "lib")),
    }
    command = [bare, "-m", "miniapps", "run", *PROBLEMS["heated"].split(), "--json", "-"]
    way = ["--driver", driver, "-n", 2, "--warmup", WARMUP, "--steps", STEPS]
    done = support.execute([*command, *way], 120, env, check=True)
    assert json.loads(done.stdout.splitlines()[-1])["state_hash"] == right_hash("heated")
