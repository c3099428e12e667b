"""`make gpu-check` without a GPU: all of its steps, with stand-ins for the commands it runs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import support

GPU = {"name": "NVIDIA H200", "memory_bytes": 2**37, "driver": "580.65.06", "cuda": "13.0"}
CLEAN = "========= ERROR SUMMARY: 0 errors\n"


@pytest.fixture(scope="module")
def check() -> Iterator[ModuleType]:
    """The script."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(support.ROOT / "benchmarks")
        import gpu_check

        yield gpu_check


@pytest.fixture
def validation(check) -> ModuleType:
    """The module that reads what the script writes."""
    return sys.modules["gpu_validation"]


class Machine:
    """Runs no command and answers as a machine would on which all is well, or not all."""

    def __init__(self, check: ModuleType, wrong: dict[str, Any] | None = None) -> None:
        self.check, self.wrong, self.commands = check, wrong or {}, []

    def __call__(self, command: list[str], limit_s: float) -> Any:
        """Answer a command; `wrong` has other answers for commands with certain words in them."""
        self.commands.append(" ".join(command))
        for words, answer in self.wrong.items():
            if words in self.commands[-1]:
                return answer if isinstance(answer, self.check.Done) else self.run(command, answer)
        if "pytest" in command:
            return self.check.Done(0, "....\n57 passed, 1 warning in 12.3s\n")
        if "--tool" in command:
            return self.check.Done(0, "", CLEAN)
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
        }
        return self.check.Done(0, json.dumps(usual | values) + "\n")


@pytest.fixture
def checked(check, tmp_path, capsys, monkeypatch) -> Callable[..., tuple[int, Any, str]]:
    """``checked(wrong)``: exit status, what was written, what was printed."""
    monkeypatch.setattr(check, "sanitizer_program", lambda: "compute-sanitizer")

    def run(wrong: dict[str, Any] | None = None) -> tuple[int, Any, str]:
        file = tmp_path / "gpu-validation.json"
        status = check.main(Machine(check, wrong), GPU, file)
        return status, json.loads(file.read_text()), capsys.readouterr().out

    return run


def test_all_is_checked_and_written_down(check, checked, validation):
    """Catches an app, a driver or a tool that is left out, and a file without what it rests on."""
    status, written, said = checked()
    assert status == 0, said
    assert (written["passed"], written["failures"]) == (True, [])
    assert written["device"] == GPU
    assert written["sources"] == validation.sources()
    assert {"cuda.py", "gpu.py"} <= set(written["sources"])
    assert {"python", "numba", "numba-cuda", "cupy-cuda13x", "numpy"} <= set(written["versions"])
    assert len(written["date"]) == 10
    assert written["tests"]["passed"] == 57
    apps = support.apps.names()
    hows = ("cpu", "serial", "mpi", "charm")
    assert set(written["runs"]) == {f"{app} {how}" for app in apps if app != "echo" for how in hows}
    assert all(r["same_as_cpu"] for how, r in written["runs"].items() if not how.endswith("cpu"))
    assert written["runs"]["pic charm"]["rate"] == {"value": 1e9, "unit": "points/s"}
    assert len(written["sanitizer"]) == 4 * len(check.WATCHED)
    assert set(written["sanitizer"].values()) == {"0 errors"}


def only_on_a_gpu(words: list[str]) -> bool:
    """Whether a command asks for what no CPU has kernels for."""
    return "leanmd" in words and "float32" in words


def test_commands_are_those_of_the_program(check):
    """Catches a command that the program does not know: each is tried as far as its launch."""
    commands = [step.command for step in check.steps(sys.executable, "compute-sanitizer", 2)]
    words = [command[command.index("run") :] for command in commands if "run" in command]
    watched = 4 * len(check.WATCHED)
    assert len(words) == 4 * len(check.APPS) + watched
    assert sum("gpu" in w for w in words) == 3 * len(check.APPS) + watched
    assert {name.split()[0] for name in check.WATCHED} == set(check.APPS)
    other = {"gpu": "cpu", check.PRESET: check.SMALL}  # which need neither a GPU nor time
    cpu = [[other.get(word, word) for word in w] for w in words if not only_on_a_gpu(w)]
    assert all(check.PRESET in support.apps.load(app).Problem.presets for app in check.APPS)
    program = (
        "import json, sys\nfrom workbench.cli import main\n"
        "for words in json.loads(sys.argv[1]):\n"
        "    assert main([*words, '--dry-run']) == 0, words\n"
    )
    done = support.execute([sys.executable, "-c", program, json.dumps(cpu)])
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("mpiexec -n 2") == 2 * len(check.APPS)
    assert done.stdout.count("+p1") == len(check.APPS)
    watch = ["env", "MINIAPPS_NO_POOL=1", "compute-sanitizer"]
    assert [c[:3] for c in commands if "--tool" in c] == [watch] * watched
    assert [c for c in commands if "pytest" in c][0][-2:] == ["tests/gpu", "--require-gpu"]


RUN = "{} --preset large --json - --device gpu --driver {}"
FAILING = {
    "a test": ("pytest", (1, "1 failed, 56 passed in 2s"), "tests: status 1: 1 failed"),
    "no test": ("pytest", (5, "no tests ran in 0.1s"), "tests: status 5"),
    "a skip": ("pytest", (0, "56 passed, 1 skipped in 2s"), "tests: status 0"),
    "a hang": ("pytest", (None, "..."), "tests: took too long"),
    "wrong": (RUN.format("pic", "serial"), {"valid": False}, "pic serial: is not valid"),
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
        "pic charm: there is no run on the CPU",
    ),
    "a race": (
        "racecheck",
        (9, "", "RACECHECK SUMMARY: 2 hazards displayed (2 errors)"),
        "racecheck pic: 2 hazards displayed",
    ),
    "errors under status 0": (
        "run pic --preset tiny",
        (0, "", "========= ERROR SUMMARY: 3 errors"),
        "memcheck pic: 3 errors",
    ),
    "a sanitizer without summary": ("synccheck", (0, "fine"), "synccheck pic: status 0: fine"),
}


