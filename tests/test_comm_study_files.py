"""Files of campaigns of communication benchmarks: what is refused, and those of the project."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from canned_comm import TWO, replaced
from support import ROOT

from miniapps import communication
from miniapps.workbench.study.comm.campaign import CommCampaign, values_of
from miniapps.workbench.study.comm.claims import Wanted
from miniapps.workbench.study.comm.plan import Plan
from miniapps.workbench.study.options import table_of


@pytest.fixture
def canned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Any]:
    """As `canned_comm.replaced`."""
    return replaced(monkeypatch, tmp_path)


HEADS: dict[str, Callable[[dict[str, Any]], None]] = {
    "head.study.claims[0].name must be of a-z, 0-9 and -": lambda claim: claim.update(
        name="../elsewhere"
    ),
    "head.study.claims[0].series must be published values": lambda claim: claim.update(
        series={"touch none": {"8": "many"}}
    ),
    "a line is of point 9, of 3 points": lambda claim: claim["lines"][0].update(point=9),
    "a line is of the call shout": lambda claim: claim["lines"][0].update(call="shout"),
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
        (TWO.replace('"touch none" =', '"none" ='), "line none: touch has touch none, touch"),
        (
            TWO.replace('= "bw"', '= "bw"\ncalls = ["c"]'),
            "calls ['c']: a claim about anatomy needs",
        ),
        (TWO.replace("[paper.rate]", "[paper.bw]"), "its table has the key bw, which must be of"),
    ],
)
def test_a_wrong_file_is_one_line(text, line, canned, refused):
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
def test_a_wrong_command_is_one_line(words, line, canned, refused):
    """Catches bad input that launches something, or leaves a folder."""
    before = {*Path().iterdir()}
    assert line in refused("study", "comm", *words)
    assert {*Path().iterdir()} == before


SHIPPED = sorted(
    path for path in (ROOT / "studies").glob("*.toml") if 'kind = "comm"' in path.read_text()
)


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_shipped_campaigns_have_published_values_for_their_lines(file, quick, monkeypatch):
    """Catches a line that is named otherwise than its published values."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    paper = not quick and "paper" in table_of(file)  # what is not published has no such table
    wanted = Wanted.read(file, quick=quick, as_published=paper)
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
    """ESPM2 2021 Fig. 1(b): 29.742 and 1.646 us for 16 B."""
    cpu, over_c, over_charm, rate, gpu = Wanted.read(ROOT / "studies/espm2-latency.toml").claims
    assert (cpu.series["charm"][16], cpu.series["mpi"][16]) == (29.742, 1.646)
    assert over_c.series["MPI_Send in C"][4194304] == 458.059
    alone, channel = (over_charm.series[name][16] for name in ("Charm++ alone", "channel.send(a)"))
    assert (alone, channel) == (7.23, 29.742)
    assert rate.benchmark.name == "bw" and rate.choices["driver"] == ("mpi", "charm")
    assert [rate.settings.iterations_of(rate.benchmark, size) for size in (8192, 16384)] == [
        1000,
        100,
    ]
    assert rate.settings.warmups_of(rate.benchmark) == 10
    assert rate.settings.sizes(rate.benchmark) == [*cpu.series["mpi"]]
    assert gpu.series["charm"][16] == 45.811 and gpu.choices["buffer"] == ("cupy",)
    files = Wanted.read(ROOT / "studies/ppython.toml", as_published=True).claims
    assert max(claim.ranks for claim in files) == 768
    assert files[0].settings.sizes(files[0].benchmark) == [8, 8 << 10, 8 << 20]


def test_the_study_of_written_buffers_has_every_runtime_library_and_size() -> None:
    """Catches a benchmark without its untouched line, and a size that the page on results lacks."""
    claims = {claim.name: claim for claim in Wanted.read(ROOT / "studies/written.toml").claims}
    assert {*claims} == {"latency", "bandwidth", "bcast", "allreduce", "allgather", "alltoall"}
    for name, claim in claims.items():
        assert {65536, 1048576, 4194304} <= {*claim.settings.sizes(claim.benchmark)}
        between_two = name in ("latency", "bandwidth")
        touches = ("none", "sender", "both") if between_two else ("none", "both")
        assert claim.choices["touch"] == touches
        assert claim.choices["driver"] == (("mpi", "charm", "file") if between_two else ("mpi",))
        libraries = None if between_two else ("mpich", "openmpi")
        assert claim.choices.get("library") == libraries


def test_a_line_may_be_one_side_of_a_message() -> None:
    """Catches sides that are not read, or read as whole calls, and a bad number among them."""
    record = {"benchmark": "anatomy", "whole": {"8": {"core": [1.0]}}}
    record |= {"sides": {"8": {"sent": [2.0], "taken": [3.0, None]}}}
    assert [*values_of(record, 8, "core")] == [1.0] and [*values_of(record, 8, "sent")] == [2.0]
    assert [*values_of(record, 8)] == [1.0, 2.0, 3.0, None]
    assert [*values_of(record, 64, "sent")] == []
