"""``miniapps demo``: what it plans, its tables and its figure, from canned records."""

from __future__ import annotations

import io
import shlex
from pathlib import Path
from typing import Any
from unittest import mock

import drawn
import numpy as np
import pytest
import support
from rich.console import Console

from miniapps import apps, tiling
from miniapps.workbench import demo
from miniapps.workbench.cli import build_parser, main
from miniapps.workbench.exit_status import BAD_INPUT, FAILED, VALID, WRONG
from miniapps.workbench.run.cases import Case, spec_of
from miniapps.workbench.show import demo_figure
from miniapps.workbench.show.marks import write


def canned(preset: str, cases: list[Case]) -> dict[tuple[str, str, Case], Any]:
    """A valid record for every run of a preset."""
    found = {}
    for app in apps.names():
        if preset in apps.load(app).Problem.presets:
            for case in cases:
                with mock.patch.object(tiling, "best_tile", lambda *_: 1):  # measures nothing
                    spec = spec_of(app, case, preset, lb_first=demo.FIRST)
                given = {"app": app, **spec.recorded(), "pes": spec.pes}
                given |= {"steps": spec.steps, "warmup": spec.warmup, "imbalance": 1.9}
                given["problem"] = spec.problem.parameters()
                found[preset, app, case] = support.whole_record(given, 0.002 / spec.pes)
    return found


def printed(show: Any, found: dict[Any, Any]) -> tuple[int, str]:
    """The exit status of a table, and its text on a terminal of 80 columns."""
    text = io.StringIO()
    status = show(Console(file=text, width=80, highlight=False), found)
    return status, text.getvalue()


def problem_of(app: str, preset: str) -> Any:
    """The problem of a preset; no temporal-blocking depth is measured."""
    kind = apps.load(app).Problem
    values = kind.presets[preset].items()
    return kind(**{name: value for name, value in values if name not in ("steps", "warmup")})


@pytest.mark.parametrize("words", ["demo --folder", "study comm ombpy --quick --campaign"])
def test_folders_that_cannot_be_made(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Catches a folder that is found to be none only by an error of the system, with status 3."""
    with pytest.raises(SystemExit, match=f"^{BAD_INPUT}$"):
        main([*words.split(), f"{__file__}/x"])
    assert capsys.readouterr().err.endswith("test_demo.py/x: cannot be made: Not a directory\n")


def test_a_folder_in_which_records_cannot_be_written(tmp_path: Path) -> None:
    """Catches a demo that makes all its runs, and cannot write what it found."""
    (tmp_path / demo.RECORDS).mkdir()
    assert "is a directory" in support.refused(["demo", "--folder", tmp_path])


def test_problems_gain_from_two_pes() -> None:
    """Catches problems so small that messages take longer than a second PE saves."""
    for app in apps.names():
        kind = apps.load(app).Problem
        if demo.SCALING in kind.presets:
            problem = problem_of(app, demo.SCALING)
            assert problem.work() / support.FASTEST[problem.unit] >= 1e-3, app


def test_a_balancer_gains_on_the_uneven_load() -> None:
    """Catches a load that is even, or sits in so few blocks that no balancer can spread it."""
    pic = problem_of("pic", demo.UNEVEN)
    columns = pic.distribution.means(pic.particles, pic.size)
    loads = {
        odf: np.array([part.sum() for part in np.array_split(columns, 2 * odf)])
        for odf in (1, demo.ODF)
    }
    assert loads[1].max() / loads[1].mean() > 1.8
    spread = [0.0, 0.0]
    for load in sorted(loads[demo.ODF], reverse=True):  # the largest to the PE with the least
        spread[int(spread[0] > spread[1])] += load
    assert max(spread) / np.mean(spread) < 1.2
    assert demo.FIRST < 0.1 * pic.presets[demo.UNEVEN]["steps"]  # most steps are balanced


def test_what_to_try_next_can_be_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a command that has been renamed, and a run that writes no file for the next one.

    Also commands that the shell does not find, because nothing says what to activate.
    """
    last = (demo.UNEVEN, "pic", [*demo.uneven_cases()][-1])
    monkeypatch.setenv("PATH", "/nowhere")
    (_, script), *commands = map(str.split, demo.further([last]))
    assert Path(script).exists()
    monkeypatch.setenv("PATH", str(Path(script).parent))
    assert [*map(str.split, demo.further([last]))] == commands
    first, more, *others = demo.further([last])
    lines = [first.rstrip("\\") + more, *(line.strip().split("    ")[0] for line in others)]
    for words in map(shlex.split, lines):
        assert words[0] == "miniapps"
        build_parser(words[1:]).parse_args(words[1:])
    assert "--output run.h5" in lines[0] and "plot run.h5" in lines[1]


def test_tables_fit_a_terminal() -> None:
    """Catches rows that wrap at 80 columns, and a problem that a driver does not run."""
    scaling = canned(demo.SCALING, demo.scaling_cases())
    status, text = printed(demo.print_scaling, scaling)
    assert status == VALID and text.count("✓") == len({app for _, app, _ in scaling}) >= 4
    assert "1.00" in text and "2.00" in text
    status, more = printed(demo.print_uneven, canned(demo.UNEVEN, [*demo.uneven_cases()]))
    assert status == VALID and more.count("✓") == len([*demo.uneven_cases()])
    shown = [line for line in more.splitlines() if line.strip()]
    assert len(shown) == 3 + len([*demo.uneven_cases()])  # a line for each row
    for line in (*text.splitlines(), *more.splitlines()):
        assert len(line.rstrip()) < 80 and "…" not in line


def test_another_state_and_a_failure_show() -> None:
    """Catches a tick, or status 0, where a run ended in another state, is not valid or failed."""
    cases = [*demo.uneven_cases()]
    for spoiled, expected, mark in (
        ({"state_hash": "cd" * 32}, WRONG, "NO"),
        ({"valid": False}, WRONG, "WRONG"),
        (None, FAILED, "failed"),
    ):
        found = canned(demo.UNEVEN, cases)
        last = [*found][-1]
        found[last] = "ended with status 3" if spoiled is None else found[last] | spoiled
        status, text = printed(demo.print_uneven, found)
        assert status == expected and mark in text
        assert text.count("✓") == len(cases) - 1


@pytest.mark.long
def test_what_a_balancer_gains_is_drawn(tmp_path: Path) -> None:
    """Catches bars of other runs than their labels say, and a style that the user has set."""
    scaling = [*canned(demo.SCALING, demo.scaling_cases()).values()]
    uneven = [*canned(demo.UNEVEN, [*demo.uneven_cases()]).values()]
    with drawn.settings_of_a_user():
        figure = demo_figure.figure_of(scaling, uneven)
    left, right = figure.axes
    assert left.get_facecolor() == (1, 1, 1, 1) and left.xaxis.label.get_size() == 10
    apps = {record["app"] for record in scaling}
    assert {label.get_text() for label in left.get_xticklabels()} == apps
    assert "size 192x192x192" in {note.get_text() for note in left.texts}
    gains = [bar.get_height() for group in left.containers for bar in group]
    launched = [case for case in demo.scaling_cases() if case.pes > 1 and case.can.studied]
    assert gains == [2.0] * (len(launched) * len(apps)) and len(launched) >= 2
    names = [label.get_text().replace("\n", " ") for label in right.get_yticklabels()]
    assert names[0] == "mpi 2 PEs" and names[-1].endswith("balanced")
    assert write(demo_figure.figure_of(scaling, uneven), tmp_path / "x.png").stat().st_size > 10_000
