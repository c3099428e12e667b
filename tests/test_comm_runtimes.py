"""Each runtime of the communication benchmarks: right data, faults that are caught, bad ends."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import comm_program
import pytest
import support
from canned_comm import spec_of

from miniapps import communication, drivers
from miniapps.communication import timing
from miniapps.communication.actions import Call, Split
from miniapps.communication.catalogue import CATALOGUE
from miniapps.communication.file import TREE, model
from miniapps.communication.file.collectives import branch
from miniapps.communication.progress import Progress
from miniapps.communication.session import Session
from miniapps.communication.settings import METHODS, Settings
from miniapps.drivers.descriptor import Start
from miniapps.workbench.comm import variants
from miniapps.workbench.run import launch

PROGRAM = Path(comm_program.__file__)
TINY = ("-m", "16:64", "-i", 20, "-x", 2, "--trials", 2)
# Drivers, ranks, and the least number of benchmarks.
LAUNCHES = [("mpi", 2, 60), ("mpi", 3, 50), ("charm", 2, 17), ("file", 2, 9), ("file", 5, 4)]


def made_on(driver: str, ranks: int) -> list[dict[str, Any]]:
    """What `comm_program` prints on some ranks."""
    chosen = drivers.get(driver)
    words = [sys.executable, str(PROGRAM), driver]
    command = chosen.command(Start(words, ranks, chosen.options()))
    done = support.execute(command, 240, {"PYTHONPATH": str(PROGRAM.parent)}, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.launch
@pytest.mark.parametrize(("driver", "ranks", "most"), LAUNCHES)
def test_every_benchmark_is_right_and_every_fault_is_caught(driver, ranks, most):
    """Catches a benchmark whose data are wrong, and a check that does not see that they are.

    Three ranks show what two cannot: neighbours, parts and roots that two ranks exchange. There are
    at least ``most`` benchmarks.
    """
    lines = made_on(driver, ranks)
    right = [line for line in lines if not line["fault"]]
    names = comm_program.made_on(driver, ranks)
    assert {line["name"] for line in right} == {*names} and len(names) >= most
    assert [line for line in right if line["error"] or len(line["values"]) < 1] == []
    faults = comm_program.faults_on(driver, ranks)
    wrong = [line for line in lines if line["fault"]]
    assert [(line["name"], line["fault"], line["method"]) for line in wrong] == [
        (fault.benchmark, fault.name, method) for fault, method in faults
    ]
    for line in wrong:
        words = rf"{line['name']}, \d+ B: rank \d, iteration \d: the (message|answer) from ranks? "
        assert re.match(words, str(line["error"])), line
        assert line["values"] == []
    if ranks == 2:
        ends = {
            line["fault"]: line["error"].rpartition(" has ")[2]
            for line in wrong
            if line["name"] == "latency"
        }
        short = " in byte 11 of 12" if driver == "mpi" else "11 B, must have 12"
        assert short in ends["short message"]
        assert ends["flipped byte while timed"].partition(" in ")[2].startswith("byte 23 of 24")


def test_every_runtime_has_its_driver_and_a_reason_for_what_it_lacks() -> None:
    """Catches a runtime that claims or lacks a benchmark that does not exist."""
    assert {*communication.runtimes()} == {"mpi", "charm", "file"}
    assert next(iter(communication.runtimes())) == communication.USUAL
    for driver, runtime in communication.runtimes().items():
        assert runtime.driver == driver
        assert {*runtime.lacks} | runtime.pickles | runtime.out_of_band <= {*CATALOGUE}
        assert all(runtime.lacks.values())
        assert {*runtime.methods} <= {*METHODS}
        assert all(runtime.makes(name) for names in runtime.methods.values() for name in names)


@pytest.mark.parametrize("ranks", [1, 2, 3, 8, 13])
@pytest.mark.parametrize("method", ["tree", "flat"])
def test_a_tree_has_every_rank_once_and_few_levels(ranks: int, method: str) -> None:
    """Catches a rank that no other sends to, a child with another parent, a tree that is a list."""
    places = [branch(rank, ranks, method) for rank in range(ranks)]
    below = sorted(child for place in places for child in place.children)
    assert below == [*range(1, ranks)]
    assert places[0].parent is None
    for rank, place in enumerate(places):
        assert all(places[child].parent == rank for child in place.children)
    most = (ranks - 1).bit_length() if method == TREE else ranks - 1
    assert len(places[0].children) == most


def test_slow_iterations_report_their_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a benchmark that is ended as stalled because 100 of its iterations take long."""
    now, heartbeats = [0.0], [0]

    def message() -> None:
        now[0] += 5

    def heartbeat(part: int) -> None:
        heartbeats[0] += 1

    place = {"rank": 0, "ranks": 2, "local_rank": 0, "barrier": lambda: None}
    world: Any = SimpleNamespace(**place, gather=lambda value: [value] * 2)
    world.actions = lambda *_: [Call(message, "both")]
    monkeypatch.setattr(timing, "perf_counter", lambda: now[0])
    settings = Settings(iterations=50, warmups=2, trials=1, no_check=True)
    Session(world, CATALOGUE["latency"], settings, Progress(heartbeat))._trial(1 << 20)
    assert heartbeats[0] == 52


