"""Runs that stop early: after a signal or a time limit, with a checkpoint that goes on."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from contextlib import nullcontext
from itertools import count
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import h5py
import numpy as np
import pytest
import support
from test_checkpoints import RUNS, drawn_case, physics, record

from miniapps import apps
from miniapps.drivers import agreements
from miniapps.drivers.agreements import Agreements, Wish
from miniapps.drivers.job import Segment
from miniapps.parameters import InputError
from miniapps.workbench.exit_status import STOPPED, WRONG
from miniapps.workbench.run import earlier
from miniapps.workbench.run.checkpoint import read_checkpoint
from miniapps.workbench.run.durations import Duration, duration
from miniapps.workbench.run.monitor import Monitor
from miniapps.workbench.run.progress_file import ProgressFile
from miniapps.workbench.run.record import status_of, summary
from miniapps.workbench.run.revalidation import MEASURED, contradiction, objection, steps_made

TILED = {"jacobi2d": 2, "jacobi2d, float32": 2, "stencil3d": 1}  # steps per round; others: 1


def stopped(*words: object) -> tuple[dict[str, Any], str]:
    """The record of a run that must stop early, and what it says."""
    done = support.in_process(*words, "--json", "-")
    assert done.returncode == STOPPED, f"{words}\n{done.stdout}\n{done.stderr}"
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found, done.stderr


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let PEs agree after every round."""
    monkeypatch.setattr(agreements, "APART_S", 0.0)


def signalled_after(rounds: int) -> Callable[[ProgressFile], bool]:
    """What takes the place of `ProgressFile.signalled`: the signal comes in that round."""
    asked = count(1)
    return lambda _: next(asked) == rounds


@pytest.mark.slow
@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("name", RUNS)
def test_stopped_anywhere_as_if_never_stopped(name, tmp_path, monkeypatch):
    """Catches a stop between a block's round and others', and results without the whole run."""
    words, file, random = RUNS[name].split(), tmp_path / "c.h5", Random(f"stop {name}")
    words = [*words, *(["--time-tile", TILED[name]] if name in TILED else [])]
    begin = ["run", *words, "--checkpoint", file, "--checkpoint-every", 1000]
    whole = record("run", *words, "--warmup", 1)
    ends = [0]
    for _ in range(2):
        monkeypatch.setattr(ProgressFile, "signalled", signalled_after(random.choice((1, 2))))
        found, line = stopped(*begin, *drawn_case(random, name), "--warmup", 1)
        ends.append(found["stopped"]["step"])
        assert found["valid"] and found["stopped"] == {"step": ends[-1], "by": "signal"}
        assert found["steps"] == ends[-1] - max(1, ends[-2])
        said = f"after step {ends[-1]} of {whole['steps'] + 1}; continue: miniapps resume {file}"
        assert said in line and line.count("\n") == 1
        assert read_checkpoint("", file).state.step == ends[-1] > ends[-2]
        begin = ["resume", file]
    monkeypatch.setattr(ProgressFile, "signalled", lambda _: False)
    last = record("resume", file, *drawn_case(random, name))
    assert physics(last) == physics(whole) and "stopped" not in last
    assert [past["step"] for past in last["resumed"]] == ends[1:]


