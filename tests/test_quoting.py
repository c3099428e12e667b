"""Files are data: texts of records and campaigns have alphabets, and each output quotes its texts.

The second half changes campaigns in memory, past the validation, so that one of the two guards
alone must hold.
"""

from __future__ import annotations

import ast
import copy
import csv
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import support
from support import ROOT

from miniapps import apps
from miniapps.parameters import InputError
from miniapps.workbench import quoting
from miniapps.workbench.cli import spec_of
from miniapps.workbench.run.batch import solve_all
from miniapps.workbench.run.revalidation import contradiction
from miniapps.workbench.run.shapes import in_lines, unprintable
from miniapps.workbench.study import slurm
from miniapps.workbench.study.campaign import Campaign, Writer
from miniapps.workbench.study.comm.campaign import CommCampaign
from miniapps.workbench.study.comm.campaign import objection as comm_objection
from miniapps.workbench.study.export import FORMATS, export
from miniapps.workbench.study.report import inline_svg
from miniapps.workbench.study.revalidation import misfit_of_event, misfit_of_head
from miniapps.workbench.table import Column, Table, lines

FILE = ROOT / "tests/data/schema-1.jsonl"
COMM = ROOT / "docs/results/written/campaign.jsonl"
BREAKS = ("a\nb", "a\x1b[31mb", "a\x00b", "a\u202eb", "\ud800")
NAMES = ('"""\nimport os', "../x", "/x", "=1+1", "a b", "a|b", "", "a\n", ".", "-x", "a$b", "a`b")
NAMED = ("app", "driver", "balancer", "device", "kind", "benchmark", "buffer", "touch", "library")
Place = tuple[Any, ...]


def texts(value: Any, place: Place = ()) -> Iterator[Place]:
    """The places of all texts in a value of JSON."""
    if isinstance(value, str):
        yield place
    elif isinstance(value, dict | list):
        entries = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in entries:
            yield from texts(inner, (*place, key))


def changed(value: Any, place: Place, text: str) -> Any:
    """A copy with another text at a place."""
    made = copy.deepcopy(value)
    holder = made
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = text
    return made


def assert_alphabets(value: Any, wrong: Callable[[Any], Any]) -> None:
    """Assert that nothing is wrong with a value, but is if any text in it is a strange one."""
    assert wrong(value) is None
    for place in texts(value):
        for text in NAMES if place[-1] in NAMED else BREAKS:
            assert wrong(changed(value, place, text)), (place, text)