@pytest.mark.parametrize(
    ("name", "touch", "does"),
    [
        ("latency", "none", "waits for messages to or from rank 1"),
        ("allreduce", "none", "waits for the other ranks in allreduce"),
        ("latency", "both", "computes"),
        ("ibarrier", "none", "computes"),
    ],
)
def test_it_is_known_what_a_rank_does(name: str, touch: str, does: str) -> None:
    """Catches a rank that is said to wait while its own code runs, or not to while it waits."""
    seen: dict[str, set[str]] = {"barrier": set(), "gather": set(), "iteration": set()}
    progress = Progress(lambda part: None)

    def said(where: str, value: Any = None) -> Any:
        seen[where].add(progress.does)
        return value

    def actions(*_: Any) -> list[Any]:
        assert progress.does == "computes"
        return [Split(lambda: said("iteration"), lambda _: None, "both")]

    world: Any = SimpleNamespace(
        rank=0,
        ranks=2,
        local_rank=0,
        barrier=lambda: said("barrier"),
        gather=lambda value: said("gather", [value] * 2),
        share=lambda value: said("gather", value),
        actions=actions,
    )
    settings = Settings(touch=touch, iterations=2, warmups=1, trials=1, no_check=True)
    Session(world, CATALOGUE[name], settings, progress)._trial(4)
    waits = "waits for all ranks"
    assert seen["iteration"] == {does} and waits in seen["gather"]
    between = {does} if name in ("allreduce", "ibarrier") else set()
    assert seen["barrier"] == {waits} | between and progress.does == "computes"


def test_methods_of_each_driver_are_compared() -> None:
    """Catches a driver without methods that is left out, and methods of others that are named."""
    spec = spec_of("comm bcast --driver file --method flat")
    made, left_out = variants.variants(spec, ("driver", "method"))
    names = ["file method flat", "file method tree", "mpi", "charm method group"]
    assert [variant.name for variant in made] == [*names, "charm method section"]
    assert left_out == []


def test_only_the_variants_by_files_have_a_folder(tmp_path: Path) -> None:
    """Catches an option of one driver that is given to others, or lost where drivers compare."""
    spec = spec_of(f"comm bcast --driver file --file-dir {tmp_path}")
    assert spec_of(" ".join(spec.arguments())) == spec
    made, _ = variants.variants(spec, ("driver", "touch"))
    for variant in made:
        given = "--file-dir" in variant.spec.arguments()
        command = launch.command(variant.spec, [], None)
        assert given == (variant.spec.driver == "file") == ("--dir" in command)


def test_the_model_of_trees_counts_their_messages() -> None:
    """Catches a level of a tree that costs nothing, and bytes of a gather that do not add up."""

    def one(nbytes: int) -> float:
        return 1.0

    def per_byte(nbytes: int) -> float:
        return float(nbytes)

    assert [model.broadcast_s(768, method, 8, one) for method in ("tree", "flat")] == [10, 767]
    assert [model.gather_s(768, method, 8, one) for method in ("tree", "flat")] == [10, 767]
    assert model.broadcast_s(8, "tree", 2, per_byte) == 3 * 2
    assert model.gather_s(8, "tree", 2, per_byte) == 2 * (1 + 2 + 4)
    assert model.gather_s(6, "tree", 2, per_byte) == 2 * (1 + 2 + 2)
    line = model.Line.through((10, 3.0), (20, 5.0))
    assert line(0) == pytest.approx(1) and line(100) == pytest.approx(21)


