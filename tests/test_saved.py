"""What is read from a run's file, and which files are refused: by tables and files by hand."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from signal import SIGKILL
from types import SimpleNamespace
from typing import Any

import h5py
import numpy as np
import pytest
import support
from test_drawn_runs import FIELD, by_hand
from test_run_drawing import run_of

from miniapps.drivers.timing import COMPUTE, KIND_NAMES, ROW, SLICE, SYNC
from miniapps.parameters import InputError
from miniapps.workbench.show import reading, saved, saved_claims, trajectory, xyz
from miniapps.workbench.show.saved import SavedRun, periods_of_steps
from miniapps.workbench.show.saved_claims import LARGEST, MISSING, broken_claim
from miniapps.workbench.show.trajectory import Trajectory


def test_blocks_that_come_and_go_have_a_pe() -> None:
    """Catches a block that seems to move, or to compute, where it does not exist."""
    run = run_of([[1, 2, 3, 4], [5, 6, 7, 8]])  # ms, of two blocks on two PEs
    moved = changed(changed(run.rows, "pe", 1, 2), "pe", 1, 3)  # block 0, in rounds 2 and 3
    gone = ~((moved["block"] == 0) & np.isin(moved["round"], (0, 3)))
    there = replace(run, rows=moved[gone])
    loads, pes = there.by_block([(n, n + 1) for n in range(4)])
    np.testing.assert_allclose(loads[0], [0, 2, 3, 0])
    assert pes.tolist() == [[0, 0, 1, 1], [1, 1, 1, 1]]


# Claims -------------------------------------------------------------------------------------------


def sound(**more: Any) -> SavedRun:
    """Two blocks on two PEs in three rounds of two steps, with thumbnails of 2 by 1 pixels."""
    run = run_of([[0, 2, 3], [4, 5, 6]], count=2, steps=6, wall_s=0.03, **more)
    return replace(
        run, thumbnail_steps=np.array([0]), thumbnails=np.ones((1, 2, 1)), wall_s=np.full(3, 0.01)
    )


def invalid(**more: Any) -> SavedRun:
    """The same of a run that is not valid, of whose times and steps less is known."""
    return replace(sound(valid=False), **more)


def changed(table: np.ndarray, field: str, value: Any, row: int = 0) -> np.ndarray:
    """A table with one value changed."""
    table = table.copy()
    table[field][row] = value
    return table


SLICES = np.array([(0, 0, 0, COMPUTE, 0.0, 0.0)], SLICE)
SYNCS = np.array([(1, 2, np.inf, np.inf, 0)], SYNC)
ROUNDS, ROWS = sound().rounds, sound().rows
FIRSTS = ROUNDS[:, 0]


def rounds(*firsts: int, counts: Any = 2) -> np.ndarray:
    """A table of rounds."""
    return np.transpose([firsts, np.broadcast_to(counts, len(firsts))]).astype(np.int64)


ONE = rounds(0), ROWS[:1].copy()
SOUND: dict[str, SavedRun] = {
    "valid": sound(),
    "invalid": invalid(),
    "blocks that come and go": replace(sound(for_a_time=True), rows=ROWS[[0, 1, 3]]),
    "other times": invalid(wall_s=np.zeros(3)),
    "other steps": invalid(rounds=rounds(0, 1, 2, counts=1)),
    "slices": replace(sound(), slices=SLICES, syncs=SYNCS),
    "no slices": replace(sound(), slices=SLICES[:0]),
    "one block": replace(invalid(rounds=ONE[0], rows=ONE[1], wall_s=np.ones(1)), record=by_hand(
        valid=False, pes=1).record),  # fmt: skip
    "a pixel": invalid(thumbnails=np.ones((1, 1, 1))),
    "as many rows as PEs": invalid(rows=ROWS[[0, 3]]),
    "rows that lack": invalid(rows=changed(ROWS[[0, 3]], "block", MISSING * 2 // 3 - 1)),
    "as late as can be": invalid(rounds=rounds(LARGEST - 2, LARGEST, LARGEST + 2)[:2],
                                 wall_s=np.zeros(2), rows=ROWS[ROWS["round"] < 2]),
    "as long as can be": invalid(rounds=rounds(0, counts=LARGEST), wall_s=np.zeros(1),
                                 rows=ROWS[ROWS["round"] < 1]),
}  # fmt: skip
SHAPES = "timing/rounds must be (rounds, 2), timing/wall_s (rounds,)"
TYPES = "timing/rounds must hold integers, timing/wall_s floats"
LATE = "rounds must begin at 0 or later and have 1 step or more"
THUMBNAILS = "there must be a thumbnail of 2 axes for each of its steps"
TIMES, SHORT, INTEGERS = np.full(3, 0.01), rounds(0, 1, 2, counts=1), np.ones((1, 2, 1), int)
BROKEN: list[tuple[str, SavedRun]] = [
    ("the steps of all rounds must be the record's", replace(sound(), rounds=SHORT)),
    ("the times of all rounds must add up to wall_s", replace(sound(), wall_s=TIMES * 2)),
    (SHAPES, invalid(wall_s=TIMES[:2])),
    (SHAPES, invalid(rounds=ROUNDS[:, :1])),
    (SHAPES, invalid(rounds=FIRSTS)),
    (SHAPES, invalid(rounds=ROUNDS[..., None])),
    (SHAPES, invalid(rounds=ROUNDS[:0], wall_s=TIMES[:0])),
    (TYPES, invalid(rounds=ROUNDS.astype(float))),
    (TYPES, invalid(wall_s=np.zeros(3, int))),
    (LATE, invalid(rounds=ROUNDS - [1, 0])),
    (LATE, invalid(rounds=rounds(0, 2, 2, counts=(2, 0, 2)))),
    (LATE, invalid(rounds=rounds(0, LARGEST + 2), wall_s=np.zeros(2))),
    (LATE, invalid(rounds=rounds(0, 1, counts=(1, LARGEST + 1)), wall_s=np.zeros(2))),
    ("rounds must follow one another", invalid(rounds=rounds(0, 2, 5))),
    ("times of rounds must be 0 s or more", invalid(wall_s=-TIMES)),
    ("times of rounds must be 0 s or more", invalid(wall_s=TIMES * np.inf)),
    (f"timing/blocks must be a table of {ROW.names}", invalid(rows=np.zeros(6))),
    ("timing/blocks must have one axis", invalid(rows=ROWS[None])),
    ("timing/blocks must not be empty", invalid(rows=ROWS[:0])),
    ("block in timing/blocks must be below 2147483648", invalid(rows=changed(ROWS, "block", -1))),
    ("round in timing/blocks must be below 3", invalid(rows=changed(ROWS, "round", 3))),
    ("begin_s in timing/blocks must be finite", invalid(rows=changed(ROWS, "begin_s", np.nan))),
    ("end_s in timing/blocks must be finite", invalid(rows=changed(ROWS, "end_s", np.inf))),
    ("pe in timing/blocks must be below 2", invalid(rows=changed(ROWS, "pe", 2))),
    ("pe in timing/blocks must be below 2", invalid(rows=changed(ROWS, "pe", -1))),
    ("timing/blocks must have a row for each PE at least", invalid(rows=ROWS[:1])),
    ("timing/blocks must have a row for each block and round", replace(sound(), rows=ROWS[:5])),
    (
        "timing/blocks must have a row for each block and round",
        invalid(rows=changed(ROWS[[0, 3]], "block", MISSING * 2 // 3)),
    ),
    ("compute times must be 0 s or more", invalid(rows=changed(ROWS, "compute_s", -1))),
    ("slices must be of a known kind", invalid(slices=changed(SLICES, "kind", len(KIND_NAMES)))),
    ("pe in timing/slices must be below 2", invalid(slices=changed(SLICES, "pe", 2))),
    ("pe in timing/balancing must be below 2", invalid(syncs=changed(SYNCS, "pe", 2))),
    (THUMBNAILS, invalid(thumbnail_steps=np.array([[0]]))),
    (THUMBNAILS, invalid(thumbnail_steps=np.array([0, 1]))),
    (THUMBNAILS, invalid(thumbnails=np.ones((1, 2)))),
    (THUMBNAILS, invalid(thumbnails=np.ones((1, 0, 1)))),
    ("thumbnails must have no more pixels than cells", invalid(thumbnails=np.ones((1, 5, 1)))),
    ("thumbnails must have no more pixels than cells", invalid(thumbnails=np.ones((1, 1, 4)))),
    ("thumbnails must hold floats, their steps integers", invalid(thumbnail_steps=np.zeros(1))),
    ("thumbnails must hold floats, their steps integers", invalid(thumbnails=INTEGERS)),
]


@pytest.mark.parametrize("name", SOUND)
def test_files_that_contradict_nothing(name: str) -> None:
    """Catches the refusal of a file that a run can have written."""
    assert broken_claim(SOUND[name]) is None


@pytest.mark.parametrize(("claim", "run"), BROKEN)
def test_files_that_contradict_themselves(claim: str, run: SavedRun) -> None:
    """Catches a figure of tables that do not belong together, and another reason for it."""
    assert broken_claim(run) == claim


def test_whole_thumbnails_have_a_pixel_for_each_cell() -> None:
    """Catches the refusal of a thumbnail with all cells."""
    found = saved_claims._claims_of_thumbnails(np.array([0]), np.ones((1, 4, 3)), (4.0, 3.5))
    assert all(holds for _, holds in found)


# Runs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("period", "right"),
    [
        ((4, 5), (0, 1)),
        ((4, 7), (0, 2)),
        ((6, 7), (1, 2)),  # within a round of steps 5 and 6
        ((8, 11), (2, 3)),
        ((0, 1), (0, 1)),  # before the first
    ],
)
def test_rounds_of_a_period(period: tuple[int, int], right: tuple[int, int]) -> None:
    """Catches the loads of another round, or of none."""
    assert by_hand().rounds_in(period) == slice(*right)


def test_what_a_run_says_of_itself() -> None:
    """Catches blocks under another number, a last step that is none, another unit."""
    run = by_hand()
    assert (run.blocks, run.end, run.unit, run.sides) == (4, 11, "cells", (4.0, 3.0))
    assert run.lb_steps == [4, 5, 7]
    assert by_hand(box=[1.0, 2.0, 3.0], extent=None).unit == "sigma"
    assert [run.name_of(n) for n in (0, 3)] == ["block 0 (0, 0)", "block 3 (1, 1)"]
    assert by_hand(blocks=[3]).name_of(1) == "block 1"
    assert run.heaviest(2).tolist() == [2, 3] and run.heaviest(9).tolist() == [0, 1, 2, 3]
    loads, pes = run.by_block([(4, 7), (7, 11)])
    np.testing.assert_allclose(loads[0], [(1 * 1 + 2 * 2) / 3, 3])
    assert pes[1].tolist() == [0, 1]
    assert run.shown is run.thumbnails
    particles = replace(by_hand(extent=[8.0, 9.0]), counted=True)
    np.testing.assert_allclose(particles.shown, particles.thumbnails / 6)


@pytest.mark.parametrize(
    ("starts", "end", "lb_steps", "most", "periods"),
    [
        (range(4), 4, [], 9, [(0, 1), (1, 2), (2, 3), (3, 4)]),
        (range(4), 4, [], 4, [(0, 2), (2, 3), (3, 4)]),
        (range(4), 4, [], 2, [(0, 4)]),
        (range(8), 8, [2], 6, [(0, 2), (2, 4), (4, 6), (6, 8)]),
        (range(2, 10), 10, [0, 2, 4, 10, 12], 6, [(2, 4), (4, 6), (6, 8), (8, 10)]),
        ([0, 4, 8], 12, [6], 9, [(0, 4), (4, 6), (6, 8), (8, 12)]),  # of another run
        (range(10), 10, range(1, 10), 3, [(0, 1), (4, 5), (9, 10)]),
        (range(3), 3, [1], 1, [(0, 1)]),
    ],
)
def test_periods(starts, end, lb_steps, most, periods):
    """Catches periods of very different lengths, or fewer than there is room for."""
    assert periods_of_steps(starts, end, lb_steps, most) == periods


# Files --------------------------------------------------------------------------------------------


def file_of(path: Path, **state: Any) -> Path:
    """A file of a valid run, with that final state, else one of four by three cells."""
    given = {"app": "jacobi2d", "driver": "serial", "pes": 1, "odf": 1, "warmup": 4, "steps": 3}
    given |= {"balancer": None, "lb_period": 0, "problem": {"size": [4, 3]}}
    record = support.whole_record(given, 0.01) | {"extent": [4.0, 3.0]}
    with h5py.File(path, "w") as file:
        file.attrs["record"] = json.dumps(record)
        file["timing/rounds"], file["timing/wall_s"] = rounds(4, 5, 6, counts=1), TIMES
        rows = np.zeros(3, ROW)
        rows["round"] = range(3)
        file["timing/blocks"] = rows
        for name, data in (state or {"u": FIELD}).items():
            file[f"state/{name}"] = data
    return path


@pytest.mark.long
def test_a_file_without_much(tmp_path: Path) -> None:
    """Catches a final state at another step, load balancing that was not made, another quantity."""
    run = SavedRun.read(file_of(tmp_path / "run.h5"))
    assert run.slices is None and run.syncs.shape == (0,) and not run.has_trajectory
    assert run.thumbnail_steps.tolist() == [7] and run.thumbnails.tolist() == [FIELD.tolist()]
    assert (run.quantity, run.counted) == ("u (no unit)", False)
    at = np.array([[0.5, 0.5], [3.5, 2.5]])
    path = file_of(tmp_path / "other.h5", **{"particles": at, "particles.id": np.arange(2)})
    run = SavedRun.read(path)
    assert (run.quantity, run.counted) == ("particles per cell", True)


@pytest.mark.parametrize("name", ["snapshots/thumbnail", "frames/picture"])
def test_thumbnails_of_a_file(name: str, tmp_path: Path) -> None:
    """Catches thumbnails of an earlier version that are not found, and the final state for all."""
    path = file_of(tmp_path / "run.h5")
    group, data = name.split("/")
    with h5py.File(path, "a") as file:
        file[f"{group}/step"], file[name] = [4, 7], np.stack([-FIELD, FIELD])
    run = SavedRun.read(path)
    assert run.thumbnail_steps.tolist() == [4, 7]
    np.testing.assert_array_equal(run.thumbnails, [-FIELD, FIELD])


def no_record(file: Any) -> None:
    """Damage: a valid record whose wall is none."""
    record = json.loads(file.attrs["record"])
    file.attrs["record"] = json.dumps(record | {"wall_s": -1.0})


def much(name: str) -> Callable[[Any], None]:
    """Damage: a dataset that claims more than the file holds."""

    def change(file: Any) -> None:
        file.pop(name, None)
        file.create_dataset(name, (1 << 23,), "f8", chunks=(1 << 10,))

    return change


def instead(name: str, value: Any) -> Callable[[Any], None]:
    """Damage: something else in the place of a group or a dataset; None: an empty group."""

    def change(file: Any) -> None:
        del file[name]
        if value is None:
            file.create_group(name)
        else:
            file[name] = value

    return change


def many_thumbnails(file: Any) -> None:
    """Damage: thumbnails that claim more than the file holds."""
    file["snapshots/step"] = [7]
    much("snapshots/thumbnail")(file)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (no_record, "record: "),
        (lambda file: file.attrs.modify("record", "[" * 50_000), "must be written by --output"),
        (lambda file: file.attrs.modify("record", "[["), "must be written by --output"),
        (lambda file: file.attrs.pop("record"), "must be written by --output"),
        (lambda file: file.pop("timing"), "must be written by --output"),
        (lambda file: file.pop("state"), "must be written by --output"),
        (instead("timing", 1.5), "must be written by --output"),
        (instead("timing/blocks", None), "must be written by --output"),
        (instead("timing/wall_s", "slow"), "contradicts itself: timing/rounds must be (rounds"),
        (much("timing/more"), "/timing/more claims 67108864 bytes"),
        (much("state/more"), "/state/more claims 67108864 bytes"),
        (many_thumbnails, "/snapshots/thumbnail claims 67108864 bytes"),
        (lambda file: file["timing/wall_s"].write_direct(-TIMES), "contradicts itself: times of"),
        (lambda file: file.create_group("particles/atoms"), "must be written by --output"),
        (lambda file: file["state"].update(far=h5py.ExternalLink("x.h5", "/u")), "another file"),
        (lambda file: file.pop("timing/rounds"), "must be written by --output"),
    ],
)
def test_damaged_files(damage: Callable[[Any], None], reason: str, tmp_path: Path) -> None:
    """Catches a file whose figure would be of something else than the run."""
    path = file_of(tmp_path / "run.h5")
    with h5py.File(path, "a") as file:
        damage(file)
    with pytest.raises(InputError, match="FILE.h5") as found:
        SavedRun._read(path)
    said = str(found.value)
    assert reason in said and not support.OF_PYTHON.search(said)


def test_a_file_is_first_read_by_a_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a reader that a damaged file ends, and a child that does not read all."""
    path = file_of(tmp_path / "run.h5")
    read: list[Any] = []
    monkeypatch.setattr(saved, "require_survivable", lambda source, by: read.append((source, by)))
    SavedRun.read(path)
    ((source, by),) = read
    names: list[str] = []
    monkeypatch.setattr(saved, "read_rows", lambda *data: names.extend(d.name for d in data))
    by()
    assert source == path and names == ["/state/u"]
    monkeypatch.setattr(SavedRun, "_read", lambda source: os.kill(-1, "no signal"))
    with pytest.raises(TypeError):
        by()


