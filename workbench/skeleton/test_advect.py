"""Tests of Advect: the same bits from all drivers, and checks that find a wrong program."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np

from miniapps import drivers
from miniapps.contract import Check, Collect, Post, combine
from miniapps.devices.backend import Device
from miniapps.devices.messages import packed
from miniapps.drivers.engine import Engine
from miniapps.drivers.outcome import measured
from miniapps.kernels.state_hash import digest

from . import Block, Problem, validate


class WrongBlock(Block):
    """A block that takes its halo from the wrong side."""

    def step(self, count: int) -> Generator[Any, Any, bool]:
        """Carry the profile the other way."""
        yield Post("halo", {(-1,): packed(self.u[:1])})
        halo = yield Collect("halo", ((1,),))
        above = np.concatenate([self.u[1:], halo[(1,)]])
        self.u = self.u - self.problem.courant * (self.u - above)
        return False


def checks_of(block: Any, steps: int = 20) -> list[Check]:
    """The checks of a run of three such blocks in this process."""
    problem = Problem(size=(101,))
    layout = problem.cut(3, 1, None)
    engine = Engine([block(problem, layout, index, Device()) for index in layout.indices()])
    for step in range(steps):
        engine.round(step, 1)
    measures = combine(*[measured(block, None) for block in engine.blocks])
    return validate(problem, steps, measures, digest(measures.pop("words").value))


def test_right_program_is_valid() -> None:
    """Catches checks that no program passes."""
    assert all(check.ok for check in checks_of(Block))


def test_every_check_finds_a_wrong_program() -> None:
    """Catches checks that cannot fail."""
    assert not any(check.ok for check in checks_of(WrongBlock))


def test_same_bits_from_all_drivers() -> None:
    """Catches a result that depends on the driver or on the blocks, and blocks that do not pickle.

    `miniapps verify advect` tries many more decompositions.
    """
    cut = {driver.name: "--pe-grid 3" if driver.one_pe else "-n 2" for driver in drivers.usable()}
    lines = [f"run advect --preset tiny --driver {name} {how}" for name, how in cut.items()]
    command = [sys.executable, "-m", "miniapps.workbench.cli", "batch", "-"]
    folder = {"MINIAPPS_PATH": str(Path(__file__).parents[1])}
    done = subprocess.run(
        command, input="\n".join(lines), env=os.environ | folder, text=True, stdout=subprocess.PIPE
    )
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(records) == len(lines) and all(record["valid"] for record in records)
    assert len({record["state_hash"] for record in records}) == 1
