"""No wait between streams and host is missing: a checker sees all accesses to memory.

`race_program.py` makes small runs over the stub driver with that checker (gpu/stub/python/races.py)
with all waits, and again with each wait deleted. `test_gpu_stub.py` makes launched runs with it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import gpu_stub
import pytest
import skips
import support

PROGRAM = Path(__file__).with_name("race_program.py")
RUN_S = 560.0  # a minute on an idle core
WAITS = re.compile(r"(?<!def )\b(wait_for|reached|reached_already|synchronize|wait)\(")
FOR_TIME_ONLY = {  # waits that keep no memory in order
    "epoch.synchronize()": "before the clock of a block is set",
    "self.stream.synchronize()": "before times are read, and before the load is measured",
    "self.copies.synchronize()": "before times are read, and before the load is measured",
    "event.wait(stream)": "is what `wait_for` does",
    "event.synchronize()": "is what `reached` does",
}
pytestmark = [pytest.mark.slow, pytest.mark.timeout(RUN_S + 60)]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What the program prints: by deleted wait, races and reasons why runs are not valid."""
    skips.without("stub")
    folder = support.made_once(tmp_path_factory, "stub", gpu_stub.compile_driver)
    checked = gpu_stub.environment(folder) | {"MINIAPPS_CUDA_TOOLKIT": "races:Checked"}

    def make(folder: Path) -> None:
        done = support.execute([support.BIN / "python", PROGRAM], RUN_S, checked, check=True)
        (folder / "found.json").write_text(done.stdout)

    made = support.made_once(tmp_path_factory, "races", make)
    return json.loads((made / "found.json").read_text())


def test_there_are_no_races(found: dict[str, dict[str, Any]]) -> None:
    """Catches a missing wait in any app, by each path of messages, and poison that is used."""
    assert found[""] == {"races": [], "invalid": []}


def test_each_deleted_wait_is_found(found: dict[str, dict[str, Any]]) -> None:
    """Catches a checker that is blind to a wait, and a wait that nothing needs."""
    made = {name: without["races"] for name, without in found.items() if "races" in without}
    del made[""]
    assert made and [name for name, races in made.items() if not races] == []
    both = r"written by _pack\S+ at (\S+):\d+, and with no order read by _unpack\S+ at (\S+):\d+"
    if "message of another block" in made:
        first, *later = made["message of another block"]
        where = re.fullmatch(both, first)
        assert where and set(where.groups()) == {"kernels/halo/gpu.py"}
        freed = r"read by _unpack\S+ at kernels/halo/gpu.py:\d+, and with no order freed at \S+"
        assert all(re.fullmatch(freed, race) for race in later)  # as the first one ends the run


def test_every_wait_is_deleted_once(found: dict[str, dict[str, Any]]) -> None:
    """Catches a new wait of which nobody has shown that it is needed."""
    folders = support.ROOT / "devices" / "cuda", support.ROOT / "kernels"
    files = [file for folder in folders for file in folder.rglob("*.py")]
    called_by_others = {"driver.py", "toolkit.py", "byte_arrays.py"}  # the driver itself, and tests
    for file in files:
        if file.name in called_by_others or "cpu" in file.parts:
            continue
        words = [one["words"] for name, one in found.items() if name and one["file"] == str(file)]
        lines = [line.strip() for line in file.read_text().splitlines()]
        waits = [line for line in lines if WAITS.search(line)]
        known = [*words, *FOR_TIME_ONLY]
        assert [line for line in waits if not any(w in line for w in known)] == [], file
