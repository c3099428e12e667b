"""Communication benchmarks: every one is made and checked, and every fault in one is caught."""

from __future__ import annotations

import importlib
import json
import math
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.metadata import distribution
from itertools import pairwise
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import canned_comm
import numpy as np
import pytest
import support
from canned_comm import spec_of
from figure_faults import faults

from miniapps import communication
from miniapps.communication import actions, session, timing
from miniapps.communication.actions import TOUCHES, Call, Touch, Window
from miniapps.communication.buffers import KINDS, Data, kind_of
from miniapps.communication.catalogue import CATALOGUE, OVERLAP, RATE
from miniapps.communication.movement import EVERYONE, MOVEMENTS, Block, Place
from miniapps.communication.pattern import difference, expected, sent
from miniapps.communication.progress import Progress
from miniapps.communication.session import CHECKED, Session
from miniapps.communication.settings import Percentiles, Settings, Span
from miniapps.communication.timing import Overlap, Sample, Times, joined, overlap_percent
from miniapps.drivers.machine import Disturbance
from miniapps.parameters import InputError
from miniapps.workbench.cli import main
from miniapps.workbench.comm import compare, execute, results, text, variants
from miniapps.workbench.comm.spec import CommSpec
from miniapps.workbench.exit_status import VALID
from miniapps.workbench.show import comm_figure

TINY = ("-m", "16:64", "-i", 20, "-x", 2, "--trials", 2)


def test_patterns_depend_on_everything() -> None:
    """Catches a stale, misrouted or doubled message that has the bytes of the right one."""
    block = Block((0,), 1, 64, 2)
    others = [
        (1, block, 0),
        (0, block._replace(to=0), 0),
        (0, block._replace(to=EVERYONE), 0),
        (0, block._replace(slot=1), 0),
        (0, block._replace(size=65), 0),
        (0, block, 1),
    ]
    right = sent(0, block, 0)
    assert right.size == 64 and np.unique(right).size > 32
    for other in others:
        assert np.count_nonzero(sent(*other)[:64] == right) < 8, other
    assert np.array_equal(sent(0, block, 0), right)


def test_sums_are_those_of_numpy() -> None:
    """Catches an expected sum that misses a rank or does not wrap."""
    block = Block((0, 1, 2), EVERYONE, 16)
    words = [sent(rank, block, 5).view("u4").astype(object) for rank in range(3)]
    total = [int(a + b + c) % 2**32 for a, b, c in zip(*words, strict=True)]
    assert expected(block, 5).view("u4").tolist() == total
    added = [int(4 * a + b + c) % 2**32 for a, b, c in zip(*words, strict=True)]
    assert expected(block, 5, times=4).view("u4").tolist() == added


def test_a_difference_names_the_first_wrong_byte() -> None:
    """Catches a check that ignores the length, or reports another byte."""
    right = np.arange(8, dtype=np.uint8)
    wrong = right.copy()
    wrong[[5, 6]] = 0xFF
    assert difference(right.copy(), right) is None
    assert difference(wrong, right) == "has 0xff in byte 5 of 8, must have 0x05"
    assert difference(right[:7], right) == "has 7 B, must have 8"
    long = np.zeros(1 << 20, np.uint8)
    for place in (0, 64, 8192, long.size - 1):
        wrong = long.copy()
        wrong[place] = 1
        assert difference(wrong, long) == f"has 0x01 in byte {place} of 1048576, must have 0x00"


@pytest.mark.parametrize("movement", MOVEMENTS)
@pytest.mark.parametrize("ranks", [2, 4, 5])
def test_what_is_received_is_what_is_sent(movement: str, ranks: int) -> None:
    """Catches a benchmark that expects a message which no rank sends, or ignores one."""
    pairs = any(made.movement == movement and made.ranks == "pairs" for made in CATALOGUE.values())
    if pairs and ranks != 2 and (ranks % 2 or movement not in ("ping_pong", "stream", "both_ways")):
        return
    moved = [MOVEMENTS[movement](Place(rank, ranks, 44, 3)) for rank in range(ranks)]
    parts = [
        (source, block.to, block.size, block.slot)
        for rank in moved
        for block in rank.receives
        for source in block.sources
    ]
    given = {
        (source, block.to, block.size, block.slot)
        for rank in moved
        for block in (*rank.sends, *rank.adds_to)
        for source in block.sources
    }
    assert {*parts} == given


def sample(mean_us: float, touch_us: float = 0.0, overlap: Overlap | None = None) -> Sample:
    """What a rank has measured, by hand; timing a touch adds a tenth of it."""
    each = np.array([mean_us - 1, mean_us + 1]) * 1e-6
    return Sample(Times(mean_us * 1e-6, each), touch_us * 1e-6, touch_us * 1e-7, overlap)


