"""The selftest: it sees faults that survive, and leaves the right program behind."""

from __future__ import annotations

import importlib
import json
import mmap
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import skips
import support

from miniapps import apps, drivers
from miniapps.faults import ACTED, replaced
from miniapps.parameters import InputError
from miniapps.workbench.exit_status import VALID, WRONG
from miniapps.workbench.run import batch, launch, warm
from miniapps.workbench.run.host_processes import HostProcesses
from miniapps.workbench.run.processes import SHARED, process_state, shared_files
from miniapps.workbench.run.progress_file import ProgressFile
from miniapps.workbench.selftest import command, faults, trials
from miniapps.workbench.selftest.command import Asked, append
from miniapps.workbench.selftest.trials import Found, Trial, solve_here

APPS = ("jacobi2d", "stencil3d", "pic", "leanmd", "echo")
LEAST = 80  # faults in all
GPU_APPS = ("jacobi2d", "stencil3d", "pic", "leanmd", "amr", "cg", "transpose")
LEAST_PER_APP = 10  # faults of GPU kernels


def trials_of(app: str, driver: str, folder: Path) -> dict[str | None, Trial]:
    """The trials of an app as it is, by fault."""
    found = trials.trials([app], [driver], None, folder)
    return {t.fault: t for t in found if (t.app, t.driver) == (app, driver)}


@pytest.mark.long
def test_a_fault_is_made_and_taken_away(tmp_path: Path) -> None:
    """Catches a fault that outlives its run, or is never made: both make the table worthless."""
    mine = trials_of("jacobi2d", "serial", tmp_path)
    right = solve_here(mine[None])
    wrong = solve_here(mine["grid: factor off"])
    assert (right.acted, right.caught) == (False, "")
    assert wrong.acted and "differs from reference" in wrong.caught
    assert solve_here(mine[None]).caught == "" and ACTED.tell is None
    ended = solve_here(mine["messages: lost"])
    assert ended.acted and ended.caught.startswith("ends: ") and "waits" in ended.caught


def test_a_fault_that_survives_is_seen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Catches a conclusion that is good whatever was found, and a right program that fails."""
    mine = trials_of("jacobi2d", "serial", tmp_path)
    right, wrong = (Found(mine[key], key is not None, "") for key in (None, "grid: nan"))
    assert command.conclude([right], False) == VALID
    assert command.conclude([right, wrong], False) == WRONG
    assert "survives: grid: nan: jacobi2d, serial" in capsys.readouterr().out
    failing = Found(mine[None], False, "mode")
    assert command.conclude([failing], False) == WRONG
    unsaid = Found(mine["grid: nan"], False, "mode")
    assert command.conclude([unsaid], False) == WRONG
    assert "the fault has changed nothing: grid: nan" in capsys.readouterr().out
    idle = Found(mine["grid: nan"], False, "")
    assert [command.conclude([idle], everything) for everything in (False, True)] == [VALID, WRONG]


SLOW, STUCK = (
    f"{trials.ENDS}no progress for 3 s{idle}; PE 0 is furthest behind, in step 4"
    for idle in ("", ", and no block computes")
)


@pytest.mark.parametrize("acted", [False, True])
def test_a_run_that_runs_out_of_time_is_made_again(acted, tmp_path, monkeypatch, capsys):
    """Catches a slow machine that counts as a check, or ends the selftest; a deadlock is one."""
    trial = trials_of("jacobi2d", "mpi", tmp_path)["messages: lost"]
    asked: list[tuple[Trial, trials.Scale]] = []

    def answers(*said: str) -> Iterator[Found]:
        def solve(some: list[Trial], scale: trials.Scale) -> list[Found]:
            asked.append((some[0], scale))
            return [Found(some[0], acted, said[len(asked) - 1])]

        asked.clear()
        monkeypatch.setattr(command, "solve", solve)
        return command.made([trial], trials.TINY)

    again = replace(trials.TINY, limit_s=8.0, most=1, at_once=1)
    (found,) = answers(SLOW, STUCK if acted else "")
    assert asked == [(trial, trials.TINY), (trial, again)] and found.disturbed
    assert command.conclude([found], False) == VALID
    where = "messages: lost: jacobi2d, mpi"
    assert f"disturbed: {where}: ran out of time" in capsys.readouterr().out
    (found,) = answers(SLOW, SLOW)
    assert command.conclude([found], False) == WRONG
    assert f"ran out of time twice, so it shows nothing: {where}" in capsys.readouterr().out
    (found,) = answers(STUCK, STUCK)
    assert len(asked) == (1 if acted else 2)  # a right program does not lose messages
    assert command.conclude([found], False) == (VALID if acted else WRONG)


BROKEN = """
from miniapps.faults import fault

