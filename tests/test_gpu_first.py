"""`make gpu-first` without a GPU: its parts are stand-ins, its packages a wheel made here."""

from __future__ import annotations

import json
import os
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import support

from benchmarks.gpu import bench, check, inventory, ncu
from benchmarks.gpu import first as script

FOLDER = support.ROOT / "benchmarks/gpu"
RESULT = "benchmarks/gpu/validation.json"
ADDS = f"""
import sys, pathlib
file = pathlib.Path({RESULT!r})
file.write_text((file.read_text() if file.exists() else "") + sys.argv[1])
print("added", flush=True)
"""
SCRIPTS = {
    "adds": ADDS,
    "fails": "raise SystemExit('wrong')",
    "hangs": f"{ADDS}\nimport time; time.sleep(60)",
}


@pytest.fixture
def first(tmp_path, monkeypatch) -> ModuleType:
    """The script in a tree of its own, whose parts add a letter to a result, fail or hang."""
    module = script
    tree = tmp_path / "tree"
    (tree / "benchmarks/gpu").mkdir(parents=True)
    for name, text in SCRIPTS.items():
        (tree / "benchmarks/gpu" / f"{name}.py").write_text(text)
    for package in ("benchmarks", "benchmarks/gpu"):
        (tree / package / "__init__.py").touch()
    parts = {
        "inventory": module.Part(("adds", "i"), needs_gpu=False, timed=False),
        "first": module.Part(("adds", "f")),
        "fails": module.Part(("fails",), timed=False),
        "hangs": module.Part(("hangs", "h"), timed=False),
        "check": module.Part(("adds", "c")),
    }
    monkeypatch.setattr(module, "PARTS", parts)
    monkeypatch.setattr(module, "ROOT", tree)
    monkeypatch.setattr(module, "LOGS", tree / "logs")
    monkeypatch.setattr(module, "CAN_IMPORT", "import numpy")
    monkeypatch.setattr(module, "HAS_GPU", "")
    for name in ("WHEELS", "VENV"):
        monkeypatch.setattr(module, name, tree / getattr(module, name).name)
    monkeypatch.setenv("OUT", str(tmp_path / "out"))
    return module


@pytest.mark.slow
def test_parts_pass_in_turn(first, tmp_path, capfd):
    """Catches a part that is left out, and results and logs that are lost with the machine."""
    assert first.main(["inventory", "first", "check"]) == 0
    assert (tmp_path / "out" / RESULT).read_text() == "ifc"
    log = "gpu-first: inventory\nadded\ngpu-first: first\nadded\ngpu-first: check\nadded\n"
    assert (tmp_path / "out" / "gpu-first.log").read_text() == log
    assert "gpu-first: check passed" in capfd.readouterr().out


def test_few_files_come_back(first, tmp_path):
    """Catches results that a machine does not return because there are too many files of logs."""
    assert first.main(["inventory", "first", "fails", "check"]) == 1
    found = [file.relative_to(tmp_path / "out") for file in (tmp_path / "out").rglob("*.*")]
    assert sorted(map(str, found)) == [RESULT, "gpu-first.log"]


@pytest.mark.parametrize("place", ["/proc/none", "/dev/full/out"])
def test_results_that_have_no_place_end_it_in_one_line(first, place, monkeypatch, capfd):
    """Catches a part that nobody ends, and words of Python, where a folder cannot be made."""
    monkeypatch.setenv("OUT", place)
    assert first.main(["inventory"]) == 1
    told, errors = capfd.readouterr()
    assert told.splitlines()[-1].startswith(f"gpu-first: {place}: ") and errors == ""
    assert not (first.ROOT / RESULT).exists()


def test_without_a_gpu_parts_before_it_have_run(first, tmp_path, monkeypatch, capfd):
    """Catches a traceback where there is no GPU, and an inventory that needs one."""
    monkeypatch.setattr(first, "HAS_GPU", "print('no GPU was found')")
    assert first.main(["inventory", "first", "check"]) == 2
    assert (tmp_path / "out" / RESULT).read_text() == "i"
    last = capfd.readouterr().out.splitlines()[-1]
    assert last == "gpu-first: first needs a GPU: no GPU was found"
    monkeypatch.setattr(first, "HAS_GPU", "raise ImportError('no numba')")
    assert first.main(["first"]) == 1
    assert capfd.readouterr().out.splitlines()[-1] == "gpu-first: first: ImportError: no numba"