@pytest.mark.long
@pytest.mark.usefixtures("often")
def test_stopped_in_the_warm_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a run without any time that counts as wrong, or is shown, and lost warm-up steps."""
    words = *RUNS["stencil3d"].split(), "--time-tile", 1, "--warmup", 4
    monkeypatch.setattr(ProgressFile, "signalled", signalled_after(2))
    output = "--output", tmp_path / "o.h5", "--snapshot-every", 1
    kept = "--checkpoint", tmp_path / "c.h5", "--checkpoint-every", 9
    found, _ = stopped("run", *words, *kept, *output, "--pe-grid", "2x1x1")
    assert (found["valid"], found["steps"], found["stopped"]["step"]) == (True, 0, 3)
    assert not found.keys() & MEASURED.keys() and steps_made(found) == 3
    assert contradiction(found) is None and "there are no times" in str(objection(found))
    assert "there are no times" in summary(found) and "WRONG" not in summary(found)
    assert status_of(found | {"valid": False}) == WRONG
    assert physics(record("resume", tmp_path / "c.h5")) == physics(record("run", *words))


@pytest.mark.usefixtures("often")
def test_agreements_change_no_round(tmp_path: Path) -> None:
    """Catches segments that cut a round of several steps, and load that is balanced otherwise."""
    words = "run", *RUNS["jacobi2d, float32"].split(), "--time-tile", 5, "--warmup", 0
    usual = record(*words)
    found = record(*words, "--checkpoint", tmp_path / "c.h5", "--checkpoint-every", 99)
    assert found["rounds"]["count"] == usual["rounds"]["count"] == [5, 5, 2]
    assert found["state_hash"] == usual["state_hash"] and not (tmp_path / "c.h5").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("last", [1, 4, 5])
def test_frames_go_on(last: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches frames that are lost when a run goes on, come twice, or are of no multiple."""
    whole, file, saved = (tmp_path / f"{name}.h5" for name in ("whole", "file", "c"))
    how = "--trajectory", 2, "--hash-every", 1, "--snapshot-every", 3, "--output"
    words = "run", *RUNS["leanmd, blocks"].split(), "--warmup", 2
    record(*words, *how, whole)
    monkeypatch.setattr(ProgressFile, "signalled", signalled_after(last))
    stopped(*words, *how, file, "--checkpoint", saved, "--checkpoint-every", 99)
    assert max(frames(file)) == last + 1
    for _ in range(2):  # once more: what was made after the checkpoint is cut
        record("resume", saved, "--pe-grid", "1x1x1", *how, file)
        assert [*frames(file)] == [0, 2, 4, 6, 8, 10, 11] and frames(file) == frames(whole)
        assert tables(file) == tables(whole)


def tables(path: Path) -> dict[str, bytes]:
    """The bytes of all that a file has of earlier steps, but the frames of a trajectory."""
    found: dict[str, bytes] = {}

    def add(name: str, data: Any) -> None:
        if isinstance(data, h5py.Dataset) and name.startswith(("hashes", "snapshots", "obs")):
            found[name] = data[...].tobytes()

    with h5py.File(path) as file:
        file.visititems(add)
    assert {name.partition("/")[0] for name in found} == {"hashes", "snapshots", "observables"}
    return found


@pytest.mark.long
@pytest.mark.usefixtures("often")
def test_frames_of_rounds_of_several_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a frame that is kept, or cut, by its step instead of the round that reached it."""
    whole, file, saved = (tmp_path / f"{name}.h5" for name in ("whole", "file", "c"))
    words = "run", *RUNS["jacobi2d, float32"].split(), "--time-tile", 4, "--warmup", 4
    how = "--hash-every", 3, "--snapshot-every", 7, "--output"
    record(*words, *how, whole)
    for last in (0, 1):  # of the rounds 0..4, 4..8, 8..12, 12..16
        monkeypatch.setattr(ProgressFile, "signalled", signalled_after(last + 1))
        stopped(*words, *how, file, "--checkpoint", saved, "--checkpoint-every", 99)
        record("resume", saved, *how, file)
        with h5py.File(whole) as one, h5py.File(file) as other:
            for name in ("hashes/step", "hashes/u", "snapshots/step", "snapshots/thumbnail"):
                assert np.array_equal(one[name], other[name]), (last, name)


@pytest.mark.long
@pytest.mark.usefixtures("often")
def test_outputs_that_cannot_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches frames that are lost without a word: of other intervals, and between two parts."""
    saved, file = tmp_path / "c.h5", tmp_path / "file.h5"
    words = "run", *RUNS["echo"].split(), "--warmup", 0, "--checkpoint", saved
    monkeypatch.setattr(ProgressFile, "signalled", signalled_after(2))
    stopped(*words, "--checkpoint-every", 9, "--hash-every", 1, "--output", file)
    earlier = file.read_bytes()
    on = "resume", saved, "--output", file, "--hash-every"
    line = support.refused([*on, 2])
    assert "was written with --hash-every 1: give that again, or name another file" in line
    monkeypatch.setattr(ProgressFile, "signalled", signalled_after(2))
    stopped("resume", saved)
    assert "file.h5: ends at step 3, but" in support.refused([*on, 1])
    monkeypatch.setattr(ProgressFile, "signalled", lambda _: False)
    assert file.read_bytes() == earlier
    record("run", "echo", "--size", "5x5", "--steps", 2, "--output", file)
    record(*on, 1)  # the output of another problem is replaced, as by any run
    with h5py.File(file) as opened:
        assert opened["hashes/step"][...].tolist() == [7, 8, 9]


