"""The base class of blocks that run kernels and exchange a halo."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

from miniapps import kernels
from miniapps.contract import Batch, Exchange
from miniapps.devices.backend import Array
from miniapps.kernel_user import Kernels, KernelUser


class HaloUser(KernelUser[Kernels]):
    """A block with the kernels of its halo."""

    halo: Any

    def exchange(self, phase: str, field: Array) -> Generator[Any, Any, None]:
        """Fill the ghosts of a field with the neighbours' cells."""
        came = yield from Exchange(phase, (yield from self.packed(self.halo, field)))
        yield from self.unpack(self.halo, field, came)

    def packed(self, halo: Any, field: Array) -> Generator[Any, Any, Any]:
        """Return messages with a field's cells."""
        if self.together:
            every: Any = kernels.load("halo", self.device.name)
            return (yield Batch(every.pack_all, (halo, field)))
        return halo.pack(field)

    def unpack(self, halo: Any, field: Array, came: Mapping[Any, Any]) -> Generator[Any, Any, None]:
        """Copy what has come to a field."""
        if self.together:
            every: Any = kernels.load("halo", self.device.name)
            yield Batch(every.unpack_all, (halo, field, came))
        else:
            halo.unpack(field, came)
