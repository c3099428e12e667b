"""How the charm runtime's UDP layer carries messages between the PEs of one host.

The layer cuts a message into datagrams. It sends at most 32 of them to a PE before that PE
acknowledges any, and a PE does so only between entry methods. With the default of 1400 bytes, a few
faces of a block fill this window, and the rest of the message waits while the receiver computes.
Datagrams as large as the receiver's socket buffer allows carry the faces of a whole step at once.
docs/messages.md has the measurements.
"""

from __future__ import annotations

from pathlib import Path

from miniapps.devices import system

WINDOW = 32  # datagrams that the layer sends before it waits; its default
DEFAULT_BYTES = 1400
LARGEST_BYTES = 60_000  # UDP carries 65 507
LARGEST_BUFFER = Path("/proc/sys/net/core/rmem_max")


def transport_options(pes: int) -> list[str]:
    """The runtime's options for large datagrams between ``pes`` PEs of this host.

    The windows of all other PEs must fit into the buffer: datagrams that do not fit are lost and
    sent again 10 ms later. Returns no options if only datagrams of the default size fit.
    """
    told = system.text(LARGEST_BUFFER).strip()
    buffer = int(told) if told.isdigit() else 0
    fitting = min(buffer // (WINDOW * max(1, pes - 1)), LARGEST_BYTES)
    if fitting <= DEFAULT_BYTES:
        return []
    return ["+max_dgram_size", str(fitting), "+os_buffer_size", str(buffer)]
