"""Messages between PEs of one host in shared memory: slots, their return, and runs."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import support

from miniapps import drivers
from miniapps.contract import MessageError, checked_message
from miniapps.devices.messages import HEADER_BYTES, packed, packed_empty
from miniapps.drivers import shared_memory
from miniapps.drivers.descriptor import MemoryOptions
from miniapps.drivers.shared_memory import MOST_READERS, Handle, Pool, PoolView, Slot, slot_of
from miniapps.workbench.run.processes import shared_files

LEAST = 64  # bytes


@pytest.fixture
def pool() -> Pool:
    """The pool of process 3."""
    return Pool(3, LEAST)


@pytest.fixture
def view(pool: Pool) -> PoolView:
    """That pool, as process 5 reads it."""
    return PoolView(pool.offer(), 5)


def lent(pool: Pool, message: np.ndarray) -> Handle:
    """The handle of a message."""
    handle = pool.lend(message)
    assert handle is not None
    return handle


def numbers(pool: Pool, first: float = 0.0) -> np.ndarray:
    """A message, packed in the pool."""
    return packed(np.arange(first, first + 24.0).reshape(4, 6), pool.envelope)


def test_a_message_is_read_where_it_was_packed(pool: Pool, view: PoolView) -> None:
    """Catches a copy on the way, another shape or type, and a message that is not the one sent."""
    mine = numbers(pool)
    came = view.open(lent(pool, checked_message((1, 0), mine)))
    assert came.dtype == mine.dtype and np.array_equal(came, mine)
    came[2, 3] = -1.0  # the contract allows it
    assert mine[2, 3] == -1.0 and isinstance(mine.base, Slot)
    assert came.flags.aligned and came.ctypes.data % HEADER_BYTES == 0


def test_a_message_that_is_not_packed_is_copied(pool: Pool, view: PoolView) -> None:
    """Catches a handle of memory that others cannot read."""
    values = np.arange(100, dtype=np.int32)
    came = view.open(lent(pool, values))
    values[:] = 0
    assert came.dtype == np.int32 and np.array_equal(came, np.arange(100))


def test_a_slot_is_used_again_when_nobody_uses_it_any_more(pool: Pool, view: PoolView) -> None:
    """Catches a slot that is overwritten while its sender or a reader has it, or never used again.

    The block that packs the message, two readers, and a view that one of them has made. No slot is
    free meanwhile, so the pool looks each time whether this one was given back.
    """
    mine, others = numbers(pool), []
    second, first = view.open(lent(pool, mine)), view.open(lent(pool, mine))
    offset = slot_of(mine).offset  # type: ignore[union-attr]
    part = first[1:, ::2]
    for drop in ("mine", "second", "first", "part"):
        others.append(numbers(pool, 100.0))
        assert slot_of(others[-1]).offset != offset, drop  # type: ignore[union-attr]
        if drop == "mine":
            del mine
        elif drop == "second":
            del second
        elif drop == "first":
            del first
        else:
            assert part[0, 0] == 6.0
            del part
    assert slot_of(numbers(pool)).offset == offset  # type: ignore[union-attr]
    view.check()


def test_slots_that_were_never_sent_are_free_at_once(pool: Pool) -> None:
    """Catches a pool that fills with messages that stayed within a PE."""
    for _ in range(1000):
        numbers(pool)
    assert pool.end == 3 * shared_memory.PAGE  # the first page, and one slot


def test_a_pickle_has_data_of_its_own(pool: Pool, view: PoolView) -> None:
    """Catches an inbox that migrates with a view of memory that is used for another message."""
    mine = numbers(pool)
    came = view.open(lent(pool, mine))
    moved = pickle.loads(pickle.dumps(came))
    mine[...] = -1.0
    assert np.array_equal(moved, np.arange(24.0).reshape(4, 6)) and np.all(came == -1.0)


def test_an_array_for_several_receivers_may_only_be_read(pool: Pool, view: PoolView) -> None:
    """Catches a receiver that writes into what another one has not read yet."""
    mine = numbers(pool)
    mine.flags.writeable = False
    came = view.open(lent(pool, mine))
    with pytest.raises(ValueError, match="read-only"):
        came[0, 0] = 1.0


def test_a_wrong_handle_is_refused(pool: Pool, view: PoolView) -> None:
    """Catches a reader that takes whatever a slot holds: another message, or one given back."""
    here, there = numbers(pool), numbers(pool)
    one, two = lent(pool, here), lent(pool, there)
    with pytest.raises(MessageError, match=f"message {one.number} of PE 3"):
        view.open(one._replace(offset=two.offset))
    with pytest.raises(MessageError, match="holds another"):
        view.open(one._replace(reader=1))
    view.open(one)
    with pytest.raises(MessageError, match="given back"):
        view.open(one)


def test_a_slot_that_was_used_too_early_is_noticed(pool: Pool, view: PoolView) -> None:
    """Catches an owner that does not wait, or a reader that goes on reading what it gave back."""
    mine = numbers(pool)
    handle = lent(pool, mine)
    came = view.open(handle)
    view.give_back(handle)
    view.check()
    del came
    with pytest.raises(MessageError, match="while the message was in use"):
        view.check()
    with pytest.raises(MessageError, match="while the message was in use"):
        view.open(lent(pool, mine))


def test_short_messages_and_a_full_pool_are_left_to_the_driver(monkeypatch):
    """Catches a pool that gives what it does not have: no slot, or no byte for a reader."""
    monkeypatch.setattr(shared_memory, "CAPACITY", 6 * shared_memory.PAGE)
    pool = Pool(0, LEAST)
    assert pool.lend(np.zeros(LEAST // 8 - 1)) is None
    assert slot_of(packed_empty((LEAST // 8 - 1,), np.float64, pool.envelope)) is None
    large = packed_empty((1024,), np.float64, pool.envelope)
    assert isinstance(large.base, Slot)
    handles = [pool.lend(large) for _ in range(MOST_READERS + 1)]
    assert None not in handles[:-1] and handles[-1] is None
    assert len(set(handles)) == MOST_READERS + 1
    assert pool.lend(np.zeros(1024)) is None
    other = packed_empty((1024,), np.float64, pool.envelope)
    assert not isinstance(other.base, Slot)
    assert isinstance(numbers(pool).base, Slot)  # a small one fits
    with pytest.raises(OSError, match="only the first"):
        PoolView(pool.offer(), shared_memory.PAGE)


def test_a_larger_slot_serves_where_no_other_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a pool that is of no use once it has been cut into slots of other sizes."""
    monkeypatch.setattr(shared_memory, "CAPACITY", 5 * shared_memory.PAGE)
    pool = Pool(0, LEAST)
    large = packed_empty((1024,), np.float64, pool.envelope)
    del large
    kept = packed_empty((16,), np.float64, pool.envelope)
    assert isinstance(kept.base, Slot)
    assert not isinstance(packed_empty((16,), np.float64, pool.envelope).base, Slot)


