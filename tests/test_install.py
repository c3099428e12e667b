"""Installing: which Python the Makefile takes, what a wheel holds, what runs without Charm4Py."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import skips
import support

from benchmarks.revisions import environments
from miniapps import apps, drivers
from miniapps.drivers import descriptor
from miniapps.parameters import InputError
from miniapps.workbench import demo, verify
from miniapps.workbench.cli import build_parser, main
from miniapps.workbench.study import command
from miniapps.workbench.study.options import study_of

MAKE = shutil.which("make") or "make"
REAL = f'exec {sys.executable} "$@"'
NOT_THIS_ONE = "exit 127"  # what a version manager's link does where that version is not in use
WITHOUT_VENV = f'case "$*" in *ensurepip*) exit 1; esac; {REAL}'  # Debian's, without python3-venv


def made(folder: Path, programs: dict[str, str], *words: str) -> str:
    """What ``make -n install`` would do in a copy of the project where only these Pythons are."""
    for file in ("Makefile", "pyproject.toml"):
        shutil.copy(support.ROOT / file, folder)
    found = folder / "bin"
    found.mkdir()
    for tool in ("sh", "grep"):
        (found / tool).symlink_to(str(shutil.which(tool)))
    for name, text in programs.items():
        (found / name).write_text(f"#!/bin/sh\n{text}\n")
        (found / name).chmod(0o755)
    # If make runs the tests, what was said to it is not said to this one.
    without = [shutil.which("env"), "-u", "PYTHON", "-u", "MAKEFLAGS", "-u", "MAKEOVERRIDES"]
    command = [*without, MAKE, "--directory", folder, *words, "install"]
    done = support.execute(command, env={"PATH": str(found)})
    return done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("programs", "chosen"),
    [
        ({"python3": REAL, "python3.11": REAL, "python3.12": REAL, "python3.13": REAL}, "3.13"),
        ({"python3": REAL, "python3.12": REAL, "python3.13": NOT_THIS_ONE}, "3.12"),
        ({"python3": REAL, "python3.11": REAL, "python3.13": WITHOUT_VENV}, "3.11"),
        ({"python3": REAL, "python3.14": REAL}, "3"),
    ],
)
def test_make_prefers_a_python_with_charm4py(programs, chosen, tmp_path):
    """Catches python3 taken where a version with Charm4Py is there, or one that cannot be used."""
    assert f"python{chosen} -m venv .venv" in made(tmp_path, programs, "-n")


def test_make_takes_the_python_that_is_named(tmp_path):
    """Catches a choice of the user's that the Makefile overrides."""
    said = made(tmp_path, {"python3": REAL, "python3.13": REAL}, "-n", "PYTHON=python3")
    assert "python3 -m venv .venv" in said


@pytest.mark.parametrize(("version", "anew"), [("3.9.1", True), (None, False)])
def test_make_replaces_the_environment_of_another_python(version, anew, tmp_path):
    """Catches PYTHON=... that does nothing, as an environment is there; and one made every time."""
    installed = tmp_path / ".venv" / "installed"
    installed.parent.mkdir()
    own = ".".join(map(str, sys.version_info[:3]))
    (installed.parent / "pyvenv.cfg").write_text(f"home = /usr\nversion = {version or own}\n")
    installed.touch()
    said = made(tmp_path, {"python3": REAL}, "-n", "--old-file=pyproject.toml", "PYTHON=python3")
    assert ("python3 -m venv .venv" in said) == anew


def test_make_refuses_an_old_python(tmp_path):
    """Catches an installation that fails in the middle of pip's output."""
    old = 'case "$*" in *version_info*) exit 1;; esac; echo Python 3.10.9'
    said = made(tmp_path, {"python3": old})
    assert "needs Python 3.11 or later, found Python 3.10.9; set PYTHON=..." in said
    assert not (tmp_path / ".venv").exists()


