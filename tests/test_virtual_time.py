"""Every time of a run against its value by hand: clocks are virtual, and known work moves them.

A small run is made in this process. Each piece of its work takes a number of seconds of its own, so
that no two mistakes give the same sum. The definitions are those of docs/timing.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import support
from support import record_of, small_problem, whole_record
from virtual_clocks import EPOCH_S, IMPORTED, Clock

from miniapps import apps
from miniapps.contract import Check, Measure
from miniapps.drivers import agreements, audits, checkpoints, job
from miniapps.drivers.agreements import End
from miniapps.drivers.engine import Transport
from miniapps.drivers.job import Job
from miniapps.drivers.machine import Disturbance
from miniapps.drivers.outcome import Outcome, Part, joined
from miniapps.drivers.timing import KIND_NAMES, LOAD, ROW, SENT, SIZE, SLICE, SYNC, PELog
from miniapps.grid_audit import GridAudit
from miniapps.grid_block import GridBlock
from miniapps.workbench.cli import spec_of
from miniapps.workbench.run import batch, clocks, launch, record
from miniapps.workbench.run.revalidation import MEASURED, contradiction, seen
from miniapps.workbench.show import trace
from miniapps.workbench.show.saved import SavedRun

COMPILING, BUILDING = 7.0, 32.0  # of a run, of a block
SWEEP = {(0, 0): 2.0, (1, 0): 3.0}  # of a block, per step
PACK, UNPACK, WAIT = 0.25, 0.125, 0.0625  # of a block, per round; WAIT: for its messages
BARRIER, SNAPSHOT, CHECKPOINT = 11.0, 13.0, 17.0
BEGIN_AUDIT, END_AUDIT = 0.5, 0.75  # of a block, per audited round
HASHING = 0.03125  # of a message that is sent or received, in an audited round
WORDS = "run jacobi2d --size 6x4 --pe-grid 2x1 --time-tile 1 --warmup 2 --steps 4"
CELLS = 6 * 4


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of all modules that read one, and work that moves it."""
    clock = Clock(1.0, monkeypatch.setattr)
    clock.install()
    monkeypatch.setattr(checkpoints, "perf_counter", clock)
    takes = clock.takes
    takes(job.kernels, "load", lambda app, device, _: COMPILING * (not clock.now % 1000))
    takes(Job, "build", lambda *_: BUILDING)
    takes(GridBlock, "faces", lambda *_: PACK)
    takes(GridBlock, "fill_ghosts", lambda *_: UNPACK)
    takes(GridBlock, "sweep_rest", lambda block, *_: SWEEP[block.index])
    takes(Transport, "collect", lambda *given: WAIT if given[-1] is not None else 0.0)
    takes(Transport, "barrier", lambda *_: BARRIER)
    takes(Job, "keep", lambda *_: SNAPSHOT)
    takes(checkpoints, "write_blocks", lambda *_: CHECKPOINT)
    takes(GridAudit, "begin", lambda *_: BEGIN_AUDIT)
    takes(GridAudit, "end", lambda *_: END_AUDIT)
    takes(audits.Witness, "_hash", lambda *_: HASHING)
    return clock


OWN = {index: sweep + PACK + UNPACK for index, sweep in SWEEP.items()}  # compute of a round
COMPUTE = sum(OWN.values())
WALL = COMPUTE + 2 * WAIT
EVERY = "--audit-every 1"  # audits all rounds
KEPT = f"{EVERY} --snapshot-every 2 --checkpoint"
PACKING = KIND_NAMES.index("pack")


def solved(words: str) -> dict[str, Any]:
    """The record of a run."""
    (result,) = batch.solve_all([spec_of(words.split())])
    assert isinstance(result, dict) and result["valid"], result
    return result


