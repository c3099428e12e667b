"""The communication benchmarks by files in a folder that the ranks share."""

from __future__ import annotations

from miniapps.communication import Runtime
from miniapps.communication.buffers import HOST
from miniapps.communication.catalogue import CATALOGUE, MESSAGES

TREE, FLAT = "tree", "flat"
ROOTED = frozenset({"bcast", "gather"})
MADE = MESSAGES | ROOTED | {"allreduce", "barrier"}
REASON = "the file driver has barrier and allreduce, and trees for bcast and gather, no others"

RUNTIME = Runtime(
    driver="file",
    title="File",
    file="miniapps.communication.file.runtime",
    buffers=HOST,
    buffers_why="files are written from a host's memory",
    lacks={name: REASON for name in CATALOGUE if name not in MADE},
    pickles=MESSAGES,
    methods={TREE: ROOTED, FLAT: ROOTED},
    options=("dir",),
)
