"""The process that runs students' kernels for a GPU, one case after the other."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from miniapps import lessons
from miniapps.drivers.job import Watcher
from miniapps.lessons.lesson import Traffic, load_function
from miniapps.lessons.serial.gpu import GPU, KernelError
from miniapps.lessons.work import Report, Work, in_turn


def take_part(works: Sequence[Work], watcher: Watcher, report: Report) -> None:
    """Run all programs of a launch. Raises what a program raises."""
    os.environ["NUMBA_ENABLE_CUDASIM"] = "1"  # numba looks at it when it is imported
    from miniapps.lessons.serial import simulator

    simulator.prepare()
    in_turn(works, watcher, report, lambda work: [run(work)])


def run(work: Work) -> Any:
    """Call the program's function in a case; returns what there is to report."""
    lesson = lessons.load(work.lesson)
    function = load_function(work.program, lesson.function[work.runtime])
    GPU.forget()
    try:
        returned = function(*work.take(0))
    except KernelError as error:
        return work.keep(0, None, Traffic(trouble=str(error)))
    return work.keep(0, returned, Traffic(gpu=GPU.kernels()))