@fault("miniapps.drivers.outcome:joined")
def broken(right):
    return lambda *given: right(*given).no_such_name
"""


def test_a_fault_that_does_not_fit_is_refused(tmp_path, monkeypatch, capsys):
    """Catches a mistake in a fault that counts as caught, though no check has seen anything."""
    (tmp_path / "broken_faults.py").write_text(BROKEN)
    monkeypatch.syspath_prepend(tmp_path)
    wrong = {"grid: nan": importlib.import_module("broken_faults").broken}
    monkeypatch.setattr(faults, "of", lambda *where: wrong)
    found = solve_here(trials_of("jacobi2d", "serial", tmp_path)["grid: nan"])
    assert found.acted and "no_such_name" in found.caught
    assert command.conclude([found], False) == WRONG
    assert "not a fault, as it does not fit: grid: nan: jacobi2d, serial" in capsys.readouterr().out
    of_a_type = replace(found, caught="ends: PE 1, step 3: TypeError: no number (block.py:9; ...)")
    assert command.conclude([of_a_type], False) == WRONG


MEANT = (  # errors that the mistake makes elsewhere, and one that a fault makes itself
    "ends: step 7: ValueError: could not broadcast (cpu.py:42; ...)",
    "ends: PE 0, block (0, 0), step 1: SystemExit: 0 (results_faults.py:99; ...)",
    "ends: block (0, 0): message of another shape",
    "differs from reference",
)


@pytest.mark.parametrize("caught", MEANT)
def test_errors_that_a_mistake_makes_catch_it(caught: str, tmp_path: Path) -> None:
    """Catches a rule that refuses faults that end their run as they should."""
    trial = trials_of("jacobi2d", "serial", tmp_path)["grid: nan"]
    assert command.conclude([Found(trial, True, caught)], False) == VALID


def test_the_report_has_one_line_of_an_error() -> None:
    """Catches the whole account of a stall, with files of the machine, in the report."""
    assert trials.seen(f"{SLOW.removeprefix(trials.ENDS)}\n  PE 1 does not answer") == SLOW


def test_one_is_no_plural() -> None:
    """Catches "1 faults act in 1 trials"."""
    assert command.summary(1, 1, 1) == "1 fault acts in 1 trial; 1 of these survives"
    assert command.summary(2, 3, 0) == "2 faults act in 3 trials; 0 of these survive"


def test_checks_that_are_gone_let_faults_survive(tmp_path, monkeypatch):
    """Catches a selftest that counts every fault as caught: here no check exists."""
    monkeypatch.setattr(apps.load("jacobi2d"), "validate", lambda *arguments: [])
    mine = trials_of("jacobi2d", "serial", tmp_path)
    trial = mine["grid: factor off"]
    fields = {name: getattr(trial.spec, name) for name in trial.spec.__dataclass_fields__}
    spec = type(trial.spec)(**(fields | {"audit": 0}))
    found = solve_here(Trial(trial.fault, trial.app, trial.driver, spec))
    assert found.survived


def test_there_are_many_faults() -> None:
    """Catches a catalogue that is not found: faults of an app or driver that nobody tries."""
    files = [driver.file for driver in drivers.usable()]
    found: set[str] = set()
    for app in APPS:
        for file in files:
            found |= faults.of(app, file).keys()
    groups = {name.split(":")[0] for name in found}
    assert groups >= {"messages", "results", "grid", "pic", "leanmd", "drivers", "mpi", "charm"}
    assert len(found) >= LEAST


def test_faults_that_are_not_found_are_noticed(tmp_path, monkeypatch):
    """Catches a fault that is left out of the catalogue, and a file of faults without any."""
    (tmp_path / "one_fault.py").write_text(BROKEN)
    (tmp_path / "no_faults.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    assert faults.listed("no_such_faults") == ()
    assert [fault.name for fault in faults.listed("one_fault")] == ["broken"]
    with pytest.raises(ValueError, match="^no_faults has no faults$"):
        faults.listed("no_faults")


def test_every_fault_has_its_targets() -> None:
    """Catches a target that was renamed: the fault would end its run by another error."""
    unknown = []
    for app in APPS:
        for driver in drivers.usable():
            for fault in faults.of(app, driver.file).values():
                if "charm" not in "".join(fault.targets) and driver.one_process:
                    try:
                        with fault.applied(app):
                            pass
                    except (AttributeError, ImportError, KeyError) as error:
                        unknown.append(f"{fault}: {error}")
    assert unknown == []


def test_faults_of_gpu_kernels_import_no_kernel() -> None:
    """Catches a catalogue that needs a GPU, or numba before it is asked to simulate one."""
    done = support.execute([sys.executable, "-c", CATALOGUE], check=True)
    counted = json.loads(done.stdout)
    assert min(counted.values()) >= LEAST_PER_APP and set(counted) == set(GPU_APPS)


CATALOGUE = """
import json, sys
from miniapps.workbench.selftest import faults
apps = "jacobi2d", "stencil3d", "pic", "leanmd", "amr", "cg", "transpose"
modules = {app: (faults.OF_GPUS, faults.module_of(app, "gpu")) for app in apps}
listed = {app: sum(len(faults.listed(name)) for name in names) for app, names in modules.items()}
found = {app: len(faults.of(app, "miniapps.drivers.serial", "gpu")) for app in apps}
assert listed == found, "two faults of an app have one name"
assert not any(name == "numba" or ".gpu." in f"{name}." for name in sys.modules)
print(json.dumps(found))
"""


def test_every_fault_of_gpu_kernels_fits() -> None:
    """Catches a fault of words that a kernel no longer has: its trials would test no check."""
    skips.without("sim")
    done = support.execute([sys.executable, "-c", FITTING, *GPU_APPS], check=True)
    assert json.loads(done.stdout) == []


FITTING = """
import json, sys
from miniapps.workbench.selftest import faults, simulated
simulated.begin()
misfits = []
for app in sys.argv[1:]:
    for name, fault in faults.of(app, "miniapps.drivers.serial", "gpu").items():
        try:
            with fault.applied(app):
                pass
        except Exception as error:
            misfits.append(f"{app}, {name}: {error}")
