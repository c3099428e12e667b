"""Wall, compute and imbalance, against rows worked out by hand."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from miniapps import apps
from miniapps.devices.cpu import host_memory
from miniapps.drivers import machine, timing
from miniapps.drivers.descriptor import Balancing
from miniapps.drivers.job import Job, Segment
from miniapps.drivers.timing import ROW, compute_per_pe, imbalance, paid_after, wall_of_rounds
from miniapps.workbench.run.output import Hdf5Store
from miniapps.workbench.show.thumbnails import Thumbnails


def two_pes() -> np.ndarray:
    """Two PEs with a block each, three rounds: PE 0 is late in round 0, PE 1 in round 1."""
    return np.array(
        [
            # block, pe, round, begin, end, compute
            (0, 0, 0, 0.0, 3.0, 3.0),
            (1, 1, 0, 0.0, 1.0, 1.0),
            (0, 0, 1, 3.0, 4.0, 1.0),
            (1, 1, 1, 1.0, 5.0, 3.0),
            (0, 0, 2, 4.0, 6.0, 1.0),
            (1, 1, 2, 5.0, 6.5, 1.0),
        ],
        ROW,
    )


def test_walls_add_up_to_the_time_that_passed() -> None:
    """Catches a maximum over each PE's own walls: 3 + 4 + 2 s here, of which 2.5 s never passed."""
    np.testing.assert_allclose(wall_of_rounds(two_pes(), 3), [3.0, 2.0, 1.5])


def test_no_wall_is_below_zero() -> None:
    """Catches a round that takes less than no time, as a block of an earlier one ended later."""
    rows = two_pes()[[0, 1, 2, 4, 5]]  # block 1 exists in rounds 0 and 2 only
    rows["end_s"][1] = 4.5
    np.testing.assert_allclose(wall_of_rounds(rows, 3), [4.5, 0.0, 2.0])


def test_compute_belongs_to_the_pe_that_did_it() -> None:
    """Catches blocks that are added to a wrong PE or round, and a block that moved."""
    rows = two_pes()
    rows["pe"][4] = 1  # block 0 has moved: PE 0 is empty in round 2
    np.testing.assert_allclose(compute_per_pe(rows, 2, 3), [[3, 1, 0], [1, 3, 2]])


def test_imbalance_is_the_slowest_pe_over_the_mean_round_by_round() -> None:
    """Catches totals: both PEs compute 5 s in all, and yet wait for each other."""
    compute = compute_per_pe(two_pes(), 2, 3)
    assert imbalance(compute) == pytest.approx((3 + 3 + 1) / (2 + 2 + 1))
    assert imbalance(np.zeros((2, 3))) == 1.0