def at_once(us: float) -> Times:
    """Iterations of a collective and work at once, half of which took 1 us more, half 1 us less."""
    return Times(us * 1e-6, np.array([us - 1, us + 1]) * 1e-6)


def test_times_become_the_numbers_of_omb() -> None:
    """Catches a round trip that is not halved, a rank that is not counted, a wrong unit."""
    latency = joined(CATALOGUE["latency"], 8, 1, [sample(20, 2), sample(99, 4)], (0, 100))
    assert latency["value"] == pytest.approx(6.7) and latency["touch_us"] == pytest.approx(3)
    assert latency["percentiles"] == pytest.approx([6.2, 7.2])
    touched = joined(CATALOGUE["bw"], 1000, 10, [sample(20, 30), sample(99, 50)], ())
    assert touched["value"] == pytest.approx(500) and touched["touch_us"] == pytest.approx(8)
    rate = joined(CATALOGUE["bw"], 1000, 10, [sample(20), sample(99)], ())
    assert rate["value"] == pytest.approx(10 * 1000 / 20)
    both = joined(CATALOGUE["bibw"], 1000, 10, [sample(20), sample(99)], ())
    assert both["value"] == pytest.approx(2 * 10 * 1000 / 20)
    four = [sample(20), sample(40), sample(99), sample(99)]
    many = joined(CATALOGUE["mbw_mr"], 1000, 10, four, ())
    assert many["value"] == pytest.approx(10_000 / 20 + 10_000 / 40)
    assert many["messages_per_s"] == pytest.approx(10 / 20e-6 + 10 / 40e-6)
    every = joined(CATALOGUE["allreduce"], 8, 1, [sample(10, 5), sample(30, 5)], ())
    assert [every[key] for key in ("value", "least", "most")] == pytest.approx([20, 10, 30])
    assert every["touch_us"] == pytest.approx(5)


def test_overlap_is_the_formula() -> None:
    """Catches an overlap below 0 or above 100 %, and one relative to the wrong time.

    And percentiles of other times than those whose mean is reported.
    """
    assert overlap_percent(10, 10, 20) == 0
    assert overlap_percent(10, 10, 10) == 100
    assert overlap_percent(10, 20, 25) == pytest.approx(50)
    assert overlap_percent(20, 10, 25) == pytest.approx(50)
    assert overlap_percent(10, 10, 5) == 100 and overlap_percent(10, 10, 50) == 0
    parts = Overlap(10e-6, 10e-6, at_once(14), 3e-6, 1e-6)
    found = joined(CATALOGUE["ibcast"], 8, 1, [sample(10, overlap=parts)] * 2, (0, 100))
    assert (found["value"], found["overlap_percent"]) == pytest.approx((14, 60))
    assert found["percentiles"] == pytest.approx([13, 15])


def test_limits_of_what_is_measured() -> None:
    """Catches a division by 0, a rate of no time, and the slowest rank as the fastest."""
    assert overlap_percent(0, 10, 10) == 0 and overlap_percent(0.5, 0.5, 0.75) == 50
    rates = joined(CATALOGUE["mbw_mr"], 1000, 1, [sample(20), sample(40), *[sample(9)] * 2], ())
    assert (rates["least"], rates["most"]) == pytest.approx((25, 50))
    still = joined(CATALOGUE["bw"], 1000, 1, [sample(0), sample(9)], ())
    assert math.isnan(still["value"]) and math.isnan(still["messages_per_s"])
    parts = [Overlap(1e-6, 1e-6, at_once(overall), 1e-6, 1e-6) for overall in (4, 2, 3)]
    found = joined(CATALOGUE["ibcast"], 8, 1, [sample(1, overlap=part) for part in parts], ())
    assert [found[key] for key in ("value", "least", "most")] == pytest.approx([3, 2, 4])


