"""A process of a launch runs the students' programs that it was launched for.

It imports no more than it needs, because a check starts a dozen processes.
"""

from __future__ import annotations

import importlib
import json
import os
import pickle
from pathlib import Path
from typing import Any

from miniapps.lessons.failures import placed
from miniapps.lessons.lesson import fill_new_arrays
from miniapps.lessons.work import Work
from miniapps.workbench.exit_status import FAILED, VALID
from miniapps.workbench.run.launched import FOLDER, PROGRESS, RUNS, record_name
from miniapps.workbench.run.processes import remove_shared_files
from miniapps.workbench.run.progress_file import reopened
from miniapps.workbench.run.replaced import write_text


def take_part() -> int:
    """Run all programs of this process's launch; returns the exit status.

    A program that fails ends this process at once: others may wait for its messages, and a library
    that ends in good order might wait for them.
    """
    folder = Path(os.environ[FOLDER])
    works: list[Work] = pickle.loads((folder / RUNS).read_bytes())

    def report(number: int, answers: list[Any]) -> None:
        write_text(folder / record_name(number), json.dumps(answers))

    watcher = reopened(folder / PROGRESS, works[0].pes)
    fill_new_arrays()
    programs = f"miniapps.lessons.{works[0].driver}.programs"
    try:
        importlib.import_module(programs).take_part(works, watcher, report)
    except (Exception, SystemExit) as error:
        watcher.fail(placed(error, {work.program for work in works}))
        remove_shared_files()
        os._exit(FAILED)
    return VALID