@pytest.mark.slow
def test_a_failed_part_is_told_at_the_end(first, tmp_path, monkeypatch, capfd):
    """Catches a failure that passes, and one that keeps parts from running that do not need it."""
    assert first.main(["first", "fails", "check"]) == 1
    assert (tmp_path / "out" / RESULT).read_text() == "fc"
    out = capfd.readouterr().out
    assert "wrong\n" in out and "fails has status 1" in out
    assert out.splitlines()[-1].startswith("gpu-first: failed: fails; ")
    monkeypatch.setattr(first, "DECISIVE", ("fails",))
    assert first.main(["first", "fails", "check"]) == 1
    assert (tmp_path / "out" / RESULT).read_text() == "fcf"
    assert capfd.readouterr().out.splitlines()[-1] == "gpu-first: fails has status 1"


@pytest.mark.slow
def test_a_part_is_ended_in_time_and_its_results_are_kept(first, tmp_path, monkeypatch, capfd):
    """Catches a call that takes longer than it may, and results that only a whole part leaves."""
    monkeypatch.setattr(first, "TOTAL_S", 5.0)
    monkeypatch.setattr(first, "SPARE_S", 0.0)
    assert first.main(["hangs", "check"]) == 1
    assert (tmp_path / "out" / RESULT).read_text() == "h"
    assert "hangs was ended" in capfd.readouterr().out.splitlines()[-1]
    monkeypatch.setattr(first, "TOTAL_S", 60.0)
    times = iter([0.0, 0.0, 6.0])
    assert first.main(["--seconds", "5", "first", "check"], lambda: next(times)) == 1
    assert capfd.readouterr().out.splitlines()[-1] == 'gpu-first: time is up; to do: PARTS="check"'


def test_results_travel_from_machine_to_machine(first, tmp_path, monkeypatch, capfd):
    """Catches a fresh machine that begins anew, and one that loses what is in its own tree."""
    out, tree = tmp_path / "out" / RESULT, first.ROOT / RESULT
    out.parent.mkdir(parents=True)
    out.write_text("old")
    assert first.main(["first"]) == 0
    assert tree.read_text() == out.read_text() == "oldf"
    out.write_text("other")
    out.chmod(0o444)
    assert first.main(["take"]) == 0
    assert tree.read_text() == "other" and os.access(tree, os.W_OK)
    monkeypatch.setenv("OUT", str(tmp_path / "nothing"))
    assert first.main(["take"]) == 1
    assert first.main(["chekc"]) == 1
    assert "no part chekc" in capfd.readouterr().out.splitlines()[-1]


@pytest.mark.parametrize(("name", "program"), [("sanitizers", "compute-sanitizer"), ("ncu", "ncu")])
def test_a_tool_may_be_missing(first, name, program, monkeypatch, capfd):
    """Catches a first half hour that ends because a machine lacks one of NVIDIA's tools."""
    monkeypatch.setitem(first.PARTS, name, first.Part(("fails",)))
    assert first.main([name, "check"]) == 0
    lines = [line for line in capfd.readouterr().out.splitlines() if f": {name} " in line]
    assert lines == [f"gpu-first: {name} is left out: there is no {program}"]