def test_files_that_must_not_be_read(tmp_path: Path) -> None:
    """Catches a traceback, an end of this process, and a device that is read for ever."""
    with pytest.raises(InputError, match="FILE.h5 /dev/null"):
        reading.require_survivable(Path("/dev/null"), lambda: None)
    path = file_of(tmp_path / "run.h5")
    with pytest.raises(InputError, match="must be written by --output .*ends the HDF5 library by"):
        reading.require_survivable(path, lambda: os.kill(os.getpid(), SIGKILL))
    with pytest.raises(InputError, match="there is no such file"):
        reading.require_survivable(tmp_path / "none.h5", lambda: None)
    with pytest.raises(InputError, match="--other"), reading.opened(path):
        raise InputError("--other", 1, "must be 2")


def test_rows_are_read_from_the_first_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches rows and attributes that only this process reads, and the library ends there."""

    class Data(list):
        attrs = property(lambda data: read.append("attributes") or {})  # type: ignore[func-returns-value]

        def __getitem__(self, part: Any) -> Any:
            read.append((part.start, part.stop))

    read: list[Any] = []
    monkeypatch.setattr(reading, "ROWS", 2)
    reading.read_rows(Data([1, 2, 3]))
    assert read == ["attributes", (0, 2), (2, 4)]


# Trajectories -------------------------------------------------------------------------------------

IDS = np.array([[1, 0], [0, 1]])
AT = np.arange(12.0).reshape(2, 2, 3)
EDGES = np.array([9.0, 10.0, 11.0])  # some atoms are on them


def atoms(**more: Any) -> Trajectory:
    """A trajectory of two atoms in two frames."""
    given = {"ids": IDS, "positions": AT, "velocities": -AT, "sides": EDGES, "species": "Ar"}
    given |= {"steps": np.array([0, 1]), "times": np.array([0.0, 0.005])}
    return Trajectory(**{**given, **more})


def record_of(sides: np.ndarray) -> dict[str, Any]:
    """What a record says of a trajectory in such a box."""
    return {"box": sides.tolist(), "problem": {"dt": 0.005}}


def test_trajectories_that_are_sound() -> None:
    """Catches the refusal of what a run writes, also of one frame or one atom, or in any box."""
    state = {"atoms.id": np.array([1, 0])}
    one = {"ids": IDS[:1], "positions": AT[:1], "velocities": AT[:1]}
    one |= {"steps": np.zeros(1, int), "times": np.zeros(1)}
    ends = trajectory.SHORTEST, trajectory.LONGEST
    boxes = [{"sides": np.full(3, side), "positions": np.zeros_like(AT)} for side in ends]
    for more in ({}, one, *boxes):
        record = record_of(atoms(**more).sides)
        claims = [*trajectory._claims_of_values(atoms(**more), state, record)]
        assert len(claims) > 5 and [claim for claim, holds in claims if not holds] == []
        trajectory.require_sound(atoms(**more), state, record, Path("run.h5"))


NONE = np.array([[[np.nan] * 3, [0.0] * 3]] * 2)


@pytest.mark.parametrize(
    ("reason", "ids", "more"),
    [
        ("box/edges must be from 0.001 to 1e+09", [0, 1], {"sides": EDGES * [1, 1, 0]}),
        ("box/edges must be from 0.001 to 1e+09", [0, 1], {"sides": EDGES * [1, -1, 1]}),
        ("box/edges must be from 0.001 to 1e+09", [0, 1], {"sides": EDGES * [1, 1, 1e300]}),
        ("box/edges must be from 0.001 to 1e+09", [0, 1], {"sides": EDGES * [1, 1, np.nan]}),
        ("steps must be 0 or more and increase", [0, 1], {"steps": np.array([-1, 1])}),
        ("steps must be 0 or more and increase", [0, 1], {"steps": np.array([1, 1])}),
        ("times must be finite, 0 or more", [0, 1], {"times": np.array([-1.0, 1.0])}),
        ("times must be finite, 0 or more", [0, 1], {"times": np.array([1.0, 1.0])}),
        ("times must be finite, 0 or more", [0, 1], {"times": np.array([0.0, np.inf])}),
        ("there must be 3 atoms, as in the state", [0, 1, 2], {}),
        ("the state must have each id once", [1, 1], {"ids": np.ones((2, 2), int)}),
        ("at step 1 each atom of the state must be", [0, 1], {"ids": np.array([[1, 0], [0, 0]])}),
        ("positions at step 0 must be in the box", [0, 1], {"positions": NONE}),
        ("positions at step 0 must be in the box", [0, 1], {"positions": AT - 1e-9}),
        ("positions at step 1 must be in the box", [0, 1], {"positions": AT + [[[0]], [[1e-9]]]}),
        ("box/edges must be the record's box", [0, 1], {"sides": EDGES + [1e-9, 0, 0]}),
        ("times must be 0.005 per step", [0, 1], {"times": np.array([0.0, 0.01])}),
        ("velocities at step 0 must be finite", [0, 1], {"velocities": NONE}),
    ],
)
def test_trajectories_that_are_not_sound(reason: str, ids: Any, more: Any) -> None:
    """Catches atoms in wrong places, frames at wrong times, and the wrong reason."""
    with pytest.raises(InputError) as found:
        state = {"atoms.id": np.array(ids)}
        trajectory.require_sound(atoms(**more), state, record_of(EDGES), Path("run.h5"))
    assert f"FILE.h5 run.h5: trajectory: {reason}" in str(found.value)


def test_all_atoms_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches an atom after the first few that is nowhere."""
    monkeypatch.setattr(trajectory, "AT_ONCE", 2)
    at = np.arange(15.0).reshape(1, 5, 3)
    assert np.array_equal(np.concatenate([*trajectory._rows(at, 0)]), at[0])


