"""The command line: bad input is refused in one line before anything starts; records are whole."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
import io
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import h5py
import numpy as np
import pytest
import support

from miniapps import apps, drivers
from miniapps.devices.cpu import host_memory
from miniapps.drivers.charm import datagrams as charm_transport
from miniapps.drivers.charm.balancers import BALANCERS
from miniapps.drivers.timing import ROW
from miniapps.workbench import cli, environment
from miniapps.workbench.cli import FURTHER, main
from miniapps.workbench.parser import command_parser
from miniapps.workbench.run import launch, output

SMALL = ["run", "jacobi2d", "--size", "7x5", "--steps", "3"]
KEYS = """app driver device pes blocks odf balancer lb_period steps warmup problem valid checks
state_hash step_time_s rate compute_s utilisation imbalance migrations lb jit_s import_s versions
host oversubscribed disturbance snapshots_s audits_s""".split()


DRIVERS = ["--driver serial", "--driver mpi -n 2", "--driver charm -n 2 --odf 2"]
BAD_PROBLEMS = [
    ("jacobi2d --size 0x5", "--size 0x5", "1 or more"),
    ("jacobi2d --size 7x0", "--size 7x0", "1 or more"),
    ("jacobi2d --size=-7x5", "--size -7x5", "1 or more"),
    ("jacobi2d --size 7", "--size 7", "2 axes"),
    ("jacobi2d --size 7x5x3", "--size 7x5x3", "2 axes"),
    ("stencil3d --size 7x5", "--size 7x5", "3 axes"),
    ("echo --size 7x5x3", "--size 7x5x3", "2 axes"),
    ("jacobi2d --size axb", "--size", "axb"),
    ("jacobi2d --size 7x", "--size", "7x"),
    ("jacobi2d --size 7.5x5", "--size", "7.5x5"),
    ("jacobi2d --size", "--size", "expected"),
    ("jacobi2d --boundary warm", "--boundary", "heated"),
    ("jacobi2d --initial warm", "--initial", "noise"),
    ("jacobi2d --time-tile 0", "--time-tile 0", "1 or more"),
    ("jacobi2d --time-tile 2.5", "--time-tile", "2.5"),
    ("jacobi2d --size 7x5 --time-tile 8", "--time-tile 8", "at most"),
    ("jacobi2d --check-every 0", "--check-every 0", "1 or more"),
    ("jacobi2d --imbalance paper", "--imbalance", "unrecognized"),
    ("jacobi2d --check-every 3", "--check-every 3", "needs --tolerance"),
    ("stencil3d --imbalance-mode work", "--imbalance-mode work", "needs --imbalance paper"),
    ("stencil3d --imbalance mine", "--imbalance", "paper"),
    ("stencil3d --imbalance-mode sleep", "--imbalance-mode", "work"),
    ("stencil3d --imbalance paper --time-tile 2", "--time-tile 2", "at most 1 here (--imbalance"),
    ("echo --bytes 63", "--bytes 63", "multiple of 8"),
    ("echo --bytes 56", "--bytes 56", "64 or more"),
    ("jacobi2d --steps 0", "--steps 0", "1 or more"),
    ("jacobi2d --steps=-3", "--steps -3", "1 or more"),
    ("jacobi2d --steps many", "--steps", "many"),
    ("jacobi2d --warmup=-1", "--warmup -1", "0 or more"),
    ("jacobi2d --preset huge", "--preset huge", "tiny, small, large, paper"),
    ("jacobi2d --pe-grid 1x1x1", "--pe-grid 1x1x1", "2 axes"),
    ("jacobi2d --device gpu", "--device gpu", "no NVIDIA GPU"),
    ("jacobi2d --device tpu", "--device", "cpu"),
    ("jacobi2d --frobnicate 3", "--frobnicate", "unrecognized"),
]


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize(("words", "named", "allowed"), BAD_PROBLEMS)
def test_bad_problem(refused, words, named, allowed, driver, monkeypatch):
    """Catches bad input found only by the ranks, or reported without option and value."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    if "--pe-grid" in words:
        driver = driver.replace("-n 2", "-n 1")
    error = refused("run", *words.split(), *driver.split())
    assert named in error and allowed in error


