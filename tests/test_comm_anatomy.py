"""`miniapps comm anatomy`: parts add up to the whole, wrong messages are seen, C may be missing."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import support

from miniapps import communication
from miniapps.communication import parts
from miniapps.communication.anatomy import OWN, PARTS, Row, rows
from miniapps.communication.charm import (
    CHANNEL,
    CHANNEL_PICKLED,
    CORE,
    OWN_CALL,
    SENT,
    SENT_PICKLED,
    TAKEN,
    TAKEN_PICKLED,
)
from miniapps.communication.mpi import ARRAY, C
from miniapps.workbench.comm import anatomy
from miniapps.workbench.table import lines

CALLS = communication.get("mpi").anatomy
TINY = ("-m", "16:16", "-i", 20, "--trials", 2, "--thread-level", "funneled")


@pytest.fixture
def one_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Launch each level once: results need not be steady here."""
    monkeypatch.setattr(anatomy, "LAUNCHES", 1)


def measured(level: str = "single", with_c: bool = True) -> dict[str, Any]:
    """What ranks have measured, by hand."""
    whole = {ARRAY: [3.0, 5.0]} | ({C: [1.0, 2.0]} if with_c else {})
    alone = {"8": {ARRAY: {"python": 0.5, "buffers": 0.25}}}
    return {
        "driver": "mpi",
        "thread_level": level,
        "whole": {"8": dict(sorted(whole.items(), reverse=True))},
        "alone": alone,
        "without_c": None if with_c else "no mpicc was found",
        "trials": 2,
        "library": "MPICH",
        "provided_level": "single",
        "disturbance": {"waited": 0.0, "steal": 0.0},
        "oversubscribed": False,
        "pes": 2,
        "host": {"cores": 2},
    }


def test_the_rest_is_what_the_parts_leave() -> None:
    """Catches a part that counts twice or not at all, and a launch that does not count."""
    in_c, array = rows([measured()])
    assert (in_c.path, in_c.whole, in_c.parts) == (C, 1.0, {"library": 1.0})
    assert array.parts == {"library": 1.0, "python": 0.5, "buffers": 0.25, "rest": 1.25}
    assert array.whole == 3 and array.size == 8
    faster = measured()
    faster["whole"]["8"][ARRAY][0], faster["alone"]["8"][ARRAY]["python"] = 2.5, 0.25
    (_, array) = rows([measured(), faster])
    assert array.trials == (3, 5, 2.5, 5) and array.whole == 2.5
    assert array.parts == {"library": 1.0, "python": 0.375, "buffers": 0.25, "rest": 0.875}


def test_without_c_the_library_is_not_known() -> None:
    """Catches a rest that contains the library, and a column that is empty without a reason."""
    (array,) = rows([measured(with_c=False)])
    assert array.parts["library"] is None and array.parts["rest"] is None
    notes = " ".join(anatomy.notes([measured(with_c=False)]))
    assert "no ping-pong in C, so library and rest are not known: no mpicc was found" in notes


def test_the_text_has_every_call_and_level() -> None:
    """Catches a level or a call without a row, and a level that MPI did not give."""
    records = [measured("single"), measured("multiple")]
    found = anatomy.rows_of(records)
    text = "\n".join(line for table in anatomy.tables(records, found) for line in lines(table, 80))
    assert "8 B, us per message, thread level single" in text
    cells = [" ".join(line.split()) for line in text.splitlines()]
    assert "Send(a) 3.00 1.00 0.50 0.25 - - - 1.25" in cells
    assert "Send(a) 8 3.00 3.00" in cells and "call B single multiple" in cells
    assert "asked for thread level multiple, MPI provides single" in text
    assert anatomy.described(Row("single", 8, C, CALLS[C], (1.0,), {}))["low_us"] is None


@pytest.mark.slow
@pytest.mark.launch
@pytest.mark.usefixtures("one_launch")
def test_parts_are_measured(tmp_path: Path) -> None:
    """Catches a part that is not timed, a whole without its parts, a table that lacks rows."""
    files = ("--json", tmp_path / "one.json", "--csv", tmp_path / "one.csv")
    done = support.in_process("comm", "anatomy", *TINY, *files, check=True)
    made = json.loads((tmp_path / "one.json").read_text())
    for launch in made["launches"]:
        assert (launch["pes"], launch["thread_level"]) == (2, "funneled")
        assert launch["valid"] and launch["without_c"] is None
    assert made["valid"] and len(made["launches"]) == anatomy.LAUNCHES
    table = list(csv.DictReader((tmp_path / "one.csv").open()))
    assert [row["call"] for row in table] == [row["call"] for row in made["results"]]
    found = {row["call"]: row for row in made["results"]}
    assert list(found) == list(CALLS.values())
    for name, row in found.items():
        assert row["size"] == 16 and row["whole_us"] > 0 and name in done.stdout
        known = [row[f"{part}_us"] or 0.0 for part in PARTS]
        assert sum(known) == pytest.approx(row["whole_us"])
    own = {"send(a)": "pickling", "pkl5 send(a)": "pickling", "mpi driver": "header"}
    for name, part in own.items():
        assert found[name][f"{part}_us"] > 0 and found[name]["python_us"] is not None
    assert found["Send(a)"]["buffers_us"] > 0


