"""A process of a launch runs the students' programs that it was launched for."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import lessons
from lessons.lesson import fill_new_arrays
from lessons.work import Work
from miniapps.parameters import require
from workbench.exit_status import VALID
from workbench.run import launch, output
from workbench.run.progress_file import reopened


def take_part() -> int:
    """Run all programs of this process's launch; returns the exit status. Raises InputError."""
    name = os.environ.get(launch.FOLDER)
    require(name is not None, "lesson", "take-part", "only where `lesson check` has launched")
    folder = Path(str(name))
    works: list[Work] = pickle.loads((folder / launch.RUNS).read_bytes())

    def report(number: int, answers: list[Any]) -> None:
        output.write_text(folder / launch.record_name(number), json.dumps(answers))

    watcher = reopened(folder / launch.PROGRESS, works[0].pes)
    fill_new_arrays()
    lessons.runner(works[0].runtime).take_part(works, watcher, report)
    return VALID
