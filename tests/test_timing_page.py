"""One table of what docs/timing.md says: each sentence, and the tests that would find it false."""

from __future__ import annotations

import re
import tracemalloc
from types import SimpleNamespace
from typing import Any

from support import ROOT

from miniapps.drivers.timing import COMPUTE, PELog, Spans

CLOCK, REASON = "virtual_time", "only a reason, a meaning or a name"
RUN, PES = f"{CLOCK}::a_run", f"{CLOCK}::parts_of_two_pes"
LAUNCHED = "virtual_drivers::launched_runs"
CONTRADICT = f"{CLOCK}::times_that_contradict_each_other"
AHEAD, AUDITS = f"{CLOCK}::blocks_that_run_ahead", f"{CLOCK}::time_of_audits"
IN_FILE, SLICES = f"{CLOCK}::times_in_the_file", "trace::kinds_of_slices"
MARKS = "gpu/device_gpu::marks_measure_what_lies_between_them"
SHARE = "contract::time_of_a_batch"
SAID = {  # how a sentence begins: parts of the names of the tests that find it false
    "For users who read times": REASON,
    "*PE*: an MPI rank": "other_mpi::launcher_of_another_mpi",
    "*wall* of a round": f"{RUN} {LAUNCHED}",
    "A round ends when the last": AHEAD,
    "So the walls of all rounds": f"{AHEAD} timing::walls_add_up",
    "`step_time_s` is wall per step": f"{RUN} {PES}",
    "(The maximum of the PEs' own": PES,
    "Where [blocks exist for a time]": "timing::no_wall_is_below_zero",
    "PEs may run ahead of each other": AHEAD,
    "*compute*: the time inside": f"{RUN} {LAUNCHED}",
    "See [below](#on-a-gpu)": REASON,
    "*utilisation*: the sum": f"{RUN} {PES} {LAUNCHED}",
    "*imbalance*: the compute": f"{PES} {LAUNCHED}",
    "It is the gain that": "timing::imbalance_is_the_slowest",
    'There is no "communication time"': "study_export::charm_has_no_communication_time",
    "It is undefined where": "study_export::charm_has_no_communication_time",
    # What is not timed
    "This happens before": f"{RUN} {LAUNCHED}",
    "imports, reported as": f"{RUN} {LAUNCHED}",
    "compilation of kernels": f"{RUN} {LAUNCHED} compiling::no_step_compiles",
    "`setup` of the blocks": f"{RUN} {LAUNCHED}",
    "warm-up steps": f"{RUN} study::studys_warm_up_is_ten_steps",
    "The first steps are slower": REASON,
    "They belong to the simulation": f"{CLOCK}::all_pes_begin_together",
    "Snapshots and frames": f"{RUN} {LAUNCHED}",
    "The blocks stop at the end": f"{RUN} {LAUNCHED}",
    "The record has its time": f"{RUN} {LAUNCHED}",
    "With `--checkpoint-async`": f"{CLOCK}::times_of_checkpoints_beside_the_steps",
    "The time of [audits]": f"{AUDITS} {LAUNCHED}",
    "All blocks do most of an audit": f"{PES} {AUDITS}",
    "The record has the sum": f"{PES} {AUDITS} {LAUNCHED}",
    "An audit at the end of the last round": f"{RUN} {AUDITS} {LAUNCHED}",
    "Snapshots begin after": f"{RUN} {LAUNCHED}",
    "Exceptions:": REASON,
    "No round becomes shorter": PES,
    "Messages are hashed": AUDITS,
    "If PEs hash in turn": REASON,
    "Under charm, the load balancer counts audits": REASON,
    # Second witnesses
    "The times above come": REASON,
    "They must agree with other": CONTRADICT,
    "Before and after the timed part": f"{RUN} {LAUNCHED}",
    "The rounds and their audits": CONTRADICT,
    "Both clocks must agree": CONTRADICT,
    "On the CPU, no PE may compute": CONTRADICT,
    "The launching process measures": f"{CLOCK}::launch_that_was_shorter {LAUNCHED}",
    "The rounds must not take longer": f"{CLOCK}::launch_that_was_shorter",
    "A record that is read again": f"{CLOCK}::records_whose_clocks_do_not_fit",
    "These checks find a factor of 1000": f"{CONTRADICT} {CLOCK}::wrong_unit_is_not_valid",
    "They do not find a wrong time": REASON,
    "`tests/test_virtual_time.py` replaces": RUN,
    "`tests/test_virtual_drivers.py` does": LAUNCHED,
    "`tests/test_virtual_studies.py` follows": "virtual_studies::times_of_a_study",
    "Numerical libraries use one thread": "cli::one_thread",
    "The record of an invalid run": f"{CLOCK}::launch_that_was_shorter",
    # On a GPU
    "Compute is the time between": MARKS,
    "It includes time in which": MARKS,
    "Where [one launch does the work": SHARE,
    "A traced run, and one with": SHARE,
    "The host reads events up to 64": "timing_page::marks_are_read_late",
    "With load balancing, the loads that": "gpu_stub::loads_are_the_time_of_kernels",
    # Slices
    "`--trace` stores compute": IN_FILE,
    "A slice is the work": f"{SLICES} {IN_FILE}",
    "A slice that ends in a Post": f"{SLICES} {IN_FILE}",
    "A block that computes before": "trace::what_computes_is_no_packing",
    "The slices of a block": "trace::slices_are_all_of_the_computing",
    "A slice occupies about 200 bytes": "timing_page::memory_of_slices",
    "Without `--trace`, the cost": REASON,
    "The time of each load-balancing step": f"{LAUNCHED} {PES} trace::load_balancing_is_stored",
}


