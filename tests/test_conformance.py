"""The contract under every driver: right blocks get right answers, broken rules end the run.

The blocks are the toys in `toyapps`. tests/test_contract.py checks the pieces that drivers share.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import support

import miniapps
from miniapps.drivers import sim
from miniapps.workbench.cli import spec_of
from miniapps.workbench.run.batch import solve_all

HERE = {
    "serial": "--driver serial",
    **{f"sim, {order}": f"--driver sim --sim-order {order}" for order in sim.ORDERS},
}
GRIDS = ("1x1", "2x1", "1x2", "2x2", "3x2", "1x3")
LAUNCHED = (
    "--driver mpi -n 1",
    "--driver mpi -n 2",
    "--driver mpi -n 6 --pe-grid 3x2",
    "--driver file -n 2",
    "--driver charm -n 1 --odf 4",
    "--driver charm -n 2 --odf 1",
    "--driver charm -n 2 --odf 4 --balancer Rotate --lb-period 2",
)
# Serially on all grids, in each other order on two: where a block's two edges lead to the same one,
# and where they do not.
IN_ONE_PROCESS = [
    (driver, grid) for driver in HERE for grid in (GRIDS if driver == "serial" else ("2x1", "3x2"))
]
WAITS = "every block waits"
HANGS = "no progress"
LEFT = "never collected|late|another one must have come before it"
# What is said of each broken rule: by a driver with all blocks in one process, and by one that
# launches PEs, where it differs.
WRONG = {
    "collects_first": (WAITS, f"{HANGS}|{WAITS}"),
    "another_phase": (WAITS, f"{HANGS}|{LEFT}|{WAITS}"),
    "one_does_nothing": (f"{WAITS}|{LEFT}", f"{HANGS}|{LEFT}"),
    "one_does_not_reduce": (WAITS, f"{HANGS}|others wait for an AllReduce"),
    "one_reduces": (WAITS, f"{HANGS}|{LEFT}"),
    "another_operation": ("different operations", None),
    "another_size": ("different sizes", None),
    "exact_and_max": ("different operations", None),
    "exact_of_other_types": ("different operations, sizes or types", None),
    "exact_of_other_sizes": ("different sizes", None),
    "exact_sum_of_integers": ("TypeError: an exact sum is of float64", None),
    "requests_another": ("requests another one before the AllReduce that it has begun", None),
    "begins_two": ("begins another one before the AllReduce that it has begun", None),
    "only_begins": ("ends its round before the AllReduce that it has begun", None),
    "nonsense": ("yielded 'halo', which is no request", None),
    "never_collects": (LEFT, None),
    "posts_twice": ("arrived twice", None),
    "one_ends": ("some blocks report", HANGS),
    "raises": ("physics", None),
    "writes_after_posting": ("read-only", None),
    "posts_a_view": ("is a view of other memory", None),
    "posts_columns": ("must be a C-contiguous numpy array", None),
    "sums_of_floats": ("PostSum takes integers only", None),
    "sums_of_other_shapes": ("not as others", None),
    "sums_of_other_types": ("not as others", None),
    "sums_never_collected": (LEFT, None),
    "too_few_answers": ("forgets gave 0 answers to 1 tasks", None),
    "late_too_few_answers": (r"forgets gave \d answers to \d tasks", None),
}
# Not launched: found by code that all drivers share, and that another test shows they call.
SHARED = {
    *("writes_after_posting", "posts_columns", "sums_of_floats"),  # as `posts_a_view`
    "sums_of_other_types",  # as `sums_of_other_shapes`
    "too_few_answers",  # as `late_too_few_answers`
    "raises",  # test_failures.py
    *("requests_another", "begins_two", "only_begins"),  # as `raises`
    "exact_sum_of_integers",  # as `raises`
    # As `exact_of_other_types`, if MPI does not see it:
    *("another_size", "exact_and_max", "exact_of_other_sizes"),
}


@pytest.fixture(autouse=True)
def _toys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the toys an app like others, in this process and in those that it launches."""
    folder = support.toy_environment()
    monkeypatch.setattr(miniapps, "__path__", [*miniapps.__path__, *folder.values()])
    for name, value in folder.items():
        monkeypatch.setenv(name, value)


