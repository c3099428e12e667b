"""Campaigns of communication benchmarks: what is launched, what counts, and what the report says.

Canned records stand for launches: each value is a number that can be computed by hand.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import support
from canned_comm import LEFT_OUT, record_of, replaced, rows_of
from figure_faults import drawn_texts, faults

from miniapps.workbench import environment
from miniapps.workbench.cli import main
from miniapps.workbench.comm.spec import CommSpec
from miniapps.workbench.exit_status import VALID, WRONG
from miniapps.workbench.study import report
from miniapps.workbench.study.comm import figures, libraries
from miniapps.workbench.study.comm.campaign import CommCampaign
from miniapps.workbench.study.comm.series import results

pytestmark = pytest.mark.usefixtures("forked")


@pytest.fixture
def canned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Any]:
    """As `canned_comm.replaced`."""
    return replaced(monkeypatch, tmp_path)


@pytest.mark.slow
def test_a_campaign_has_the_right_ratios_and_the_published_ones(canned, capsys, monkeypatch):
    """Catches a ratio to the wrong line, a mean of other trials, published values elsewhere."""
    made = canned()
    monkeypatch.setattr(report, "FORMATS", ("svg",))
    assert main(["study", "comm", "two.toml"]) == VALID
    assert len(made) == 9
    folder = Path("two")
    rows = {(row["claim"], row["line"], row["size"]): row for row in rows_of(folder)}
    assert len(rows) == 5
    slow = rows["touch", "touch sender", "8"]
    assert float(slow["value"]) == pytest.approx(6.03) and slow["trials"] == "3"
    assert float(slow["low"]) < 6.03 < float(slow["high"])
    assert float(slow["ratio"]) == pytest.approx(3) and float(slow["published_ratio"]) == 3
    slow = rows["touch", "touch sender", "64"]
    assert float(slow["ratio"]) == pytest.approx(16.03 / 4.01)
    assert float(slow["published"]) == 90 and float(slow["published_ratio"]) == 4.5
    assert rows["touch", "touch none", "8"]["ratio"] == ""
    assert rows["rate", "mpi", "8"]["unit"] == "MB/s"
    text = capsys.readouterr().out
    page = (folder / "report.html").read_text()
    for said in ("Written buffers", "published 3.00 to 4.50", "A paper"):
        assert said in page and said in " ".join(text.split()), said
    assert page.count("<figure") == 2 and (folder / "touch.svg").exists()
    assert (folder / "tables.txt").read_text() in text
    files = ("campaign.jsonl", "report.html", "tables.txt", "values.csv", "touch.svg", "rate.svg")
    assert {path.name for path in folder.iterdir()} == {*files}


@pytest.mark.slow
def test_figures_show_values_ratios_and_what_is_published(canned: Any) -> None:
    """Catches a figure without the published lines, or whose texts lie over one another."""
    canned()
    main(["study", "comm", "two.toml"])
    found = results(CommCampaign.read(Path("two/campaign.jsonl")))
    drawn = figures.figures(found, "Abacus")
    names = ["touch sender, published", "ratio to touch none", "latency [us]", "Abacus", "64 B"]
    assert faults(drawn["touch"], names) == []
    left, right = drawn["touch"].axes
    data = [list(line.get_ydata()) for line in left.lines]
    assert [10.0, 20.0] in data and [30.0, 90.0] in data
    assert [3.0, 4.5] in [list(line.get_ydata()) for line in right.lines]
    assert faults(drawn["rate"], ["bandwidth [MB/s]"]) == []
    assert not any("ratio" in text.get_text() for text in drawn_texts(drawn["rate"]))


def test_data_are_checked_until_they_were_and_an_interrupted_campaign_goes_on(canned: Any) -> None:
    """Catches timed data that were never checked, and runs that are made twice."""
    made = canned()
    assert main(["study", "comm", "two.toml"]) == VALID
    checks: dict[Any, list[bool]] = {}
    for spec, _ in made:
        key = spec.benchmark.name, spec.settings.touch
        checks.setdefault(key, []).append(not spec.settings.no_check)
        assert spec.settings.trials == 1
    assert [*checks.values()] == [[True, False, False]] * 3
    assert len({spec.settings.seed for spec, _ in made}) == 9
    assert main(["study", "comm", "two.toml"]) == VALID and len(made) == 9
    assert main(["study", "comm", "two.toml", "--trials", "4"]) == VALID and len(made) == 12
    assert all(spec.settings.no_check for spec, _ in made[9:])


def test_a_line_with_wrong_data_is_never_drawn(canned: Any) -> None:
    """Catches a time of messages that did not arrive as they were sent, in one launch of three."""

    def wrong(spec: CommSpec, trial: int) -> dict[str, Any]:
        if spec.settings.touch == "none" or trial != 1:
            return record_of(spec, trial)
        return record_of(spec, trial, valid=False, wrong="latency, 8 B: rank 0: is missing")

    canned(wrong)
    assert main(["study", "comm", "two.toml"]) == WRONG
    assert {row["line"] for row in rows_of(Path("two"))} == {"touch none", "mpi"}
    page = Path("two/report.html").read_text()
    assert "wrong data: latency, 8 B: rank 0: is missing" in page
    claim, _ = results(CommCampaign.read(Path("two/campaign.jsonl")))
    drawn = figures.claim_figure(claim, "Abacus")
    assert not any("sender" in text.get_text() for text in drawn_texts(drawn))


CHANGES: dict[str, Callable[[dict[str, Any]], None]] = {
    "wrong data: None": lambda record: record.update(valid=False),
    "is no whole record: record has no valid": lambda record: record.pop("valid"),
    "driver was charm, asked was mpi": lambda record: record.update(driver="charm"),
    "sizes was [8], asked was [8, 64]": lambda record: record.update(sizes=[8]),
    "has a time or rate for 64 B that is no number above 0": lambda record: record.update(
        measured=[one for one in record["measured"] if one["size"] == 8]
    ),
    "has a time or rate for 8 B that is no number above 0": lambda record: record["measured"][
        0
    ].update(value=-1.0),
}


@pytest.mark.slow
@pytest.mark.parametrize("reason", CHANGES)
def test_a_changed_record_does_not_count(reason: str, canned: Any) -> None:
    """Catches a campaign file whose edited or damaged records are drawn as results."""
    canned()
    main(["study", "comm", "two.toml"])
    path = Path("two/campaign.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    slow = next(n for n, point in enumerate(lines[0]["points"]) if point["touch"] == "sender")
    run = next(
        line
        for line in lines
        if line.get("event") == "run" and (line["point"], line["trial"]) == (slow, 2)
    )
    CHANGES[reason](run["record"])
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    campaign = CommCampaign.read(path)
    assert [entry["reason"] for entry in campaign.failures] == [reason]
    line = results(campaign)[0].line("touch sender")
    assert line is not None and len(line.records) == 2
    assert line.values[8].value == pytest.approx(6.015)


def test_unchecked_runs_do_not_count(canned: Any) -> None:
    """Catches times of a launch whose data nobody has checked."""
    canned(lambda spec, trial: record_of(spec, trial, valid=None))
    assert main(["study", "comm", "two.toml"]) == WRONG
    assert rows_of(Path("two")) == []
    assert "no run of this launch has checked its data" in Path("two/tables.txt").read_text()


def test_quick_and_published_campaigns_have_folders_of_their_own(canned: Any) -> None:
    """Catches tables [quick] and [paper] without effect, and two campaigns in one file."""
    made = canned()
    assert main(["study", "two.toml", "--quick"]) == VALID
    assert len(made) == 6 and {str(spec.settings.span) for spec, _ in made} == {"64:64"}
    windows = {(spec.benchmark.name, spec.settings.window) for spec, _ in made}
    assert windows == {("latency", 64), ("bw", 8)}  # for all claims that have windows
    made.clear()
    assert main(["study", "comm", "two.toml", "--as-published", "--trials", "1"]) == VALID
    spans = {spec.benchmark.name: str(spec.settings.span) for spec, _ in made}
    assert spans == {"latency": "8:64:8", "bw": "8:128"} and len(made) == 3
    folders = {path.parent.name for path in Path().glob("*/values.csv")}
    assert folders == {"two-quick", "two-as-published"}


def test_what_cannot_run_here_is_said(canned, monkeypatch, capsys):
    """Catches a variant that is left out in silence, or drawn without having been measured."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr(environment, "cores", lambda: 4)
    monkeypatch.setattr(libraries.sys, "prefix", str(Path().absolute()))
    Path("left.toml").write_text(LEFT_OUT)
    made = canned()
    assert main(["study", "comm", "left.toml", "--trials", "1"]) == VALID
    assert len(made) == 3  # latency by default, with mpich by name, and bcast
    said = " ".join(capsys.readouterr().out.split())
    for words in (
        "many-64 all 64 ranks are more than the 4 cores here",
        "devices mpi cupy --buffer cupy: no",
        "runtimes serial serial has no communication benchmarks yet",
        "--library openmpi=FOLDER names another",
    ):
        assert all(word in said for word in words.split()), words
    table = Path("left/tables.txt").read_text()
    assert "Left out" in table and "64 ranks are more than the 4 cores here" in " ".join(
        table.split()
    )


