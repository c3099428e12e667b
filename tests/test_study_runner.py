"""How a study is run, in pieces: what is left to do, when a run is disturbed, how long to wait."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import support

from miniapps.workbench.study import noise, runner
from miniapps.workbench.study.runner import Policy

QUIET = {"load_average": 0.0, "switches_per_s": 0.0, "waited": 0.0, "steal": 0.0}
LIMIT = 0.5  # of a run's time that others may take; more than `noise.NOISY`


def campaign(*events: dict[str, Any], points: int = 1, done: Any = ()) -> Any:
    """A campaign of these events."""
    head = {"points": [{}] * points, "study": {"shuffle_seed": 5}}
    return SimpleNamespace(
        events=events, head=head, completed=done,
        of=lambda kind: [event for event in events if event["event"] == kind],
    )  # fmt: skip


NOISE = campaign(*({"event": "noise", "seconds": seconds} for seconds in (2.0, 1.0, 4.0)))


def policy(**values: Any) -> Policy:
    """Two trials, or others."""
    usual = {"trials": 2, "until_ci": None, "most_trials": 9, "pin": False, "stall_s": None}
    return Policy(**(usual | values))


@pytest.mark.parametrize(
    ("more", "after_s", "most", "said"),
    [
        ({}, 1.0, LIMIT, None),
        ({"waited": LIMIT}, 1.0 + LIMIT, LIMIT, None),
        ({"waited": 0.625}, 1.0, LIMIT, "disturbed: a PE waited 62% of the time"),
        ({}, 1.625, LIMIT, "disturbed: a fixed piece of work took 62% longer"),
        ({}, 1.0 + noise.NOISY / 2, 0.0, None),
        ({}, 1.0 + noise.NOISY * 1.25, 0.0, "disturbed: a fixed piece of work took"),
    ],
)
def test_what_disturbs_a_run(more, after_s, most, said):
    """Catches a limit that is another one, and work that is compared with another sample."""
    record = {"oversubscribed": False, "disturbance": QUIET | more}
    found = runner._disturbance(NOISE, record, after_s, most)
    assert (found is None) if said is None else str(found).startswith(said)


@pytest.mark.parametrize(
    ("samples", "most", "waits", "lines"),
    [
        ([1.5], LIMIT, 0, 0),
        ([1 + noise.NOISY], 0.0, 0, 0),
        ([1.625, 9.0, 1.5], LIMIT, 2, 1),
        ([1 + noise.NOISY * 1.25, 1.0], 0.0, 1, 1),
        ([9.0] * 99, LIMIT, 60, 1),  # 120 s
    ],
)
def test_waiting_for_a_quiet_machine(samples, most, waits, lines, capsys, monkeypatch):
    """Catches a wait without end, for nothing, or without a word, and one word per sample."""
    now, slept = [50.0], []
    left = iter(samples)

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=sleep)
    monkeypatch.setattr(runner, "time", clock)
    monkeypatch.setattr(noise, "sample", lambda: next(left))
    runner._wait_for_quiet(NOISE, most)
    assert slept == [2.0] * waits
    said = "the machine is busy: waiting, at most 120 s\n"
    assert capsys.readouterr().err == said * lines


@pytest.mark.parametrize(
    ("seconds", "left", "said"),
    [
        ((10.0, 20.0), 3, "3 runs left, about 45 s"),
        ((50.0,), 2, "2 runs left, about 100 s"),
        ((101.0,), 1, "1 run left, about 2 min"),
        ((60.0,), 100, "100 runs left, about 100 min"),
    ],
)
def test_time_that_is_left(seconds: tuple[float, ...], left: int, said: str) -> None:
    """Catches minutes for seconds, and samples of noise that are taken for runs."""
    runs = [{"event": "run", "trial": 0, "seconds": one} for one in seconds]
    dropped = {"event": "dropped", "trial": 0}
    others = {"event": "noise", "seconds": 1000.0}, {"event": "start"}, dropped
    assert runner._time_left(campaign(*runs, *others), left) == said


class Subject:
    """A subject of which one point is wide."""

    def wide(self, campaign: Any, until: float) -> dict[int, float]:
        """Its widths."""
        assert until == 0.25
        return {1: 0.5}


@pytest.mark.parametrize(
    ("values", "done", "trials", "left"),
    [
        ({}, [], [0] * 3 + [1] * 3, [6, 5, 4, 3, 2, 1]),
        ({}, [(0, 0), (0, 1), (0, 2), (1, 1)], [1, 1], [2, 1]),
        ({"most_trials": 1}, [], [0] * 3 + [1] * 3, [6, 5, 4, 3, 2, 1]),
        (
            {"until_ci": 0.25, "most_trials": 4},
            [],
            [0] * 3 + [1] * 3 + [2, 3],
            [6, 5, 4, 3, 2, 1, 1, 1],
        ),
    ],
)
def test_what_is_left_to_do(values, done, trials, left):
    """Catches a run that is made twice or not at all, and a number of runs that is another one."""
    made = [*runner._todo(Subject(), policy(**values), campaign(points=3, done=done))]
    assert [trial for trial, _, _ in made] == trials
    assert [count for _, _, count in made] == left
    for trial in range(2):
        order = [point for one, point, _ in made if one == trial]
        usual = runner.shuffled(5, trial, 3)
        assert order == [point for point in usual if (trial, point) not in done]
    assert {point for trial, point, _ in made if trial > 1} <= {1}


@pytest.mark.parametrize(
    ("word", "plain"),
    [
        ("/opt/bin/mpiexec", "mpiexec"),
        ("A=/opt/lib/libx.so", "A=libx.so"),
        ("A=B=/opt/lib", "A=B=lib"),
        ("A=3/4", "A=3/4"),
        ("A=", "A="),
        ("-n", "-n"),
    ],
)
def test_words_of_a_command(word: str, plain: str) -> None:
    """Catches a folder of this machine, and a value that is cut."""
    assert runner._plain(word) == plain


def test_what_differs() -> None:
    """Catches an entry that is the same on both sides, or is on one side only and not named."""
    assert runner._differing({"a": 1, "b": 2}, {"a": 1, "c": 3}) == (
        {"b": 2, "c": None},
        {"b": None, "c": 3},
    )
    assert runner._differing(True, False) == (True, False)


@pytest.mark.parametrize(
    ("values", "fits"), [({}, 3), ({"launcher": "mpiexec"}, 0), ({"force": True}, 0)]
)
def test_what_must_fit(values: dict[str, Any], fits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a study that fills the memory, and one that is refused although it was forced."""
    called: list[str] = []
    study = support.small_study(drivers=("mpi",), pes=(1, 2, 3))
    specs = study.specs()
    monkeypatch.setattr(runner, "check_fits", lambda spec: called.append("fits"))
    monkeypatch.setattr(type(specs[0].can), "require_modules", lambda _: called.append("has"))
    monkeypatch.setattr(runner, "measure", lambda subject, *_: len(subject.runs))
    monkeypatch.setattr(runner.launch, "command", lambda *_: [])
    monkeypatch.setattr(runner.launch, "pinning", lambda *_: ["-bind"])
    assert runner.run_campaign(study, specs, policy(**values), support.ROOT) == 3
    assert (called.count("fits"), called.count("has")) == (fits, 3)
    assert [runner.pinning(specs[0], policy(pin=pin)) for pin in (True, False)] == [["-bind"], []]


