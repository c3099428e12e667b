"""How the charm runtime's UDP layer carries messages between the PEs of one host.

It cuts a message into datagrams and has at most 32 of them on their way to a PE before that PE has
acknowledged any, which it does only between entry methods. With its default of 1400 bytes a few
faces of a block fill that window, and what is left of a message waits for a PE that computes.
Datagrams as large as the receiver's socket buffer allows carry a whole step's faces at once.
docs/messages.md has the measurements.
"""

from __future__ import annotations

from pathlib import Path

WINDOW = 32  # datagrams that the layer sends before it waits, its default
DEFAULT_BYTES = 1400
LARGEST_BYTES = 60_000  # UDP carries 65 507
LARGEST_BUFFER = Path("/proc/sys/net/core/rmem_max")


def transport_options(pes: int) -> list[str]:
    """The runtime's options for large datagrams between ``pes`` PEs of this host.

    Whole windows from all other PEs must fit into the buffer: what does not fit is lost and comes
    again 10 ms later. No options where that leaves the default.
    """
    try:
        buffer = int(LARGEST_BUFFER.read_text())
    except (OSError, ValueError):
        return []
    fitting = min(buffer // (WINDOW * max(1, pes - 1)), LARGEST_BYTES)
    if fitting <= DEFAULT_BYTES:
        return []
    return ["+max_dgram_size", str(fitting), "+os_buffer_size", str(buffer)]