BAD_RUNS = [
    ("--gpus-per-host 2", "--gpus-per-host 2", "only with --device gpu"),
    ("--gpu-aware on --driver mpi", "--gpu-aware on", "only with --device gpu"),
    ("--gpu-aware off", "--gpu-aware off", "only with --driver mpi"),
    ("--gpu-aware off --driver mpi", "--gpu-aware off", "only with --device gpu"),
    ("--device gpu --gpus-per-host 0", "--gpus-per-host 0", "1 or more"),
    ("--device gpu --gpu-aware on --driver charm", "--gpu-aware on", "only with --driver mpi"),
    ("--dtype float16", "--dtype", "float32"),
    ("-n 0 --driver mpi", "-n 0", "1 or more"),
    ("-n -2 --driver charm", "-n -2", "1 or more"),
    ("-n two --driver mpi", "-n", "two"),
    ("-n 2", "-n 2", "--pe-grid"),
    ("-n 36 --driver mpi", "-n 36", "do not fit"),
    ("-n 36 --driver charm", "-n 36", "do not fit"),
    ("--pe-grid 8x1", "--pe-grid 8x1", "more blocks than cells"),
    ("--pe-grid 8x1 --driver mpi", "--pe-grid 8x1", "more blocks than cells"),
    ("--pe-grid 1x6 --driver charm", "--pe-grid 1x6", "more blocks than cells"),
    ("--pe-grid 2x2 -n 3 --driver mpi", "--pe-grid 2x2", "3 in all"),
    ("--pe-grid 0x2 --driver mpi", "0", "1 or more"),
    ("--pe-grid ax2", "--pe-grid", "ax2"),
    ("-n 2 --driver charm --odf 20", "--odf 20", "do not fit"),
    ("-n 2 --driver charm --odf 0", "--odf 0", "1 or more"),
    ("--odf 2", "--odf 2", "--driver charm"),
    ("--odf 2 -n 2 --driver mpi", "--odf 2", "--driver charm"),
    ("--balancer Greedy --lb-period 5", "--balancer Greedy", "--driver charm"),
    ("--balancer Greedy --lb-period 5 --driver mpi", "--balancer Greedy", "--driver charm"),
    ("--lb-period 5 --driver mpi", "--lb-period 5", "--driver charm"),
    ("--lb-period 5 --driver charm", "--lb-period 5", "needs --balancer NAME"),
    ("--lb-period -5 --driver charm", "--lb-period -5", "0 or more"),
    ("--balancer Greedy --driver charm", "--balancer Greedy", "--lb-period"),
    ("--lb-first 5 --driver charm", "--lb-first 5", "needs --lb-period"),
    (
        "--balancer Greedy --lb-period 5 --lb-first 3 --warmup 3 --driver charm",
        "--lb-first 3",
        "more than the 3",
    ),
    (
        "--balancer Greedy --lb-period 5 --lb-first 6 --warmup 3 --driver charm",
        "--lb-first 6",
        "less than all 6",
    ),
    (
        "--balancer Greedy --lb-period 6 --warmup 3 --driver charm",
        "--lb-period 6",
        "no multiple is more than the 3",
    ),
    ("--driver openmp", "--driver: openmp", "must be one of serial, sim, file, mpi, charm"),
    ("--driver mpi -n 2 --time-tile 4", "--time-tile 4", "at most 3"),
]


@pytest.mark.parametrize(("words", "named", "allowed"), BAD_RUNS)
def test_bad_run(refused: Callable[..., str], words: str, named: str, allowed: str) -> None:
    """Catches a layout, or an option of another driver, that fails late or is ignored."""
    error = refused(*SMALL, *words.split())
    assert named in error and allowed in error


def test_unknown_balancer_names_all(refused: Callable[..., str]) -> None:
    """Catches a name that the runtime would abort on; the line lists every one that it knows."""
    error = refused(*SMALL, *"--driver charm -n 2 --odf 2 --balancer Best --lb-period 5".split())
    assert "--balancer Best" in error
    assert all(name in error for name in BALANCERS)
    assert {"Greedy", "GreedyRefine", "RefineA", "RefineB", "Random", "Rotate", "Dummy"} == set(
        BALANCERS
    )


