"""Small runs over the stub driver with the checker of races, with all waits or one deleted.

    python tests/race_program.py [WAIT ...]

Prints as JSON, by wait, where it stands, the races found without it, and which runs were not valid;
"" is with all waits. Waits of other days (of_day.py) have neither races nor runs.
A wait is deleted in a process of its own, in which runs are made until one has a race. All blocks
are in one process: messages go by reference, through host memory as other drivers stage them, or
through device memory as a GPU-aware MPI receives them. The GPU is late: an event is reached only
once the host has waited for it or a later one.
"""

from __future__ import annotations

import ctypes
import inspect
import json
import os
import sys
import textwrap
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import of_day
import pool
from races import RACES, Race

from miniapps.devices import backend as device
from miniapps.devices.cuda import driver, memory, moves, streams
from miniapps.devices.cuda.backend import Gpu, Slot
from miniapps.devices.cuda.buffers import MessageBuffer, MessageView
from miniapps.devices.cuda.primitives import copy, fill
from miniapps.devices.messages import DeviceMessage
from miniapps.drivers.engine import Engine, Transport
from miniapps.kernels.leanmd.gpu import pairs
from miniapps.workbench.cli import spec_of
from miniapps.workbench.run import batch


class OnTheWay(NamedTuple):
    """A message that the receiver puts into its own device memory."""

    values: np.ndarray


class Staged(Transport):
    """Copies messages to the host and gives the receiver what is there."""

    direct = False

    def post(self, runner: Any, request: Any) -> None:
        """Queue messages in device memory; deliver others."""
        neighbors = runner.block.neighbors
        there = {e: m for e, m in request.messages.items() if isinstance(m, DeviceMessage)}
        for message in there.values():
            message.seal()
        if there:
            messages = [((neighbors[e], request), m) for e, m in there.items()]
            runner.stage(request, messages, not self.direct)
        for edge, message in request.messages.items():
            if edge not in there:
                self.deliver(runner, neighbors[edge], request, message)

    def flush(self, runner: Any) -> None:
        """Deliver the queued messages."""
        for departure in runner.departures():
            for (peer, request), message in self.sent(departure):
                self.deliver(runner, peer, request, message)

    def sent(self, departure: Any) -> Iterator[tuple[Any, Any]]:
        """Copies of messages, as if they had travelled."""
        for target, message in departure.on_host():
            yield target, message.copy()


class Aware(Staged):
    """Lets the receiver make room in device memory, as it does for a GPU-aware MPI."""

    direct = True

    def sent(self, departure: Any) -> Iterator[tuple[Any, Any]]:
        """What MPI reads in device memory."""
        for target, message in departure.messages:
            yield target, OnTheWay(bytes_at(message.in_place().address, message).copy())

    def collect(self, runner: Any, request: Any) -> Any:
        """Put the messages that have come into memory of the receiver."""
        came = super().collect(runner, request)
        if not isinstance(came, dict):
            return came
        return {edge: self._placed(runner, edge, message) for edge, message in came.items()}

    def _placed(self, runner: Any, edge: Any, message: Any) -> Any:
        """A message in device memory."""
        if not isinstance(message, OnTheWay):
            return message
        view = runner.block.device.room(edge, message.values.shape, message.values.dtype)
        bytes_at(view.address, message.values)[...] = message.values
        return view


def bytes_at(address: int, like: Any) -> np.ndarray:
    """The array at an address, of the shape and type of another."""
    size = int(np.prod(like.shape)) * like.dtype.itemsize
    return np.ndarray(like.shape, like.dtype, (ctypes.c_char * size).from_address(address))


GRID = "--initial noise --warmup 0 --audit 0"
TRANSPORTS = {"by reference": Transport, "staged": Staged, "gpu-aware": Aware}
RUNS = {
    "jacobi2d": f"jacobi2d --size 9x7 {GRID} --boundary periodic --steps 7 --pe-grid 2x2 "
    "--time-tile 3 --tolerance 1e-30 --check-every 3",
    "stencil3d": f"stencil3d --size 4x5x6 {GRID} --boundary periodic --steps 6 --pe-grid 1x2x2 "
    "--time-tile 1 --imbalance paper --imbalance-mode work",  # so blocks share no stream
    "pic": "pic --size 24 --particles 60 -k 1 -m -2 --distribution geometric:0.9 --steps 6 "
    "--warmup 0 --audit 0 --pe-grid 2x2 --event inject:1:50:2,9,3,8:0,3 "
    "--event remove:3:0,23,0,11:0.5",
    "leanmd": "leanmd --lattice 4x2x2 --density 0.5 --cutoff 1.5 --skin 0.3 --temperature 9 "
    "--rebuild 2 --steps 5 --warmup 0 --thermo 2 --pe-grid 2x1x1 --audit 0",
    "pairs": "leanmd --decomposition pairs --cells 3x3x3 --per-cell 1 --cutoff 1.3 --skin 0.2 "
    "--dt 0.01 --temperature 6 --thermo 100 --rebuild 2 --steps 2 --warmup 0 --audit 0",
    "cg": "cg --size 4x5x3 --solution noise --preconditioner sgs --steps 3 --warmup 0 --audit 0 "
    "--pe-grid 1x2x2",
    # Two blocks: `_add` may write its source, so two readers of one buffer would count as a race.
    "transpose": "transpose --size 13 --steps 3 --warmup 0 --audit 0 --pe-grid 2x1",
    "amr": f"amr --size 9x8 --refinement 4x3 --level 1 --period 3 --duration 2 {GRID} --steps 7 "
    "--pe-grid 2x2",
}
ALONE = "a block that only receives"
MOVING = "blocks that migrate"
LENT = "blocks that migrate on the device"
LEFT_OUT = {  # charm stages messages of pairs, mpi has no pairs
    ("pairs", "staged"),
    ("pairs", "gpu-aware"),
    (ALONE, "by reference"),
    *((run, path) for run in (MOVING, LENT) for path in ("by reference", "gpu-aware")),
}