@pytest.mark.long
@pytest.mark.launch
def test_make_clean_leaves_nothing_that_git_ignores(tmp_path):
    """Catches what commands make and `make clean` leaves, such as pages of the documentation."""
    shutil.copy(support.ROOT / "Makefile", tmp_path)
    ignored = (support.ROOT / ".gitignore").read_text().replace("*", "x").split()
    made = [tmp_path / pattern.strip("/") for pattern in ignored]
    for path in made:
        path.mkdir(parents=True)
    words = ["--directory", tmp_path, f"PYTHON={sys.executable}", "clean"]
    support.execute([MAKE, *words], check=True)
    assert [path for path in made if path.exists()] == []


@pytest.mark.long
@pytest.mark.launch
def test_make_docs_begins_anew(tmp_path):
    """Catches a wrong link that only the first `make docs` reports, and pages that stay old."""
    shutil.copy(support.ROOT / "Makefile", tmp_path)
    (tmp_path / "docs" / "_build").mkdir(parents=True)
    program = tmp_path / "sphinx-build"
    program.write_text("#!/bin/sh\ntest ! -e docs/_build\n")
    program.chmod(0o755)
    words = ["--directory", tmp_path, "--old-file=.venv/docs", f"PYTHON={sys.executable}", "BIN=."]
    support.execute([MAKE, *words, "docs"], check=True)


# An installed copy -------------------------------------------------------------------------------

PACKAGES = ("miniapps", *apps.PARTS)  # folders in the source tree
NOT_INSTALLED = "lessons/handout/"  # needs a source tree
DATA = "workbench/study/report.html", "studies/published/charmpy.json", "lessons/halo/page.md"


def tracked() -> list[str]:
    """The project's files, as git names them."""
    listed = support.execute(["git", "-C", support.ROOT, "ls-files"], check=True)
    return [name for name in listed.stdout.splitlines() if (support.ROOT / name).exists()]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's wheel, built from a copy of what git knows."""
    copy = tmp_path_factory.mktemp("source")
    for name in tracked():
        if name.startswith((*PACKAGES, "src/")) or "/" not in name:
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(support.ROOT / name, copy / name, follow_symlinks=False)
    words = ["wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", copy, copy]
    support.execute([sys.executable, "-m", "pip", *words], check=True)
    (built,) = copy.glob("*.whl")
    return built


Command = Callable[..., subprocess.CompletedProcess[str]]
PLAIN = {"NUMBA_DISABLE_JIT": "1"}  # nothing is compiled yet there, and that takes seconds


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Command]:
    """``miniapps`` of the wheel in an environment of its own, where Charm4Py is not installed.

    It sees the packages of this environment but Charm4Py and the project itself, and runs in an
    empty folder.
    """
    folder = tmp_path_factory.mktemp("installed")
    python = environments.make(folder / "venv", without=("charm",))
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps"]
    support.execute([*pip, "--disable-pip-version-check", "--no-index", wheel], check=True)
    work = folder / "work"
    work.mkdir()
    before = Path.cwd()
    os.chdir(work)
    program = python.with_name("miniapps")
    yield lambda *words, env=PLAIN, **more: support.execute([program, *words], env=env, **more)
    os.chdir(before)


def test_wheel_holds_every_file_of_the_packages(wheel):
    """Catches a template, balancer's table or study that only a source tree has."""
    files = [name for name in tracked() if name.split("/")[0] in PACKAGES]
    files = [name for name in files if not name.startswith(NOT_INSTALLED)]
    links = {f"miniapps/{part}" for part in apps.PARTS}
    assert links < {*files}
    expected = {f"miniapps/{name.removeprefix('miniapps/')}" for name in {*files} - links}
    assert {f"miniapps/{name}" for name in DATA} <= expected
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
        shell = archive.getinfo("miniapps/drivers/remote_shell")
    assert held == expected
    assert shell.external_attr >> 16 & 0o111 == 0o111  # launchers run it
    assert "miniapps/py.typed" in held  # else checkers see no types


