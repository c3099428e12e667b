"""The halo of a block of cells on the CPU: its faces leave, ghosts come.

A face is copied twice, here and when it has arrived: 32 bytes a cell of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from devices.backend import Device

Region = tuple[int, ...]  # (lo_x, hi_x, lo_y, hi_y, ...): cells [lo, hi) along each axis


def shape_of(region: Region) -> tuple[int, ...]:
    """Cells of a region along each axis."""
    return tuple(high - low for low, high in zip(region[::2], region[1::2], strict=True))


def box(region: Region) -> tuple[slice, ...]:
    """The slices of a region of an array."""
    return tuple(slice(low, high) for low, high in zip(region[::2], region[1::2], strict=True))


class Halo:
    """Which cells of a block's arrays go over each edge (``inside``), and where others' come."""

    def __init__(
        self, device: Device, inside: Mapping[Any, Region], outside: Mapping[Any, Region]
    ) -> None:
        self.device, self.inside, self.outside = device, inside, outside
        self.shapes = {edge: shape_of(region) for edge, region in inside.items()}

    def pack(self, field: Any) -> Mapping[Any, Any]:
        """The messages: copies of the cells inside, by edge."""
        messages = self.device.messages(self.shapes, field.dtype)
        for edge, region in self.inside.items():
            messages[edge][...] = field[box(region)]
        return messages

    def unpack(self, field: Any, came: Mapping[Any, Any]) -> None:
        """Put what came over each edge where its cells lie around the block."""
        for edge, values in came.items():
            field[box(self.outside[edge])] = values
