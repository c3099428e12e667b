"""The transpose's kernels on the GPU against their CPU counterparts, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import support

from miniapps import kernels
from miniapps.devices import backend as device
from miniapps.transpose.problem import TransposeProblem

# In the simulator NumPy warns of integers modulo 2^64.
pytestmark = pytest.mark.filterwarnings("ignore:overflow")
OWN, OTHERS, LOW = 35, 41, 3  # beyond a thread block along each axis


def both(change: Any, *arrays: np.ndarray) -> None:
    """Require that ``change(device, kernels, *arrays)`` leaves and returns the same bits."""
    found = []
    for name in ("cpu", "gpu"):
        on = device.get(name)
        there = [on.to_device(array.copy()) for array in arrays]
        more = change(on, kernels.load("transpose", name), *there)
        found.append([np.array(on.to_host(array)) for array in there] + more)
    for here, there in zip(*found, strict=True):
        assert support.same_bits(here, there)
    assert not support.same_bits(found[0][len(arrays) - 1], arrays[-1])


def test_rows_for_others() -> None:
    """Catches an element that is left out, and a message at another place of the buffer."""
    columns = {(1, 0): (LOW, LOW + OTHERS), (2, 0): (LOW + OTHERS, LOW + OTHERS + 2)}

    def take(on: Any, of: Any, a: Any) -> list[np.ndarray]:
        shapes = {edge: (OWN, high - low) for edge, (low, high) in columns.items()}
        messages = on.messages(shapes, np.float64)
        of.take(a, columns, messages)
        if isinstance(messages[1, 0], np.ndarray):
            return [np.array(message) for message in messages.values()]
        on.stage(list(messages.sealed().values()))
        return [np.array(message.on_host()) for message in messages.values()]

    both(take, support.noise((OWN, LOW + OTHERS + 5)))


def test_rows_from_others() -> None:
    """Catches an element that is not transposed, or left out at the end of a thread block."""
    columns = {(1, 0): (LOW, LOW + OTHERS)}
    came = support.noise((OTHERS, OWN))

    def add(on: Any, of: Any, b: Any) -> list[np.ndarray]:
        of.add(b, columns, on.received({(1, 0): came.copy()}))
        return []

    both(add, support.noise((OWN, LOW + OTHERS + 5)))


def test_own_rows() -> None:
    """Catches 1 that is added before an element was read."""

    def turn(on: Any, of: Any, a: Any, b: Any) -> list[np.ndarray]:
        of.turn(a, b, LOW)
        return []

    both(turn, support.noise((OWN, OWN + 7)), support.noise((OWN, OWN + 7))[::-1])


def test_blocks_on_the_gpu() -> None:
    """Catches a block that computes something else on the GPU, or loses a message there."""
    problem = TransposeProblem((13,))
    here, there = (support.states_on(name, "transpose", problem, (3, 1)) for name in ("cpu", "gpu"))
    assert here == there


def test_many_blocks_at_once() -> None:
    """Catches a launch for many blocks that takes the rows, or the message, of another one."""
    of: Any = kernels.load("transpose", "gpu")
    edge, takes, turns, adds, right = (1, 0), [], [], [], []
    for seed, (own, other, low) in enumerate(((35, 41, 3), (3, 70, 0), (40, 1, 5))):
        on = device.get("gpu")
        on.share_queue()
        a, b = (support.noise((own, low + own + other), 2 * seed + n) for n in (0, 1))
        came, columns = support.noise((other, own), 9), {edge: (low, low + other)}
        takes.append((on.to_device(a), columns, on.messages({edge: (own, other)}, np.float64)))
        turns.append((takes[-1][0], on.to_device(b), low))
        adds.append((turns[-1][1], columns, on.received({edge: came})))
        message = a[:, low : low + other].copy()
        a[:, low : low + other] += 1
        b[:, low : low + own] += a[:, low : low + own].T
        a[:, low : low + own] += 1
        b[:, low : low + other] += came.T
        right.append((a, b, message))
    of.take_all(takes)
    of.turn_all(turns)
    of.add_all(adds)
    for (a, b, message), (there, _, messages), (_, added, _) in zip(
        right, takes, turns, strict=True
    ):
        assert support.same_bits(device.get("gpu").to_host(there), a)
        assert support.same_bits(device.get("gpu").to_host(added), b)
        device.get("gpu").stage(list(messages.sealed().values()))
        assert support.same_bits(np.array(messages[edge].on_host()), message)
