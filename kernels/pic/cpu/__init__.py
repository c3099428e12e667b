"""Kernels of PIC on the CPU."""

from collections.abc import Mapping

from miniapps.kernels.pic.cpu.diagnostics import largest_error
from miniapps.kernels.pic.cpu.migrate import (
    close_gaps,
    find_removed,
    pack,
    resized,
    row_of,
    start,
    unpack,
)
from miniapps.kernels.pic.cpu.push import find_leaving, push
from miniapps.kernels.pic.cpu.sort import places_by_column, reorder
from miniapps.kernels.pic.initial import count_columns, foresee_removed, place
from miniapps.kernels.pic.interface import ForAll
from miniapps.kernels.state_hash.cpu import sums_of_ids

FOR_ALL: Mapping[str, ForAll] = {}
