"""Kernels of PIC on the GPU."""

from kernels.pic.gpu.diagnostics import largest_error, sums_of_ids
from kernels.pic.gpu.migrate import close_gaps, find_removed, grown, pack, row_of, start, unpack
from kernels.pic.gpu.push import find_leaving, push
from kernels.pic.gpu.sort import places_by_column, reorder
from kernels.pic.initial import count_columns, foresee_removed, place

__all__ = [
    "close_gaps",
    "count_columns",
    "find_leaving",
    "find_removed",
    "foresee_removed",
    "grown",
    "largest_error",
    "pack",
    "place",
    "places_by_column",
    "push",
    "reorder",
    "row_of",
    "start",
    "sums_of_ids",
    "unpack",
]
