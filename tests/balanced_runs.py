"""Load-balancing steps of Charm4Py 1.1: loads that it saw, and where it put the blocks.

`python tests/balanced_runs.py RUN.h5 ...` writes them from files of runs under charm to
tests/data/balanced_runs.json.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from miniapps.drivers.timing import LOAD
from miniapps.workbench.replay.agreement import choice_of
from miniapps.workbench.show.saved import SavedRun

DATA = Path(__file__).with_name("data") / "balanced_runs.json"


def steps_of(run: SavedRun) -> list[dict[str, Any]]:
    """Its load-balancing steps as plain data."""
    assert run.loads is not None
    found = []
    for step in np.unique(run.loads["step"]).tolist():
        seen, chosen = choice_of(run, step)
        rows = {name: seen[name].tolist() for name in ("pe", "block", "load_s")}
        found.append({"step": step, **rows, "chosen": chosen.tolist()})
    return found


def read() -> list[dict[str, Any]]:
    """The runs in the data."""
    return json.loads(DATA.read_text())


def table(step: dict[str, Any]) -> np.ndarray:
    """What the runtime saw in a step, as `LOAD`."""
    seen = np.zeros(len(step["pe"]), LOAD)
    for name in ("pe", "block", "load_s"):
        seen[name] = step[name]
    return seen


def main(files: list[str]) -> None:
    """Write the steps of runs."""
    runs = [SavedRun.read(Path(file)) for file in files]
    keys = "app", "pes", "odf", "balancer"
    found = [{key: run.record[key] for key in keys} | {"steps": steps_of(run)} for run in runs]
    lines = ",\n".join(json.dumps(one, separators=(",", ":")) for one in found)
    DATA.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main(sys.argv[1:])
