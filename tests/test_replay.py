"""`miniapps replay`: placements by hand and those of the runtime, predictions, files and lists."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import balanced_runs
import h5py
import numpy as np
import pytest
import support
from test_drawn_runs import by_hand

from miniapps.drivers.engine import Transport
from miniapps.drivers.timing import LOAD, SENT, SIZE, SYNC
from miniapps.parameters import InputError
from miniapps.workbench.cli import main
from miniapps.workbench.exit_status import VALID, WRONG
from miniapps.workbench.replay import command, options
from miniapps.workbench.replay.agreement import agreements, placed_elsewhere
from miniapps.workbench.replay.command import Row, ranked, sentence
from miniapps.workbench.replay.costs import Costs
from miniapps.workbench.replay.names import RUNTIME
from miniapps.workbench.replay.predict import (
    Choice,
    Prediction,
    busiest_bytes,
    costs_of,
    own_imbalance,
    predict,
)
from miniapps.workbench.replay.recorded import Edges, Recorded
from miniapps.workbench.replay.strategies import place
from miniapps.workbench.show.saved import SavedRun
from miniapps.workbench.show.saved_claims import broken_claim

# Placements ---------------------------------------------------------------------------------------

LOADS = np.array([4.0, 3.0, 2.0, 1.0])
OLD = np.array([0, 0, 1, 1])
# Greedy: 4 to PE 1, which the heap of two equal PEs has on top; 3 to PE 0; 2 to PE 0, which has 3;
# 1 to PE 1, which has 4. So no PE has more than 5. GreedyRefine: 4 stays; 3 would make 7; 2 stays,
# as 3 + 2 is not above 5; 1 would make 6. RefineA, RefineB: only 3 can leave PE 0, and makes 6.
BY_HAND = {
    "Greedy": [1, 0, 0, 1],
    "GreedyRefine": [0, 1, 1, 0],
    "RefineA": [0, 1, 1, 1],
    "RefineB": [0, 1, 1, 1],
    "Rotate": [1, 1, 0, 0],
}


@pytest.mark.parametrize("balancer", RUNTIME)
def test_placements_by_hand(balancer: str) -> None:
    """Catches a strategy that takes blocks in another order, or another PE."""
    assert place(balancer, LOADS, OLD, 2).tolist() == BY_HAND[balancer]


def test_the_first_pe_to_report_gets_the_block_that_another_would() -> None:
    """Catches a replay that takes equal PEs in the order of their numbers only."""
    assert place("Greedy", LOADS, OLD, 2, np.array([1, 0])).tolist() == [0, 1, 1, 0]


def test_pes_of_equal_load_by_hand() -> None:
    """Catches heaps with another order of equal loads, worked out by hand from the sources.

    The C++ library's heap of three equal PEs is 2, 1, 0 from the top. GreedyRefine: the block of 5
    stays on PE 1, as 5 is not above Greedy's 5. The heap is then 0, 3, 2 and 1. After 4 has gone to
    PE 0, PE 1 sinks from the top, and of the equal PEs 3 and 2 below it the latter rises.
    """
    assert place("Greedy", np.array([3.0, 2, 1]), np.zeros(3, int), 3).tolist() == [2, 1, 0]
    loads = np.array([5.0, 4, 3, 2])
    assert place("GreedyRefine", loads, np.ones(4, int), 4).tolist() == [1, 0, 2, 3]


def test_refine_a_takes_the_first_pe_with_room_and_b_the_emptiest() -> None:
    """Catches RefineA by a heap, and RefineB by a list: PE 0 gives 2 away, to PE 1 or to PE 2."""
    loads, old = np.array([4.0, 2.0, 1.5, 1.0]), np.array([0, 0, 1, 2])
    assert place("RefineA", loads, old, 3).tolist() == [0, 1, 1, 2]
    assert place("RefineB", loads, old, 3).tolist() == [0, 2, 1, 2]


def test_loads_are_of_single_precision() -> None:
    """Catches sums in double precision: 2^-26 is lost beside 1 - 2^-24, which stays the least."""
    loads = np.array([1.0, 1.0 - 2.0**-24, *[2.0**-26] * 10])
    placed = place("Greedy", loads, np.zeros(12, int), 2)
    assert placed[0] != placed[1] and set(placed[1:]) == {placed[1]}


@pytest.mark.parametrize("pes", [1, 2, 3, 5, 16, 37])
def test_greedy_is_as_a_search_for_the_least_load(pes: int) -> None:
    """Catches a heap that loses a PE, or whose top is not the least load."""
    loads = np.random.default_rng(pes).lognormal(size=200)
    placed = place("Greedy", loads, np.zeros(200, int), pes)
    expected = np.zeros(pes, np.float32)
    for load in -np.sort(-loads.astype(np.float32)):
        expected[expected.argmin()] += load
    assert np.allclose(np.sort(np.bincount(placed, loads, pes)), np.sort(expected), rtol=1e-5)


@pytest.mark.parametrize("balancer", ["RefineA", "RefineB", "GreedyRefine"])
def test_refining_is_as_good_as_greedy_and_moves_less(balancer: str) -> None:
    """Catches lists of blocks that lose one, and a threshold that is not searched for."""
    draw = np.random.default_rng(3)
    loads, old = draw.lognormal(sigma=0.3, size=1000), np.arange(1000) * 20 // 1000
    greedy, placed = (place(name, loads, old, 20) for name in ("Greedy", balancer))
    most = [float(np.bincount(where, loads, 20).max()) for where in (old, greedy, placed)]
    assert most[1] <= most[2] * 1.0001 <= 1.03 * most[1] < most[0]
    assert (placed != old).sum() < 0.5 * (greedy != old).sum()


RUNS = balanced_runs.read()


def test_the_runtime_s_own_placements() -> None:
    """Catches a replay that is not the runtime's strategy, in 20 runs and more of each kind."""
    steps, blocks = Counter[str](), Counter[str]()
    for run in RUNS:
        for step in run["steps"]:
            seen, chosen = balanced_runs.table(step), np.array(step["chosen"])
            elsewhere = placed_elsewhere(run["balancer"], seen, chosen, run["pes"])
            assert elsewhere == 0, (run["app"], run["balancer"], step["step"])
            steps[run["balancer"]] += 1
            blocks[run["balancer"]] += len(chosen)
    assert len(RUNS) >= 30 and set(steps) == set(RUNTIME)
    assert min(steps.values()) >= 20 and min(blocks.values()) >= 300


