"""The base class of blocks that run kernels and exchange a halo."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from miniapps import kernels
from miniapps.contract import Batch, Edge, Exchange, Requests
from miniapps.devices.backend import Array
from miniapps.kernel_user import Kernels, KernelUser
from miniapps.kernels.halo import beside
from miniapps.kernels.halo.interface import Region


class HaloUser(KernelUser[Kernels]):
    """A block with the kernels of its halo.

    ``own``: the region of its cells in its arrays; ``depth``: layers of ghosts beyond a face.
    """

    own: Region
    depth: int
    halo: Any

    def beside(self, edge: Edge, beyond: int) -> Region:
        """Its own cells at the face or corner ``edge``; or the ghosts, ``beyond`` them."""
        return beside(self.own, edge, self.depth, beyond)

    def halo_along(self, edges: Iterable[Edge]) -> Any:
        """The kernels that pack its cells at these edges, and unpack the ghosts there."""
        return self.copier(
            *({edge: self.beside(edge, beyond) for edge in edges} for beyond in (0, self.depth))
        )

    def copier(self, inside: Mapping[Edge, Region], outside: Mapping[Edge, Region]) -> Any:
        """The kernels that copy some regions of an array to messages, and messages to others."""
        return kernels.load("halo", self.device.name).Halo(self.device, inside, outside)

    def exchange(self, phase: str, field: Array) -> Requests:
        """Fill the ghosts of a field with the neighbours' cells."""
        came = yield from Exchange(phase, (yield from self.pack(self.halo, field)))
        yield from self.unpack(self.halo, field, came)

    def pack(self, halo: Any, field: Array) -> Requests:
        """Return messages with a field's cells."""
        if self.together:
            every: Any = kernels.load("halo", self.device.name)
            return (yield Batch(every.pack_all, (halo, field)))
        return halo.pack(field)

    def unpack(self, halo: Any, field: Array, came: Mapping[Any, Any]) -> Requests:
        """Copy what has come to a field."""
        if self.together:
            every: Any = kernels.load("halo", self.device.name)
            yield Batch(every.unpack_all, (halo, field, came))
        else:
            halo.unpack(field, came)
