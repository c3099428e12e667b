"""All that is around kernels as it runs on a GPU, on a driver that has none.

numba's simulator has device arrays, streams and copies of its own. Here they are those of
numba-cuda, kernels are compiled, linked and launched by it, and only NVIDIA's driver
(gpu/stub/libcuda.c) and CuPy (gpu/stub/python/cupy.py) stand in. What is launched is computed by
gpu/emulation.py. Runs are made with the checker of races. What CuPy itself does and machine code
stay unchecked.
"""

from __future__ import annotations

import json
import re
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

from benchmarks.gpu import costs, host
from miniapps.workbench.show.saved import SavedRun

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


LAUNCH_S = 1.0  # so that rounds end after the host has begun to time them
HEAVY = """
from time import sleep
from miniapps.jacobi2d.block import JacobiBlock
right = JacobiBlock.sweep_rest

def sweep_rest(self, count):
    # Three launches of a round become nine, or the host waits for longer than they take.
    for _ in range(6 * (self.index[0] < 2)):
        self.kernels.sweep(self.old, self.new, *self.own)
    sleep(0.02 * (self.index[0] >= 2))
    right(self, count)

JacobiBlock.sweep_rest = sweep_rest
JacobiBlock.has_equal_load = False
"""


@pytest.mark.launch
@pytest.mark.timeout(RUN_S + 60)
def test_loads_are_the_time_of_kernels(environment: dict[str, str], tmp_path: Path) -> None:
    """Catches loads with what the host waits, or a block's kernels wait for those of others.

    Of four blocks two launch nine kernels in a round, on PE 0, the others three.
    """
    program = support.in_every_process(tmp_path, HEAVY)
    paths = ":".join((program["PYTHONPATH"], environment["PYTHONPATH"]))
    costs = tmp_path / "costs"
    costs.write_text(f"cuLaunchKernel 0 {LAUNCH_S * 1e9} 0\n")
    clock = {"MINIAPPS_STUB_COSTS": str(costs), "MINIAPPS_STUB_CLOCK": "1"}
    heavy = environment | clock | {"PYTHONPATH": paths}
    run = (
        "run jacobi2d --size 12x8 --steps 6 --warmup 2 --audit 0 --time-tile 1 --device gpu "
        f"--driver charm -n 2 --pe-grid 2x1 --odf 2 --balancer Greedy --lb-period 3 "
        f"--output {tmp_path / 'run.h5'}"
    )
    done = support.execute([*support.PROGRAM, *run.split()], RUN_S, heavy)
    # By the clock that kernels move, they take longer than the run by the host's.
    wrong = [line for line in done.stdout.splitlines() if "WRONG" in line]
    assert len(wrong) == 1 and "times contradict each other" in wrong[0], done.stderr + done.stdout
    saved = SavedRun.read(tmp_path / "run.h5")
    assert saved.loads is not None
    before = {3: 1, 6: 3}  # rounds, by load-balancing step
    wanted = {
        (step, n): rounds * (9 if n < 2 else 3) * LAUNCH_S
        for step, rounds in before.items()
        for n in range(4)
    }
    loads = {(step, block): load for _, step, block, load in saved.loads.tolist()}
    assert loads == pytest.approx(wanted, rel=1e-4)
    last = saved.rows[saved.rows["round"] == 5]
    pe = dict(zip(last["block"].tolist(), last["pe"].tolist(), strict=True))
    assert {pe[0], pe[1]} == {pe[2], pe[3]} == {0, 1}


PICKLES = """
import pickletools
from miniapps.drivers.charm.pe import PE
right = PE.packed

def packed(self, array, index):
    pickled = right(self, array, index)
    with open({file!r}, "a") as file:
        names = [op.name for op, arg, _ in pickletools.genops(pickled) if "BYTE" in op.name]
        file.write(" ".join(names) + chr(10))
    return pickled

PE.packed = packed
"""