@pytest.mark.parametrize("balancer", RUNTIME)
def test_another_strategy_places_the_runtime_s_blocks_elsewhere(balancer: str) -> None:
    """Catches data on which any strategy would do."""
    runs = [run for run in RUNS if run["balancer"] == balancer]
    for other in set(RUNTIME) - {balancer} - ({"RefineA", "RefineB"} if balancer[:-1] == "Refine"
                                              else set()):  # fmt: skip
        assert any(
            placed_elsewhere(other, balanced_runs.table(step), np.array(step["chosen"]), run["pes"])
            for run in runs
            for step in run["steps"]
        )


# Predictions --------------------------------------------------------------------------------------

EDGES = Edges(np.array([0, 1, 2]), np.array([1, 2, 1]), np.array([8, 4, 4]), np.full(3, 400))


def run(**more: Any) -> Recorded:
    """Four blocks on two PEs, with the loads above in each of four rounds of a step."""
    record = {"pes": 2, "lb": [], "blocks": [2, 2], "extent": [4.0, 3.0]}
    usual: dict[str, Any] = {
        "record": record,
        "rounds": np.array([[n, 1] for n in range(4)]),
        "loads": np.tile(LOADS, (4, 1)),
        "pes": np.tile(OLD, (4, 1)),
        "sizes": np.array([10, 20, 30, 40]),
        "edges": EDGES,
        "grid": (2, 2),
        "wall_s": 30.0,
    }
    return Recorded(**(usual | more))


COSTS = Costs(balancing_s=0.5, step_s=0.25)


