"""The halo of a block of cells on the CPU.

Cost: each face is copied twice, into the message and out of it: 32 bytes per cell of a face.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from miniapps.devices.backend import Array, Device
from miniapps.kernels.halo import interface
from miniapps.kernels.halo.interface import Region

# Blocks are built anew for each of many small runs, and after each migration.
box = lru_cache(1024)(interface.box)
shape_of = lru_cache(1024)(interface.shape_of)


class Halo:
    """Copies by NumPy; see `kernels.halo.interface.Halo`."""

    def __init__(
        self, device: Device, inside: Mapping[Any, Region], outside: Mapping[Any, Region]
    ) -> None:
        self.device = device
        self.inside = {edge: box(region) for edge, region in inside.items()}
        self.outside = {edge: box(region) for edge, region in outside.items()}
        self.shapes = {edge: shape_of(region) for edge, region in inside.items()}

    def pack(self, field: Array) -> Mapping[Any, Any]:
        """Copy each face into a message of its own."""
        messages = self.device.messages(self.shapes, field.dtype)
        for edge, cells in self.inside.items():
            messages[edge][...] = field[cells]
        return messages

    def unpack(self, field: Array, came: Mapping[Any, Any]) -> None:
        """Copy message after message; NumPy raises ValueError for a shape that does not fit."""
        for edge, values in came.items():
            field[self.outside[edge]] = values
