"""All that is around kernels as it runs on a GPU, on a driver that has none.

numba's simulator has device arrays, streams and copies of its own. Here they are those of
numba-cuda, kernels are compiled, linked and launched by it, and only NVIDIA's driver
(gpu/stub/libcuda.c) and CuPy (gpu/stub/python/cupy.py) stand in. What is launched is computed by
gpu/emulation.py. Runs are made with the checker of races. What CuPy itself does and machine code
stay unchecked.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import comm_program
import gpu_budget
import gpu_runs
import gpu_stub
import of_day
import pytest
import skips
import support
from test_gpu_layers import all_passed, pytest_of

RUN_S = 280.0
RUNS = [run for run in gpu_runs.RUNS if run.app in of_day.with_kernels()]
RACES = "races"


# What numba's cache on disk finds a kernel by, besides its code: the variables it closes over.
CLOSURES = """
import hashlib
import gpu_budget
from numba.cuda.serialize import dumps
for module in gpu_budget.modules():
    for name, kernel in gpu_budget.kernels_of(module).items():
        cells = tuple(cell.cell_contents for cell in kernel.function.__closure__ or ())
        print(name, hashlib.sha256(dumps(cells)).hexdigest())
"""
# Numba numbers types as they are made.
OTHER_TYPES = """
from numba import types
types.Array(types.int8, 5, "C"), types.UniTuple(types.int8, 9)
"""


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which there is a GPU, as far as Python's packages can tell."""
    skips.without("stub")

    return gpu_stub.environment(
        support.made_once(tmp_path_factory, "stub", gpu_stub.compile_driver)
    )


@pytest.fixture(scope="session")
def on_stub(
    environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, Any]]:
    """The records of `gpu_runs` and of the same problems under serial, by their arguments.

    A kernel is compiled by the first process that needs it: others wait (see `emulation.alone`).
    """
    runs = [*(run.problem for run in RUNS), *(" ".join(run.words) for run in RUNS)]

    def make(folder: Path) -> None:
        checked = {"MINIAPPS_CUDA_TOOLKIT": "races:Checked", "MINIAPPS_RACES": str(folder / RACES)}
        records = support.records_of(runs, RUN_S, environment | checked)
        (folder / RACES).touch()
        (folder / "records.json").write_text(json.dumps(records))

    folder = support.made_once(tmp_path_factory, "runs on the stub", make)
    races = {"races": (folder / RACES).read_text().splitlines()}
    return {"": races} | dict(
        zip(runs, json.loads((folder / "records.json").read_text()), strict=True)
    )


@pytest.mark.parametrize("apps", of_day.KERNELS)
def test_every_day_has_runs(apps: tuple[str, ...]) -> None:
    """Catches an app whose kernels only meet the driver in one process."""
    assert {run.app for run in gpu_runs.RUNS} & {*apps}


@pytest.mark.timeout(2 * RUN_S + 60)
@pytest.mark.parametrize("run", RUNS)
def test_runs_end_as_on_the_cpu(run: gpu_runs.Run, on_stub: dict[str, dict[str, Any]]) -> None:
    """Catches calls of numba-cuda that are wrong, or right in its simulator only.

    And staging that loses, doubles or mixes up messages, and migrations that lose state.
    """
    on_cpu, on_gpu = on_stub[run.problem], on_stub[" ".join(run.words)]
    assert "failed" not in on_gpu, on_gpu
    assert on_gpu["gpu"] == "stub"
    gpu_runs.check(run, on_cpu, on_gpu)


@pytest.mark.timeout(2 * RUN_S + 60)
def test_launched_runs_have_no_races(on_stub: dict[str, dict[str, Any]]) -> None:
    """Catches waits that are missing where messages go between processes and blocks migrate."""
    assert on_stub[""]["races"] == []


def test_memory_that_nobody_has_written_shows(environment: dict[str, str]) -> None:
    """Catches a stand-in whose fresh memory is zeros, so that reading it looks right."""
    program = "import cupy; print(cupy.empty(3, 'f8').max() > 1e300, cupy.zeros(2, 'i8').sum())"
    done = support.execute([support.BIN / "python", "-c", program], env=environment)
    assert done.stdout.split() == ["True", "0"]