@pytest.mark.slow
@pytest.mark.parametrize("first", ["theirs", "ours"])
def test_wheel_beside_packages_of_other_people(first, wheel, tmp_path, monkeypatch):
    """Catches a top-level name that others have, too: one distribution would destroy the other."""
    for part in apps.PARTS:
        (tmp_path / "theirs" / part).mkdir(parents=True)
        (tmp_path / "theirs" / part / "__init__.py").write_text("THEIRS = True\n")
    names = ", ".join(f'"{part}"' for part in apps.PARTS)
    project = "[project]\nname = 'theirs'\nversion = '1'\n[tool.setuptools]\n"
    (tmp_path / "theirs" / "pyproject.toml").write_text(f"{project}packages = [{names}]\n")
    python = environments.make(tmp_path / "venv")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps"]
    both = [wheel, tmp_path / "theirs"]
    for one in both if first == "ours" else reversed(both):
        support.execute([*pip, "--no-build-isolation", one], check=True)
    program = "; ".join(f"import {part}; assert {part}.THEIRS" for part in apps.PARTS)
    assert support.execute([python, "-c", program]).returncode == 0
    launched, first_of_demo = "--size 9x8 --steps 2 --driver mpi -n 2", "--preset demo"
    for how, env in ((launched, PLAIN), (first_of_demo, {})):
        done = support.execute(
            [python.with_name("miniapps"), "run", "jacobi2d", *how.split()], env=env
        )
        assert done.returncode == 0 and "state " in done.stdout, done.stderr


def test_a_checkout_is_installed_as_a_path() -> None:
    """Catches an import hook, which type checkers and editors of a user's program do not follow."""
    (file,) = Path(sysconfig.get_path("purelib")).glob("__editable__.parallel_miniapps*.pth")
    assert [Path(line) for line in file.read_text().splitlines()] == [support.ROOT / "src"]