def test_waits_for_a_balancing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches the first block to wait for the last, the last to continue for the first."""
    now = [100.0]
    monkeypatch.setattr(timing, "perf_counter", lambda: now[0])
    log = timing.PELog(3)
    for now[0] in (101.0, 103.0):
        log.begin_wait(4)
    for now[0], came in ((107.0, True), (108.0, False), (109.0, True)):
        log.end_wait(4, came)
    assert log.tables()["balancing"].tolist() == [(3, 4, 3.0, 7.0, 2)]


@pytest.mark.parametrize(
    "reads",
    [
        timing.PELog.last_end,
        timing.PELog.computed,
        timing.PELog.tables,
        lambda log: log.messages({"there": 4, "beyond": 5}),
    ],
)
def test_rounds_of_a_device_that_lags(reads: Callable[[timing.PELog], Any]) -> None:
    """Catches a round that is read while the device works, twice or never, and lost messages."""
    marks: list[Any] = []
    device: Any = SimpleNamespace(read=lambda found: marks.append(found) or found)
    log = timing.PELog(1)
    log.origin = 10.0
    for number in range(3):
        compute: Any = 11.0 + number, 11.5 + number, 0.25
        sent: Any = [("there", 8), ("beyond", 1), ("there", 16)]
        stepper: Any = SimpleNamespace(lag=2, spans=partial(
            timing.Spans, device, 0.0, 0.0, compute, 0.5, [], sent))  # fmt: skip
        log.add(7, number, stepper)
        assert len(marks) == max(0, number - 1)
    reads(log)
    assert len(marks) == 3 and not log.running and log.last_end() == 3.5
    assert log.rows == [(7, 1, n, 1.0 + n, 1.5 + n, 0.75) for n in range(3)]
    rows = log.messages({"there": 4, "beyond": 5}).tolist()
    assert rows == [row for n in range(3) for row in ((7, 4, n, 2, 24), (7, 5, n, 1, 1))]


def test_loads_for_a_balancer() -> None:
    """Catches loads with rounds before the last balancing, or before the start of timing."""
    log = timing.PELog(1)
    for rounds in ((2.0, 3.0), (5.0,)):
        log.rows += [(n, 1, 0, 0.0, 9.0, s + n) for s in rounds for n in (0, 1)]
        assert log.computed() == {n: sum(rounds) + n * len(rounds) for n in (0, 1)}
    for step in (4, 8):
        log.note_loads(step, [(1, 0.5), (0, 2.0)])
    rows = [(1, step, *load) for step in (4, 8) for load in ((1, 0.5), (0, 2.0))]
    assert log.tables()["loads"].tolist() == rows
    log.end_s = 9.0
    log.start()
    assert log.last_end() == 0.0 and not len(log.tables()["loads"])
    log.rows += [(0, 1, 0, 0.0, 0.0, 6.0)]
    assert log.computed() == {0: 6.0}


def test_what_load_balancing_steps_gain() -> None:
    """Catches the fastest PE for the slowest, rounds of another balancing, the longest wait."""
    rounds = [(0, 2), (2, 1), (3, 1), (4, 1), (5, 1)]
    compute = np.array([[8.0, 1.0, 1.0, 1.0, 3.0], [6.0, 1.0, 0.5, 1.0, 0.0]])
    syncs = np.array(
        [
            # pe, step, begin, end, came; at the second one PE 0 had no block, at the third none had
            (0, 2, 4.0, 12.0, 1),
            (1, 2, 2.0, 7.0, 2),
            (0, 4, np.inf, 5.0, 0),
            (1, 4, 6.0, 6.5, 0),
            (0, 5, np.inf, 5.0, 0),
            (1, 5, 6.0, np.inf, 0),
        ],
        timing.SYNC,
    )
    # The first one costs 5 s. A step takes 4 s before it, in a round of two, and 1 s after it.
    names = "step", "moved", "imbalance_before", "imbalance_after", "seconds", "paid_after"
    wanted = [
        (2, 3, 8 / 7, 2 / 1.75, 5.0, 2),
        (4, 0, 2 / 1.75, 1.0, 0.5, None),
        (5, 0, 1.0, 2.0, 0.0, None),
    ]
    found = timing.balancing_summary(rounds, syncs, compute)
    assert found == [dict(zip(names, entry, strict=True)) for entry in wanted]


def test_when_a_balancing_has_paid() -> None:
    """Catches steps that are counted in rounds, and a cost that is never paid back."""
    slowest, counts = np.array([1.0, 1.0, 2.0, 0.5]), np.array([1, 1, 2, 1])
    # 1.5 s per step before: it saves 0.5, 0.5, 1.0 and 1.0 s
    assert paid_after(0.4, 1.5, slowest, counts) == 1
    assert paid_after(1.0, 1.5, slowest, counts) == 2
    assert paid_after(1.1, 1.5, slowest, counts) == 4
    assert paid_after(3.1, 1.5, slowest, counts) is None
    assert paid_after(0.1, 1.0, slowest, counts) == 5
    assert paid_after(0.1, 0.5, slowest, counts) is None


@pytest.mark.parametrize(
    ("period", "first", "due"),
    [
        (4, None, [4, 8, 12]),
        (4, 1, [1, 5, 9, 13]),
        (4, 6, [6, 10]),
        (4, 9, [9, 13]),
        (20, 3, [3]),
        (0, None, []),
    ],
)
def test_when_load_balancing_steps_are_due(period: int, first: int | None, due: list[int]) -> None:
    """Catches a first balancing that comes with the period, and periods counted from step 0."""
    balancing = Balancing(None, period, first)
    assert [step for step in range(1, 14) if balancing.due(step - 1, step)] == due
    rounds = [(before, before + 3) for before in range(0, 12, 3)]
    late = [next(step for _, step in rounds if step >= asked) for asked in due if asked <= 12]
    assert [step for before, step in rounds if balancing.due(before, step)] == late


def test_disturbance_by_hand() -> None:
    """Catches a share of another time, nanoseconds as seconds, and ticks of one core as of all."""
    before = machine.Reading(10.0, 1.0, 2.0, 100, 7, 1000)
    after = machine.Reading(14.0, 5.0, 3.0, 180, 12, 1050)
    assert machine.disturbance(before, after) == machine.Disturbance(0.25, 20.0, 0.1)
    late = after._replace(queued_s=9.0)
    assert machine.disturbance(before, late).waited == 1.0


def test_counters_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches the time on a core as that in the queue, ns as us, and another column as steal."""
    files = {
        "/proc/stat": "cpu  1 20 300 4000 50000 600000 7000000 80000000 9 9\ncpu0 5 5 5 5 5 5 5\n",
        "/proc/self/schedstat": "7000000000 2500000000 40\n",
    }
    monkeypatch.setattr(machine.system, "text", files.__getitem__)
    usage = SimpleNamespace(ru_nvcsw=3, ru_nivcsw=11)
    monkeypatch.setattr(machine.resource, "getrusage", {resource.RUSAGE_SELF: usage}.__getitem__)
    found = machine.reading()
    assert (found.queued_s, found.switches) == (pytest.approx(2.5), 11)
    assert (found.steal, found.ticks) == (80_000_000, 87_654_321)
    monkeypatch.setattr(machine.system, "text", lambda path: "")
    assert machine.reading()[2:] == (0.0, 11, 0, 0)


