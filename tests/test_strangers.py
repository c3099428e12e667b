"""Input from strangers: damaged files end in one line and status 2.

`tests/fuzz` tries many more inputs; what it has found stays here.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h5py
import pytest
from support import ROOT, record_of, refused, wait_for

from miniapps import hdf5
from miniapps.json_input import parsed
from miniapps.parameters import InputError
from miniapps.workbench import cli
from miniapps.workbench.cli import spec_of
from miniapps.workbench.run.checkpoint import read_checkpoint
from miniapps.workbench.run.earlier import earlier_part
from miniapps.workbench.run.record import with_few_rounds
from miniapps.workbench.run.revalidation import objection
from miniapps.workbench.run.shapes import AMOUNT, COUNT, MOST, NUMBER, misfit
from miniapps.workbench.selftest.command import trials_in
from miniapps.workbench.study.campaign import Campaign
from miniapps.workbench.study.options import words_of_file

CAMPAIGN = ROOT / "docs/results/jacobi2d-weak.jsonl"


# Files --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[" * 100_000, id="deep"),
        *("{", "NaN", '{"a": "\\ud800"}', '{"a": Infinity}', "\xff"),
        pytest.param("1" * 5000, id="long"),
    ],
)
def test_what_is_no_json(text: str) -> None:
    """Catches deep brackets, by which json's reader ends otherwise, NaN, and half a character."""
    with pytest.raises(ValueError) as found:
        parsed(text.encode("latin-1"))
    assert "recursion" not in str(found.value) and "sys." not in str(found.value)
    assert parsed(rb'["\u00e9", "\ud83d\ude00"]') == ["\u00e9", "\U0001f600"]


def test_deep_brackets_in_files_of_runs(tmp_path: Path) -> None:
    """Catches Python's words about its recursion, and an end by them."""
    path = tmp_path / "run.h5"
    with h5py.File(path, "w") as file:
        file.attrs["record"] = file.attrs["checkpoint"] = "[" * 30_000
    assert earlier_part(path, {"app": "echo", "problem": {}, "resumed": True}) is None
    with pytest.raises(InputError, match="is damaged: its brackets are nested too deeply"):
        read_checkpoint("FILE.h5", path)
    report = tmp_path / "report.jsonl"
    report.write_text("[" * 100_000)
    with pytest.raises(InputError, match="is not a file of this command"):
        trials_in(report)


@pytest.mark.parametrize("text", ["a = " + "[" * 30_000, "a =", "\x00", "a = 1" + "1" * 5000])
def test_what_is_no_toml(tmp_path: Path, text: str) -> None:
    """Catches deep brackets, which end tomllib by RecursionError."""
    path = tmp_path / "study.toml"
    path.write_text(text)
    with pytest.raises(InputError, match="is no TOML") as found:
        words_of_file(path, False)
    assert "recursion" not in str(found.value) and "sys." not in str(found.value)


def test_a_toml_file_of_megabytes(tmp_path: Path) -> None:
    """Catches a file that takes 50 times its size before it is refused."""
    path = tmp_path / "study.toml"
    path.write_text("#" * (1 << 15) + "\n")
    with pytest.raises(InputError, match="too large"):
        words_of_file(path, False)


def test_shapes() -> None:
    """Catches true taken for 1, numbers that are not finite, and a missing key passed over."""
    assert not any(COUNT.fits(value) for value in (True, -1, 1.0, None, 1 << 60))
    assert not any(NUMBER.fits(value) for value in (math.nan, math.inf, 2 * MOST, "1", True))
    shape = {"a": [COUNT], "b?": {"c": AMOUNT.or_null()}}
    assert misfit({"a": []}, shape, "x") is None
    assert misfit({"a": [0], "b": {"c": None}}, shape, "x") is None
    assert misfit({"a": [0, -1]}, shape, "x") == "x.a[1] must be an integer of 0 or more"
    assert misfit({"b": {"c": 1}}, shape, "x") == "x has no a"
    assert misfit({"a": [], "b": {}}, shape, "x") == "x.b has no c"
    assert misfit([], shape, "x") == "x must be an object"
    assert misfit({"a": {}}, shape, "x") == "x.a must be a list"