def test_libraries_are_started_by_their_own_launchers(canned, tmp_path, capsys):
    """Catches a comparison of one MPI library with itself, and two lines that look the same."""
    for name in ("mpich", "openmpi"):
        (tmp_path / name / "lib").mkdir(parents=True)
        (tmp_path / name / "bin").mkdir()
        (tmp_path / name / "lib" / "libmpi.so").write_text("")
        (tmp_path / name / "lib" / "libmpi.so.40").write_text("a library")
        (tmp_path / name / "bin" / "mpiexec").touch(0o755)
    head, _, claim = LEFT_OUT.rpartition("[[claims]]")
    text = head.partition("[[")[0] + "[[claims]]" + claim
    (tmp_path / "mpis.toml").write_text(text + 'sizes = "8:8"\n')

    def loaded(spec: CommSpec, trial: int) -> dict[str, Any]:
        return record_of(spec, trial)  # which says MPICH, whatever was asked for

    made = canned(loaded)
    words = [f"--library={name}={tmp_path / name}" for name in ("mpich", "openmpi")]
    assert main(["study", "comm", "mpis.toml", "--dry-run", *words]) == VALID
    listed = capsys.readouterr().out.splitlines()
    assert [line.rpartition("  # ")[2] for line in listed] == ["MPICH", "Open MPI"]
    assert main(["study", "comm", "mpis.toml", "--trials", "1", *words]) == WRONG
    starts = sorted(command[:2] for _, command in made)
    assert starts == [
        ["env", f"MPI4PY_LIBMPI={tmp_path / name / 'lib' / 'libmpi.so.40'}"]
        for name in ("mpich", "openmpi")
    ]
    launchers = {word for _, command in made for word in command if word.endswith("mpiexec")}
    assert launchers == {str(tmp_path / name / "bin/mpiexec") for name in ("mpich", "openmpi")}
    table = " ".join(Path("mpis/tables.txt").read_text().split())
    assert "MPI was MPICH Version: 5, asked was Open MPI" in table


