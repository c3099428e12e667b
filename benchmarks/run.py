"""Run all benchmarks, one after the other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ALL = (
    "apps/stencils",
    "messages/drivers",
    "messages/parts",
    "messages/charm_memory",
    "apps/comparison",
    "apps/balancing",
    "apps/memory",
    "apps/startup",
    "apps/pic",
    "apps/leanmd",
    "apps/cg",
    "apps/transpose",
    "apps/amr",
)


def main() -> int:
    """Run each in a process of its own; returns 1 if one failed."""
    folder = Path(__file__).parent
    failed = [
        name
        for name in ALL
        if subprocess.run([sys.executable, folder / f"{name}.py"], check=False).returncode
    ]
    print(f"failed: {', '.join(failed)}" if failed else f"results are in {folder / 'results'}")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