@pytest.mark.parametrize(
    "more", ["--audit 0", EVERY, f"{EVERY} --snapshot-every 2", "--trace", "--checkpoint", KEPT]
)
def test_times_of_a_run(more: str, clock: Clock, tmp_path: Path) -> None:
    """Catches a time of the record with too much in it, or too little."""
    begun = clock.now
    written = f"--checkpoint {tmp_path / 'saved.h5'} --checkpoint-every 2"
    more = more.replace("--checkpoint", written)
    result = solved(f"{WORDS} {more} --output {tmp_path / 'run.h5'}")
    assert result["rounds"]["wall_s"] == [WALL] * 4
    assert result["rounds"]["compute_s"] == [[COMPUTE] * 4]
    assert result["wall_s"] == 4 * WALL and result["compute_s"] == 4 * COMPUTE
    assert result["step_time_s"] == {"median": WALL, "min": WALL, "max": WALL}
    assert result["rate"] == {"value": CELLS / WALL, "unit": "points/s"}
    assert result["utilisation"] == COMPUTE / WALL and result["imbalance"] == 1.0
    assert (result["import_s"], result["jit_s"]) == (IMPORTED, COMPILING)
    # The last barrier, and what the audit of the last round takes, are after the last round.
    passed = 4 * WALL + result["audits_s"] + BARRIER
    passed += 0.0 if "--audit 0" in more else 2 * END_AUDIT
    assert result["clocks"] == {"passed_s": passed, "second_s": passed, "launch_s": None}
    assert result["first_step_at"] == EPOCH_S + begun + COMPILING + 2 * BUILDING
    # Snapshots are taken at steps 0, 2, 4 and 6, after the audits.
    taken = 4 * (SNAPSHOT + BARRIER)
    assert result["snapshots_s"] == (taken if "snapshot" in more else 0.0)
    # Checkpoints are written at steps 2, 4 and 6, by four tasks, each of which all wait for.
    written = 3 * (CHECKPOINT + 4 * BARRIER)
    assert result["checkpoints_s"] == (written if "checkpoint" in more else 0.0)
    assert result["checkpoints_written_s"] == (3 * CHECKPOINT if "checkpoint" in more else 0.0)
    assert result["checkpoints_waited_s"] == result["agreements_s"] == 0.0


class Postponed:
    """Takes the place of a thread: its work is done when it is waited for."""

    def __init__(self, target: Callable[..., None], daemon: bool, args: Any = ()) -> None:
        self.work: Callable[[], None] | None = lambda: target(*args)

    def start(self) -> None:
        """Do nothing yet."""

    def join(self, seconds: float | None) -> None:
        """Do the work, if it is waited for without a limit."""
        if seconds is None and self.work is not None:
            self.work()
            self.work = None

    def is_alive(self) -> bool:
        """Whether the work is still to be done."""
        return self.work is not None


def test_times_of_checkpoints_beside_the_steps(clock, tmp_path, monkeypatch):
    """Catches steps that pay for a checkpoint, and waits for an earlier one that no entry has."""
    monkeypatch.setattr(checkpoints, "Thread", Postponed)
    monkeypatch.setattr(agreements, "APART_S", 0.0)
    all_reduce = Transport.all_reduce

    def takes_a_second(*given: Any) -> Any:
        clock.now += 1.0
        return all_reduce(*given)

    monkeypatch.setattr(Transport, "all_reduce", takes_a_second)
    kept = f"--checkpoint {tmp_path / 'saved.h5'} --checkpoint-every 2 --checkpoint-async"
    result = solved(f"{WORDS} --audit 0 {kept}")
    # Those of steps 2 and 4 are awaited before the next one; that of step 6 is written at once.
    waited, at_once, copied = 2 * (CHECKPOINT + 4 * BARRIER), CHECKPOINT + 4 * BARRIER, 2 * BARRIER
    assert result["checkpoints_waited_s"] == waited
    assert result["checkpoints_written_s"] == 3 * CHECKPOINT
    # After steps 1 to 5 the PEs agree what they want, from the third on also whether all are ready.
    assert result["agreements_s"] == 5 + 3
    # Steps stand still from the end of a round on, also while the PEs agree when their clocks stop.
    assert result["checkpoints_s"] == waited + copied + at_once + (1 + 2) + 3
    assert result["wall_s"] == 4 * WALL + (2 + 2)


def test_wait_for_a_checkpoint_at_the_end(clock, tmp_path, monkeypatch):
    """Catches a checkpoint that is written after the last step, in time that no entry has."""
    monkeypatch.setattr(checkpoints, "Thread", Postponed)
    kept = f"--checkpoint {tmp_path / 'saved.h5'} --checkpoint-every 2 --checkpoint-async"
    result = solved(f"{WORDS} --audit 0 --tolerance 1e9 --check-every 5 {kept}")
    # It ends after step 5; the checkpoint of step 2 is awaited before that of step 4.
    assert result["steps"] == 3 and result["checkpoints_written_s"] == 2 * CHECKPOINT
    assert result["checkpoints_waited_s"] == 2 * (CHECKPOINT + 4 * BARRIER)


