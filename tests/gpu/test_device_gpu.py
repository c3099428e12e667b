"""Device memory, messages in it, streams and arithmetic: what is in `devices.cuda`."""

from __future__ import annotations

import gc
import importlib.util
import math
import pickle
import pickletools
import sys
from collections.abc import Iterator
from time import perf_counter, sleep
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numba import cuda

from miniapps import kernels
from miniapps.contract import MessageError, Pause, Post, PostSum, checked_messages
from miniapps.devices import backend as device
from miniapps.devices.cuda import compiler, driver_info, memory, primitives, streams, toolkit
from miniapps.devices.cuda.backend import CudaBackend, Gpu
from miniapps.devices.cuda.buffers import MessageBuffer, MessageView, addresses
from miniapps.devices.cuda.toolkit import Nvidia, Simulator
from miniapps.devices.messages import HEADER_BYTES, Envelope, packed_empty
from miniapps.drivers.timing import PELog, Stepper

SHAPES = [(7,), (3, 5), (2, 3, 4), (0,), (4, 0)]
TYPES = [np.float64, np.float32, np.int64, np.uint8]
STEP = 2.0**-30
EDGES = {"low": (3, 5), "none": (0, 5), "high": (9,)}


TOOLKIT: Any = device.OPENED.get("gpu").toolkit  # type: ignore[attr-defined]


@compiler.kernel("void(float64[::1], float64[::1], float64[::1], float64[:,::1], int64[::1])")
def arithmetic(a, b, c, sums, words):
    """Products and sums, each rounded on its own and both at once."""
    i = cuda.grid(1)
    if i < words.size:
        sums[0, i] = compiler.mul(a[i], b[i]) + c[i]
        sums[1, i] = compiler.fma(a[i], b[i], c[i])
        words[i] = compiler.bits(a[i])


@compiler.kernel("void(float64[::1], float64)")
def add(array, value):
    """Add to all elements."""
    i = cuda.grid(1)
    if i < array.size:
        array[i] += value


def launch_add(gpu: Gpu, array, value: float) -> None:
    """Run `add` on the stream of a device."""
    add[compiler.blocks(array.size, 32), 32, gpu.stream](array, value)


def numbers(shape: tuple[int, ...], dtype=np.float64, first: int = 1) -> np.ndarray:
    """An array in which every element differs from its neighbours."""
    return (first + np.arange(math.prod(shape)) % 251).astype(dtype).reshape(shape)


def filled(gpu: Gpu, first: int = 1) -> tuple[MessageBuffer, dict[str, np.ndarray]]:
    """A message buffer along EDGES, as kernels would have filled it, and what is in it."""
    buffer = gpu.messages(EDGES, np.float64)
    whole = np.zeros(buffer.flat.size)
    wanted = {}
    for number, (edge, shape) in enumerate(EDGES.items()):
        wanted[edge] = numbers(shape, first=first + 100 * number)
        start = buffer.starts[edge]
        whole[start : start + wanted[edge].size] = wanted[edge].ravel()
    buffer.flat.copy_to_device(whole, stream=gpu.stream)
    buffer.seal()
    return buffer, wanted


def same(got: np.ndarray, wanted: np.ndarray) -> bool:
    """Whether shapes, types and bits agree."""
    bits = np.ascontiguousarray(got).tobytes() == wanted.tobytes()
    return bits and (got.shape, got.dtype) == (wanted.shape, wanted.dtype)


# Memory ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_arrays_survive_the_way_there_and_back(shape, dtype):
    """Catches a copy that loses shape, type or order, or fails where there is nothing to copy."""
    gpu = device.get("gpu")
    array = numbers(shape, dtype)
    there = gpu.to_device(array)
    assert same(gpu.to_host(there), array)
    assert there.stream is gpu.stream


def test_arrays_that_are_not_contiguous_are_copied_in_order():
    """Catches a copy that ignores the strides of a view."""
    gpu = device.get("gpu")
    view = numbers((6, 8)).T[::2]
    assert same(gpu.to_host(gpu.to_device(view)), np.ascontiguousarray(view))