def solved(script: str, configuration: str, stall_s: float | None = None) -> Any:
    """The result of a few steps of a script: a record, or why the run failed."""
    words = f"run toys --script {script} --warmup 0 --steps 4 {configuration}"
    with support.pes_forked(words.split()):
        (result,) = solve_all([spec_of(words.split())], stall_s)
    return result


def test_every_script_is_expected_to_do_something() -> None:
    """Catches a script that no test runs."""
    from miniapps.toys import scripts

    assert {*scripts.RIGHT, "opposite_edges", *WRONG} == set(scripts.SCRIPTS)


@pytest.mark.slow
def test_snapshots_do_not_count_as_load(tmp_path: Path) -> None:
    """Catches snapshots that count in loads, or that cancel a load balancing.

    test_virtual_time.py and test_virtual_drivers.py have the times of snapshots and audits.
    """
    from miniapps.toys.problem import SlowSnapshots

    words = "--driver charm -n 2 --balancer Rotate --lb-period 2"
    record = solved("exchange", f"{words} --output {tmp_path / 'run.h5'}")
    assert record["valid"] and record["snapshots_s"] > 2 * SlowSnapshots.seconds
    assert record["compute_s"] < SlowSnapshots.seconds
    assert [entry["step"] for entry in record["lb"]] == [2]


def check_right(configuration: str) -> None:
    """Run all right scripts in one launch; all must have the bits of the reference."""
    from miniapps.toys.scripts import RIGHT

    words = [f"run toys --script {name} --warmup 0 --steps 4 {configuration}" for name in RIGHT]
    with support.pes_forked(configuration.split()):
        results = solve_all([spec_of(one.split()) for one in words])
    assert all(isinstance(result, dict) for result in results), results[-1]
    for name, record in zip(RIGHT, results, strict=True):
        assert record["valid"] is True, name
        assert record["steps"] == (3 if name == "ends_early" else 4), name


@pytest.mark.long
@pytest.mark.parametrize(("driver", "grid"), IN_ONE_PROCESS)
def test_right_blocks_in_one_process(driver: str, grid: str) -> None:
    """Catches a wrong answer, on grids in which a block meets another, or itself, at two edges."""
    check_right(f"{HERE[driver]} --pe-grid {grid}")


@pytest.mark.slow
@pytest.mark.launch
@pytest.mark.parametrize("configuration", LAUNCHED)
def test_right_blocks_launched(configuration: str) -> None:
    """Catches a wrong answer of a transport, and messages that come before a block has begun."""
    check_right(configuration)


@pytest.mark.slow
@pytest.mark.parametrize("configuration", [*HERE.values(), "--driver mpi -n 2"])
def test_toys_notice_swapped_edges(configuration: str) -> None:
    """Catches toys that do not look at what they are sent."""
    grid = "" if "mpi" in configuration else " --pe-grid 2x1"
    assert solved("opposite_edges", configuration + grid)["valid"] is False


@pytest.mark.timeout(20)
@pytest.mark.parametrize("script", WRONG)
@pytest.mark.parametrize("driver", HERE)
def test_broken_rules_in_one_process(driver: str, script: str) -> None:
    """Catches a rule that can be broken without an error, and deadlocks that hang."""
    line = solved(script, f"{HERE[driver]} --pe-grid 2x1")
    assert isinstance(line, str), "nothing was noticed"
    assert re.search(WRONG[script][0], line), line


@pytest.mark.launch
@pytest.mark.parametrize("script", [script for script in WRONG if script not in SHARED])
@pytest.mark.parametrize("configuration", ["--driver mpi -n 2", "--driver charm -n 2 --odf 2"])
def test_broken_rules_launched(configuration: str, script: str) -> None:
    """Catches a rule that only drivers in one process enforce."""
    line = solved(script, configuration, stall_s=1)
    assert isinstance(line, str), "nothing was noticed"
    assert re.search(WRONG[script][1] or WRONG[script][0], line), line
