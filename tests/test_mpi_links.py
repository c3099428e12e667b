"""Links of the mpi driver, in one process that sends to itself."""

from __future__ import annotations

import subprocess
import sys

import pytest

# A process of its own, so that no MPI runs in that of the tests.
LINKS = """
import numpy as np
from mpi4py import MPI
from miniapps.devices.messages import DeviceMessage
from miniapps.drivers.headers import phase_code
from miniapps.drivers.mpi.links import DeviceLink, Link
from miniapps.contract import MessageError, Peer

LOW, HIGH = (-1,), (1,)
A, B = phase_code("a", False), phase_code("b", False)


class Message(DeviceMessage):
    def __init__(self, array):
        self.array, self.shape, self.dtype = array, array.shape, array.dtype

    def in_place(self):
        return self.array

    def on_host(self):
        return self.array.copy()


class Memory:
    '''A device that has room for one message, as it is used again for the next.'''

    def __init__(self):
        self.all = np.zeros(1000)

    def room(self, edge, shape, dtype):
        return Message(self.all[: shape[0]])

    def stage(self, messages):
        pass


def links(device):
    comm = MPI.COMM_SELF
    one = lambda edge, other: (comm, edge, Peer("block", (0,), other), 0)
    if not device:
        return Link(*one(LOW, HIGH)), Link(*one(HIGH, LOW)), np.array, np.array
    pair = DeviceLink(Memory(), *one(LOW, HIGH)), DeviceLink(Memory(), *one(HIGH, LOW))
    return *pair, Message, lambda came: getattr(came, "array", came)


for device in (False, True):
    low, high, message, value = links(device)
    if device:
        try:
            low.send(5, A, np.zeros(3))
            print("sent from the host")
        except MessageError as error:
            assert "must be in device memory" in str(error)
    low.send(5, A, message(np.full(3, 1.0)))
    low.send(5, B, message(np.full(4, 2.0)))
    low.send(5, A + 1, message(np.full(700, 3.0)))
    assert value(high.receive(5, A + 1)).tolist() == [3.0] * 700
    assert value(high.receive(5, B)).tolist() == [2.0] * 4
    {sabotage}
    assert value(high.receive(5, A)).tolist() == [1.0] * 3
    low.send(6, A, message(np.full(1, 4.0)))
    try:
        high.receive(5, B)
    except MessageError as error:
        assert "a message of step 6" in str(error)
    print("ends")
"""


def run(sabotage: str) -> subprocess.CompletedProcess[str]:
    """Run the script, with a line of it replaced."""
    script = LINKS.replace("{sabotage}", sabotage)
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)


def test_messages_may_be_collected_in_another_order() -> None:
    """Catches an early message that the next one overwrites, in host or in device memory."""
    done = run("")
    assert done.returncode == 0 and done.stdout.split() == ["ends", "ends"], done.stderr


@pytest.mark.parametrize(("kind", "ended"), [("Link", 0), ("DeviceLink", 1)])
def test_an_overwritten_message_shows(kind: str, ended: int) -> None:
    """Catches a test that does not look: early messages that are not kept must fail it."""
    done = run(f"if type(high) is {kind}: high.early[5, A] = np.zeros(3)")
    assert done.returncode == 1 and done.stdout.split() == ["ends"] * ended