def test_only_the_offered_memory_is_opened(pool: Pool, tmp_path: Path) -> None:
    """Catches a process that writes to another file, which has that number where it looks."""
    with (tmp_path / "file").open("w+") as file:
        with pytest.raises(FileNotFoundError):
            PoolView(pool.offer()._replace(file=file.fileno()), 1)
    assert not pool.is_read_by(1)


READER = """
import pickle, sys
from miniapps.drivers.shared_memory import PoolView
offer, handle = pickle.load(sys.stdin.buffer)
came = PoolView(offer, 1).open(handle)
print(came.sum(), flush=True)
if sys.argv[1] == "keep":
    sys.stdin.buffer.read()
del came
print("given back", flush=True)
"""


def test_another_process_reads_and_gives_back(pool: Pool) -> None:
    """Catches memory that only its owner sees, or a reader's death that takes a message away."""
    mine = numbers(pool)
    handle, message = lent(pool, mine), np.arange(24.0).sum()
    words = [sys.executable, "-c", READER, "leave"]
    given = pickle.dumps((pool.offer(), handle))
    done = subprocess.run(words, input=given, capture_output=True, check=True, cwd=support.ROOT)
    assert done.stdout.split(b"\n")[:2] == [str(message).encode(), b"given back"]
    assert pool.is_read_by(1)
    offset = handle.offset
    del mine
    assert offset in [slot_of(numbers(pool)).offset for _ in range(2)]  # type: ignore[union-attr]


# Runs -----------------------------------------------------------------------------------------

ARRAYS = "toys --script late_any_arrays --size 7x5 --steps 12 --warmup 2".split()
CHARM, MPI = ("--driver", "charm", "-n", "2"), ("--driver", "mpi", "-n", "2")
CHANGED = """
import pathlib
from miniapps.drivers import shared_memory as shared
shared.CAPACITY = {capacity}
right = shared.Pool.lend
def lend(self, message):
    handle = right(self, message)
    pathlib.Path("{folder}", "not" if handle is None else "lent").touch()
    return handle
shared.Pool.lend = lend
"""


@pytest.fixture
def run_with_pool(tmp_path: Path) -> Callable[..., tuple[dict[str, Any], set[str]]]:
    """A run in which pools have some bytes; its record, and what became of messages."""

    def run(driver: tuple[str, ...], capacity: int, *words: str) -> tuple[dict[str, Any], set[str]]:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        text = CHANGED.format(capacity=capacity, folder=folder)
        (folder / "sitecustomize.py").write_text(text)
        env = support.toy_environment() | {"PYTHONPATH": str(folder)}
        record = support.run_record(*words, *driver, env=env)
        return record, {"lent", "not"} & {path.name for path in folder.iterdir()}

    return run