@pytest.mark.slow
@pytest.mark.launch
@pytest.mark.timeout(RUN_S + 60)
@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ("", "BINBYTES SHORT_BINBYTES"),
        ("--gpu-ipc off --shared-memory 0", "BINBYTES BYTEARRAY8"),
        ("--gpu-ipc off --shared-memory 1", "BINBYTES"),
    ],
)
def test_a_chare_migrates_with_one_buffer(options, wanted, environment, tmp_path):
    """Catches arrays on a GPU that are pickled, or sent in datagrams though memory is shared.

    In bytes are the pickled block and its arrays; these are not, if they are in shared memory, and
    of memory on the GPU that both PEs share, it is said where it is.
    """
    file = tmp_path / "pickles"
    program = support.in_every_process(tmp_path, PICKLES.format(file=str(file)))
    paths = ":".join((program["PYTHONPATH"], environment["PYTHONPATH"]))
    run = (
        "run jacobi2d --size 12x8 --steps 3 --warmup 0 --audit 0 --time-tile 1 --device gpu "
        f"--driver charm -n 2 --odf 2 --balancer Rotate --lb-period 1 {options}"
    )
    support.execute(
        [*support.PROGRAM, *run.split()], RUN_S, environment | {"PYTHONPATH": paths}, check=True
    )
    lines = file.read_text().splitlines()
    assert len(lines) == 8 and {*lines} == {wanted}


LIKE_CUPY = {  # programs, and what they print
    "unwritten memory is not zero": (
        "import cupy; print(cupy.empty(3, 'f8').max() > 1e300, cupy.zeros(2, 'i8').sum())",
        "True 0",
    ),
    "no address for no element, and the stream": (
        "import cupy\nlook = lambda n: cupy.empty(n, 'f8').__cuda_array_interface__\n"
        "print(look(0)['data'][0], look(3)['data'][0] > 0, look(3)['stream'])\n"
        "stream = cupy.cuda.Stream()\n"
        "with stream: print(look(3)['stream'] == stream.ptr, cupy.cuda.alloc(0).ptr)",
        "0 True 1 True 0",
    ),
    "freed memory is poisoned and handed out again": (
        "import cupy, numpy as np\nmemory = cupy.cuda.alloc(700)\nptr = memory.ptr\n"
        "memory.bytes[:] = 0\ndel memory\nmemory = cupy.cuda.alloc(900)\n"
        "print(memory.ptr == ptr, memory.bytes.min())\n"
        "pinned = np.frombuffer(cupy.cuda.alloc_pinned_memory(64), np.uint8)[8:]\n"
        "pinned[:] = 1\nplace = pinned.ctypes.data\ndel pinned\n"
        "pinned = np.frombuffer(cupy.cuda.alloc_pinned_memory(64), np.uint8)[8:]\n"
        "print(pinned.ctypes.data == place, pinned.min())",
        "True 127 True 127",
    ),
}


@pytest.mark.parametrize("what", LIKE_CUPY)
def test_memory_is_as_that_of_cupy(what: str, environment: dict[str, str]) -> None:
    """Catches a stand-in with other memory or descriptions of it than CuPy, or that hides more."""
    program, said = LIKE_CUPY[what]
    done = support.execute([support.BIN / "python", "-c", program], env=environment)
    assert " ".join(done.stdout.split()) == said, done.stderr


# What NVIDIA's driver answers to wrong programs; its manual says so of each call.
ANSWERS = {
    "NOT_INITIALIZED": ("opened nothing", "forked after CUDA was opened"),
    "INVALID_CONTEXT": ("no context in this thread", "handle of one's own memory"),
    "INVALID_VALUE": (
        "copy to freed memory", "copy beyond an allocation", "host's memory as a device's",
        "device's memory as a host's", "fill of the host's memory", "freed twice",
        "handle of freed memory", "copy to closed memory", "closed twice",
        "another process's memory freed", "handle of a pool's memory",
        "handle of an address inside", "own memory closed",
        "no thread blocks", "too many thread blocks", "too many threads",
        "too many threads along z", "too much shared memory",
    ),
    "ILLEGAL_ADDRESS": (
        "kernel on freed memory", "kernel on closed memory", "kernel on the host's memory",
        "kernel beyond an allocation",
    ),
    "MISALIGNED_ADDRESS": ("kernel on misaligned memory",),
    "OUT_OF_MEMORY": ("allocation that does not fit", "allocation of more than is left"),
    "INVALID_HANDLE": (
        "launch in a destroyed stream", "wait for no event", "wait inside an event's handle",
        "time of an event that was not recorded", "time until an event without a time",
        "time since an event without a time",
    ),
}  # fmt: skip


def test_wrong_programs_are_refused(environment: dict[str, str]) -> None:
    """Catches a stub driver that takes what a real one refuses, and one that refuses too much."""
    program = Path(__file__).with_name("gpu_wrong_programs.py")
    done = support.execute([support.BIN / "python", program], env=environment, check=True)
    wanted = {
        name: [f"CUDA_ERROR_{error}", "CUDA_SUCCESS"]
        for error, names in ANSWERS.items()
        for name in names
    }
    assert json.loads(done.stdout) == wanted