@pytest.mark.parametrize("words", ["run nonesuch", "run nonesuch --size 7x5", "verify nonesuch"])
def test_unknown_apps(refused: Callable[..., str], words: str) -> None:
    """Catches a usage message of many lines, a traceback, and a line that leaves users to guess."""
    error = refused(*words.split())
    assert "nonesuch" in error and all(name in error for name in apps.names())


def test_unknown_commands(refused: Callable[..., str]) -> None:
    """Catches the same for a misspelt command."""
    assert "frobnicate" in refused("frobnicate")


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("option", ["--output", "--json"])
def test_files_that_cannot_be_written(refused, tmp_path, option, driver):
    """Catches a long run whose result is lost at its end: the place is looked at first."""
    for path in (tmp_path / "missing" / "x.h5", tmp_path):
        error = refused(*SMALL, *driver.split(), option, path)
        assert option in error and str(path) in error
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("launcher", ["/nonexistent/mpiexec", "/"])
def test_launcher_that_is_none(launcher: str, refused: Callable[..., str]) -> None:
    """Catches a misspelt --launcher that ends in a traceback and the status of a wrong run."""
    asked = ("--driver", "mpi", "-n", 2, "--launcher", launcher)
    assert "--launcher" in refused(*SMALL, *asked)


@pytest.mark.parametrize("driver", ["serial", "sim", "file -n 2", "charm -n 2"])
def test_launcher_of_a_driver_that_has_none(driver: str, refused: Callable[..., str]) -> None:
    """Catches a --launcher that is taken and has no effect."""
    words = [*SMALL, "--driver", *driver.split(), "--launcher", "/usr/bin/env"]
    assert "--launcher /usr/bin/env: only with --driver mpi" in refused(*words)


def test_refused_as_a_user_sees_it(miniapps: Callable[..., Any]) -> None:
    """Catches what the tests inside this process cannot see: warnings of imports on stderr."""
    done = miniapps("run", "jacobi2d", "--size", "0x5", "--driver", "mpi", "-n", 2)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "miniapps: --size 0x5: must be 1 or more along each axis\n"


@pytest.mark.slow
def test_refused_inside_mpiexec() -> None:
    """Catches a rank 0 that exits alone while the others wait, and a line from every rank."""
    command = [support.BIN / "mpiexec", "-n", 2, support.BIN / "miniapps", *SMALL]
    for bad in (["--steps", "-1"], ["--time-tile", "9"], ["--balancer", "Greedy"]):
        done = support.execute([*command, "--driver", "mpi", *bad])
        assert done.returncode == 2, done.stderr
        lines = [line for line in done.stderr.splitlines() if line.startswith("miniapps:")]
        assert len(lines) == 1 and bad[0] in lines[0]


# What is printed ---------------------------------------------------------------------------------


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The output of a command that must succeed, in this process."""
    assert main(words) == 0
    return capsys.readouterr().out


def test_dry_run_of_mpi(capsys: pytest.CaptureFixture[str]) -> None:
    """Catches a printed command that is not the one that would be started."""
    words = shlex.split(printed(capsys, *SMALL, "--driver", "mpi", "-n", "4", "--dry-run"))
    assert Path(words[0]).name == "mpiexec" and words[1:3] == ["-n", "4"]
    assert words[words.index("run") :][:2] == ["run", "jacobi2d"] and "--no-launch" in words
    assert words[words.index("--pe-grid") + 1] == "2x2"
    assert words[words.index("--time-tile") + 1].isdigit()  # determined once, for all ranks


@cache
def every_command() -> list[tuple[tuple[str, ...], Any]]:
    """Each command and its subcommands, as words, with its parser."""
    return [*support.reference_pages()["parsers"]()]


@pytest.mark.long
def test_commands_that_need_words_print_their_help(capsys: pytest.CaptureFixture[str]) -> None:
    """Catches a bare `miniapps` or `miniapps plot` that only complains."""
    bare = [words for words, parser in every_command() if parser.needs_words]
    assert {(), ("plot",), ("study", "strong"), ("comm",), ("lesson", "start")} <= {*bare}
    assert not {("list",), ("verify",), ("run", "pic")} & {*bare}
    for words in bare:
        with pytest.raises(SystemExit) as caught:
            main(words)
        shown = capsys.readouterr()
        assert (caught.value.code, shown.err) == (2, ""), words
        assert shown.out.startswith(f"usage: {' '.join(['miniapps', *words])} ["), words


@pytest.mark.slow
def test_help_fits_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a description that runs beyond the screen."""
    monkeypatch.setenv("COLUMNS", "80")
    assert len(every_command()) > 50
    for words, parser in every_command():
        help = parser.format_help()
        assert [line for line in help.splitlines() if len(line) > 80] == [], words


