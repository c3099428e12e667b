"""Compares a replay with the placements that the runtime chose in the same run."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

import numpy as np

from miniapps.parameters import InputError
from miniapps.workbench.replay.names import RUNTIME
from miniapps.workbench.replay.strategies import place
from miniapps.workbench.show.saved import SavedRun

MOST_PES = 6  # of which every order is tried


@dataclass(frozen=True)
class Agreement:
    """A load-balancing step: how many of its ``blocks`` the replay puts ``elsewhere``."""

    step: int
    blocks: int
    elsewhere: int


def agreements(run: SavedRun) -> list[Agreement]:
    """Replay each load-balancing step of a run from the loads that the runtime saw.

    The order in which the loads of the PEs came to the runtime's root is not recorded. It decides
    which PE is which if several have equal load, so the order that agrees best counts. Raises
    InputError if the run has no such loads.
    """
    balancer = run.record["balancer"]
    if run.loads is None or balancer not in RUNTIME:
        lacks = f"has no loads of a runtime's balancer, one of {', '.join(RUNTIME)}"
        raise InputError("--own", run.command(), lacks)
    if run.record["pes"] > MOST_PES:
        raise InputError("--own", run.record["pes"], f"at most {MOST_PES} PEs")
    found = []
    for step in np.unique(run.loads["step"]).tolist():
        seen, chosen = choice_of(run, step)
        count = placed_elsewhere(balancer, seen, chosen, run.record["pes"])
        found.append(Agreement(step, len(seen), count))
    return found


def choice_of(run: SavedRun, step: int) -> tuple[np.ndarray, np.ndarray]:
    """The loads that the runtime saw before ``step``, as `LOAD`, and where it put these blocks."""
    assert run.loads is not None
    seen = run.loads[run.loads["step"] == step]
    after = run.rows[run.rows["round"] == np.searchsorted(run.rounds[:, 0], step)]
    chosen = np.full(run.blocks, -1)
    chosen[after["block"]] = after["pe"]
    return seen, chosen[seen["block"]]


def placed_elsewhere(balancer: str, seen: np.ndarray, chosen: np.ndarray, pes: int) -> int:
    """How many blocks a replay puts on another PE than the runtime, which has ``chosen`` theirs.

    ``seen``: the loads, as `LOAD`.
    """
    counts = []
    for arrival in permutations(range(pes)):
        order = np.concatenate([np.flatnonzero(seen["pe"] == pe) for pe in arrival])
        loads, old = seen["load_s"][order], seen["pe"][order]
        placed = place(balancer, loads, old, pes, np.array(arrival))
        counts.append(int((placed != chosen[order]).sum()))
    return min(counts)
