"""The tests of kernels for a GPU without one; and what a test run says of those it skips.

Device arrays are those of numba's simulator, which must be asked for before numba is imported, so
these tests have a process of their own. Kernels run under `tests/gpu/emulation.py`.
"""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import gpu_budget
import of_day
import pytest
import skips
import support

FOLDER = support.ROOT / "tests" / "gpu"
LIMIT_S = 1200  # it takes 200 s of a core, and others use the cores, too
SIMULATOR = {"NUMBA_ENABLE_CUDASIM": "1"}


class Ended(NamedTuple):
    """How a test run in a process of its own ended."""

    status: int
    counts: Counter[str]  # passed, failures, errors, skipped
    said: str
    ran: dict[str, list[str]]  # names of kernels, see tests/gpu/conftest.py


def pytest_of(folder: Path, *words: object, env: dict[str, str] | None = None) -> Ended:
    """Run pytest; its report goes into a folder."""
    report, names = folder / "report.xml", folder / "launched"
    own = ["-p", "no:cacheprovider", "-rA", f"--junit-xml={report}"]
    command = [sys.executable, "-m", "pytest", *own, *words]
    done = support.execute(command, LIMIT_S, {gpu_budget.LAUNCHED: str(names)} | (env or {}))
    counts: Counter[str] = Counter()
    if report.exists():
        for suite in ElementTree.parse(report).getroot():
            seen = {k: int(suite.attrib[k]) for k in ("failures", "errors", "skipped")}
            counts.update(seen, passed=int(suite.attrib["tests"]) - sum(seen.values()))
    ran = json.loads(names.read_text()) if names.exists() else {}
    return Ended(done.returncode, counts, f"{done.stdout}\n{done.stderr}", ran)


def all_passed(ended: Ended) -> bool:
    """Whether every test ran and passed, and there were any."""
    passed = ended.counts["passed"]
    return ended.status == 0 and passed > 0 and ended.counts.total() == passed


@pytest.mark.timeout(LIMIT_S + 60)
def test_kernels_without_a_gpu(tmp_path):
    """Catches kernels, and the host's part around them, that compute something else.

    Every kernel must have been launched, and once in the simulator too, with the same bits: one
    that was not is a kernel that no test launches. With the cases of one day that cannot be told.
    """
    skips.without("sim")
    ended = pytest_of(tmp_path, FOLDER, env=SIMULATOR)
    assert all_passed(ended), ended.said[-20000:]
    every = set(json.loads(gpu_budget.BUDGET.read_text())["kernels"])
    assert set(ended.ran["simulated"]) <= set(ended.ran["launched"]) <= every
    assert ended.counts["passed"] > (60 if of_day.is_set() else 300)
    assert of_day.is_set() or set(ended.ran["simulated"]) == every


# That the check above can fail -------------------------------------------------------------------

SOURCES = {  # a file of tests, and how its tests count
    "passes": ("def test(): pass", {"passed": 1}),
    "fails": ("def test(): pass\ndef test_wrong(): assert False", {"passed": 1, "failures": 1}),
    "skips": ("import pytest\ndef test_left(): pytest.skip('no reason')", {"skipped": 1}),
    "cannot": ("def test(): pass\nassert False", {"errors": 1}),
    "empty": ("", {}),
}


@pytest.mark.slow
def test_how_tests_ended_is_read_from_their_report(tmp_path):
    """Catches a file that fails, skips or does not import and counts as checked."""
    for name, (source, _) in SOURCES.items():
        (tmp_path / f"test_{name}.py").write_text(source)
    ended = pytest_of(tmp_path, tmp_path, "--continue-on-collection-errors")
    expected: Counter[str] = sum((Counter(c) for _, c in SOURCES.values()), Counter())
    assert +ended.counts == expected and ended.status == 1


@pytest.mark.parametrize(
    ("status", "counts", "passes"),
    [
        (0, {"passed": 3}, True),
        (0, {}, False),
        *[(0, {"passed": 3, other: 1}, False) for other in ("failures", "errors", "skipped")],
        (1, {"passed": 3}, False),
        (5, {}, False),
    ],
)
def test_only_tests_that_ran_count(status, counts, passes):
    """Catches a run that failed, left tests out or had none and counts as checked."""
    assert all_passed(Ended(status, Counter(counts), "", {})) is passes


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


@pytest.mark.slow
def test_without_a_gpu_tests_are_skipped_and_counted(tmp_path):
    """Catches a run in which nobody learns that no kernel ran on a GPU."""
    skips.without("sim")
    ended = pytest_of(tmp_path, GPU_FILE, "--no-skips", env=NO_DEVICE)
    number = ended.counts["skipped"]
    assert ended.status == 0 and number > 10 and ended.counts.total() == number
    (line,) = [x for x in ended.said.splitlines() if "skipped that check kernels" in x]
    assert line.startswith(f"{number} skipped that check kernels on a GPU: there is no NVIDIA GPU")
    assert "simulator" in line


@pytest.mark.slow
def test_a_gpu_can_be_required(tmp_path):
    """Catches a machine with a broken driver on which all tests of kernels pass by not running."""
    skips.without("sim")
    ended = pytest_of(tmp_path, GPU_FILE, "--require-gpu", env=NO_DEVICE)
    assert ended.status == 1 and ended.counts["passed"] == ended.counts["skipped"] == 0
    assert "skipped under --require-gpu" in ended.said


@pytest.mark.slow
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
        ("stub", ["--no-skips", "--require-sim", "--require-compile"], None),
        ("stub", ["--require-stub"], "--require-stub"),
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
