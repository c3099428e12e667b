"""Checkpoints: runs that go on end as if nothing had happened, and no damaged file is taken."""

from __future__ import annotations

import errno
import json
import os
import pickle
import shutil
from collections.abc import Callable
from functools import partial
from itertools import pairwise, product
from pathlib import Path
from random import Random
from threading import Event
from types import SimpleNamespace
from typing import Any

import h5py
import numpy as np
import of_day
import pytest
import support
from continued import Leg, final_state, require_continued

from miniapps import apps, hdf5, saved
from miniapps.contract import Checkpoint, CheckpointError
from miniapps.drivers.checkpoints import Part
from miniapps.drivers.shares import Extent, Share
from miniapps.echo.problem import PHASES
from miniapps.leanmd.domain import Domain
from miniapps.pic.block import PicBlock
from miniapps.saved import NOBODY, SavedState, Stored
from miniapps.workbench import resume
from miniapps.workbench.run import checkpoint
from miniapps.workbench.run.checkpoint import Hdf5Checkpoints, read_checkpoint
from miniapps.workbench.run.progress_file import ProgressFile
from miniapps.workbench.skeleton import Block, Problem

# Each app with what it carries from step to step: a tolerance, a load, events, a table.
RUNS = {
    "jacobi2d": "jacobi2d --preset minimal --size 13x11 --steps 13",
    "jacobi2d, float32": "jacobi2d --size 13x11 --dtype float32 --boundary periodic --steps 12",
    "stencil3d": "stencil3d --preset minimal --size 9x8x8 --steps 9",
    "stencil3d, load": "stencil3d --size 9x8x8 --imbalance paper --steps 9",
    "pic": "pic --preset minimal --steps 9",
    "pic, tiles": "pic --preset minimal --size 24 --steps 9",
    "leanmd, blocks": "leanmd --preset minimal --steps 9",
    "leanmd, pairs": "leanmd --lattice 6x6x6 --thermo 2 --steps 7 --decomposition pairs",
    "echo": "echo --preset minimal --steps 9",
    "amr": "amr --preset minimal --size 17x14 --steps 9",
    "amr, all the time": "amr --preset minimal --size 17x14 --duration 2 --steps 9",
    "cg": "cg --preset minimal --size 7x6x5 --steps 9",
    "cg, sgs": "cg --preset minimal --size 7x6x5 --operator 7 --preconditioner sgs --steps 9",
    "cg, pipelined": "cg --preset minimal --size 7x6x5 --pipelined --steps 9",
    "transpose": "transpose --preset minimal --steps 9",
    "transpose, fft": "transpose --preset minimal --fft --size 7x6x5 --steps 9",
}
GRIDS = {
    "jacobi2d": ("1x1", "2x1", "3x2"),
    "stencil3d": ("1x1x1", "2x1x1", "1x2x2"),
    "pic": ("1x1", "2x2", "3x1"),
    "leanmd": ("1x1x1", "2x1x1"),
    "echo": ("1x1", "3x1", "2x2"),
    "amr": ("1x1", "3x1", "2x2"),
    "cg": ("1x1x1", "3x1x1", "1x2x2"),
    "transpose": ("1x1", "3x1", "2x1"),
    "transpose, fft": ("1x1x1", "3x2x1", "1x4x1"),
}
TILED = "jacobi2d", "jacobi2d, float32", "stencil3d", "pic, tiles"


