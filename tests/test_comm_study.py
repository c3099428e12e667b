"""Campaigns of communication benchmarks: what is launched, what counts, and what the report says.

Canned records stand for launches: each value is a number that can be computed by hand.
"""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import support
from figure_faults import drawn_texts, faults
from support import ROOT

import communication
from workbench import environment
from workbench.cli import main
from workbench.comm.spec import CommSpec
from workbench.exit_status import VALID, WRONG
from workbench.run import launch
from workbench.study import noise, report
from workbench.study.comm import figures, libraries
from workbench.study.comm.campaign import CommCampaign
from workbench.study.comm.claims import Wanted
from workbench.study.comm.plan import Plan
from workbench.study.comm.series import quantities, results

HOST = {"system": "Linux 6", "processor": "Abacus", "cores": 4, "memory_bytes": 2**33}
PUBLISHED = {"source": "A paper", "bytes": [8, 64], "slow": [30.0, 90.0], "fast": [10.0, 20.0]}
PUBLISHED |= {"numbers": {"added": 1.25, "span": [2, 3]}}  # type: ignore[dict-item]
TWO = """
kind = "comm"
source = "A paper"
trials = 3
[[claims]]
name = "touch"
title = "Written buffers"
says = "not published"
benchmark = "latency"
driver = ["mpi"]
touch = ["none", "sender"]
sizes = "8:64:8"
published = "values.json"
[claims.series]
"touch none" = "fast"
"touch sender" = "slow"
[[claims.quantities]]
what = "what writing adds"
of = "touch sender"
take = "difference"
sizes = "9:64"
published = "numbers.added"
[[claims.quantities]]
what = "how many times as long"
of = "touch sender"
take = "ratio"
published = "numbers.span"
[[claims]]
name = "rate"
title = "Bandwidth"
benchmark = "bw"
driver = ["mpi"]
sizes = "8:8"
[quick]
trials = 2
sizes = "64:64"
[paper]
ranks = [2]
[paper.rate]
sizes = "8:128"
"""
LEFT_OUT = """
kind = "comm"
[[claims]]
name = "many"
title = "Many ranks"
benchmark = "bcast"
driver = ["mpi"]
ranks = [2, 64]
[[claims]]
name = "devices"
title = "Buffers"
benchmark = "latency"
driver = ["mpi"]
buffer = ["numpy", "cupy"]
[[claims]]
name = "runtimes"
title = "Runtimes"
benchmark = "latency"
driver = ["mpi", "serial"]
[[claims]]
name = "libraries"
title = "Libraries"
benchmark = "latency"
driver = ["mpi"]
library = ["mpich", "openmpi"]
"""


def value_of(spec: CommSpec, size: int, trial: int) -> float:
    """In us or MB/s: written buffers take three times as long, for 64 B 4 us more."""
    base = {8: 2.0, 64: 4.0}.get(size, 8.0) + 0.01 * trial
    written = spec.settings.touch != "none"
    return 3 * base + 4 * (size == 64) if written else base


def record_of(spec: CommSpec, trial: int = 0, **more: Any) -> dict[str, Any]:
    """A canned record of a launch."""
    sizes = spec.settings.sizes(spec.benchmark)
    measured = [{"trial": 0, "size": size, "value": value_of(spec, size, trial)} for size in sizes]
    return {
        "schema": 2,
        "benchmark": spec.benchmark.name,
        "driver": spec.driver,
        "pes": spec.pes,
        **spec.recorded(),
        "sizes": sizes,
        "valid": None if spec.settings.no_check else True,
        "wrong": None,
        "barrier_us": 1.0,
        "measured": measured,
        "disturbance": {"load_average": 0.0, "waited": 0.0, "switches_per_s": 0.0, "steal": 0.0},
        "versions": {"python": "3", "mpi": "MPICH Version: 5"},
        "host": HOST,
        "oversubscribed": False,
    } | more