def parts(path: Path) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The head of a campaign, a start and a run."""
    head, *events = map(json.loads, path.read_text().splitlines())
    found = {event["event"]: event for event in events}
    return head, found["start"], found["run"]


@pytest.mark.long
def test_each_text_of_a_campaign_has_an_alphabet() -> None:
    """Catches a text of a record, an event or a head that may hold whatever somebody wrote."""
    head, start, run = parts(FILE)
    point = head["points"][run["point"]]
    point["balancer"] = run["record"]["balancer"] = "Greedy"
    for value, wrong in (
        (run["record"], contradiction),
        (head, misfit_of_head),
        (start, lambda event: misfit_of_event(head, event)),
        ({"event": "run", "trial": 0, "point": 0, "command": "x", "record": {}},
         lambda event: misfit_of_event(head, event)),
    ):  # fmt: skip
        assert_alphabets(value, wrong)


@pytest.mark.long
def test_each_text_of_a_campaign_of_benchmarks_has_an_alphabet() -> None:
    """Catches the same for communication benchmarks, whose claims name files and lines."""
    head, _, run = parts(COMM)
    point = head["points"][run["point"]]
    head["study"]["claims"], head["points"] = head["study"]["claims"][:1], head["points"][:4]
    claim = head["study"]["claims"][0]
    claim["lines"] = claim["lines"][:1]
    claim.pop("quantities", None)  # of an earlier version
    run["record"] = {key: run["record"][key] for key in run["record"] if key != "results"}
    for value, wrong in (
        (head, CommCampaign.misfit_of_head),
        (run["record"], lambda record: comm_objection(point, record)),
    ):
        assert_alphabets(value, wrong)


def test_keys_have_an_alphabet() -> None:
    """Catches a parameter whose name is a column, a line or a path of an export."""
    head, _, run = parts(FILE)
    for key in ("a\nb", "=1", "../x", "a b"):
        assert contradiction(run["record"] | {"problem": {key: 1}})
        assert misfit_of_head(changed(head, ("points", 0, "problem"), {key: 1}))  # type: ignore
    assert contradiction(run["record"] | {"a\nb": 1})
    said = "it.a must be a text of one line, without control characters"
    assert unprintable([{"a": [1, ["x\n"]]}], "it") == said


def test_what_is_written_can_be_read(tmp_path: Path) -> None:
    """Catches a text of a library, or a study, that makes a file which is refused afterwards."""
    head, start, _ = parts(FILE)
    writer = Writer(tmp_path / "x.jsonl", {name: head[name] for name in head})
    with pytest.raises(InputError, match="versions"):
        writer.add("start", **{k: v for k, v in start.items() if k not in ("event", "versions")},
                   versions={"mpi": "MPI\n1"})  # fmt: skip
    writer.close()
    Campaign.read(tmp_path / "x.jsonl")
    with pytest.raises(InputError, match="no study to write"):
        Writer(tmp_path / "y.jsonl", changed(head, ("study", "device"), "a\nb"))
    assert in_lines({"mpi": "MPI\n1\x1b\n", "n": [1, 2], "l": ["\0"]}) == {
        "mpi": "MPI 1\\x1b", "n": [1, 2], "l": ["\\x00"],
    }  # fmt: skip


def test_the_noise_of_a_job_is_validated(tmp_path: Path) -> None:
    """Catches a line of a job's file that ends `collect` by a traceback, or spoils the campaign."""
    head, start, _ = parts(FILE)
    around = {name: start[name] for name in ("versions", "host", "clock_tick_s")} | {"seconds": 0.1}
    writer = Writer(tmp_path / "x.jsonl", head)
    for number, wrong in enumerate(({}, around | {"versions": {"a": "b\n"}}, {"seconds": "1"})):
        job = tmp_path / f"trial-00-pes-000{number}.noise"
        job.write_text(json.dumps(wrong))
        with pytest.raises(InputError, match="start"):
            slurm._add_noise(writer, job)
    job.write_text(json.dumps(around))
    slurm._add_noise(writer, job)
    writer.close()
    assert len(list(Campaign.read(tmp_path / "x.jsonl").of("noise"))) == 1


def test_a_text_of_the_command_line_comes_in_no_record(tmp_path: Path) -> None:
    """Catches an option that is stored, and refused only when the run has ended."""
    path = tmp_path / "a\nb.xyz"
    about = 'Lattice="9 0 0 0 9 0 0 0 9" Properties=species:S:1:pos:R:3'
    path.write_text(f"2\n{about}\nAr 1 1 1\nAr 5 5 5\n")
    said = support.refused(["run", "leanmd", "--input", path])
    assert "--input" in said and "one line" in said


