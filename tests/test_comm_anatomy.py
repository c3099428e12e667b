"""`miniapps comm anatomy`: parts add up to the whole, wrong messages are seen, C may be missing."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import Any

import pytest
import support

from communication.anatomy import ARRAY, PARTS, PATHS, C, Row, rows
from workbench.comm import anatomy
from workbench.table import lines

TINY = ("-m", "16:16", "-i", 20, "--trials", 2, "--thread-level", "funneled")


def measured(level: str = "single", with_c: bool = True) -> dict[str, Any]:
    """What ranks have measured, by hand."""
    whole = {ARRAY: [3.0, 5.0]} | ({C: [1.0, 2.0]} if with_c else {})
    alone = {"8": {ARRAY: {"python": 0.5, "buffers": 0.25}}}
    return {
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
    assert anatomy.described(Row("single", 8, C, (1.0,), {}))["low_us"] is None


@pytest.mark.launch
def test_parts_are_measured(tmp_path: Path) -> None:
    """Catches a part that is not timed, a whole without its parts, a table that lacks rows."""
    files = ("--json", tmp_path / "one.json", "--csv", tmp_path / "one.csv")
    done = support.in_process("comm", "anatomy", *TINY, *files)
    assert done.returncode == 0, done.stderr
    made = json.loads((tmp_path / "one.json").read_text())
    for launch in made["launches"]:
        assert (launch["pes"], launch["thread_level"]) == (2, "funneled")
        assert launch["valid"] and launch["without_c"] is None
    assert made["valid"] and len(made["launches"]) == anatomy.LAUNCHES
    table = list(csv.DictReader((tmp_path / "one.csv").open()))
    assert [row["call"] for row in table] == [row["call"] for row in made["results"]]
    found = {row["call"]: row for row in made["results"]}
    assert list(found) == list(PATHS.values())
    for name, row in found.items():
        assert row["size"] == 16 and row["whole_us"] > 0 and name in done.stdout
        known = [row[f"{part}_us"] or 0.0 for part in PARTS]
        assert sum(known) == pytest.approx(row["whole_us"])
    own = {"send(a)": "pickling", "pkl5 send(a)": "pickling", "mpi driver": "header"}
    for name, part in own.items():
        assert found[name][f"{part}_us"] > 0 and found[name]["python_us"] > 0
    assert found["Send(a)"]["buffers_us"] > 0


SABOTAGE = """
import builtins, os, sys
real = builtins.__import__
def hooked(name, *rest, **named):
    module = real(name, *rest, **named)
    found = sys.modules.get("communication.mpi.anatomy")
    if found is not None and hasattr(found, "Anatomy") and not hasattr(found, "spoilt"):
        found.spoilt = True
        {act}
    return module
builtins.__import__ = hooked
"""
FLIPS = "right = found.packed; found.packed = lambda data: right(data ^ 1)"
MOVES_NOTHING = "found.InC.seconds = lambda *rest: 1.0"
LINE = "miniapps: wrong data: anatomy, 16 B: rank 0, "


@pytest.mark.launch
@pytest.mark.parametrize(("act", "call"), [(FLIPS, "mpi driver"), (MOVES_NOTHING, "MPI_Send in C")])
def test_wrong_messages_have_no_times(act: str, call: str, tmp_path: Path) -> None:
    """Catches times of messages that are wrong, or that never came."""
    (tmp_path / "sitecustomize.py").write_text(SABOTAGE.replace("{act}", act))
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = support.miniapps("comm", "anatomy", *TINY, timeout=60, env=environment)
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    assert done.stderr.startswith(f"{LINE}{call}: the message has 0x")
    assert done.stderr.count("\n") == 1


@pytest.mark.launch
def test_a_compiler_that_fails_leaves_the_column_empty() -> None:
    """Catches a run that needs a C compiler, and a number for C that nobody measured."""
    environment = os.environ | {"MPICH_CC": "/nonesuch"}
    done = support.miniapps("comm", "anatomy", *TINY, timeout=60, env=environment)
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "no ping-pong in C, so library and rest are not known: mpicc: " in said
    assert PATHS[C] not in done.stdout and PATHS[ARRAY] in done.stdout


REFUSED = {
    "comm anatomy -n 3": "-n 3: anatomy needs exactly 2 ranks",
    "comm anatomy --pickle in": "--pickle in: no option of anatomy",
    "comm anatomy --touch both": "--touch both: no option of anatomy",
    "comm anatomy --buffer bytearray": "--buffer bytearray: no option of anatomy",
    "comm anatomy --compare pickle": "--compare given: no option of anatomy",
    "comm anatomy --figure x.png": "--figure x.png: no option of anatomy",
    "comm anatomy -z 50": "-z 50: no option of anatomy",
    "comm anatomy --no-check": "--no-check yes: no option of anatomy",
}


@pytest.mark.parametrize("words", REFUSED)
def test_bad_input_is_one_line(words: str, refused: Any) -> None:
    """Catches an option that is quietly ignored."""
    assert REFUSED[words] in refused(*words.split())