def test_profiles_are_of_kernels_after_the_first_launches(tmp_path, monkeypatch):
    """Catches a command of ncu with other sections, and a run that has too few launches."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_HOME", raising=False)
    assert ncu.profiler() is None and ncu.main() == 2
    (tmp_path / "ncu").write_text("#!/bin/sh\necho $0 $@\nexit 3\n")
    (tmp_path / "ncu").chmod(0o755)
    assert ncu.profiler() == str(tmp_path / "ncu") and ncu.main() == 1
    for words in ncu.RUNS.values():
        command = " ".join(ncu.command("ncu", words))
        assert command.startswith(
            "ncu --target-processes all --launch-skip 150 -c 40 --section SpeedOfLight "
            "--section Occupancy --section LaunchStats --section WarpStateStats "
            "--section MemoryWorkloadAnalysis --clock-control none "
        )
    steps = int(ncu.RUNS["stencil3d"].split("--steps ")[1].split()[0])
    assert steps >= ncu.SKIPPED + ncu.COUNTED, "a step has one launch"


@pytest.mark.long
def test_paths_of_the_user_are_kept(first, tmp_path, monkeypatch):
    """Catches a PYTHONPATH that is overwritten, and a folder of CUDA that is not named."""
    monkeypatch.setenv("PYTHONPATH", "/own")
    monkeypatch.setenv("CUDA_HOME", "/cuda")
    assert first.environment()["PYTHONPATH"] == f"{first.ROOT}:/own"
    assert first.environment()["CUDA_HOME"] == "/cuda"
    monkeypatch.delenv("CUDA_HOME")
    monkeypatch.setattr(first, "CUDA_FOLDERS", ("/no/such", str(tmp_path)))
    assert first.environment()["CUDA_HOME"] == str(tmp_path)


def test_nothing_need_be_installed():
    """Catches an import that only an environment with this project finds."""
    command = [sys.executable, "-S", "-E", support.ROOT / "benchmarks/gpu_first.py", "chekc"]
    done = support.execute(command)
    assert done.returncode == 1 and done.stdout.startswith("gpu-first: no part chekc"), done.stderr
    calls = [sys.executable, "-E", support.ROOT / "benchmarks/gpu_calls.py", "--help"]
    assert support.execute(calls).returncode == 0


@pytest.mark.parametrize("target", ["gpu-check", "gpu-bench"])
def test_make_keeps_the_users_path(target, tmp_path):
    """Catches a PYTHONPATH that make overwrites."""
    python = tmp_path / "python3"
    python.write_text('#!/bin/sh\necho "$PYTHONPATH"\n')
    python.chmod(0o755)
    command = ["make", "-s", "-C", support.ROOT, target, f"BIN={tmp_path}"]
    done = support.execute(command, env={"PYTHONPATH": "/own"})
    assert done.stdout == f"{support.ROOT}:/own\n", done.stderr


# Packages ----------------------------------------------------------------------------------------


def wheel(folder: Path, name: str, tag: str = "py3-none-any") -> None:
    """A wheel with one module, as an installer takes it."""
    folder.mkdir(exist_ok=True)
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(folder / f"{name}-1.0-{tag}.whl", "w") as file:
        file.writestr(f"{name}.py", "VALUE = 7")
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        file.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n")
        file.writestr(f"{info}/RECORD", "")


@pytest.mark.slow
def test_wheels_are_installed_beside_the_packages_of_this_python(first):
    """Catches packages that are found no more, and an installation that is repeated or too old."""
    wheel(first.WHEELS, "carried")
    python = first.install()
    program = "import carried, numpy, site; print(carried.VALUE, len(site.getsitepackages()) > 1)"
    assert first.asked(python, program).stdout == "7 True\n"
    made = (first.VENV / "made-from").stat().st_mtime_ns
    assert first.install() == python
    assert (first.VENV / "made-from").stat().st_mtime_ns == made
    wheel(first.WHEELS, "another")
    assert first.asked(first.install(), "import another").returncode == 0


@pytest.mark.slow
def test_why_packages_cannot_be_installed_is_one_line(first, monkeypatch, capfd):
    """Catches pip's page of output, and a part that begins without its packages."""
    wheel(first.WHEELS, "carried", "cp30-cp30-manylinux1_x86_64")
    assert first.main([]) == 1
    out = capfd.readouterr().out
    assert out.startswith("gpu-first: install: ERROR: carried-1.0-cp30") and out.count("\n") == 1
    next(first.WHEELS.iterdir()).unlink()
    monkeypatch.setattr(first, "CAN_IMPORT", "import no_such_package")
    assert first.main([]) == 1
    out = capfd.readouterr().out
    assert "make gpu-wheels" in out and out.count("\n") == 1


def required() -> set[str]:
    """The names in the list of wheels."""
    lines = (FOLDER / "wheels.txt").read_text().splitlines()
    return {line.replace(">", "=").split("=")[0] for line in lines if line[:1] not in ("", "#")}


def test_what_is_carried_is_what_the_inventory_looks_for():
    """Catches a package that nobody carries and that an image is not said to have."""
    assert set(inventory.CARRIED) <= required()
    assert not set(inventory.FROM_IMAGE) & required()
    page = (support.ROOT / "docs" / "gpu-checks.md").read_text()
    spoken = {"numpy": "NumPy", "numba": "Numba", "scipy": "SciPy", "cupy-cuda13x": "CuPy"}
    for name in inventory.FROM_IMAGE:
        assert spoken.get(name, name) in page, name


