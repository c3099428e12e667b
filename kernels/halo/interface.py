"""How faces of a block of cells leave and ghosts come: regions, and the kernels that copy them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from miniapps.devices.backend import Array, Device

Region = tuple[int, ...]  # (lo_x, hi_x, lo_y, hi_y, ...): cells [lo, hi) along each axis


def shape_of(region: Region) -> tuple[int, ...]:
    """Return the number of cells of a region along each axis."""
    return tuple(high - low for low, high in zip(region[::2], region[1::2], strict=True))


def box(region: Region) -> tuple[slice, ...]:
    """Return the slices that select a region of an array."""
    return tuple(slice(low, high) for low, high in zip(region[::2], region[1::2], strict=True))


class Halo(Protocol):
    """Copies a block's faces into messages, and messages into its ghosts."""

    def pack(self, field: Array) -> Mapping[Any, Any]:
        """Return the messages by edge: copies of the cells inside, ready for a Post."""

    def unpack(self, field: Array, came: Mapping[Any, Any]) -> None:
        """Copy the messages that a Collect returned, by edge, into the ghosts.

        Raises ValueError for a message whose shape is not that of the ghosts.
        """


class HaloKernels(Protocol):
    """What the modules `cpu` and `gpu` implement."""

    def Halo(  # noqa: N802
        self, device: Device, inside: Mapping[Any, Region], outside: Mapping[Any, Region]
    ) -> Halo:
        """Return the halo of a block whose arrays are on a device.

        ``inside``, ``outside``: by edge, the region of the block's own cells that a neighbour needs
        as ghosts, and the region of the ghosts that the neighbour's message fills. Both are
        indices into the field, an array of float64 or float32, C order, with two or three axes.
        """
