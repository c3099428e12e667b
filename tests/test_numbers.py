"""Numbers from strangers: every option says what it takes, and refuses the rest in one line."""

from __future__ import annotations

import argparse
import dataclasses
import math
import re
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from parsers import actions
from support import in_process, refused
from test_long_words import limited

from miniapps import apps
from miniapps.parameters import InputError, Number, Share, require_allowed

# What an option may be read by besides a `Number`, as it reads no real number.
NO_REALS = {
    "Path", "balancer_names", "balancers", "counts", "dimensions", "driver_name", "duration",
    "extents", "hosts", "int", "integer", "integer_or_auto", "names", "numbers", "part_or_number",
    "pe_counts", "str", "yes_or_no", "miniapps.communication.settings.Span",
    "miniapps.leanmd.problem.Gradient",
}  # fmt: skip
# Options whose value is a word or a name that the command reads itself.
WORDS = {
    "--device", "--driver", "--fault", "--for", "--format", "--json", "--launcher", "--lesson",
    "--library", "--machine", "--model", "--name", "--preset", "--salt", "--sbatch", "--show",
    "--vary", "apps", "file", "name", "names", "options", "positional",
}  # fmt: skip
# Options with real numbers inside of a text: what their help says. `test_numbers_out_of_range`
# tries them.
INSIDE = {
    "--distribution": "RHO and BETA above 0",
    "--event": "FRACTION from 0 to 1, not nan",
    "-z": "from 0 to 100, not nan",
}


def reader(action: argparse.Action) -> Any:
    """What reads the value of an option."""
    return action.type.args[0] if isinstance(action.type, partial) else action.type


@pytest.mark.slow
def test_every_option_says_which_real_numbers_it_takes() -> None:
    """Catches an option read by `float`, and one whose limits only its error tells."""
    reals = {(words[0], name(one)) for words, one in actions() if isinstance(reader(one), Number)}
    assert len(reals) >= 20 and {("adversary", "--seconds"), ("comm", "--stall")} <= reals
    assert [(*words, name(one)) for words, one in actions() if not says_what_it_takes(one)] == []


def name(action: argparse.Action) -> str:
    """An argument's last name."""
    return (*action.option_strings, action.dest)[len(action.option_strings) - 1]


def says_what_it_takes(action: argparse.Action) -> bool:
    """Whether an argument is no real number, or its help says which ones it takes."""
    read, help = reader(action), (action.help or "").replace("%%", "%")
    if read is None:
        return name(action) in WORDS
    if name(action) in INSIDE:
        return INSIDE[name(action)] in help
    if isinstance(read, Number):
        return read.allowed in help or help == argparse.SUPPRESS
    where = getattr(read, "__self__", None)  # of a class's method
    called = f"{where.__module__}.{where.__qualname__}" if where else read.__name__
    return called in NO_REALS and not any(map(partial(reads_a_real, read), ("0.5", "nan", "1")))


def reads_a_real(read: Callable[[str], Any], text: str) -> bool:
    """Whether a text is read as a real number."""
    try:
        return isinstance(read(text), float)
    except ValueError:
        return False