def measured_by_charm() -> dict[str, Any]:
    """What PEs have measured, by hand."""
    header = {"python": 2.0, "header": 1.0}
    record = measured() | {"driver": "charm", "thread_level": None, "provided_level": None}
    return record | {
        "library": "Charm++ netlrts",
        "notes": ["library: packed already"],
        "whole": {
            "8": {CORE: [8.0], CHANNEL: [15.0], CHANNEL_PICKLED: [22.5]},
            OWN: {OWN_CALL: [2.0, 2.5]},
        },
        "alone": {
            "8": {
                CHANNEL: header | {"buffers": 2.0, "copies": 0.5},
                CHANNEL_PICKLED: header | {"pickling": 8.0, "copies": 0.75},
            },
            OWN: {OWN_CALL: {"library": 1.0, "python": 0.5, "header": 0.25}},
        },
        "sides": {"8": {SENT: [2.5, 2.0], SENT_PICKLED: [6.0], TAKEN: [3.0], TAKEN_PICKLED: [4.0]}},
    }


def test_a_call_that_receives_nothing_has_nothing() -> None:
    """Catches a path that passes its check by the bytes that the path before has received."""
    memory = np.arange(1, 5, dtype=np.uint8)
    assert parts.MessagePath(lambda: None, lambda: None, memory).got().tolist() == [0] * 4
    assert parts.MessagePath(lambda: None, lambda: bytearray(b"\1\2")).got().tolist() == [1, 2]


def test_calls_of_nothing_have_a_library_of_their_own() -> None:
    """Catches a call to the own rank from which the time between two processes is taken."""
    _, direct, pickled, own = rows([measured_by_charm()])
    assert (direct.call, direct.parts["rest"]) == ("channel.send(a)", 1.5)
    assert (pickled.call, pickled.parts["rest"]) == ("channel.send([a])", 2.75)
    assert (own.call, own.size, own.whole) == ("proxy.count()", None, 2.0)
    assert own.parts == {"library": 1.0, "python": 0.5, "header": 0.25, "rest": 0.25}
    unknown = measured()
    unknown["whole"][OWN], unknown["alone"][OWN] = {ARRAY: [1.0]}, {ARRAY: {"python": 0.5}}
    assert [row.parts.get("rest") for row in rows([unknown])] == [None, 1.25, None]


def test_the_text_of_charm_says_what_is_not_separated() -> None:
    """Catches thread levels that Charm4Py does not have, and notes that are not shown."""
    records = [measured_by_charm()] * anatomy.LAUNCHES
    made = anatomy.tables(records, anatomy.rows_of(records))
    assert [table.title for table in made] == [
        "8 B, us per message",
        "nothing to the own rank, us",
        "one side of a message to the own rank, us",
    ]
    assert made[-1].rows[:2] == (("sending a", "2.00"), ("sending [a]", "6.00"))
    assert made[-1].notes[:2] == (
        "Charm++ netlrts; the fastest of 6 trials; every byte was checked",
        "library: packed already",
    )
    assert not any("asked for thread level" in note for note in made[-1].notes)


@pytest.mark.slow
@pytest.mark.launch
@pytest.mark.usefixtures("one_launch")
def test_parts_are_measured_under_charm(tmp_path: Path) -> None:
    """Catches a path that is not timed, parts that do not add up, calls that were not made."""
    files = ("--json", tmp_path / "one.json", "--csv", tmp_path / "one.csv")
    tiny = ("-m", "64:65536:1024", "-i", 20, "--trials", 2)
    support.in_process("comm", "anatomy", "--driver", "charm", *tiny, *files, check=True)
    made = json.loads((tmp_path / "one.json").read_text())
    assert made["valid"] and len(made["launches"]) == anatomy.LAUNCHES
    found = {(row["size"], row["call"]): row for row in made["results"]}
    charm = communication.get("charm")
    for sides in (sides for launch in made["launches"] for sides in launch["sides"].values()):
        assert {*sides} == {*charm.sides} and all(len(us) == 2 for us in sides.values())
        assert min(sides[SENT_PICKLED]) > min(sides[SENT]) > 0 < min(sides[TAKEN])
    between = [(size, call) for size in (64, 65536) for call in charm.anatomy.values()]
    assert list(found) == between + [(None, call) for call in charm.own_calls.values()]
    for row in found.values():
        known = [row[f"{part}_us"] or 0.0 for part in PARTS]
        assert row["whole_us"] > 0 and sum(known) == pytest.approx(row["whole_us"])
    for size, call in found:
        row = found[size, call]
        if call == charm.anatomy[CORE]:
            continue
        assert None not in [row[f"{part}_us"] for part in ("python", "header", "library")]
        assert (row["pickling_us"] is not None) == ("[a]" in call)
        assert (row["buffers_us"] is not None) == ("(a)" in call)
    # A part is a difference of two times, which disturbances can make negative: no sign is certain.
    assert len((tmp_path / "one.csv").read_text().splitlines()) == 1 + len(found)