def test_zeros_and_empty_have_the_asked_for_shape():
    """Catches zeros that are what lay there before, and a number taken for a shape of none."""
    stream = TOOLKIT.stream()
    memory.to_device(numbers((4, 6)), stream)
    assert same(memory.to_host(memory.zeros((4, 6), np.float64, stream)), np.zeros((4, 6)))
    assert memory.empty(5, np.int64, stream).shape == (5,)
    assert memory.empty((2, 3), np.int64, stream).dtype == np.int64


def test_flat_is_the_same_memory():
    """Catches a flat copy, into which a kernel would write in vain."""
    gpu = device.get("gpu")
    array = gpu.to_device(numbers((3, 5)))
    launch_add(gpu, memory.flat(array), 0.5)
    assert same(gpu.to_host(array), numbers((3, 5)) + 0.5)


def test_blocks_cover_all_threads():
    """Catches a launch of no blocks, which is illegal, and one that leaves the last threads out."""
    assert [compiler.blocks(n, 32) for n in (0, 1, 32, 33)] == [1, 1, 1, 2]


def test_launches_have_enough_threads_and_few_more():
    """Catches particles without a thread, and thread blocks that have nothing to do."""
    for count in [*range(70), *range(10**6, 10**6 + 5000)]:
        wide, threads, _ = primitives.launch(count, None)
        assert count <= wide * threads < count + threads or count == 0 and wide == 1
        assert primitives.launch(count, None, 64)[1] <= 64


# Arithmetic --------------------------------------------------------------------------------------


def test_products_are_rounded_alone_or_not_as_the_kernel_says():
    """Catches contraction: (1 + e)(1 - e) - 1 is 0 in two roundings, and -e * e in one."""
    gpu = device.get("gpu")
    a, b = np.array([1.0 + STEP, 1.0, -0.0]), np.array([1.0 - STEP, 3.0, 2.0])
    c = np.array([-1.0, 0.25, 0.0])
    there = [gpu.to_device(array) for array in (a, b, c)]
    sums, words = gpu.empty((2, 3), np.float64), gpu.empty((3,), np.int64)
    arithmetic[1, 32, gpu.stream](*there, sums, words)
    apart, joined = gpu.to_host(sums)
    assert apart.tolist() == [0.0, 3.25, 0.0]
    assert joined.tolist() == [-(STEP**2), 3.25, 0.0]
    assert same(gpu.to_host(words), a.view(np.int64))


# Messages ----------------------------------------------------------------------------------------


def test_message_buffers_have_room_for_headers():
    """Catches messages that overlap, are not aligned, or have no room in front for a header."""
    buffer = device.get("gpu").messages(EDGES, np.float64)
    header = HEADER_BYTES // 8
    assert list(buffer) == list(EDGES) and len(buffer) == len(EDGES)
    end = 0
    for edge, shape in EDGES.items():
        assert buffer.starts[edge] >= end + header
        assert buffer.starts[edge] % header == 0
        end = buffer.starts[edge] + math.prod(shape)
    assert buffer.flat.size >= end
    assert buffer.nbytes == buffer.flat.size * 8


def test_staged_messages_are_as_packed_ones():
    """Catches messages for which a driver must make another copy to put its header in front."""
    gpu = device.get("gpu")
    buffer, wanted = filled(gpu)
    gpu.stage(buffer.values())
    for edge, shape in EDGES.items():
        message, usual = buffer.on_host(edge), packed_empty(shape, np.float64)
        assert same(message, wanted[edge])
        assert type(message.base) is type(usual.base) is Envelope
        assert message.base.nbytes == usual.base.nbytes == HEADER_BYTES + message.nbytes
        if message.size:
            room = message.__array_interface__["data"][0]
            assert room - message.base.__array_interface__["data"][0] == HEADER_BYTES


def test_a_header_does_not_touch_the_neighbour_message():
    """Catches room for headers that is another message's memory."""
    gpu = device.get("gpu")
    buffer, wanted = filled(gpu)
    gpu.stage(buffer.values())
    for edge in EDGES:
        buffer.on_host(edge).base[:HEADER_BYTES] = 255
    assert all(same(buffer.on_host(edge), wanted[edge]) for edge in EDGES)