def test_a_campaign_is_not_mistaken_for_one_of_an_app(canned, refused, capsys):
    """Catches a reader that takes the wrong kind of campaign file."""
    canned()
    main(["study", "comm", "two.toml"])
    capsys.readouterr()
    path = Path("two/campaign.jsonl")
    assert "head.study has no app" in refused("study", "export", path, "--format", "csv")


@pytest.mark.slow
@pytest.mark.launch
def test_a_real_campaign_of_another_library(tmp_path: Path) -> None:
    """Catches launches that only canned records survive, and a ping-pong in C of another MPI."""
    (tmp_path / "real.toml").write_text(
        'kind = "comm"\ntrials = 1\n[[claims]]\nname = "one"\ntitle = "One"\n'
        'benchmark = "anatomy"\ndriver = ["mpi"]\nsizes = "8:8"\niterations = 20\n'
        'library = ["openmpi"]\n'
    )
    folder = tmp_path / "out"
    done = support.in_process("study", "comm", tmp_path / "real.toml", "--campaign", folder)
    assert done.returncode == VALID, done.stderr
    lines = {row["line"]: float(row["value"]) for row in rows_of(folder)}
    calls = ("MPI_Send in C", "Send(a)")
    assert {*lines} == {*(calls if shutil.which("cc") else calls[1:])}
    assert all(0 < value < 1e5 for value in lines.values())