def test_arrays_are_described_as_by_cupy(environment: dict[str, str]) -> None:
    """Catches a stand-in that shows less than CuPy: no address for no element, and the stream."""
    program = (
        "import cupy\nlook = lambda n: cupy.empty(n, 'f8').__cuda_array_interface__\n"
        "print(look(0)['data'][0], look(3)['data'][0] > 0, look(3)['stream'])\n"
        "stream = cupy.cuda.Stream()\n"
        "with stream: print(look(3)['stream'] == stream.ptr, cupy.cuda.alloc(0).ptr)"
    )
    done = support.execute([support.BIN / "python", "-c", program], env=environment)
    assert done.stdout.split() == ["0", "True", "1", "True", "0"], done.stderr


def test_freed_memory_is_poisoned_and_handed_out_again(environment: dict[str, str]) -> None:
    """Catches a pool that gives new memory each time, so that nothing is written by two owners."""
    program = (
        "import cupy, numpy as np\nmemory = cupy.cuda.alloc(700)\nptr = memory.ptr\n"
        "memory.bytes[:] = 0\ndel memory\nmemory = cupy.cuda.alloc(900)\n"
        "print(memory.ptr == ptr, memory.bytes.min())\n"
        "pinned = np.frombuffer(cupy.cuda.alloc_pinned_memory(64), np.uint8)[8:]\n"
        "pinned[:] = 1\nplace = pinned.ctypes.data\ndel pinned\n"
        "pinned = np.frombuffer(cupy.cuda.alloc_pinned_memory(64), np.uint8)[8:]\n"
        "print(pinned.ctypes.data == place, pinned.min())"
    )
    done = support.execute([support.BIN / "python", "-c", program], env=environment)
    assert done.stdout.split() == ["True", "127", "True", "127"], done.stderr


# What NVIDIA's driver answers to wrong programs; its manual says so of each call.
ANSWERS = {
    "NOT_INITIALIZED": ("opened nothing", "forked after CUDA was opened"),
    "INVALID_CONTEXT": ("no context in this thread",),
    "INVALID_VALUE": (
        "copy to freed memory", "copy beyond an allocation", "host's memory as a device's",
        "device's memory as a host's", "fill of the host's memory", "freed twice",
        "no thread blocks", "too many thread blocks", "too many threads",
        "too many threads along z", "too much shared memory",
    ),
    "ILLEGAL_ADDRESS": (
        "kernel on freed memory", "kernel on the host's memory", "kernel beyond an allocation"
    ),
    "MISALIGNED_ADDRESS": ("kernel on misaligned memory",),
    "OUT_OF_MEMORY": ("allocation that does not fit", "allocation of more than is left"),
    "INVALID_HANDLE": (
        "launch in a destroyed stream", "wait for no event", "wait inside an event's handle",
        "time of an event that was not recorded",
    ),
}  # fmt: skip


def test_wrong_programs_are_refused(environment: dict[str, str]) -> None:
    """Catches a stub driver that takes what a real one refuses, and one that refuses too much."""
    program = Path(__file__).with_name("gpu_wrong_programs.py")
    done = support.execute([support.BIN / "python", program], env=environment)
    assert done.returncode == 0, done.stderr
    wanted = {
        name: [f"CUDA_ERROR_{error}", "CUDA_SUCCESS"]
        for error, names in ANSWERS.items()
        for name in names
    }
    assert json.loads(done.stdout) == wanted


FORKING = """
import os
from miniapps.devices import backend
backend.get("gpu")
if os.fork() == 0:
    os._exit(0)
os.wait()
"""


TINY = "run jacobi2d --size 9x8 --steps 2 --warmup 0 --audit 0 --device gpu"


@pytest.mark.launch
@pytest.mark.timeout(RUN_S + 60)
@pytest.mark.parametrize(
    ("words", "given"),
    [
        (f"{TINY} --driver charm -n 2 --odf 2", ""),
        ("batch -", f"{TINY} --pe-grid 2x1\n{TINY} --driver mpi -n 2\n{TINY} --driver charm -n 2"),
        (f"{TINY} --stall 60", ""),  # a watcher is forked
        (f"{TINY} --driver charm -n 2 --dry-run", ""),
    ],
)
def test_no_process_forks_after_it_has_opened_a_gpu(
    words: str, given: str, environment: dict[str, str], tmp_path: Path
) -> None:
    """Catches a GPU that is opened too early: CUDA does not work in the forked process."""
    forks = tmp_path / "forks"
    noted = environment | {"MINIAPPS_STUB_FORKS": str(forks)}
    done = support.execute([*support.PROGRAM, *words.split()], RUN_S, noted, given)
    assert done.returncode == 0, done.stderr
    assert not forks.exists(), forks.read_text()