@pytest.mark.launch
@pytest.mark.parametrize(
    ("capacity", "options", "expected"),
    [
        (1 << 20, ("--shared-memory", "1"), {"lent"}),
        (3 * shared_memory.PAGE, ("--shared-memory", "1"), {"lent", "not"}),
        (shared_memory.PAGE, ("--shared-memory", "1"), {"not"}),
        (1 << 20, ("--shared-memory", "0"), set()),
    ],
    ids=["all", "full", "no slot", "off"],
)
@pytest.mark.parametrize("driver", [(*CHARM, "--odf", "2"), MPI], ids=["charm", "mpi"])
def test_results_do_not_depend_on_the_path(run_with_pool, driver, capacity, options, expected):
    """Catches a message that is lost, changed or overwritten on one of the two ways.

    This script sends arrays of every length and type, and writes to what it receives.
    """
    record, ways = run_with_pool(driver, capacity, *ARRAYS, *options)
    assert record["valid"] and record["pes"] == 2
    assert expected <= ways and ("lent" in expected or "lent" not in ways)


ONE_WAY = """
import os
from miniapps.drivers import shared_memory as shared
def refuse(self, offer, process):
    raise OSError("not permitted")
if os.environ.get("PMI_RANK") == "1":
    shared.PoolView.__init__ = refuse
"""


@pytest.mark.launch
def test_only_one_of_two_ranks_reads_the_memory_of_the_other(tmp_path: Path) -> None:
    """Catches a rank that takes a handle for a message, as it lends none itself."""
    env = support.toy_environment() | support.in_every_process(tmp_path, ONE_WAY)
    record = support.run_record(*ARRAYS, *MPI, "--shared-memory", "1", env=env)
    assert record["valid"] and record["transport"]["path"] == "mpi"
    assert record["transport"]["reason"].endswith(": not permitted")


@pytest.mark.launch
def test_blocks_migrate_with_messages_in_shared_memory(run_with_pool: Any) -> None:
    """Catches a block that leaves a message behind, or takes a view of a slot with it."""
    migrating = ("--odf", "2", "--balancer", "Rotate", "--lb-period", "3", "--shared-memory", "1")
    record, ways = run_with_pool((*CHARM, *migrating), 1 << 20, *ARRAYS)
    assert record["valid"] and record["migrations"] > 0 and ways == {"lent", "not"}


@pytest.mark.slow
@pytest.mark.launch
def test_pairs_share_what_they_get(run_with_pool: Any) -> None:
    """Catches a message for blocks of several PEs that is given back by one of them for all."""
    words = ("leanmd", "--preset", "tiny", "--decomposition", "pairs", "--shared-memory", "1")
    here = support.run_record(*words[:-2])
    record, ways = run_with_pool(CHARM, 1 << 24, *words)
    assert record["state_hash"] == here["state_hash"] and "lent" in ways


@pytest.mark.slow
@pytest.mark.launch
def test_the_memory_has_no_name_that_could_be_left(tmp_path: Path) -> None:
    """Catches shared memory that a killed process would leave: any file, from the first moment."""
    mark = f"{os.getpid()}-{time.time_ns()}"
    words = ("run", "jacobi2d", "--size", "64x64", "--steps", "10000000", *CHARM)
    run = subprocess.Popen(
        [support.BIN / "miniapps", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=support.clean_environment({support.MARK: mark, "TMPDIR": str(tmp_path)}),
    )
    try:
        for pe in support.wait_for(lambda: support.stepping(mark, 2)):
            maps = Path(f"/proc/{pe}/maps").read_text()
            assert (
                len({line.split()[5] for line in maps.splitlines() if "/memfd:mini" in line}) == 2
            )
            assert shared_files(pe) == set()
    finally:
        run.terminate()
        run.wait()


def test_a_size_below_zero_is_refused(refused: Callable[..., str]) -> None:
    """Catches an option that takes any number."""
    line = refused("run", "jacobi2d", *CHARM, "--shared-memory", "-1")
    assert "--shared-memory -1" in line and "0 or more" in line
    assert "only with --driver mpi or --driver charm" in refused(
        "run", "jacobi2d", "--shared-memory", "1"
    )


def test_the_help_has_the_default_of_each_driver() -> None:
    """Catches a default that is changed in a driver, and not in the help that they share."""
    (option,) = (field for field in fields(MemoryOptions) if field.name == "shared_memory")
    sharing = [one for one in drivers.found().values() if issubclass(one.options, MemoryOptions)]
    assert {driver.name for driver in sharing} == {"mpi", "charm"}
    for driver in sharing:
        assert f"{driver.options.shared_from} ({driver.name})" in option.metadata["help"]
