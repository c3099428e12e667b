"""Faults of PIC's GPU kernels."""

from __future__ import annotations

from typing import Any

from miniapps.faults import fault, in_place_of
from miniapps.gpu_faults import edited, kernel_fault
from miniapps.pic.problem import PicProblem

PUSH, MIGRATE = "miniapps.kernels.pic.gpu.push", "miniapps.kernels.pic.gpu.migrate"
SORT, DIAGNOSTICS = "miniapps.kernels.pic.gpu.sort", "miniapps.kernels.pic.gpu.diagnostics"
TASKS = tuple(f"{file}:task_here" for file in (PUSH, MIGRATE, SORT))
PROBLEMS = {"tiny": PicProblem.presets["minimal"]}
TILES = {
    "miniapps.pic.particles:FEWEST": 4,  # so that arrays grow
    f"{DIAGNOSTICS}:THREADS": 4,
    f"{DIAGNOSTICS}:MANY_BLOCKS": 2,  # so that threads take several particles
    f"{SORT}:RUN": 4,
    "miniapps.devices.cuda.primitives:WARP": 4,
    "miniapps.devices.cuda.primitives:CHUNK": 4,
}


# Motion ------------------------------------------------------------------------------------------


@kernel_fault(f"{PUSH}:_push_one", "n >= count", "n + 1 >= count")
def last_particle_not_pushed() -> None:
    """The last thread does nothing: off by one."""


@kernel_fault(f"{PUSH}:_push_one", "mul(dx, f00 + f01)", "mul(dx, f00)")
def corner_dropped() -> None:
    """The force along x lacks the charge of one corner."""


@fault(f"{PUSH}:_push_one", conditional=True)
def mesh_transposed(right: Any) -> Any:
    """The mesh is read with its axes exchanged."""
    rows = "_ahead(row, frame[8], size)"
    columns = "_ahead(column, frame[0], size)"
    return edited(right, (rows, "other"), (columns, rows), ("other", columns))


@kernel_fault(f"{PUSH}:_pull", "reciprocal(", "np.float32(1) / np.float32(")
def force_in_single_precision() -> None:
    """Forces of corners are computed in float32."""


# Particles on their way --------------------------------------------------------------------------


@kernel_fault(f"{PUSH}:_note_emigrant", "np.uint32(owner), 1)", "np.uint32(owner), 2)")
def emigrants_counted_twice() -> None:
    """Those who leave for one side are counted twice, so messages have rows that nobody writes."""


@kernel_fault(f"{MIGRATE}:_pack_one", "cuda.atomic.sub(counters, owner, 1)", "counters[owner]")
def rows_of_a_message_taken_twice() -> None:
    """Threads that subtract at the same time get the same row of a message."""


@kernel_fault(f"{MIGRATE}:_unpack_one", "(row - first)", "max(row - first - 1, 0)")
def arrival_from_the_row_before() -> None:
    """Particles are read from the row before theirs: off by one."""


@kernel_fault(f"{MIGRATE}:_unpack_one", "if row < free:", "if row + 1 < free:")
def last_gap_not_filled() -> None:
    """The last gap keeps the particle that has left; the arrival is put in place of another one."""


@kernel_fault(f"{MIGRATE}:_unpack_one", "if shifts.size > 0:", "if shifts.size > 0 and row < 0:")
def arrivals_not_foreseen() -> None:
    """Those that have come and go on in the next round are not foreseen: messages are too short."""


@kernel_fault(f"{PUSH}:_push_one", "motion = motions[n]", "motion = np.int64(0)")
def injected_foreseen_like_the_first() -> None:
    """Particles are foreseen as if all moved like the initial ones."""


@kernel_fault(f"{MIGRATE}:_fill_one", "cuda.atomic.add(counters, HOLES, 1)", "counters[HOLES]")
def particle_moved_twice() -> None:
    """Threads that close gaps at the same time move the same particle."""


@kernel_fault(f"{MIGRATE}:_fill_one", "if to >= kept:", "if to >= 0:")
def emigrants_not_removed() -> None:
    """Gaps are not closed: those that have left stay, and the last particles are cut off."""


@kernel_fault(TASKS, "FIRST] <= layer", "FIRST] < layer")
def task_of_another_block() -> None:
    """Of a launch for many blocks, the first thread blocks of a task do the one before."""


@kernel_fault(TASKS, "across < table[", "across + np.uint64(1) < table[")
def task_cut_off() -> None:
    """Of a launch for many blocks, the last thread block of each task does nothing."""


@fault(f"{PUSH}:_words")
def count_of_the_first_round(right: Any) -> Any:
    """The table of a launch for many blocks is not written anew."""
    counts: dict[int, int] = {}

    def words(count: int, *arguments: Any) -> list[int]:
        return right(counts.setdefault(id(arguments[1]), count), *arguments)

    return words


@in_place_of("miniapps.kernels.pic.gpu:resized")
def grown_without_the_last(right: Any, array: Any, used: int, room: int) -> Any:
    """A longer array lacks the last particle."""
    return right(array, max(0, used - 1), room)


# Events, sorting and sums ------------------------------------------------------------------------


@kernel_fault(f"{MIGRATE}:_find_removed", "<= limit", "> limit")
def removal_of_others() -> None:
    """A removal takes those that it should leave."""


@kernel_fault(
    f"{SORT}:_choose_for_run",
    "place = cuda.atomic.add(starts, _own(column, x0, starts), np.int64(n - begin))",
    "place = starts[_own(column, x0, starts)]",
)
def places_taken_twice() -> None:
    """Runs of particles of one column get the same places, as the atomic add is lost."""


@in_place_of(f"{SORT}:launch_each_for_all")
def sorted_without_motions(right: Any, stream: Any, *works: Any) -> None:
    """Sorting leaves the last of the arrays as it was."""
    right(stream, *works[:-1])


@kernel_fault(f"{DIAGNOSTICS}:_sums_of_ids", "while n < count:", "if n < count:")
def sum_of_ids_of_the_first() -> None:
    """Threads that take several particles take the first only."""


@kernel_fault(
    "miniapps.devices.cuda.primitives:scan_here",
    "total += values[n]",
    "total += values[n] if n + 1 < end else 0",
)
def last_of_a_chunk_not_added() -> None:
    """A prefix sum lacks the last number of each chunk."""