def sentences(page: str) -> list[str]:
    """The sentences of a page, without its headings."""
    parts = [" ".join(part.split()) for part in re.split(r"\n\n|\n(?=\* )", page)]
    text = [part.removeprefix("* ") for part in parts if not part.startswith("#")]
    return [s for part in text for s in re.split(r"(?<=[.:)])\s+(?=[A-Z`*(\"])", part)]


def test_nothing_on_the_page_of_times_is_untested() -> None:
    """Catches a sentence that no test would contradict, and a test that is no longer there."""
    said = sentences((ROOT / "docs/timing.md").read_text())
    begins = [[begin for begin in SAID if sentence.startswith(begin)] for sentence in said]
    assert [s for s, found in zip(said, begins, strict=True) if len(found) != 1] == []
    assert {*SAID} - {begin for found in begins for begin in found} == set()
    missing = []
    for tests in {*SAID.values()} - {REASON}:
        for test in tests.split():
            file, _, name = test.partition("::")
            folder, _, stem = file.rpartition("/")
            source = (ROOT / "tests" / folder / f"test_{stem}.py").read_text()
            if not re.search(rf"^def test_\w*{name}\w*\(", source, re.MULTILINE):
                missing.append(test)
    assert missing == []


def test_memory_of_slices() -> None:
    """Catches slices of a traced run that take much more memory than the page says."""
    log, count = PELog(0), 2000
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for number in range(count):
        begin = float(number)
        log._read(
            0, 1000 + number, Spans(Stopped, begin, begin, [], 0.0, [(COMPUTE, begin, begin)])
        )
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # Every second object is the row of the round, which is as large.
    assert 100 < (after - before) / count / 2 < 250


def test_marks_are_read_late() -> None:
    """Catches marks of a GPU that the host waits for in the round, and times that are lost."""
    log = PELog(0)
    log.origin, read = 100.0, []

    class Late(Stopped):
        @staticmethod
        def read(compute: Any) -> tuple[float, float, float]:
            ((begin, end, share),) = compute
            read.append(begin)
            return begin, end, share * (end - begin)

    assert re.search(r"^    lag = 64$", (ROOT / "devices/cuda/backend.py").read_text(), re.M)
    for number in range(70):
        begin = 100.0 + number
        spans = Spans(Late, 0.0, 0.0, [(begin, begin + 0.5, 0.25)], 0.0, [])
        log.add(0, number, SimpleNamespace(lag=64, spans=lambda spans=spans: spans))
        assert len(read) == max(0, number - 63)
    assert log.last_end() == 69.5 and read == [100.0 + number for number in range(70)]
    rows = log.tables()["blocks"]
    assert rows["begin_s"].tolist() == [*range(70)] and {*rows["compute_s"]} == {0.125}


class Stopped:
    """A device's clock, by which marks are seconds."""

    @staticmethod
    def time_of(mark: float) -> float:
        """The mark."""
        return mark