@pytest.mark.parametrize(
    ("balancer", "period", "expected"),
    [
        ("none", 0, Prediction(7.25, 1.4, 0, 0, 0)),
        ("Greedy", 2, Prediction((7 + 7 + 5 + 5 + 0.5) / 4 + 0.25, 1.2, 2, 40, 1)),
        ("Greedy", 1, Prediction((7 + 5 + 5 + 5 + 1.5) / 4 + 0.25, 1.1, 2, 40, 3)),
        ("GreedyRefine", 2, Prediction((7 + 7 + 5 + 5 + 0.5) / 4 + 0.25, 1.2, 2, 60, 1)),
        ("RefineB", 2, Prediction((7 + 7 + 6 + 6 + 0.5) / 4 + 0.25, 1.3, 1, 20, 1)),
        ("Rotate", 3, Prediction((7 * 4 + 0.5) / 4 + 0.25, 1.4, 4, 100, 1)),
        ("Greedy", 4, Prediction(7.25, 1.4, 0, 0, 0)),  # never after the last round
        ("optimal", 0, Prediction(5.25, 1.0, 0, None, 0)),
    ],
)
def test_predictions_by_hand(balancer: str, period: int, expected: Prediction) -> None:
    """Catches a wrong time, imbalance, number of moves or bytes, or balancing at another step."""
    found = predict(run(), Choice(2, 2, balancer, period), COSTS)
    assert found.step_s == pytest.approx(expected.step_s)
    assert found.imbalance == pytest.approx(expected.imbalance)
    rest = "moved", "moved_bytes", "lb_steps"
    assert all(getattr(found, name) == getattr(expected, name) for name in rest)


def test_the_bound_is_the_largest_block_if_that_has_more_than_the_mean() -> None:
    """Catches a bound below what any placement reaches: on four PEs one has a load of 4."""
    found = predict(run(), Choice(4, 1, "optimal", 0), COSTS)
    assert (found.step_s, found.imbalance) == (4.25, 1.6)


@pytest.mark.parametrize("balancer", RUNTIME)
@pytest.mark.parametrize("pes", [2, 3, 7])
def test_no_placement_is_below_the_bound(balancer: str, pes: int) -> None:
    """Catches a bound that is none, or a time that lacks a PE."""
    loads = np.random.default_rng(5).lognormal(size=(6, 40))
    some = run(
        loads=loads,
        rounds=np.array([[2 * n, 2] for n in range(6)]),
        pes=np.zeros((6, 40), int),
        sizes=None,
        edges=None,
        grid=(8, 5),
    )
    found, bound = (
        predict(some, Choice(pes, 40 / pes, name, 4), COSTS) for name in (balancer, "optimal")
    )
    assert found.step_s > bound.step_s and found.lb_steps == 2
    assert found.moved_bytes is None


def test_a_balancer_sees_the_loads_since_the_last_step() -> None:
    """Catches loads of all rounds, or of the last one only: in both, the blocks would move."""
    loads = np.array([[9.0, 9, 1, 1], [1.0, 1, 1, 1], [1.0, 1, 3, 3], [3.0, 3, 1, 1]])
    found = predict(run(loads=loads), Choice(2, 2, "RefineB", 2), replace(COSTS, step_s=0))
    assert found.moved == 1
    loads = np.array([[1.0, 1, 3, 3], [3.0, 3, 1, 1], [9.0, 9, 1, 1], [9.0, 9, 1, 1]])
    found = predict(run(loads=loads), Choice(2, 2, "RefineB", 2), replace(COSTS, step_s=0))
    assert found.moved == 0


def test_messages_between_pes_cost_both() -> None:
    """Catches messages within a PE that cost, and costs of one side: 1 -> 2 and 2 -> 1 cross.

    Each is 4 messages and 400 B in 4 rounds: 0.4 s and 0.4 s, for both PEs. If block 1 is on PE 0
    and 2 too, as Greedy puts them, 0 -> 1 crosses instead: 0.8 s and 0.4 s.
    """
    costs = Costs(message_s=0.1, byte_s=0.001, balancing_s=0.0, step_s=0.0)
    found = predict(run(), Choice(2, 2, "none", 0), costs)
    assert found.step_s == pytest.approx(7 + 2 * (0.4 + 0.4) / 4)
    assert found.imbalance == pytest.approx(1.4)
    found = predict(run(), Choice(2, 2, "Greedy", 2), costs)
    assert found.step_s == pytest.approx((2 * 7.4 + 2 * (5 + (0.8 + 0.4) / 4)) / 4)


