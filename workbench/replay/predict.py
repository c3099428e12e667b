"""Predicts the time per step of a run on other PEs, with another balancer or period.

A round takes as long as its heaviest PE: the compute times of its blocks, as recorded, and what its
messages to and from other PEs cost. A load-balancing step costs time too. `Costs` has these costs.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from miniapps.drivers.descriptor import Balancing
from miniapps.drivers.timing import imbalance
from miniapps.workbench.replay.costs import Costs
from miniapps.workbench.replay.names import OPTIMAL
from miniapps.workbench.replay.recorded import Edges, Recorded
from miniapps.workbench.replay.strategies import place


@dataclass(frozen=True)
class Choice:
    """What may be chosen.

    ``period`` in steps, 0 where nothing is balanced; ``odf``: blocks per PE, which is no integer if
    the PEs have unequal numbers of them.
    """

    pes: int
    odf: float
    balancer: str
    period: int


@dataclass(frozen=True)
class Prediction:
    """What a choice would have done.

    ``step_s``: mean time per step, s; ``imbalance``: of the compute times, as in a record;
    ``moved``: blocks that migrate, and ``moved_bytes``, None if their sizes are not known;
    ``lb_steps``: load-balancing steps.
    """

    step_s: float
    imbalance: float
    moved: int
    moved_bytes: int | None
    lb_steps: int


class Machine:
    """The PEs of a replay, and where the blocks of a run are on them."""

    def __init__(self, run: Recorded, pes: int, costs: Costs) -> None:
        self.run, self.pes, self.costs = run, pes, costs
        self.move(run.homes(pes))

    def move(self, placed: np.ndarray) -> None:
        """Put the blocks on PEs; ``placed`` (blocks,)."""
        self.placed = placed
        self.message_s = np.zeros(self.pes)
        if self.run.edges is not None and (self.costs.message_s or self.costs.byte_s):
            seconds = message_seconds(self.run.edges, placed, self.pes, self.costs)
            self.message_s = seconds / len(self.run.rounds)

    def computes(self, at: int) -> np.ndarray:
        """The compute time of each PE in a round, s."""
        return np.bincount(self.placed, self.run.loads[at], self.pes)

    def balance(self, balancer: str, since: int, at: int) -> tuple[int, int, float]:
        """Balance the loads of the rounds from ``since`` to before ``at``.

        Returns the number of blocks that move, their bytes, and what that costs, s.
        """
        old, loads = self.placed, self.run.loads[since:at].sum(axis=0)
        order = np.argsort(old, kind="stable")  # the runtime lists blocks by PE
        new = np.empty_like(old)
        new[order] = place(balancer, loads[order], old[order], self.pes)
        gone = new != old
        sizes = np.zeros(len(old)) if self.run.sizes is None else self.run.sizes
        cost_s = (self.costs.migrated_byte_s or 0.0) * busiest_bytes(old, new, sizes, self.pes)
        self.move(new)
        return int(gone.sum()), int(sizes[gone].sum()), cost_s + (self.costs.balancing_s or 0.0)


def busiest_bytes(old: np.ndarray, new: np.ndarray, sizes: np.ndarray, pes: int) -> float:
    """The most bytes that a PE sends or receives if blocks move from ``old`` PEs to ``new``."""
    gone = new != old
    out, into = (np.bincount(of[gone], sizes[gone], pes) for of in (old, new))
    return float(max(out.max(), into.max()))


def message_seconds(edges: Edges, placed: np.ndarray, pes: int, costs: Costs) -> np.ndarray:
    """What the messages of all rounds cost each PE, s: those to and from other PEs."""
    source, target = placed[edges.sender], placed[edges.receiver]
    away = source != target
    seconds = costs.message_s * edges.messages[away] + costs.byte_s * edges.nbytes[away]
    sent, received = (np.bincount(of[away], seconds, pes) for of in (source, target))
    total: np.ndarray = sent + received
    return total


def predict(run: Recorded, choice: Choice, costs: Costs, first: int | None = None) -> Prediction:
    """What a choice would have done with a run's loads; its blocks are those of the run.

    ``first``: the first load-balancing step; None: after a period.
    """
    if choice.balancer == OPTIMAL:
        return bound(run, choice.pes, costs)
    schedule = Balancing(lb_period=choice.period, lb_first=first if choice.period else None)
    due = schedule.steps_due(run.firsts)
    rounds = len(run.rounds)
    cuts = np.searchsorted(run.rounds[:, 0], due).tolist()
    machine, heaviest, mean = Machine(run, choice.pes, costs), np.zeros(rounds), 0.0
    busiest = np.zeros(rounds)
    moved, nbytes, balancing_s, since = 0, 0, 0.0, 0
    for begin, end in pairwise([0, *cuts, rounds]):
        if begin:
            blocks, size, cost_s = machine.balance(choice.balancer, since, begin)
            moved, nbytes, balancing_s = moved + blocks, nbytes + size, balancing_s + cost_s
            since = begin
        for at in range(begin, end):
            computes = machine.computes(at)
            heaviest[at] = (computes + machine.message_s).max()
            busiest[at] = computes.max()
            mean += float(computes.mean())
    total_s = float(heaviest.sum()) + balancing_s
    return Prediction(
        total_s / run.steps + (costs.step_s or 0.0),
        float(busiest.sum()) / mean if mean else 1.0,
        moved,
        None if run.sizes is None else nbytes,
        len(due),
    )


def bound(run: Recorded, pes: int, costs: Costs) -> Prediction:
    """The lower bound of any placement: in each round the mean load, or the largest block."""
    mean = run.loads.sum(axis=1) / pes
    most = np.maximum(mean, run.loads.max(axis=1))
    ratio = float(most.sum() / mean.sum()) if mean.any() else 1.0
    return Prediction(float(most.sum()) / run.steps + (costs.step_s or 0.0), ratio, 0, None, 0)


def costs_of(run: Recorded, given: Costs) -> Costs:
    """The costs that a run shows, but for those that are given.

    ``balancing_s`` and ``migrated_byte_s``: see `balancing_costs`. ``step_s``: what a step took
    beyond the computing and the messages of its heaviest PE; 0 if it had one PE.
    """
    balancing_s, migrated_byte_s = balancing_costs(run)
    step_s = 0.0
    if run.record["pes"] > 1:
        spent_s = own_seconds(run, given) + sum(entry["seconds"] for entry in run.record["lb"])
        step_s = max(0.0, run.wall_s - spent_s) / run.steps
    return given.known(balancing_s=balancing_s, migrated_byte_s=migrated_byte_s, step_s=step_s)


def balancing_costs(run: Recorded) -> tuple[float, float]:
    """What a load-balancing step of a run cost: s, and s per byte of the busiest PE.

    The first is the median of the steps in which no block moved, 0 if there is none; the rest of
    the time of all others, over their bytes, is the second. If sizes of blocks are not known, the
    first is the median of all steps.
    """
    steps = [(entry["seconds"], *_around(run, entry["step"])) for entry in run.record["lb"]]
    if run.sizes is None:
        return (float(np.median([s for s, *_ in steps])) if steps else 0.0), 0.0
    pes = run.record["pes"]
    moved = [(s, busiest_bytes(old, new, run.sizes, pes)) for s, old, new in steps]
    still_s = [s for s, nbytes in moved if not nbytes]
    balancing_s = float(np.median(still_s)) if still_s else 0.0
    total = sum(nbytes for _, nbytes in moved)
    rest_s = sum(s - balancing_s for s, nbytes in moved if nbytes)
    return balancing_s, max(0.0, rest_s) / total if total else 0.0


def _around(run: Recorded, step: int) -> tuple[np.ndarray, np.ndarray]:
    """The PE of each block in the rounds before and after a load-balancing step."""
    after = min(int(np.searchsorted(run.rounds[:, 0], step)), len(run.pes) - 1)
    return run.pes[max(0, after - 1)], run.pes[after]


def own_seconds(run: Recorded, costs: Costs) -> float:
    """The time of the heaviest PE, summed over the rounds, with the blocks where they were."""
    machine, total = Machine(run, run.record["pes"], costs), 0.0
    for at, placed in enumerate(run.pes):
        if not np.array_equal(placed, machine.placed):
            machine.move(placed)
        total += float((machine.computes(at) + machine.message_s).max())
    return total


def own_imbalance(run: Recorded) -> float:
    """The imbalance of the run as it was."""
    pes = run.record["pes"]
    computes = [np.bincount(p, of, pes) for p, of in zip(run.pes, run.loads, strict=True)]
    return imbalance(np.array(computes).T)
