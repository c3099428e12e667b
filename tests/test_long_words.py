"""Files and options with words of 10 MB: read in linear time, or refused in one line.

Each case may take `CPU_S` of a core, a hundred times what it needs; a reader whose time grows with
the square of a word's length would need hours.
"""

from __future__ import annotations

import io
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

import h5py
import pytest
from test_leanmd_inputs import DATA, FRAME, write_h5md

from miniapps.drivers.schedule import read_schedule
from miniapps.leanmd.inputs import opened
from miniapps.leanmd.plain_input import of_extended_xyz, of_lammps_data
from miniapps.lessons.checking import submissions
from miniapps.lessons.checking.submissions import Unfit, runtime_of
from miniapps.parameters import InputError
from miniapps.workbench.run import batch
from miniapps.workbench.study import options, slurm
from miniapps.workbench.study.campaign import Campaign, object_of
from miniapps.workbench.study.options import published_values
from miniapps.workbench.study.report import published_tables

LONG = 10_000_000  # bytes
CPU_S = 30.0
UNITS = [  # what a token repeats
    *"a10 \"'\\#[{=-:/,.(%x@\0\t\ré\u2028\xff_",
    *'a |1 |a=|a="b" |a=\'|a.a.|"a".|a:S:1:|1e|1,|[1,|a=[|a={|a=[ |a=\'b\' '.split("|"),
    *'{"a":|["a",|\\u0041|null,|a:1:|--|1x'.split("|"),
]
FEW = ["a", "1", " ", "a=", '"', "a.a.", "[", "1,"]


