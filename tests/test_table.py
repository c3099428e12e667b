"""Tables for the terminal: what the commands print fits 80 columns, and loses nothing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from support import ROOT

from miniapps import apps
from miniapps.workbench import demo, verify
from miniapps.workbench.cli import main
from miniapps.workbench.exit_status import VALID, WRONG
from miniapps.workbench.run.cases import Case
from miniapps.workbench.selftest import command
from miniapps.workbench.selftest.trials import Found, Trial
from miniapps.workbench.study import report
from miniapps.workbench.study.campaign import Campaign
from miniapps.workbench.study.provenance import commands_table, failures_table
from miniapps.workbench.study.tables import tables
from miniapps.workbench.table import Column, Table, fitted, labelled, lines

WIDTH = 80
KEY = re.compile(r"\b(?:[a-z]\w*_\w+|pes|odf\d*|config|\d+ci|amdahl|gustafson|usl)\b")
RESULTS = ROOT / "docs/results"
STUDIES = sorted(path.stem for path in RESULTS.glob("*.jsonl"))
OBJECTIONS = re.compile(r"runs shorter|fewer than|\[none\]|the time tile differs")
PUBLISHED = sorted((ROOT / "studies/published").glob("*.json"))


@pytest.fixture(autouse=True)
def _eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))


def too_long(text: str) -> list[str]:
    """The lines of a text that a terminal would break."""
    return [line for line in text.splitlines() if len(line) > WIDTH]


def made(*columns: str, rows: list[str], notes: tuple[str, ...] = ()) -> Table:
    """A table of words that ``|`` separates; # marks columns of numbers."""
    heads = tuple(Column(title.lstrip("#"), title.startswith("#")) for title in columns)
    return Table("Title", heads, tuple(tuple(row.split("|")) for row in rows), notes)


def test_a_table_that_fits_is_a_grid() -> None:
    """Catches columns that are not aligned, and numbers aligned on the left."""
    shown = list(lines(made("name", "#n", rows=["a|1", "bcdefg|200"], notes=("note",)), WIDTH))
    assert shown == ["Title", "name      n", "──────  ───", "a         1", "bcdefg  200", "  note"]


@pytest.mark.parametrize(
    ("most", "head", "common"),
    [(22, "driver  time  state", False), (21, "driver  time", True), (9, "mpi", True)],
)
def test_the_fullest_form_that_fits(most: int, head: str, common: bool) -> None:
    """Catches a cell that is lost when a table gets narrower, and a form given up too early."""
    table = made("driver", "#step time", "state", rows=["mpi|1.5|the same", "x|2.5|the same"])
    shown = list(lines(table, most))
    words = " ".join(shown).split()
    assert head in shown and ("in all rows:" in " ".join(words)) == common, shown
    assert {"mpi", "1.5", "x", "2.5", "step", "time", "same"} <= {*words}


def test_an_empty_column_is_not_said_of_all_rows() -> None:
    """Catches "in all rows: beyond 15 %" below a table of which no row is."""
    narrow = made("name", "beyond 15 %", "note", rows=["a||none of these", "b||none of these"])
    shown = " ".join(" ".join(lines(narrow, 20)).split())
    assert "in all rows: note none of these" in shown and "beyond" not in shown


def test_text_above_numbers() -> None:
    """Catches wide tables of numbers whose columns cannot be compared any more."""
    row = "a configuration of words|" + "|".join(["1.234 [1.0, 2.0]"] * 4)
    other = "another configuration|" + "|".join(["9.876 [8.0, 9.9]"] * 4)
    table = made("configuration", "#a", "#b", "#c", "#d", rows=[row, other])
    shown = list(lines(table, WIDTH))
    assert "a configuration of words" in shown and "another configuration" in shown
    first, second = (line for line in shown if "[" in line)
    assert len(first) == len(second) and first.count("[") == 4
    narrow = list(lines(table, 60))
    assert "  a  1.234 [1.0, 2.0]" in narrow and len(narrow) == 1 + 2 * 5


def test_no_word_is_broken() -> None:
    """Catches a path or a hash that cannot be copied."""
    path = "/long/" * 20
    assert fitted(f"  file: {path} written", WIDTH) == ["  file:", f"    {path}", "    written"]
    assert labelled("name  ", "one two", 9) == ["name  one two"]
    (line,) = [line for line in lines(made("file", rows=[path]), WIDTH) if "long" in line]
    assert line == path