def test_migration_costs_the_pe_that_sends_or_receives_most() -> None:
    """Catches bytes of all PEs together: PE 0 sends 10 and gets 30 B, PE 1 the other way round."""
    costs = Costs(migrated_byte_s=0.1, balancing_s=0.0, step_s=0.0)
    found = predict(run(), Choice(2, 2, "Greedy", 2), costs)
    assert found.step_s == pytest.approx((7 + 7 + 5 + 5 + 3.0) / 4)


def test_the_busiest_pe_sends_or_receives() -> None:
    """Catches the PE that receives most where another sends more, and the other way round."""
    apart, together, sizes = np.array([1, 2, 2]), np.array([0, 0, 0]), np.array([10, 20, 30])
    assert busiest_bytes(together, apart, sizes, 3) == 60
    assert busiest_bytes(apart, together, sizes, 3) == 60


def test_the_first_step_of_balancing() -> None:
    """Catches a first load-balancing step that is not the one given, or without any balancing."""
    found = predict(run(), Choice(2, 2, "Greedy", 2), COSTS, first=1)
    assert (found.lb_steps, found.step_s) == (2, (7 + 5 + 5 + 5 + 1.0) / 4 + 0.25)
    assert predict(run(), Choice(2, 2, "none", 0), COSTS, first=1).lb_steps == 0


def test_blocks_without_load_are_balanced() -> None:
    """Catches an imbalance of 0 over 0, and seconds per step that nobody has given."""
    idle = run(loads=np.zeros((4, 4)))
    for name, period in (("Greedy", 2), ("optimal", 0)):
        found = predict(idle, Choice(2, 2, name, period), Costs())
        assert (found.step_s, found.imbalance) == (0.0, 1.0)


def test_costs_of_a_run() -> None:
    """Catches overheads that count computing or balancing, too, and costs given in vain."""
    saved = by_hand()  # PEs of 7, 9 and 9 ms per step in rounds of 1, 2 and 4 steps; 120 ms in all
    for entry, seconds in zip(saved.record["lb"], (0.001, 0.002, 0.006), strict=True):
        entry["seconds"] = seconds
    recorded = Recorded.of(saved)
    found = costs_of(recorded, Costs(message_s=1.0))
    assert found.balancing_s == 0.002
    assert found.step_s == pytest.approx((0.120 - 0.061 - 0.009) / 7)
    assert found.message_s == 1.0
    given = Costs(balancing_s=3.0, migrated_byte_s=0.0, step_s=0.0)
    assert costs_of(recorded, given) == given
    alone = replace(recorded, record=recorded.record | {"pes": 1, "lb": []})
    assert (costs_of(alone, Costs()).balancing_s, costs_of(alone, Costs()).step_s) == (0.0, 0.0)


def test_costs_of_balancing() -> None:
    """Catches seconds of steps without moves per byte, and bytes of all PEs together.

    Before step 1 nothing moves; before step 2 the blocks of 10 and 30 B change places; before step
    3 all blocks do, 30 B one way and 70 B the other.
    """
    placed = np.array([OLD, OLD, [1, 0, 0, 1], [0, 1, 1, 0]])
    some = run(pes=placed)
    some.record["lb"] = [{"step": n, "seconds": s} for n, s in ((1, 0.5), (2, 3.5), (3, 6.0))]
    found = costs_of(some, Costs())
    assert found.balancing_s == 0.5
    assert found.migrated_byte_s == pytest.approx((3.0 + 5.5) / (30 + 50))
    assert costs_of(some, Costs(migrated_byte_s=1.0)).migrated_byte_s == 1.0
    untraced = costs_of(replace(some, sizes=None), Costs())
    assert (untraced.balancing_s, untraced.migrated_byte_s) == (3.5, 0.0)
    some.record["lb"] = [{"step": n, "seconds": s} for n, s in ((1, 3.5), (2, 0.5))]
    assert costs_of(some, Costs()).migrated_byte_s == 0.0  # moving costs less than standing still
    early, late = run(pes=placed[1:][[0, 1, 1, 1]]), run(pes=placed[1:][[0, 0, 0, 1]])
    for one, step in ((early, 1), (late, 9)):  # 9: after the last round
        one.record["lb"] = [{"step": step, "seconds": 3.0}]
        assert costs_of(one, Costs()).migrated_byte_s == pytest.approx(0.1)
    some.record["lb"] = []
    assert (costs_of(some, Costs()).balancing_s, costs_of(some, Costs()).migrated_byte_s) == (0, 0)