@pytest.mark.slow
def test_a_fork_after_a_gpu_was_opened_is_noted(
    environment: dict[str, str], tmp_path: Path
) -> None:
    """Catches a driver that notes no fork, with which the check above could not fail."""
    forks = tmp_path / "forks"
    noted = environment | {"MINIAPPS_STUB_FORKS": str(forks)}
    done = support.execute([support.BIN / "python", "-c", FORKING], RUN_S, noted)
    assert done.returncode == 0 and "has opened CUDA" in forks.read_text(), done.stderr


@pytest.mark.slow
def test_a_run_that_does_not_fit_ends_with_a_line(environment: dict[str, str]) -> None:
    """Catches a traceback, or a hang, where a GPU's memory does not suffice."""
    small = environment | {"MINIAPPS_STUB_BYTES": str(1 << 16)}
    run = "run jacobi2d --size 256x256 --steps 2 --device gpu"
    done = support.execute([*support.PROGRAM, *run.split()], RUN_S, small)
    (line,) = done.stderr.splitlines()
    assert done.returncode == 3 and "memory" in line.lower()


@pytest.mark.slow
@pytest.mark.parametrize(("threads", "status"), [(128, 0), (2048, 1)])
def test_launches_that_no_gpu_takes_fail(
    threads: int, status: int, environment: dict[str, str]
) -> None:
    """Catches a driver that takes any grid, and warnings of grids that are small."""
    program = (
        "import numba, numpy as np\nfrom miniapps.devices import backend as device\n"
        "from miniapps.kernels.jacobi2d import gpu as stencil\n"  # compiles what is launched
        "gpu = device.get('gpu')\n"
        "field, other = (gpu.to_device(np.ones((4, 4))) for _ in range(2))\n"
        f"stencil.THREADS = {threads}\nstencil.sweep(field, other, 1, 3, 1, 3)"
    )
    done = support.execute([support.BIN / "python", "-c", program], env=environment)
    assert done.returncode == status
    assert ("CUDA_ERROR_INVALID_VALUE" in done.stderr) if status else (done.stderr == "")


@pytest.mark.slow
@pytest.mark.launch
def test_messages_in_device_memory_are_right(environment: dict[str, str]) -> None:
    """Catches arrays of CuPy or Numba that mpi4py does not take, and parts at wrong addresses."""
    program = Path(comm_program.__file__)
    python = support.BIN / "python"
    command = [support.BIN / "mpiexec", "-n", 2, python, program, "mpi", "cupy", "numba"]
    done = support.execute(command, RUN_S, environment)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    names = [(buffer, name) for buffer in ("cupy", "numba") for name in comm_program.ON_DEVICE]
    assert [(line["buffer"], line["name"]) for line in lines] == names
    assert [line for line in lines if line["error"] or not line["values"]] == []


@pytest.mark.slow
def test_kernels_are_found_in_the_cache_of_other_processes(environment: dict[str, str]) -> None:
    """Catches kernels that each process compiles anew, because what they close over has new ids."""
    first, second = (
        support.execute([support.BIN / "python", "-c", before + CLOSURES], RUN_S, environment)
        for before in ("", OTHER_TYPES)
    )
    assert first.stdout == second.stdout and "_forces" in first.stdout, first.stderr


@pytest.mark.slow
@pytest.mark.timeout(2 * RUN_S)
def test_the_tests_for_a_gpu(environment: dict[str, str], tmp_path: Path) -> None:
    """Catches tests and host code that only the simulator's arrays, streams and marks allow.

    What kernels compute is tested in the simulator: here two cases of each test are enough.
    """
    folder = support.ROOT / "tests" / "gpu"
    runs = folder / "test_drivers_gpu.py"  # made above, with the checker of races
    two = environment | {gpu_budget.ENDS: "1"}
    ended = pytest_of(tmp_path, folder, f"--ignore={runs}", env=two)
    assert all_passed(ended), ended.said[-20000:]
    assert ended.counts["passed"] > (40 if of_day.is_set() else 100)


