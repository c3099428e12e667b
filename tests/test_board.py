"""The board: what the launcher reads while PEs write."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import support

from workbench.run.board import FINISHING, RUNNING, STARTING, Board

WRITE = """
import sys
from pathlib import Path
from workbench.run.board import Board
board = Board(Path(sys.argv[1]), 2)
for step in range(400_000):
    board.beat(1, step)
board.finish(1)
"""


def test_no_half_written_slot_is_read(tmp_path: Path) -> None:
    """Catches a slot that is cleared before it is written: its PE looked dead, once in 30 runs."""
    board = Board(tmp_path / "board", 2)
    assert [slot.phase for slot in board.slots()] == [STARTING, STARTING]
    with subprocess.Popen([sys.executable, "-c", WRITE, board.path], cwd=support.ROOT) as writer:
        while board.slot(1).phase == STARTING:
            assert writer.poll() is None
        before, looks = 0, 0
        while (slot := board.slot(1)).phase != FINISHING:
            assert slot.pid == writer.pid and slot.phase == RUNNING
            assert slot.step >= before and slot.changed > 0
            before, looks = slot.step, looks + 1
    assert looks > 1000 and writer.returncode == 0
    assert board.slot(1).step == 399_999 and board.slot(0).phase == STARTING


def test_a_slot_says_what_was_written(tmp_path: Path) -> None:
    """Catches fields that are mixed up, and a PE that writes into another one's slot."""
    board = Board(tmp_path / "board", 3)
    board.beat(2, 17)
    board.beat(0, 5)
    board.finish(0)
    first, second, third = board.slots()
    assert (first.pid, first.step, first.phase) == (os.getpid(), 5, FINISHING)
    assert (third.pid, third.step, third.phase) == (os.getpid(), 17, RUNNING)
    assert second == (0, 0, 0.0, STARTING) and third.changed <= first.changed