@pytest.fixture
def canned(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., list[tuple[CommSpec, list[str]]]]:
    """``canned(function of the spec and the trial)``: launches return its result; the launches.

    The current folder is an empty one with published values. No figure is written.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(noise, "REPEATS", 3)
    monkeypatch.setattr(report, "FORMATS", ())
    (tmp_path / "values.json").write_text(json.dumps(PUBLISHED))
    (tmp_path / "two.toml").write_text(TWO)

    def replace(result: Any = record_of) -> list[tuple[CommSpec, list[str]]]:
        made: list[tuple[CommSpec, list[str]]] = []
        counts: dict[str, int] = {}

        def launched(spec: CommSpec, command: list[str], limit: float | None) -> Any:
            made.append((spec, command))
            key = f"{spec.benchmark.name} {spec.settings.touch}"
            counts[key] = counts.get(key, -1) + 1
            return result(spec, counts[key])

        monkeypatch.setattr(launch, "launch", launched)
        return made

    return replace


def rows_of(folder: Path) -> list[dict[str, str]]:
    """The values as the CSV file has them."""
    with (folder / "values.csv").open() as file:
        return list(csv.DictReader(file))


def test_a_campaign_has_the_right_ratios_and_the_published_ones(
    canned: Any, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    for said in ("Written buffers", "published 3.00 to 4.50", "1.25", "2 to 3", "A paper"):
        assert said in page and said in " ".join(text.split()), said
    assert page.count("<figure") == 2 and (folder / "touch.svg").exists()
    assert (folder / "tables.txt").read_text() in text
    files = ("campaign.jsonl", "report.html", "tables.txt", "values.csv", "touch.svg", "rate.svg")
    assert {path.name for path in folder.iterdir()} == {*files}


def test_quantities_are_means_over_their_sizes(canned: Any) -> None:
    """Catches a difference or ratio of other sizes, or to another line."""
    canned()
    main(["study", "comm", "two.toml"])
    claim, _ = results(CommCampaign.read(Path("two/campaign.jsonl")))
    difference, ratio = quantities(claim)
    assert difference.value is not None and ratio.value is not None
    assert difference.value.value == pytest.approx(16.03 - 4.01) and difference.unit == "us"
    assert difference.sizes == (64,) and ratio.sizes == (8, 64)
    assert ratio.value.value == pytest.approx((3 + 16.03 / 4.01) / 2, rel=1e-3)
    assert ratio.value.low <= ratio.value.value <= ratio.value.high


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
    assert "touch sender was not measured" in page
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


HEADS: dict[str, Callable[[dict[str, Any]], None]] = {
    "head.study.claims[0].name must be of a-z, 0-9 and -": lambda claim: claim.update(
        name="../elsewhere"
    ),
    "head.study.claims[0].series must be published values": lambda claim: claim.update(
        series={"touch none": {"8": "many"}}
    ),
    "a line is of point 9, of 3 points": lambda claim: claim["lines"][0].update(point=9),
    "a line is of the call shout": lambda claim: claim["lines"][0].update(call="shout"),
    "a quantity takes more": lambda claim: claim["quantities"][0].update(take="more"),
    "sizes must be two sizes, or null": lambda claim: claim["quantities"][0].update(sizes=[8]),
}


@pytest.mark.parametrize("reason", HEADS)
def test_a_changed_head_is_refused(reason: str, canned: Any, refused: Any) -> None:
    """Catches an edited file by which a figure is written elsewhere, or a traceback is shown."""
    plan = Plan.of(Wanted.read(Path("two.toml")), {})
    points = [one.point() for one in plan.launches]
    head = json.loads(json.dumps({"campaign": 1, "study": plan.head(), "points": points}))
    assert CommCampaign.misfit_of_head(head) is None
    HEADS[reason](head["study"]["claims"][0])
    Path("campaign.jsonl").write_text(json.dumps(head) + "\n")
    assert reason in refused("study", "report", "campaign.jsonl")


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
    made.clear()
    assert main(["study", "comm", "two.toml", "--as-published", "--trials", "1"]) == VALID
    spans = {spec.benchmark.name: str(spec.settings.span) for spec, _ in made}
    assert spans == {"latency": "8:64:8", "bw": "8:128"} and len(made) == 3
    folders = {path.parent.name for path in Path().glob("*/values.csv")}
    assert folders == {"two-quick", "two-as-published"}


def test_what_cannot_run_here_is_said(
    canned: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
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


def test_libraries_are_started_by_their_own_launchers(canned: Any, tmp_path: Path) -> None:
    """Catches a comparison of one MPI library with itself."""
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


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("kind = 'comm'", "it has no claims"),
        ("kind = 'comm'\nclaims = []", "must name each claim once, and one"),
        (TWO.replace('benchmark = "bw"', ""), "it.claims[1] has no benchmark"),
        (TWO.replace('"bw"', '"bandwidth"'), "benchmark bandwidth: one of `miniapps comm --list`"),
        (TWO.replace('"8:8"', '"8:4"'), "sizes 8:4: must be MIN:MAX"),
        (TWO.replace('name = "rate"', 'name = "touch"'), "must name each claim once"),
        (TWO.replace('name = "rate"', 'name = "../rate"'), "must be of a-z, 0-9 and -"),
        (TWO.replace("says", "sais"), "it.claims[0] has the key sais, which must be of name"),
        (TWO.replace('"sender"]', '"receiver"]'), "touch receiver: one of none, sender, both"),
        (TWO.replace('"sender"]', '"none"]'), "must name each value once"),
        (TWO.replace("values.json", "none.json"), "none.json: cannot be read"),
        (TWO.replace('"slow"', '"slower"'), "series slower: must be a list in the published file"),
        (TWO.replace("numbers.added", "numbers.taken"), "numbers.taken: is not in the published"),
        (TWO.replace('of = "touch sender"', 'of = "sender"'), "sender: touch has touch none, "),
        (TWO.replace('"touch none" =', '"none" ='), "line none: touch has touch none, touch"),
        (TWO.replace('"difference"', '"sum"'), "take sum: one of value, difference, ratio"),
        (TWO.replace("[paper.rate]", "[paper.bw]"), "its table has the key bw, which must be of"),
    ],
)
def test_a_wrong_file_is_one_line(
    text: str, line: str, canned: Any, refused: Callable[..., str]
) -> None:
    """Catches a mistake in a file that shows as a missing line, or as a traceback."""
    Path("wrong.toml").write_text(text)
    flags = ["--as-published"] if "paper.bw" in text else []
    before = {*Path().iterdir()}
    assert line in refused("study", "comm", "wrong.toml", *flags)
    assert {*Path().iterdir()} == before


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["nowhere.toml"], "nowhere.toml: cannot be read"),
        (["two.toml", "--trials", "0"], "--trials 0: must be 1 or more"),
        (["two.toml", "--library", "mvapich=/opt"], "must be NAME=FOLDER with a name of mpich"),
        (["two.toml", "--quick", "--as-published"], "--quick given: not with --as-published"),
        (["two.toml", "--", "-v"], "-- -v: a study passes no options to launchers"),
        (["pic-lb"], "pic-lb.toml: is of no communication benchmarks"),
    ],
)
def test_a_wrong_command_is_one_line(
    words: list[str], line: str, canned: Any, refused: Callable[..., str]
) -> None:
    """Catches bad input that launches something, or leaves a folder."""
    before = {*Path().iterdir()}
    assert line in refused("study", "comm", *words)
    assert {*Path().iterdir()} == before


def test_a_campaign_is_not_mistaken_for_one_of_an_app(
    canned: Any, refused: Any, capsys: Any
) -> None:
    """Catches a reader that takes the wrong kind of campaign file."""
    canned()
    main(["study", "comm", "two.toml"])
    capsys.readouterr()
    path = Path("two/campaign.jsonl")
    assert "head.study has no app" in refused("study", "export", path, "--format", "csv")


SHIPPED = sorted(
    path for path in (ROOT / "studies").glob("*.toml") if 'kind = "comm"' in path.read_text()
)


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_shipped_campaigns_have_published_values_for_their_lines(
    file: Path, quick: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches a line that is named otherwise than its published values."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    wanted = Wanted.read(file, quick=quick, as_published=not quick)
    assert wanted.source and all(claim.title for claim in wanted.claims)
    plan = Plan.of(wanted, {})
    assert plan.launches or plan.left_out
    known = {*communication.runtimes()}
    for claim in wanted.claims:
        made = [one for one in plan.claims if one["name"] == claim.name]
        assert len(made) == 1
        missing = [one for one in plan.left_out if one["claim"] == claim.name]
        assert made[0]["lines"] or missing
        assert {*claim.choices["driver"]} <= known or missing


def test_papers_are_repeated_with_their_values() -> None:
    """ESPM2 2021 Fig. 1(b): 29.742 and 1.646 us for 16 B; OMB-Py 2021: 0.44 us inside a node."""
    (cpu, over_c, gpu) = Wanted.read(ROOT / "studies/espm2-latency.toml").claims
    assert (cpu.series["charm"][16], cpu.series["mpi"][16]) == (29.742, 1.646)
    assert over_c.series["MPI_Send in C"][4194304] == 458.059
    assert gpu.series["charm"][16] == 45.811 and gpu.choices["buffer"] == ("cupy",)
    overhead = Wanted.read(ROOT / "studies/ombpy.toml").claims[0]
    assert [one.published for one in overhead.quantities] == [0.44, 2.31]
    direct = Wanted.read(ROOT / "studies/charm4py-direct-copy.toml").claims[0]
    assert direct.quantities[0].published == 1.1346
    files = Wanted.read(ROOT / "studies/ppython.toml", as_published=True).claims
    assert max(claim.ranks for claim in files) == 768
    assert files[0].settings.sizes(files[0].benchmark) == [8, 8 << 10, 8 << 20]


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
