"""Kernels that pack faces into messages and unpack messages into ghosts."""

from __future__ import annotations

from collections.abc import Sequence

from miniapps.kernels.halo.interface import Region


def beside(own: Region, edge: Sequence[int], depth: int, beyond: int) -> Region:
    """``depth`` layers of a region at its face, edge or corner ``edge``, ``beyond`` farther out.

    So they are the ghosts there if ``beyond`` is ``depth``.
    """
    found: list[int] = []
    for side, low, high in zip(edge, own[::2], own[1::2], strict=True):
        if side < 0:
            found += [low - beyond, low - beyond + depth]
        elif side > 0:
            found += [high + beyond - depth, high + beyond]
        else:
            found += [low, high]
    return tuple(found)
