"""That the emulation of a launch sees what is wrong; only where it takes the place of a GPU."""

from __future__ import annotations

from threading import active_count
from time import sleep
from types import SimpleNamespace
from typing import Any

import emulation
import numpy as np
import pytest
from numba.cuda.simulator import kernelapi

from miniapps.devices.cuda.compiler import cuda, inlined, kernel, mul
from miniapps.devices.cuda.toolkit import Simulator

N = 8
ONE = "void(float64[::1], float64[::1])"
TURN = 5


def launched(declared: Any, *arrays: Any, blocks: Any = 1, threads: Any = N, times: int = 1) -> Any:
    """The emulated kernel, launched several times on arrays that count as a device's."""
    held = {id(array): array for array in arrays if isinstance(array, np.ndarray)}
    on_device = [Held(array) if id(array) in held else array for array in arrays]
    emulated = emulation.Emulated(
        declared.function, declared.signatures, lambda a: getattr(a, "memory", a)
    )
    for _ in range(times):
        emulated.launch(blocks, threads, tuple(on_device))
    return emulated


class Held:
    """A device array."""

    def __init__(self, memory: np.ndarray) -> None:
        self.memory = memory


@inlined
def _of_thread(here):  # type: ignore[no-untyped-def]
    return mul(2.0, np.float64(cuda.threadIdx.x)) + here


@kernel(ONE, ONE.replace("64", "32"))
def _plain(a, b):  # type: ignore[no-untyped-def]
    i = cuda.grid(1)
    if i < a.size:
        b[i] = _of_thread(a[i]) + TURN


@kernel(ONE)
def _beyond(a, b):  # type: ignore[no-untyped-def]
    b[cuda.grid(1) + 1] = a[0]


@kernel(ONE)
def _in_order(a, b):  # type: ignore[no-untyped-def]
    i = cuda.grid(1)
    b[i] = b[i - 1] + 1.0 if i > 0 else a[0]


@kernel(ONE)
def _turned(a, b):  # type: ignore[no-untyped-def]
    shared = cuda.shared.array(N, "float64")
    i = cuda.threadIdx.x
    shared[i] = a[i]
    cuda.syncthreads()
    b[i] = shared[N - 1 - i]


@kernel(ONE)
def _counted(a, b):  # type: ignore[no-untyped-def]
    b[cuda.threadIdx.x] = cuda.syncthreads_count(a[cuda.threadIdx.x] > 2)


@kernel(ONE)
def _no_barrier(a, b):  # type: ignore[no-untyped-def]
    shared = cuda.shared.array(N, "float64")
    i = cuda.threadIdx.x
    shared[i] = a[i]
    b[i] = shared[N - 1 - i]
    cuda.syncthreads()


@kernel(ONE)
def _some_wait(a, b):  # type: ignore[no-untyped-def]
    if cuda.threadIdx.x < 3:
        cuda.syncthreads()
    b[cuda.threadIdx.x] = a[0]


@kernel(ONE)
def _beyond_before_all_wait(a, b):  # type: ignore[no-untyped-def]
    b[cuda.grid(1) + 1] = a[0]
    cuda.syncthreads()


@kernel("void(int64[::1], int64[::1])")
def _handed_out(counter, places):  # type: ignore[no-untyped-def]
    places[cuda.atomic.add(counter, 0, 1)] = cuda.grid(1)


@kernel(ONE)
def _unknown(a, b):  # type: ignore[no-untyped-def]
    b[0] = cuda.laneid


def test_threads_know_where_they_are() -> None:
    """Catches blocks, threads or device functions that get another place, and wrong atomics."""
    a, b = np.arange(20.0), np.zeros(20)
    launched(_plain, a, b, blocks=3)
    assert b.tolist() == [x + 2.0 * (x % N) + TURN for x in range(20)]
    counter, places = np.zeros(1, np.int64), np.full(24, -1)
    launched(_handed_out, counter, places, blocks=3)
    assert places.tolist() == list(range(24)) and counter[0] == 24


def test_half_of_the_launches_are_reversed() -> None:
    """Catches a result that rests on the order of threads, also where every second one counts."""
    counter, places = np.zeros(1, np.int64), np.full(8, -1)
    launched(_handed_out, counter, places, threads=2, times=4)
    assert places.tolist() == [0, 1, 1, 0, 1, 0, 0, 1]
    a, forward, backward = np.ones(N), np.zeros(N), np.zeros(N)
    launched(_in_order, a, forward).launch(1, N, (Held(a), Held(backward)))
    assert forward.tolist() == list(range(1, N + 1)) and backward.tolist() == [1.0] * N