@pytest.mark.parametrize(("every", "said"), [(2, ""), (3, "--trajectory 2"), (0, "--trajectory 2")])
def test_frames_of_another_interval_are_not_mixed(every, said, monkeypatch):
    """Catches a trajectory whose frames are 2 steps apart at first, and 3 after it was resumed."""
    before = {"problem": {"trajectory": 2}, "snapshot_every": 0, "hash_every": 0}
    before |= {"steps": 4, "warmup": 0, "resumed": []}
    monkeypatch.setattr(earlier, "earlier_part", lambda *_: before)
    problem = apps.load("leanmd").Problem(trajectory=every)
    kinds = {"app": "leanmd", "problem": problem, "snapshot_every": 0, "hash_every": 0}
    came = {"resumed": SimpleNamespace(past=list), "resume": Path("c.h5"), "start": 4}
    spec = SimpleNamespace(output=Path("file.h5"), **kinds, **came)
    with pytest.raises(InputError, match=said) if said else nullcontext():
        earlier.check(spec)


def frames(path: Path) -> dict[int, bytes]:
    """The atoms in each frame of a trajectory, in the order of their ids."""
    found = {}
    with h5py.File(path) as file:
        atoms = file["particles/atoms"]
        for frame, step in enumerate(atoms["id/step"][...].tolist()):
            order = atoms["id/value"][frame].argsort()
            columns = [atoms[f"{name}/value"][frame][order] for name in ("position", "velocity")]
            found[step] = np.concatenate(columns).tobytes()
    return found


@pytest.mark.usefixtures("often")
def test_a_tolerance_that_is_met_is_no_stop(tmp_path, monkeypatch):
    """Catches a run that is done, but asks to be continued, which is refused."""
    words = "jacobi2d --size 11x8 --tolerance 10 --check-every 2 --steps 90 --warmup 0".split()
    whole = record("run", *words)
    assert whole["steps"] == 10
    monkeypatch.setattr(ProgressFile, "signalled", signalled_after(4))  # of 5 rounds of 2 steps
    kept = "--checkpoint", tmp_path / "c.h5", "--checkpoint-every", 99
    assert record("run", *words, *kept)["state_hash"] == whole["state_hash"]


def mine(*_: object) -> None:
    """Handle a signal, as a program does in which a run is made."""


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM])
@pytest.mark.parametrize("times", [1, 2])
def test_signals(number, times, tmp_path, monkeypatch):
    """Catches a signal that ends the run at once, a second one that does not, and lost handlers."""
    before, usual = signal.signal(signal.SIGUSR1, mine), ProgressFile.heartbeat

    def heartbeat(self: ProgressFile, pe: int, step: int) -> None:
        usual(self, pe, step)
        for _ in range(times if step == 3 else 0):
            os.kill(os.getpid(), number)

    monkeypatch.setattr(ProgressFile, "heartbeat", heartbeat)
    kept = "--checkpoint", tmp_path / "c.h5", "--checkpoint-every", 2, "--checkpoint-keep", 1
    done = support.in_process("run", *RUNS["echo"].split(), *kept)
    assert done.returncode == (STOPPED if times == 1 else 128 + number), done
    assert read_checkpoint("", tmp_path / "c.h5").state.step == (5 if times == 1 else 2)
    assert [*tmp_path.iterdir()] == [tmp_path / "c.h5"]
    assert signal.signal(signal.SIGUSR1, before) is mine