@pytest.mark.long
def test_long_words_of_every_option() -> None:
    """Catches a value that takes more than linear time to read, or to complain about.

    No argument of a program is longer than 131 072 bytes under Linux.
    """
    readers = {reader(action) for _, action in actions()} - {None}
    assert len(readers) > 20
    for read in readers:
        for unit in ("1", "1,", "a:"):
            with limited(), suppress(ValueError, argparse.ArgumentTypeError):
                read(unit * (131_072 // len(unit)))


def test_an_option_that_says_nothing_is_found() -> None:
    """Catches a walk through the parsers that takes whatever it finds."""
    add = argparse.ArgumentParser().add_argument
    wrong = [add("--a", type=float), add("--b"), add("--c", type=Number(zero=True), help="seconds")]
    wrong += [add("--event", help="text"), add("--d", type=lambda text: float(text))]
    assert not any(map(says_what_it_takes, wrong))
    assert says_what_it_takes(add("--f", type=Number(zero=True), help=Number(zero=True).allowed))


@pytest.mark.slow
def test_every_real_number_is_refused_where_it_is_not_taken() -> None:
    """Catches a command that ends by a traceback, or takes nan, inf or a number below 0."""
    seen = set()
    for words, action in actions():
        number = reader(action)
        if isinstance(number, Number) and (words[0], name(action)) not in seen:
            seen.add((words[0], name(action)))
            for text in ("nan", "inf", "-1"):
                assert number.allowed in refused([*words, f"{name(action)}={text}"])


@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("infinite", [False, True])
def test_what_a_number_takes(zero: bool, infinite: bool) -> None:
    """Catches nan, which no comparison refuses, a negative infinity, and a limit left out."""
    number = Number(zero, infinite, least=1e-9, most=10.0)
    taken = {
        "0": zero,
        "-0.0": zero,
        "inf": infinite,
        "-inf": False,
        "nan": False,
        "1e-300": False,
        "1e-9": True,
    }
    taken |= {"10": True, "10.1": False, "-1": False, "": False, "1e999": infinite, "x": False}
    for text, good in taken.items():
        if good:
            assert number(text) == float(text)
        else:
            with pytest.raises(ValueError, match="1e-09"):
                number(text)
    assert ("inf, but" in number.allowed) == infinite and ("0, or" in number.allowed) == zero
    assert Number(zero).allowed.startswith("0 or more" if zero else "above 0")


def test_what_a_share_takes() -> None:
    """Catches a percentage taken for a share, and limits that hold for only one of them."""
    share = Share(zero=False)
    assert share("2%") == share("0.02") == 0.02 and share("1e-300%") > 0
    for text in ("0", "0%", "1", "100%", "-2%", "nan", "nan%", "inf%", "%", "2%%", "x"):
        with pytest.raises(ValueError, match="below 100%"):
            share(text)


def test_what_a_program_gives_is_checked_too() -> None:
    """Catches a check that only the command line makes."""
    for value in (math.nan, math.inf, -1.0):
        with pytest.raises(InputError, match="--tolerance"):
            apps.load("jacobi2d").Problem(size=(9, 9), tolerance=value)
    with pytest.raises(InputError, match="--units joule: one of"):
        apps.load("leanmd").Problem(units="joule")

    @dataclasses.dataclass
    class Free:
        tolerance: float = dataclasses.field(default=math.nan, metadata={"parse": float})

    require_allowed(Free())  # what declares no Number is not checked


@pytest.mark.parametrize(
    "line",
    [
        "run jacobi2d --tolerance inf",
        "run jacobi2d --tolerance nan",
        "run leanmd --dt inf",
        "run leanmd --cutoff 1e300",
        "run leanmd --cutoff 1e-300",
        "run leanmd --density 1e-300",
        "run leanmd --seed 18446744073709551616",
        "run leanmd --seed 9223372036854775808",
        "run stencil3d --imbalance-scale inf",
        "run echo --timeout inf",
        "run echo --steps 99999999999999999999",
        "run jacobi2d --driver mpi -n 9223372036854775807",
        "run jacobi2d --driver charm -n 2 --odf 9223372036854775807",
        "study strong jacobi2d --pes 1,9223372036854775807",
        "study weak jacobi2d --pes 1,9223372036854775807",
        "batch /dev/null --timeout nan",
        "study strong echo --timeout inf",
        "study strong echo --pes 1,99999999999999999999",
        "run pic --distribution geometric:1e308",
        "run pic --distribution geometric:nan",
        "run pic --distribution linear:-inf,1",
        "run pic --distribution linear:0,1e200",
        "run pic --event remove:1:0,1,0,1:nan",
        "run pic --event remove:1:0,1,0,1:inf",
        "run pic --event remove:1:0,1,0,1:-0.1",
        "run pic --distribution geometric:0",
        "run pic --distribution geometric:inf",
        "run pic --distribution linear:nan,1",
        "run pic --distribution linear:0,inf",
        "run pic 10 2 100 0 1 GEOMETRIC nan",
        "run pic 10 2 100 0 1 LINEAR 0 inf",
        "comm latency -z nan",
        "comm latency -z 50,inf",
        "comm latency -z=-1",
        "run pic --event inject:99999999999999999999:1:0,1,0,1",
        "run pic 10 99999999999999999999 100 0 1 SINUSOIDAL",
        "run jacobi2d --size 99999999999999999999x3",
    ],
)
def test_numbers_out_of_range(line: str) -> None:
    """Catches inf in a record, where JSON has no word for it, and integers beyond 64 bits."""
    refused(line.split())


@pytest.mark.parametrize(
    "line",
    [
        "run leanmd --lattice 1000x1000x1000 --decomposition pairs",
        "run leanmd --cells 99999999x99999999x99999999",
        "run leanmd --cells 9999999999x1x1",
        "run leanmd --lattice 9223372036854775807x1x1",
        "run leanmd --cells 4x4x4 --per-cell 9223372036854775807",
        "run jacobi2d --size 1000000x1000000 --driver sim --pe-grid 100000x100000",
        "run stencil3d --size 999999x999999x999999 --driver charm -n 720720 --odf 720720",
        "study lb leanmd --pes 1048576 --cells 1000x1000x1000",
        f"study strong echo --drivers charm --pes {','.join(map(str, range(1, 1002)))}",
    ],
)
def test_a_plan_that_would_take_minutes(line: str) -> None:
    """Catches a refusal, or a run that cannot begin, only after every block was listed."""
    began = time.process_time()
    assert re.search("at most|more than", refused(line.split()))
    assert time.process_time() - began < 2


def test_plans_of_large_runs() -> None:
    """Catches a plan whose time grows with the blocks or with their factors."""
    began = time.process_time()
    line = "run leanmd --lattice 60x60x60 --decomposition pairs --driver charm -n 2 --dry-run"
    assert in_process(*line.split()).returncode == 0
    line = "run stencil3d --size 99999x99999x99999 --driver mpi -n 1048576 --time-tile 1 --dry-run"
    assert in_process(*line.split()).returncode == 0
    assert time.process_time() - began < 2


@pytest.mark.parametrize("option", ["--size", "--pe-grid", "--tolerance", "--preset"])
def test_a_long_value(option: str) -> None:
    """Catches an error that fills the terminal with the value, or hides what is allowed."""
    said = refused(["run", "jacobi2d", option, "9\n" * 50_000 + "x"])
    assert option in said