ENDS: dict[str, tuple[Callable[[], object], str]] = {
    "a crash": (lambda: os.kill(os.getpid(), signal.SIGSEGV), "by SIGSEGV"),
    "a wait": (lambda: time.sleep(60), "takes more than 1 s"),
    "an endless loop": (lambda: max(iter(int, 1)), "takes more than 1 s of a core"),
    "all memory": (lambda: bytearray(1 << 40), "times its size"),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", ENDS)
def test_a_file_that_ends_the_library(tmp_path, what, monkeypatch):
    """Catches a damaged file that takes this process, all its memory or all its time with it."""
    (tmp_path / "file").write_text("damaged")
    monkeypatch.setattr(hdf5, "SPARE_S", 0.6 if what == "a wait" else 20.0)
    monkeypatch.setattr(hdf5, "SPARE_CORE_S", 0.5)
    read, said = ENDS[what]
    with pytest.raises(hdf5.Unreadable, match=said):
        hdf5.require_readable(tmp_path / "file", read)


SAVED = ROOT / "tests/data/schema-1.h5"


@pytest.mark.slow
@pytest.mark.parametrize("command", ["plot", "run leanmd --input", "study report", f"diff {SAVED}"])
def test_a_real_file_that_ends_the_library(tmp_path, command, monkeypatch):
    """Catches a file with one wrong byte, found by fuzzing, in which libhdf5 loops for ever."""
    monkeypatch.setattr(hdf5, "SPARE_CORE_S", 0.5)
    path = tmp_path / "run.h5"
    data = bytearray(SAVED.read_bytes())
    data[5128] = 255  # of 205
    path.write_bytes(data)
    if command == "run leanmd --input":
        path = ROOT / "tests/data/endless-h5md.h5"  # byte 9480 is 0, where 8 was written
    assert path.name in refused([*command.split(), str(path)])


def test_a_file_that_the_library_reads(tmp_path: Path) -> None:
    """Catches an exception in the child that hides the caller's own, and a file refused for it."""
    (tmp_path / "file").write_text("right")
    assert hdf5.require_readable(tmp_path / "file", lambda: None) is None
    assert hdf5.require_readable(tmp_path / "file", lambda: 1 // 0) is None


# Fuzzing ------------------------------------------------------------------------------------------


def raises() -> bool:
    raise KeyError("wrong")


def hangs() -> bool:
    while True:
        pass


ATTEMPTS: dict[str, tuple[Callable[[], bool], str]] = {
    "accepted": (lambda: True, ""),
    "refused": (lambda: False, ""),
    "an exception": (raises, "KeyError"),
    "memory": (lambda: bool(bytearray(900 << 20)), "MemoryError"),
    "a hang": (hangs, "TimeoutError"),
}


@pytest.mark.parametrize("what", ATTEMPTS)
def test_fuzzing_finds_failures(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a fuzzer that takes every end of an attempt for a refusal."""
    run = importlib.import_module("fuzz.run")
    monkeypatch.setattr(run, "SECONDS", 0.2)
    previous = signal.signal(signal.SIGPROF, run._too_long)
    try:
        call, why = ATTEMPTS[what]
        target = SimpleNamespace(attempt=lambda data: call(), factor=1 << 20)
        entry = run.tried(target, b"data" * 100, [])
        assert why in entry.get("why", "") and (entry["outcome"] == "failed") == bool(why)
        assert run.tried(target, b"data", ["open /elsewhere"])["outcome"] == "failed"
    finally:
        signal.signal(signal.SIGPROF, previous)


@pytest.mark.parametrize("status", [1, 3])
def test_fuzzing_sees_the_status_that_a_command_returns(status, tmp_path, monkeypatch):
    """Catches an unexpected exception, which the command line turns into status 3, as accepted."""
    monkeypatch.syspath_prepend(ROOT / "tests/fuzz")
    targets = importlib.import_module("targets")
    monkeypatch.setattr(targets, "SCRATCH", tmp_path)
    target = targets.Target(list, None, lambda path: int(path.read_text()), 1)
    assert target.attempt(b"0")
    with pytest.raises(AssertionError, match="exit status"):
        target.attempt(str(status).encode())


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "inputs"), [("export", 8), ("trajectory", 8)])
def test_hostile_files_are_exported_as_data(kind, inputs, tmp_path, monkeypatch):
    """Catches a text that an export obeys, or data of another file, by the programs that read it.

    Also an export that refuses everything.
    """
    monkeypatch.syspath_prepend(ROOT / "tests/fuzz")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    fuzzer, targets = importlib.import_module("fuzz.run"), importlib.import_module("targets")
    monkeypatch.setattr(targets, "SCRATCH", tmp_path)
    target = targets.TARGETS[kind]
    seeds = target.seeds()
    assert all(map(target.attempt, seeds))
    done = [target.attempt(fuzzer.changed(target, seeds[n % len(seeds)], n)) for n in range(inputs)]
    assert any(done)


@pytest.mark.slow
def test_fuzzing_a_kind(tmp_path: Path) -> None:
    """Catches a fuzzer that reads nothing, or whose result lacks what the documentation tells."""
    result = tmp_path / "result.json"
    words = ["--kind", "extended XYZ", "--inputs", "20", "--to", str(result)]
    subprocess.run([sys.executable, ROOT / "tests/fuzz/run.py", *words], check=True)
    found = json.loads(result.read_text())["extended XYZ"]
    assert found["inputs"] == found["accepted"] + found["refused"] == 20
    assert found["accepted"] and found["refused"] and found["failures"] == 0


@pytest.mark.slow
def test_fuzzing_may_be_interrupted(tmp_path: Path) -> None:
    """Catches Ctrl-C, which all processes of a terminal get, as the failure of an input."""
    result = tmp_path / "result.json"
    words = ["--kind", "extended XYZ", "--inputs", "1000000", "--to", str(result)]
    run = subprocess.Popen(
        [sys.executable, ROOT / "tests/fuzz/run.py", *words],
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # ignored in background
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    try:
        wait_for(lambda: any(log.stat().st_size for log in tmp_path.glob("*/log")))
        os.killpg(run.pid, signal.SIGINT)
        assert run.wait(30) == 0
    finally:
        run.terminate()  # else a million inputs go on
    found = json.loads(result.read_text())["extended XYZ"]
    assert found["inputs"] > 0 and found["failed"] == []


# Campaigns are validated again when they are read -------------------------------------------------


def a_record() -> dict[str, Any]:
    """The record of a real run on two PEs."""
    lines = map(json.loads, CAMPAIGN.read_text().splitlines())
    records = (line["record"] for line in lines if line.get("event") == "run")
    return next(record for record in records if record["pes"] == 2)


def hosts_of(record: dict[str, Any], more: int, cores: int = 64) -> list[dict[str, Any]]:
    """One host with so many PEs more than a record has, and so many cores."""
    pes = record["pes"] + more
    return [{"name": "a", "pes": pes, "cores": cores, "memory_bytes": 1}]


def spoil(*path: Any, to: Any) -> Callable[[dict[str, Any]], None]:
    """A change of the value at a path of keys, which ``to`` gives or computes from the old one."""

    def change(record: dict[str, Any]) -> None:
        inner: Any = record
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = to(inner[path[-1]]) if callable(to) else to

    return change


def more(value: float) -> float:
    """A little more."""
    return value * 1.001


CHANGES = {
    "not valid": spoil("valid", to=False),
    "a check that fails": spoil("checks", 0, "ok", to=False),
    "a value beyond its limit": spoil("checks", 0, "value", to=1.0),
    "a value that is not finite": spoil("checks", 0, "value", to=None),
    "no checks": spoil("checks", to=[]),
    "a negative median": spoil("step_time_s", "median", to=-5),
    "another median": spoil("step_time_s", "median", to=more),
    "a longer wall time": spoil("wall_s", to=more),
    "less compute time": spoil("compute_s", to=0.0),
    "another utilisation": spoil("utilisation", to=more),
    "another imbalance": spoil("imbalance", to=more),
    "blocks that moved without balancing": spoil("migrations", to=1),
    "a shorter round": spoil("rounds", "wall_s", 0, to=0.0),
    "a round left out": spoil("rounds", "first", to=lambda first: first[1:]),
    "a round twice": spoil("rounds", "first", 1, to=lambda first: first - 1),
    "no rounds": spoil("rounds", to={"first": [], "count": [], "wall_s": []}),
    "more steps than the rounds": spoil("steps", to=lambda steps: steps + 1),
    "another number of PEs": spoil("pes", to=3),
    "hosts with more PEs": lambda record: record.update(hosts=hosts_of(record, 1)),
    "a host with fewer cores": lambda record: record.update(hosts=hosts_of(record, 0, 0)),
    "fewer cores": spoil("host", "cores", to=1),
    "true for a number": spoil("wall_s", to=True),
    "a text for a number": spoil("rate", "value", to="fast"),
    "no time of compiling": lambda record: record.pop("jit_s"),
    "no hash": spoil("state_hash", to="ab"),
    "a list for a record's part": spoil("rounds", to=[]),
    "another app": spoil("app", to="nonesuch"),
}


MERGED = {
    "a median below the shortest step": spoil("step_time_s", "median", to=0.0),
    "a median above the longest step": spoil("step_time_s", "median", to=1e3),
    "a shortest step above a mean": spoil("step_time_s", to=lambda s: s | {"min": s["median"]}),
    "a longest step below a mean": spoil("step_time_s", to=lambda s: s | {"max": s["median"]}),
    "a longest step above the rounds": spoil("step_time_s", "max", to=1e3),
    "more rounds in an entry than steps": spoil("rounds", "merged", to=1000),
    "no round in an entry": spoil("rounds", "merged", to=0),
    "an imbalance below that of the sums": spoil("imbalance", to=1.0),
    "an imbalance above the number of PEs": spoil("imbalance", to=2.1),
}
ONLY_WHOLE = {"another median", "another imbalance"}  # changes that bounds do not see


@pytest.mark.parametrize("what", [*CHANGES, *MERGED])
def test_a_changed_record_is_refused(what: str) -> None:
    """Catches a number that is believed although the rest of the record contradicts it.

    Also where a campaign does not keep every round.
    """
    whole, merged = a_record(), a_record()
    merged = with_few_rounds(merged, len(merged["rounds"]["first"]) // 4)
    assert merged["rounds"]["merged"] == 4
    for record, unseen in ((whole, MERGED.keys()), (merged, ONLY_WHOLE)):
        assert objection(record) is None
        if what not in unseen:
            (CHANGES | MERGED)[what](record)
            assert objection(record)


SLOW_END = [1e-3, 1e-3, 1e-3, 1e-3, 4e-3]  # seconds of rounds


def by_hand(most: int) -> dict[str, Any]:
    """A record of two PEs, of which one computed, with at most so many entries for rounds."""
    spec = spec_of("run jacobi2d --driver mpi -n 2 --steps 5 --warmup 0".split())
    rounds = {"first": [*range(5)], "count": [1] * 5, "wall_s": SLOW_END}
    rounds["compute_s"] = [SLOW_END, [0.0] * 5]
    given = {"rounds": rounds, "wall_s": 8e-3, "compute_s": 8e-3, "imbalance": 2.0}
    given["step_time_s"] = {"min": 1e-3, "median": 1e-3, "max": 4e-3}
    return with_few_rounds(record_of(spec, 1e-3, **given), most)


LOADS = "rounds.compute_s must have 5 times for each of 2 PEs"
LONGEST = "the max step time must be 0.004 to 0.004 s, as in its rounds"
SAID = [  # the most entries for rounds; a change of the record; what is said of it
    (5, spoil("rounds", to={"first": [], "count": [], "wall_s": []}),
     "rounds must have as many first steps as counts and times, at least one"),
    (5, spoil("checks", to=[]), "valid, but without any check"),
    (5, lambda record: record.update(audit=8, checks=record["checks"][:1]),
     "audit says that the run was audited, but no check does"),
    (5, spoil("rounds", "compute_s", to=[SLOW_END]), LOADS),
    (5, spoil("rounds", "compute_s", 0, to=[8e-3]), LOADS),
    (5, lambda record: record.update(compute_s=4e-3, utilisation=0.25),
     "compute_s must be the sum of the PEs' times"),
    (3, lambda record: record["rounds"].update(first=[0, 2, 3], count=[2, 1, 2]),
     "each entry of merged rounds must have a step for each, or more"),
    (3, spoil("step_time_s", to={"min": 1.5e-3, "median": 1.5e-3, "max": 4e-3}),
     "the min step time must be at most 0.001 s, as in its rounds"),
    (3, spoil("step_time_s", "max", to=3e-3), LONGEST),
    (3, spoil("step_time_s", "max", to=6e-3), LONGEST),
]  # fmt: skip


@pytest.mark.parametrize(("most", "change", "said"), SAID)
def test_what_is_said_of_a_changed_record(most, change, said):
    """Catches a contradiction that only another one covers, and a bound that is too far."""
    record = by_hand(most)
    assert objection(record) is None
    change(record)
    assert objection(record) == f"contradicts itself: {said}"


BALANCED = "run jacobi2d --driver charm -n 2 --odf 2 --balancer Greedy --lb-period 3 --warmup 0"


@pytest.mark.parametrize("steps", [1, 5])
def test_a_right_record_is_not_refused(steps: int) -> None:
    """Catches a balanced run of one round, or of merged rounds, of which none begins when due."""
    record = record_of(spec_of([*BALANCED.split(), "--steps", "5"]), steps=steps)
    assert objection(with_few_rounds(record, 3)) is None


ACROSS = {
    "another rate": spoil("rate", "value", to=more),
    "another state": spoil("state_hash", to="0" * 64),
    "another problem": spoil("problem", "size", to=[8, 8]),
    "other steps": spoil("warmup", to=0),
}


@pytest.mark.parametrize("what", ["nothing", "not valid", "a negative median", *ACROSS])
def test_a_changed_run_is_not_counted(tmp_path: Path, what: str) -> None:
    """Catches a campaign whose file was edited and whose report shows the new numbers."""
    lines = [json.loads(line) for line in CAMPAIGN.read_text().splitlines()]
    changed = next(line for line in lines[5:] if line["event"] == "run")
    if what != "nothing":
        (CHANGES | ACROSS)[what](changed["record"])
    path = tmp_path / "campaign.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    campaign = Campaign.read(path)
    runs = sum(line.get("event") == "run" for line in lines)
    assert len(list(campaign.of("run"))) == runs - (what != "nothing")
    assert [(run["trial"], run["point"]) for run in campaign.failures] == (
        [] if what == "nothing" else [(changed["trial"], changed["point"])]
    )
    assert all(run["reason"] and not run["final"] for run in campaign.of("dropped"))


@pytest.mark.slow
def test_the_report_says_that_a_run_is_not_counted(tmp_path, capsys):
    """Catches a run that is left out without a word, and a report that ends with status 0."""
    path = tmp_path / "campaign.jsonl"
    text = CAMPAIGN.read_text()
    path.write_text(text.replace('"valid":true', '"valid":false', 1))
    assert cli.main(["study", "report", str(path)]) == 1
    assert "not valid: no check says why" in " ".join(capsys.readouterr().out.split())


def test_a_campaign_with_records_that_are_none(tmp_path: Path) -> None:
    """Catches a record where no event has one, and a schema that is no number."""
    lines = [json.loads(line) for line in CAMPAIGN.read_text().splitlines()]
    runs = [line for line in lines if line.get("event") == "run"]
    runs[0]["record"]["schema"] = "2"
    others = [line | {"record": []} for line in lines[1:] if line.get("event") != "run"]
    path = tmp_path / "campaign.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in [lines[0], *others, *runs]))
    assert Campaign.read(path).head["campaign"] == 1


@pytest.mark.parametrize(
    ("number", "line"),
    [
        (0, "{}"),
        (0, '{"campaign": 1}'),
        (0, "[["),
        (0, '{"campaign": 1, "study": {}, "points": []}'),
        (1, "[["),
        (1, "[" * 100_000),
        (1, "{}"),
        (1, '{"event": 5}'),
        (1, '{"event": "noise", "seconds": NaN}'),
        (1, '{"event": "noise"}'),
        (1, '{"event": "start", "versions": {}}'),
        (2, '{"event": "run", "trial": 0, "point": 99, "command": "", "record": {}}'),
        (2, '{"event": "dropped", "trial": 0, "point": 0}'),
    ],
)
def test_a_damaged_line_of_a_campaign(tmp_path: Path, number: int, line: str) -> None:
    """Catches a traceback for a line that is JSON, but not what a campaign has there."""
    lines = CAMPAIGN.read_text().splitlines()
    lines[number] = line
    path = tmp_path / "campaign.jsonl"
    path.write_text("\n".join(lines) + "\n")
    for words in (["report", str(path)], ["export", str(path), "--format", "csv"]):
        assert "campaign" in refused(["study", *words])
