"""Kernels of PIC on the CPU."""

from kernels.pic.cpu.diagnostics import largest_error
from kernels.pic.cpu.migrate import close_gaps, find_removed, grown, pack, row_of, start, unpack
from kernels.pic.cpu.push import find_leaving, push
from kernels.pic.cpu.sort import places_by_column, reorder
from kernels.pic.initial import count_columns, foresee_removed, place
from kernels.state_hash.cpu import sums_of_ids