def test_work_lasts_as_long_as_it_should(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches work that grows to infinity, that is timed cold, or by its last length."""
    work = timing.Work()
    work()
    assert {*work.values} == {1.0} and work.count == timing.CALIBRATED
    now, made = [0.0], []

    def multiply(*_: Any, out: Any) -> None:
        now[0] += 0.125
        made.append(out)

    monkeypatch.setattr(timing.np, "multiply", multiply)
    monkeypatch.setattr(timing, "perf_counter", lambda: now[0])
    for seconds, count in ((5.0, 40), (10.0, 80), (0.0, 1)):
        made.clear()
        work.last(seconds)
        assert work.count == count and len(made) == 2 * timing.CALIBRATED
        made.clear()
        work()
        assert len(made) == count


def test_each_iteration_says_that_it_goes_on() -> None:
    """Catches a benchmark that is taken for one that hangs, and iterations that are not apart."""
    said: list[str] = []

    def note(word: str) -> Callable[[], None]:
        return lambda: said.append(word)

    timing.timed([note("call")], 3, 2, note("between"), note("heartbeat"))
    assert said == ["call", "call", "heartbeat", "between", "call", "heartbeat", "between"]
    said.clear()
    split: Any = SimpleNamespace(start=note("start"), wait=lambda _: said.append("wait"))
    work: Any = note("work")
    timing.overlapped(split, work, 2, note("between"), note("heartbeat"))
    assert said == ["start", "work", "wait", "heartbeat", "between"] * 2


# Parsers of OMB's output, as others have written them: they skip comments, and split at spaces.
NUMBER = r"(?:\d+\.\d+|nan)"


def parsed(output: str) -> tuple[str, list[list[float]]]:
    """The first line, and the numbers of the others."""
    lines = output.splitlines()
    rows = [line.split() for line in lines if line and not line.startswith("#")]
    for line in lines:
        assert line.startswith("#") or re.fullmatch(rf"(\d+|)(\s+({NUMBER}|\d+))+", line), line
    return lines[0], [[float(word) for word in row] for row in rows]


@pytest.mark.slow
@pytest.mark.launch
def test_the_command_prints_what_parsers_of_omb_read(tmp_path: Path) -> None:
    """Catches a heading or a line of numbers that programs for OMB's output do not find."""
    files = ("--json", tmp_path / "one.json", "--csv", tmp_path / "one.csv")
    done = support.in_process("comm", "latency", *TINY, *files, check=True)
    first, rows = parsed(done.stdout)
    assert first == "# OMB Python MPI Latency Test"
    assert done.stdout.splitlines()[1] == "# Size (B)      Latency (us)"
    assert [row[0] for row in rows] == [16, 32, 64] and all(row[1] > 0 for row in rows)
    assert re.search(r"^16 {8} *\d+\.\d\d$", done.stdout, flags=re.M)
    record = json.loads((tmp_path / "one.json").read_text())
    assert record["valid"] is True and record["pes"] == 2
    assert record["versions"]["mpi"] and record["versions"]["mpi_thread_level"] == "multiple"
    assert record["barrier_us"] > 0 and len(record["measured"]) == 6
    order = [one["size"] for one in record["measured"]]
    assert sorted(order[:3]) == sorted(order[3:]) == [16, 32, 64]
    for row, found in zip(rows, record["results"], strict=True):
        assert row[1] == pytest.approx(found["value"], abs=0.006)
        assert found["low"] <= found["value"] <= found["high"]
    table = (tmp_path / "one.csv").read_text().splitlines()
    assert table[0].startswith("benchmark,driver,pes,buffer,pickle,touch,method,unit,size,")
    assert len(table) == 4 and table[1].startswith("latency,mpi,2,numpy,,none,,us,16,20,")


@pytest.mark.parametrize("name", ["latency", "bw", "allreduce", "acc_latency"])
@pytest.mark.parametrize("buffer", ["bytearray", "numpy"])
def test_memory_of_messages_begins_with_other_bytes(name: str, buffer: str) -> None:
    """Catches a message that was not sent, whose memory has the right byte by chance.

    And another kind of buffer than the one that is named.
    """
    made = CATALOGUE[name]
    moved = MOVEMENTS[made.movement](Place(1, 2, 16, 3))
    data = Data(made, moved, kind_of(buffer, made.reduces and buffer == "numpy", 0))
    assert type(data.sending) is {"bytearray": bytearray, "numpy": np.ndarray}[buffer]
    for iteration in range(CHECKED):
        for part, block in zip(data.receives, moved.receives, strict=True):
            data.kind.write(part, expected(block, iteration))
        session.fill(data, iteration)
        for part, block in zip(data.sends, moved.sends, strict=True):
            assert np.array_equal(data.kind.read(part), sent(1, block, iteration))
        for part, block in zip(data.receives, moved.receives, strict=True):
            found = data.kind.read(part)
            assert (found != expected(block, iteration)).all()
            if moved.adds_to:
                assert np.array_equal(found, sent(1, moved.adds_to[0], iteration))


class Receiver:
    """Rank 1 of 2, to which the right messages come, but for the last byte of one of a window."""

    rank, ranks, local_rank = 1, 2, 0

    def __init__(self, wrong: int | None) -> None:
        self.wrong, self.slots = wrong, [0] * 7

    def barrier(self) -> None:
        """There is no other rank."""

    def actions(self, benchmark: Any, data: Data) -> list[Call]:
        """Take the messages of an iteration."""
        iterations = iter(range(CHECKED))

        def receive() -> None:
            iteration = next(iterations)
            for part, block in zip(data.receives, data.movement.receives, strict=True):
                part[:] = expected(block, iteration)
                part[-1] ^= block.slot == self.wrong
                self.slots[block.slot] += 1

        return [Call(receive, "receive")]


def test_disturbances_are_those_of_the_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a reading before the check of bytes, at whose beginning launchers look at ranks.

    And a record of the disturbance of another rank than the one that was disturbed most.
    """
    done = mock.Mock()
    monkeypatch.setattr(Session, "check", done.check)
    monkeypatch.setattr(Session, "measure", done.measure)
    monkeypatch.setattr(execute, "reading", done.reading)
    monkeypatch.setattr(execute, "disturbance", done.disturbance)
    done.reading.side_effect = ["start", "before", "after"]
    world: Any = mock.Mock(rank=1, ranks=2, local_rank=1, gather=lambda value: None)
    spec = SimpleNamespace(benchmark=CATALOGUE["latency"], settings=Settings(), pes=2)
    assert execute._made(spec, world, mock.Mock()) is None  # type: ignore[arg-type]
    order = [call[0] for call in done.method_calls][-5:]
    assert order == ["check", "reading", "measure", "reading", "disturbance"]
    done.disturbance.assert_called_once_with("before", "after")
    each = [Disturbance(0.1, 2.0, 0.3), Disturbance(0.4, 1.0, 0.2)]
    made = execute._record(spec_of("comm latency"), mock.Mock(versions={}), {}, each)
    assert Disturbance(0.4, 2.0, 0.3)._asdict().items() <= made["disturbance"].items()


@pytest.mark.parametrize("wrong", [None, 0, 3, 6])
def test_every_message_of_a_large_window_is_checked(wrong, monkeypatch):
    """Catches a check of the first messages only, and a wrong byte that a later part forgets."""
    monkeypatch.setattr(session, "CHECKED_BYTES", 50)
    world = Receiver(wrong)
    settings = Settings(iterations=2, warmups=0, trials=1, window=7)
    made: Any = Session(world, CATALOGUE["bw"], settings, Progress(lambda _: None))
    found = made._checked(16)
    assert world.slots == [CHECKED] * 7
    assert (found and found.block.slot) == wrong
    assert wrong is None or "byte 15 of 16" in str(found)


def reframe_reads(output: str, name: str, folder: Path) -> dict[str, float]:
    """What a test of ReFrame's tutorial for OMB (osu.py, installed with ReFrame) reads, by metric.

    ``name``: of its class. Raises reframe's SanityError if it does not find the benchmark's lines.
    """
    evaluate = importlib.import_module("reframe.utility.sanity").evaluate
    files = [file for file in distribution("reframe-hpc").files or () if file.name == "osu.py"]
    module = ModuleType("osu")
    module.__file__ = str(files[0].locate())
    with mock.patch.dict(sys.modules, {"osu": module}):
        exec(compile(Path(module.__file__).read_text(), module.__file__, "exec"), vars(module))
    check = getattr(module, name)
    (folder / "output").write_text(output)
    test = SimpleNamespace(stdout=str(folder / "output"), metric=check.metric)
    test._extract_metric = partial(check._extract_metric, test)
    assert evaluate(check.validate_test(test))
    check.set_perf_vars(test)
    return {metric: found.evaluate() for metric, found in test.perf_variables.items()}


@pytest.mark.slow
@pytest.mark.launch
@pytest.mark.parametrize(
    ("benchmark", "name", "more"),
    [
        ("latency", "osu_latency_test", ()),
        ("latency", "osu_latency_test", ("-f", "-z", "50,99", "--touch", "both")),
        ("bw", "osu_bandwidth_test", ("-W", 4)),
    ],
)
def test_reframe_reads_what_the_command_prints(benchmark, name, more, tmp_path):
    """Catches text in which a program for OMB's output does not find the numbers of OMB."""
    words = ("-m", "8:1048576:131072", "-i", 5, "-x", 1, "--trials", 2)
    done = support.in_process(
        "comm", benchmark, *words, *more, "--json", tmp_path / "record", check=True
    )
    record = json.loads((tmp_path / "record").read_text())
    small, large = record["results"]
    metric, row = ("latency", small) if benchmark == "latency" else ("bandwidth", large)
    found = reframe_reads(done.stdout, name, tmp_path)
    assert found == {metric: pytest.approx(row["value"], abs=0.006)}
    assert ("Unchanged" in done.stdout) == ("--touch" in more)
    if "--touch" in more:
        each = [one["unchanged"] for one in record["measured"] if one["size"] == 8]
        last = float(done.stdout.partition("\n8 ")[2].partition("\n")[0].split()[-1])
        assert last == pytest.approx(np.mean(each), abs=0.006) and last != row["value"]
    with pytest.raises(importlib.import_module("reframe.core.exceptions").SanityError):
        reframe_reads(done.stdout.replace("\n8 ", "\n 8"), name, tmp_path)


def by_hand(name: str, **more: Any) -> dict[str, Any]:
    """A record of a benchmark, by hand."""
    trial = {"value": 2.0, "least": 1.0, "most": 3.0, "touch_us": 0.5}
    trial |= {"percentiles": [1.5, 9.0], "messages_per_s": 1e6}
    trial |= dict.fromkeys(("compute_us", "pure_us", "begin_us", "wait_us"), 1.0)
    trial["overlap_percent"] = 50.0
    measured = [{"trial": n, "size": 8} | trial for n in range(2)]
    given = {"measures": CATALOGUE[name].measures, "percentiles": [50.0, 99.0], "sizes": [8]}
    given |= {"iterations": [100], "measured": measured}
    return canned_comm.record_of(spec_of(f"comm {name} --trials 2")) | given | more


def test_every_trial_counts() -> None:
    """Catches means, percentiles and intervals of some trials only."""
    record, same = by_hand("latency"), by_hand("latency")["measured"][0]
    measured = [
        same | {"value": 2 * n, "least": n, "most": 3 * n, "percentiles": [1.5 * n, 9 * n]}
        for n in (1.0, 1.0, 1.0, 1.0, 6.0)
    ]
    (row,) = results.rows(record | {"measured": measured})
    assert (row["value"], row["least"], row["most"], row["percentiles"]) == (4, 2, 6, [3, 18])
    assert row["low"] < 4 < row["high"]


HEADINGS = {
    "latency": "# Size (B)   Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations",
    "bw": "# Size (B)  Bandwidth (MB/s)      Min BW(MB/s)      Max BW(MB/s)  Iterations",
    "mbw_mr": "# Size (B)              MB/s        Messages/s",
    "barrier": "#  Avg Latency(us)   Min Latency(us)",
    "iallgather": "# Size (B)       Overall(us)       Compute(us)    Coll. Init(us)",
}


@pytest.mark.parametrize("name", HEADINGS)
def test_every_form_of_table_can_be_parsed(name: str) -> None:
    """Catches a column without a title, or titles that are not above their numbers."""
    record = by_hand(name, percentiles=[50.0, 99.999])
    rows = results.rows(record)
    lines = list(text.lines(record, rows, full=True))
    heading = next(line for line in lines if HEADINGS[name] in line)
    data = next(line for line in lines if not line.startswith("#"))
    assert len(heading) == len(data)
    assert [row for row in parsed("\n".join(lines))[1]]
    assert text.table(record, rows).count("\n") == 2


def test_notes_say_what_is_wrong_with_the_numbers() -> None:
    """Catches numbers of unchecked or disturbed benchmarks that look like others.

    And the width of the widest interval, which is half of the distance of its ends.
    """
    bounds = (3, 6), (4, 5), (None, None)
    rows = [{"value": 4.0, "low": low, "high": high} for low, high in bounds]
    assert "99 % intervals within 37.5% of the mean" in " ".join(text.notes(by_hand("bw"), rows))
    bad = {"valid": None, "touch": "both", "oversubscribed": True, "host": {"cores": 2}}
    record = by_hand("latency", **bad)
    notes = " ".join(text.notes(record, results.rows(record)))
    assert "NOT CHECKED" in notes and "oversubscribed: 2 ranks on 2 cores" in notes
    waited = by_hand("latency", disturbance={"waited": 0.3, "steal": 0.0})
    assert "DISTURBED" in " ".join(text.notes(waited, results.rows(waited)))
    fine = " ".join(text.notes(by_hand("latency"), results.rows(by_hand("latency"))))
    assert not re.search("NOT CHECKED|DISTURBED|oversubscribed", fine)


REFUSED = {
    "comm nonesuch": "NAME nonesuch: one of `miniapps comm --list`",
    "comm latency -n 3": "-n 3: latency needs exactly 2 ranks",
    "comm mbw_mr -n 3": "-n 3: mbw_mr needs an even number",
    "comm bcast -n 1": "-n 1: bcast needs 2 ranks or more",
    "comm latency -m 8:4": "MIN:MAX:FACTOR with 0 <= MIN <= MAX",
    "comm latency -m 8:x": "MIN:MAX, MIN:MAX:FACTOR or MAX, such as",
    "comm latency -m 8:9:2:2": "MIN:MAX, MIN:MAX:FACTOR or MAX, such as",
    "comm latency -m 8:9:1": "and FACTOR 2 or more",
    "comm allreduce -m 1:3": "-m 1:3: allreduce needs multiples of 4 B",
    "comm latency -i 0": "-i 0: must be from 1",
    "comm latency -x -1": "-x -1: must be from 0",
    "comm latency -z 50,101": "numbers from 0 to 100",
    "comm latency --touch-only": "--touch-only given: only with --touch sender or both",
    "comm bw -W 0": "-W 0: must be from 1",
    "comm latency --trials 0": "--trials 0: must be from 1",
    "comm latency --buffer list": "invalid choice: 'list'",
    "comm latency --pickle out --buffer bytearray": "a bytearray has no data out of its pickle",
    "comm allreduce --pickle in --buffer bytearray": "bytearrays cannot be added",
    "comm allgatherv --pickle in": "allgatherv has no such form under mpi",
    "comm barrier --touch both": "--touch both: no option of barrier",
    "comm barrier -m 4:8": "-m 4:8: no option of barrier",
    "comm iallreduce -W 8": "-W 8: no option of iallreduce",
    "comm latency --compare touch -f": "-f given: not with --compare",
    "comm latency --buffer cupy": "--buffer cupy: no NVIDIA GPU with a working driver",
    "comm latency --driver serial": "invalid choice: 'serial'",
    "comm latency --compare size": "touch, thread-level, method, with commas between",
    "comm barrier --compare buffer": "fewer than two variants can be made",
    "comm latency --figure x.gif": "--figure x.gif: must end in .png, .svg, .pdf",
    "comm latency --json /nonesuch/x": "--json /nonesuch/x: there is no directory",
}


def test_every_no_of_the_list_has_a_reason(capsys: Any) -> None:
    """Catches a benchmark or a kind of buffer that a runtime lacks without a word."""
    with pytest.raises(SystemExit):
        main(["comm", "--list"])
    said = " ".join(capsys.readouterr().out.split())
    for driver, runtime in communication.runtimes().items():
        if {*runtime.buffers} != {*KINDS}:
            kinds = " or ".join(runtime.buffers)
            assert f"{driver} --buffer {kinds}: {runtime.buffers_why}" in said
        assert bool(runtime.buffers_why) == ({*runtime.buffers} != {*KINDS})
        assert all(reason in said for reason in runtime.lacks.values())


@pytest.mark.parametrize("words", REFUSED)
def test_bad_input_is_one_line(words: str, refused: Any) -> None:
    """Catches a traceback, a launch, or a benchmark that quietly does something else."""
    assert REFUSED[words] in refused(*words.split())


def test_a_rank_runs_nothing_where_that_is_asked(capsys: Any) -> None:
    """Catches a dry run inside a launcher that is a run."""
    assert main("comm latency --no-launch --dry-run".split()) == VALID
    assert capsys.readouterr().out.startswith("nothing to launch")


def test_arguments_are_read_as_they_were() -> None:
    """Catches an option that ranks of a launch do not get."""
    line = "comm bw --driver mpi -n 2 --buffer bytearray --pickle in --touch both -m 2:64 -W 3"
    line += " --thread-level single -i 7 -x 1 --trials 2 --seed 9 --no-check -z 50,99.99999 -f"
    spec = spec_of(line)
    assert spec.arguments() == line.split()
    assert spec_of(" ".join(spec.arguments())) == spec


def test_defaults_are_those_of_the_papers() -> None:
    """Catches other numbers of iterations or warm-ups than ESPM2's, other sizes than OMB's.

    And a time of two messages for that of one, and a rate in one direction for that in both.
    """
    assert {one.name for one in CATALOGUE.values() if one.trips != 1} == {"latency", "multi_lat"}
    assert CATALOGUE["multi_lat"].trips == CATALOGUE["bibw"].directions == 2
    assert [one.name for one in CATALOGUE.values() if one.directions != 1] == ["bibw"]
    settings, latency, bandwidth = Settings(), CATALOGUE["latency"], CATALOGUE["bw"]
    assert [settings.iterations_of(latency, size) for size in (8192, 8193)] == [1000, 100]
    assert (settings.warmups_of(latency), settings.warmups_of(bandwidth)) == (60, 10)
    assert settings.sizes(latency)[-1] == 4 << 20 and settings.sizes(latency)[0] == 1
    assert settings.sizes(CATALOGUE["allreduce"]) == [4 << n for n in range(19)]
    assert Span.parse("8:8388608:1024").sizes() == [8, 8 << 10, 8 << 20]
    assert str(Span.parse("1:9:3")) == "1:9:3" and str(Span.parse("1:9:2")) == "1:9"
    assert Span.parse("0:5").sizes() == [0, 1, 2, 4] and Span.parse("6").sizes() == [1, 2, 4]
    assert str(Percentiles.parse("50,99.9")) == "50,99.9" and len(TOUCHES) == 3
    assert {made.measures for made in CATALOGUE.values()} == {"latency", RATE, OVERLAP}


def compared() -> tuple[list[dict[str, Any]], list[CommSpec]]:
    """Records of a comparison of three variants by hand, and what was launched for it."""
    made, _ = variants.variants(spec_of("comm latency -m 8:8 --trials 4"), ("touch",))
    assert [one.spec.settings.touch_only for one in made] == [False, True, True]
    launched: list[CommSpec] = []

    def launch(one: CommSpec) -> dict[str, Any]:
        launched.append(one)
        factor = {"none": 1.0, "sender": 2.0, "both": 1.0}[one.settings.touch]
        record = by_hand("latency", touch=one.settings.touch, percentiles=[])
        trial = record["measured"][0] | {"value": factor * (10 + len(launched) % 3)}
        del trial["percentiles"]
        return record | {"measured": [trial], "trials": 1}

    records = compare.measured(made, launch)
    assert not isinstance(records, int)
    return records, launched


def test_a_comparison_shuffles_its_launches() -> None:
    """Catches variants in a fixed order, a trial that is lost, data that are never checked."""
    records, launched = compared()
    orders = [[one.settings.touch for one in launched[n : n + 3]] for n in range(0, 12, 3)]
    assert len(launched) == 12 and all(len({*order}) == 3 for order in orders)
    assert len({tuple(order) for order in orders}) > 1
    assert [one.settings.no_check for one in launched] == [False] * 3 + [True] * 9
    assert [record["name"] for record in records] == ["touch none", "touch sender", "touch both"]
    for record in records:
        assert [one["trial"] for one in record["measured"]] == [0, 1, 2, 3]


def test_ratios_have_intervals() -> None:
    """Catches a ratio upside down, and a difference that is within the noise."""
    records, _ = compared()
    first, second = compare.tables(records, ["left out: nothing"])
    assert first.rows[0][0] == "8" and len(first.columns) == 4
    size, sender, both = second.rows[0]
    assert 1.8 < float(sender) < 2.2 and both.startswith("~") and size == "8"
    assert second.notes == ("left out: nothing",)


def test_what_cannot_be_compared_is_named() -> None:
    """Catches a variant that is left out in silence, and a comparison of one."""
    spec = spec_of("comm latency --pickle out")
    made, left_out = variants.variants(spec, ("buffer", "pickle"))
    names = [variant.name for variant in made]
    assert names[0] == "numpy pickle out" and "bytearray no pickle" in names
    assert any("bytearray pickle out" in line for line in left_out)
    barrier = replace(spec, benchmark=CATALOGUE["barrier"], settings=Settings())
    with pytest.raises(InputError, match="fewer than two variants can be made"):
        variants.variants(barrier, ("touch",))


@pytest.mark.slow
def test_figures_show_everything() -> None:
    """Catches a label, a title or a legend that is cut off or covered."""
    records, _ = compared()
    assert faults(comm_figure.figure_of(records, compare.ratios(records)), ["Abacus, 4 core"]) == []
    for name in ("latency", "bw", "iallgather"):
        record = by_hand(name)
        one = record | {"results": results.rows(record)}
        assert (
            faults(comm_figure.figure_of([one]), [name, "mpi", "2 ranks", "Abacus, 4 core"]) == []
        )


def test_figures_name_units() -> None:
    """Catches a rate in MB/s that is called MiB/s, and a KiB of 1000 bytes."""
    labels = {"latency": "latency [us]", "bw": "bandwidth [MB/s]", "iallgather": "latency [us]"}
    for name, label in labels.items():
        record = by_hand(name)
        axes = comm_figure.figure_of([record | {"results": results.rows(record)}]).axes[0]
        assert axes.get_ylabel() == label and axes.lines[0].get_ydata().tolist() == [2.0]
        assert [text.get_text() for text in axes.get_xticklabels()] == ["8 B"]
    sizes = {1: "1 B", 1000: "1000 B", 1024: "1 KiB", 1536: "1536 B", 3 << 20: "3 MiB"}
    assert {size: comm_figure.in_words(size) for size in sizes} == sizes


@pytest.mark.parametrize(("name", "message_s"), [("latency", 5 / 2), ("bw", 5.25)])
def test_touching_is_timed_where_it_happens(name, message_s, monkeypatch):
    """Catches a cost of touching that is that of warm buffers, or has a part of the warm-ups in it.

    Time passes in calls only: 5 s in one that sends and receives, 3 s in the touch after it, 1 s in
    any other touch, and 1/4 s until the clock is read. The cost of reading it around each touch is
    taken off, too; that around a window is not.
    """
    now, cold = [0.0], [False]

    def message() -> None:
        now[0] += 5
        cold[0] = True

    def touched(*_: Any, **__: Any) -> None:
        now[0] += 3 if cold[0] else 1
        cold[0] = False

    def clock() -> float:
        now[0] += 0.25
        return now[0]

    def both(value: Sample) -> list[Sample]:
        return [value, replace(value, touch_s=0.0, clock_s=0.0)]

    place = {"rank": 0, "ranks": 2, "local_rank": 0, "barrier": lambda: None, "gather": both}
    world: Any = SimpleNamespace(**place, actions=lambda *_: [Call(message, "both")])
    view = SimpleNamespace(fill=touched, max=touched)
    monkeypatch.setattr(actions, "_views", lambda *_: [view])
    for module in (actions, timing):
        monkeypatch.setattr(module, "perf_counter", clock)
    monkeypatch.setattr(session, "HEARTBEAT_S", 1e6)  # so the clock is read once in 100 iterations
    settings = Settings(touch="both", touch_only=True, iterations=10, warmups=5, window=1)
    found = Session(world, CATALOGUE[name], settings, Progress(lambda _: None))._trial(16)
    seconds = 16 / found["value"] / 1e6 if name == "bw" else found["value"] / 1e6
    assert seconds == pytest.approx(message_s)
    messages = CATALOGUE[name].trips
    assert found["touch_us"] / 1e6 == pytest.approx((3 + 1 + 2 * 0.25) / messages)


@pytest.mark.parametrize("touch", ["both", "none"])
def test_windows_are_touched_between_iterations(touch, monkeypatch):
    """Catches written messages that share memory, and a window that begins before all are written.

    In a window, receives are posted before messages are sent, as in OMB. Before the next window,
    the last one has been read, and all ranks have written theirs. Then the same is timed with
    unchanged memory, which is the same for all messages.
    """
    log, memory = [], []
    monkeypatch.setattr(Touch, "write_all", lambda self: log.append("write"))
    monkeypatch.setattr(Touch, "read_all", lambda self: log.append("read"))

    def made(benchmark: Any, data: Data) -> list[Window]:
        memory.append(len({part.ctypes.data for part in data.sends}))
        post, send = partial(log.append, "post"), partial(log.append, "send")
        return [Window([send], lambda _: log.append("finish"), [post], "both")]

    place = {"rank": 0, "ranks": 2, "local_rank": 0, "barrier": lambda: log.append("barrier")}
    world: Any = SimpleNamespace(**place, actions=made, gather=lambda sample: [sample] * 2)
    settings = Settings(iterations=2, warmups=0, window=3, no_check=True)
    settings = replace(settings, touch=touch)
    Session(world, CATALOGUE["bibw"], settings, Progress(lambda _: None))._trial(16)
    window, between = ["post", "send", "finish"], ["read", "write", "barrier"]
    plain = ["barrier", "barrier", *window * 2, "barrier"]
    touched = ["barrier", "barrier", *[*window, *between] * 2, "barrier"]
    assert log == (touched + plain if touch == "both" else plain)
    assert memory == ([3, 1] if touch == "both" else [1])


@pytest.mark.parametrize("mode", ["sender", "both"])
def test_data_are_written_before_each_send_and_read_after_each_receive(mode: str) -> None:
    """Catches a byte that is not written anew, a read that is left out, a wrong order."""
    movement = MOVEMENTS["ping_pong"](Place(0, 2, 16))
    data = Data(CATALOGUE["latency"], movement, kind_of("bytearray", False, 0))
    touch, seen, log = Touch(data, mode), [], []

    def send() -> None:
        seen.append(bytes(data.sends[0]))
        log.append("send")

    read = touch.read_all
    touch.read_all = lambda: (log.append("read"), read())  # type: ignore[method-assign]
    actions = [Call(send, "send"), Call(lambda: log.append("receive"), "receive")]
    functions = [made for action in actions for made in touch.around(action)]
    for _ in range(3):
        for function in functions:
            function()
    assert log == ["send", "receive", "read"] * 3 and touch.reads == (mode == "both")
    assert all(a != b for old, new in pairwise(seen) for a, b in zip(old, new, strict=True))
    assert 0 < touch.spent_s < 1
    windows = {name for name, made in CATALOGUE.items() if not made.touched_between}
    assert windows == {"latency", "multi_lat"}
