"""PIC as the Parallel Research Kernels define it (Georganas et al., IPDPS 2016), with their events.

L x L periodic cells, L even, with a fixed charge at each mesh point: +1 in even columns, -1 in odd
ones. Particles begin at rest along x at cell centres, with a charge such that every step moves them
by exactly 2k + 1 cells along x, and a velocity of m cells per step along y. So the exact position
of each particle is known at any step, and so are the ids of the particles that must be present.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from miniapps import kernels
from miniapps.contract import Check, Measure
from miniapps.decomposition import Layout
from miniapps.parameters import (
    InputError,
    integer,
    integer_or_auto,
    parameter,
    require,
    require_tile,
)
from miniapps.pic.distribution import Distribution
from miniapps.pic.events import Event, Motion
from miniapps.pic.particles import FLOATS, UNITS
from miniapps.pic.reference_solution import reference_hash
from miniapps.problem import BaseProblem, Variant
from miniapps.quantities import Quantity

USUAL_TILE = 8  # steps; more gain little
POSITION_LIMIT = 1e-6  # cells; the Parallel Research Kernels' epsilon
REFERENCE_CELLS, REFERENCE_UPDATES = 1 << 18, 1 << 22  # largest problem that is solved again
POSITIONAL = (
    "STEPS L PARTICLES K M GEOMETRIC RHO | SINUSOIDAL | LINEAR ALPHA BETA | PATCH XL XR YB YT"
)


@dataclass(frozen=True)
class PicProblem(BaseProblem):
    """Parameters of PIC. Lengths are in cells, times in steps."""

    app: ClassVar[str] = "pic"
    unit: ClassVar[str] = "particles"
    quantities: ClassVar[dict[str, Quantity]] = {
        "particles": Quantity(
            "position, velocity and charge of each particle; the charge of a mesh point is 1 or -1",
            columns=dict(zip(FLOATS, UNITS, strict=True)),
        )
    }
    last_axis_cut: ClassVar[float] = 16.0  # blocks that are cut along x only send to one neighbour
    positional: ClassVar[str] = POSITIONAL
    variants: ClassVar[tuple[Variant, ...]] = Variant("time_tile", 1), Variant("time_tile", "auto")
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "minimal": {
            "size": 12, "particles": 60, "k": 1, "m": -2, "steps": 4, "warmup": 0,
            "distribution": Distribution("geometric", (0.9,)),
            "events": (
                Event("inject", 1, (2, 8, 3, 9), 12, 0, 3),
                Event("remove", 2, (1, 9, 2, 10), fraction=0.5),
            ),
        },
        "tiny": {
            "size": 96, "particles": 3000, "k": 1, "m": -2, "steps": 20, "warmup": 2,
            "distribution": Distribution("geometric", (0.96,)),
            "events": (
                Event("inject", 3, (20, 50, 30, 70), 500, 0, 3),
                Event("remove", 9, (40, 90, 10, 47), fraction=0.5),
            ),
        },
        "small": {"size": 1000, "particles": 200_000, "steps": 100, "warmup": 10},
        "large": {"size": 5998, "particles": 20_000_000, "steps": 100, "warmup": 10},
        "paper": {"size": 2998, "particles": 600_000, "steps": 1000, "warmup": 0},
        "demo": {"size": 1000, "particles": 1_000_000, "steps": 100, "warmup": 10},
        "uneven": {
            "size": 7998, "particles": 1_000_000, "m": 1, "steps": 300, "warmup": 10,
            "distribution": Distribution("geometric", (0.999,)),
        },
    }  # fmt: skip

    size: int = parameter("--size", 1000, int, "cells along each axis, L; even")
    particles: int = parameter("--particles", 100_000, int, "number of particles, about")
    k: int = parameter("-k", 0, int, "each step moves 2k + 1 cells along x")
    m: int = parameter("-m", 1, int, "each step moves m cells along y")
    distribution: Distribution = parameter(
        "--distribution",
        Distribution("geometric", (0.999,)),
        Distribution.parse,
        "geometric:RHO, sinusoidal, linear:ALPHA,BETA or patch:XL,XR,YB,YT; RHO and BETA above 0, "
        "ALPHA at most BETA; neither inf nor nan",
    )
    events: tuple[Event, ...] = parameter(
        "--event",
        (),
        Event.parse,
        "inject:STEP:N:XL,XR,YB,YT[:K,M] or remove:STEP:XL,XR,YB,YT[:FRACTION]; FRACTION from 0 to "
        "1, not nan; repeatable",
        repeated=True,
    )
    time_tile: int | str = parameter(
        "--time-tile", 1, integer_or_auto, f"steps per exchange, or auto: up to {USUAL_TILE}"
    )

    def __post_init__(self) -> None:
        require(
            self.size >= 2 and self.size % 2 == 0, "--size", self.size, "must be even, 2 or more"
        )
        require(self.size <= 1 << 31, "--size", self.size, "must be at most 2^31")
        require(self.particles >= 1, "--particles", self.particles, "must be 1 or more")
        require(self.k >= 0, "-k", self.k, "must be 0 or more")
        require_tile(self.time_tile)
        self.distribution.check(self.size)
        for event in self.events:
            event.check(self.size)

    @classmethod
    def from_positional(cls, words: list[str]) -> dict[str, Any]:
        """Values of fields, steps and warm-up from the Parallel Research Kernels' command line.

        As in those, one more step is made than requested: the first, which is not timed. Raises
        InputError.
        """
        try:
            names = "steps", "size", "particles", "k", "m"
            given = dict(zip(names, map(integer, words[:5]), strict=True))
            name, *numbers = words[5:]
            text = f"{name}:{','.join(numbers)}" if numbers else name
            distribution = Distribution.parse(text)
        except ValueError:
            raise InputError("pic", " ".join(words), f"must be {POSITIONAL}") from None
        return given | {"warmup": 1, "distribution": distribution}

    @property
    def shape(self) -> tuple[int, ...]:
        """The grid of cells."""
        return self.size, self.size

    @cached_property
    def ordered_events(self) -> tuple[Event, ...]:
        """The events in the order in which they happen."""
        return tuple(sorted(self.events, key=lambda event: event.step))

    @cached_property
    def motions(self) -> tuple[Motion, ...]:
        """The motions of the initial particles and of those of each event, removals included."""
        given = [
            Motion(
                self.k if event.k is None else event.k,
                self.m if event.m is None else event.m,
                event.step,
            )
            for event in self.ordered_events
        ]
        return Motion(self.k, self.m, 0), *given

    def shifts(self, step: int) -> np.ndarray:
        """Cells that particles of each motion have moved before ``step``: (motions, 2) int64."""
        shifts = [motion.shift(step) for motion in self.motions]
        return np.array(shifts, np.int64) % self.size

    def movers(self) -> list[tuple[Motion, Event | None]]:
        """The motions of the initial particles (None), and of those of each injection."""
        given = zip(self.motions, (None, *self.ordered_events), strict=True)
        return [(motion, event) for motion, event in given if not event or event.action == "inject"]

    def moves(self) -> set[tuple[int, int]]:
        """All moves that particles make in a step, in cells along x and y."""
        return {motion.shift(motion.born + 1) for motion, _ in self.movers()}

    def charge(self, k: int) -> float:
        """The charge with which the mesh moves a particle 2k + 1 cells in each step.

        Each of the corners' unit charges, at distance r, pulls with cos / r^2; a step moves the
        particle by half its acceleration.
        """
        r = math.sqrt(0.5)
        return (2 * k + 1) / (2 * (0.5 / r) / r**2)

    def prepared(self, layout: Layout, device: str, measure: bool = False) -> Self:
        """The problem with its steps per exchange set, if particles can move on these blocks.

        Raises InputError unless blocks are at least 2k cells wide and abs(m) high, or if in one
        round particles would move farther than to the next block.
        """
        narrowest, lowest = (min(layout.widths(axis)) for axis in (0, 1))
        for motion, event in self.movers():
            k, m = motion.k, motion.m
            wide = f"blocks must be 2k = {2 * k} cells wide, one is {narrowest}"
            high = f"blocks must be {abs(m)} cells high, one is {lowest}"
            require(narrowest >= 2 * k, "--event" if event else "-k", event or k, wide)
            require(lowest >= abs(m), "--event" if event else "-m", event or m, high)
        along_x, along_y = zip(*self.moves(), strict=True)
        limits = (narrowest + 1) // max(along_x), lowest // max(1, *map(abs, along_y))
        cut = [limit for limit, blocks in zip(limits, layout.grid, strict=True) if blocks > 1]
        return dataclasses.replace(self, time_tile=self._tile(cut))

    def _tile(self, cut: list[int]) -> int:
        """Steps per exchange, within the limits of the axes that are cut. Raises InputError."""
        asked = USUAL_TILE if self.time_tile == "auto" else int(self.time_tile)
        most = max(1, min(cut, default=asked))
        within = f"must be at most {most} here, or particles go farther than to the next block"
        require(asked <= most or self.time_tile == "auto", "--time-tile", asked, within)
        return min(asked, most)

    def steps_per_round(self, step: int) -> int:
        """The steps per exchange, or fewer up to the next event."""
        later = [event.step - step for event in self.events if event.step > step]
        return min([int(self.time_tile), *later])

    def check_steps(self, steps: int) -> None:
        """Raise InputError if an event comes after the last of ``steps`` steps."""
        for event in self.events:
            require(event.step < steps, "--event", event, f"the run makes steps 0 to {steps - 1}")

    def least_bytes(self) -> float:
        """The mesh, and eight arrays of all particles at the start, or of an injection."""
        particles = max([self.particles, *(event.particles for event in self.events)])
        return 64.0 * particles + self.size**2

    def work(self) -> float:
        """The requested number of particles, each moved once per step."""
        return float(self.particles)

    def work_done(self, first: int, end: int, measures: dict[str, Measure]) -> float:
        """The number of particles present in each step, added up over the steps."""
        done = float(measures["placed"].value * (end - first))
        for number, event in enumerate(self.ordered_events):
            came = event.particles - int(measures["removed"].value[number, 0])
            done += came * max(0, end - max(first, event.step))
        return done

    def results(self, measures: dict[str, Measure]) -> dict[str, Any]:
        """The initial number of particles."""
        return {"particles_placed": int(measures["placed"].value)}

    @classmethod
    def lines(cls, record: dict[str, Any]) -> list[str]:
        """The origin of the initial particles."""
        problem, placed = record["problem"], record["particles_placed"]
        return [
            f"initial positions: {placed} particles at centres of cells, {problem['distribution']}",
            f"initial velocities: 0 cells per step along x, {problem['m']} along y",
        ]

    def weak(self, pes: int) -> Self:
        """As many particles and cells per PE; both axes grow, L to an even number."""
        size = 2 * round(self.size * math.sqrt(pes) / 2)
        return dataclasses.replace(self, size=size, particles=self.particles * pes)

    def smaller(self) -> Self:
        """Half the particles in the same cells."""
        return dataclasses.replace(self, particles=self.particles // 2)

    def parameters(self) -> dict[str, Any]:
        """The fields as plain data."""
        plain = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        events = [str(event) for event in self.events]
        return plain | {"distribution": str(self.distribution), "events": events}


def validate(
    problem: PicProblem, steps: int, measures: dict[str, Measure], state_hash: str
) -> list[Check]:
    """Validate a finished run: the position of every particle, and the ids that must be present.

    Which particles a removal had to take was computed when they were created, in integer
    arithmetic. The sums of all ids ever created are computed here. Sums of mixed ids detect what
    a sum of ids does not: one id present twice and another one missing.
    """
    happened = [event.step < steps for event in problem.ordered_events]
    events = list(zip(problem.ordered_events, happened, strict=True))
    born = measures["placed"].value + sum(event.particles for event, did in events if did)
    sums = kernels.load("state_hash", "cpu").sums_of_first_ids(born)
    due = sums - measures["removed"].value[happened].sum(axis=0, dtype=np.uint64)
    off = [float(np.int64(x)) for x in measures["ids"].value - due]
    starts = measures["starts"].value
    exchanged = starts[1:2] + starts[2:][happened].sum(dtype=np.uint64) - starts[:1]
    checks = [
        Check("position error", float(measures["error"].value), POSITION_LIMIT),
        Check("missing particles", abs(off[0]), 0),
        Check("id checksum error", abs(off[1]), 0),
        Check("mixed id checksum error", abs(off[2]), 0),
        Check("start checksum error", abs(float(exchanged.view(np.int64)[0])), 0),
    ]
    small = problem.size**2 <= REFERENCE_CELLS and born * steps <= REFERENCE_UPDATES
    if small:
        right = reference_hash(problem, steps)
        checks.append(Check("differs from reference", float(right != state_hash), 0))
    return checks
