"""Repeat a command under load: ``python tests/under_load.py ROUNDS LOAD FIRST_DAY COMMAND...``.

Each round has another `TEST_DAY`, so slow cases take turns (`of_day.py`). LOAD processes keep cores
busy meanwhile. The first round that fails ends it, with its status.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

# It ends with the process that started it, even if that is killed.
BUSY = "import os, sys\nwhile os.getppid() == int(sys.argv[1]): sum(range(100_000))"


def main(rounds: int, load: int, first: int, command: list[str]) -> int:
    """Run the command beside the load; returns the status of its last round."""
    busy = [sys.executable, "-c", BUSY, str(os.getpid())]
    others = [subprocess.Popen(busy) for _ in range(load)]
    try:
        return repeated(range(first, first + rounds), command)
    finally:
        for one in others:
            one.kill()
            one.wait()


def repeated(days: range, command: list[str]) -> int:
    """Run the command once a day, until it fails; returns its last status."""
    for day in days:
        begun = time.monotonic()
        status = subprocess.run(command, env=os.environ | {"TEST_DAY": str(day)}).returncode
        end = f"failed with status {status}" if status else "passed"
        print(f"TEST_DAY={day} {end} after {time.monotonic() - begun:.0f} s", flush=True)
        if status:
            return status
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*map(int, sys.argv[1:4]), sys.argv[4:]))
