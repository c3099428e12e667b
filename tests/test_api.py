"""From Python: `miniapps.run`, its record, and `miniapps.campaign`, as in docs/records.md."""

from __future__ import annotations

import ast
import importlib.metadata
import json
import os
import pkgutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import support

import miniapps
from miniapps import apps, drivers
from miniapps.workbench import api, environment, new
from miniapps.workbench.run import restarts
from miniapps.workbench.run.record import summary

TINY = {"preset": "tiny", "driver": "mpi", "pes": 2}


def test_what_is_offered_has_types() -> None:
    """Catches an entry point that is missing or of something else, and a stub of other names."""
    stub = ast.parse((support.ROOT / "miniapps/__init__.pyi").read_text())
    typed = {
        alias.asname: pkgutil.resolve_name(f"{node.module}:{alias.name}")
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    names = *apps.FOR_PROGRAMS, "InputError"
    assert typed == {name: getattr(miniapps, name) for name in names}


def test_a_tree_that_is_not_installed_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches words that do not say what to do where only PYTHONPATH finds the package."""
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: ())
    with pytest.raises(ImportError, match=r"^miniapps.run is not installed: make install, or pip"):
        miniapps.run("echo")


@pytest.mark.slow
def test_a_run_is_that_of_the_command_line(capfd: pytest.CaptureFixture[str]) -> None:
    """Catches a run from Python with other defaults, one that prints, and handlers that stay.

    And timings of blocks that are those of another run: they add up to the record's.
    """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    record = miniapps.run("pic", steps=20, **TINY)
    assert signal.signal(signal.SIGTERM, signal.SIG_DFL) is signal.SIG_IGN
    assert capfd.readouterr() == ("", "")
    (same,) = support.records_of(["pic --steps 20 --preset tiny --driver mpi -n 2"])
    assert record["valid"] and record.keys() == same.keys()
    fixed = "state_hash", "steps", "warmup", "problem", "pes", "blocks", "driver", "checks"
    assert {key: record[key] for key in fixed} == {key: same[key] for key in fixed}
    assert json.loads(json.dumps(record)) == record and str(record) == summary(record)
    blocks = record.blocks()
    assert [*blocks.columns] == ["block", "pe", "round", "begin_s", "end_s", "compute_s"]
    assert len(blocks) == 2 * len(record["rounds"]["wall_s"])
    assert blocks["compute_s"].sum() == pytest.approx(record["compute_s"])
    command, about = record.title().split("\n", 1)
    assert command == "pic --driver mpi -n 2 --steps 20 --warmup 2"
    host = record["host"]
    assert "size 96, particles 3000" in about and host["processor"] in about
    assert f"{host['cores']} core" in about


@pytest.mark.slow
@pytest.mark.launch
def test_a_run_in_another_thread() -> None:
    """Catches handlers of signals that only the main thread can set."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(miniapps.run("echo", preset="tiny")))
    thread.start()
    thread.join(60)
    assert found and found[0]["valid"] and found[0]["driver"] == "serial"


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"size": (7, 5, 3)}, "--size 7x5x3"),
        ({"size": "7y5"}, "--size"),
        ({"stepz": 3}, "unrecognized arguments: --stepz=3"),
        ({"driver": "mpj"}, "--driver"),
        ({"steps": 0}, "--steps 0"),
        ({"odf": 2, "driver": "mpi"}, "--odf 2"),
        ({"trace": True}, "--trace"),
        ({"json": "-"}, "json -"),
        ({"size": (600_000, 600_000), "time_tile": 1}, "needs"),
        ({"driver": "mpi", "pes": 500, "pin": True, "size": (999, 999)}, "--pin"),
    ],
)
def test_bad_input_is_refused(options, named, monkeypatch):
    """Catches bad input that ends the user's program, or that is noticed after the launch."""
    monkeypatch.setattr(restarts, "launch_until_done", None)
    with pytest.raises(miniapps.InputError, match=named):
        miniapps.run("jacobi2d", **options)
    with pytest.raises(miniapps.InputError, match="APP nonesuch"):
        miniapps.run("nonesuch")