@pytest.mark.parametrize("what", FAILING)
def test_a_failure_is_reported_and_does_not_end_it(what, check, checked):
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


def test_without_a_sanitizer_nobody_is_told_that_it_found_nothing(check, checked, monkeypatch):
    """Catches a missing program that counts as one that found no errors."""
    monkeypatch.setattr(check, "sanitizer_program", lambda: None)
    missing = check.Done(127, "", "No such file or directory")
    status, written, _ = checked({"--tool": missing})
    assert status == 1
    assert set(written["sanitizer"].values()) == {"compute-sanitizer not found"}


def test_what_there_is_no_time_for_counts_as_failed(check):
    """Catches a check that ends early, or never, and calls what it has not seen right."""
    machine, times, said = Machine(check), iter(range(0, 10_000, 50)), []
    todo = check.steps("python", "compute-sanitizer", 4)
    found = check.check(todo, machine, 520.0, lambda: float(next(times)), said.append)
    assert 0 < len(machine.commands) < 8
    assert len(found.failures) + len(machine.commands) == (
        1 + 4 * len(check.APPS) + 4 * len(check.WATCHED)
    )
    assert found.failures[-1] == "initcheck leanmd pairs: not run: no time left"


def test_without_a_gpu_nothing_is_written(check, monkeypatch, capsys, tmp_path):
    """Catches a validation that took place on no GPU."""
    monkeypatch.setattr(check, "device", lambda: None)
    file = tmp_path / "gpu-validation.json"
    assert check.main(Machine(check), None, file) == 2
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert not file.exists()


def test_commands_really_run_and_are_ended_in_time(check):
    """Catches a runner that hangs, loses output, or takes a missing program for a traceback."""
    program = [sys.executable, "-c", "import workbench, sys; print(1); sys.exit(4)"]
    assert check.execute(program, 60.0) == (4, "1\n", "")
    hanging = [sys.executable, "-c", "import time; print('begun', flush=True); time.sleep(99)"]
    assert check.execute(hanging, 2.0) == (None, "begun\n", "")
    assert check.execute(["no-such-program"], 1.0).status == 127


# What has changed since --------------------------------------------------------------------------


def kernels(folder: Path, **texts: str) -> Path:
    """A folder of kernel files."""
    for name, text in {"cuda": "1", "gpu": "2", "pic_gpu": "3", "pic_cpu": "4", **texts}.items():
        (folder / f"{name}.py").write_text(text)
    return folder


def test_changes_since_a_validation_are_counted(validation, tmp_path):
    """Catches a kernel that was changed, added or removed after a GPU last ran it, and not told."""
    then = validation.sources(kernels(tmp_path))
    assert sorted(then) == ["cuda.py", "gpu.py", "pic_gpu.py"]
    written = {"date": "2026-01-02", "device": GPU, "sources": then, "passed": True, "failures": []}

    def line() -> str:
        return validation.line(written, validation.sources(tmp_path))

    assert line().endswith("all 3 files are as last validated, 2026-01-02 on NVIDIA H200")
    kernels(tmp_path, pic_cpu="changed")
    assert "all 3 files" in line()
    kernels(tmp_path, cuda="changed", new_gpu="5")
    assert "2 of 4 files changed since the last validation, 2026-01-02" in line()
    assert line().endswith(": cuda.py, new_gpu.py")
    (tmp_path / "pic_gpu.py").unlink()
    assert line().endswith(": cuda.py, new_gpu.py, pic_gpu.py")


def test_files_for_the_cpu_count_where_kernels_take_from_them(validation, tmp_path):
    """Catches a function that a GPU runs too and that changes unseen in a file for the CPU."""
    taking = {"pic_gpu": "from kernels.pic_cpu import f", "pic_cpu": "from kernels.a_cpu import g"}
    then = validation.sources(kernels(tmp_path, **taking, a_cpu="a", b_cpu="b"))
    assert sorted(then) == ["a_cpu.py", "cuda.py", "gpu.py", "pic_cpu.py", "pic_gpu.py"]
    kernels(tmp_path, **taking, a_cpu="changed", b_cpu="changed")
    assert validation.changed(then, validation.sources(tmp_path)) == ["a_cpu.py"]


def test_a_failed_validation_is_told_as_one(validation, tmp_path):
    """Catches a validation that failed and is quoted as if it had passed."""
    now = validation.sources(kernels(tmp_path))
    written = {"date": "d", "device": GPU, "sources": now, "passed": False, "failures": ["a", "b"]}
    assert validation.line(written, now).endswith("which FAILED (2 checks)")


def test_that_there_never_was_a_validation_is_told(validation, tmp_path):
    """Catches silence where no kernel was ever run on a GPU."""
    now = validation.sources(kernels(tmp_path))
    assert validation.read(tmp_path / "missing.json") is None
    assert "none of 3 files was ever validated on a GPU" in validation.line(None, now)


def test_the_line_is_printed():
    """Catches a line that the checks before a change never show."""
    script = support.ROOT / "benchmarks" / "gpu_validation.py"
    done = support.execute([sys.executable, script, "--changed"])
    assert done.stdout.startswith("kernels for a GPU: ") and done.stdout.count("\n") == 1
    assert "gpu_validation.py --changed" in (support.ROOT / ".ci" / "run").read_text()
