"""Faults of PIC."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from miniapps.faults import ACTED, fault, in_place_of
from miniapps.pic.distribution import Distribution
from miniapps.pic.events import Event

MISTAKE_AT = 7  # step; later than the events
BLOCK = "miniapps.pic.block:PicBlock"
KERNELS = "miniapps.kernels.pic.cpu"


def events(width: int, injected: int) -> tuple[Event, ...]:
    """An injection into two blocks, and a removal from one row of blocks."""
    return (
        Event("inject", 3, (2, width // 3, 3, 2 * width // 3), injected),
        Event("remove", 5, (0, width - 1, 0, width // 2 - 1), fraction=0.5),
    )


MOVING = {"k": 1, "m": -2}  # as in the preset tiny: positions are rounded
PROBLEMS = {
    "tiny": {
        "size": 24,
        "particles": 600,
        "distribution": Distribution("geometric", (0.97,)),
        "events": events(24, 60),
    },
    # 0.99: as at the other sizes, there are cells with a mean of one particle or more.
    "small": MOVING
    | {"events": events(1000, 20_000), "distribution": Distribution("geometric", (0.99,))},
    "large": MOVING | {"events": events(5998, 2_000_000)},
}
HARMLESS = {
    "messages: received at another edge": "a particle's position says where it is, not its edge",
}


# Motion ------------------------------------------------------------------------------------------


@in_place_of(f"{BLOCK}.push")
def hopping(right: Any, self: Any, steps: int) -> None:
    """``v = a dt`` instead of ``+=``: particles hop back and forth between two columns."""
    mine = self.particles
    before = mine.vx.copy()
    right(self, steps)
    mine.vx -= before


@in_place_of(f"{BLOCK}.push")
def one_push_left_out(right: Any, self: Any, steps: int) -> None:
    """One step moves nothing, as in a program whose loop begins one too late."""
    if self.time != MISTAKE_AT:
        right(self, steps)


@in_place_of(f"{BLOCK}.push")
def one_push_too_many(right: Any, self: Any, steps: int) -> None:
    """One step moves everything twice."""
    for _ in range(1 + (self.time == MISTAKE_AT)):
        right(self, steps)


@in_place_of(f"{BLOCK}.push")
def velocity_off_by_little(right: Any, self: Any, steps: int) -> None:
    """The velocity grows by a factor of 1 + 1e-10 too much."""
    right(self, steps)
    self.particles.vx[: self.particles.count] *= 1 + 1e-10


@in_place_of(f"{BLOCK}.push")
def positions_in_single_precision(right: Any, self: Any, steps: int) -> None:
    """Positions are kept in float32."""
    right(self, steps)
    mine = self.particles
    mine.x[: mine.count] = (mine.x[: mine.count] + 1e-9).astype(np.float32)


@in_place_of(f"{BLOCK}.begin")
def weak_force(right: Any, self: Any, *arguments: Any) -> None:
    """All particles have a charge a little too small."""
    right(self, *arguments)
    self.particles.charge *= 1 - 1e-6


@in_place_of(f"{BLOCK}.begin")
def wrong_sign(right: Any, self: Any, *arguments: Any) -> None:
    """Particles of odd columns have the charge of even ones, so they move backwards."""
    right(self, *arguments)
    self.particles.charge = np.abs(self.particles.charge)
    self.particles._make_room()


@in_place_of(f"{BLOCK}.begin")
def still_in_y(right: Any, self: Any, *arguments: Any) -> None:
    """Particles begin without their velocity along y."""
    right(self, *arguments)
    self.particles.vy[:] = 0


@in_place_of(f"{BLOCK}._mesh")
def mesh_of_another_block(right: Any, self: Any) -> Any:
    """The charges of the mesh begin with the wrong sign."""
    return -right(self)


@in_place_of(f"{BLOCK}.push")
def swapped_axes(right: Any, self: Any, steps: int) -> None:
    """In one step a block moves its particles along the other axis."""
    mine = self.particles
    if self.time == MISTAKE_AT:
        mine.vx, mine.vy = mine.vy.copy(), mine.vx.copy()
    right(self, steps)


@in_place_of(f"{BLOCK}.store_immigrants")
def hurled(right: Any, self: Any, left: int, came: Any) -> None:
    """One particle in each block goes back by more than the grid is wide."""
    right(self, left, came)
    if self.time == MISTAKE_AT and self.particles.count:
        self.particles.vx[0] = -1.5 * self.problem.size


@in_place_of(f"{BLOCK}.store_immigrants")
def nan_position(right: Any, self: Any, left: int, came: Any) -> None:
    """One particle's position is no number."""
    right(self, left, came)
    if self.time == MISTAKE_AT and self.particles.count:
        self.particles.y[0] = np.nan