def test_arguments_are_those_that_are_declared() -> None:
    """Catches arrays of another type, shape or layout, and those of the host."""
    a, b = np.zeros(N), np.zeros(N)
    launched(_plain, a.astype(np.float32), b.astype(np.float32))
    for wrong in (a.astype(int), a.reshape(1, N), np.zeros(2 * N)[::2], a.astype(np.float32)):
        with pytest.raises(TypeError, match="_plain takes"):
            launched(_plain, wrong, b)
    with pytest.raises(TypeError, match="_plain takes"):
        launched(_plain, a)
    emulated = emulation.Emulated(_plain.function, _plain.signatures, lambda a: a)
    with pytest.raises(TypeError, match="an array of the host"):
        emulated.launch(1, N, (a, b))


@pytest.mark.parametrize(
    ("blocks", "threads"),
    [(0, 1), (1, 0), (1, 1025), ((1, 70000), 1), (1, (32, 64)), (1, (1, 1, 65))],
)
def test_grids_that_no_gpu_takes(blocks: Any, threads: Any) -> None:
    """Catches a launch that a GPU refuses."""
    with pytest.raises(ValueError, match="no GPU takes"):
        launched(_plain, np.zeros(N), np.zeros(N), blocks=blocks, threads=threads)


def test_out_of_bounds_is_an_error() -> None:
    """Catches what overwrites another array on a GPU."""
    with pytest.raises(IndexError):
        launched(_beyond, np.zeros(N), np.zeros(N))


def test_barriers() -> None:
    """Catches threads that run past a barrier, and a barrier that is missing or for some only."""
    a, b = np.arange(float(N)), np.zeros(N)
    launched(_turned, a, b)
    assert b.tolist() == a[::-1].tolist()
    launched(_no_barrier, a, b)
    assert b.tolist() != a[::-1].tolist()
    with pytest.raises(RuntimeError, match="different barriers"):
        launched(_some_wait, a, b)


def simulated(declared: Any) -> np.ndarray:
    """What a kernel makes of 0, 1, ..., N - 1 in numba's simulator."""
    toolkit = Simulator()
    stream = toolkit.stream()
    a, b = (toolkit.array("zeros", N, np.float64, stream) for _ in range(2))
    a.copy_to_device(np.arange(float(N)))
    toolkit.compile(declared)((1, N, stream))(a, b)
    return b.copy_to_host()


def test_threads_of_a_block_have_one_shared_array(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches threads that run at once: those that make the array at one time get one each."""

    def slowly(*what: Any) -> np.ndarray:
        sleep(0.02)
        return np.empty(*what)

    monkeypatch.setattr(kernelapi, "np", SimpleNamespace(**vars(np) | {"empty": slowly}))
    assert simulated(_turned).tolist() == [*range(N)][::-1]


def test_a_barrier_that_counts_is_one() -> None:
    """Catches kernels whose threads never wait, as their barrier has another name."""
    assert simulated(_counted).tolist() == [N - 3] * N


@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [
        (_beyond, IndexError, "out of bounds"),
        (_beyond_before_all_wait, IndexError, "out of bounds"),
        (_some_wait, RuntimeError, "_some_wait: 3 of 8 threads wait at a barrier"),
    ],
)
def test_a_wrong_thread_ends_the_simulators_block(wrong: Any, error: Any, said: str) -> None:
    """Catches an error of one thread that is lost, and threads that outlive it or wait for ever."""
    threads = active_count()
    with pytest.raises(error, match=said):
        simulated(wrong)
    assert active_count() == threads


def test_what_cannot_be_emulated_is_said() -> None:
    """Catches a kernel that is rewritten into another one."""
    with pytest.raises(emulation.Unsupported, match="cuda.laneid"):
        launched(_unknown, np.zeros(N), np.zeros(N))


def test_other_bits_than_the_simulators_fail() -> None:
    """Catches a comparison with the simulator that any kernel passes."""
    toolkit = emulation.Emulator()
    stream = toolkit.stream()
    a, b = (toolkit.array("zeros", N, np.float64, stream) for _ in range(2))
    right = toolkit.compile(_plain)
    right((1, N, stream))(a, b)
    assert hasattr(_plain, "was_compared")
    wrong: Any = emulation.Compared(_turned, right.__self__.simulated)  # type: ignore[attr-defined]
    with pytest.raises(AssertionError, match="_turned: the simulator gives other bits"):
        wrong.launcher((1, N, stream))(a, b)