def test_a_checkout_adds_one_name(tmp_path: Path) -> None:
    """Catches a folder of the tree that hides a package of other people, or is hidden by it."""
    others = [path.parent.name for path in support.ROOT.glob("*/__init__.py")]
    program = (
        "import importlib.util, miniapps.workbench, sys; "
        "print(*[name for name in sys.argv[1:] if importlib.util.find_spec(name)])"
    )
    names = {*apps.PARTS, "tests", "benchmarks", *others}
    done = support.execute([sys.executable, "-c", program, *names], cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.split() == ["miniapps"], done.stderr


@pytest.mark.slow
def test_installed_copy_runs(installed):
    """Catches a package or a preset that is found in the source tree only."""
    assert installed("list").stdout.split()[0] == "amr"
    done = installed("run", "echo", "--preset", "tiny", env={}, check=True)
    assert "ok    differs from reference: 0" in done.stdout


@pytest.mark.slow
def test_installed_copy_has_the_studies(installed):
    """Catches a study that comes with the project and is not found where it is installed."""
    every = installed("study", "--list")
    assert every.returncode == 0 and max(map(len, every.stdout.splitlines())) < 80
    assert {"jacobi2d-strong", "workstation/pic-lb"} <= {*every.stdout.split()}
    inside = installed("study", "studies/pic-lb.toml", "--quick", "--dry-run", check=True)
    assert "miniapps run pic --driver charm" in inside.stdout
    for name in ("pic-lb.toml", "pic-lb"):
        assert installed("study", name, "--quick", "--dry-run").stdout == inside.stdout
    assert "FILE.toml nowhere.toml: cannot be read" in installed("study", "nowhere.toml").stderr


@pytest.mark.slow
def test_installed_copy_writes_a_report(installed):
    """Catches a report whose template is found in the source tree only."""
    study = "study strong echo --preset tiny --drivers serial --pes 1 --trials 1 --no-pin"
    installed(*study.split(), "--campaign", "small.jsonl", check=True)
    assert "echo" in Path("small.html").read_text()


# Without Charm4Py --------------------------------------------------------------------------------

NO_WHEEL = "charm4py is not installed (no wheel for Python 3.14): make PYTHON=python3.13 install"
FAILED_RUN = f"E assert 2 == 0\nE miniapps: --driver charm: {NO_WHEEL}"
FAILED_IMPORT = "E ModuleNotFoundError: No module named 'charmrun'"


@pytest.mark.slow
def test_charm_is_refused_where_it_is_not_installed(installed):
    """Catches a run that is launched to fail, with a traceback or the launcher's words."""
    done = installed("run", "echo", "--driver", "charm", "-n", 2)
    assert done.returncode == 2 and not done.stdout
    (line,) = done.stderr.splitlines()
    assert line.startswith("miniapps: --driver charm: charm4py is not installed")


@pytest.mark.slow
def test_study_goes_on_without_charm_where_it_is_not_installed(installed):
    """Catches a study that refuses all drivers for one, does not say so, or ends in the middle.

    And a study of balancers without any, or of charm alone.
    """
    study = "study strong echo --preset tiny --pes 1 --no-pin --trials 1".split()
    done = installed(*study, "--campaign", "left.jsonl", check=True)
    (line,) = [line for line in done.stderr.splitlines() if "left out" in line]
    assert line.startswith("left out: charm: charm4py is not installed: ")
    assert line.endswith("python -m pip install charm4py==1.1")
    assert "mpi" in Path("left.html").read_text()
    for words in ((*study, "--drivers", "charm"), ("study", "lb", *study[2:])):
        done = installed(*words, "--campaign", "none.jsonl")
        assert done.returncode == 2 and not Path("none.jsonl").exists(), done.stderr
        (line,) = done.stderr.splitlines()
        assert "charm: charm4py is not installed" in line


@pytest.mark.slow
def test_doctor_says_how_to_get_charm(installed):
    """Catches a package that is called broken where there is none for this Python."""
    done = installed("doctor", check=True)
    at = done.stdout.index("charm: does not work: no over-decomposition")
    assert "python -m pip install charm4py==1.1\n" in done.stdout[at:]
    assert "-e ." not in done.stdout


def hide(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """Have this process find no Charm4Py, and say how to get it."""
    charm, spec = replace(drivers.get("charm"), install=how), importlib.util.find_spec
    found = {**drivers.found(), "charm": charm}
    monkeypatch.setattr(drivers, "found", lambda: found)

    def find_spec(name: str) -> Any:
        return None if name in charm.modules else spec(name)

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)


@pytest.fixture
def without_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have this process be as it is where there is no wheel of Charm4Py."""
    how = " (no wheel for Python 3.14): make PYTHON=python3.13 install"
    hide(monkeypatch, how)


@pytest.mark.usefixtures("without_wheel")
def test_demo_and_verify_plan_nothing_under_charm():
    """Catches a demo that fails for a driver that nobody can have."""
    planned = {case.driver for case in [*demo.scaling_cases(), *verify.cases((), full=True)]}
    assert planned == set(drivers.found()) - {"charm"}
    assert len(drivers.left_out()) == 1


@pytest.mark.usefixtures("without_wheel")
def test_verify_leaves_charm_out(monkeypatch, capsys):
    """Catches runs under charm that count as wrong, and a result that hides what it lacks."""
    same = {"state_hash": "same", "checks": []}
    monkeypatch.setattr(verify.batch, "solve_all", lambda specs, **_: [same] * len(specs))
    assert verify.verify(["echo"], full=False) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "charm" in line]
    assert line.startswith("left out: charm: charm4py is not installed")


@pytest.fixture
def without_mpiexec(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have this process find mpi4py, but no mpiexec."""
    monkeypatch.setattr(descriptor, "program", lambda name: None)


@pytest.mark.usefixtures("without_mpiexec")
def test_without_mpiexec_the_other_drivers_go_on(monkeypatch, capsys):
    """Catches mpi4py that counts as usable without a launcher: its first run would end them all."""
    planned = {case.driver for case in [*demo.scaling_cases(), *verify.cases((), full=True)]}
    assert planned == set(drivers.found()) - {"mpi"}
    same = {"state_hash": "same", "checks": []}
    monkeypatch.setattr(verify.batch, "solve_all", lambda specs, **_: [same] * len(specs))
    assert verify.verify(["echo"], full=False) == 0
    words = "study strong echo --pes 1 --steps 2".split()
    specs = study_of(build_parser(words).parse_args(words)).specs()
    found = command.usable(specs, "strong", None)
    assert {spec.driver for spec in found} == {spec.driver for spec in specs} - {"mpi"}
    said = capsys.readouterr()
    for text in (said.out, said.err):
        (line,) = [line for line in text.splitlines() if "left out" in line]
        assert line.startswith("left out: mpi: no mpiexec beside this Python or on the PATH: ")
        assert line.endswith("-m pip install mpi4py mpich")


@pytest.mark.usefixtures("without_mpiexec")
def test_a_chosen_launcher_needs_no_mpiexec() -> None:
    """Catches mpi refused where --launcher names a launcher, and a run that is not refused."""
    words = "study strong echo --pes 1 --steps 2 --drivers mpi".split()
    specs = study_of(build_parser(words).parse_args(words)).specs()
    assert command.usable(specs, "strong", "/opt/mpi/bin/mpiexec") == specs
    with pytest.raises(InputError, match="--driver mpi: no mpiexec beside this Python"):
        command.usable(specs, "strong", None)
    run = "run echo --driver mpi --preset tiny --dry-run".split()
    assert main([*run, "--launcher", sys.executable]) == 0
    assert support.refused(run).startswith("miniapps: --driver mpi: no mpiexec")


def report_of(failure: str, name: str = "test") -> SimpleNamespace:
    """A failed test's report."""
    nodeid = f"tests/test_x.py::{name}"
    return SimpleNamespace(failed=True, outcome="failed", longrepr=failure, nodeid=nodeid)


@pytest.mark.usefixtures("without_wheel")
def test_tests_under_charm_are_skipped_without_a_wheel():
    """Catches a test run that fails on Python 3.14, and one that does not say what it lacks."""
    by_name = "E assert 'died' in ''", "test_a_killed_pe[1-charm]"
    for report in (report_of(FAILED_RUN), report_of(FAILED_IMPORT), report_of(*by_name)):
        skips.skip_without_wheel(report)
        assert report.outcome == "skipped" and NO_WHEEL in report.longrepr[2]
        assert skips.must_fail(str(report.longrepr), {"--no-skips": True}.get) is None
    assert skips.expected("mpi", "charm") == ("mpi",)
    lines = skips.without_charm([str(report.longrepr)] * 3 + ["Skipped: no browser"])
    assert lines == [f"3 skipped under charm: {NO_WHEEL}"]


def test_other_failures_stay_without_a_wheel():
    """Catches wrong results that count as skipped as Charm4Py is missing."""
    without_mpi = report_of("E ModuleNotFoundError: No module named 'mpi4py'", "test_run[mpi]")
    reports = [report_of("E assert 1 == 2", "test_charm_is_refused"), without_mpi]
    with pytest.MonkeyPatch.context() as patch:  # undone before a failure here is reported
        hide(patch, NO_WHEEL.removeprefix("charm4py is not installed"))
        for report in reports:
            skips.skip_without_wheel(report)
    assert [report.outcome for report in reports] == ["failed"] * 2


def test_a_missing_charm4py_that_can_be_had_is_a_failure(monkeypatch):
    """Catches tests under charm that are skipped on a Python that has it."""
    hide(monkeypatch, ": pip install charm4py==1.1")
    report = report_of(FAILED_IMPORT)
    skips.skip_without_wheel(report)
    assert report.outcome == "failed" and skips.without_charm([]) == []
    assert skips.expected("mpi", "charm") == ("mpi", "charm")


@pytest.mark.parametrize(("last", "status"), [("true", 0), ("exit 3", 3)])
def test_what_ci_removes_at_its_end_keeps_its_status(last: str, status: int) -> None:
    """Catches all checks passed, and status 2 from a `kill` that has nothing left to end."""
    lines = (support.ROOT / ".ci" / "run").read_text().splitlines()
    (trap,) = [line for line in lines if line.startswith("trap ")]
    script = f"set -euo pipefail\nlogs=$(mktemp -d)\n{trap}\n{last}"
    assert subprocess.run(["bash", "-c", script], check=False).returncode == status
