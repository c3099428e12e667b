"""`make gpu-check` without a GPU: all of its steps, with stand-ins for the commands it runs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
import support

from benchmarks import common
from benchmarks.gpu import check, validation
from miniapps import kernels
from miniapps.workbench.cli import spec_of

GPU = {"name": "NVIDIA H200", "memory_bytes": 2**37, "driver": "580.65.06", "cuda": "13.0"}
CLEAN = "========= ERROR SUMMARY: 0 errors\n"


class Machine:
    """Runs no command and answers as a machine would on which all is well, or not all."""

    latest: Machine

    def __init__(self, wrong: dict[str, Any] | None = None) -> None:
        self.wrong, self.commands = wrong or {}, []
        Machine.latest = self

    def __call__(self, command: list[str], limit_s: float) -> Any:
        """Answer a command; `wrong` has other answers for commands with certain words in them."""
        self.commands.append(" ".join(command))
        for words, answer in self.wrong.items():
            if words in self.commands[-1]:
                return answer if isinstance(answer, check.Done) else self.run(command, answer)
        if "pytest" in command:
            return check.Done(0, "....\n57 passed, 1 warning in 12.3s\n")
        if "--tool" in command:
            return check.Done(0, "", CLEAN)
        return self.run(command, {})

    def run(self, command: list[str], values: dict[str, Any]) -> Any:
        """A run's record."""
        app = command[command.index("run") + 1]
        usual = {
            "device": "gpu" if "gpu" in command else "cpu",
            "valid": True,
            "state_hash": f"hash of {app}",
            "rate": {"value": 1e9, "unit": "points/s"},
            "oversubscribed": False,
            "migrations": 7 * ("Rotate" in command),
            "lb": [{"moved": 7, "seconds": 0.1}] * ("Rotate" in command),
        }
        return check.Done(0, json.dumps(usual | values) + "\n")


@pytest.fixture
def checked(tmp_path, capsys, monkeypatch) -> Callable[..., tuple[int, Any, str]]:
    """``checked(wrong)``: exit status, what was written, what was printed."""
    monkeypatch.setattr(check, "sanitizer_program", lambda: "compute-sanitizer")

    def run(wrong: dict[str, Any] | None = None) -> tuple[int, Any, str]:
        file = tmp_path / "validation.json"
        status = check.main(Machine(wrong), GPU, file)
        return status, json.loads(file.read_text()), capsys.readouterr().out

    return run


@pytest.mark.long
def test_all_is_checked_and_written_down(checked):
    """Catches an app, a driver or a tool that is left out, and a file without what it rests on."""
    status, written, said = checked()
    assert status == 0, said
    assert (written["passed"], written["failures"]) == (True, [])
    assert written["device"] == GPU and written["revision"] == common.revision()
    assert written["sources"] == validation.sources()
    assert {TOOLKIT, PUSH} <= set(written["sources"])
    assert {"python", "numba", "numba-cuda", "cupy-cuda13x", "numpy"} <= set(written["versions"])
    assert len(written["date"]) == 10
    assert written["tests"]["passed"] == 57
    apps = {app for app in support.apps.names() if kernels.exist(app, "gpu")}
    runs = {f"{app} {how}" for app in apps for how in ("cpu", "serial", "mpi", "charm")}
    runs |= {"leanmd paper cpu", "leanmd paper pairs", "jacobi2d staged"}
    single = "jacobi2d", "stencil3d", "leanmd"
    runs |= {f"{app} float32 {how}" for app in single for how in ("cpu", "mpi")}
    assert set(written["runs"]) == runs
    compared = {name for name, run in written["runs"].items() if run.get("same_state") is True}
    assert compared == {n for n in runs if not n.endswith("cpu")}
    assert written["runs"]["pic charm"]["rate"] == {"value": 1e9, "unit": "points/s"}
    assert written["runs"]["pic charm"]["migrations"] > 0
    assert written["runs"]["jacobi2d staged"]["lb"][0]["seconds"] == 0.1
    assert len(written["sanitizer"]) == 3 * len(check.WATCHED)
    assert set(written["sanitizer"].values()) == {"0 errors"}


