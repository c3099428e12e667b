"""Runs that continue from a checkpoint on other blocks and devices, all in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import support

from miniapps.decomposition import Layout
from miniapps.devices import backend
from miniapps.devices.backend import Device
from miniapps.drivers.checkpoints import write_blocks
from miniapps.drivers.engine import Engine
from miniapps.drivers.lives import Lives
from miniapps.drivers.shares import Share
from miniapps.workbench.run.checkpoint import Hdf5Checkpoints, read_checkpoint


class Leg(NamedTuple):
    """A part of a run: its grid of blocks, their device, and how many steps it makes."""

    grid: tuple[int, ...]
    device: str
    steps: int


def engine_of(
    make: Callable[..., Any], problem: Any, layout: Layout, where: Device, step: int
) -> Engine:
    """An engine with all blocks, or with those that exist before a step."""
    if problem.kinds_at(0) is None:
        return Engine([make(at, where) for _, at in layout.numbers])
    lives = Lives(problem, list(layout.numbers), lambda at: make(at, where), step)
    return Engine([], lives=lives)


def final_state(make: Callable[..., Any], problem: Any, legs: Iterable[Leg], file: Path) -> str:
    """The hash of the state after the legs; each of them resumes the checkpoint of the last.

    ``make``: the app's ``Block``.
    """
    step, saved = 0, None
    for grid, device, steps in legs:
        layout, where = support.layout_of(problem, grid), backend.get(device)
        prepared = problem.prepared(layout, device)
        engine = engine_of(partial(make, prepared, layout), prepared, layout, where, step)
        for place, runner in engine.runners.items():
            number = layout.numbers[place]
            runner.saved = None if saved is None else saved.state.for_block(number)
        engine.setup()
        for _ in range(steps):
            engine.round(step, 1)
            step += 1
            engine.drop_before(step)
        writer = Hdf5Checkpoints(file, 1, 1, {"resumed": []})
        writer.create(step, False, Share.joined([Share.of(engine.blocks)]))
        write_blocks(writer, engine.blocks)
        writer.finish()
        saved = read_checkpoint("", file)
        saved.verify()
    assert saved is not None
    return saved.state.state_hash


def require_continued(
    make: Callable[..., Any], problem: Any, legs: Sequence[Leg], folder: Path
) -> None:
    """Assert that the legs end in the state of a run of as many steps in one part on the CPU."""
    whole = Leg((1,) * len(legs[0].grid), "cpu", sum(leg.steps for leg in legs))
    found = [final_state(make, problem, made, folder / "c.h5") for made in ([whole], legs)]
    assert found[0] == found[1]