def test_an_app_with_another_unit_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a record of an own app that no reader would take."""
    monkeypatch.setattr(apps.load("echo").Problem, "unit", "<a>")
    (said,) = solve_all([spec_of(["run", "echo", "--preset", "minimal"])])
    assert "record.rate.unit must be a unit" in str(said)


# Outputs ------------------------------------------------------------------------------------------

CANARY = "canary"
HOSTILE = (
    f'"""\nopen("{CANARY}", "w")\n"""',
    f"../../{CANARY}",
    f"=cmd|'/C touch {CANARY}'!A1",
    f"x\nREGION {CANARY}",
    f"$(touch {CANARY})",
    f"';open('{CANARY}','w');'",
    "{0.__class__}",
    f"\x1b]0;{CANARY}\x07",
)


def a_campaign(text: str) -> Campaign:
    """A campaign two of whose points have a hostile text wherever a text may be."""
    head, _, run = parts(FILE)
    places = [place for place in texts(run["record"]) if place[-1] not in ("state_hash", "app")]
    places = [place for place in places if place[-1] != "driver"]
    for place in places:
        run["record"] = changed(run["record"], place, text)
    run["record"] |= {"balancer": text, "driver": "charm", "oversubscribed": False}
    run["record"]["problem"]["size"] = text
    run["command"] = text
    runs = []
    for point, pes in enumerate((1, 2)):
        head["points"][point] |= {"pes": pes, "driver": "charm", "balancer": text}
        head["points"][point]["arguments"] = ["run", text]
        runs.append(run | {"point": point, "record": run["record"] | {"pes": pes}})
    return Campaign(head | {"points": head["points"][:2]}, runs)


@pytest.mark.parametrize("form", FORMATS)
def test_no_text_leaves_its_place_in_an_export(form, tmp_path, monkeypatch):
    """Catches a text that becomes code, a path, a region or a formula of an export."""
    monkeypatch.chdir(tmp_path)
    for number, text in enumerate(HOSTILE):
        folder = tmp_path / "deep" / str(number)
        campaign = a_campaign(text)
        if form == "csv":
            (written,) = export(campaign, form, folder / "x", tmp_path / "c.jsonl")
            rows = list(csv.reader(written.open()))
            assert len(rows) == 3 and not any(
                c.startswith(quoting.FORMULA) for row in rows for c in row
            )
            assert all(cell.isprintable() for row in rows for cell in row)
        else:
            with pytest.raises(InputError, match="letters, digits|must run"):
                export(campaign, form, folder / "x", tmp_path / "c.jsonl")
            assert not folder.exists()
    assert not list(tmp_path.rglob("*canary*"))


def test_a_check_of_reframe_holds_nothing_but_data() -> None:
    """Catches words of a run, or a number that is none, that become code of the check."""
    for text in HOSTILE:
        data = {"arguments": [text, 1, 0.5, None, True], text: []}
        assert ast.literal_eval(quoting.literal(data)) == data
    for value in (float("nan"), float("inf"), object(), {"a": [float("nan")]}):
        with pytest.raises(InputError):
            quoting.literal(value)


def test_a_table_in_csv_is_shown_as_it_is() -> None:
    """Catches a formula in a cell or a title, and a number that is no number any more."""
    text = quoting.csv_text(
        ["=a", "b"], [["-1e-5", "=1"], ["+1", "-a"], [-3, None], ["@x", "a\tb"], ["\uff1d1", "1"]]
    )
    assert text == "'=a,b\n-1e-5,'=1\n+1,'-a\n-3,\n'@x,a b\n'\uff1d1,1\n"


def test_the_terminal_shows_no_control_codes() -> None:
    """Catches a title, cell, note or refusal that moves the cursor or hides other text."""
    bad = "a\x1b[2Jb\x9b\u202e"
    table = Table(bad, (Column(bad), Column("n", numeric=True)), ((bad, bad), ("x", "1")), (bad,))
    for most in (200, 30):
        shown = "\n".join(lines(table, most)).replace("\n", "")
        assert shown.isprintable() and r"\x1b[2Jb\x9b\u202e" in shown
    assert str(InputError("--x", bad, bad)).isprintable()


def test_other_outputs_quote() -> None:
    """Catches an attribute of a page, a row of Markdown or a label of a figure with other words."""
    assert 'aria-label="a&quot; x=&quot;"' in inline_svg("<svg>", "n", 'a" x="')
    assert quoting.markdown_row(["a|b", "c\nd"]) == "| a&#124;b | c d |"
    assert quoting.figure("5 $x$") == r"5 \$x\$"
