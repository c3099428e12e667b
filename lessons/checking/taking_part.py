"""A process of a launch runs the students' programs that it was launched for.

It imports no more than it needs, because a check starts a dozen processes.
"""

from __future__ import annotations

import importlib
import json
import os
import pickle
from pathlib import Path
from types import ModuleType
from typing import Any

from miniapps.lessons.failures import placed
from miniapps.lessons.lesson import RUNTIMES, fill_new_arrays
from miniapps.lessons.work import Work
from miniapps.parameters import require
from miniapps.workbench.exit_status import FAILED, VALID
from miniapps.workbench.run.launched import FOLDER, PROGRESS, RUNS, record_name
from miniapps.workbench.run.processes import remove_shared_files
from miniapps.workbench.run.progress_file import reopened
from miniapps.workbench.run.replaced import write_text


def take_part() -> int:
    """Run all programs of this process's launch; returns the exit status. Raises InputError.

    A program that fails ends this process at once: others may wait for its messages, and a library
    that ends in good order might wait for them.
    """
    name = os.environ.get(FOLDER)
    require(name is not None, "lesson", "take-part", "only where `lesson check` has launched")
    folder = Path(str(name))
    works: list[Work] = pickle.loads((folder / RUNS).read_bytes())

    def report(number: int, answers: list[Any]) -> None:
        write_text(folder / record_name(number), json.dumps(answers))

    watcher = reopened(folder / PROGRESS, works[0].pes)
    fill_new_arrays()
    try:
        runner(works[0].runtime).take_part(works, watcher, report)
    except (Exception, SystemExit) as error:
        watcher.fail(placed(error, {work.program for work in works}))
        remove_shared_files()
        os._exit(FAILED)
    return VALID


def runner(runtime: str) -> ModuleType:
    """The module that runs programs for a runtime, which imports the runtime."""
    return importlib.import_module(f"miniapps.lessons.{RUNTIMES[runtime]}.programs")
