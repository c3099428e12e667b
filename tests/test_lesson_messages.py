"""What the check notes of messages under mpi4py, and that under Charm4Py they come in any order."""

from __future__ import annotations

from pathlib import Path

import pytest

from miniapps import lessons
from miniapps.lessons.checking import check, command, returned, running
from miniapps.lessons.checking.running import Returned, Task
from miniapps.workbench import cli
from miniapps.workbench.exit_status import VALID

RING = lessons.load("ring")
TURNS = """from typing import NamedTuple
from mpi4py import MPI
import numpy as np
class Sent(NamedTuple):
    array: np.ndarray
def collect(comm, mine):
    {made}
    found = np.empty((comm.size, *mine.shape))
    found[comm.rank] = mine
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for turn in range(comm.size - 1):
        sent = found[(comm.rank - turn) % comm.size]
        came = found[(comm.rank - turn - 1) % comm.size]
        requests = [comm.Isend(sent, right), comm.Irecv(came, left)]
        {wait}
    return found
"""
BACKWARDS = "the other way round"
SENT_BY = {  # other calls that send to the right, instead of the two requests
    "at once": "comm.Isendrecv(sent, right, recvbuf=came, source=left).Wait()",
    "in place": "came[:] = sent; comm.Isendrecv_replace(came, right, source=left).Wait()",
    "neighbours": "came[:] = comm.Create_dist_graph_adjacent([left], [right])"
    ".neighbor_alltoall([sent])[0]",
    "own class": "came[:] = comm.sendrecv(Sent(sent), right, source=left).array",
}
GATHERS = "comm.Iallgather(found[comm.rank].copy(), found).Wait()"
WHILE = "LOG.note_swept(1); "  # counts a cell
OVERLAPS = {  # how many cells are computed in a turn while messages travel
    f"requests = [comm.Isend(sent, right), comm.Irecv(came, left)]; {WHILE}{{0}}": 1,
    f"request = comm.Isend(sent, right); {WHILE}comm.Recv(came, left); request.Wait()": 1,
    f"requests = [comm.Irecv(came, left)]; {WHILE}requests += [comm.Isend(sent, right)]; {{0}}": 0,
    f"request = comm.Isend(sent, right); comm.Recv(came, left); {WHILE}request.Wait()": 0,
    f"requests = [comm.Isend(sent, right), comm.Irecv(came, left)]; {WHILE}\n"
    "        while not MPI.Request.Testall(requests): pass\n"
    f"        {WHILE}": 2,
    "requests = [comm.Isend(sent, right), comm.Irecv(came, left)]\n"
    f"        while not MPI.Request.Testall(requests): pass\n        {WHILE}": 0,
}
WAITALL = "MPI.Request.Waitall(requests)"
MADE = {  # communicators of all processes in the same order
    "split": "comm = comm.Split(0, comm.rank)",
    "cart": "comm = comm.Create_cart([comm.size], [True])",
    "sub": "comm = comm.Create_cart([1, comm.size], [True, True]).Sub([False, True])",
    "group": "comm = comm.Create(comm.Get_group())",
    "graph": "comm = comm.Create_dist_graph_adjacent([0], [0]).Dup()",
}
LARGE_ONLY = "requests[1].Wait(); mine.size > 99 and requests[0].Wait()"
IN_ORDER = """import numpy as np
from charm4py import Chare
class Member(Chare):
    def prepare(self, size, mine, done):
        self.size, self.rank, self.done = size, self.thisIndex[0], done
        self.found, self.turn, self.begun = np.empty((size, len(mine))), 0, False
        self.found[self.rank] = mine
    @staticmethod
    def after(rank, size):
        return (rank + 1) % size
    def start(self):
        if not self.begun:
            self.begun = True
            self.thisProxy[self.after(self.rank, self.size)].take(self.rank, self.found[self.rank])
    def take(self, owner, came):
        self.start()
        self.turn += 1
        self.found[(self.rank - self.turn) % self.size] = came
        if owner != (self.rank + 1) % self.size:
            self.thisProxy[(self.rank + 1) % self.size].take(owner, came)
        if self.turn == self.size - 1:
            self.done(self.found)
"""
WAITS = {
    "waitall": (WAITALL, 0),
    "all, one by one": ("MPI.Request.Waitany(requests); MPI.Request.Waitany(requests)", 0),
    "some": ("while MPI.Request.Waitsome(requests): pass", 0),
    "tests": ("while not MPI.Request.Testall(requests): pass", 0),
    "receives only": (LARGE_ONLY, 1),
}
pytestmark = pytest.mark.usefixtures("forked")


def turns(call: str) -> str:
    """A program for the ring with other calls in a turn."""
    requests = "requests = [comm.Isend(sent, right), comm.Irecv(came, left)]"
    made = "from miniapps.lessons.log import LOG"
    return TURNS.format(made=made, wait=call).replace(requests, "", 1)