@pytest.mark.usefixtures("often")
def test_time_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a limit in other units, one that counts from the last resumption, and one for all."""
    ages = count(100)
    monkeypatch.setattr(agreements.system, "age_s", lambda: float(next(ages)))
    file = tmp_path / "c.h5"
    kept = "--checkpoint", file, "--time-limit", "1m43s", "--warmup", 0
    found, line = stopped("run", *RUNS["echo"].split(), *kept)
    assert found["stopped"]["by"] == "--time-limit" and "by --time-limit" in line
    first = found["stopped"]["step"]
    assert 1 <= first <= 4  # the record reads the age, too
    # The limit is kept by `resume`, unless another one is given.
    found, _ = stopped("resume", file)
    assert found["stopped"]["step"] == first + 2
    last = record("resume", file, "--time-limit", "0", "--checkpoint-every", 100)
    assert physics(last) == physics(record("run", *RUNS["echo"].split(), "--warmup", 0))


@pytest.mark.usefixtures("often")
def test_minutes_between_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches minutes that are seconds, and checkpoints that are too many or do not count."""
    seconds = count(0, 15)  # a clock that is read three times in a round, and with a checkpoint
    monkeypatch.setattr(agreements, "monotonic", lambda: float(next(seconds)))
    file = tmp_path / "c.h5"
    words = *RUNS["echo"].split(), "--warmup", 0, "--checkpoint", file
    record("run", *words, "--checkpoint-minutes", 1.5, "--checkpoint-keep", 9)
    made = sorted(read_checkpoint("", one).state.step for one in tmp_path.iterdir())
    # Each round takes 30 s; a checkpoint 15 s more, after which the clock begins again.
    assert made == [3, 6]


class Fake(Agreements):
    """Agreements of a run of many rounds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, writer: Any) -> None:
        self.now = 0.0
        monkeypatch.setattr(agreements, "monotonic", lambda: self.now)
        problem = SimpleNamespace(steps_per_round=lambda step: 1)
        spec = support.spec_of("run echo --preset minimal --steps 1000000 --warmup 0".split())
        job = spec.job()
        object.__setattr__(job, "problem", problem)
        object.__setattr__(job, "checkpoint_writer", writer)
        never = SimpleNamespace(snapshots=True, wants=lambda before, step: False)
        object.__setattr__(job, "store", never)
        super().__init__(job, lambda: False)


def test_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches an agreement per round where rounds are short, and one per minute if they grow."""
    fake = Fake(monkeypatch, SimpleNamespace(wants=lambda before, step: False))
    lengths = []
    for segment in fake.segments(0, 5000):
        made = segment.stop - segment.start
        lengths.append(made)
        fake.now += made / (256 if segment.stop < 1000 else 4)
        slower = np.array([0.0, 2.0])  # another PE takes twice as long
        assert fake.agree(fake.wish() * slower) == Wish.NOTHING
    assert lengths[:6] == [1, 10, 100, 128, 128, 128]
    assert set(lengths[-50:-1]) == {2} and lengths[12] <= 128