def test_a_run_is_shown_in_milliseconds() -> None:
    """Catches another unit."""
    record = support.whole_record({"steps": 2, "warmup": 0, "pes": 1, "odf": 1}, 0.00123449)
    said = runner.RunsOfAnApp(support.small_study(), []).shown(record)
    assert said == "1.234 ms per step"


@pytest.mark.parametrize(("noise_allowed", "waited"), [(None, []), (0.25, [0.25])])
def test_one_run(noise_allowed, waited, monkeypatch, capsys):
    """Catches a run on a busy machine, a time that includes the wait, and a line without a unit."""
    added: list[Any] = []
    writer = SimpleNamespace(
        campaign=campaign(), add=lambda event, **what: added.append((event, what))
    )
    study = support.small_study()
    (spec, *_), now, found = study.specs(), iter([10.0, 10.1234567]), []
    record = support.whole_record({"steps": 2, "warmup": 0, "pes": 1, "odf": 1}, 0.25)
    subject = SimpleNamespace(
        launched=lambda *_: (spec, ["/bin/run", "-n"]), rejection=lambda *_: None,
        stored=lambda record: record,
        label=lambda *_: "mpi", shown=runner.RunsOfAnApp(study, []).shown,
    )  # fmt: skip
    monkeypatch.setattr(runner, "_wait_for_quiet", lambda _, most: found.append(most))
    monkeypatch.setattr(runner.launch, "launch", lambda *_: record)
    monkeypatch.setattr(runner, "time", SimpleNamespace(perf_counter=lambda: next(now)))
    monkeypatch.setattr(noise, "sample", lambda: 0.5)
    asked = policy(max_noise=noise_allowed)
    assert runner._one_run(writer, subject, 2, 0, asked, 1, None) and found == waited
    run = {"trial": 2, "point": 0, "command": "run -n", "seconds": 0.123, "record": record}
    assert added == [("run", run), ("noise", {"seconds": 0.5})]
    assert capsys.readouterr().err == "trial 3, mpi: 250 ms per step\n"


def test_an_interrupted_study_says_how_to_go_on(tmp_path, monkeypatch):
    """Catches an interrupt without a word, and a lock that has no folder or stays."""
    monkeypatch.setattr(runner, "cache_folder", lambda: tmp_path / "new" / "folder")
    path, begun = tmp_path / "c.jsonl", []

    def interrupt(*_: Any) -> None:
        begun.append(path)
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "_begin", interrupt)
    study = support.small_study(drivers=("serial",), pes=(1,))
    subject = runner.RunsOfAnApp(study, [(spec, []) for spec in study.specs()])
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt) as raised:
            runner.measure(subject, policy(), path)
        said = f"{path} has 0 finished runs; the same command continues the study"
        assert str(raised.value) == said
    assert begun == [path] * 2