def test_python_m_and_the_version() -> None:
    """Catches a `python -m miniapps` that is no command, and a version that cannot be asked for."""
    version = support.execute([sys.executable, "-m", "miniapps", "--version"])
    assert version.stdout.split() == ["miniapps", importlib.metadata.version("parallel-miniapps")]
    for module in ("miniapps", "miniapps.workbench.cli"):
        wrong = support.execute([sys.executable, "-m", module, "fly"])
        assert wrong.returncode == 2 and wrong.stderr.startswith("miniapps: "), wrong.stderr


@pytest.mark.long
def test_more_than_the_memory_is_refused(refused, monkeypatch):
    """Catches a run that is launched to be killed for its memory, minutes later."""
    monkeypatch.setattr(host_memory, "memory_bytes", lambda: 25_000_000_000)
    said = refused("run", "jacobi2d", "--size", "60000x60000")
    assert "needs 57.6 GB of memory at least, this machine has 25.0 GB; --force runs it" in said
    monkeypatch.setattr(host_memory, "memory_bytes", lambda: 1_000_000)
    large = {"echo": "--size 500x500", "pic": "--event inject:5:20000:0,100,0,100"}
    for app in apps.names():
        words = ["run", app, *large.get(app, "--preset small").split()]
        for driver in ("serial", "sim", "file -n 2", "mpi -n 2", "charm -n 2"):
            assert "--force" in refused(*words, "--driver", *driver.split())
        monkeypatch.setattr(sys, "stdin", io.StringIO(shlex.join(words)))
        assert "--force" in refused("batch", "-")


def test_more_than_the_disk_is_refused(refused: Callable[..., str], tmp_path: Path) -> None:
    """Catches a trajectory, thumbnails or hashes that end a long run by a full disk.

    Each frame is there twice while it is written: an id, a position and a velocity for each of 768
    atoms, 64 x 64 values, or 256 sums of four words.
    """
    many = ["--steps", 10**12, "--output", tmp_path / "x.h5"]
    frames = {
        "leanmd": ("--trajectory 1", 768 * 7 * 8),
        "pic": ("--snapshot-every 1", 64 * 64 * 4),
        "jacobi2d": ("--hash-every 1", 256 * 4 * 8),
    }
    for app, (asked, frame) in frames.items():
        said = refused("run", app, "--preset", "tiny", *asked.split(), *many)
        found = re.search(
            r"needs (\d+\.\d) GB of disk for \d+ steps, \d+\.\d GB are free; --force", said
        )
        assert found is not None and float(found[1]) == pytest.approx(2 * frame * 1e3, rel=1e-9)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("run cg --size 3x3", "--size 3x3: must name 3 axes"),
        ("run cg --bad", "unrecognized arguments: --bad"),
        ("study --list", "command study --list: must be `run APP ...`"),
    ],
)
def test_a_wrong_line_of_a_batch_is_named(refused, line, why, monkeypatch):
    """Catches an error in one of hundreds of lines that does not say in which."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"run echo\n\n{line}\n"))
    assert refused("batch", "-") == f"miniapps: FILE -, line 3: {why}\n"


@pytest.mark.parametrize("option", ["--json=x", "--launcher=x", "--stall=9", "--pin", "--dry-run"])
def test_options_of_one_launch_in_a_batch(refused, option, monkeypatch):
    """Catches a line of a batch with an option that is taken and has no effect."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"run echo --preset tiny {option}"))
    assert "is no option of a run in a batch" in refused("batch", "-")


@pytest.mark.parametrize(
    ("words", "warmup"), [("", "10"), ("--preset tiny", "2"), ("--warmup 0", "0")]
)
def test_runs_warm_up(capsys: pytest.CaptureFixture[str], words: str, warmup: str) -> None:
    """Catches a default run that times its first steps, which touch memory for the first time."""
    asked = ["run", "pic", "--driver", "mpi", "-n", "2", *words.split(), "--dry-run"]
    command = shlex.split(printed(capsys, *asked))
    assert command[command.index("--warmup") + 1] == warmup