@pytest.mark.slow
def test_calls_of_the_driver(environment: dict[str, str]) -> None:
    """Catches slices at wrong places, events used twice, and parameters that no kernel takes."""
    program = Path(__file__).with_name("gpu_driver_program.py")
    done = support.execute([support.BIN / "python", program], RUN_S, environment)
    assert done.returncode == 0 and len(done.stdout.split()) == 11, done.stderr


@pytest.mark.slow
def test_numpy_without_a_name_that_numba_cuda_wants(environment: dict[str, str]) -> None:
    """Catches kernels that numba-cuda does not compile with NumPy 2.5 and later."""
    program = (
        "import sys, numpy, numba.np.arrayobj; vars(numpy).pop('row_stack', None);"
        "from miniapps.workbench.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    done = support.execute(
        [support.BIN / "python", "-c", program, *TINY.split()], RUN_S, environment
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_calls_are_timed_and_counted(environment: dict[str, str]) -> None:
    """Catches calls that are not timed, or counted for the process instead of per block."""
    script = support.ROOT / "benchmarks/gpu_calls.py"
    done = support.execute([support.BIN / "python", script, "--smoke"], RUN_S, environment)
    assert done.returncode == 0, done.stderr
    times, counts = map(rows_of, done.stdout.strip().split("\n\n"))
    assert all(0.0 < float(row["10 %"]) <= float(row["µs"]) for row in times.values())
    assert {"event, record", "launch, packed before", "copy to host, 16 MB, until done"} <= set(
        times
    )
    one, of_eight = counts["jacobi2d"], counts["jacobi2d, 8 blocks"]
    assert (one["cuLaunchKernel"], one["cuEventRecord"]) == ("1", "2")
    # Unpack, sweep and pack for all blocks, between two marks.
    assert float(of_eight["cuLaunchKernel"]) == 3 / 8
    assert float(of_eight["cuEventRecord"]) == 2 / 8


def rows_of(table: str) -> dict[str, dict[str, str]]:
    """The rows of a Markdown table, by their first column."""
    lines = [line.split("|")[1:-1] for line in table.split("\n")]
    head, _, *rows = [[cell.strip() for cell in line] for line in lines]
    return {row[0]: dict(zip(head, row, strict=True)) for row in rows}


# Of the driver, per step, and arrays that are made: what each case of `benchmarks/gpu/host.py` may
# use. Launches are exact; a step of pic has more of them when particles arrive or are sorted.
NOTHING = {"waits": 0, "copies": 0, "synchronizations": 0, "arrays": 0, "prepared": 0}
MOST = {
    "jacobi2d": NOTHING | {"launches": 1, "marks": 2},
    "jacobi2d, periodic": NOTHING | {"launches": 3, "marks": 4},
    "stencil3d, periodic": NOTHING | {"launches": 3, "marks": 4},
    "jacobi2d, 8 blocks": NOTHING | {"launches": 3, "marks": 2, "synchronizations": 1},
    "stencil3d, 8 blocks": NOTHING | {"launches": 3, "marks": 2, "synchronizations": 1},
    "pic, 8 blocks": {
        "launches": 84, "marks": 54, "waits": 32, "copies": 8, "synchronizations": 16, "arrays": 4,
    },
    "pic": {"launches": 1, "marks": 4, "copies": 1, "synchronizations": 1, "arrays": 0},
    "leanmd": {"launches": 9, "marks": 12, "copies": 1, "synchronizations": 1, "arrays": 0},
    "leanmd, new lists": {"launches": 52, "marks": 18, "copies": 12, "arrays": 40},
    "leanmd by pairs, 27 cells": {
        "launches": 110, "marks": 250, "waits": 81, "copies": 56, "synchronizations": 82,
        "arrays": 16,
    },
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(RUN_S + 60)
def test_a_step_makes_no_more_calls_than_allowed() -> None:
    """Catches launches, events, copies and arrays that a change adds to every step.

    And launches that are packed in every step, though they come again.
    """
    skips.without("stub")
    command = [support.BIN / "python", support.ROOT / "benchmarks/gpu/host.py", "--counts"]
    done = support.execute(command, RUN_S)
    assert done.returncode == 0, done.stderr
    counted = json.loads(done.stdout)
    assert set(counted) == set(MOST)
    for case, most in MOST.items():
        over = {name: counted[case][name] for name in most if counted[case][name] > most[name]}
        assert not over, f"{case}: {over}, allowed are {most}"
        assert counted[case]["launches"] >= 1, f"{case} launches nothing"