REFUSED = {
    "comm alltoall --driver charm": "--driver charm: Charm4Py has no such collective",
    "comm latency --driver charm --buffer bytearray": "--buffer bytearray: one of numpy",
    "comm bw --driver charm --method future": "bw has no such form under charm: one of channel,",
    "comm latency --method channel": "--method channel: latency has no such form under mpi",
    "comm latency --driver charm --thread-level single": "only with --driver mpi",
    "comm gather --driver charm --pickle in": "--pickle in: gather has no such form under charm",
    "comm latency --driver charm --pickle out": "--pickle out: latency has no such form",
    "comm reduce --driver file": "--driver file: the file driver has barrier and allreduce",
    "comm bw --driver file --buffer cupy": "--buffer cupy: one of bytearray, numpy",
    "comm latency --file-dir .": "--file-dir .: only with --driver file",
    "comm latency --driver charm --file-dir .": "--file-dir .: only with --driver file",
    "comm latency --driver file --file-dir /nonesuch": "--file-dir /nonesuch: must be a folder",
    "comm gather --driver file --method group": "gather has no such form under file: one of tree,",
}


@pytest.mark.parametrize("words", REFUSED)
def test_bad_input_is_one_line(words: str, refused: Any) -> None:
    """Catches a benchmark that quietly does something else than what was asked for."""
    assert REFUSED[words] in refused(*words.split())


SABOTAGE = """
import builtins, os, sys
real = builtins.__import__
def hooked(name, *rest, **named):
    module = real(name, *rest, **named)
    found = sys.modules.get("miniapps.communication.session")
    if found is not None and hasattr(found, "Session") and not hasattr(found, "spoilt"):
        found.spoilt, right, right_fill = True, found.sent, found.fill
        mine = lambda data: data.movement.sends[0].sources == (1,)
        {act}
    return module
builtins.__import__ = hooked
"""
WRONG_DATA = "found.sent = lambda *a: right(*a) ^ (a[1].size == 32)"
FILL = "found.fill = lambda data, iteration: {} if mine(data) else right_fill(data, iteration)"
HANGS = FILL.format("__import__('time').sleep(1000)")
RAISES = FILL.format("dict()['cheese']")
MUTE = (
    "made = found.received_by; "
    "found.received_by = lambda actions, data: made(actions[mine(data) == False:], data)"
)  # rank 0 never makes its first action, a send
DIES = FILL.format("os.kill(os.getpid(), 9)")
ENDS = {
    WRONG_DATA: (1, "miniapps: wrong data: latency, 32 B: rank 0, iteration 0: the message from"),
    RAISES: (3, "miniapps: run failed: PE 1, KeyError: 'cheese' ("),
    DIES: (3, "miniapps: run failed: PE 1 (process "),
    HANGS: (3, "miniapps: run failed: no progress for 2 s\n"),
    MUTE: (3, "miniapps: run failed: no progress for 2 s, and no rank computes\n"),
}


@pytest.mark.slow
@pytest.mark.launch
@pytest.mark.parametrize(
    ("act", "driver"),
    [
        *((act, driver) for act in ENDS for driver in ("mpi", "charm")),
        (RAISES, "file"),
        (MUTE, "file"),
        (DIES, "file"),
    ],
)
def test_a_benchmark_that_goes_wrong_ends_with_a_line(act, driver, tmp_path):
    """Catches times of wrong data, a rank that waits for ever, a failure without its reason."""
    environment = support.in_every_process(tmp_path, SABOTAGE.replace("{act}", act))
    environment[support.MARK] = str(tmp_path)
    words = ("comm", "latency", *TINY, "--stall", 2, "--driver", driver)
    done = support.miniapps(*words, env=environment)
    status, line = ENDS[act]
    assert (done.returncode, done.stdout) == (status, ""), done.stderr
    assert done.stderr.startswith(line)
    check = "  latency, check of 16 B: rank"
    if act == HANGS:  # no thread of Charm4Py answers
        where = {"mpi": f"{check} 1 computes\n", "charm": "  PE 1 does not answer; it is in "}
        assert where[driver] in done.stderr.partition("\n")[2]
        assert done.stderr.endswith(f"{check} 0 waits for all ranks\n")
    elif act == MUTE:
        waits = [f"{check} {one} waits for messages to or from rank {1 - one}" for one in (0, 1)]
        assert done.stderr.splitlines()[1:] == waits
    else:
        assert done.stderr.count("\n") == 1
    support.wait_for(lambda: not support.marked(tmp_path), support.ENDING_S)
