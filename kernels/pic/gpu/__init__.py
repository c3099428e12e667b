"""Kernels of PIC on the GPU."""

from collections.abc import Mapping

from miniapps.kernels.pic.gpu.diagnostics import largest_error, sums_of_ids
from miniapps.kernels.pic.gpu.migrate import (
    close_gaps,
    find_removed,
    pack,
    pack_all,
    resized,
    row_of,
    start,
    store_all,
    unpack,
)
from miniapps.kernels.pic.gpu.push import find_leaving, push, push_all
from miniapps.kernels.pic.gpu.sort import places_by_column, reorder, sort_all
from miniapps.kernels.pic.initial import count_columns, foresee_removed, place
from miniapps.kernels.pic.interface import ForAll

FOR_ALL: Mapping[str, ForAll] = {
    "push": push_all,
    "pack": pack_all,
    "store": store_all,
    "sort": sort_all,
}