ON_RANKS, ON_PES = gpu_runs.TWO_RANKS, gpu_runs.TWO_PES


@pytest.mark.slow
@pytest.mark.timeout(RUN_S + 60)
@pytest.mark.parametrize(
    ("run", "toolkit", "options", "status", "path"),
    [
        (ON_RANKS, "Slow", "", 0, "ipc"),
        (ON_RANKS, "Hasty", "", 1, "ipc"),
        (ON_RANKS, "Hasty", "--gpu-ipc off", 0, "staged"),
        (ON_RANKS, "Alone", "", 0, "staged"),
        (ON_PES, "Slow", "", 0, "ipc"),
        (ON_PES, "Hasty", "", 1, "ipc"),
        (ON_PES, "Hasty", "--gpu-ipc off", 0, "staged"),
        (ON_PES, "Alone", "", 0, "staged"),
    ],
)
def test_messages_between_processes_of_one_gpu(
    run, toolkit, options, status, path, environment, tmp_path
):
    """Catches memory that is packed again before its receiver has copied it, as hashes show.

    And an option without effect, and ranks that believe they share a GPU whose memory none opens.
    """
    record = tmp_path / "record.json"
    words = ["run", *run.words, "--audit", "0", *options.split(), "--json", str(record)]
    chosen = environment | {"MINIAPPS_CUDA_TOOLKIT": f"gpu_hasty:{toolkit}"}
    done = support.execute([*support.PROGRAM, *words], RUN_S, chosen)
    assert done.returncode == status, done.stderr
    found = json.loads(record.read_text())
    (on_cpu,) = support.records_of([run.problem], RUN_S)
    assert (found["state_hash"] == on_cpu["state_hash"]) is (status == 0)
    assert found["transport"]["path"] == path
    assert (found["transport"]["staged_bytes"] == 0) is (path == "ipc")


@pytest.mark.slow
@pytest.mark.timeout(RUN_S + 60)
@pytest.mark.parametrize(
    ("run", "toolkit", "status", "race"),
    [
        (ON_PES, "Unwritten", 0, "written by _pack.*, and with no order read by another process"),
        (ON_PES, "Careless", 0, "read by a copy .*, and with no order written by its owner"),
        (ON_PES, "Forgetful", 3, ""),  # the poison makes results that are no finite numbers
        (gpu_runs.MOVING, "ForgetfulOfBlocks", 1, ""),
    ],
)
def test_mistakes_with_memory_of_other_processes_are_seen(
    run, toolkit, status, race, environment, tmp_path
):
    """Catches a checker that does not see a message lent, given back or released too early."""
    races = tmp_path / RACES
    races.touch()
    chosen = {"MINIAPPS_CUDA_TOOLKIT": f"gpu_hasty:{toolkit}", "MINIAPPS_RACES": str(races)}
    done = support.execute([*support.PROGRAM, "run", *run.words], RUN_S, environment | chosen)
    assert done.returncode == status, done.stderr
    found = races.read_text().splitlines()
    assert bool(found) is (race != "")
    assert [line for line in found if not re.match(race, line)] == []


FORKING = """
import os
from miniapps.devices import backend
backend.get("gpu")
if os.fork() == 0:
    os._exit(0)
os.wait()
"""


TINY = "run jacobi2d --size 9x8 --steps 2 --warmup 0 --audit 0 --device gpu"
STUDY = "study strong jacobi2d --size 9x8 --steps 2 --warmup 0 --device gpu"


@pytest.mark.launch
@pytest.mark.timeout(RUN_S + 60)
@pytest.mark.parametrize(
    ("words", "given"),
    [
        (f"{TINY} --driver charm -n 2 --odf 2", ""),
        ("batch -", f"{TINY} --pe-grid 2x1\n{TINY} --driver mpi -n 2\n{TINY} --driver charm -n 2"),
        (f"{TINY} --stall 60", ""),  # a watcher is forked
        (f"{TINY} --driver charm -n 2 --dry-run", ""),
        (f"{STUDY} --drivers charm --pes 2 --trials 1", ""),
    ],
)
def test_no_process_forks_after_it_has_opened_a_gpu(words, given, environment, tmp_path):
    """Catches a GPU that is opened too early: CUDA does not work in the forked process."""
    forks = tmp_path / "forks"
    noted = environment | {"MINIAPPS_STUB_FORKS": str(forks)}
    command = [*support.PROGRAM, *words.split()]
    if words.startswith("study"):
        command += ["--campaign", tmp_path / "campaign.jsonl"]
    support.execute(command, RUN_S, noted, given, check=True)
    assert not forks.exists(), forks.read_text()


