"""Faults of numbers about a run: its times, their units, statistics, and what is shown of them.

A run's checks prove its bits, not its seconds. So each of these faults, a change of a line, must be
seen by a run, as its times contradict each other, or by the test that the table names.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from miniapps.workbench.selftest.altered import Change

TABLE = Path(__file__).with_suffix(".toml")
FAULTS = tuple(
    Change(name, file, old, new, seen_by)
    for file, witnesses in tomllib.loads(TABLE.read_text(encoding="utf-8")).items()
    for seen_by, faults in witnesses.items()
    for name, (old, new) in faults.items()
)