def test_dry_run_of_charm(capsys: pytest.CaptureFixture[str]) -> None:
    """Catches runtime options that get lost, and PEs or balancers that do not reach charmrun."""
    asked = "--driver charm -n 2 --odf 4 --balancer GreedyRefine --lb-period 6 --dry-run"
    words = shlex.split(printed(capsys, *SMALL, *asked.split(), "--", "+setcpuaffinity"))
    assert words[1:4] == ["-m", "charmrun.start", "+p2"]
    assert words[words.index("+balancer") + 1] == "GreedyRefineLB"
    assert words[words.index("--odf") + 1] == "4" and words[-1] == "+setcpuaffinity"


def test_datagrams_fit_into_the_receivers_buffer(monkeypatch, tmp_path):
    """Catches datagrams that get lost, and options that users of other hosts would inherit."""
    limit = tmp_path / "rmem_max"
    monkeypatch.setattr(charm_transport, "LARGEST_BUFFER", limit)
    for buffer in (212_992, 4_194_304, 1 << 26):
        limit.write_text(f"{buffer}\n")
        for pes in (1, 2, 3, 16):
            words = charm_transport.transport_options(pes)
            given = dict(zip(words[::2], map(int, words[1::2]), strict=True))
            if given:
                size, room = given["+max_dgram_size"], given["+os_buffer_size"]
                assert 1400 < size <= 65_507 and room <= buffer
                assert size * 32 * max(1, pes - 1) <= room
            else:
                assert buffer // 32 // (pes - 1) <= 1400
    limit.write_text("no number")
    assert charm_transport.transport_options(2) == []
    limit.unlink()
    assert charm_transport.transport_options(2) == []


def test_datagram_options_are_for_one_host(capsys: pytest.CaptureFixture[str]) -> None:
    """Catches large datagrams on a network that would cut them into packets."""
    asked = [*SMALL, "--driver", "charm", "-n", "2", "--dry-run"]
    assert "+max_dgram_size" in printed(capsys, *asked)
    assert "+max_dgram_size" not in printed(capsys, *asked, "--", "++nodelist", "hosts")


def test_dry_run_starts_nothing(capsys, monkeypatch, tmp_path):
    """Catches a dry run that runs, serial ones too."""
    monkeypatch.setattr(drivers, "load", None)
    monkeypatch.setattr(launch, "launch", None)
    output = tmp_path / "x.h5"
    for driver in DRIVERS:
        printed(capsys, *SMALL, *driver.split(), "--output", str(output), "--dry-run")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_dry_run_gives_the_same_state(capsys, run_record):
    """Catches a printed command that does not work when it is typed by hand."""
    words = shlex.split(printed(capsys, *SMALL, "--driver", "mpi", "-n", "2", "--dry-run"))
    done = support.execute([*words, "--json", "-"], check=True)
    assert json.loads(done.stdout)["state_hash"] == run_record(*SMALL[1:])["state_hash"]