def first_broken(**more: Any) -> str | None:
    """The first claim on datasets that does not hold."""
    data = {"ids": IDS, "positions": AT, "velocities": AT}
    data |= {"steps": np.zeros(2, int), "times": np.zeros(2), "edges": EDGES}
    return next((claim for claim, holds in trajectory._claims(**data | more) if not holds), None)


def test_shapes_and_types_of_trajectories() -> None:
    """Catches the refusal of one atom in one frame."""
    assert first_broken() is None
    one = {"ids": IDS[:1, :1], "positions": AT[:1, :1], "velocities": AT[:1, :1]}
    assert first_broken(**one, steps=np.zeros(1, int), times=np.zeros(1)) is None


FLOATS = "positions, velocities, times and edges must be floats"


@pytest.mark.parametrize(
    ("claim", "more"),
    [
        ("id must be (frames, atoms)", {"ids": IDS[0]}),
        ("id must be (frames, atoms)", {"ids": IDS[:0]}),
        ("id must be (frames, atoms)", {"ids": IDS[None]}),
        ("position must be (2, 2, 3)", {"positions": AT[..., :2]}),
        ("velocity must be (2, 2, 3)", {"velocities": AT[:1]}),
        ("there must be 2 steps and times", {"steps": np.zeros(3, int)}),
        ("there must be 2 steps and times", {"times": np.zeros(3)}),
        ("there must be 2 steps and times", {"steps": np.zeros(3, int), "times": np.zeros(3)}),
        ("box/edges must be (3,)", {"edges": EDGES[:2]}),
        ("ids and steps must be integers", {"ids": IDS * 1.0}),
        ("ids and steps must be integers", {"steps": np.zeros(2)}),
        ("ids and steps must be integers", {"ids": IDS * 1.0, "steps": np.zeros(2)}),
        (FLOATS, {"positions": AT.astype(int)}),
        (FLOATS, {"velocities": AT.astype(int)}),
        (FLOATS, {"times": np.zeros(2, int)}),
        (FLOATS, {"edges": EDGES.astype(int)}),
    ],
)
def test_shapes_and_types_that_are_wrong(claim: str, more: Any) -> None:
    """Catches datasets that do not belong together, and the wrong reason."""
    assert first_broken(**more) == claim