print(json.dumps(misfits))
"""


@pytest.mark.slow
def test_faults_of_gpu_kernels_are_made_and_taken_away(tmp_path: Path) -> None:
    """Catches a changed kernel that does not run, or outlives its trial; one that nothing sees."""
    skips.without("sim")
    done = support.execute([sys.executable, "-c", SIMULATED, tmp_path], check=True)
    before, wrong, same, after, missing = json.loads(done.stdout)
    assert before == after == [False, "", False]
    assert wrong[0] and "differs from reference" in wrong[1]
    assert same == [True, "", True]  # acts, and survives: nothing has changed
    assert missing == "_sweep: not once in its source: no such words"


SIMULATED = """
import json, sys
from pathlib import Path
from miniapps.workbench.selftest import faults, simulated, trials
simulated.begin()
from miniapps.faults import replaced
from miniapps.gpu_faults import edited, kernel_fault
found = trials.trials(["jacobi2d"], ["serial"], None, Path(sys.argv[1]))
mine = {t.fault: t for t in found if t.spec.device == "gpu"}
name = "gpu: last thread idle"
changes = "miniapps.kernels.{app}.gpu:SWEEP_ALL"
same = kernel_fault(changes, "j < y1", "j < y1")(lambda: None)
said = []
def tried(key):
    if mine[key].acted:
        mine[key].spec.mark.unlink()
    one = trials.solve_here(mine[key])
    said.append([one.acted, one.caught, one.survived])