@pytest.mark.slow
def test_commands_are_those_of_the_program():
    """Catches a command that the program does not know: each is tried as far as its launch."""
    commands = [step.command for step in check.steps(sys.executable, "compute-sanitizer", 2)]
    words = [command[command.index("run") :] for command in commands if "run" in command]
    watched = 3 * len(check.WATCHED)
    configurations = sum(len(case.configurations) for case in check.CASES.values())
    first, on_cpu = 1, len(check.CASES)
    assert len(words) == first + configurations + on_cpu + watched
    assert sum("gpu" in w for w in words) == first + configurations + watched
    apps = {app for app in support.apps.names() if kernels.exist(app, "gpu")}
    assert {name.split()[0] for name in check.WATCHED} == apps
    assert {name.split()[0] for name in check.CASES} == apps
    # which need neither a GPU nor time, and balance in fewer steps
    other = {"gpu": "cpu", "large": check.SMALL, "40": "4"}
    only_gpu = "--gpu-ipc", "off"
    cpu = [[other.get(word, word) for word in w if word not in only_gpu] for w in words]
    program = (
        "import json, sys\nfrom miniapps.workbench.cli import main\n"
        "for words in json.loads(sys.argv[1]):\n"
        "    assert main([*words, '--dry-run']) == 0, words\n"
    )
    done = support.execute([sys.executable, "-c", program, json.dumps(cpu)], check=True)
    assert done.stdout.count("mpiexec -n 2") == len(apps) + 3 + on_cpu
    assert done.stdout.count("+p2") == len(apps) + 2
    watch = ["env", "MINIAPPS_NO_POOL=1", "compute-sanitizer"]
    assert [c[:3] for c in commands if "--tool" in c] == [watch] * watched
    first_file, every, launched = tests = [c for c in commands if "pytest" in c]
    assert (support.ROOT / first_file[-1]).is_file() and every[-1] == "tests/gpu"
    assert (support.ROOT / launched[-1]).is_file() and every[-2] == launched[-1]
    assert all("--require-gpu" in command for command in tests)


@pytest.mark.slow
def test_cases_that_migrate_have_a_step_of_load_balancing():
    """Catches a run that ends before its first one, and so fails on every GPU."""
    without_ipc = {  # which is an option of runs on a GPU
        how: words.replace("--gpu-ipc off ", "") for how, words in check.CONFIGURATIONS.items()
    }
    periods = {
        f"{name} {how}": spec_of(["run", name.split()[0], *case.words.split(), *words.split()])
        for name, case in check.CASES.items()
        for how, words in without_ipc.items()
        if how in case.configurations and check.MIGRATING in words
    }
    assert len(periods) == 9
    short = [n for n, s in periods.items() if s.warmup + s.steps <= s.own.lb_period]
    assert not short