def test_without_checkpoints_nothing_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches runs that pay for what they do not use."""
    fake = Fake(monkeypatch, None)
    assert [*fake.segments(0, 999)] == [Segment(0, 999, 999)]
    assert not fake.due(Segment(0, 5, 999))


def test_durations() -> None:
    """Catches units that are mixed up, a number without unit, and what PEs could not read again."""
    for text, seconds in {
        "55m": 3300, "90s": 90, "1h30m": 5400, "2h": 7200, "1h1m1.5s": 3661.5, "0": 0, "0.1s": 0.1,
        "0.00002s": 2e-5, f"1{'0' * 20}s": 1e20,
    }.items():  # fmt: skip
        assert duration(text) == duration(str(duration(text))) == seconds
    for text in ("", "5", "m", "30m1h", "1d", "-5m", "1e3s", "5 m", "nan", "inf", "9" * 400 + "s"):
        with pytest.raises(ValueError, match="such as 55m, 90s or 1h30m"):
            duration(text)
    assert str(Duration(5400.0)) == "5400s"


def test_refused_options(tmp_path: Path) -> None:
    """Catches limits without a checkpoint, and batches, whose processes make other runs too."""
    words, new = ("run", *RUNS["echo"].split()), ("--checkpoint", tmp_path / "c.h5")
    for more, why in (
        (("--time-limit", "5m"), "--time-limit 300s: needs --checkpoint FILE.h5"),
        (("--checkpoint-minutes", 2), "--checkpoint-minutes 2.0: needs --checkpoint FILE.h5"),
        (new, "needs --checkpoint-every K, --checkpoint-minutes M or --time-limit T"),
        ((*new, "--time-limit", 5), "5: must be hours, minutes and seconds"),
        ((*new, "--checkpoint-minutes", "nan"), "neither inf nor nan"),
    ):
        assert why in support.refused((*words, *more))
    lines = tmp_path / "runs"
    lines.write_text(f"{' '.join(words)} --checkpoint {new[1]} --time-limit 5m\n")
    assert "--time-limit given: is no option of a run in a batch" in support.refused(
        ("batch", lines)
    )


@pytest.mark.launch
@pytest.mark.parametrize("case", ["mpi -n 2", "charm -n 2 --odf 2 --balancer Greedy --lb-period 1"])
def test_all_pes_stop(case: str, tmp_path: Path) -> None:
    """Catches PEs that do not stop together: the limit is over before the first step."""
    file = tmp_path / "c.h5"
    words = "leanmd", "--preset", "minimal", "--steps", 3
    found, _ = stopped(
        "run", *words, "--checkpoint", file, "--time-limit", "0.01s", "--driver", *case.split()
    )
    assert found["valid"] and found["stopped"] == {"step": 2, "by": "--time-limit"}
    last = record("resume", file, "--driver", "serial", "--time-limit", 0, "--checkpoint-every", 9)
    assert physics(last) == physics(record("run", *words))


@pytest.mark.launch
def test_a_signal_to_the_launching_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a signal that does not reach the PEs, and one that ends them."""
    file, sent = tmp_path / "c.h5", []
    usual = Monitor.check

    def check(self: Monitor) -> str | None:
        if not sent and min(slot.step for slot in self.progress.slots()) > 0:
            sent.append(os.kill(os.getpid(), signal.SIGTERM))
        return usual(self)

    monkeypatch.setattr(Monitor, "check", check)
    # Without a tolerance: else the run may be finished before the PEs see the signal.
    words = "jacobi2d", "--preset", "minimal", "--tolerance", 0, "--steps", 10**7
    found, line = stopped(
        "run",
        *words,
        "--checkpoint",
        file,
        "--checkpoint-every",
        10**6,
        "--driver",
        "file",
        "-n",
        2,
    )
    assert found["valid"] and sent and f"continue: miniapps resume {file}" in line
    end = found["stopped"]["step"] - found["warmup"]
    last = record("resume", file, "--driver", "serial", "--steps", end + 3)
    assert last["resumed"] == [{"step": end + found["warmup"], "state_hash": found["state_hash"]}]
    assert [*tmp_path.iterdir()] == [file]
