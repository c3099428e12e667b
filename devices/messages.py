"""Memory for the messages between blocks, with room for a driver's header in front."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

HEADER_BYTES = 64  # room in front of a message; one cache line
BYTE = np.dtype(np.uint8)


class Envelope(np.ndarray):
    """The memory behind a `packed` message: room for a header, then the message."""


class DeviceMessage:
    """A message in a device's memory; `devices.cuda.buffers.MessageView` is one."""

    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def nbytes(self) -> int:
        """The size of the message."""
        return math.prod(self.shape) * self.dtype.itemsize

    def seal(self) -> None:
        """Note that the block has posted the message: all kernels that write it are launched."""

    def on_host(self) -> np.ndarray:
        """Return the message in host memory; waits for the copy that `Buffers.stage` began."""
        raise NotImplementedError

    def in_place(self) -> Any:
        """Return the message in device memory, in a form that MPI accepts.

        Waits until all kernels that write it have ended.
        """
        raise NotImplementedError

    def is_written(self) -> bool:
        """Return whether `in_place` would not wait."""
        raise NotImplementedError

    def place(self) -> bytes | None:
        """Return where other processes find the message, once `Backend.offer` was called.

        Waits until all kernels that write it have ended. None: it is in other memory.
        """
        raise NotImplementedError


class DeviceMessages(Mapping[Any, Any]):
    """Messages in a device's memory by edge, of one Post.

    `devices.cuda.buffers.MessageBuffer` is one.
    """

    def sealed(self) -> dict[Any, DeviceMessage]:
        """Return all of them by edge, once `DeviceMessage.seal` has been done for each."""
        raise NotImplementedError


def plain_envelope(nbytes: int) -> Envelope:
    """Return ordinary memory for a message and its header, ``nbytes`` in all."""
    return Envelope(nbytes, BYTE)


def envelope_of(message: np.ndarray) -> Envelope | None:
    """Return the memory in which a message was packed, if it was."""
    base: Any = message.base
    if type(base) is np.ndarray:  # the array of the block, of which the message is a view
        base = base.base
    return base if isinstance(base, Envelope) else None


Allocate = Callable[[int], Envelope]  # from the bytes of a message and its header


def packed(view: np.ndarray, allocate: Allocate = plain_envelope) -> np.ndarray:
    """Copy a view into a contiguous array that has `HEADER_BYTES` free in front of its data.

    A driver that needs a header sends both as one buffer; without the room it would have to copy
    the message once more.
    """
    message = packed_empty(view.shape, view.dtype, allocate)
    message[...] = view
    return message


def packed_empty(
    shape: tuple[int, ...], dtype: Any, allocate: Allocate = plain_envelope
) -> np.ndarray:
    """Return an array for a message that a kernel fills, with room for a header as in `packed`."""
    dtype = np.dtype(dtype)
    envelope = allocate(HEADER_BYTES + math.prod(shape) * dtype.itemsize)
    return np.ndarray(shape, dtype, envelope, HEADER_BYTES)