def test_only_what_leaves_the_device_is_staged():
    """Catches copies of messages that stay, which a record would count as travel."""
    gpu = device.get("gpu")
    buffer, wanted = filled(gpu)
    other, other_wanted = filled(gpu, first=50)
    gpu.stage([])
    assert gpu.staged_bytes == 0
    gpu.stage([buffer["high"]])
    assert gpu.staged_bytes == wanted["high"].nbytes
    gpu.stage([buffer["low"], *other.values()])
    twice = 2 * (wanted["high"].nbytes + wanted["low"].nbytes)
    between = len(EDGES) * HEADER_BYTES
    assert twice <= gpu.staged_bytes <= twice + between
    for edge in ("low", "high"):
        assert same(buffer[edge].on_host(), wanted[edge])
        assert same(other[edge].on_host(), other_wanted[edge])


def test_sums_are_of_host_memory() -> None:
    """Catches messages that no driver can add up."""
    messages = device.get("gpu").messages({(1,): (3,)}, np.int64)
    for given in (messages, dict(messages)):
        with pytest.raises(MessageError, match="integers only, in host memory"):
            checked_messages(PostSum("sums", given))


def test_copies_to_the_host_hold_up_no_kernels(monkeypatch):
    """Catches copies that begin before the messages are there, or in the stream of the kernels."""
    gpu, seen = device.get("gpu"), []
    buffer, _ = filled(gpu)
    buffer.ready = None  # as if nobody had said yet that it is filled
    monkeypatch.setattr(streams, "wait_for", lambda mark, stream: seen.append((mark, stream)))
    for name in ("mark", "latest"):
        monkeypatch.setattr(streams, name, lambda stream: seen.append(stream) or "mark")
    gpu.stage(buffer.values())
    assert seen == [gpu.stream, ("mark", gpu.copies), gpu.copies]


def test_empty_messages_travel():
    """Catches a message buffer without any bytes in it that cannot be staged, or sent, or read."""
    gpu = device.get("gpu")
    buffer = gpu.messages({"a": (0,), "b": (3, 0)}, np.float64)
    buffer.seal()
    gpu.stage(buffer.values())
    assert buffer["b"].on_host().shape == (3, 0)
    assert gpu.staged_bytes <= buffer.nbytes
    assert len(gpu.messages({}, np.float64)) == 0
    came = gpu.received({"a": np.empty((0,)), "b": np.empty((3, 0))})
    assert gpu.to_host(came["b"].array).shape == (3, 0)


# Receiving ---------------------------------------------------------------------------------------


def test_host_messages_arrive_on_the_device():
    """Catches messages from the host that land in each other's place."""
    gpu = device.get("gpu")
    came = {edge: numbers(shape, first=7 * i) for i, (edge, shape) in enumerate(EDGES.items())}
    views = gpu.received(came)
    assert set(views) == set(EDGES)
    for edge, array in came.items():
        assert views[edge].shape == array.shape
        assert same(gpu.to_host(views[edge].array), array)
    assert gpu.staged_bytes >= sum(array.nbytes for array in came.values())


class Mark:
    """A mark that is reached when the test says so, or the host waits for it."""

    is_reached, waits = False, 0

    def query(self) -> bool:
        return self.is_reached

    def synchronize(self) -> None:
        self.is_reached, self.waits = True, self.waits + 1


class HastyRing(memory.PinnedRing):
    """A wrong ring: it takes the piece that was used longest ago, whether it is free or not."""

    def take(self, nbytes: int) -> np.ndarray:
        """Return so many bytes that may still be read."""
        if self.pieces:
            self.pieces[0] = self.pieces[0][0], Mark()
            self.pieces[0][1].synchronize()
        return super().take(nbytes)


