"""Directories, FIFOs, sockets, devices and links in the place of files: refused in one line."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import support

from miniapps.workbench.run import batch

SPECIAL = "directory", "fifo", "socket", "loop"
OUTPUTS = {
    "--output": "run echo --preset tiny --output {}",
    "--json": "run echo --preset tiny --json {}",
    "--campaign": "study strong echo --preset tiny --pes 1 --campaign {}",
    "--csv": "comm latency --csv {}",
}
INPUTS = [
    "run leanmd --input {}",
    "run echo --preset tiny --driver sim --schedule {}",
    "plot {}",
    "diff {} {}",
    "batch {}",
    "study {}.toml",
    "study report {}",
    "study export {} --format csv",
]
ONE_FILE = [
    "run echo --preset tiny --output {}/x --json {}/./x",
    "run leanmd --input {}/data --output {}/data",
    "run leanmd --input {}/data --json {}/link",
    "adversary echo --schedule {}/x --json {}/x",
    "comm latency --json {}/x --csv {}/x",
    "run leanmd --input {}/x.1.xyz --checkpoint {}/x.xyz --checkpoint-every 1",
    "run leanmd --output {}/x.2.h5 --checkpoint {}/x.h5 --checkpoint-keep 3 --time-limit 1s",
    "run echo --json {}/data.1 --checkpoint {}/link --time-limit 1s",
]

ATOMS = """2
Lattice="12 0 0 0 12 0 0 0 12" Properties=species:S:1:pos:R:3 pbc="T T T"
Ar 1 1 1
Ar 9 9 9
"""


@pytest.fixture
def places(tmp_path: Path) -> Iterator[Path]:
    """A folder with a special file of each kind, also with the suffix .toml."""
    for end in ("", ".toml"):
        (tmp_path / f"directory{end}").mkdir()
        os.mkfifo(tmp_path / f"fifo{end}")
        (tmp_path / f"loop{end}").symlink_to(tmp_path / f"loop{end}")
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(os.path.relpath(tmp_path / f"socket{end}"))
    (tmp_path / "data").write_text(ATOMS)
    (tmp_path / "link").symlink_to(tmp_path / "data")
    (tmp_path / "x.1.xyz").write_text(ATOMS)
    yield tmp_path


def refusal(line: str) -> str:
    """The line in which a command is refused within some seconds."""
    usual = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.alarm(20)
    try:
        done = support.in_process(*line.split())
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, usual)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    return done.stderr


@pytest.mark.parametrize("option", OUTPUTS)
def test_special_files_are_no_outputs(option: str, places: Path) -> None:
    """Catches a device that is replaced by a file, and a FIFO that is waited for."""
    for kind in SPECIAL:
        assert option in refusal(OUTPUTS[option].format(places / kind))
    assert (places / "fifo").is_fifo() and (places / "socket").is_socket()
    assert option in refusal(OUTPUTS[option].format("/dev/null"))
    assert Path("/dev/null").is_char_device()


@pytest.mark.parametrize("line", INPUTS)
def test_special_files_are_no_inputs(line: str, places: Path) -> None:
    """Catches a FIFO that is waited for, a device that is read for ever, and a traceback."""
    for kind in SPECIAL:
        assert kind in refusal(line.format(*2 * [places / kind]))
    if "toml" not in line:
        refusal(line.format(*2 * ["/dev/zero"]))


@pytest.mark.parametrize("line", ONE_FILE)
def test_two_options_do_not_name_one_file(line: str, places: Path) -> None:
    """Catches an output that replaces another one, or the input."""
    assert "is the file of --" in refusal(line.format(*2 * [places]))
    assert (places / "data").read_text() == ATOMS


def test_lines_that_are_no_command_lines(tmp_path: Path) -> None:
    """Catches a traceback, or status 3, for a quotation mark without its end or other bytes."""
    for text in (b"run 'echo", b"run \xff"):
        (tmp_path / "runs").write_bytes(text)
        assert "FILE" in refusal(f"batch {tmp_path / 'runs'}")
    (tmp_path / "runs").write_text("run echo # one\n\nrun 'e c'\n")
    assert batch.lines_of(str(tmp_path / "runs")) == [["run", "echo"], [], ["run", "e c"]]