def other(right):
    return lambda *where: {name: same}
def wrong_words(right):
    try:
        edited(right, ("no such words", ""))
    except ValueError as error:
        said.append(str(error))
    return right
with simulated.made_fast(faults.declared("jacobi2d", "TILES", "gpu")):
    tried(None)
    tried(name)
    with replaced("miniapps.workbench.selftest.faults:of", other):
        tried(name)
    tried(None)
    with replaced("miniapps.kernels.jacobi2d.gpu:_sweep", wrong_words):
        print(json.dumps(said))
"""


@pytest.mark.slow
def test_the_simulated_gpu_is_a_column(tmp_path: Path) -> None:
    """Catches trials on a simulated GPU that are left out, or made in a process without one."""
    skips.without("sim")
    report = tmp_path / "trials"
    words = ["jacobi2d", "--driver", "serial", "--fault", "gpu: old halo", "--json", report]
    done = support.execute([support.BIN / "miniapps", "selftest", *words])
    assert done.returncode == VALID and "serial, simulated GPU" in done.stdout
    assert "1 fault acts in 1 trial; 0 of these survive" in done.stdout
    (line,) = [one for one in map(json.loads, report.read_text().splitlines()) if one["fault"]]
    assert line["driver"] == "serial, simulated GPU" and "differs from" in line["caught"]


@pytest.mark.long
def test_a_report_has_each_trial_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a run of the right program that is noted again each time a report is continued."""
    report = tmp_path / "report"
    asked = Asked(["jacobi2d"], ["serial"], "messages", report=report, resume=True)
    made = [Found(trial, trial.fault is not None, "error") for trial in asked.trials(tmp_path)]
    monkeypatch.setattr(command, "made", lambda trials, scale: made)
    for _ in range(2):
        command.selftest(replace(asked), False)
    faults = [json.loads(line)["fault"] for line in report.read_text().splitlines()]
    assert faults == [one.trial.fault for one in made]


@pytest.mark.long
def test_a_report_is_continued(tmp_path: Path) -> None:
    """Catches trials that are made again, or left out although another preset was tried."""
    report, words = tmp_path / "report", (["jacobi2d"], ["serial"], "messages")
    every = Asked(*words, report=report).trials(tmp_path)
    right, wrong = every[0], next(trial for trial in every if trial.fault is not None)
    append(report, command.key_of(right), False, "")
    append(report, command.key_of(wrong), True, "error")
    left = [trial for trial in every if trial is not wrong]
    assert keys(Asked(*words, report=report, resume=True).trials(tmp_path)) == keys(left)
    small = Asked(*words, "small", None, report, True).trials(tmp_path)
    assert wrong.fault in {trial.fault for trial in small}
    report.write_text('{"preset": 1}\n')
    with pytest.raises(InputError, match="--json"):
        Asked(*words, report=report, resume=True).trials(tmp_path)
    with pytest.raises(InputError, match="--resume"):
        Asked(*words, resume=True)


def keys(some: list[Trial]) -> list[str | None]:
    """The faults of trials."""
    return [trial.fault for trial in some]


def test_what_is_inherited_is_inherited_again() -> None:
    """Catches a method that stays on a subclass when the fault has been taken away."""
    with replaced("miniapps.jacobi2d.block:JacobiBlock.fill_ghosts", lambda right: right):
        assert "fill_ghosts" in vars(apps.load("jacobi2d").Block)
    assert "fill_ghosts" not in vars(apps.load("jacobi2d").Block)


