"""Run all benchmarks, one after the other."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.common import RESULTS, ROOT

ALL = (
    "apps.stencils",
    "messages.drivers",
    "messages.parts",
    "messages.shared_memory",
    "apps.comparison",
    "apps.balancing",
    "apps.memory",
    "apps.startup",
    "apps.pic",
    "apps.leanmd",
    "apps.cg",
    "apps.transpose",
    "apps.amr",
)


def main() -> int:
    """Run each in a process of its own; returns 1 if one failed."""
    python = [sys.executable, "-m"]
    failed = [
        name
        for name in ALL
        if subprocess.run([*python, f"benchmarks.{name}"], cwd=ROOT, check=False).returncode
    ]
    print(f"failed: {', '.join(failed)}" if failed else f"results are in {RESULTS}")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
