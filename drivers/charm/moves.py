"""A runner that migrates: its block's arrays on a device travel in one buffer.

If all PEs share the GPU, the PE that it leaves lends them to the one where it arrives, as it lends
messages. Else they travel through the host, in shared memory if all PEs have it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from miniapps.devices.messages import DeviceMessage
from miniapps.drivers.gpu_ipc import Loan


class Packed(NamedTuple):
    """A runner on its way: what `Backend.pack` returned, its arrays as they are sent or lent."""

    pickled: bytes
    arrays: list[Any]


def packed(pe: Any, runner: Any) -> Any:
    """What leaves a PE in place of a runner; the runner if its device is the CPU."""
    found = pe.backend.pack(runner, pe.mail.sharers.all)
    if found is None:
        return runner
    pickled, arrays = found
    if isinstance(arrays, DeviceMessage):
        return Packed(pickled, [pe.mail.ledger.lend(arrays)])
    return Packed(pickled, pe.payloads.in_pieces(arrays))


def unpacked(pe: Any, came: Packed) -> Any:
    """The runner that has arrived on a PE."""
    pickled, arrays = came
    if arrays and type(arrays[0]) is bytes:
        lent = Loan.read(arrays[0])
        runner, copy = pe.backend.unpack_lent(pickled, lent.place, *lent.shape)
        pe.mail.ledger.note(lent.number, copy)
        return runner
    return pe.backend.unpack(pickled, pe.payloads.received(arrays))