def test_peak_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches kibibytes as bytes, and the memory of now as the most that there was."""
    status = "VmPeak:\t 9 kB\nVmHWM:\t    2000 kB\nVmRSS:\t  1000 kB\n"
    monkeypatch.setattr(host_memory.system, "text", lambda path: status)
    assert host_memory.peak_bytes() == 2000 * 1024


def test_shared_memory_without_a_size(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Catches a file system of no size, as large as the memory, that counts as full."""
    usage = SimpleNamespace(total=0, used=0, free=0)
    monkeypatch.setattr(host_memory.shutil, "disk_usage", lambda _: usage)
    assert host_memory.shared_bytes_free(tmp_path) == host_memory.memory_bytes()
    usage.total = 4096
    assert host_memory.shared_bytes_free(tmp_path) == 0
    assert host_memory.shared_bytes_free(tmp_path / "absent") == 0


def test_when_a_pe_has_rested(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches time after a PE's last audit as part of a round, and audits made before its end."""
    log = timing.PELog(0)
    log.origin, log.end_s = 10.0, 5.0
    for now, rested in ((20.0, 7.0), (16.5, 6.5)):
        monkeypatch.setattr(timing, "perf_counter", lambda now=now: now)
        assert log.rested(2.0) == rested


def test_a_program_on_the_same_core_is_seen() -> None:
    """Catches times that another program made longer, and nothing says so."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        before = machine.reading()
        while time.perf_counter() - before.now_s < 0.5:
            pass
        found = machine.disturbance(before, machine.reading())
    finally:
        other.kill()
        other.wait()
        os.sched_setaffinity(0, cores)
    assert 0.2 < found.waited <= 1 and found.switches_per_s > 5 and 0 <= found.steal < 1


def test_a_run_without_snapshots_begins_at_once() -> None:
    """Catches a walk over all rounds before the first step, which takes a day for 10^12 of them."""
    store = Hdf5Store(Path("unused.h5"), (Thumbnails(0, (8, 8)),))
    problem = apps.load("echo").Problem()
    layout = problem.cut(1, 1, None)
    job = Job("echo", problem, layout, 10**12, 10**12, store=store)
    assert list(job.segments(0, 10**12)) == [Segment(0, 10**12, 10**12)]
    job = replace(job, store=replace(store, writers=(Thumbnails(5, (8, 8)),)))
    first, second = islice(job.segments(0, 10**12), 2)
    assert first == Segment(0, 5, 10**12, 0, 4) and second == Segment(5, 10, 10**12, 5, 9)