RUN = "{} --preset large --json - --device gpu --driver {}"
FAILING = {
    "a test": ("pytest", (1, "1 failed, 56 passed in 2s"), "tests: status 1: 1 failed"),
    "no test": ("pytest", (5, "no tests ran in 0.1s"), "tests: status 5"),
    "a skip": ("pytest", (0, "56 passed, 1 skipped in 2s"), "tests: status 0"),
    "a hang": ("pytest", (None, "..."), "tests: took too long"),
    "wrong": (
        RUN.format("pic", "serial"),
        {"valid": False, "checks": [{"name": "a", "ok": True}, {"name": "sum", "ok": False}]},
        "pic serial: is not valid: sum",
    ),
    "other bits": (
        RUN.format("leanmd", "charm"),
        {"state_hash": "x"},
        "leanmd charm: its final state differs",
    ),
    "the other device": (
        RUN.format("jacobi2d", "mpi"),
        {"device": "cpu"},
        "jacobi2d mpi: ran on cpu",
    ),
    "a crash": (
        RUN.format("stencil3d", ""),
        (3, "", "rank 1 died"),
        "stencil3d mpi: status 3: rank 1 died",
    ),
    "no run on the CPU": (
        "pic --preset large --json - --driver mpi",
        (3, "", "no mpiexec"),
        "pic charm: there is no run to compare",
    ),
    "pairs of other bits": (
        "--decomposition pairs --balancer",
        {"state_hash": "x"},
        "leanmd paper pairs: its final state differs",
    ),
    "blocks that stay": (
        "jacobi2d --preset large --json - --device gpu --driver charm",
        {"migrations": 0},
        "jacobi2d charm: no block has migrated",
    ),
    "single precision that depends on blocks": (
        "--dtype float32 --json - --device gpu --driver mpi",
        {"state_hash": "x"},
        "leanmd float32 mpi: its final state differs",
    ),
    "a race": (
        "racecheck",
        (9, "", "RACECHECK SUMMARY: 2 hazards displayed (2 errors)"),
        "racecheck pic: 2 hazards displayed",
    ),
    "a race in the second of two processes": (
        "racecheck",
        (9, f"{CLEAN}========= RACECHECK SUMMARY: 1 hazard displayed (1 error)", ""),
        "racecheck pic: 1 hazard displayed",
    ),
    "a failure that a sanitizer does not see": (
        "racecheck",
        (5, CLEAN, "step 3 failed"),
        "racecheck pic: status 5: step 3 failed",
    ),
    "errors under status 0": (
        "run pic --preset tiny",
        (0, "", "========= ERROR SUMMARY: 3 errors"),
        "memcheck pic: 3 errors",
    ),
    "a sanitizer without summary": ("synccheck", (0, "fine"), "synccheck pic: status 0: fine"),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", FAILING)
def test_a_failure_is_reported_and_does_not_end_it(what, checked):
    """Catches a check that cannot fail, and a failure after which nothing else is tried."""
    where, answer, words = FAILING[what]
    answer = check.Done(*answer) if isinstance(answer, tuple) else answer
    status, written, said = checked({where: answer})
    assert status == 1
    assert written["passed"] is False
    assert any(failure.startswith(words) for failure in written["failures"]), written["failures"]
    assert f"FAILED {words}" in said.split("sanitizer runs\n")[1]
    assert written["sanitizer"]["memcheck leanmd"] == "0 errors"  # of the steps that come last
    assert len(written["failures"]) <= len(check.WATCHED)


@pytest.mark.long
def test_without_a_sanitizer_nobody_is_told_that_it_found_nothing(checked, monkeypatch):
    """Catches a missing program that counts as one that found no errors."""
    monkeypatch.setattr(check, "sanitizer_program", lambda: None)
    missing = check.Done(127, "", "No such file or directory")
    status, written, _ = checked({"--tool": missing})
    assert status == 1
    assert set(written["sanitizer"].values()) == {"compute-sanitizer not found"}


def test_what_there_is_no_time_for_counts_as_failed():
    """Catches a check that ends early, or never, and calls what it has not seen right."""
    machine, times, said, kept = Machine(), iter(range(0, 10_000, 50)), [], []
    todo, found = list(check.steps("python", "compute-sanitizer", 4)), check.Findings()
    clock = lambda: float(next(times))  # noqa: E731
    check.check(todo, machine, found, kept.append, 520.0, clock, said.append)
    assert 0 < len(machine.commands) < 8 and found.done == [s.name for s in todo][: len(found.done)]
    assert len(found.failures) + len(machine.commands) == len(todo)
    assert list(found.failures.items())[-1] == ("synccheck leanmd pairs", "not run: no time left")
    assert kept == [False] * len(list(check.batches(todo))) + [True]


def test_a_step_that_the_end_of_the_time_cuts_off_has_not_taken_too_long():
    """Catches a hang that counts as lack of time, and the reverse."""
    step = next(check.steps("python", "compute-sanitizer", 4))
    for total_s, why in ((step.limit_s - 1, check.CUT_OFF), (step.limit_s, "took too long: ...")):
        found = check.Findings()
        clock, ignore = lambda: 0.0, lambda _: None
        hangs = lambda command, limit_s: check.Done(None, "...")  # noqa: E731
        check.check([step], hangs, found, ignore, total_s, clock, ignore)
        assert found.failures == {step.name: why}


def test_after_two_hangs_no_other_run_of_the_kind_is_tried():
    """Catches a machine's last minutes that go into runs that hang for one reason."""
    every = {step.name: step for step in check.steps("python", "compute-sanitizer", 4)}
    names = [f"{app} {how}" for app in ("pic", "cg", "amr") for how in ("cpu", "charm", "serial")]
    machine, found = Machine({"driver charm": check.Done(None, "...")}), check.Findings()
    check.check([every[name] for name in names], machine, found, lambda ended: None)
    long = "took too long: ..."
    assert found.failures == {"pic charm": long, "cg charm": long, "amr charm": check.HANG}
    assert len(machine.commands) == len(names) - 1 and "amr serial" in found.done


def test_runs_under_sanitizers_share_the_gpu():
    """Catches sanitizers that wait for each other, and timed runs beside other work."""
    together = threading.Barrier(check.WORKERS)
    names = "memcheck cg", "memcheck amr", "racecheck cg", "racecheck amr"
    found = check.Findings()
    every = {step.name: step for step in check.steps("python", "compute-sanitizer", 4)}

    def meet(command: list[str], limit_s: float) -> Any:
        together.wait(20)
        return check.Done(0, "", CLEAN)

    check.check([every[name] for name in names], meet, found, lambda ended: None)
    assert found.done == list(names)
    mixed = [every[name] for name in ("cg serial", *names, "synccheck cg", "cg charm", "cg mpi")]
    assert [len(batch) for batch in check.batches(mixed)] == [1, 4, 1, 1, 1]


@pytest.mark.slow
def test_failures_of_other_steps_are_kept(checked, tmp_path, capsys):
    """Catches a failure that a later call of other steps loses, or that makes these fail."""
    status, first, _ = checked({"synccheck": check.Done(9, "", "SUMMARY: 1 error")})
    assert status == 1 and len(first["failures"]) == len(check.WATCHED)
    file, options = tmp_path / "validation.json", check.arguments(["--steps", "memcheck"])
    assert check.main(Machine(), GPU, file, options) == 0
    assert json.loads(file.read_text())["failures"] == first["failures"]
    status, second, _ = checked()
    assert status == 0 and second["failures"] == []


@pytest.mark.slow
def test_a_second_call_goes_on_where_the_first_ended(checked, monkeypatch):
    """Catches what has passed and is done again, and what has not and is left out."""
    status, first, _ = checked({"racecheck": check.Done(9, "", "SUMMARY: 1 error")})
    assert status == 1 and not first["passed"] and "racecheck pic" not in first["done"]
    status, second, _ = checked()
    assert status == 0 and second["passed"] and second["runs"] == first["runs"]
    ran = Machine.latest.commands
    assert len(ran) == len(check.WATCHED) and all("racecheck" in command for command in ran)
    assert set(second["sanitizer"].values()) == {"0 errors"} and second["tests"]["passed"] == 57
    checked()  # which begins anew, as all had passed
    assert len(Machine.latest.commands) == len(second["done"])
    checked({"racecheck": check.Done(9, "", "SUMMARY: 1 error")})
    for name in ("versions", "sources", "program"):
        monkeypatch.setattr(check, name, lambda: {"another": "one"})
        checked({"racecheck": check.Done(9, "", "SUMMARY: 1 error")})
        assert len(Machine.latest.commands) == len(second["done"]), name


def test_the_revision_of_a_copy_without_a_repository(tmp_path, monkeypatch):
    """Catches results without a revision, and a traceback where there is no repository."""
    monkeypatch.setattr(common, "ROOT", tmp_path)
    assert common.revision() == "unknown"
    monkeypatch.setenv("REVISION", "abc1234")
    assert common.revision() == "abc1234"
    git = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x"]
    for name in ("a.py", "benchmarks/results/gpu.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "x"]):
        subprocess.run([*git, *words], check=True)
    named = common.revision()
    assert re.fullmatch("[0-9a-f]{7}", named)
    (tmp_path / "benchmarks/results/gpu.json").write_text("{}")
    assert common.revision() == named, "results are no change of the program"
    (tmp_path / "a.py").write_text("pass")
    assert common.revision() == f"{named}-dirty"


def test_generated_files_are_no_part_of_the_program(tmp_path):
    """Catches a validation that begins anew because an emulated kernel has been written."""
    for name in ("tests/gpu/a.py", "tests/gpu/__pycache__/emulated/b.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        before = validation.program(tmp_path)
        (tmp_path / name).write_text("pass")
        assert (validation.program(tmp_path) == before) is ("__pycache__" in name)


@pytest.mark.long
def test_no_run_that_failed_is_what_others_are_compared_with(checked):
    """Catches states of two kinds in one validation that has passed, and rates of failed runs."""
    odd = "leanmd --preset large --dtype float32 --json - --driver mpi"
    record = {"device": "cpu", "valid": True, "state_hash": "A", "rate": 1, "migrations": 0}
    status, first, _ = checked({odd: check.Done(5, json.dumps(record))})
    assert status == 1 and "leanmd float32 cpu" not in first["runs"]
    assert not {"leanmd float32 cpu", "leanmd float32 mpi"} & set(first["done"])
    status, second, _ = checked()
    assert status == 0
    hashes = {
        second["runs"][f"leanmd float32 {configuration}"]["state_hash"]
        for configuration in ("cpu", "mpi")
    }
    assert hashes == {"hash of leanmd"}


@pytest.mark.long
@pytest.mark.parametrize("said", ["3", "null", "[]", "{}", "{", ""])
def test_what_is_no_record_does_not_end_it(checked, said):
    """Catches a traceback that ends the whole check."""
    status, written, _ = checked({"run pic --preset large": check.Done(0, said)})
    assert status == 1 and written["failures"][0].startswith("pic cpu: status 0")


def test_a_file_that_cannot_be_read_is_said_in_a_line(tmp_path):
    """Catches a traceback where a file was cut off."""
    file = tmp_path / "validation.json"
    file.write_text('{"date":')
    with pytest.raises(SystemExit, match=r"validation\.json cannot be read"):
        validation.read(file)


def test_all_of_the_program_counts(tmp_path):
    """Catches a driver, an app or a test that changes between two calls of one validation."""
    for folder in validation.PROGRAM:
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "some.py").write_text("1")
    seen = {validation.program(tmp_path)}
    for folder in validation.PROGRAM:
        (tmp_path / folder / "some.py").write_text("2")
        seen.add(validation.program(tmp_path))
    (tmp_path / "drivers" / "some.py").rename(tmp_path / "drivers" / "other.py")
    seen.add(validation.program(tmp_path))
    assert len(seen) == len(validation.PROGRAM) + 2


def test_a_check_that_was_cut_off_has_not_passed(tmp_path):
    """Catches a validation whose last steps nobody made, taken for one that passed."""

    class CutOff(BaseException):
        """As by a batch system."""

    class Ending(Machine):
        def __call__(self, command: list[str], limit_s: float) -> Any:
            if len(self.commands) == 20:
                raise CutOff
            return super().__call__(command, limit_s)

    file = tmp_path / "validation.json"
    with pytest.raises(CutOff):
        check.main(Ending(), GPU, file)
    written = json.loads(file.read_text())
    assert len(written["done"]) == 20 and written["passed"] is False
    assert written["failures"] == ["it has not ended"]


def test_without_a_gpu_nothing_is_written(monkeypatch, capsys, tmp_path):
    """Catches a validation that took place on no GPU."""
    monkeypatch.setattr(check, "device", lambda: None)
    file = tmp_path / "validation.json"
    assert check.main(Machine(), None, file) == 2
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert not file.exists()


def test_a_failure_does_not_fill_the_end_of_the_output():
    """Catches a record, of many thousand characters, that hides which steps have failed."""
    long = check.Done(3, "x" * 50_000, "y" * 50_000)
    assert len(long.tail) < 1000 and len(check.how_ended(long)) < 500


def test_commands_really_run_and_are_ended_in_time():
    """Catches a runner that hangs, loses output, or takes a missing program for a traceback."""
    program = [sys.executable, "-c", "import miniapps, sys; print(1); sys.exit(4)"]
    assert check.execute(program, 60.0) == (4, "1\n", "")
    hanging = [sys.executable, "-c", "import time; print('begun', flush=True); time.sleep(99)"]
    assert check.execute(hanging, 2.0) == (None, "begun\n", "")
    assert check.execute(["no-such-program"], 1.0).status == 127


# What has changed since --------------------------------------------------------------------------


NAMES = [
    f"miniapps.kernels.{name}"
    for name in ("halo.gpu._pack", "pic.gpu.push._push", "pic.gpu.push._sort")
]
TOOLKIT, HALO = "devices/cuda/compiler.py", "kernels/halo/gpu.py"
PUSH = "kernels/pic/gpu/push.py"
FILES = {
    TOOLKIT: "from miniapps.devices.backend import DeviceUnavailable",
    "devices/backend.py": "from miniapps.devices.messages import packed_empty",
    "devices/messages.py": "",
    "devices/cpu/compiler.py": "",
    "devices/cpu/vectors.py": "",
    "kernels/halo/interface.py": "",
    HALO: "from miniapps.devices.cuda.compiler import blocks\n"
    "from miniapps.kernels.halo.interface import Region",
    "kernels/pic/cpu/push.py": "from miniapps.devices.cpu.compiler import njit\n"
    "from miniapps.kernels.pic.counters import HERE",
    "kernels/pic/counters.py": "",
    PUSH: "from miniapps.devices.cuda import compiler as cuda\n"
    "from miniapps.kernels.pic.cpu.push import (\n    ahead)\n"
    "    from miniapps.devices.cpu.vectors import f",
}


@pytest.fixture
def line(tmp_path) -> Callable[..., str]:
    """``line({file: text})``: the line printed if files were changed after a validation."""

    def write(texts: dict[str, str]) -> None:
        for name, text in texts.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)

    def printed(texts: dict[str, str] | None = None, passed: bool = True) -> str:
        write(FILES)
        then = validation.sources(tmp_path)
        write(texts or {})
        failures = [] if passed else ["a", "b"]
        written = {"date": "2026-01-02", "device": GPU, "sources": then, "passed": passed}
        now = validation.sources(tmp_path)
        return validation.line(written | {"failures": failures}, now, NAMES, tmp_path)

    return printed


@pytest.mark.parametrize(
    ("file", "count"),
    [
        (PUSH, 2),
        (HALO, 1),
        (TOOLKIT, 3),
        ("kernels/pic/cpu/push.py", 2),  # of which a kernel takes a function
        ("kernels/pic/counters.py", 2),  # and that a constant
        ("devices/backend.py", 0),  # for the host alone
        ("kernels/halo/interface.py", 0),
    ],
)
def test_kernels_changed_since_a_validation_are_counted(line, file, count):
    """Catches a kernel that was changed after a GPU last ran it, and is not counted."""
    said = line({file: FILES[file] + "\n# changed"})
    assert f": {count} of 3 changed since the last validation, 2026-01-02 on NVIDIA H200" in said
    assert said.endswith(f"changed files: {file}")


@pytest.mark.parametrize(
    "file", ["devices/cpu/compiler.py", "devices/cpu/vectors.py", "kernels/other/cpu.py"]
)
def test_what_no_gpu_runs_does_not_count(line, file):
    """Catches kernels that are said to have changed when they have not."""
    said = line({file: "# changed"})
    assert said.endswith("all 3 are as last validated, 2026-01-02 on NVIDIA H200")


def test_new_files_count(line):
    """Catches a kernel in a file of its own that no GPU has seen."""
    assert line({"kernels/new/gpu.py": ""}).endswith("changed files: kernels/new/gpu.py")


def test_what_is_said_to_be_in_no_kernel_is_in_none():
    """Catches a file whose functions go into machine code and whose changes nobody counts."""
    for name in validation.IN_NO_KERNEL:
        harmless = "property|staticmethod|classmethod|cached_property|lru_cache|cache|dataclass"
        assert "@" not in re.sub(f"@({harmless})", "", source(name))
    on_cpu = "kernels/pic/cpu/push.py"
    assert on_cpu in validation.reached(PUSH) and "@njit" in source(on_cpu)


def source(name: str) -> str:
    """The text of a file of the project."""
    return (support.ROOT / name).read_text()


def test_every_kernel_is_counted():
    """Catches a list of kernels that is not that of the program."""
    names = validation.kernels()
    assert "miniapps.kernels.jacobi2d.gpu._sweep" in names and len(names) > 50
    assert validation.touched(names, [TOOLKIT]) == names
    halo = validation.touched(names, [HALO])
    assert halo and all(name.startswith("miniapps.kernels.halo.gpu.") for name in halo)


def test_a_failed_validation_is_told_as_one(line):
    """Catches a validation that failed and is quoted as if it had passed."""
    assert line(passed=False).endswith("which FAILED (2 checks)")


def test_that_there_never_was_a_validation_is_told(tmp_path):
    """Catches silence where no kernel was ever run on a GPU."""
    assert validation.read(tmp_path / "missing.json") is None
    assert "none of 3 was ever validated on a GPU" in validation.line(None, {}, NAMES)


def test_the_line_is_printed():
    """Catches a line that the checks before a change never show."""
    done = support.benchmark("gpu.validation", "--changed")
    assert done.stdout.startswith("kernels for a GPU: ") and done.stdout.count("\n") == 1
    assert "benchmarks.gpu.validation --changed" in (support.ROOT / ".ci" / "run").read_text()