@pytest.mark.long
def test_faults_that_need_the_other_case_are_left_out(tmp_path: Path) -> None:
    """Catches faults of pairs of cells that are tried in blocks, where they change nothing."""
    found = list(trials.trials(["leanmd"], ["serial", "mpi"], "compute", tmp_path))
    named = {(trial.app, trial.driver) for trial in found if trial.fault is not None}
    assert named == {("leanmd pairs", "serial")}


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["mpi", "charm"])
def test_forked_pes_make_the_run(driver: str, tmp_path: Path) -> None:
    """A launcher that starts stubs gives the record of one that starts the program."""
    spec = trials_of("jacobi2d", driver, tmp_path)[None].spec
    (usual,) = batch.solve_all([spec])
    with warm.started([]) as program, launch.pes_started_by(program):
        (forked,) = batch.solve_all([spec])
    assert isinstance(usual, dict) and isinstance(forked, dict)
    assert usual["valid"] and forked["valid"]
    assert forked["state_hash"] == usual["state_hash"]


def test_a_forked_pe_ends_with_its_stub(tmp_path: Path) -> None:
    """A launcher that kills the stub ends the PE; without `end_with` it would go on."""
    spec = replace(trials_of("jacobi2d", "mpi", tmp_path)[None].spec, pes=1, steps=10**9)
    (tmp_path / launch.RUNS).write_bytes(pickle.dumps([spec]))
    progress = ProgressFile(tmp_path / launch.PROGRESS, 1)
    around = os.environ | {launch.FOLDER: str(tmp_path)}
    with warm.started([]) as program:
        with subprocess.Popen([*program, "batch", "-", "--no-launch"], env=around) as process:
            support.wait_for(lambda: progress.slot(0).step > 0)
            (pid,) = progress.forked()
            assert process_state(pid) in "RS"
            left = shared_files(pid)
            process.kill()
        support.wait_for(lambda: process_state(pid) == "X")
    for file in left:
        file.unlink(missing_ok=True)  # a run of another test that fails removes what nobody uses


@pytest.mark.slow
def test_a_pe_that_fails_removes_its_shared_memory(tmp_path, monkeypatch):
    """A forked PE may fail before the monitor has looked at its files."""
    monkeypatch.setattr(HostProcesses, "find_shared", lambda self, pids: None)
    trial = trials_of("jacobi2d", "mpi", tmp_path)["mpi: ranks of different runs"]
    with support.no_shared_memory_left(), warm.started([]) as program:
        with launch.pes_started_by(program):
            (result,) = batch.solve_all([trial.spec])
    assert isinstance(result, str)


def test_a_run_that_fails_here_leaves_the_shared_memory_of_its_process(tmp_path: Path) -> None:
    """It may be the user's, as multiprocessing's semaphores are."""
    trial = trials_of("jacobi2d", "serial", tmp_path)["messages: lost"]
    with tempfile.NamedTemporaryFile(dir=SHARED) as file:
        file.truncate(mmap.PAGESIZE)
        with mmap.mmap(file.fileno(), mmap.PAGESIZE):
            assert solve_here(trial).caught.startswith(trials.ENDS)
            assert Path(file.name).exists()


def test_a_run_with_other_steps_is_not_valid(tmp_path: Path) -> None:
    """Catches a run that ends early, with right results: it was valid, with a better time."""
    mine = trials_of("pic", "serial", tmp_path)
    assert solve_here(mine["results: a step too few"]).caught.startswith("steps missing")
    problem = support.small_problem(apps.load("jacobi2d"), tolerance=1.0, check_every=2)
    assert problem.may_finish(4) and not problem.may_finish(5)


def test_faults_are_told_apart() -> None:
    """Catches two faults of one name in a catalogue: one would hide the other."""
    modules = "grid_faults", "pic.faults", "leanmd.faults"
    every = [fault for name in modules for fault in faults.listed(f"miniapps.{name}")]
    names = [faults.key(fault) for fault in every]
    assert len(names) == len(set(names))