def written(path: Path, species: Any = None, edges: Any = EDGES) -> Path:
    """A file with a trajectory."""
    with h5py.File(path, "w") as file:
        group = file.create_group("particles/atoms")
        for name, data in (("id", IDS), ("position", AT), ("velocity", -AT)):
            group[f"{name}/value"] = data
        group["position/step"], group["position/time"] = [0, 3], [0.0, 0.015]
        if edges is not None:
            group["box/edges"] = edges
        if species is not None:
            group["species"] = np.zeros(2, h5py.enum_dtype(species, "u1"))
    return path


@pytest.mark.parametrize(("given", "name"), [(None, "LJ"), ({"Ar": 0}, "Ar"), ({"LJ": 0}, "LJ")])
def test_species_of_a_trajectory(given: Any, name: str, tmp_path: Path) -> None:
    """Catches atoms of another element, and datasets in each other's place."""
    path = written(tmp_path / "run.h5", given)
    with h5py.File(path) as file:
        found = trajectory.trajectory_in(file, path)
        assert (found.species, found.atoms) == (name, 2)
        assert np.array_equal(found.positions, AT) and np.array_equal(found.velocities, -AT)
        assert np.array_equal(found.sides, EDGES) and found.times[1] == 0.015
        assert found.steps[1] == 3