def test_the_inventory_names_what_is_missing():
    """Catches packages that fail to load, and are found in the first kernel."""
    (missing,) = inventory.packages({"some": "no_such_package"})
    assert missing.missing and "ModuleNotFoundError" in missing.words
    assert inventory.old((12, 8)) and not inventory.old((13, 0))


@pytest.mark.slow
def test_the_inventory_needs_no_gpu():
    """Catches an inventory that fails where there is little to find."""
    done = support.benchmark("gpu.inventory")
    found = {line.split()[0] for line in done.stdout.splitlines()}
    assert {"Python", "cores", "numba", "GPU", "CUDA_HOME", "nvvm", "mpiexec"} <= found
    assert done.stderr == ""


# Check and benchmark in parts --------------------------------------------------------------------


def test_parts_are_steps_of_the_check():
    """Catches a part that selects no step, or others, or runs with nothing to compare with."""
    every = list(check.steps("python", "compute-sanitizer", 2))
    selected = {
        name: [step.name for step in check.chosen(every, part.words[2])]
        for name, part in script.PARTS.items()
        if "--steps" in part.words
    }
    assert selected["first"] == ["first tests", "first run"]
    assert selected["tests"] == ["tests", "launched tests"]
    usual = [name for name, case in check.CASES.items() if "charm" in case.configurations]
    runs = {f"{app} {how}" for app in usual for how in ("cpu", "charm")}
    runs |= {"jacobi2d staged", "leanmd paper cpu", "leanmd paper pairs"}
    assert set(selected["charm"]) == runs
    passed = {"jacobi2d", "stencil3d", "pic", "leanmd"}  # under the first two tools
    left = {f"{tool} {name}" for tool in check.TOOLS for name in check.WATCHED}
    left -= {f"{tool} {name}" for tool in ("memcheck", "racecheck") for name in passed}
    assert set(selected["sanitizers"]) == left


def test_what_no_gpu_has_shown_is_first():
    """Catches minutes on a GPU that go into what has passed before."""
    order = "inventory first calls charm sanitizers tests ncu bench check"
    assert " ".join(script.PARTS) == order


GPU = {"name": "NVIDIA H200", "memory_bytes": 2**37, "driver": "580.65.06", "cuda": "13.0"}


@pytest.mark.long
def test_some_steps_are_made_and_the_check_goes_on_after_them(tmp_path, monkeypatch):
    """Catches a check of some steps that counts as a whole one, and steps that are repeated."""
    file, made = tmp_path / "validation.json", []
    step = lambda name: check.Step(name, [name], 9.0, lambda done, found: None)  # noqa: E731
    monkeypatch.setattr(check, "steps", lambda *words: map(step, ("first", "tests", "last")))

    def main(*words: str) -> dict[str, Any]:
        made.clear()
        run = lambda command, limit_s: made.append(command[0]) or check.Done(0, "")  # noqa: E731
        assert check.main(run, GPU, file, check.arguments(list(words))) == 0
        return json.loads(file.read_text())

    assert main("--steps", "tests")["passed"] is False and made == ["tests"]
    assert main()["passed"] is True and made == ["first", "last"]
    assert main("--resume", "--steps", "first")["passed"] is True and made == []
    assert main()["passed"] is True and made == ["first", "tests", "last"]


@pytest.fixture
def measured() -> Callable[..., list[str]]:
    """``measured(before)``: the parts that are measured after earlier results."""
    part, made = bench.Part, []

    def measure(before: dict[str, Any]) -> list[str]:
        made.clear()
        todo = [part(("rates", name), lambda name=name: made.append(name)) for name in "abc"]
        bench.measure(todo, lambda results: None, before=before)
        return made

    return measure


def test_the_benchmark_goes_on_where_it_ended(tmp_path, measured):
    """Catches parts that are measured twice, and rates of another program or GPU."""
    file, now = tmp_path / "gpu.json", {"device": "A", "program": "1"}

    def earlier(resume: bool = False, **other: str) -> list[str]:
        return measured(bench.earlier(now | other, resume, file))

    assert earlier() == ["a", "b", "c"]
    results = now | {"rates": {"b": 2.0}, "failures": {"rates: a": "x"}, "complete": False}
    file.write_text(json.dumps({"results": results}))
    assert earlier() == ["a", "c"]
    assert earlier(device="B") == earlier(program="2") == ["a", "b", "c"]
    file.write_text(json.dumps({"results": results | {"complete": True}}))
    assert earlier() == ["a", "b", "c"] and earlier(resume=True) == ["a", "c"]