@contextmanager
def limited() -> Iterator[None]:
    """Raise an error if what is inside takes more than `CPU_S` of a core."""

    def late(number: int, frame: FrameType | None) -> None:
        raise AssertionError(f"takes more than {CPU_S:g} s of a core")

    before = signal.signal(signal.SIGVTALRM, late)
    signal.setitimer(signal.ITIMER_VIRTUAL, CPU_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def with_tokens(places: list[str], size: int, every: bool) -> Iterator[bytes]:
    """Texts with a long token in each place, "@"; ``every``: all kinds in the first place."""
    for number, place in enumerate(places):
        assert place.count("@") == 1 or place == "@"
        before, after = (part.encode() for part in place.split("@"))
        for unit in UNITS if every and number == 0 else FEW:
            one = unit.encode("latin-1" if unit == "\xff" else "utf-8")
            yield before + one * (size // len(one)) + after


def attempt(read: Callable[[Path], object], path: Path) -> str:
    """Let a reader read a file; why it is refused, in one line, or nothing."""
    try:
        with limited():
            read(path)
    except (InputError, Unfit) as error:
        said = str(error)
        assert "\n" not in said and len(said) < 1000, said[:300]
        return said
    return ""


def check(
    read: Callable[[Path], object],
    path: Path,
    places: list[str],
    size: int = LONG,
    every: bool = False,
) -> None:
    """Let a reader read texts with long tokens."""
    for data in with_tokens(places, size, every):
        path.write_bytes(data)
        attempt(read, path)


XYZ = [
    FRAME.replace("units=lj", "@"),
    FRAME.replace("5\n", "@\n", 1),
    FRAME.replace(":q:R:2", ":q:R:2@"),
    FRAME.replace('6.5"', '6.5@"'),
    FRAME.replace("Ar 1.1", "@ 1.1"),
    FRAME.replace("Ar 1.1 2.2", "Ar 1.1 @"),
    FRAME + "@",
]
LAMMPS = [
    DATA.replace("lj\n", "lj @\n", 1),
    DATA.replace("= 40", "= @"),
    DATA.replace("5 atoms", "@ atoms"),
    DATA.replace("-1 3 xlo", "@ 3 xlo"),
    DATA.replace("Masses", "@"),
    DATA.replace("1 1.0 #", "1 @ #"),
    DATA.replace("1 1 1\n", "1 @ 1\n"),
    DATA.replace("Atoms # atomic", "Atoms # @"),
    DATA.replace("7 1 -0.5", "7 1 @"),
    DATA.replace("4 -3.0", "4 @"),
]


@pytest.mark.slow
@pytest.mark.parametrize("places", [XYZ, LAMMPS], ids=["extended XYZ", "LAMMPS data"])
def test_atoms(tmp_path: Path, places: list[str]) -> None:
    """Catches a search for keys that begins at every letter of a word: 80 kB took a minute."""
    check(opened, tmp_path / "input", places, every=True)


@pytest.mark.parametrize("unit", UNITS)
def test_a_comment_as_long_as_is_allowed(tmp_path: Path, unit: str) -> None:
    """Catches a limit of a line's length below which the time still grows with its square.

    65 kB took 40 s. Also for the second program that reads a file, for the audit.
    """
    path = tmp_path / "input"
    one = unit.encode("latin-1" if unit == "\xff" else "utf-8")
    text = FRAME.replace("units=lj", "@").encode().replace(b"@", one * (65_000 // len(one)))
    path.write_bytes(text)
    attempt(opened, path)
    with limited():
        with suppress(LookupError, ValueError):
            of_extended_xyz(io.BytesIO(text), {7, 9})
    title = DATA.replace("lj\n", "lj @\n", 1).replace("@", unit * (65_000 // len(unit)))
    with limited():
        of_lammps_data(title.splitlines(), {7, 9}, argon=False)


@pytest.mark.slow
def test_attributes_of_h5md(tmp_path: Path) -> None:
    """Catches a unit, or a boundary, that is read or reported in another time than a linear one."""
    path = tmp_path / "input"
    for unit in ("a", "1"):
        write_h5md(path)
        with h5py.File(path, "r+", libver="latest") as file:
            file["particles/all/position/value"].attrs["unit"] = (unit * LONG).encode()
        assert attempt(opened, path)


TOML = 'kind = "strong"\napp = "echo"\npes = [1, 2]\nsteps = 5\n'
STUDY = [
    f"{TOML}@ = 1\n",
    f"{TOML}[@]\n",
    f"{TOML}a = @\n",
    f'{TOML}a = "@"\n',
    f"{TOML}pes = [@]\n",
    f"{TOML}a = {{@ = 1}}\n",
    TOML.replace("strong", "@"),
]


@pytest.mark.long
def test_toml(tmp_path: Path) -> None:
    """Catches a key of many parts: 20 000 of them took 14 s."""
    path = tmp_path / "input.toml"
    check(options.table_of, path, STUDY[:1])
    check(
        lambda path: options.words_of_file(path, False), path, STUDY, options.MOST_BYTES - 100, True
    )


def test_keys_of_few_parts_are_read(tmp_path: Path) -> None:
    """Catches a limit that refuses what studies have, or that a key in quotes goes around."""
    path = tmp_path / "input.toml"
    path.write_text('source = "See a.b.c, 1.5 and v1.2.3"\nx = [0.5, 1.5, 2.5]\n' * 1)
    assert options.table_of(path)["x"] == [0.5, 1.5, 2.5]
    most = options.MOST_PARTS
    for dot in (".", " . ", "\t."):
        for part in ("a", '"a b"', "'a.b'", '""'):
            path.write_text(dot.join([part] * most) + " = 1\n")
            options.table_of(path)
            path.write_text(dot.join([part] * (most + 1)) + " = 1\n")
            assert f"more than {most} parts" in attempt(options.table_of, path)


VALUES = ['{"schedule": 1, "source": "a", "x": [@]}', '{"source": "@"}', "@", '{"@": 1}']
JSON: dict[str, Callable[[Path], object]] = {
    "schedule": lambda path: read_schedule(path, "--schedule"),
    "published": published_tables,
    "published by comm": published_values,
    "campaign": Campaign.read,
    "line of a job": lambda path: object_of(path, 1, path.read_bytes()),
    "record of a job": slurm._read_json,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", JSON)
def test_json(tmp_path: Path, name: str) -> None:
    """Catches a value that is checked, or shown in a message, in more than linear time."""
    path = tmp_path / "input"
    for place in VALUES:
        for unit in ("a", "1", "[", "1,", '{"a":'):
            text = place.replace("@", unit * (LONG // len(unit)))
            path.write_text(text.replace(",]", "]") + "\n")
            attempt(JSON[name], path)


LINES = ["run echo --preset '@'", "@", 'run "@" echo', "run echo # @", "run echo\n@\n"]


@pytest.mark.long
def test_command_lines_in_a_file(tmp_path: Path) -> None:
    """Catches a word that is split off letter by letter: its time grows with the square."""
    for places, size in ((LINES[:1], LONG), (LINES, batch.LONGEST - 100)):
        check(lambda path: batch.lines_of(str(path)), tmp_path / "input", places, size)


@pytest.mark.slow
def test_files_of_jobs(tmp_path: Path) -> None:
    """Catches a command or an exit status, written by a job, of any length."""
    for read, place in ((slurm._command, "miniapps @"), (slurm._status, "@")):
        for size in (LONG, slurm.LONGEST - 100):
            check(read, tmp_path / "input", [place], size)


PROGRAM = ["from mpi4py import MPI\n@\n", "from mpi4py import MPI\na = '@'\n", "# @\n", "@"]


@pytest.mark.slow
def test_programs_of_lessons(tmp_path: Path) -> None:
    """Catches a program of 10 MB that is parsed, and one of the largest size that takes minutes."""
    from miniapps import lessons

    lesson = lessons.load("halo")
    for places, size in ((PROGRAM[:1], LONG), (PROGRAM, submissions.LONGEST - 100)):
        check(lambda path: runtime_of(path, lesson), tmp_path / "halo.py", places, size)