@pytest.mark.parametrize("given", [{"Qq": 0}, {"Ar": 0, "Kr": 1}])
def test_species_that_are_unknown(given: Any, tmp_path: Path) -> None:
    """Catches two species that are written as one, and text of the file in other files."""
    path = written(tmp_path / "run.h5", given)
    with h5py.File(path) as file, pytest.raises(InputError, match="must have one species, of LJ, "):
        trajectory.trajectory_in(file, path)


@pytest.mark.parametrize("unit", ["m", "sigma\nAr 0 0 0", 1.0])
def test_units_of_a_trajectory(unit: Any, tmp_path: Path) -> None:
    """Catches numbers in another unit that are exported as if they were in reduced ones."""
    for name, right in trajectory.UNITS.items():
        path = written(tmp_path / "run.h5")
        with h5py.File(path, "a") as file:
            file[f"particles/atoms/{name}"].attrs["unit"] = unit
        with h5py.File(path) as file, pytest.raises(InputError, match=f"{name} not in {right}"):
            trajectory.trajectory_in(file, path)


def test_damaged_trajectories(tmp_path: Path) -> None:
    """Catches a box of two edges, positions that are not there, Python's words for no group."""
    path = written(tmp_path / "run.h5", edges=EDGES[:2])
    with h5py.File(path) as file, pytest.raises(InputError, match="trajectory: box/edges must be"):
        trajectory.trajectory_in(file, path)
    with h5py.File(path, "a") as file:
        del file["particles/atoms/position/value"]
        shape = 2, 1 << 23, 3
        file.create_dataset("particles/atoms/position/value", shape, "f8", chunks=(1, 1, 3))
    with h5py.File(path) as file:
        with pytest.raises(Exception, match="claims .* bytes, more than the file can hold"):
            trajectory.trajectory_in(file, path)
    with h5py.File(path, "a") as file:
        del file["particles/atoms"]
        with pytest.raises(InputError, match="trajectory: there must be one group of particles"):
            trajectory.trajectory_in(file, path)


