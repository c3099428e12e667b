"""Notices that a run makes no progress, and finds out what each of its blocks waits for."""

from __future__ import annotations

import time
from collections.abc import Sequence

from miniapps.drivers.waits import Wait, sentences
from miniapps.workbench.run.processes import SUSPENDED_S
from miniapps.workbench.run.progress_file import FINISHING, STARTING, ProgressFile, Slot

STALLED = "no progress for"  # begins the report
IDLE = ", and no block computes"  # in its first line: a deadlock, rather than a slow run
IDLE_RANKS = ", and no rank computes"  # the same of a benchmark, whose ranks have no blocks
START_LIMIT_S = 180.0  # until the first round has ended: compilation and large steps take time
FINISH_LIMIT_S = 1800.0  # to validate and write
STEP_LIMIT_S = 10.0  # least time without progress that counts as hanging,
STEP_FACTOR = 20.0  # or this many times the slowest round so far, whichever is longer
ANSWER_S = 2.0  # for PEs to say what their blocks wait for
STACK_S = 0.2  # for those that did not to write where they are


class Stall:
    """Watches the progress file of a run; ``limit_s``: longest time without progress, or None.

    ``hosts``: of each PE, if they are on several.
    """

    def __init__(
        self, progress: ProgressFile, limit_s: float | None, hosts: Sequence[str] = ()
    ) -> None:
        self.progress, self.limit_s, self.hosts = progress, limit_s, hosts
        self.slowest = 0.0
        self.last_change = self.checked = time.monotonic()

    def check(self, now: float, slots: list[Slot]) -> str | None:
        """If no PE has made progress for too long, say so and what each block waits for."""
        if now - self.checked > SUSPENDED_S:
            self.last_change += now - self.checked
        self.checked = now
        change = max(slot.changed for slot in slots)
        if change > self.last_change:
            if all(slot.phase != STARTING for slot in slots):
                self.slowest = max(self.slowest, change - self.last_change)
            self.last_change = change
        quiet = now - self.last_change
        if quiet <= self._limit(slots):
            return None
        busy = self._ask()
        waits = self.progress.answers()
        stuck = not busy and self._is_deadlock(slots, waits)
        said = [*busy, *sentences(waits)]
        if waits and all(wait.part for wait in waits):
            line = f"{STALLED} {quiet:.0f} s{IDLE_RANKS if stuck else ''}"
            return "\n  ".join([line, *said])
        idle = IDLE if stuck else ""
        pe = min(range(len(slots)), key=lambda pe: (slots[pe].phase, slots[pe].step))
        where = f"in step {slots[pe].step}" if slots[pe].phase else "before its first step"
        line = f"{STALLED} {quiet:.0f} s{idle}; {self._named(pe)} is furthest behind, {where}"
        return "\n  ".join([line, *said])

    def _limit(self, slots: list[Slot]) -> float:
        """The longest time without progress, s."""
        if any(slot.phase == STARTING for slot in slots):
            return max(START_LIMIT_S, self.limit_s or 0.0)
        if self.limit_s is not None:
            return self.limit_s
        if any(slot.phase == FINISHING for slot in slots):
            return FINISH_LIMIT_S
        if not self.slowest:
            return START_LIMIT_S
        return max(STEP_LIMIT_S, STEP_FACTOR * self.slowest)

    def _is_deadlock(self, slots: list[Slot], waits: list[Wait]) -> bool:
        """Whether no PE whose answer is among ``waits`` computes, or has made progress meanwhile.

        PEs that have all made their last step validate and write.
        """
        finishing = all(slot.phase == FINISHING for slot in slots)
        still = self.progress.slots() == slots
        return still and not finishing and not any(wait.computes for wait in waits)

    def _ask(self) -> list[str]:
        """Ask PEs what their blocks wait for; for each that does not answer, the code it runs."""
        self.progress.ask()
        end = time.monotonic() + ANSWER_S
        while (silent := self.progress.silent()) and time.monotonic() < end:
            time.sleep(0.05)
        for pe in silent:
            self.progress.signal(pe)
        time.sleep(STACK_S if silent else 0.0)
        return [f"{self._named(pe)} does not answer; it is in {self._place(pe)}" for pe in silent]

    def _named(self, pe: int) -> str:
        """A PE, and its host if there are several."""
        return f"PE {pe} on {self.hosts[pe]}" if self.hosts else f"PE {pe}"

    def _place(self, pe: int) -> str:
        """The line of code that a PE runs: the first of the stack that it wrote."""
        lines = [line.strip() for line in (self.progress.stack(pe) or "").splitlines()]
        files = [line for line in lines if line.startswith("File ")]
        return files[0].removeprefix("File ") if files else "code that cannot be seen"