SABOTAGE = """
import builtins, sys
real = builtins.__import__
def hooked(name, *rest, **named):
    module = real(name, *rest, **named)
    found = sys.modules.get("miniapps.communication.{driver}.anatomy")
    if hasattr(found, "{last}") and not hasattr(found, "spoilt"):
        found.spoilt = True
        {act}
    return module
builtins.__import__ = hooked
"""
LAST = {"mpi": "header", "charm": "future"}  # what each module defines last
WRONG = [
    ("mpi", "mpi driver", "right = found.packed; found.packed = lambda data: right(data ^ 1)"),
    ("mpi", "MPI_Send in C", "found.InC.seconds = lambda *rest: 1.0"),
    ("charm", "Charm++ alone", "right = found.copied; found.copied = lambda *m: right(*m) ^ 1"),
    ("charm", "channel.send([a])", "found.Listed.send = lambda line, a: line.line.send([a ^ 1])"),
    (
        "charm",
        "channel.send(a)",
        "right = found.packed; found.packed = lambda m: right(tuple(x ^ 1 if x is m[-1] and "
        "hasattr(x, 'shape') else x for x in m))",
    ),
]


def sabotaged(folder: Path, driver: str, act: str) -> dict[str, str]:
    """An environment in which ranks of a runtime do something wrong."""
    words = SABOTAGE.replace("{driver}", driver).replace("{last}", LAST[driver])
    return support.in_every_process(folder, words.replace("{act}", act))


@pytest.mark.slow
@pytest.mark.launch
@pytest.mark.parametrize(("driver", "call", "act"), WRONG)
def test_wrong_messages_have_no_times(driver: str, call: str, act: str, tmp_path: Path) -> None:
    """Catches times of messages that are wrong, or that never came."""
    level = TINY if driver == "mpi" else TINY[:-2]
    asked = ("comm", "anatomy", "--driver", driver, *level)
    done = support.miniapps(*asked, env=sabotaged(tmp_path, driver, act))
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    line = f"miniapps: wrong data: anatomy, 16 B: rank 0, {call}: the message has 0x"
    assert done.stderr.startswith(line) and done.stderr.count("\n") == 1


@pytest.mark.slow
@pytest.mark.launch
@pytest.mark.usefixtures("one_launch")
def test_calls_that_are_not_made_have_no_times(tmp_path: Path) -> None:
    """Catches the time of calls that never reach their entry method."""
    act = "found.Core.__init__.__globals__['PE'].count = lambda pe: None"
    asked = ("comm", "anatomy", "--driver", "charm", *TINY[:-2])
    done = support.miniapps(*asked, env=sabotaged(tmp_path, "charm", act))
    assert done.returncode == 3 and "0 of 200 calls were made" in done.stderr, done.stderr


@pytest.mark.slow
@pytest.mark.launch
@pytest.mark.usefixtures("one_launch")
def test_a_compiler_that_fails_leaves_the_column_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a run that needs a C compiler, and a number for C that nobody measured."""
    monkeypatch.setenv("MPICH_CC", "/nonesuch")
    done = support.in_process("comm", "anatomy", *TINY, check=True)
    said = " ".join(done.stdout.split())
    assert "no ping-pong in C, so library and rest are not known: mpicc: " in said
    assert CALLS[C] not in done.stdout and CALLS[ARRAY] in done.stdout


REFUSED = {
    "comm anatomy -n 3": "-n 3: anatomy needs exactly 2 ranks",
    "comm anatomy --pickle in": "--pickle in: no option of anatomy",
    "comm anatomy --touch both": "--touch both: no option of anatomy",
    "comm anatomy --buffer bytearray": "--buffer bytearray: no option of anatomy",
    "comm anatomy --compare pickle": "--compare given: no option of anatomy",
    "comm anatomy --figure x.png": "--figure x.png: no option of anatomy",
    "comm anatomy -W 3": "-W 3: no option of anatomy",
    "comm anatomy -z 50": "-z 50: no option of anatomy",
    "comm anatomy --driver file": "--driver file: anatomy is of mpi and charm",
    "comm anatomy --driver charm --thread-level single": "--thread-level single: only with",
    "comm anatomy --driver charm --method proxy": "--method proxy: no option of anatomy",
    "comm anatomy --driver charm --pickle in": "--pickle in: no option of anatomy",
    "comm anatomy --no-check": "--no-check given: no option of anatomy",
}


@pytest.mark.parametrize("words", REFUSED)
def test_bad_input_is_one_line(words: str, refused: Any) -> None:
    """Catches an option that is quietly ignored."""
    assert REFUSED[words] in refused(*words.split())
