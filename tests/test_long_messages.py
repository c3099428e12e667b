"""Messages of 2 GiB and more, which 32-bit counts do not hold: carried in parts, or refused.

Nothing here is that long: the limits are lowered.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import support

from miniapps.contract import Peer
from miniapps.devices.messages import packed
from miniapps.drivers.charm import MOST_BYTES
from miniapps.drivers.file import launch
from miniapps.drivers.file.links import Folder, Link

LOW, HIGH = (-1,), (1,)

# An MPI that counts to 5000, with what each message has sent and received. A process of its own, so
# that no MPI runs in that of the tests.
MPI_PARTS = """
import numpy as np
from mpi4py import MPI
from miniapps.devices.messages import DeviceMessage
from miniapps.drivers.mpi import links
from miniapps.contract import Peer

MOST = 5000


class Comm:
    rank = 0
    Recv_init = Isend = Recv = None

    def __init__(self):
        for name in ("Recv_init", "Isend", "Recv"):
            setattr(self, name, self.counted(getattr(MPI.COMM_SELF, name)))

    def counted(self, call):
        def counting(part, *others):
            nbytes = part[1][0] if isinstance(part, list) else part.nbytes
            assert nbytes <= MOST, f"a count of {nbytes}"
            return call(part, *others)

        return counting


class Message(DeviceMessage):
    def __init__(self, array):
        self.array, self.shape, self.dtype = array, array.shape, array.dtype

    def in_place(self):
        return self.array


class Memory:
    def room(self, edge, shape, dtype):
        return Message(np.full(shape, -1, dtype))


if {limited}:
    links.MOST_BYTES = MOST
for device in (False, True):
    of = links.DeviceLink if device else links.Link
    more = (Memory(),) if device else ()
    low = of(*more, Comm(), (-1,), Peer("block", (0,), (1,)), 0)
    high = of(*more, Comm(), (1,), Peer("block", (0,), (-1,)), 0)
    for step, count in enumerate((10, 3000, 3000, 0, 615, 616, 617, 5000, 20, 5000)):
        sent = np.random.default_rng(step).random((count, 2))[:, 0].copy()
        low.send(step, 1, Message(sent) if device else sent)
        came = high.receive(step, 1)
        assert np.array_equal(getattr(came, "array", came), sent), (device, count)
    low.close()
    high.close()
print("ends")
"""


@pytest.mark.parametrize("limited", [True, False])
def test_mpi_sends_long_messages_in_parts(limited: bool) -> None:
    """Catches a count that MPI cannot hold, and parts that overlap, are lost or out of order.

    Without the limit the same program must fail: then the test looks.
    """
    script = MPI_PARTS.replace("{limited}", str(limited))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    if limited:
        assert (done.returncode, done.stdout) == (0, "ends\n"), done.stderr
    else:
        assert done.returncode == 1 and "a count of" in done.stderr


def test_the_file_driver_writes_and_reads_what_is_left(tmp_path, monkeypatch):
    """Catches a message that is cut where one system call ends: Linux moves 2 GiB at most."""
    (tmp_path / launch.LOCK).touch()
    folder, write, readv = Folder(tmp_path), os.write, os.readv
    calls: list[int] = []

    def at_most(room: Any) -> Any:
        calls.append(len(room))
        return room[:1000]

    monkeypatch.setattr(os, "write", lambda file, data: write(file, at_most(data)))
    monkeypatch.setattr(os, "readv", lambda file, rooms: readv(file, [at_most(rooms[0])]))
    ends = [(LOW, HIGH), (HIGH, LOW)]
    low, high = (Link(folder, 0, 0, edge, Peer("block", (0,), peer), 0) for edge, peer in ends)
    for count in (700, 3, 700):
        low.send(count, 1, packed(np.arange(float(count))))
        assert high.receive(count, 1).tolist() == list(range(count))
    assert len(calls) > 20


# Charm4Py takes sizes for C ints: a longer message would be cut, or of negative length.
LIMIT = 20_000
LOWERED = f"from miniapps.drivers import charm; charm.MOST_BYTES = {LIMIT}"
PES = "--driver charm -n 2 --audit 0 --warmup 0 --time-tile 1"
CHARM = {
    "right": f"jacobi2d --size 8x8 --steps 5 {PES}",
    "messages of a block to another": "echo --bytes 30000 --driver charm -n 2 --audit 0",
    "migrates": f"jacobi2d --size 64x64 --odf 2 --steps 6 --balancer Rotate --lb-period 2 {PES}",
    "measured": f"jacobi2d --size 8x8 --steps 1000 {PES}",
}


@pytest.mark.slow
@pytest.mark.launch
def test_charm_refuses_what_the_runtime_would_cut(tmp_path: Path) -> None:
    """Catches messages, blocks that migrate, and timings, of whose size only 32 bits are kept."""
    environment = support.in_every_process(tmp_path, LOWERED)
    records = support.records_of(CHARM.values(), 120, environment)
    for (what, _), record in zip(CHARM.items(), records, strict=True):
        if what == "right":
            assert record["valid"] is True
        else:
            assert what in record["failed"] and f"at most {LIMIT} at once" in record["failed"]
            assert "\n" not in record["failed"]


@pytest.mark.slow
def test_blocks_that_cannot_migrate_are_refused_before_the_launch() -> None:
    """Catches a run that ends at its first balancing, or goes on with another block's cells."""
    words = "run jacobi2d --size 40000x40000 --driver charm -n 2 --steps 9 --force --dry-run"
    balanced = "--balancer Greedy --lb-period 5"
    line = support.refused(f"{words} {balanced} --odf 4".split())
    assert "--balancer Greedy: " in line and "less than 2 GiB, these have 3.0 GiB" in line
    assert 40000**2 * 16 / 8 > MOST_BYTES > 40000**2 * 16 / 16
    for accepted in (f"{balanced} --odf 8", "--odf 4"):
        support.in_process(*f"{words} {accepted}".split(), check=True)


def test_benchmarks_refuse_longer_messages() -> None:
    """Catches a communication benchmark whose sizes overflow MPI's count."""
    words = ["comm", "latency", "--driver", "mpi", "-m", "1:2147483648"]
    assert "MAX < 2^31" in support.refused(words)