def written_too_early(ring: memory.PinnedRing) -> tuple[int, int, int]:
    """How often a piece is written while it is read; the host's waits, and the pieces.

    The device reads two pieces late, then five at once, and all before the last two.
    """
    marks: list[tuple[int, Mark]] = []
    early = 0
    for n in range(9):
        if n in (2, 7):
            for _, mark in marks:
                mark.is_reached = True
        place = ring.take(64 if n < 4 else 100).ctypes.data
        early += any(there == place and not mark.is_reached for there, mark in marks)
        marks.append((place, Mark()))
        ring.give(marks[-1][1])
    return early, sum(mark.waits for _, mark in marks), len(ring.pieces)


def test_pinned_memory_is_used_again_once_it_is_read() -> None:
    """Catches a piece that is written too early, a wait where one is free, and ever more pieces."""
    early, waits, pieces = written_too_early(memory.PinnedRing(TOOLKIT))
    assert (early, waits, pieces) == (0, 2, memory.PIECES)
    assert written_too_early(memory.PinnedRing(TOOLKIT, math.inf)) == (0, 0, 5)
    assert written_too_early(HastyRing(TOOLKIT))[0] > 0


def test_each_call_brings_its_own_messages():
    """Catches a slot that is filled anew before it was read, and one that keeps an old shape."""
    gpu = device.get("gpu")
    for turn in range(9):
        shape = (3 + turn // 3, 5)  # three calls of each shape
        came = {"a": numbers(shape, first=turn), "b": numbers((2, turn), first=20 + turn)}
        views = gpu.received(came)
        total = gpu.to_device(np.zeros(math.prod(shape)))
        launch_add(gpu, total, float(turn))
        for edge, array in came.items():
            assert same(gpu.to_host(views[edge].array), array), (turn, edge)


def test_what_arrived_last_outlives_the_senders_array():
    """Catches a copy that still reads the host's array after the call, when it may change."""
    gpu = device.get("gpu")
    array = numbers((64, 8))
    view = gpu.received({"a": array})["a"]
    array[...] = -1.0
    assert same(gpu.to_host(view.array), numbers((64, 8)))


def test_message_views_of_another_stream_are_read_in_place():
    """Catches a message between blocks of a GPU that goes by the host, or is read too early."""
    sender, receiver = device.get("gpu"), device.get("gpu")
    for turn in range(4):
        buffer, wanted = filled(sender, first=turn)
        views = receiver.received(dict(buffer))
        for edge in EDGES:
            assert views[edge].buffer is buffer
            copy = memory.to_host(views[edge].array)
            assert same(copy, wanted[edge]), (turn, edge)
    assert sender.staged_bytes == receiver.staged_bytes == 0


def test_kinds_of_messages_mix():
    """Catches a receiver that takes all messages to come from where the first came from."""
    sender, gpu = device.get("gpu"), device.get("gpu")
    theirs, wanted = filled(sender)
    mine, mine_wanted = filled(gpu, first=40)
    host = numbers((4, 4), first=80)
    views = gpu.received({"host": host, "theirs": theirs["low"], "mine": mine["high"]})
    assert same(gpu.to_host(views["host"].array), host)
    assert same(gpu.to_host(views["theirs"].array), wanted["low"])
    assert same(gpu.to_host(views["mine"].array), mine_wanted["high"])
    assert gpu.staged_bytes < theirs.nbytes + HEADER_BYTES + host.nbytes


def test_messages_of_several_buffers_have_addresses():
    """Catches a kernel that looks for a message in the memory of another buffer."""
    gpu, other = device.get("gpu"), device.get("gpu")
    (mine, _), (theirs, _) = filled(gpu), filled(other, first=40)
    views = gpu.received({"a": mine["low"], "b": theirs["high"], "c": mine["high"]})
    found = addresses(views)
    assert found == {edge: memory.address(view.array) for edge, view in views.items()}
    assert found["c"] - found["a"] == 8 * (mine.starts["high"] - mine.starts["low"])
    assert list(gpu.reading.values()) == [theirs]  # its kernels wait for that
    assert mine.memory == (mine.flat, mine.starts) and mine["low"].memory[1] == mine.starts["low"]


def test_a_post_of_a_buffer_has_all_its_messages():
    """Catches messages that are distinguished by the ids of views that no longer exist."""
    buffer, _ = filled(device.get("gpu"))
    assert set(checked_messages(Post("phase", buffer))) == set(EDGES)


def test_nothing_received_is_nothing():
    """Catches a block without neighbours that fails where there is nothing to copy."""
    assert dict(device.get("gpu").received({})) == {}


# Pickling ----------------------------------------------------------------------------------------


def test_a_device_is_found_again_after_a_pickle():
    """Catches a block that cannot migrate, as a stream cannot be pickled."""
    gpu = device.get("gpu")
    again = pickle.loads(pickle.dumps(gpu))
    assert isinstance(again, Gpu) and again is not gpu
    assert again.stream is not gpu.stream
    assert isinstance(device.get("gpu"), Gpu)


def test_a_message_view_pickles_as_an_array_of_the_host():
    """Catches a message to another process that points into this one's device memory."""
    buffer, wanted = filled(device.get("gpu"))
    for edge in EDGES:
        assert isinstance(buffer[edge], MessageView)
        again = pickle.loads(pickle.dumps(buffer[edge]))
        assert type(again) is np.ndarray and same(again, wanted[edge])


# Migrations --------------------------------------------------------------------------------------


class Traveller:
    """A block with arrays, of which only some entries along the last axis are used."""

    def __init__(self, gpu: Gpu, arrays: list[tuple[np.ndarray, slice]]) -> None:
        self.device = gpu
        self.arrays = [(gpu.to_device(array), used) for array, used in arrays]

    def __getstate__(self) -> dict[str, Any]:
        leaving = [self.device.leaving(array, used) for array, used in self.arrays]
        return {"device": self.device, "arrays": leaving}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.device = state["device"]
        self.arrays = [self.device.arriving(array) for array in state["arrays"]]


def test_a_block_migrates_in_one_buffer():
    """Catches arrays that are mixed up, cut wrong or pickled one by one, and memory reused early.

    Also unused entries that come along.
    """
    backend: Any = device.OPENED.get("gpu")
    whole = [(numbers(shape, dtype), slice(None)) for shape in SHAPES for dtype in TYPES]
    parts = [(numbers((5, 700)), slice(1, 300)), (numbers((90,), np.uint8), slice(80))]
    blocks = [Traveller(device.get("gpu"), [*whole, *parts]), Traveller(device.get("gpu"), parts)]
    arrived = []
    for block in blocks:
        pickled, buffer = backend.pack(block)
        found = [arg for _, arg, _ in pickletools.genops(pickled) if isinstance(arg, bytes)]
        assert found == [] and len(pickled) < 2000
        lines = [-(-array[..., used].nbytes // 512) for array, used in [*whole, *parts]]
        assert buffer.dtype == np.uint8 and buffer.nbytes <= 512 * sum(lines)
        arrived.append(backend.unpack(pickled, np.array_split(buffer.copy(), 3)))
    for there, wanted in zip(arrived, ([*whole, *parts], parts), strict=True):
        for array, (before, used) in zip(there.arrays, wanted, strict=True):
            assert array.stream is there.device.stream
            assert same(there.device.to_host(array), before[..., used])
    # Otherwise a block takes its arrays along as those of the host.
    again = pickle.loads(pickle.dumps(blocks[0]))
    assert same(again.device.to_host(again.arrays[-2]), parts[0][0][:, 1:300])


# Time --------------------------------------------------------------------------------------------


def test_marks_measure_what_lies_between_them():
    """Catches times in milliseconds, or of the wrong sign, or of a clock of its own."""
    gpu = device.get("gpu")
    array = gpu.to_device(numbers((64,)))
    before, first = perf_counter(), gpu.mark()
    gpu.synchronize()
    sleep(0.05)
    launch_add(gpu, array, 1.0)
    last = gpu.mark()
    gpu.synchronize()
    after = perf_counter()
    assert 0.045 < gpu.seconds(first, last) <= after - before + 1e-3
    # Several processes may use the GPU in turns, so its first event may be late.
    assert before - 0.02 <= gpu.time_of(first) < gpu.time_of(last) <= after + 0.02
    assert gpu.time_of(last) - gpu.time_of(first) == pytest.approx(
        gpu.seconds(first, last), abs=1e-3
    )


@pytest.mark.slow
def test_the_clock_of_a_used_stream():
    """Catches a clock that starts from a mark of the block that had the stream before."""
    gc.collect()
    TOOLKIT.idle.clear()
    gpu = device.get("gpu")
    for stream in (gpu.stream, gpu.copies):
        streams.mark(stream)
    del gpu, stream
    gc.collect()
    assert len(TOOLKIT.idle) == 2
    sleep(0.1)
    again = device.get("gpu")
    again.to_device(numbers((64,)))
    assert again.time_of(again.mark()) == pytest.approx(perf_counter(), abs=0.05)


def test_the_clock_is_set_anew():
    """Catches event times that lose digits as a run goes on: they are float32.

    And a block to which the whole time counts of a launch for several.
    """
    gpu = device.get("gpu")
    array, epoch = gpu.to_device(numbers((64,))), gpu.stream.epoch
    sleep(streams.RENEWED_S + 0.05)
    begin = gpu.begin()
    launch_add(gpu, array, 1.0)
    first, last, own_s = gpu.read([(begin, gpu.mark_after(begin), 0.25)])
    assert first <= last == pytest.approx(perf_counter(), abs=0.02)
    assert own_s == (last - first) / 4
    assert gpu.stream.epoch is not epoch
    assert gpu.time_of(gpu.mark()) == pytest.approx(perf_counter(), abs=0.02)


def test_only_work_is_counted() -> None:
    """Catches the time in which a block launches nothing, and a round without times."""

    class Block:
        index, device = (0,), device.get("gpu")

        def step(self, count: int) -> Iterator[Pause]:
            yield Pause()
            for _ in range(count):
                launch_add(self.device, array, 1.0)
            yield Pause()

    block, log = Block(), PELog(0)
    array, stepper = block.device.to_device(numbers((64,))), Stepper(block)
    for number, launches in enumerate((1, 0)):
        stepper.start(launches)
        for _ in range(2):
            sleep(0.05)
            stepper.resume(None)
        log.add(0, number, stepper)
    elapsed = perf_counter() - log.origin
    working, idle = sorted(log.tables()["blocks"], key=lambda row: row["round"])
    assert 0 <= working["begin_s"] <= working["end_s"] <= idle["begin_s"] + 0.02
    assert idle["begin_s"] <= idle["end_s"] <= elapsed + 0.02
    assert working["compute_s"] < 0.045 and idle["compute_s"] < 1e-3


@pytest.mark.parametrize(
    ("per_host", "right"), [(None, [0, 1, 2, 0, 1, 2]), (2, [0, 1, 0, 1, 0, 1]), (1, [0] * 6)]
)
def test_processes_take_devices_in_turn(monkeypatch, per_host, right):
    """Catches ranks of a host that all take its first GPU, or one that is not there."""
    taken: list[int] = []
    toolkit = Simulator()
    monkeypatch.setattr(toolkit, "count", lambda: 3)
    monkeypatch.setattr(toolkit, "select", taken.append)
    for rank in range(6):
        CudaBackend(toolkit).select(rank, per_host)
    assert taken == right


@pytest.fixture
def nvidia(monkeypatch: pytest.MonkeyPatch) -> CudaBackend:
    """A backend for a GPU that is there, as far as the driver says."""
    monkeypatch.setattr(driver_info, "cuda_version", lambda driver: (13, 0))
    monkeypatch.setattr(driver_info, "seen", lambda: [driver_info.Gpu("GPU", 1 << 30)])
    monkeypatch.setattr(toolkit, "compiler_is_there", lambda: True)
    return CudaBackend(Nvidia())


def test_a_gpu_without_cupy_is_said_in_a_line(monkeypatch, nvidia):
    """Catches a traceback, long after the launch, where only kernels can run."""
    find = importlib.util.find_spec
    for there in (True, False):
        cupy = {"cupy": SimpleNamespace() if there else None}
        monkeypatch.setattr(
            importlib.util,
            "find_spec",
            lambda name, cupy=cupy: cupy[name] if name in cupy else find(name),
        )
        if there:
            nvidia.require()
            continue
        with pytest.raises(device.DeviceUnavailable, match="CuPy is not installed; pip install"):
            nvidia.require()


def test_a_driver_that_is_too_old_is_said_in_a_line(monkeypatch, nvidia):
    """Catches a traceback of CuPy's, or none, where the driver takes no CUDA 13."""
    monkeypatch.setattr(driver_info, "cuda_version", lambda driver: (12, 4))
    with pytest.raises(device.DeviceUnavailable, match="up to 12.4; CUDA 13 is needed"):
        nvidia.require()


def test_a_missing_compiler_is_said_in_a_line(monkeypatch, nvidia):
    """Catches a GPU that is there and said not to be, where only kernels cannot be compiled."""
    monkeypatch.setattr(toolkit, "compiler_is_there", lambda: False)
    with pytest.raises(device.DeviceUnavailable, match="finds no compiler; pip install"):
        nvidia.require()
    monkeypatch.setattr(driver_info, "seen", list)
    with pytest.raises(device.DeviceUnavailable, match="no NVIDIA GPU"):
        CudaBackend(Nvidia()).require()


def test_more_gpus_than_there_are_is_said_in_a_line():
    """Catches a run on fewer GPUs than it was asked for."""
    backend = CudaBackend(Simulator())
    backend.require(1 << 10)
    with pytest.raises(device.DeviceUnavailable, match="1025 GPUs are asked for, 1024 found"):
        backend.require(1 + (1 << 10))


class Counting(Simulator):
    """A toolkit that notes what it compiles."""

    def __init__(self) -> None:
        super().__init__()
        self.compiled: list[str] = []

    def compile(self, kernel: Any) -> Any:
        """Note the kernel's name."""
        self.compiled.append(f"{kernel.function.__module__}.{kernel.function.__name__}")
        return super().compile(kernel)


@pytest.mark.slow
def test_another_toolkit_takes_the_place_of_numbas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches kernels, arrays or streams that do not come from the toolkit that is chosen."""
    monkeypatch.setenv(toolkit.CHOICE, f"{__name__}:Counting")
    monkeypatch.setitem(sys.modules, __name__, sys.modules[Counting.__module__])
    backend = CudaBackend()
    assert type(backend.toolkit).__name__ == "Counting"
    monkeypatch.setitem(device.OPENED.backends, "gpu", backend)
    app = kernels.load("stencil3d", "gpu")
    seen = backend.toolkit.compiled
    assert "miniapps.kernels.stencil3d.gpu._sweep" in seen
    assert not any(name.startswith("miniapps.kernels.jacobi2d") for name in seen)
    number = len(seen)
    gpu = device.get("gpu")
    old, new = (gpu.to_device(np.ones((4, 4, 4))) for _ in range(2))
    app.sweep(old, new, 1, 3, 1, 3, 1, 3)
    assert same(gpu.to_host(new), np.ones((4, 4, 4))) and len(seen) == number
    assert gpu.stream.toolkit is backend.toolkit


@pytest.mark.slow
def test_blocks_that_come_use_streams_of_those_that_went():
    """Catches memory that is lost with every block that migrates, as CuPy keeps it by stream."""
    gc.collect()
    TOOLKIT.select(0)
    TOOLKIT.idle.clear()
    gpu = device.get("gpu")
    streams = {id(gpu.stream), id(gpu.copies)}
    moved = pickle.loads(pickle.dumps(gpu))
    assert not streams & {id(moved.stream), id(moved.copies)}
    del gpu
    gc.collect()
    again = device.get("gpu")
    assert {id(again.stream), id(again.copies)} == streams
    del again
    gc.collect()
    TOOLKIT.select(0)
    assert len(TOOLKIT.idle) == 2
    TOOLKIT.number = None  # as if another GPU was in use: streams are of one
    TOOLKIT.select(0)
    del moved
    gc.collect()
    assert TOOLKIT.idle == []