def test_a_run_is_predicted_to_take_as_long_as_it_did() -> None:
    """Catches costs that do not add up to the recorded time."""
    some = run(pes=np.array([OLD, OLD, [1, 0, 0, 1], [1, 0, 0, 1]]))
    some.record["lb"] = [{"step": 2, "seconds": 2.0}]
    costs = costs_of(some, Costs(message_s=0.01))
    found = predict(some, Choice(2, 2, "Greedy", 2), costs)
    assert found.step_s * some.steps == pytest.approx(some.wall_s)
    assert found.imbalance == pytest.approx(own_imbalance(some))


def test_notes_say_what_is_counted() -> None:
    """Catches costs in other units, and waits for a core, which are the run's own, as loads."""
    crowd = {"oversubscribed": True, "host": {"cores": 1}, "pes": 2}
    costs = Costs(balancing_s=0.004, migrated_byte_s=2e-9, step_s=0.001)
    notes = "; ".join(command._notes([run(record=crowd)], [costs], []))
    assert "oversubscribed: 2 PEs on 1 core; loads include waits for a core" in notes
    assert "1.000 ms for all else; a load-balancing step: 4.000 ms, and 2.000 ms per MB" in notes
    assert "recorded: 7,500 ms per step, imbalance 1.400" in notes


# Blocks -------------------------------------------------------------------------------------------


def test_homes_of_blocks() -> None:
    """Catches blocks that begin elsewhere than a run of so many PEs puts them."""
    assert run().homes(2).tolist() == OLD.tolist()  # as recorded
    assert run().homes(4).tolist() == [0, 1, 2, 3]
    assert run().homes(1).tolist() == [0] * 4
    tall = run(grid=(3, 2), pes=np.zeros((4, 6), int), loads=np.ones((4, 6)), record={"pes": 1})
    assert tall.homes(2).tolist() == [0, 0, 1, 1, 1, 1]
    assert replace(tall, grid=None).homes(2).tolist() == [0, 0, 0, 1, 1, 1]
    assert tall.homes(5).tolist() == [0, 0, 1, 2, 3, 4]  # 5 boxes do not fit


def test_blocks_made_of_neighbours() -> None:
    """Catches blocks that are not neighbours in one, and messages within them that remain."""
    half = run().with_blocks(2)  # the domain is longer along axis 0
    assert half.grid == (2, 1) and half.loads[0].tolist() == [7.0, 3.0]
    assert half.sizes is not None and half.sizes.tolist() == [30, 70]
    assert half.pes[0].tolist() == [0, 1]
    assert half.edges is not None
    within = half.edges.sender == half.edges.receiver
    assert half.edges.messages[~within].tolist() == [4, 4]
    found = predict(half, Choice(2, 1, "none", 0), replace(COSTS, message_s=0.1))
    assert found.step_s == pytest.approx(7 + 0.8 / 4 + 0.25)
    assert run().with_blocks(4).loads.tolist() == run().loads.tolist()
    for count, words in ((3, "cannot be made"), (8, "record a run with more")):
        with pytest.raises(InputError, match=words):
            run().with_blocks(count)
    with pytest.raises(InputError, match="cannot be made"):
        run(grid=None).with_blocks(2)


# The command --------------------------------------------------------------------------------------


def test_lists() -> None:
    """Catches a range that misses its ends, and words that no list has."""
    assert (
        options.pe_counts("2..131072")[-1] == 131072 and len(options.pe_counts("2..131072")) == 17
    )
    assert options.pe_counts("3,2..9,4") == [3, 2, 4, 8]
    assert options.balancers("greedy,NONE,optimal") == ["Greedy", "none", "optimal"]
    for wrong in ("", "0", "8..2", "2..", "2.5", "-1", "x"):
        with pytest.raises(ValueError):
            options.pe_counts(wrong)
    with pytest.raises(ValueError, match="Rotate"):
        options.balancers("Greedy,best")