@pytest.mark.parametrize(
    "words",
    ["list", "run", "verify", "doctor", "plot", "demo", *(f"run {app}" for app in apps.names())],
)
def test_help_has_an_example(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Catches a subcommand whose help does not show how it is used."""
    with pytest.raises(SystemExit) as caught:
        main([*words.split(), "--help"])
    assert caught.value.code == 0
    shown = capsys.readouterr().out
    assert shown.startswith("usage: miniapps")
    if words in ("list", "run", "verify", "doctor", "plot", "demo"):
        assert f"miniapps {words}" in shown.split("example", 1)[1]
    else:
        option = dataclasses.fields(apps.load(words.split()[1]).Problem)[0].metadata["option"]
        assert "--driver" in shown and f"  {option}" in shown and "default: " in shown


@pytest.fixture
def further(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The commands of installed packages that are found, by name; each only for one test."""
    found: dict[str, Any] = {}
    monkeypatch.setattr(apps, "installed", lambda group=None: found if group == FURTHER else {})
    return found


def test_commands_of_other_packages_are_found(further, refused, capsys) -> None:
    """Catches one that hides a command from here, or that ends all commands by its fault."""
    here, broken = f"{__name__}:add_greet", "nowhere:add"
    for name, place in {"greet": here, "list": broken, "broken": broken}.items():
        further[name] = importlib.metadata.EntryPoint(name, place, FURTHER)
    assert main(["greet"]) == 0 and "greetings" in capsys.readouterr().out
    assert "command broken: import fails: ModuleNotFoundError" in refused("broken")
    assert "amr" in printed(capsys, "list")
    with pytest.raises(SystemExit):
        main(["--help"])
    said = capsys.readouterr()
    assert "greet" in said.out and said.err.startswith("left out: command broken: import fails: ")
    assert said.err.count("\n") == 1


def add_greet(commands: Any, arguments: list[str]) -> None:
    """A command of another package."""
    said = lambda options, runtime: print("greetings") or 0  # type: ignore[func-returns-value] # noqa: E731
    command_parser(commands, "greet", "greet", "", said)


@pytest.mark.usefixtures("further")
def test_a_command_that_needs_an_installation_says_so(refused, capsys) -> None:
    """Catches a bare source tree that only says that there is no `lesson`, or has no help."""
    said = refused("lesson", "list")
    assert "command lesson: must be one of list, " in said and "pip install -e ." in said
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0 and "lesson" not in capsys.readouterr().out


def test_other_commands_do_not_look_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches metadata of all installed packages that every run reads."""
    monkeypatch.setattr(cli, "with_further", None)
    for words in ("run echo --preset tiny", "verify echo", "plot x.h5"):
        cli.build_parser(words.split())


@pytest.mark.parametrize("words", ["list", "lesson list", "study --list", "comm --list"])
def test_lists_fit_a_terminal(words, capsys, monkeypatch):
    """Catches a list that wraps wherever the terminal ends."""
    monkeypatch.setenv("COLUMNS", "80")
    with contextlib.suppress(SystemExit):
        main(words.split())
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 4 and [line for line in lines if len(line) > 80] == []


def test_list_shows_every_app(capsys: pytest.CaptureFixture[str]) -> None:
    """Catches an app that is there but not listed, or without a word on what it is."""
    lines = printed(capsys, "list").splitlines()
    assert [line.split()[0] for line in lines] == apps.names()
    assert all(len(line.split()) > 4 for line in lines)


# Records -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def record() -> dict[str, Any]:
    """The record of a small serial run."""
    return support.run_record(
        *"jacobi2d --size 13x11 --pe-grid 3x2 --steps 6 --warmup 2 --time-tile 2".split()
    )


def test_record_has_all_keys(record: dict[str, Any]) -> None:
    """Catches a key that scripts depend on and that is missing or renamed."""
    assert set(KEYS) <= set(record)
    assert set(record["step_time_s"]) == {"median", "min", "max"}
    assert set(record["rate"]) == {"value", "unit"}
    assert all(set(check) == {"name", "value", "limit", "ok"} for check in record["checks"])
    assert len(record["state_hash"]) == 64
    assert {"python", "numpy", "numba", "mpi4py", "charm4py"} <= set(record["versions"])


def test_record_says_what_was_asked(record: dict[str, Any]) -> None:
    """Catches a record of other parameters than those of the run."""
    asked = {"app": "jacobi2d", "driver": "serial", "device": "cpu", "pes": 1, "odf": 1}
    asked |= {"blocks": [3, 2], "steps": 6, "warmup": 2, "balancer": None, "lb_period": 0}
    asked |= {"lb": [], "migrations": 0, "valid": True, "oversubscribed": False}
    assert asked.items() <= record.items()
    assert {"size": [13, 11], "time_tile": 2}.items() <= record["problem"].items()


def test_record_to_a_file(tmp_path: Path) -> None:
    """Catches a record that is written beside its place, or left half written."""
    path = tmp_path / "record.json"
    done = support.in_process(*SMALL, "--json", path)
    assert done.returncode == 0 and "state" in done.stdout
    assert set(KEYS) <= set(json.loads(path.read_text()))
    assert [entry.name for entry in tmp_path.iterdir()] == ["record.json"]


def check_output(path: Path, app: str, size: tuple[int, ...], blocks: int, steps: int) -> None:
    """Compare an HDF5 file with the reference, and look at its timings."""
    with h5py.File(path) as file:
        record = json.loads(file.attrs["record"])
        state = file["state/u"][...]
        rows, wall, rounds = (
            file[f"timing/{name}"][...] for name in ("blocks", "wall_s", "rounds")
        )
    values = record["problem"] | {"size": tuple(record["problem"]["size"])}
    right = apps.load(app).reference(apps.load(app).Problem(**values), steps)
    assert support.same_bits(state, right) and state.shape == size
    assert set(KEYS) <= set(record) and record["valid"] is True
    assert rows.dtype == ROW and len(rows) == blocks * len(rounds) and len(wall) == len(rounds)
    assert sorted(zip(rows["block"].tolist(), rows["round"].tolist(), strict=True)) == [
        (block, number) for block in range(blocks) for number in range(len(rounds))
    ]
    assert (rows["end_s"] > rows["begin_s"]).all() and (rows["compute_s"] > 0).all()
    assert (rows["compute_s"] <= rows["end_s"] - rows["begin_s"]).all()
    assert rounds[:, 1].sum() == record["steps"] and rounds[0, 0] == record["warmup"]
    assert (np.diff(rounds[:, 0]) == rounds[:-1, 1]).all()
    assert (wall > 0).all()


@pytest.mark.parametrize(
    "driver",
    ["--pe-grid 3x2", "--driver mpi -n 3", "--driver charm -n 2 --odf 3"],
    ids=["serial", "mpi", "charm"],
)
def test_output_holds_state_and_timings(driver, tmp_path, run_record):
    """Catches blocks written to the wrong place, or not; and no .part file may be left."""
    path = tmp_path / "run.h5"
    words = f"jacobi2d --size 13x11 --steps 5 --warmup 2 --time-tile 2 {driver} --output {path}"
    record = run_record(*words.split())
    check_output(path, "jacobi2d", (13, 11), int(np.prod(record["blocks"])), 7)
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.h5"]


def test_output_of_three_axes(tmp_path: Path, run_record: Callable[..., Any]) -> None:
    """Catches axes that are exchanged, and a second run that adds to the file of the first."""
    path = tmp_path / "run.h5"
    for words in ("jacobi2d --size 9x8", "stencil3d --size 7x6x5 --pe-grid 2x1x3"):
        run_record(*f"{words} --steps 4 --warmup 0 --output {path}".split())
    check_output(path, "stencil3d", (7, 6, 5), 6, 4)


@pytest.mark.long
@pytest.mark.parametrize("app", ["leanmd", "jacobi2d"])
def test_a_file_with_another_state_is_refused(app, tmp_path, monkeypatch, capsys):
    """Mistake: ids, or rows of cells, are written in another order than what belongs to them."""
    append, fill = output.append, output._fill

    def reversed_ids(data: Any, values: Any) -> None:
        append(data, values[::-1] if data.name.endswith(".id") else values)

    monkeypatch.setattr(output, "append", reversed_ids)
    monkeypatch.setattr(output, "_fill", lambda data, at, values: fill(data, at, values[::-1]))
    path = tmp_path / "x.h5"
    assert main(["run", app, "--preset", "tiny", "--output", str(path)]) == 3
    assert f"--output {path}: the file has another state than the run" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


# Wrong results -----------------------------------------------------------------------------------


def wrong_run(fault: str, *words: str) -> Any:
    """A run of `SMALL` that has a fault of the catalogue, and must end with status 1."""
    with support.with_fault("jacobi2d", f"grid: {fault}"):
        done = support.in_process(*SMALL, "--time-tile", 2, *words)
    assert done.returncode == 1, done.stderr
    return done


def test_wrong_result_ends_with_status_1() -> None:
    """Catches a wrong result that looks like a right one: status 1, not valid, and no timing.

    test_adding_an_app.py has the same under launched drivers.
    """
    record = json.loads(wrong_run("one cell off", "--json", "-").stdout)
    assert record["valid"] is False and set(record) >= {"state_hash", "checks", "problem"}
    wrong = {check["name"] for check in record["checks"] if not check["ok"]}
    assert "differs from reference" in wrong and len(wrong) > 1
    assert not {"step_time_s", "rate", "utilisation", "wall_s"} & set(record)


def test_wrong_result_is_shown() -> None:
    """Catches a summary that hides what went wrong, or gives a time all the same."""
    said = wrong_run("one cell off").stdout
    assert "WRONG differs from reference" in said and "NOT VALID" in said
    assert "points/s" not in said and " ms" not in said


def test_nan_is_plain_json() -> None:
    """Catches a record with NaN, which is no JSON, where a result is not a number."""
    said = wrong_run("nan", "--json", "-").stdout
    assert "NaN" not in said and "Infinity" not in said
    checks = json.loads(said)["checks"]
    assert [check["value"] for check in checks if check["name"] == "beyond bounds"] == [None]


def test_one_thread_unless_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches ranks with several threads each, and a setting of the user that is ignored."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("NUMBA_NUM_THREADS", "3")
    main(["list"])
    assert os.environ["OMP_NUM_THREADS"] == "1" and os.environ["NUMBA_NUM_THREADS"] == "3"


# Small comforts ----------------------------------------------------------------------------------


def test_names_are_taken_in_any_case(capsys: pytest.CaptureFixture[str]) -> None:
    """Catches a name that is refused for its capital letters."""
    asked = "run Jacobi2D --size 14x9 --steps 3 --driver CHARM -n 2 --odf 2 --lb-period 2 --dry-run"
    words = shlex.split(printed(capsys, *asked.split(), "--balancer", "greedyREFINE"))
    assert words[words.index("run") + 1] == "jacobi2d"
    assert words[words.index("--balancer") + 1] == "GreedyRefine"


@pytest.mark.slow
def test_a_reader_that_stops_early_sees_no_error() -> None:
    """Catches "Broken pipe" behind `miniapps list | head -1`."""
    program = support.BIN / "miniapps"
    command = f"{program} run jacobi2d --help | true; {program} list | true"
    for unbuffered in ("", "1"):
        done = support.execute(["bash", "-c", command], env={"PYTHONUNBUFFERED": unbuffered})
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_pinned_pes(capsys: pytest.CaptureFixture[str], run_record: Callable[..., Any]) -> None:
    """Catches --pin that does not reach the launcher, or that hides the other cores."""
    for driver, word in (("mpi", "-bind-to"), ("charm", "+pemap")):
        words = [*SMALL, "--driver", driver, "-n", "1", "--pin", "--dry-run"]
        assert word in printed(capsys, *words)
    pinned = mock.Mock()
    with mock.patch.object(os, "sched_setaffinity", pinned), environment.variables_kept():
        printed(capsys, *SMALL, "--pin", "--dry-run")
    pinned.assert_called_once_with(0, environment.core_numbers()[:1])
    record = run_record(*SMALL[1:], "--pin", env={})  # it pins its process
    assert record["host"]["cores"] == len(os.sched_getaffinity(0))


@pytest.mark.parametrize("words", ["-n 4000 --size 4000x4000", "-n 1 --launcher env"])
def test_pinning_that_cannot_be(refused: Callable[..., str], words: str) -> None:
    """Catches PEs that share a core though they were to have one each."""
    assert "--pin" in refused(*SMALL, "--driver", "mpi", *words.split(), "--pin")


def test_apps_outside_the_source_tree(miniapps: Callable[..., Any], tmp_path: Path) -> None:
    """Catches an app that must be copied into the project to be run, or a folder that is not."""
    listed = miniapps("list", env=support.toy_environment()).stdout
    assert [line.split()[0] for line in listed.splitlines()] == sorted([*apps.names(), "toys"])
    done = miniapps("list", env={"MINIAPPS_PATH": str(tmp_path / "missing")})
    assert (done.returncode, done.stderr.count("\n")) == (2, 1) and "MINIAPPS_PATH" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "way", ["serial", "sim", pytest.param("mpi -n 2", marks=pytest.mark.launch)]
)
def test_a_reader_that_leaves(way: str, tmp_path: Path) -> None:
    """Catches a run that fails because nobody reads what it prints, and its record that is lost."""
    file = tmp_path / "record.json"
    words = [support.BIN / "miniapps", *SMALL, "--driver", *way.split(), "--json", file]
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "wb") as pipe:
        done = subprocess.run(
            words,
            stdout=pipe,
            stderr=subprocess.PIPE,
            env=support.clean_environment({}),
            timeout=support.PATIENCE_S,
        )
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(file.read_text())["valid"] is True