class Wait(NamedTuple):
    """A wait: the function that has it, its words, and what is in their place once it is deleted.

    ``run``, ``transport``: a run that needs it.
    """

    function: Any
    words: str
    run: str
    transport: str
    instead: str = "pass"


MAKE_ROOM = "slot.make_room(shapes, dtype, self.stream)"
ROOM = "slot.make_room({edge: shape}, np.dtype(dtype), self.stream)"
STREAM = "streams.wait_for(buffer.ready, self.stream)"
WAITS = {
    "message of another block": Wait(Gpu.begin_reading, STREAM, "stencil3d", "by reference"),
    "message that others read": Wait(
        Gpu._end_reading, "streams.wait_for(read, buffer.stream)", "leanmd", "by reference"
    ),
    "room for MPI": Wait(Gpu.room, f"streams.reached({ROOM})", ALONE, "gpu-aware", ROOM),
    "room that is read": Wait(
        Slot.make_room, "return buffer.read", ALONE, "gpu-aware", "return None"
    ),
    "room that is new": Wait(
        Slot.make_room, "return streams.mark(stream)", ALONE, "staged", "return None"
    ),
    "copy into room": Wait(
        Gpu._from_host, f"streams.wait_for({MAKE_ROOM}, self.copies)", ALONE, "staged", MAKE_ROOM
    ),
    "pinned memory that is copied": Wait(
        memory.PinnedRing.take, "streams.reached_already(copied)", ALONE, "staged"
    ),
    "message that is copied": Wait(
        Gpu._from_host, "streams.wait_for(buffer.ready, self.stream)", "jacobi2d", "staged"
    ),
    "copy of a message": Wait(
        MessageBuffer.stage, "streams.wait_for(self.ready, stream)", "jacobi2d", "staged"
    ),
    "message on the host": Wait(
        MessageBuffer.on_host, "streams.reached(self.copied)", "jacobi2d", "staged"
    ),
    "message for MPI": Wait(
        MessageView.in_place, "streams.reached(self.buffer.ready)", "jacobi2d", "gpu-aware"
    ),
    "array from the host": Wait(memory.to_device, "stream.synchronize()", "leanmd", "by reference"),
    "array on the host": Wait(
        memory.to_host, "array.stream.synchronize()", "jacobi2d", "by reference"
    ),
    "counts on the host": Wait(
        memory.PinnedCopy.arrived, "streams.reached_already(self.copied)", "pic", "by reference"
    ),
    "flags on the host": Wait(
        memory.PinnedCopy.arrived, "streams.reached_already(self.copied)", "leanmd", "by reference"
    ),
    "sums on the host": Wait(
        memory.PinnedCopy.arrived, "streams.reached_already(self.copied)", "cg", "by reference"
    ),
    "what a refinement leaves": Wait(
        memory.PinnedCopy.arrived, "streams.reached_already(self.copied)", "amr", "by reference"
    ),
    "table of tasks": Wait(
        memory.PinnedRing.take, "streams.reached_already(copied)", "pic", "by reference"
    ),
    "positions of pairs": Wait(
        pairs._wait_for_arrays, "streams.wait_for(ready, stream)", "pairs", "by reference"
    ),
    "lists of pairs": Wait(
        pairs._wait_for_arrays, "streams.wait_for(lists.ready, stream)", "pairs", "by reference"
    ),
    "forces of pairs": Wait(pairs._computed, "stream.synchronize()", "pairs", "by reference"),
    "state that leaves": Wait(moves.Leaving.copied, "stream.synchronize()", MOVING, "staged"),
    "state that has arrived": Wait(moves.Room.take, "streams.reached(self.read)", MOVING, "staged"),
    "state that is lent": Wait(
        moves.Borrowing.in_place, "streams.reached(self.read)", LENT, "staged"
    ),
    "time of a mark": Wait(streams.seconds, "last.synchronize()", ALONE, "staged"),
    "times of a round": Wait(Gpu.read, "last.synchronize()", ALONE, "staged"),
    "time of day of a mark": Wait(Gpu.time_of, "mark.synchronize()", ALONE, "staged"),
}


