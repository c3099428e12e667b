"""Two PEs of Charm4Py pass a number to and fro: by a word of shared memory, or by messages.

    python -m charmrun.start +p2 bare_polled.py WAY WORK_US COUNT FILE ++local

WAY: ``slot``: each PE looks at the other's word in FILE, by a function that Charm4Py calls again
and again; ``message``: an entry method of the other PE is called; ``look``: the PEs only look;
``none``: they only work. WORK_US: an entry method that computes for so long, 0 for one that does
nothing, and calls itself again, so that it is always ready; ``no``: there is none. COUNT: round
trips; without any, calls of that method, or looks where there is none. Prints a JSON object with
the seconds, and what each PE has done.
"""

import json
import mmap
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from charm4py import Chare, Future, Group, Reducer, charm

LINE = 8  # words of a cache line: each PE writes one of its own
SLOT, MESSAGE, LOOK = "slot", "message", "look"


class Passer(Chare):
    """The chare of one of two PEs."""

    def __init__(self, way: str, work: str, count: int, file: str, done: Any) -> None:
        self.way, self.count, self.done = way, count, done
        self.work_s = None if work == "no" else float(work) * 1e-6
        with Path(file).open("r+b") as opened:
            self.words = np.frombuffer(mmap.mmap(opened.fileno(), 0), np.int64)
        self.me = charm.myPe()
        self.seen = self.came = self.looks = self.works = 0
        self.ended = False

    def start(self) -> None:
        """Begin to look and to work; the first PE passes the first number on."""
        self.begun = perf_counter()
        if self.work_s is not None:
            self.thisProxy[self.me].work()
        if self.way in (SLOT, LOOK):
            self.look()
        if self.me == 0 and self.way in (SLOT, MESSAGE):
            self.pass_on()

    def work(self) -> None:
        """Compute, and be called again."""
        until = perf_counter() + (self.work_s or 0.0)
        while perf_counter() < until:
            pass
        self.works += 1
        if self.way not in (SLOT, MESSAGE) and self.works == self.count:
            self.end()
        if not self.ended:
            self.thisProxy[self.me].work()

    def look(self) -> None:
        """Look at the other's word, and be called again."""
        self.looks += 1
        came = int(self.words[(1 - self.me) * LINE])
        if came != self.seen:
            self.seen = came
            self.take()
        if self.way == LOOK and self.work_s is None and self.looks == self.count:
            self.end()
        if not self.ended:
            charm.scheduleCallableAfter(self.look, 0)

    def take(self) -> None:
        """The other's number has come: pass one on, or end."""
        self.came += 1
        if self.me or self.came < self.count:
            self.pass_on()
        else:
            self.end()

    def pass_on(self) -> None:
        """Pass the next number to the other PE."""
        if self.way == SLOT:
            self.words[self.me * LINE] += 1
        else:
            self.thisProxy[1 - self.me].take()

    def end(self) -> None:
        """Keep the time; the first PE ends both."""
        self.seconds = perf_counter() - self.begun
        if self.me == 0:
            self.thisProxy.stop()

    def stop(self) -> None:
        """End, and say what this PE has done."""
        self.ended = True
        done = {"came": self.came, "looks": self.looks, "works": self.works}
        seconds = getattr(self, "seconds", None)
        self.contribute((self.me, {"seconds": seconds} | done), Reducer.gather, self.done)


def main(_: Any) -> None:
    """Pass numbers as the command line says."""
    way, work, count, file = sys.argv[1:5]
    done = Future()
    passers = Group(Passer, args=[way, work, int(count), file, done])
    charm.awaitCreation(passers)
    passers.start()
    print(json.dumps([found for _, found in sorted(done.get())]), flush=True)
    charm.exit()


if __name__ == "__main__":
    charm.start(main)