def run(folder: Path, programs: dict[str, str]) -> dict[str, Returned]:
    """Run programs for the ring on three processes, in one launch."""
    case, tasks = RING.cases(3, command.PUBLIC_SEED)[0], []
    for text in programs.values():
        program = folder / f"{len(tasks)}.py"
        program.write_text(text)
        tasks.append(Task.of(RING, "mpi4py", program, case))
    ends = {}
    for name, task, end in zip(programs, tasks, running.run(tasks), strict=True):
        assert isinstance(end, Returned), (name, end)
        right = not check.outcome_of(RING, case, end, task.program).reason
        assert right == (name not in (BACKWARDS, GATHERS)), name
        ends[name] = end
    return ends


@pytest.mark.long
def test_messages_are_counted_in_every_communicator(tmp_path) -> None:
    """Catches messages that are not seen, so that right programs fail, and ranks of another one."""
    made = MADE | {BACKWARDS: "comm = comm.Split(0, -comm.rank)"}
    programs = {n: TURNS.format(made=m, wait=WAITALL) for n, m in made.items()}
    programs |= {n: turns(call) for n, call in SENT_BY.items()}
    programs["imported"] = programs["split"] + "collect(MPI.COMM_WORLD, np.zeros(2))\n"
    programs[GATHERS] = turns(GATHERS)
    ends = run(tmp_path, programs)
    for traffic in ends.pop(GATHERS).traffic:
        assert (traffic.sent, traffic.handed) == ({}, 2 * 8 * RING.cases(3, 0)[0].size[0])
    for name, end in ends.items():
        to = [2, 0, 1] if name == BACKWARDS else [1, 2, 0]
        assert [traffic.sent for traffic in end.traffic] == [{rank: 2} for rank in to], name
        assert {traffic.open for traffic in end.traffic} == {0}


def test_cells_count_while_messages_travel(tmp_path) -> None:
    """Catches cells that are computed before messages are sent, or after they were received."""
    programs = {f"{n}": turns(call.format(WAITALL)) for n, call in enumerate(OVERLAPS)}
    ends = run(tmp_path, programs)
    found = [[traffic.swept for traffic in end.traffic] for end in ends.values()]
    overlapped = [{swept and swept[1] for swept in one} for one in found]
    assert overlapped == [{2 * cells} for cells in OVERLAPS.values()]


def test_messages_that_are_not_waited_for_are_counted(tmp_path) -> None:
    """Catches a call that completes messages and is not known, and one that completes none."""
    programs = {name: TURNS.format(made="", wait=wait) for name, (wait, _) in WAITS.items()}
    ends = run(tmp_path, programs)
    for name, end in ends.items():
        assert {traffic.open for traffic in end.traffic} == {2 * WAITS[name][1]}, name


@pytest.mark.parametrize(
    ("wait", "said"),
    [
        ("MPI.Request.Waitall(requests)", ""),
        ("comm.Barrier(); comm.Recv(came, left)", "line 14: Isend only begins a message"),
        ("comm.isend(0, right)\n    requests[0].Wait()", "line 15: isend only begins a message"),
    ],
)
def test_the_line_of_a_message_that_is_not_waited_for(wait: str, said: str, tmp_path) -> None:
    """Catches a note on another line, or on a right program."""
    program = tmp_path / "ring.py"
    program.write_text(TURNS.format(made="", wait=wait))
    found = returned.not_waited_for(program)
    assert found.startswith(said) and bool(said) == bool(found)


def test_a_right_result_does_not_hide_a_message_left_open(tmp_path, monkeypatch, capsys) -> None:
    """Catches a program that is right by luck, without a word."""
    monkeypatch.setattr(check, "PROCESSES", (2,))
    program = tmp_path / "ring.py"
    program.write_text(TURNS.format(made="", wait=LARGE_ONLY))
    assert cli.main(["lesson", "check", str(program)]) == VALID
    said = capsys.readouterr().out
    assert "right, to the last bit" in said
    assert "but process 0 did not wait for 1 message that it began" in said


def test_messages_to_chares_come_in_any_order(tmp_path) -> None:
    """Catches messages that always come as they were sent, so that wrong programs are right.

    And a static method that is called as others are, so that the program stops.
    """
    program = tmp_path / "ring.py"
    program.write_text(IN_ORDER)
    short, long = RING.cases(4, command.PUBLIC_SEED)
    cases = [case._replace(size=(case.size[0] + n,)) for case in (short, long) for n in range(16)]
    (outcomes,) = check.outcomes(RING, "charm4py", [program], cases)
    wrong = [outcome for outcome in outcomes if outcome.reason]  # mostly 29; few beside other work
    assert len(outcomes) == 32 and wrong
