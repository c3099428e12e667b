"""The base class of blocks that run kernels and exchange a halo."""

from __future__ import annotations

from collections.abc import Generator
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
        if self.together:
            every: Any = kernels.load("halo", self.device.name)
            packed = yield Batch(every.pack_all, (self.halo, field))
            came = yield from Exchange(phase, packed)
            yield Batch(every.unpack_all, (self.halo, field, came))
        else:
            came = yield from Exchange(phase, self.halo.pack(field))
            self.halo.unpack(field, came)