@pytest.mark.slow
def test_a_fork_after_a_gpu_was_opened_is_noted(environment, tmp_path):
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
def test_launches_that_no_gpu_takes_fail(threads, status, environment):
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
    done = support.execute(command, RUN_S, environment, check=True)
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
    assert done.returncode == 0 and len(done.stdout.split()) == 14, done.stderr


@pytest.mark.slow
def test_numpy_without_a_name_that_numba_cuda_wants(environment: dict[str, str]) -> None:
    """Catches kernels that numba-cuda does not compile with NumPy 2.5 and later."""
    program = (
        "import sys, numpy, numba.np.arrayobj; vars(numpy).pop('row_stack', None);"
        "from miniapps.workbench.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    support.execute(
        [support.BIN / "python", "-c", program, *TINY.split()], RUN_S, environment, check=True
    )


@pytest.mark.slow
def test_calls_are_timed_and_counted(environment: dict[str, str]) -> None:
    """Catches calls that are not timed, or counted for the process instead of per block."""
    script = support.ROOT / "benchmarks/gpu_calls.py"
    done = support.execute(
        [support.BIN / "python", script, "--smoke"], RUN_S, environment, check=True
    )
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
        "launches": 26, "marks": 8, "waits": 0, "copies": 5, "synchronizations": 0, "arrays": 4,
    },
    "pic": {"launches": 1, "marks": 4, "copies": 1, "synchronizations": 0, "arrays": 0},
    "leanmd": {"launches": 9, "marks": 10, "copies": 1, "synchronizations": 0, "arrays": 0},
    "leanmd, new lists": {
        "launches": 53, "marks": 29, "copies": 10, "synchronizations": 0, "queries": 9,
        "arrays": 37,
    },
    "leanmd by pairs, 27 cells": {
        "launches": 110, "marks": 189, "waits": 81, "copies": 56, "synchronizations": 1,
        "queries": 54, "arrays": 16,
    },
    # All but one of the waits are for the times of blocks whose work is known to be done.
    "leanmd by pairs, new lists": {
        "launches": 7940, "marks": 2300, "waits": 1917, "copies": 893, "synchronizations": 342,
        "queries": 864, "arrays": 6970,
    },
    "cg": {"launches": 7, "marks": 6, "waits": 0, "copies": 2, "synchronizations": 0, "arrays": 2},
    "cg, sgs, 8 blocks": {
        "launches": 55, "marks": 100, "waits": 0, "copies": 3, "synchronizations": 0,
        "queries": 3, "arrays": 3, "prepared": 0,
    },
    "transpose": NOTHING | {"launches": 1, "marks": 2},
    "transpose, 8 blocks": NOTHING | {"launches": 3, "marks": 6, "synchronizations": 1},
    "amr": {
        "launches": 5.5, "marks": 13.5, "waits": 0, "copies": 3.5, "synchronizations": 0,
        "arrays": 6,
    },
    "amr, 8 blocks": {
        "launches": 43, "marks": 109, "waits": 0, "copies": 34.5, "synchronizations": 0,
        "arrays": 46.5,
    },
}  # fmt: skip


def counted(*words: Any) -> dict[str, dict[str, float]]:
    """What `benchmarks/gpu/host.py` counts."""
    skips.without("stub")
    done = support.benchmark("gpu.host", "--counts", *words, timeout=2 * RUN_S, check=True)
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.timeout(2 * RUN_S + 60)
def test_a_step_makes_no_more_calls_than_allowed() -> None:
    """Catches launches, events, copies and arrays that a change adds to every step.

    And launches that are packed in every step, though they come again.
    """
    assert set(host.CASES) == set(MOST)
    apps = of_day.with_kernels()
    cases = [name for name, case in host.CASES.items() if case.words.split()[0] in apps]
    for case, found in counted(*cases).items():
        most = MOST[case]
        over = {name: found[name] for name in most if found[name] > most[name]}
        assert not over, f"{case}: {over}, allowed are {most}"
        assert found["launches"] >= 1, f"{case} launches nothing"