def record(*words: object) -> dict[str, Any]:
    """The record of a run that must be valid, made in this process unless PEs are launched."""
    done = support.in_process(*words, "--json", "-", check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


LAUNCHED = (
    "--driver mpi -n 2",
    "--driver file -n 2",
    "--driver charm -n 2 --balancer Rotate --lb-period 2",
)


def drawn_case(random: Random, name: str) -> list[str]:
    """A driver with all blocks in this process, and a grid of blocks; sim migrates them."""
    case = ["--pe-grid", random.choice(GRIDS.get(name) or GRIDS[name.partition(",")[0]])]
    if random.random() < 0.5:
        return [*case, "--driver", "serial"]
    seed = random.randrange(1000)
    return [*case, "--driver", "sim", "--sim-order", "random", "--sim-seed", str(seed)]


def any_case(random: Random, name: str) -> list[str]:
    """Such a case, or one of two PEs; charm migrates blocks, too. And temporal blocking."""
    tile = ["--time-tile", random.choice("12")] if name in TILED else []
    if random.random() < 0.6:
        return [*drawn_case(random, name), *tile]
    if name == "leanmd, pairs":
        return LAUNCHED[-1].split()
    case = random.choice(LAUNCHED)
    return [*case.split(), *["--odf", "2"] * ("charm" in case), *tile]


def physics(found: dict[str, Any]) -> dict[str, Any]:
    """What a record says of the result: the state, and the app's own entries."""
    keys = "state_hash", "thermo", "momentum", "energy_drift_per_atom_and_step", "particles_placed"
    return {key: found[key] for key in keys if key in found}


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_resumed_as_if_never_stopped(name: str, tmp_path: Path) -> None:
    """Catches state that a checkpoint lacks, and results that follow driver, blocks or steps.

    Each day has other cases, of 2 or 3 resumptions.
    """
    words, file = RUNS[name].split(), tmp_path / "c.h5"
    random = Random(f"{name} {os.environ.get(of_day.DAY)}")
    whole, steps = record("run", *words, "--warmup", 1), int(words[words.index("--steps") + 1])
    stops = sorted(random.sample(range(2, steps), random.choice((2, 3))))
    kept = "--checkpoint", file, "--checkpoint-every", 1, "--warmup", 1
    begins = [("run", *words, *kept), *[("resume", file)] * len(stops)]
    parts = [
        record(*begin, *any_case(random, name), "--steps", stop)
        for begin, stop in zip(begins, [*stops, steps], strict=True)
    ]
    *_, before, last = parts
    assert physics(last) == physics(whole)
    assert [past["step"] for past in last["resumed"]] == [stop + 1 for stop in stops]
    assert last["resumed"][-1]["state_hash"] == before["state_hash"]
    made = last["rounds"]["first"][-1] + last["rounds"]["count"][-1]
    assert last["steps"] == made - stops[-1] - 1
    checks = [{check["name"] for check in one["checks"]} for one in (whole, last)]
    assert checks[0] >= checks[1] - {"balancing steps missing"}


def test_numbers_of_echo_go_on(tmp_path: Path) -> None:
    """Catches counters, missing or wrong messages that a continued run forgets or counts twice."""
    echo, seen = apps.load("echo"), []

    def make(*given: Any) -> Any:
        block = echo.Block(*given)
        if len(seen) < 3:  # each block of the first part misses a message, and gets two wrong ones
            block.messages, block.wrong = -1, 2
        seen.append(block)
        return block

    problem, legs = echo.Problem((6, 5)), [Leg((3, 1), "cpu", 2), Leg((2, 2), "cpu", 3)]
    parts = final_state(make, problem, legs, tmp_path / "c.h5")
    first, second = seen[:3], seen[3:]
    for blocks, steps in ((first, 2), (second, 5)):
        due = [len(block.neighbors) * steps * len(PHASES) for block in blocks]
        assert [block.time for block in blocks] == [steps] * len(blocks)
        assert sum(due) - sum(block.messages for block in blocks) == 3
        assert sum(block.wrong for block in blocks) == 6
    assert parts == final_state(echo.Block, problem, [Leg((1, 1), "cpu", 5)], tmp_path / "c.h5")


@pytest.mark.slow
def test_other_decomposition_of_leanmd(tmp_path: Path) -> None:
    """Catches checkpoints of cells that blocks cannot take up."""
    words, file = RUNS["leanmd, pairs"].split(), tmp_path / "c.h5"
    whole = record("run", *words)
    record("run", *words, "--checkpoint", file, "--checkpoint-every", 3)
    found = record(
        "resume", checkpoint.kept(file, 1), "--decomposition", "blocks", "--pe-grid", "1x1x1"
    )
    assert physics(found) == physics(whole)


@pytest.mark.slow
@pytest.mark.launch
def test_resumed_under_every_driver(tmp_path: Path) -> None:
    """Catches a driver that writes or takes up less than all PEs have, or loses migrated blocks."""
    words, file = ("leanmd", "--preset", "minimal", "--steps", 12), tmp_path / "c.h5"
    cases = (
        "--driver mpi -n 2 --steps 3",
        "--driver charm -n 2 --odf 2 --balancer Rotate --lb-period 2 --steps 6",
        "--driver file -n 2 --steps 9",
    )
    whole = record("run", *words)
    kept = "--checkpoint", file, "--checkpoint-every", 1, "--checkpoint-async"
    for number, case in enumerate(cases):
        begin = ("resume", file) if number else ("run", *words, *kept)
        found = record(*begin, *case.split())
        assert found["pes"] == 2 and found["checkpoints_s"] > found["checkpoints_waited_s"] > 0
    last = record("resume", file, "--driver", "serial", "--steps", 12)
    assert physics(last) == physics(whole)
    assert [past["step"] for past in last["resumed"]] == [3, 6, 9]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of PIC, which has further pieces, totals, and rows that no particle has."""
    file = tmp_path_factory.mktemp("checkpoint") / "c.h5"
    record("run", *RUNS["pic"].split(), "--checkpoint", file, "--checkpoint-every", 4)
    return file


def damaged(file: Path, folder: Path, where: int) -> Path:
    """A copy of a file in which one bit of a byte is another."""
    copy = folder / "damaged.h5"
    content = bytearray(file.read_bytes())
    content[where] ^= 1 << (where % 8)
    copy.write_bytes(content)
    return copy


@pytest.mark.slow
def test_every_flipped_bit_of_data_is_seen(written: Path, tmp_path: Path) -> None:
    """Catches a dataset, or a row without a particle, that no hash covers."""
    with h5py.File(written) as file:
        places = {}
        for group in ("state", "more", "totals"):
            for name, data in file[group].items():
                first = data.id.get_offset()
                size = data.size * data.dtype.itemsize
                places |= {f"{group}/{name}, {at}": first + at for at in (0, size // 2, size - 1)}
    assert len(places) == 3 * (4 + 5)
    for name, where in places.items():
        line = support.refused(["resume", damaged(written, tmp_path, where)])
        assert "is damaged" in line, (name, line)


@pytest.mark.slow
def test_a_file_that_hdf5_reads_for_ever(written, tmp_path, monkeypatch):
    """Catches a command that waits for a library that never returns."""
    content, broken = bytearray(written.read_bytes()), tmp_path / "broken.h5"
    at = content.index(b"GCOL") + 16  # the first text; its length is behind index and count
    while content[at : at + 2] != bytes(2):  # the next ones; the last is the room that is free
        at += 16 + (int.from_bytes(content[at + 8 : at + 16], "little") + 7) // 8 * 8
    content[at + 8 : at + 16] = (16).to_bytes(8, "little")  # behind it lie texts of no length
    broken.write_bytes(content)
    monkeypatch.setattr(hdf5, "SPARE_CORE_S", 0.0)
    line = support.refused(["resume", broken])
    assert "is damaged: reading it takes more than 1 s of a core" in line


def test_changed_attributes_are_seen(written: Path, tmp_path: Path) -> None:
    """Catches a step or a problem that somebody has edited."""
    copy = Path(shutil.copy(written, tmp_path / "edited.h5"))
    with h5py.File(copy, "r+") as file:
        file.attrs["checkpoint"] = file.attrs["checkpoint"].replace('"step": 8', '"step": 4')
    assert "attribute checkpoint has another hash" in support.refused(["resume", copy])


def rewritten(file: Path, copy: Path, **values: object) -> Path:
    """A copy of a checkpoint that says something else, and has a hash that fits."""
    shutil.copy(file, copy)
    with h5py.File(copy, "r+") as opened:
        text = json.dumps(json.loads(opened.attrs["checkpoint"]) | values)
        opened.attrs["checkpoint"] = text
        opened.attrs["sha256"] = checkpoint.hashlib.sha256(text.encode()).hexdigest()
    return copy


def test_files_that_are_no_checkpoints(written: Path, tmp_path: Path) -> None:
    """Catches a traceback, or a run, from another file."""
    empty, short, output = (tmp_path / name for name in ("empty.h5", "short.h5", "output.h5"))
    empty.touch()
    short.write_bytes(written.read_bytes()[:-100])
    record("run", *RUNS["pic"].split(), "--output", output)
    newer = rewritten(written, tmp_path / "newer.h5", schema=2)
    for file, why in {
        empty: "is empty",
        short: "is damaged",
        output: "is the --output of a run",
        newer: "is of schema 2; this version reads 1",
        tmp_path / "none.h5": "there is no such file",
        tmp_path: "is not a file",
        Path(__file__): "is no HDF5 file",
    }.items():
        assert why in support.refused(["resume", file])
        assert why in support.refused(["checkpoint", file])


@pytest.mark.parametrize("words", ["resume", "checkpoint", "plot", "diff", "replay"])
def test_files_that_may_not_be_read(
    words: str, written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches an error of the HDF5 library, or status 3, in place of the reason."""
    monkeypatch.setattr("os.access", lambda *given: False)  # root may read all
    files = [written] * (2 if words == "diff" else 1)
    assert "cannot be read: permission denied" in support.refused([words, *files])


def test_files_that_are_being_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a checkpoint that is taken before all PEs have written what they have."""
    usual, said = Hdf5Checkpoints._write_cells, []

    def looking(self: Hdf5Checkpoints, *given: Any) -> None:
        copy = shutil.copy(self.parts()[0], tmp_path / "new.h5")
        said.append(support.refused(["resume", copy, "--steps", 9]))
        usual(self, *given)

    monkeypatch.setattr(Hdf5Checkpoints, "_write_cells", looking)
    words = "jacobi2d", *"--size 9x8 --time-tile 1 --steps 4 --pe-grid 2x1 --warmup 0".split()
    record("run", *words, "--checkpoint", tmp_path / "c.h5", "--checkpoint-every", 2)
    assert len(said) == 4 and all("is damaged: u has another hash" in line for line in said)


def test_refused_command_lines(written: Path, tmp_path: Path) -> None:
    """Catches options that would change the result, and runs that have nothing to do."""
    problem, other = RUNS["pic"].split(), RUNS["jacobi2d"].split()
    ended = rewritten(written, tmp_path / "ended.h5", finished=True)
    new = tmp_path / "new.h5"
    for words, why in (
        ((*problem, "--resume", written, "--size", 14), "--size 14: would change the result"),
        (("resume", written, "--size", 14), "--size 14: would change the result: c.h5 is of 12"),
        (("resume", written, "--warmup", 3), "--warmup 3: would change the result"),
        (("resume", written, "--preset", "large"), "--preset large: has no effect"),
        (("resume", written, "--steps", 9, 50, 40, 99, 0, 1, "SINUSOIDAL"), "problem 50 40 99 0"),
        (("resume", written, "--resume", new), "has no effect: the checkpoint is"),
        (("resume", tmp_path, "--steps", 9), "is not a file"),
        (("resume", written, "--steps", 8), "c.h5 has made 8: must be more"),
        (("resume", ended), "has met its tolerance"),
        ((*other, "--resume", written), "is of pic, not jacobi2d"),
        ((*problem, "--checkpoint", new), "needs --checkpoint-every"),
        ((*problem, "--checkpoint-every", 2), "needs --checkpoint FILE.h5"),
        ((*problem, "--checkpoint-async"), "needs --checkpoint FILE.h5"),
        ((*problem, "--checkpoint", new, "--checkpoint-every", -1), "must be 0 or more"),
        (
            (*problem, "--checkpoint", new, "--checkpoint-every", 1, "--checkpoint-keep", 0),
            "must be from 1 to",
        ),
        (
            (*problem, "--checkpoint", new, "--checkpoint-every", 1, "--output", new),
            "is the file of",
        ),
    ):
        line = support.refused(words if words[0] == "resume" else ("run", *words))
        assert why in line, line
    assert not new.exists()


def test_apps_without_the_methods_are_refused(tmp_path, monkeypatch):
    """Catches a run that finds out only when a checkpoint is due."""
    monkeypatch.delattr(apps.load("echo").Block, "resume")
    words = *RUNS["echo"].split(), "--checkpoint", tmp_path / "c.h5", "--checkpoint-every", 1
    assert "app echo does not offer it" in support.refused(["run", *words])


@pytest.mark.long
def test_earlier_checkpoints_are_kept(tmp_path: Path) -> None:
    """Catches a checkpoint that replaces too many, or too few, and a part that is left."""
    words = *RUNS["echo"].split(), "--checkpoint", tmp_path / "c.h5", "--checkpoint-every", 2
    for keep, steps in ((1, [8]), (2, [8, 6]), (3, [8, 6, 4])):
        for old in tmp_path.iterdir():
            old.unlink()
        record("run", *words, "--checkpoint-keep", keep)
        files = [checkpoint.kept(tmp_path / "c.h5", n) for n in range(keep)]
        assert sorted(tmp_path.iterdir()) == sorted(files)
        assert [read_checkpoint("", file).state.step for file in files] == steps


@pytest.mark.parametrize(
    ("every", "crossed"),
    [(5, [(4, 8), (9, 10), (8, 20)]), (4, [(0, 4), (3, 4), (4, 8), (8, 20)]), (0, [])],
)
def test_rounds_that_cross_a_multiple(every: int, crossed: list[tuple[int, int]]) -> None:
    """Catches checkpoints that are left out where rounds of several steps pass their step."""
    writer = Hdf5Checkpoints(Path("c.h5"), every, 2, {})
    rounds = [(0, 4), (3, 4), (4, 8), (9, 10), (10, 11), (8, 20)]
    assert [steps for steps in rounds if writer.wants(*steps)] == crossed


def test_a_checkpoint_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    """Catches a file that a power failure leaves empty, and a full disk that is found too late."""
    done: list[tuple[str, str]] = []

    def note(name: str, said: Callable[..., tuple[str, str]]) -> None:
        usual = getattr(os, name)
        act = lambda *given: (done.append(said(*given)), usual(*given))[1]  # noqa: E731
        monkeypatch.setattr(os, name, act)

    def at(opened: int) -> str:
        return Path(os.readlink(f"/proc/self/fd/{opened}")).name

    note("posix_fallocate", lambda opened, first, size: (f"room from {first}", at(opened)))
    note("fsync", lambda opened: ("to disk", at(opened)))
    note("replace", lambda _, new: ("named", Path(new).name))
    words = *RUNS["echo"].split(), "--warmup", 0, "--checkpoint", tmp_path / "c.h5"
    record("run", *words, "--checkpoint-every", 8)
    monkeypatch.undo()
    part = ".miniapps-c.h5.part"
    assert done == [
        ("room from 0", part),
        ("to disk", part),
        ("named", "c.h5"),
        ("to disk", tmp_path.name),
    ]


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Hashing waits until the run has made a further step; each wait is in the list."""
    further, waits, heartbeat, usual = Event(), list[Any](), ProgressFile.heartbeat, Part.hash

    def steps(self: ProgressFile, pe: int, step: int) -> None:
        heartbeat(self, pe, step)
        further.set()

    def hashes(self: Part) -> None:
        if self.behind:
            further.clear()
            waits.append(further.wait(20.0))
        usual(self)

    monkeypatch.setattr(ProgressFile, "heartbeat", steps)
    monkeypatch.setattr(Part, "hash", hashes)
    return waits


@pytest.mark.long
@pytest.mark.parametrize("name", ["jacobi2d", "pic", "echo", "leanmd, blocks", "amr"])
def test_written_while_steps_go_on(name: str, tmp_path: Path, held: list[Any]) -> None:
    """Catches a state or a total that later steps change, steps that wait, a lost checkpoint."""
    file, words = tmp_path / "c.h5", ("run", *RUNS[name].split(), "--warmup", 0)
    kept = "--checkpoint", file, "--checkpoint-every", 3, "--checkpoint-keep", 3
    found = {}
    for how in ((), ("--checkpoint-async",)):
        done = record(*words, "--steps", 7, *kept, *how)
        found[how] = [
            (read.state.step, read.state.state_hash, read.head["totals"])
            for read in (read_checkpoint("", checkpoint.kept(file, n)) for n in range(2))
            if not read.verify()
        ]
        assert {*tmp_path.iterdir()} == {file, checkpoint.kept(file, 1)}
        for old in tmp_path.iterdir():
            old.unlink()
    assert len({*map(str, found.values())}) == 1 and held == [True, True], (found, held)
    assert done["checkpoints_written_s"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("how", [(), ("--checkpoint-async",)])
@pytest.mark.parametrize("method", ["create", "write", "flush", "finish"])
def test_a_failure_leaves_the_previous_checkpoint(method, how, tmp_path, monkeypatch):
    """Catches a checkpoint that is lost, or a part that is left, when the next one fails."""
    words, file = RUNS["echo"].split(), tmp_path / "c.h5"
    usual = getattr(Hdf5Checkpoints, method)

    def failing(self: Hdf5Checkpoints, *given: Any) -> None:
        usual(self, *given)
        if file.exists() and read_checkpoint("", file).state.step >= 4:
            with self._told():
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Hdf5Checkpoints, method, failing)
    kept = "--checkpoint", file, "--checkpoint-every", 2, "--checkpoint-keep", 1
    done = support.in_process("run", *words, *kept, *how)
    assert done.returncode == 3, done
    assert f"--checkpoint {file} cannot be written: No space left on device" in done.stderr
    assert [*tmp_path.iterdir()] == [file]
    monkeypatch.undo()
    assert record("resume", file)["state_hash"] == record("run", *words)["state_hash"]


def test_a_failure_while_names_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a second name of the previous checkpoint that is left."""
    file, usual = tmp_path / "c.h5", os.replace

    def failing(old: Path, new: Path) -> None:
        if new == checkpoint.kept(file, 1):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        usual(old, new)

    monkeypatch.setattr(os, "replace", failing)
    words = *RUNS["echo"].split(), "--checkpoint", file, "--checkpoint-every", 2
    assert "Input/output error" in support.in_process("run", *words).stderr
    assert [*tmp_path.iterdir()] == [file] and read_checkpoint("", file).state.step == 2


def saved_rows(path: Path, values: np.ndarray, ids: np.ndarray) -> SavedState:
    """A file with rows, and with unused ones between them."""
    first, count = int(ids.min()), int(np.ptp(ids)) + 1
    all_ids, rows = np.full(count, NOBODY), np.zeros((count, values.shape[1]), values.dtype)
    all_ids[ids - first], rows[ids - first] = ids, values
    path.write_bytes(all_ids.tobytes() + rows.tobytes())
    arrays = {
        "p": Stored(rows.dtype.str, rows.shape, all_ids.nbytes, first),
        "p.id": Stored("<i8", all_ids.shape, 0, first),
    }
    return SavedState(path, 0, "", arrays, {})


@pytest.mark.parametrize("kind", ["<f8", "<f4"])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_rows_of_several_blocks(axes, kind, tmp_path, monkeypatch):
    """Catches rows that are lost, or found twice, where a process sorts them for its blocks."""
    monkeypatch.setattr(saved, "CHUNK", 3000)
    random = np.random.default_rng(axes)
    count, sides = 2000, (1.5, 7.0, 1e-3)[:axes]
    values = (random.random((count, axes + 2)) * [*sides, 1, 1]).astype(kind)
    values[::7, 0] = 0.5  # the border of blocks
    values[1::50, 0] = random.choice([np.inf, -np.inf, np.nan], 40)  # in no block
    ids = 5 + random.permutation(3 * count)[:count]
    state = saved_rows(tmp_path / "p", values, ids)
    cuts = [np.linspace(0, side, 4) for side in sides]
    boxes = [tuple(zip(*box, strict=True)) for box in product(*map(pairwise, cuts))]
    alone = [state.rows("p", *box) for box in boxes]
    one, _ = (state.for_block(number) for number in range(2))
    together = [one.rows("p", *box) for box in boxes]
    for (of_alone, rows), (of_both, found) in zip(alone, together, strict=True):
        assert np.array_equal(of_alone, of_both) and np.array_equal(rows, found)
        assert (np.diff(of_alone) > 0).all()
    inside = sum(len(some) for some, _ in together)
    assert inside == np.isfinite(values[:, 0]).sum() > 0
    assert len(one.found) == 1 and not pickle.loads(pickle.dumps(one)).found


# Wrong programs -----------------------------------------------------------------------------------


def without(name: str, usual: Callable[[Any], Checkpoint], self: Any) -> Checkpoint:
    """A checkpoint in which one total is that of a run that has just begun."""
    found = usual(self)
    total = found.totals[name]
    nothing = total._replace(value=np.zeros_like(total.value))
    return found._replace(totals=dict(found.totals) | {name: nothing})


def without_time(usual: Callable[..., Any], self: Any, saved: SavedState) -> Any:
    """A block that takes up everything but the step."""
    yield from usual(self, saved)
    self.time = 0


def two_ids_changed(usual: Callable[..., Any], self: SavedState, *given: Any) -> Any:
    """Rows that have each other's ids."""
    ids, rows = usual(self, *given)
    ids[:2] = ids[:2][::-1]
    return ids, rows


def shifted_rows(usual: Callable[..., Any], self: Hdf5Checkpoints, pieces: Any) -> None:
    """A block that writes to the place of others."""
    usual(self, [piece._replace(ids=np.roll(piece.ids, 1)) for piece in pieces])


def swapped_velocities(usual: Callable[..., Any], self: Any, saved: SavedState) -> Any:
    """Atoms that have each other's velocities."""
    yield from usual(self, saved)
    self.atoms.velocity[:, :2] = self.atoms.velocity[:, 1::-1]


WRONG: dict[str, tuple[str, Any, str, Callable[..., Any]]] = {
    "a sum of ids is lost": ("pic", PicBlock, "checkpoint", partial(without, "removed")),
    "starts are lost": ("pic", PicBlock, "checkpoint", partial(without, "begun")),
    "the number so far is lost": ("pic", PicBlock, "checkpoint", partial(without, "born")),
    "the table is lost": ("leanmd, blocks", Domain, "checkpoint", partial(without, "rows")),
    "the step is lost": ("pic", PicBlock, "resume", without_time),
    "atoms change velocities": ("leanmd, blocks", Domain, "resume", swapped_velocities),
    "ids are mixed up": ("pic", SavedState, "rows", two_ids_changed),
    "rows of others are written": ("pic", Hdf5Checkpoints, "write", shifted_rows),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WRONG)
def test_wrong_programs_are_found(name, tmp_path, monkeypatch):
    """Catches checks, hashes and comparisons that miss what a checkpoint has lost."""
    run, kind, method, wrong = WRONG[name]
    usual = getattr(kind, method)
    monkeypatch.setattr(kind, method, lambda self, *given: wrong(usual, self, *given))
    file = tmp_path / "c.h5"
    kept = "--checkpoint", file, "--checkpoint-every", 1, "--checkpoint-keep", 9
    steps = 1 if name == "the number so far is lost" else 4  # before particles are injected
    record("run", *RUNS[run].split(), *kept)
    files = [
        other for other in tmp_path.iterdir() if read_checkpoint("", other).state.step == steps
    ]
    done = support.in_process("resume", *files)
    assert done.returncode in (1, 2, 3), done.stdout


def test_shares_that_do_not_fit() -> None:
    """Catches blocks of two types whose pieces would be written over each other, and wide ids."""
    few = Extent("<f8", (3,), (1, 2), 2)
    with pytest.raises(CheckpointError, match="different types"):
        few.joined(Extent("<f4", (3,), (3, 4), 2), "x")
    assert few.joined(Extent("<f8", (3,), (1, 0), 0), "x") == few
    share = Share(set(), {"x": few._replace(ids=(1, 10**12))}, {"x": np.zeros(4, np.uint64)})
    with pytest.raises(CheckpointError, match="2 rows with ids from 1 to 1000000000000"):
        Share.joined([share])


def test_what_is_in_a_checkpoint(written: Path) -> None:
    """Catches a summary of another run, and one that does not say where the run goes on."""
    done = support.in_process("checkpoint", written)
    assert done.returncode == 0 and "pic, step 8 of 9" in done.stdout, done
    found = json.loads(support.in_process("checkpoint", written, "--json").stdout)
    assert (found["app"], found["step"], found["resumed"]) == ("pic", 8, [])


def test_lines_on_a_checkpoint() -> None:
    """Catches steps without those of the warm-up, PEs of another run, and a history cut short."""
    head = {"app": "pic", "step": 8, "warmup": 3, "steps": 9, "finished": False}
    head |= {"state_hash": "ab", "words": ["--size", "20"], "case": {"--driver": "mpi", "-n": "2"}}
    head |= {"resumed": [{"step": 2}, {"step": 5}]}
    head |= {"arrays": {"particles": {"dtype": "<f8", "shape": [3, 5]}}}
    found: Any = SimpleNamespace(head=head)
    assert resume.summary(found) == [
        "pic, step 8 of 12",
        "  state ab: all hashes hold",
        "  problem --size 20",
        "  written under mpi on 2 PEs",
        "  by a run that was resumed at step 2, 5",
        "  particles: <f8 3x5",
    ]
    head |= {"finished": True, "resumed": []}
    assert resume.summary(found)[0] == "pic, step 8 of 12, its tolerance is met"
    assert len(resume.summary(found)) == 5


def test_the_skeleton_goes_on(tmp_path: Path) -> None:
    """Catches an app of `miniapps new` that cannot be resumed, on other blocks."""
    legs = [Leg((3,), "cpu", 7), Leg((2,), "cpu", 13)]
    require_continued(Block, Problem(size=(101,)), legs, tmp_path)
