"""Every time of launched runs against its value by hand: see `virtual_clocks`.

The same run under mpi, file and charm on two PEs has the same times, as each PE has a clock of its
own that waiting does not move. The definitions are those of docs/timing.md.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import h5py
import pytest
import support
from virtual_clocks import (  # the values; only `install` changes clocks
    AUDIT,
    BALANCING,
    BUILDING,
    COMPILING,
    EPOCH_S,
    IMPORTED,
    PACK,
    SNAPSHOT,
    SWEEP,
    UNIT,
    UNPACK,
)

from miniapps.drivers.timing import KIND_NAMES

WORDS = "jacobi2d --size 6x4 --pe-grid 2x1 --time-tile 1 --warmup 2 --steps 4 -n 2"
STEPS, CELLS = 4, 6 * 4
FAST, SLOW = (sweep + PACK + UNPACK for sweep in SWEEP.values())  # compute of the blocks, per step
(BEGIN, END) = AUDIT[1, 0]  # of the PE on which audits take longest, which is also the slow one
PACKING = KIND_NAMES.index("pack")
KINDS = {
    "plain": "--audit 0",
    "audited": "--audit-every 1",
    "kept": "--audit-every 1 --snapshot-every 2",
    "traced": "--audit 0 --trace",
    "balanced": "--audit 0 --balancer Rotate --lb-period 2",
}


@pytest.mark.slow
@pytest.mark.launch
@pytest.mark.parametrize("driver", ["mpi", "file", "charm"])
def test_times_of_launched_runs(driver: str, tmp_path: Path) -> None:
    """Catches times with too much in them, or too little, of another PE, or from another origin."""
    environment = support.in_every_process(tmp_path, "import virtual_clocks as v; v.install()")
    environment["PYTHONPATH"] += os.pathsep + str(Path(__file__).parent)
    kinds = [kind for kind in KINDS if kind != "balanced" or driver == "charm"]
    files = {kind: tmp_path / f"{kind}.h5" for kind in kinds}
    lines = [f"{WORDS} --driver {driver} {KINDS[kind]} --output {files[kind]}" for kind in kinds]
    records = dict(zip(kinds, support.records_of(lines, 120, environment), strict=True))
    assert all(record.get("valid") for record in records.values()), records
    for kind in PASSED:
        timed(kind, records[kind])
        rows_of_blocks(files[kind])
    first = records["plain"]  # of the launch, so its clocks began at 1000
    assert first["first_step_at"] == EPOCH_S + 1000 + UNIT * (COMPILING + max(BUILDING.values()))
    # At steps 0, 2, 4 and 6, after the audits.
    assert records["kept"]["snapshots_s"] == UNIT * 4 * SNAPSHOT[1]
    assert records["audited"]["snapshots_s"] == 0.0
    rows_of_slices(files["traced"])
    if driver == "charm":
        balanced(records["balanced"])


PASSED = {  # by the two other clocks, without snapshots
    "plain": STEPS * SLOW,
    "traced": STEPS * SLOW,
    "audited": STEPS * (SLOW + BEGIN + END),
    "kept": STEPS * (SLOW + BEGIN + END),
}
AUDITS = dict.fromkeys(("audited", "kept"), STEPS * BEGIN + 3 * END)


def timed(kind: str, record: dict[str, Any]) -> None:
    """Compare the times of a record."""
    assert record["rounds"]["wall_s"] == shown([SLOW] * STEPS)
    assert record["rounds"]["compute_s"] == [shown([one] * STEPS) for one in (FAST, SLOW)]
    assert record["wall_s"] == UNIT * STEPS * SLOW
    assert record["compute_s"] == UNIT * STEPS * (FAST + SLOW)
    assert record["step_time_s"] == dict.fromkeys(("median", "min", "max"), UNIT * SLOW)
    assert record["rate"]["value"] == pytest.approx(CELLS / (UNIT * SLOW), rel=1e-15)
    assert record["utilisation"] == (FAST + SLOW) / (2 * SLOW)
    assert record["imbalance"] == pytest.approx(SLOW / ((FAST + SLOW) / 2), rel=1e-15)
    assert (record["import_s"], record["jit_s"]) == (UNIT * IMPORTED, UNIT * COMPILING)
    assert record["audits_s"] == UNIT * AUDITS.get(kind, 0.0)
    seen = record["clocks"]
    assert seen["passed_s"] == seen["second_s"] == UNIT * PASSED[kind]
    assert seen["launch_s"] > seen["passed_s"]


def rows_of_blocks(path: Path) -> None:
    """Compare the walls of rounds and the compute of blocks in a file."""
    with h5py.File(path) as file:
        assert file["timing/wall_s"][()].tolist() == [UNIT * SLOW] * STEPS
        rows = file["timing/blocks"][()]
    for number, own in enumerate((FAST, SLOW)):
        mine = rows[(rows["block"] == number) & (rows["pe"] == number)]
        assert mine["compute_s"].tolist() == [UNIT * own] * STEPS


def rows_of_slices(path: Path) -> None:
    """Compare when blocks began and ended, and their slices, in the file of a traced run."""
    with h5py.File(path) as file:
        blocks, slices = file["timing/blocks"][()], file["timing/slices"][()]
    for number, own in enumerate((FAST, SLOW)):
        mine = blocks[blocks["block"] == number]
        ends = [UNIT * own * (at + 1) for at in range(STEPS)]
        assert mine["end_s"].tolist() == ends and mine["begin_s"].tolist() == [0.0, *ends[:-1]]
        some = slices[slices["block"] == number]
        lengths = some["end_s"] - some["begin_s"]
        assert lengths[some["kind"] == PACKING].tolist() == [UNIT * PACK] * STEPS
        assert lengths.sum() == UNIT * STEPS * own


def balanced(record: dict[str, Any]) -> None:
    """Compare the times of a run in which the blocks change places after two steps."""
    (entry,) = record["lb"]
    assert (entry["step"], entry["moved"]) == (4, 2)
    assert entry["seconds"] == UNIT * min(BALANCING.values())
    assert entry["imbalance_before"] == pytest.approx(2 * SLOW / (FAST + SLOW), rel=1e-15)
    # The slow block is on the first PE now. Rounds end with the last block, after its PE's wait.
    third = BALANCING[1] + FAST
    assert record["rounds"]["wall_s"] == shown([SLOW, SLOW, third, FAST])
    first, second = [FAST, FAST, SLOW, SLOW], [SLOW, SLOW, FAST, FAST]
    assert record["rounds"]["compute_s"] == [shown(first), shown(second)]


def shown(units: list[float]) -> list[float]:
    """Times in seconds, as records have those of rounds."""
    return [float(f"{UNIT * one:.6g}") for one in units]