# Particles on their way --------------------------------------------------------------------------


def arrivals(block: Any, came: Any) -> list[Any]:
    """The edges by which particles came, the first time that some came late in the first block."""
    edges = [edge for edge, message in came.items() if len(message)]
    late = block.index == (0, 0) and block.time >= MISTAKE_AT and not vars(block).get("did")
    if late and edges:
        block.did = True
    return edges if late else []


@in_place_of(f"{BLOCK}.store_immigrants")
def lost_particle(right: Any, self: Any, left: int, came: Any) -> None:
    """One block loses a particle of a message."""
    for edge in arrivals(self, came)[:1]:
        came = dict(came) | {edge: came[edge][1:]}
    right(self, left, came)


@fault(f"{BLOCK}.store_immigrants", f"{BLOCK}.measure")
def lost_but_counted(right: Any) -> Any:
    """Every block loses a particle, and its sums of ids are of those that should be there."""

    def store_immigrants(self: Any, left: int, came: Any) -> None:
        right(self, left, came)
        if self.time == MISTAKE_AT and self.particles.count:
            self.particles.count -= 1
            self.lost = self.particles.ids[self.particles.count]

    def measure(self: Any) -> Any:
        measures = dict(right(self))
        if "lost" in vars(self):
            op, sums = measures["ids"]
            one = self.kernels.sums_of_ids(1, np.array([self.lost]))
            measures["ids"] = type(measures["ids"])(op, sums + one)
        return measures

    return {"store_immigrants": store_immigrants, "measure": measure}[right.__name__]


@in_place_of(f"{BLOCK}.store_immigrants")
def doubled_particle(right: Any, self: Any, left: int, came: Any) -> None:
    """One block takes in a particle twice."""
    for edge in arrivals(self, came)[:1]:
        came = dict(came) | {edge: np.concatenate([came[edge], came[edge][:1]])}
    right(self, left, came)


@in_place_of(f"{BLOCK}.store_immigrants")
def lost_and_doubled(right: Any, self: Any, left: int, came: Any) -> None:
    """Three ids are put in the place of three others of the same sum: 1, 4, 4 for 2, 3, 4."""
    right(self, left, came)
    ids = self.particles.ids[: self.particles.count]
    ids[ids == 2], ids[ids == 3] = 1, 4


@in_place_of(f"{BLOCK}.store_immigrants")
def swapped_ids(right: Any, self: Any, left: int, came: Any) -> None:
    """Two particles of a block take each other's id, and nothing else."""
    right(self, left, came)
    if self.time == MISTAKE_AT and self.particles.count > 1:
        ids = self.particles.ids
        ids[0], ids[1] = ids[1], ids[0]


@in_place_of(f"{BLOCK}.pack")
def ids_reversed_in_a_message(right: Any, self: Any, left: int) -> Any:
    """The ids in each message are in reverse order, the rest is not."""
    messages = right(self, left)
    for message in messages.values():
        message[:, 5] = message[::-1, 5].copy()
    return messages


@in_place_of(f"{BLOCK}.pack", given={"m": 1}, conditional=True)
def sent_to_another_neighbour(right: Any, self: Any, left: int) -> Any:
    """Particles that leave through one side are sent through another."""
    messages = dict(right(self, left))
    edges = list(messages)
    if left and len(edges) > 1:
        ACTED.now()
    return dict(zip(edges, (messages[edge] for edge in edges[1:] + edges[:1]), strict=True))


