"""The tests of kernels for a GPU, in numba's simulator; and what a test run says of those it skips.

The simulator must be asked for before numba is imported, so each file of tests/gpu has a process
of its own. It runs one thread at a time: on one core it is several times as fast as on many. So
each core simulates a file of its own.
"""

from __future__ import annotations

import json
import os
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

import gpu_budget
import pytest
import skips
import support

FILES = sorted((support.ROOT / "tests" / "gpu").glob("test_*.py"))
PIN = """
import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
os.execv(sys.argv[2], sys.argv[2:])
"""
LONGEST = "test_stencils_gpu"
LIMIT_S = 1200
SIMULATOR = {"NUMBA_ENABLE_CUDASIM": "1"}


class Ended(NamedTuple):
    """How a test run in a process of its own ended."""

    status: int
    counts: Counter[str]  # passed, failures, errors, skipped
    said: str
    launched: set[str]  # names of kernels


def pytest_of(
    folder: Path, *words: object, env: dict[str, str] | None = None, core: int | None = None
) -> Ended:
    """Run pytest on one core, or the first; its report goes into a folder."""
    core = min(os.sched_getaffinity(0)) if core is None else core
    report, names = folder / "report.xml", folder / "launched"
    own = ["-p", "no:cacheprovider", "-rA", f"--junit-xml={report}"]
    command = [sys.executable, "-c", PIN, core, sys.executable, "-m", "pytest", *own, *words]
    done = support.execute(command, LIMIT_S, {gpu_budget.LAUNCHED: str(names)} | (env or {}))
    counts: Counter[str] = Counter()
    if report.exists():
        for suite in ElementTree.parse(report).getroot():
            seen = {k: int(suite.attrib[k]) for k in ("failures", "errors", "skipped")}
            counts.update(seen, passed=int(suite.attrib["tests"]) - sum(seen.values()))
    launched = set(names.read_text().split()) if names.exists() else set()
    return Ended(done.returncode, counts, f"{done.stdout}\n{done.stderr}", launched)


def all_passed(ended: Ended) -> bool:
    """Whether every test ran and passed, and there were any."""
    passed = ended.counts["passed"]
    return ended.status == 0 and passed > 0 and ended.counts.total() == passed


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[Path, Future[Ended]]]:
    """How the tests of each file end, as many at once as there are cores, the longest first."""
    cores: SimpleQueue[int] = SimpleQueue()
    for core in os.sched_getaffinity(0):
        cores.put(core)

    def simulate(file: Path) -> Ended:
        core = cores.get()
        try:
            return pytest_of(tmp_path_factory.mktemp(file.stem), file, env=SIMULATOR, core=core)
        finally:
            cores.put(core)

    with ThreadPoolExecutor(cores.qsize()) as pool:
        files = sorted(FILES, key=lambda file: file.stem != LONGEST)
        yield {file: pool.submit(simulate, file) for file in files}


@pytest.mark.timeout(LIMIT_S + 60)
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_in_the_simulator(file, request):
    """Catches kernels, and the host's part around them, that compute something else."""
    skips.without("sim")
    ended = request.getfixturevalue("simulated")[file].result()
    assert all_passed(ended), ended.said[-20000:]


@pytest.mark.timeout(LIMIT_S + 60)
def test_the_simulator_runs_every_kernel(request):
    """Catches a kernel that no test launches."""
    skips.without("sim")
    ended = [future.result() for future in request.getfixturevalue("simulated").values()]
    launched = set().union(*(one.launched for one in ended))
    assert launched == set(json.loads(gpu_budget.BUDGET.read_text())["kernels"])


def test_there_are_files_to_simulate():
    """Catches a folder that was moved, after which nothing would be simulated."""
    assert "test_device_gpu" in [file.stem for file in FILES]


# That the check above can fail -------------------------------------------------------------------

IN_SIMULATOR = """
import os
from devices.cuda.toolkit import Simulator, chosen
def test(): assert type(chosen()) is Simulator and len(os.sched_getaffinity(0)) == 1
"""


@pytest.mark.parametrize(
    ("source", "passes"),
    [
        (IN_SIMULATOR, True),
        ("def test(): pass\ndef test_wrong(): assert False", False),
        ("def test(): pass\nimport pytest\ndef test_left(): pytest.skip('no reason')", False),
        ("def test(): pass\nassert False", False),
        ("", False),
    ],
)
def test_only_tests_that_ran_count(source, passes, tmp_path):
    """Catches a file that fails, skips, does not import or is empty and counts as checked."""
    skips.without("sim")
    file = tmp_path / "test_some.py"
    file.write_text(source)
    assert all_passed(pytest_of(tmp_path, file, env=SIMULATOR)) is passes


