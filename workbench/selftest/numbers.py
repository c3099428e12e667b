"""Faults of numbers about a run: its times, their units, statistics, and what is shown of them.

A run's checks prove its bits, not its seconds. So each of these faults, a change of a line, must be
seen by a run, as its times contradict each other, or by the test that is named here.
"""

from __future__ import annotations

from types import MappingProxyType

from workbench.selftest.altered import RUN, Change, changes_of

CLOCK = "test_virtual_time.py"
JACOBI = f"{RUN}jacobi2d sim"

# Clocks -------------------------------------------------------------------------------------------

ENGINE = changes_of(
    "drivers/engine.py",
    f"{CLOCK}::test_all_pes_begin_together",
    {
        "no barrier before the clock starts": (
            "        engine.transport.barrier()\n        log.start()\n",
            "        log.start()\n",
        ),
        "the clock starts before the barrier": (
            "        engine.transport.barrier()\n        log.start()\n",
            "        log.start()\n        engine.transport.barrier()\n",
        ),
    },
)
TIMING = changes_of(
    "drivers/timing.py",
    f"{CLOCK}::test_times_of_a_run",
    {
        "born five seconds early": ("self.born = time()", "self.born = time() - 5"),
        "a round ends with its first block": (
            "self.end_s = max(self.end_s, end)",
            "self.end_s = min(self.end_s, end)",
        ),
    },
)
PARTS = changes_of(
    "drivers/outcome.py",
    f"{CLOCK}::test_parts_of_two_pes",
    {
        "audits of all PEs are added up": (
            "np.array([max(p.audit_s.get",
            "np.array([sum(p.audit_s.get",
        ),
        "disturbance of the quietest PE": (
            "Disturbance(*map(max, zip(",
            "Disturbance(*map(min, zip(",
        ),
        "compiling of the fastest PE": (
            "jit_s=max(part.jit_s for part in parts)",
            "jit_s=min(part.jit_s for part in parts)",
        ),
    },
)
TEXT = changes_of(
    "workbench/run/record.py",
    f"{CLOCK}::test_times_in_the_text",
    {
        "printed steps in us": ('seconds * 1e3:.4g}" for name', 'seconds * 1e6:.4g}" for name'),
    },
)
RUNS = changes_of(
    "drivers/timing.py",
    JACOBI,
    {
        "wall times in ms": (
            "return np.diff(ends, prepend=0.0)",
            "return 1000 * np.diff(ends, prepend=0.0)",
        ),
    },
) + changes_of(
    "workbench/run/record.py",
    JACOBI,
    {"utilisation of one PE more": ("(outcome.pes * wall)", "((outcome.pes + 1) * wall)")},
)

FAULTS: tuple[Change, ...] = (*ENGINE, *TIMING, *PARTS, *TEXT, *RUNS)
BY_KEY = MappingProxyType({change.key: change for change in FAULTS})
