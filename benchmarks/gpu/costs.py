"""From what calls cost on a GPU to the delays of the stub driver: what `host.py --costs` hands it.

`calls.py` has measured calls as `devices.cuda` makes them, so with the time of Python and
cuda.bindings. Over the stub that time is spent, too; so a delay is what a call takes longer than
one that does nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

NOTHING, SWITCH = "nothing, through cuda.bindings", "CuPy's stream switch"
LAUNCH, SYNCHRONIZE = "launch, packed before", "stream, synchronize without work"
ARRAY = "memory, allocate and release"
SMALL, LARGE = ("1 KB", 1 << 10), ("16 MB", 1 << 24)  # of the copies that give a bandwidth
# Which of the calls timed stands for one of the driver's functions, or for memory of CuPy's pools.
STANDS_FOR = {
    "cuLaunchKernel": LAUNCH,
    "cuEventRecord": "event, record",
    "cuEventRecord-untimed": "event without time, record",
    "cuEventCreate": "event, create",
    "cuEventCreate-untimed": "event without time, create",
    "cuEventQuery": "event, query",
    "cuEventElapsedTime": "event, elapsed time",
    "cuEventSynchronize": "event, wait on the host once reached",
    "cuStreamWaitEvent": "stream, wait for an event",
    "cuStreamSynchronize": SYNCHRONIZE,
    "cuMemcpyDtoHAsync": "copy to host, 1 KB, the call",
    "cuMemcpyHtoDAsync": "copy to device, 1 KB, the call",
    "cuMemcpyDtoDAsync": "copy within device, 64 KB, the call",
    "cuMemsetD8Async": "fill, 64 KB",
    "array": ARRAY,
    "pinned": "pinned memory, allocate and release",
}
WITHIN = {"cuMemsetD8Async": ARRAY, "array": SWITCH}  # what else these make; others do nothing
COPIES = {
    "cuMemcpyDtoHAsync": "copy to host",
    "cuMemcpyHtoDAsync": "copy to device",
    "cuMemcpyDtoDAsync": "copy within device",
}


class Delay(NamedTuple):
    """Nanoseconds of the host in a call, and of the device for its work: at least, and per byte."""

    host: float
    device: float = 0.0
    byte: float = 0.0


def read(file: Path) -> dict[str, float]:
    """The microseconds of calls, in results of `calls.py`.

    Raises OSError, ValueError or KeyError.
    """
    found = json.loads(file.read_text())["results"]["calls"]
    return {name: float(cost["us"]) for name, cost in found.items()}


def delays(us: Mapping[str, float]) -> dict[str, Delay]:
    """The delays of the stub driver, by its names of calls. Raises KeyError."""

    def longer(call: str, *others: str) -> float:
        return max(0.0, 1e3 * (us[call] - sum(us[other] for other in others)))

    def on_device(copy: str, size: str) -> float:
        return longer(f"{copy}, {size}, until done", f"{copy}, {size}, the call", SYNCHRONIZE)

    found = {
        name: Delay(longer(call, WITHIN.get(name, NOTHING))) for name, call in STANDS_FOR.items()
    }
    kernel = longer("launch, until done", LAUNCH, SYNCHRONIZE)
    found["cuLaunchKernel"] = found["cuLaunchKernel"]._replace(device=kernel)
    for name, copy in COPIES.items():
        least, most = (on_device(copy, size) for size, _ in (SMALL, LARGE))
        byte = max(0.0, most - least) / (LARGE[1] - SMALL[1])
        found[name] = found[name]._replace(device=least, byte=byte)
    return found


def as_text(found: Mapping[str, Delay]) -> str:
    """The delays as the stub driver reads them."""
    return "".join(f"{name} {' '.join(map(str, delay))}\n" for name, delay in found.items())
