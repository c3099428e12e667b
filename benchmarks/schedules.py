"""The long search for orders of messages: `miniapps adversary` on every app, with many schedules.

When ``--minutes`` have passed it ends, even if schedules are left; each app gets an equal part of
the time that is left. Results are written after every app.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from common import MINIAPPS, write

import miniapps
from workbench.environment import core_numbers

ROOT = Path(__file__).resolve().parent.parent


def revision() -> str:
    """The revision of this tree; it ends in ``-dirty`` if files were changed since."""
    command = ["git", "-C", ROOT, "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def tried(app: str, schedules: int, seconds: float) -> dict[str, Any]:
    """The record of a search. Raises RuntimeError if it failed."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "found.json"
        limits = ["--schedules", schedules, "--seconds", seconds, "--json", file]
        command = [*MINIAPPS, "adversary", app, *map(str, limits)]
        status = subprocess.run(command, check=False).returncode
        if not file.exists():
            raise RuntimeError(f"{app}: status {status}")
        return json.loads(file.read_text())


def main() -> None:
    """Search in one app after the other."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--schedules", type=int, default=200_000, help="per app")
    parser.add_argument("--minutes", type=float, default=24 * 60, help="for all apps together")
    options = parser.parse_args()
    end, names = time.monotonic() + 60 * options.minutes, miniapps.names()
    results: dict[str, Any] = {"revision": revision(), "processes": len(core_numbers()), "apps": {}}
    for number, app in enumerate(names):
        seconds = (end - time.monotonic()) / (len(names) - number)
        results["apps"][app] = tried(app, options.schedules, max(seconds, 0))
        write("schedules", results)


if __name__ == "__main__":
    main()