# What a test run says of what it skips -----------------------------------------------------------

GPU_FILE = support.ROOT / "tests" / "gpu" / "test_device_gpu.py"
NO_DEVICE = {"CUDA_VISIBLE_DEVICES": ""}
NO_NUMBA_CUDA = """
import importlib.metadata, pytest, sys
found = importlib.metadata.version
def version(name):
    if name == "numba-cuda":
        raise importlib.metadata.PackageNotFoundError(name)
    return found(name)
importlib.metadata.version = version
sys.exit(pytest.main(sys.argv[1:]))
"""


def test_without_a_gpu_tests_are_skipped_and_counted(tmp_path):
    """Catches a run in which nobody learns that no kernel ran on a GPU."""
    skips.without("sim")
    ended = pytest_of(tmp_path, GPU_FILE, "--no-skips", env=NO_DEVICE)
    number = ended.counts["skipped"]
    assert ended.status == 0 and number > 10 and ended.counts.total() == number
    (line,) = [x for x in ended.said.splitlines() if "skipped that check kernels" in x]
    assert line.startswith(f"{number} skipped that check kernels on a GPU: there is no NVIDIA GPU")
    assert "simulator" in line


def test_a_gpu_can_be_required(tmp_path):
    """Catches a machine with a broken driver on which all tests of kernels pass by not running."""
    skips.without("sim")
    ended = pytest_of(tmp_path, GPU_FILE, "--require-gpu", env=NO_DEVICE)
    assert ended.status == 1 and ended.counts["passed"] == ended.counts["skipped"] == 0
    assert "skipped under --require-gpu" in ended.said


@pytest.mark.parametrize(("switch", "passes"), [(None, True), ("--require-gpu", False)])
def test_without_numba_cuda_files_are_skipped(switch, passes, tmp_path):
    """Catches files that cannot even be imported and therefore count as errors, or not at all."""
    words = [GPU_FILE, "-p", "no:cacheprovider", *([switch] if switch else [])]
    done = support.execute([sys.executable, "-c", NO_NUMBA_CUDA, *words])
    if passes:
        assert done.returncode == 5  # no tests collected
        assert "1 skipped that check kernels on a GPU: numba-cuda not installed" in done.stdout
    else:
        assert done.returncode not in (0, 5)
        assert "skipped under --require-gpu" in done.stdout


@pytest.mark.parametrize(
    ("layer", "switches", "failing"),
    [
        ("gpu", [], None),
        ("gpu", ["--no-skips"], None),
        ("gpu", ["--require-sim", "--require-compile"], None),
        ("gpu", ["--require-gpu"], "--require-gpu"),
        ("sim", [], None),
        ("sim", ["--no-skips"], "--no-skips"),
        ("sim", ["--no-skips", "--require-sim"], "--require-sim"),
        ("sim", ["--require-sim"], "--require-sim"),
        ("compile", ["--require-gpu", "--require-sim"], None),
        ("compile", ["--require-compile"], "--require-compile"),
        ("hollow", ["--no-skips", "--require-sim", "--require-compile"], None),
        ("hollow", ["--require-hollow"], "--require-hollow"),
        (None, ["--require-gpu", "--require-sim", "--require-compile"], None),
        (None, ["--no-skips"], "--no-skips"),
    ],
)
def test_switches_say_which_skips_fail(layer, switches, failing):
    """Catches a switch that turns the wrong skips into failures, or none."""
    why = skips.skip_reason(layer, "something is missing") if layer else "some other reason"
    report = f"('tests/x.py', 12, 'Skipped: {why}')"
    assert skips.must_fail(report, lambda switch: switch in switches) == failing


def test_skips_are_counted_by_layer_and_reason():
    """Catches a count that mixes layers, or counts skips that have nothing to do with a GPU."""
    seen = [
        *["('a.py', 1, 'Skipped: layer gpu: no GPU')"] * 3,
        "('a.py', 1, 'Skipped: layer compile: numba-cuda not installed')",
        "('a.py', 1, 'Skipped: no browser')",
    ]
    lines = skips.unchecked(seen)
    assert [line.split(":")[0] for line in lines] == [
        "3 skipped that check kernels on a GPU",
        "1 skipped that check kernels by NVIDIA's compiler",
    ]
    assert skips.unchecked(seen[-1:]) == []
