"""The long search for orders of messages: `miniapps adversary` with many schedules.

    python -m benchmarks.resilience.schedules [APP ...]

The variants of an app with a minimal preset are searched like apps. The search is made in parts,
always of the one with the fewest schedules so far, and written down after each. So it can be
stopped at any time, and continues where it was.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.common import MINIAPPS, earlier, revision, write
from miniapps import apps
from miniapps.workbench.adversary.command import MINIMAL, smallest

PART = 2000  # schedules


def named(app: str) -> dict[str, str]:
    """The presets of an app to search, by the name of a result: "transpose", "transpose fft"."""
    usual, *others = smallest(app)
    return {app: usual} | {f"{app} {name.removesuffix(f'-{MINIMAL}')}": name for name in others}


def tried(app: str, preset: str, first_seed: int, schedules: int) -> dict[str, Any]:
    """The record of one part, and what it took of the cores. Raises RuntimeError if it failed."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "found.json"
        limits = ["--sim-seed", first_seed, "--schedules", schedules, "--seconds", 86400]
        command = [*MINIAPPS, "adversary", app, "--preset", preset, *map(str, limits)]
        before = os.times()
        command += ["--json", str(file)]
        status = subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode
        if not file.exists():
            raise RuntimeError(f"{app}: status {status}")
        after = os.times()
        used = after.children_user - before.children_user
        used += after.children_system - before.children_system
        return json.loads(file.read_text()) | {"core_seconds": round(used, 1)}


def joined(before: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    """The sum of two records; of pairs of events, the larger number that one part has seen."""
    same = all(before[key] == part[key] for key in ("problem", "blocks", "steps", "pes"))
    if not same:
        raise RuntimeError(f"{part['app']}: another problem than before; remove the results")
    added = {
        key: round(before[key] + part[key], 1) for key in ("schedules", "seconds", "core_seconds")
    }
    pairs = {key: max(before[key], part[key]) for key in ("pairs", "pairs_in_both_orders")}
    states = max(before["states"], part["states"], 1 + (before["state_hash"] != part["state_hash"]))
    return before | added | pairs | {"states": states, "failed_seed": part["failed_seed"]}


def main() -> None:
    """Add parts until all have their schedules, the time is over or a schedule failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("apps", nargs="*", default=apps.names(), metavar="APP")
    parser.add_argument("--schedules", type=int, default=200_000, help="of each")
    parser.add_argument("--minutes", type=float, default=24 * 60, help="begin no part after these")
    options = parser.parse_args()
    end, so_far = time.monotonic() + 60 * options.minutes, earlier("schedules")
    now = revision()
    presets = {name: (app, preset) for app in options.apps for name, preset in named(app).items()}
    while time.monotonic() < end:
        done = {name: so_far[name]["schedules"] if name in so_far else 0 for name in presets}
        name = min(done, key=done.__getitem__)
        missing = options.schedules - done[name]
        if missing <= 0 or any(found["states"] > 1 for found in so_far.values()):
            break
        part = tried(*presets[name], done[name], min(PART, missing))
        found = joined(so_far[name], part) if name in so_far else part
        revisions = found.get("revisions", [])
        so_far[name] = found | {"revisions": revisions + [now] * (now not in revisions)}
        write("schedules", so_far)


if __name__ == "__main__":
    main()