def row(
    step_s: list[float], balancer: str = "Greedy", odf: float = 4, moved: int = 3, lb_steps: int = 1
) -> Row:
    """A row of the table."""
    period = 0 if balancer in ("none", "optimal") else 20
    found = [Prediction(seconds, 1.0, moved, None, lb_steps) for seconds in step_s]
    return Row(Choice(2, odf, balancer, period), found)


def test_the_best_choice_and_its_margin() -> None:
    """Catches the bound as a choice, a margin over another row, and one without its interval."""
    rows = [
        row([2.0, 2.2, 2.1], "none"),
        row([1.0, 1.1, 1.05]),
        row([1.1, 1.2, 1.15], "RefineA"),
        row([0.9, 1.0, 0.95], "optimal"),
    ]
    assert [one.choice.balancer for one in ranked(rows)] == ["Greedy", "RefineA", "none"]
    said = sentence(rows)
    assert "Greedy every 20 steps, 4 blocks per PE; 1," in said or "1,050" in said
    assert "without balancing 100.0% [" in said and "RefineA every 20 steps" in said
    assert "9.5% [" in said and "bound of any placement: 9.5% less" in said
    assert "either" not in said
    close = [row([1.0, 1.1, 1.05]), row([1.02, 1.08, 1.06], "RefineA")]
    assert "contains 0: either may be faster" in sentence(close)
    single = [row([1.0]), row([1.5], "RefineA")]
    assert "50.0% more. One run does not show" in sentence(single)
    assert sentence([row([1.0], "optimal")]).startswith("Only the bound")
    same = ranked([row([1.0], moved=5), row([1.0], "RefineB", moved=1)])
    assert same[0].choice.balancer == "RefineB"


@pytest.mark.long
def test_a_balancer_that_does_nothing_is_not_recommended(traced, capsys):
    """Catches advice to balance where that is as fast as nothing, and a period beyond the run."""
    for lb_steps in (0, 5):
        idle = row([1.0], "Greedy", odf=1, moved=0, lb_steps=lb_steps)
        found = sentence([idle, row([1.0], "none", odf=1, moved=0, lb_steps=0)])
        assert found.startswith("Best on 2 PEs: no balancing, 1 block per PE; ")
    words = f"replay {traced[0]} --pes 2 --balancers Greedy,none --lb-periods 1,1000"
    assert main(words.split()) == VALID
    said = " ".join(capsys.readouterr().out.split())
    steps = SavedRun.read(traced[0]).record["steps"]
    assert f"every 1000: no load-balancing step is in the recorded {steps} steps" in said


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Counter[tuple[int, int, int]]]:
    """A traced run of one process with eight blocks, what went from each to each."""
    path, sent = tmp_path_factory.mktemp("replay") / "run.h5", Counter[tuple[int, int, int]]()
    deliver = Transport.deliver

    def noted(self: Any, runner: Any, peer: Any, request: Any, message: Any) -> None:
        numbers = [int(np.ravel_multi_index(i, (4, 2))) for i in (runner.place[1], peer.block)]
        if runner.inbox.step >= 1:
            sent[numbers[0], numbers[1], 0] += 1
            sent[numbers[0], numbers[1], 1] += message.nbytes
        deliver(self, runner, peer, request, message)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Transport, "deliver", noted)
        words = f"run pic --preset tiny --pe-grid 4x2 --warmup 1 --audit 0 --trace --output {path}"
        assert main(words.split()) == VALID
    return path, sent


@pytest.mark.long
def test_bytes_that_blocks_send(traced: Any) -> None:
    """Catches messages of the warm-up, of other edges, or without their bytes."""
    path, sent = traced
    found = SavedRun.read(path)
    assert found.sent is not None and found.sizes is not None
    mine = Counter[tuple[int, int, int]]()
    for block, to, _, messages, nbytes in found.sent.tolist():
        mine[block, to, 0] += messages
        mine[block, to, 1] += nbytes
    assert mine == sent and sum(mine.values()) > 0
    assert len({*found.sent["round"].tolist()}) == len(found.rounds)
    assert (
        sorted(found.sizes["block"].tolist()) == [*range(8)] and found.sizes["bytes"].min() > 1000
    )
    assert found.loads is None
    with h5py.File(path) as file:
        assert file["timing/messages"].attrs["units"].tolist() == ["1", "1", "1", "1", "B"]