@pytest.mark.slow
@pytest.mark.parametrize("study", STUDIES)
def test_studies(study: str) -> None:
    """Catches a table of a study that is too wide, names keys, or objects to the study's runs."""
    campaign = Campaign.read(RESULTS / f"{study}.jsonl")
    shown = [*tables(campaign), failures_table(campaign)]
    check(shown)
    assert [note for note in shown[0].notes if OBJECTIONS.match(note)] == []
    assert campaign.head["points"] and len(commands_table(campaign).rows) > 1


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.stem)
def test_published_values(path: Path) -> None:
    """Catches a table of published values without its title, or with the keys of its file."""
    shown = report.published_tables(path)
    check(shown)
    assert all(table.title.startswith("Published: ") for table in shown)


def check(shown: list[Table]) -> None:
    """Fail unless tables fit, and show words instead of keys."""
    for table in shown:
        text = "\n".join(lines(table, WIDTH))
        assert too_long(text) == [] and text.startswith(table.title[:40]), text
        cells = [cell for row in table.rows for cell in row]
        words = [table.title, *(column.title for column in table.columns), *cells, *table.notes]
        assert [word for text in words for word in KEY.findall(text)] == []


APPS = ("jacobi2d", "stencil3d", "pic", "leanmd")
COMMANDS = [
    "list",
    *(f"run {app} --preset tiny" for app in (*APPS[:3], "echo")),
    "run leanmd --preset tiny --thermo 2 --units argon",
    "study --list",
    "adversary echo --schedules 2 --jobs 1",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_what_commands_print(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Catches a table or a summary that a terminal of 80 columns breaks."""
    try:
        assert main(command.split()) == VALID
    except SystemExit as end:  # of --list
        assert not end.code
    said = capsys.readouterr().out
    assert said.count("\n") >= 2 and too_long(said) == []


@pytest.mark.slow
def test_selftest(capsys: pytest.CaptureFixture[str]) -> None:
    """Catches a table with a column for each driver, which only a very wide terminal shows."""
    assert main(["selftest", "jacobi2d", "--driver", "serial", "--fault", "messages: "]) == VALID
    assert "waits" in (said := capsys.readouterr().out) and too_long(said) == []
    found = [
        Found(Trial(fault, app, driver, None), True, caught, disturbed=True)  # type: ignore[arg-type]
        for fault in ("grid: factor off", "messages: received at another edge")
        for app in ("jacobi2d", "leanmd pairs")
        for driver, caught in CAUGHT.items()
    ]
    command.show_table(found, [*CAUGHT], markdown=False)
    command.conclude(found, True)
    said = capsys.readouterr().out
    assert all(name in said for name in CAUGHT) and too_long(said) == []
    assert re.search(r"serial, mpi: mode and 1\s+more", said)


CAUGHT = {
    "serial": "mode, differs from reference",
    "mpi": "mode, differs from reference",
    "charm": f"ends: PE 0, block (0, 0), step 8: {'a long reason ' * 12}",
    "serial, simulated GPU": "differs from reference",
}


@pytest.mark.long
def test_diff(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Catches a sentence on a difference that is one long line."""
    paths = [str(tmp_path / f"{'long-name-of-a-run-' * 2}{steps}.h5") for steps in (3, 4)]
    for path, steps in zip(paths, ("3", "4"), strict=True):
        main(["run", "echo", "--preset", "tiny", "--steps", steps, "--output", path])
    capsys.readouterr()
    assert main(["diff", paths[0], paths[0]]) == VALID and main(["diff", *paths]) == WRONG
    said = capsys.readouterr().out
    assert said.count("\n") >= 4 and too_long(said) == []


@pytest.mark.slow
def test_verify_and_demo(monkeypatch, capsys):
    """Catches their tables, with all drivers, or with a failure, that are too wide."""
    right = {"state_hash": "0" * 64, "checks": [], "valid": True, "wall_s": 1.0, "steps": 3}
    right |= {"imbalance": 1.5}

    def results(specs: list[Any], **_: Any) -> list[Any]:
        return [f"ended: {'a long reason ' * 12}", *[right] * (len(specs) - 1)]

    monkeypatch.setattr(verify.batch, "solve_all", results)
    verify.verify([*apps.names()], full=True)
    cases: dict[tuple[str, str, Case], Any] = {
        (demo.SCALING, app, case): right for app in APPS for case in demo.scaling_cases()
    }
    cases |= {(demo.UNEVEN, "stencil3d", case): right for case in demo.uneven_cases()}
    console = demo.Console(highlight=False)
    assert demo.print_scaling(console, cases) == demo.print_uneven(console, cases) == VALID
    said = capsys.readouterr().out
    assert "stencil3d with an uneven load" in said and "a long reason" in said
    assert too_long(said) == []