# Microseconds of calls, as `benchmarks/gpu_calls.py` would measure them on a GPU.
SLOW_US = dict.fromkeys(costs.STANDS_FOR.values(), 3.0) | {
    costs.NOTHING: 1.0, costs.SWITCH: 2.0, costs.LAUNCH: 6.0, costs.ARRAY: 9.0,
    "launch, until done": 19.0, "fill, 64 KB": 16.0, "event, record": 2.5,
    "event, create": 1.0,  # few rounds make events or use old ones: that varies
    **{
        f"{copy}, {size}, {what}": us
        for copy in costs.COPIES.values()
        for size, all_us in (("1 KB", 13.0), ("16 MB", 13.0 + 16777.216 - 1.024))
        for what, us in (("the call", 5.0), ("until done", all_us))
    },
}  # fmt: skip


def test_costs_of_a_gpu_become_delays() -> None:
    """Catches times that hold what Python costs anyway, work that costs none, and wrong units."""
    found = costs.delays(SLOW_US)
    assert found["cuLaunchKernel"] == (5000, 10000, 0)  # 19 - 6 for the launch - 3 for the wait
    assert found["cuEventRecord"] == (1500, 0, 0)
    assert found["cuEventRecord-untimed"] == (2000, 0, 0)
    assert found["array"] == found["cuMemsetD8Async"] == (7000, 0, 0)
    for copy in costs.COPIES:
        assert found[copy][1:] == pytest.approx((5000, 1))  # 13 - 5 for the call - 3 for the wait
    assert found["cuMemcpyDtoHAsync"].host == 4000
    assert costs.delays(SLOW_US | {"event, query": 0.5})["cuEventQuery"] == (0, 0, 0)


def test_forecasts_are_per_block_and_round() -> None:
    """Catches times of all blocks, and nanoseconds, in the table."""
    name = "jacobi2d, 8 blocks"
    result = {"us": 88.0, "spent_ns": 24000.0, "waited_ns": 8000.0, "blocks": 8.0}
    row = rows_of(host.forecast({name: result}).strip())[name]
    assert [*row.values()] == [name, "11.0", "3.0", "1.0"]


def test_the_driver_spends_delays(environment: dict[str, str], tmp_path: Path) -> None:
    """Catches calls whose delays are not spent, and waits that do not wait for work.

    What is counted is what the driver reports. Of measured times only a least one is asked for.
    """
    file = tmp_path / "delays"
    delays = {name: costs.Delay(1e3 * n) for n, name in enumerate(costs.STANDS_FOR, 1)}
    delays |= {name: costs.Delay(1e4 * n, 1e3 * n, n) for n, name in enumerate(costs.COPIES, 1)}
    delays["cuLaunchKernel"] = costs.Delay(5e4, 5e6)
    delays["cuMemsetD8Async"] = costs.Delay(6e4, 1e15)  # it never ends
    file.write_text(costs.as_text(delays))
    program = Path(__file__).with_name("gpu_delays_program.py")
    slow = environment | {gpu_stub.COSTS: str(file)}
    support.execute([support.BIN / "python", program], RUN_S, slow, check=True)


@pytest.mark.slow
@pytest.mark.timeout(4 * RUN_S + 60)
def test_forecasts_follow_costs(tmp_path: Path) -> None:
    """Catches a forecast that leaves out a call, or counts it twice."""

    def forecast(us: dict[str, float]) -> dict[str, dict[str, float]]:
        file = tmp_path / "gpu_calls.json"
        file.write_text(json.dumps({"results": {"calls": {n: {"us": t} for n, t in us.items()}}}))
        return counted("--costs", file, "jacobi2d, periodic", "pic")

    slower = SLOW_US | {costs.LAUNCH: 11.0, "launch, until done": 24.0}
    before, after = forecast(SLOW_US), forecast(slower)  # a launch costs 5 or 10 us
    ns = {"launches": 5000, "marks": 1500, "copies": 4000}
    ns |= {"synchronizations": 2000, "queries": 2000}
    for case, once in before.items():
        assert once["spent_ns"] == sum(once[name] * each for name, each in ns.items())
        assert after[case]["spent_ns"] - once["spent_ns"] == once["launches"] * 5000
        work = once["launches"] * 10000 + once["copies"] * 5000
        assert work <= once["worked_ns"] == after[case]["worked_ns"] < work + 5000
        assert once["us"] * 1e3 >= once["spent_ns"]