def test_options_are_words() -> None:
    """Catches a flag with a value, and a list of events that is taken for a size."""
    given = {"pes": 2, "time_tile": "auto", "trace": True, "pin": False, "balancer": None}
    words = [word for name, value in given.items() for word in api._words(name, value)]
    assert words == ["-n", "2", "--time-tile=auto", "--trace"]
    assert [*api._words("inject", ["a", "b"])] == ["--inject=a", "--inject=b"]
    assert [*api._words("size", (7, 5))] == ["--size=7x5"]


def test_inside_a_launcher_it_is_refused(monkeypatch, capsys):
    """Catches a program under mpiexec, each of whose ranks launches the whole run.

    Or a traceback on each rank.
    """
    around = SimpleNamespace(name="mpiexec", size=2)
    monkeypatch.setattr(drivers, "launchers", lambda: {"some": around})
    said = []
    for speaks in (False, True):
        monkeypatch.setattr(drivers, "rank_zero_speaks", lambda speaks=speaks: speaks)
        with pytest.raises(miniapps.InputError, match="call it outside mpiexec") as caught:
            miniapps.run("echo", **TINY)
        assert isinstance(caught.value, SystemExit) and caught.value.code == 2
        said.append(capsys.readouterr().err.count("\n"))
    assert said == [1, 0]


def test_a_failed_run_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a failure that is only printed."""
    monkeypatch.setattr(restarts, "launch_until_done", lambda *_: "PE 1 died")
    with pytest.raises(miniapps.RunError, match="PE 1 died"):
        miniapps.run("echo", **TINY)


def test_a_pinned_run_pins_no_later_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a variable for the PEs of one run that stays in the user's process."""
    pinned = []

    def launches(spec: Any, command: Any, *_: Any) -> dict[str, Any]:
        command(spec)
        pinned.append(environment.PIN_VARIABLE in os.environ)
        return {"valid": True}

    monkeypatch.setattr(restarts, "launch_until_done", launches)
    for pin in (True, False):
        miniapps.run("echo", **TINY, hosts="a,b", pin=pin)
    assert pinned == [True, False] and environment.PIN_VARIABLE not in os.environ


def test_a_wrong_result_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches timings of a run whose result is wrong."""
    monkeypatch.setattr(restarts, "launch_until_done", lambda *_: {"valid": False})
    record = miniapps.run("echo", **TINY)
    assert record["valid"] is False
    with pytest.raises(miniapps.RunError, match="wrong"):
        record.blocks()


@pytest.mark.long
def test_a_campaign_is_a_table() -> None:
    """Catches a table that lacks runs, or has other columns than the exported file.

    And a title without app, size or machine.
    """
    path = support.ROOT / "docs/results/jacobi2d-strong.jsonl"
    campaign = miniapps.campaign(path)
    runs = campaign.runs()
    assert len(runs) == len([*campaign.of("run")]) > 0
    assert {"trial", "driver", "pes", "step_s", "rate", "problem.size"} <= {*runs.columns}
    title = campaign.title(60)
    assert title == "Strong scaling of jacobi2d, size 4096x4096, initial noise\nAMD EPYC, 2 cores"
    assert len(campaign.title(20).splitlines()) > 2
    with pytest.raises(miniapps.InputError, match="cannot be read"):
        miniapps.campaign(Path("nowhere.jsonl"))


@pytest.mark.slow
def test_pandas_is_asked_for_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a pandas that everybody needs, and its absence that is not explained."""
    late = "import sys, miniapps; miniapps.run; print('pandas' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", late], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=f"{sys.executable} -m pip install pandas"):
        api._table([])


def test_names_for_programs_are_no_apps(tmp_path: Path) -> None:
    """Catches an app that replaces `miniapps.run`, and a package that has every attribute."""
    with pytest.raises(miniapps.InputError, match="NAME run: is taken"):
        new.write("run", tmp_path)
    assert not hasattr(miniapps, "nonesuch")


@pytest.mark.parametrize("name", ["statistics", "scipy", "time"])
def test_names_of_python_modules_are_no_new_apps(tmp_path: Path, name: str) -> None:
    """Catches an app whose tests import another module of its name, and fail."""
    with pytest.raises(miniapps.InputError, match=f"NAME {name}: is a Python module"):
        new.write(name, tmp_path)