def test_blocks_that_run_ahead(clock: Clock) -> None:
    """Catches rounds that begin when a block begins them, and not when the last one has ended."""
    result = solved(f"{WORDS} --driver sim --sim-seed 3 --audit 0")
    assert result["wall_s"] == 4 * WALL and result["compute_s"] == 4 * COMPUTE
    assert sum(result["rounds"]["wall_s"]) == 4 * WALL


@pytest.mark.long
def test_time_of_audits(clock: Clock, tmp_path: Path) -> None:
    """Catches audits that count as steps or snapshots, or are those of rounds without times."""
    kept = f"{EVERY} --snapshot-every 2 --output {tmp_path / 'run.h5'}"
    none, every, kept = (solved(f"{WORDS} {more}") for more in ("--audit 0", EVERY, kept))
    # What the audit at a round's end takes delays the next round; nothing waits for the last one.
    # Both blocks send a message and receive one.
    assert every["audits_s"] == 2 * (4 * BEGIN_AUDIT + 3 * END_AUDIT + 4 * 2 * HASHING)
    assert none["audits_s"] == 0.0 and every["rounds"] == none["rounds"] == kept["rounds"]
    assert kept["audits_s"] == every["audits_s"]


def test_all_pes_begin_together(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a clock that starts, or goes on, before the last PE is there."""
    events: list[str] = []

    def note(owner: Any, name: str) -> None:
        right = getattr(owner, name)

        def noted(*arguments: Any) -> Any:
            events.append(name)
            return right(*arguments)

        monkeypatch.setattr(owner, name, noted)

    note(Transport, "barrier")
    note(PELog, "start")
    note(PELog, "stop")
    solved(WORDS)
    # The first start is that of a new log. Both phases, warm-up and timed, begin and end together.
    assert events == ["start", *["barrier", "start", "barrier", "stop"] * 2]


def test_times_in_the_file(clock: Clock, tmp_path: Path) -> None:
    """Catches times of blocks and slices that are another block's, or have another origin."""
    solved(f"{WORDS} --audit 0 --trace --output {tmp_path / 'run.h5'}")
    with h5py.File(tmp_path / "run.h5") as file:
        timing = {name: file["timing"][name][()] for name in ("blocks", "slices", "wall_s")}
    assert timing["wall_s"].tolist() == [WALL] * 4
    blocks, slices = timing["blocks"], timing["slices"]
    for number, own in enumerate(OWN.values()):
        mine = blocks[blocks["block"] == number]
        # Both pack; the second one finds the message of the first and sweeps; then the first does.
        ends = WALL * np.arange(1, 5) - (WAIT + OWN[0, 0] - PACK if number else 0)
        assert mine["compute_s"].tolist() == [own] * 4 and mine["end_s"].tolist() == ends.tolist()
        begins = WALL * np.arange(4) + number * PACK
        assert mine["begin_s"].tolist() == begins.tolist()
        pieces = slices[slices["block"] == number]
        lengths = pieces["end_s"] - pieces["begin_s"]
        packing = pieces["kind"] == PACKING
        assert lengths[packing].tolist() == [PACK] * 4
        assert pieces["begin_s"][packing].tolist() == begins.tolist()
        assert pieces["end_s"][~packing].tolist() == ends.tolist()
        assert lengths[~packing].sum() == 4 * (own - PACK)


@pytest.mark.long
def test_times_in_the_trace(clock: Clock, tmp_path: Path) -> None:
    """Catches a trace in another unit, an activity of another length, and a gap between two."""
    solved(f"{WORDS} --audit 0 --trace --output {tmp_path / 'run.h5'}")
    found = trace.trace(SavedRun.read(tmp_path / "run.h5"))["traceEvents"]
    spans = [event for event in found if event["ph"] == "X"]
    now, left = 0.0, iter(spans)
    for step in range(2, 6):
        for name, seconds, block in [
            ("pack", PACK, 0), ("pack", PACK, 1), ("wait", WAIT, None),
            ("compute", OWN[1, 0] - PACK, 1), ("wait", WAIT, None),
            ("compute", OWN[0, 0] - PACK, 0),
        ]:  # fmt: skip
            event = next(left)
            named = {} if block is None else {"block": f"block {block} ({block}, 0)", "step": step}
            assert (event["name"], event["args"]) == (name, named)
            assert (event["ts"], event["dur"]) == (1e6 * now, 1e6 * seconds)
            now += seconds
    assert now == 4 * WALL and not [*left]


def test_times_in_the_text(clock: Clock, tmp_path: Path) -> None:
    """Catches a unit, and a time that is another one, where a run is summed up."""
    result = solved(f"{WORDS} {EVERY} --snapshot-every 2 --output {tmp_path / 'run.h5'}")
    lines = [line.strip() for line in record.summary(result).splitlines()]
    first = next(number for number, line in enumerate(lines) if line.startswith("step"))
    assert lines[first : first + 3] == [  # on a busy machine more follows
        "step 5875 ms median (5875 to 5875), 4.085 points/s",
        "utilisation 97.9%, imbalance 1.000, compiling 7.00 s, imports 19.00 s",
        "snapshots 96 s, not timed",
    ]


# Second witnesses --------------------------------------------------------------------------------

PASSED = np.array([4 * WALL + BARRIER] * 2)
CONTRADICTIONS = {  # what a wrong program does to walls, compute and the two clocks; what is said
    "rounds longer than what passed": (2.0, 1.0, PASSED),
    "rounds shorter than what passed": (0.4, 0.4, PASSED),
    "two clocks": (1.0, 1.0, PASSED * (1.0, 1.5)),
    "compute longer than rounds": (1.0, 1.25, PASSED),
}


def outcome_by_hand() -> Outcome:
    """A run whose times agree."""
    right = support.solve("jacobi2d", small_problem(apps.load("jacobi2d")), (1, 1), 4).outcome
    walls, compute = np.full(4, WALL), np.full((1, 4), COMPUTE)
    return replace(right, wall_s=walls, compute_s=compute, passed_s=tuple(PASSED), audits_s=0.0)


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_times_that_contradict_each_other(name: str) -> None:
    """Catches a run that is valid though other clocks say that its times are wrong."""
    right = outcome_by_hand()
    assert clocks.checks(right) == [Check(clocks.NAME, 0.0, 0.0)]
    longer, more, passed = CONTRADICTIONS[name]
    walls, compute = longer * right.wall_s, more * right.compute_s
    wrong = replace(right, wall_s=walls, compute_s=compute, passed_s=tuple(passed))
    (check,) = clocks.checks(wrong)
    assert not check.ok and check.name == f"{clocks.NAME}: {name}"


def test_how_far_times_may_differ() -> None:
    """Catches a limit that is another one, and the CPU's for a GPU, whose clock the host sets."""
    right, own = outcome_by_hand(), 4 * WALL
    late = own + clocks.LATE * own + clocks.LATE_S
    for passed, cpu, gpu in [
        (own - 0.5, False, True), (own - 1.5, False, False),
        (late - 0.25, True, True), (late + 0.25, False, False),
    ]:  # fmt: skip
        for name, fine in ((None, cpu), ("a GPU", gpu)):
            run = replace(right, passed_s=(passed, passed), gpu=name)
            assert all(check.ok for check in clocks.checks(run)) == fine


def test_a_launch_that_was_shorter_than_its_rounds() -> None:
    """Catches times that the launching process knows to be wrong."""
    right = whole_record({"app": "jacobi2d", "steps": 4, "warmup": 0, "pes": 1, "odf": 1}, 2.0)
    right |= {"audits_s": 1.0, "clocks": {"passed_s": 9.0, "second_s": 9.0, "launch_s": None}}
    assert seen(right, 9.0) == right | {"clocks": right["clocks"] | {"launch_s": 9.0}}
    wrong = seen(right, 8.9)
    assert not wrong["valid"] and not wrong["checks"][-1]["ok"]
    assert "rounds longer than the launch" in wrong["checks"][-1]["name"]
    assert wrong.keys() & MEASURED.keys() == set()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"second_s": 2.0}, "two clocks"),
        ({"passed_s": 2e-3, "second_s": 2e-3}, "rounds longer than what passed"),
        ({"passed_s": 20.0, "second_s": 20.0}, "rounds shorter than what passed"),
        ({"launch_s": 0.4}, "rounds longer than the launch"),
    ],
)
def test_records_whose_clocks_do_not_fit(changed: dict[str, float], said: str) -> None:
    """Catches a record that was changed into other seconds, in which only its clocks differ."""
    right = record_of(spec_of("run jacobi2d --steps 4 --warmup 0".split()), 0.1)
    right |= {"audits_s": 0.1, "clocks": {"passed_s": 0.5, "second_s": 0.5, "launch_s": 9.0}}
    assert contradiction(right) is None
    found = contradiction(right | {"clocks": right["clocks"] | changed})
    assert found == f"contradicts itself: {clocks.NAME}: {said}"


