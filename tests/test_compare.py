"""`make compare`: a slowed copy is found, an equal one is not, and what is wrong has no number."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import support

from benchmarks.revisions import compare, compare_kernels

# Echo that sleeps with messages of 64 bytes, and counts wrongly with messages of 128.
CHANGED = """
import time

class Block(Block):
    def step(self, count):
        if self.problem.bytes == 64:
            time.sleep(0.002)
        self.counters += self.problem.bytes == 128
        return (yield from super().step(count))
"""


def echo(size: int) -> compare.Case:
    """A short run of echo with messages of so many bytes."""
    words = ("echo", "--size", "8x6", "--bytes", size, "--steps", 30)
    return compare.Case(f"echo, {size} B", "messages", words)


@pytest.mark.slow
def test_a_slowed_copy_is_found(tmp_path):
    """Catches sides that run the same tree, a ratio upside down, and wrong runs with a number."""
    old = compare.side("old", compare.tree_of_work(tmp_path / "old" / "tree"))
    new = compare.side("new", compare.tree_of_work(tmp_path / "new" / "tree"))
    with (new.tree / "miniapps" / "echo" / "__init__.py").open("a") as file:
        file.write(CHANGED)
    found = compare.measure(old, new, [echo(64), echo(128)], trials=2)
    assert found["echo, 64 B"].result() == "**slower**"
    assert found["echo, 64 B"].ratio().value < 0.5
    assert found["echo, 128 B"].result().startswith("no number: new: status 1")


@pytest.mark.slow
def test_the_trees_are_those_of_git(tmp_path):
    """Catches removed files that stay in a side's tree, and compiled kernels thrown away."""
    tree = tmp_path / "tree"
    for stale in ("kernels/gone.py", "kernels/__pycache__/kept.nbi"):
        (tree / stale).parent.mkdir(parents=True, exist_ok=True)
        (tree / stale).touch()
    compare.tree_of_revision("HEAD", tree)
    assert (tree / "pyproject.toml").exists()
    assert not (tree / "kernels" / "gone.py").exists()
    assert (tree / "kernels" / "__pycache__" / "kept.nbi").exists()
    with pytest.raises(ValueError, match="REV nowhere: .*nowhere"):
        compare.tree_of_revision("nowhere", tree)


@pytest.mark.parametrize(
    ("new", "result"),
    [
        ([0.90, 0.91, 0.92, 0.90, 0.91], "**slower**"),
        ([0.90, 1.05, 0.92, 0.88, 1.02], "not shown to be slower"),
        ([0.98, 0.99, 0.98, 0.97, 0.99], ""),
        ([1.10, 1.12, 1.11, 1.10, 1.13], "faster"),
    ],
)
def test_results(new, result):
    """Catches a result on the ratio alone, without its interval, and one that is too strict."""
    assert compare.Measured("runs", [1.0] * 5, new).result() == result


class Canned(compare.Side):
    """A side whose runs print a record."""

    def output(self, words: Any) -> str:
        return (self.tree / "record.json").read_text()


def canned(folder: Path, name: str, **changed: Any) -> Canned:
    """A side whose record of a serial run is valid, but for what is changed."""
    record = {
        "driver": "serial",
        "valid": True,
        "state_hash": "a" * 64,
        "steps": 6,
        "first_step_at": 0.0,
        "rounds": {"count": [2, 2, 2], "wall_s": [0.2, 0.2, 2.0], "compute_s": [[0.1, 0.1, 1.0]]},
    }
    (folder / name).mkdir()
    (folder / name / "record.json").write_text(json.dumps(record | changed))
    return Canned(name, folder / name, Path("python"))


def test_rates(tmp_path):
    """Catches a mean where steps are alike, rounds counted as steps, and start-up counted in."""
    side = canned(tmp_path, "old")
    steady, state = compare.rates_of(side, compare.Case("a", "runs", ("jacobi2d",)), 1)
    assert steady == pytest.approx({"a": 10.0, "a, inside blocks": 20.0}) and state == "a" * 64
    uneven, _ = compare.rates_of(side, compare.Case("b", "runs", ("pic",), steady=False), 1)
    assert uneven == pytest.approx({"b": 6 / 2.4, "b, inside blocks": 6 / 1.2})


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"valid": False}, "no number: new: the run is not valid"),
        ({"rounds": {"seconds": []}}, "no number: a record has no 'wall_s'"),
        ({"state_hash": "b" * 64}, "no number: another state: aaaaaaaa before, bbbbbbbb now"),
    ],
)
def test_what_is_not_the_same_has_no_number(changed, why, tmp_path):
    """Catches a faster program that computes something else."""
    sides = canned(tmp_path, "old"), canned(tmp_path, "new", **changed)
    found = compare.measure(*sides, [compare.Case("a", "runs", ("jacobi2d",))], trials=2)
    assert found["a"].result() == why
    assert "old" not in compare.document("REV", 2, found)["cases"]["a"]
    assert why in compare.markdown(found)


def test_kernels_are_found_under_every_name(monkeypatch):
    """Catches a kernel that was renamed and would go without a number; and a missing one unsaid."""
    found = compare_kernels.rates(scale=16, repeats=1)
    assert len(found) == 9 and min(found.values()) > 0
    former = ModuleType("miniapps.kernels.former_cpu")
    former.sweep = object()
    monkeypatch.setitem(sys.modules, "miniapps.kernels.former_cpu", former)
    assert compare_kernels.kernel("former", "sweep") is former.sweep
    with pytest.raises(LookupError, match="no kernel leap of former"):
        compare_kernels.kernel("former", "leap")


def test_every_app_and_driver_is_compared():
    """Catches an app or driver that may become slower unseen."""
    words = [" ".join(map(str, case.words)) for case in compare.cases(2)]
    for app in support.apps.names():
        for driver in ("", "--driver mpi", "--driver charm"):
            assert any(line.startswith(app) and driver in line for line in words)
