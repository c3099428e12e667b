"""What the program writes, it reads as it was: command lines, studies, records, schedules."""

from __future__ import annotations

import json
from argparse import Namespace
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given
from hypothesis import strategies as st
from profiles import examples
from test_strangers import a_record

from miniapps import apps, drivers
from miniapps.drivers.schedule import VERSION, Event, Schedule, read_schedule
from miniapps.parameters import InputError, Number
from miniapps.workbench.cli import build_parser
from miniapps.workbench.run.revalidation import objection
from miniapps.workbench.run.spec import RunSpec
from miniapps.workbench.study.options import expanded, study_of

few = examples(25, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])


def parsed_line(words: list[str]) -> Namespace:
    """The options of a command line."""
    return build_parser(words).parse_args(words)


# Command lines ------------------------------------------------------------------------------------


def values_of(field: Any) -> st.SearchStrategy[Any] | None:
    """Words for an option, from what it declares; None for a text of its own form."""
    declared = field.metadata
    if declared["choices"]:
        return st.sampled_from(declared["choices"])
    if isinstance(declared["parse"], Number):
        number = declared["parse"]
        return st.floats(number.least, min(number.most, 1e300)).filter(number.takes)
    return st.integers(0, 12) if declared["parse"] is int else None


@st.composite
def run_lines(draw: st.DrawFn) -> list[str]:
    """Command lines of runs, some of them impossible, with options of app and driver."""
    app = draw(st.sampled_from(apps.names()))
    driver = draw(st.sampled_from(drivers.names()))
    problem = apps.load(app).Problem
    words = ["run", app, "--preset", "tiny", "--driver", driver]
    options = [*fields(problem), *fields(RunSpec), *fields(drivers.get(driver).options)]
    known = {field.metadata["option"]: values_of(field) for field in options if field.metadata}
    known = {option: values for option, values in known.items() if values is not None}
    for option in ("--device", "--driver", "--bytes", "--gpus-per-host"):
        known.pop(option, None)
    chosen = draw(st.lists(st.sampled_from(sorted(known)), max_size=3, unique=True))
    return words + [f"{option}={draw(known[option])}" for option in chosen]


@pytest.mark.slow
@few
@given(run_lines())
def test_a_run_is_the_run_that_its_command_line_asks_for(words: list[str]) -> None:
    """Catches a value that a launched run or a record shows in other words than it reads."""
    try:
        spec = RunSpec.create(parsed_line(words))
    except InputError:
        assume(False)
    again = RunSpec.create(parsed_line(spec.arguments()))
    assert again.arguments() == spec.arguments()
    assert again.prepared == spec.prepared and again.own == spec.own
    assert again.recorded() == spec.recorded()


@pytest.mark.parametrize(
    "how", ["mpi -n 2", "charm -n 3 --odf 2 --pe-grid 1x3", "serial --pe-grid 2x2"]
)
def test_commands_of_runs_in_which_refinements_have_pes_of_their_own(how: str) -> None:
    """Catches a launched command that its own PEs refuse, or read in another way."""
    words = f"run amr --preset tiny --placement high-water --driver {how}"
    spec = RunSpec.create(parsed_line(words.split()))
    again = RunSpec.create(parsed_line(spec.arguments()))
    assert again.layout == spec.layout
    assert again.arguments() == spec.arguments()


# Studies ------------------------------------------------------------------------------------------

OPTIONS: dict[str, st.SearchStrategy[Any]] = {
    "pes": st.lists(st.integers(1, 9), min_size=1, max_size=3, unique=True),
    "odf": st.lists(st.integers(1, 4), min_size=1, max_size=3, unique=True),
    "steps": st.integers(1, 1000),
    "warmup": st.integers(0, 1000),
    "tolerance": st.floats(0, 1e300),
    "initial": st.sampled_from(["ones", "noise"]),
    "shuffle-seed": st.integers(0, 1 << 62),
    "size": st.integers(40, 1 << 31).map(lambda n: f"{n}x{n}"),
}


@pytest.mark.slow
@few
@given(options=st.fixed_dictionaries({}, optional=OPTIONS), quick=st.booleans())
def test_a_study_of_a_file_is_that_of_the_command_line(tmp_path_factory, options, quick):
    """Catches a list or number that TOML writes in another way, and [quick] without effect."""
    path = tmp_path_factory.mktemp("study") / "study.toml"
    lines = [f"{key} = {json.dumps(value)}\n" for key, value in options.items()]
    head = ['kind = "strong"\n', 'app = "jacobi2d"\n']
    path.write_text("".join(head + ["[quick]\n"] * quick + lines))
    words = [f"--{key}={_text(value)}" for key, value in options.items()]
    from_file = ["study", *expanded([str(path), *["--quick"] * quick])]
    heads = [
        study_of(parsed_line(line)) for line in (from_file, ["study", "strong", "jacobi2d", *words])
    ]
    assert heads[0] == heads[1]


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


# Records ------------------------------------------------------------------------------------------

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=4,
)


@pytest.mark.slow
@given(st.data())
def test_a_record_with_any_other_value_is_checked(data: st.DataObject) -> None:
    """Catches a value of another kind that ends the check of a record by an exception."""
    record = a_record()
    inner: Any = record
    while True:
        keys = sorted(inner) if isinstance(inner, dict) else range(len(inner))
        key = data.draw(st.sampled_from(keys))
        deeper = isinstance(inner[key], dict | list) and inner[key]
        if not deeper or data.draw(st.booleans()):
            break
        inner = inner[key]
    inner[key] = data.draw(VALUES)
    reason = objection(record)
    assert reason is None or reason and "\n" not in reason


# Schedules ----------------------------------------------------------------------------------------

NUMBERS = st.integers(-1, 1 << 40)
INDEX = st.lists(NUMBERS, max_size=3).map(tuple)
PLACES = st.tuples(st.text(max_size=4), INDEX)
EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.tuples(st.sampled_from(["message", "sum"]), NUMBERS, st.text(max_size=4), PLACES, INDEX),
    st.tuples(st.just("begin"), NUMBERS, PLACES),
    st.tuples(st.just("turn"), NUMBERS, PLACES, NUMBERS),
    st.tuples(st.just("reduce"), NUMBERS, st.text(max_size=4), NUMBERS),
    st.tuples(st.just("batch"), NUMBERS),
)


@pytest.mark.long
@few
@given(
    holds=st.dictionaries(EVENTS, EVENTS, max_size=4),
    moves=st.dictionaries(st.tuples(NUMBERS, PLACES), NUMBERS, max_size=3),
)
def test_a_schedule_is_read_as_it_was_written(tmp_path_factory, holds, moves):
    """Catches an event of one kind that is read as another, or not at all."""
    path: Path = tmp_path_factory.mktemp("schedule") / "schedule.json"
    schedule = Schedule(holds, moves)
    path.write_text(json.dumps({"schedule": VERSION, **schedule.plain()}))
    assert read_schedule(path, "--schedule")[0] == schedule