@pytest.mark.long
def test_a_run_without_trace_has_no_messages(tmp_path: Path) -> None:
    """Catches what only traces pay for in every run; and a replay that needs it."""
    path = tmp_path / "run.h5"
    main(f"run pic --preset tiny --pe-grid 2x2 --audit 0 --output {path}".split())
    found = Recorded.read(path)
    assert (found.sizes, found.edges) == (None, None)
    assert main(["replay", str(path), "--pes", "2"]) == VALID


@pytest.mark.long
def test_the_command(traced: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Catches a table, a figure and JSON that do not show the same predictions."""
    path, costs = traced[0], tmp_path / "costs.json"
    costs.write_text('{"message_s": 1e-5, "byte_s": 1e-9, "balancing_s": 0.001}')
    target, figure = tmp_path / "found.json", tmp_path / "found.svg"
    words = f"--pes 2,4..16 --odf 1,2 --lb-periods 1,2 --costs {costs} --json {target}"
    again = shutil.copy(path, tmp_path)
    status = main(["replay", str(path), str(again), *words.split(), "--figure", str(figure)])
    out = capsys.readouterr().out
    assert status == VALID and "Loads of pic" in out and "(2 runs)" in out
    found = json.loads(target.read_text())
    choices = [(one["pes"], one["odf"], one["balancer"]) for one in found["predictions"]]
    assert {pes for pes, *_ in choices} == {2, 4, 8} and (8, 1, "none") in choices
    assert (2, 2, "optimal") in choices and "16 blocks in all" in out
    best = [one["pes"] for one in found["best"]]
    assert best == [2, 4, 8] and out.count("Best on") == 3
    for one in found["predictions"]:
        assert command.number(1e3 * one["step_s"]) in out or f"{1e3 * one['step_s']:.2g}" in out
    assert "messages between PEs: 1e-05 s each" in out
    assert figure.read_text().count("<path") > 10


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--pes 9..2", "must be FEWEST..MOST, such as 2..64"),
        ("--pes 16", "the run has only 8 blocks"),
        ("--odf 16 --pes 2", "record a run with more"),
        ("--balancers best", "Greedy, GreedyRefine"),
        ("--lb-periods 0", "from 1"),
        ("--own", "has no loads of a runtime's balancer"),
        ("--figure run.bmp", "must end in .png"),
        ("--costs costs.json", "may have message_s"),
        ("--lb-first 0", "from 1"),
        ("--own --pes 4", "--own given: not with --pes"),
        ("--own --lb-first 3", "--own given: not with --lb-first"),
        ("--own --json x.json", "--own given: not with --json"),
        ("--json nowhere/x.json", "there is no directory"),
        ("--json {run}", "is the file of RUN.h5 1"),
        ("--figure x.svg --json x.svg", "is the file of --json"),
        ("{run}", "is the file of RUN.h5 1"),
    ],
)
def test_bad_input(traced, words, said, monkeypatch, tmp_path):
    """Catches an option that is wrong without one line that says so, and a run that is replaced."""
    monkeypatch.chdir(tmp_path)
    Path("costs.json").write_text('{"messages": 1}')
    words = words.format(run=traced[0])
    assert said in support.refused(["replay", traced[0], *words.split()])


def test_a_run_that_is_not_valid_predicts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches loads of a wrong program."""
    saved = by_hand()
    wrong = replace(saved, record=saved.record | {"valid": False})
    monkeypatch.setattr(SavedRun, "read", lambda _: wrong)
    with pytest.raises(InputError, match="must be of a valid run"):
        Recorded.read(Path("run.h5"))


@pytest.mark.parametrize(
    ("text", "said"),
    [("[]", "no JSON object"), ('{"byte_s": -1}', "0 or more"), ('{"byte_s": "x"}', "0 or more"),
     ("{", "Expecting")],
)  # fmt: skip
def test_costs_that_are_none(text: str, said: str, tmp_path: Path) -> None:
    """Catches a file of costs that is taken as it is."""
    path = tmp_path / "costs.json"
    path.write_text(text)
    with pytest.raises(InputError, match=said):
        Costs.read(path)


@pytest.mark.long
def test_runs_of_other_problems(traced: Any, tmp_path: Path) -> None:
    """Catches a mean over runs that have nothing in common."""
    other = tmp_path / "other.h5"
    main(f"run pic --preset tiny --pe-grid 2x2 --audit 0 --output {other}".split())
    support.refused(["replay", traced[0], other, "--pes", "2"])


# What the runtime saw -----------------------------------------------------------------------------


def balanced() -> SavedRun:
    """A run by hand whose last load-balancing step is one of Greedy, with the loads that it saw."""
    saved = by_hand()
    seen = np.zeros(4, LOAD)
    seen["pe"], seen["step"], seen["block"] = [0, 0, 1, 1], 7, [0, 1, 2, 3]
    seen["load_s"] = LOADS
    return replace(saved, loads=seen)


def test_own_steps_are_compared() -> None:
    """Catches a comparison with another round, or one that finds no difference.

    Greedy puts 4 and 1 on one PE, 3 and 2 on the other, as in the last round of the run by hand; 6
    is alone.
    """
    (found,) = agreements(balanced())
    assert (found.step, found.blocks, found.elsewhere) == (7, 4, 0)
    other = balanced()
    assert other.loads is not None
    other.loads["load_s"] = [4.0, 1.0, 1.5, 6.0]
    assert agreements(other)[0].elsewhere == 1
    rotated = replace(balanced(), record=balanced().record | {"balancer": "Rotate"})
    assert agreements(rotated)[0].elsewhere == 2


def test_own_steps_that_differ_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches exit status 0 for a replay that does other things than the runtime."""
    run = balanced()
    monkeypatch.setattr(SavedRun, "read", lambda source: run)
    assert main(["replay", "run.h5", "--own"]) == VALID
    assert run.loads is not None
    run.loads["load_s"] = [4.0, 1.0, 1.5, 6.0]
    assert main(["replay", "run.h5", "--own"]) == WRONG


SENT_ROW, SIZES = np.array([(0, 1, 0, 2, 64)], SENT), np.array([(n, 8) for n in range(4)], SIZE)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("sent", SENT_ROW, None),
        ("sent", np.array([(0, 4, 0, 2, 64)], SENT), "to in timing/messages"),
        ("sent", np.array([(0, 1, 3, 2, 64)], SENT), "round in timing/messages"),
        ("sent", np.array([(0, 1, 0, 2, -1)], SENT), "bytes in timing/messages"),
        ("sent", np.zeros(1, SYNC), "must be a table"),
        ("sizes", SIZES, None),
        ("sizes", SIZES[:0], None),
        ("sizes", SIZES[1:], "a row for each block"),
        ("loads", np.array([(0, 7, 1, 2.0)], LOAD), None),
        ("loads", np.array([(2, 7, 1, 2.0)], LOAD), "pe in timing/loads"),
        ("loads", np.array([(0, 7, 1, np.nan)], LOAD), "load_s in timing/loads"),
    ],
)
def test_claims_on_the_new_tables(field: str, value: np.ndarray, said: str | None) -> None:
    """Catches tables of a damaged file that the replay would index with."""
    broken = broken_claim(replace(by_hand(), **{field: value}))
    base = broken_claim(by_hand())
    if said is None:
        assert broken == base
    else:
        assert broken is not None and said in broken


@pytest.mark.slow
@pytest.mark.parametrize("balancer", ["Greedy", "GreedyRefine"])
def test_a_launched_run_agrees(balancer: str, tmp_path: Path) -> None:
    """Catches loads that are read at another time than the runtime does, or of other chares."""
    path = tmp_path / "run.h5"
    words = f"pic --preset tiny --driver charm -n 2 --odf 4 --balancer {balancer} --lb-period 2"
    support.run_record(*words.split(), "--output", str(path))
    found = agreements(SavedRun.read(path))
    assert len(found) >= 3 and {one.blocks for one in found} == {8}
    assert [one.elsewhere for one in found] == [0] * len(found)
