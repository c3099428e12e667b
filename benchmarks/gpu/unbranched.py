"""Whether reciprocals and roots of GPU kernels have the right bits, for a billion numbers.

    python -m benchmarks.gpu.unbranched

The operations of `devices.cuda.unbranched` are made on the CPU, beginning from every estimate that
differs from the right one by up to 2^-19. Takes five minutes of a core; needs the extra gpu-check.
Exit status: 0 if all bits are right, otherwise 1.
"""

from __future__ import annotations

import sys

from benchmarks.common import ROOT, write
from miniapps.devices.cpu.vectors import fma
from miniapps.devices.cuda.unbranched import refining, refining_root

sys.path.append(str(ROOT / "tests"))
import estimates  # noqa: E402

BATCH, BATCHES = 10_000_000, 100


def main() -> int:
    """Count numbers with other bits, and write how many there are."""
    counted = {
        "reciprocals": (estimates.wrong_reciprocals, refining(fma)),
        "roots": (estimates.wrong_roots, refining_root(fma)),
    }
    special = estimates.special()
    wrong = {name: count(refined, special) for name, (count, refined) in counted.items()}
    for seed in range(BATCHES):
        drawn = estimates.drawn(seed, BATCH)
        for name, (count, refined) in counted.items():
            wrong[name] += count(refined, drawn)
    numbers = BATCH * BATCHES + special.size
    write("unbranched", {"numbers": numbers, "wrong": wrong})
    print(f"{numbers} numbers; with other bits: {wrong}")
    return int(any(wrong.values()))


if __name__ == "__main__":
    sys.exit(main())