def test_a_pe_of_a_record_that_computed_longer_than_its_rounds() -> None:
    """Catches the PE that computed least in its place, and kernels of a GPU, which may overlap."""
    words = "run jacobi2d --driver mpi -n 2 --steps 4 --warmup 0".split()
    rounds = {"first": [*range(4)], "count": [1] * 4, "wall_s": [0.1] * 4}
    rounds["compute_s"] = [[0.0] * 4, [0.15] * 4]
    more = {"compute_s": 0.6, "utilisation": 0.75, "imbalance": 2.0, "rounds": rounds}
    more["clocks"] = {"passed_s": 0.4, "second_s": 0.4, "launch_s": None}
    wrong = record_of(spec_of(words), 0.1, **more)
    said = f"contradicts itself: {clocks.NAME}: compute longer than rounds"
    assert contradiction(wrong) == said
    assert contradiction(wrong | {"device": "gpu"}) is None


def test_seconds_of_a_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a witness in another unit, which no run contradicts, and part of a launch."""
    now, seen = [5.0], {"passed_s": 7.0, "second_s": 7.0, "launch_s": None}

    def monitored(specs: Any, *given: Any) -> launch.Ended:
        now[0] += 7.5
        file = given[-1] / launch.record_name(0)
        file.write_text(json.dumps({"clocks": seen, "valid": False}))
        return launch.Ended(None, 0, 1, None)

    monkeypatch.setattr(launch, "_monitored", monitored)
    monkeypatch.setattr(launch, "monotonic", lambda: now[0])
    (found,), _ = launch.launch_to_end([None], [], None, stoppable=False)  # type: ignore[list-item]
    assert isinstance(found, dict) and found["clocks"] == seen | {"launch_s": 7.5}


WRONG_UNIT = """
from miniapps.drivers import outcome
right = outcome.wall_of_rounds
outcome.wall_of_rounds = lambda rows, rounds: 1000 * right(rows, rounds)
"""


@pytest.mark.slow
@pytest.mark.launch
@pytest.mark.parametrize("driver", ["mpi -n 2", "charm -n 2"])
def test_a_wrong_unit_is_not_valid(driver: str, tmp_path: Path) -> None:
    """Catches a driver that sends no second clock, and a wall time in another unit that passes."""
    environment = support.in_every_process(tmp_path, WRONG_UNIT)
    words = f"jacobi2d --size 64x64 --time-tile 1 --steps 200 --warmup 0 --driver {driver}"
    (right,), (wrong,) = (support.records_of([words], 60, env) for env in (None, environment))
    assert right["valid"] and right["clocks"]["launch_s"] > right["clocks"]["passed_s"] > 0.0
    assert not wrong["valid"]
    said = [check["name"] for check in wrong["checks"] if not check["ok"]]
    assert said == [f"{clocks.NAME}: rounds longer than what passed"]


# Several PEs -------------------------------------------------------------------------------------

BUSY = Disturbance(0.25, 8.0, 0.5)
IDLE = Disturbance(0.125, 16.0, 0.0625)


def test_parts_of_two_pes() -> None:
    """Catches a sum, a mean or a minimum over PEs where the largest counts, and the reverse."""
    words = WORDS.replace("--time-tile 1", "--time-tile 2").replace("--steps 4", "--steps 5")
    spec = spec_of([*words.split(), "--driver", "mpi", "-n", "2"])
    rows, syncs = two_pes()
    measures = {"words": Measure("sum", np.zeros(4, np.uint64))}
    empty = {"slices": SLICE, "messages": SENT, "sizes": SIZE, "loads": LOAD}
    nothing = {name: np.empty(0, dtype) for name, dtype in empty.items()}
    parts = [
        Part(
            tables={"blocks": rows[rows["pe"] == pe], "balancing": syncs[[pe]], **nothing},
            measures=measures, audits=[], jit_s=jit_s, first_step_at=at, passed_s=(12.0 + pe, 12.5),
            snapshots_s=kept, checkpoints_s=2 * kept, checkpoints_written_s=3 * kept,
            checkpoints_waited_s=4 * kept, agreements_s=np.array([kept, 12.0 - kept]),
            audit_s=audits, disturbance=disturbed, peak_rss_bytes=peak, staged_bytes=pe + 1,
        )
        for pe, jit_s, at, kept, audits, disturbed, peak in [
            (0, 3.0, 40.0, 5.0, {2: 1.0, 6: 0.25}, BUSY, 100),
            (1, 2.0, 50.0, 7.0, {2: 0.5, 6: 3.0}, IDLE, 300),
        ]
    ]  # fmt: skip
    outcome = joined(spec.job(), parts, End(7), {}, ("staged", "by hand"))
    # Rounds of 2, 2 and 1 steps end at 4, 8 and 12 s. The audits of the slowest PE take 1, 0 and
    # 3 s, but the last round is no shorter than its 4 s of compute.
    assert outcome.wall_s.tolist() == [3.0, 4.0, 4.0]
    assert outcome.audits_s == 1.0
    assert outcome.compute_s.tolist() == [[2.0, 1.0, 2.0], [1.0, 3.0, 4.0]]
    assert outcome.passed_s == (13.0, 12.5)
    assert (outcome.jit_s, outcome.first_step_at) == (3.0, 50.0)
    assert (outcome.snapshots_s, outcome.checkpoints_s) == (7.0, 14.0)
    assert (outcome.checkpoints_written_s, outcome.checkpoints_waited_s) == (21.0, 28.0)
    assert outcome.agreements_s == 5.0 + 5.0  # of PE 0, then of PE 1
    assert outcome.disturbance == Disturbance(0.25, 16.0, 0.5)
    assert (outcome.peak_rss_bytes, outcome.pes, outcome.steps_done) == (300, 2, 7)
    assert outcome.transport is None
    unusual = joined(spec.job(), parts, End(7), {}, ("x", "y"), ("staged", "by hand")).transport
    assert unusual == {"path": "staged", "reason": "by hand", "staged_bytes": 1 + 2}
    (balanced,) = outcome.balancing
    # The PE that came last waited 0.5 s, the other one 2 s: the balancing took 0.5 s.
    assert (balanced["step"], balanced["seconds"], balanced["moved"]) == (4, 0.5, 3)
    assert balanced["imbalance_before"] == 2 / ((2 + 1) / 2)
    assert balanced["imbalance_after"] == (3 + 4) / ((1 + 3 + 2 + 4) / 2)
    timing = record._timing(spec, outcome)
    assert timing["step_time_s"] == {"median": 2.0, "min": 1.5, "max": 4.0}
    assert timing["utilisation"] == 13 / (2 * 11)
    assert timing["imbalance"] == (2 + 3 + 4) / (13 / 2)
    assert timing["rate"]["value"] == 5 * CELLS / 11
    assert timing["migrations"] == 3


def two_pes() -> tuple[np.ndarray, np.ndarray]:
    """Rows of two PEs with a block each, in three rounds, and of a balancing before step 4."""
    ends = [(4.0, 2.0), (5.0, 8.0), (9.0, 12.0)]
    compute = [(2.0, 1.0), (1.0, 3.0), (2.0, 4.0)]
    rows = [
        (pe, pe, number, 0.0, ends[number][pe], compute[number][pe])
        for number in range(3)
        for pe in range(2)
    ]
    syncs = [(0, 4, 5.0, 7.0, 1), (1, 4, 7.0, 7.5, 2)]
    return np.array(rows, ROW), np.array(syncs, SYNC)