def delete(wait: Wait) -> None:
    """Delete a wait in this process."""
    function = inspect.unwrap(wait.function)
    text = textwrap.dedent(inspect.getsource(function))
    assert text.count(wait.words) == 1, wait.words
    made: dict[str, Any] = {}
    exec(compile(text.replace(wait.words, wait.instead), "without", "exec"), {}, made)
    function.__code__ = made[function.__name__].__code__


def make(run: str, transport: str) -> str | None:
    """Make a run; why it is not valid, or None."""
    if run == ALONE:
        return receive_only(transport == "gpu-aware")
    if run == MOVING:
        return move()
    if run == LENT:
        return move_on_device()
    engine = partial(Engine, transport=TRANSPORTS[transport]())
    words = ["run", *RUNS[run].split(), "--device", "gpu"]
    with mock.patch("miniapps.drivers.serial.Engine", engine):
        (record,) = batch.solve_all([spec_of(words)])
    if isinstance(record, str):
        return record
    return None if record["valid"] else "is not valid"


def receive_only(aware: bool) -> None:
    """Receive messages that kernels read, and send none: nothing else makes the host wait."""
    gpu: Any = device.get("gpu")
    into = gpu.empty((40,), np.uint64)
    for n in range(8):
        values = np.full(16 + n // 4 * 24, float(n))  # later ones need another buffer
        other = gpu.empty((16,), np.int64)
        fill(16, other, n)
        del other  # memory that the next buffer may get while the kernel writes it
        came: Any = values
        if aware:
            came = gpu.room(0, values.shape, values.dtype)
            bytes_at(came.address, values)[...] = values
        flat, start = gpu.received({0: came})[0].memory
        copy(values.size, flat.view(np.uint64)[start:], into, gpu.stream)
    assert (gpu.to_host(into).view(np.float64) == values).all()
    for read in (
        gpu.seconds,
        lambda *marks: gpu.read([(*marks, 1.0)]),
        lambda _, end: gpu.time_of(end),
    ):
        begin = gpu.begin()
        copy(1, into, into, gpu.stream)
        read(begin, gpu.mark_after(begin))
    gpu.synchronize()


def move() -> None:
    """Move arrays that kernels write and read: nothing else makes the host wait."""
    gpu: Any = device.get("gpu")
    into, room = gpu.empty((40,), np.uint64), gpu.backend.room
    for n in range(8):
        array, leaving = gpu.empty((40,), np.int64), moves.Leaving()
        fill(40, array, n)
        place = leaving.add(array, slice(None))
        arriving = moves.Arriving([leaving.copied(room).copy()], room)
        copy(40, arriving.array(place, gpu.stream).view(np.uint64), into, gpu.stream)
    assert (gpu.to_host(into) == 7).all()


def move_on_device() -> None:
    """Lend arrays that another block takes; the memory is then written by any other work."""
    gpu, other = device.get("gpu"), device.get("gpu")
    array, leaving = gpu.empty((40,), np.int64), moves.Leaving()
    fill(40, array, 7)
    place, message = leaving.add(array, slice(None)), leaving.lent()
    message.in_place()
    arriving = moves.Borrowing(message.nbytes, lambda like: message.array)
    there = arriving.array(place, other.stream)
    arriving.in_place()
    fill(40, message.array.view(np.int64), 1)
    assert (other.to_host(there) == 7).all()


def races_without(name: str) -> dict[str, Any]:
    """What a process finds that has deleted a wait."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            pool.driver().take_over()
            wait = WAITS[name]
            delete(wait)
            RACES.ends_run = True
            try:
                wrong = make(wait.run, wait.transport)
            except Race as race:
                wrong = str(race)
            found = {"races": list(RACES.found), "invalid": [wrong] if wrong else []}
            os.write(writing, json.dumps(found).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading) as pipe:
        found = json.loads(pipe.read() or '{"races": [], "invalid": ["the process has died"]}')
    os.waitpid(child, 0)
    return found


def main(names: list[str]) -> None:
    """Print what was found."""
    driver.Event.query = lambda event: event.stream.reached >= event.number  # type: ignore
    of_today = [*(run for run in RUNS if run in of_day.with_kernels()), ALONE, MOVING, LENT]
    wrong = [
        f"{run}, {transport}: {why}"
        for run in of_today
        for transport in TRANSPORTS
        if (run, transport) not in LEFT_OUT and (why := make(run, transport)) is not None
    ]
    races = list(RACES.found)
    RACES.found.clear()
    found: dict[str, Any] = {"": {"races": races, "invalid": wrong}}
    made = names or [name for name, wait in WAITS.items() if wait.run in of_today]
    for name, wait in WAITS.items():
        where = Path(inspect.getfile(inspect.unwrap(wait.function))).resolve()
        known = {"file": str(where), "words": wait.words}
        found[name] = known | (races_without(name) if name in made else {})
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    assert Path(sys.argv[0]).name == "race_program.py"
    main(sys.argv[1:])