@in_place_of("miniapps.pic.particles:Particles.sort")
def sorted_without_ids(right: Any, self: Any, *arguments: Any) -> None:
    """Sorting leaves the ids where they were."""
    ids, self.unsorted = self.ids.copy(), self.count
    right(self, *arguments)
    self.ids[:] = ids


@in_place_of("miniapps.pic.particles:Particles.__getstate__", migrating=True)
def migrates_without_the_last(right: Any, self: Any) -> dict[str, Any]:
    """A block loses a particle whenever it migrates."""
    state = dict(right(self))
    return state | {"count": max(0, state["count"] - 1)} | {
        name: values[:-1] for name, values in state.items() if isinstance(values, np.ndarray)
    }  # fmt: skip


# The start, and events ---------------------------------------------------------------------------


@in_place_of(f"{BLOCK}.begin")
def all_in_the_bottom_row(right: Any, self: Any, motion: int, cells: Any, ids: Any) -> None:
    """All particles begin in the lowest row of their block."""
    size = self.problem.size
    right(self, motion, cells // size * size + self.bounds[1][0], ids)


@in_place_of(f"{BLOCK}.begin")
def half_of_them_placed(right: Any, self: Any, motion: int, cells: Any, ids: Any) -> None:
    """Only every second particle is created."""
    right(self, motion, cells[::2].copy(), ids[::2].copy())


@in_place_of(f"{KERNELS}:count_columns", f"{KERNELS}:place", conditional=True)
def no_draw_for_means_of_one_or_more(right: Any, means: Any, *rest: Any) -> None:
    """The branch for a mean of one or more is never entered: every such cell gets one particle."""
    if (means >= 1).any():
        ACTED.now()
    right(np.minimum(means, np.nextafter(1.0, 0.0)), *rest)


@in_place_of(f"{BLOCK}.__init__")
def half_as_many_asked_for(right: Any, self: Any, problem: Any, *rest: Any) -> None:
    """Blocks place half of the particles, and count them."""
    right(self, dataclasses.replace(problem, particles=problem.particles // 2), *rest)


@in_place_of(f"{BLOCK}.__init__")
def half_as_many_removed(right: Any, self: Any, problem: Any, *rest: Any) -> None:
    """A removal takes half of what it should, as was foreseen."""
    halves = (dataclasses.replace(e, fraction=e.fraction / 2) for e in problem.events)
    right(self, dataclasses.replace(problem, events=tuple(halves)), *rest)


@in_place_of(f"{BLOCK}.begin")
def injected_in_reverse(right: Any, self: Any, motion: int, cells: Any, ids: Any) -> None:
    """Injected particles are numbered backwards."""
    right(self, motion, cells, ids[::-1].copy() if motion else ids)


@in_place_of(f"{BLOCK}.inject")
def no_injection(right: Any, self: Any, number: int, event: Any) -> None:
    """Injections do not happen."""


@in_place_of(f"{BLOCK}.inject")
def late_injection(right: Any, self: Any, number: int, event: Any) -> None:
    """An injected particle is where it would be if it had come one step earlier."""
    right(self, number, event)
    last = self.particles.count - 1
    if last >= 0 and self.particles.motions[last] == number + 1:
        self.particles.x[last] += 1.0


@in_place_of(f"{BLOCK}.remove")
def no_removal(right: Any, self: Any, number: int, event: Any) -> None:
    """Removals do not happen."""


@in_place_of(f"{BLOCK}.remove")
def removal_of_others(right: Any, self: Any, number: int, event: Any) -> None:
    """A removal takes those that it should leave."""
    before = self.particles.count
    right(self, number, event)
    taken = before - self.particles.count
    self.particles.count = before
    gaps = np.arange(taken, dtype=np.int64)
    self.particles.drop(self.kernels, gaps, 0, taken)