def test_text_of_a_trajectory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches rounded numbers, atoms in another order, a frame's step or time with another.

    And a trajectory in the place of the atoms with which the run began.
    """
    path, target = written(tmp_path / "run.h5"), tmp_path / "run.xyz"
    problem: dict[str, Any] = {"input": None}
    run = SimpleNamespace(has_trajectory=True, record={"problem": problem})
    monkeypatch.setattr(SavedRun, "read", lambda source: run)
    assert xyz.write_xyz(path, target) == target
    box = "9.0 0.0 0.0 0.0 10.0 0.0 0.0 0.0 11.0"
    what = f'Lattice="{box}" Properties={xyz.PROPERTIES} units=lj'
    assert target.read_text().splitlines() == [
        "2",
        f'{what} step=0 time=0.0 pbc="T T T"',
        "X 3.0 4.0 5.0 -3.0 -4.0 -5.0 1.0 0",
        "X 0.0 1.0 2.0 -0.0 -1.0 -2.0 1.0 1",
        "2",
        f'{what} step=3 time=0.015 pbc="T T T"',
        "X 6.0 7.0 8.0 -6.0 -7.0 -8.0 1.0 0",
        "X 9.0 10.0 11.0 -9.0 -10.0 -11.0 1.0 1",
    ]
    with pytest.raises(InputError, match="--xyz .*there is no directory"):
        xyz.write_xyz(path, tmp_path / "no" / "run.xyz")
    for begun_with in ("run.xyz", str(target)):
        problem["input"] = begun_with
        with pytest.raises(InputError, match="--xyz .*run.xyz: is the file of --input"):
            xyz.write_xyz(path, target)
    run.has_trajectory = False
    with pytest.raises(InputError, match="--xyz .*has no trajectory of atoms"):
        xyz.write_xyz(path, target)
