"""`miniapps lesson mark`: marks all submissions in a folder, and writes the marks."""

from __future__ import annotations

import sys
from argparse import Namespace
from contextlib import suppress
from pathlib import Path
from typing import Any

from miniapps import lessons
from miniapps.drivers.exits import Terminated
from miniapps.lessons.checking import apart, marks, sandbox
from miniapps.lessons.checking.apart import Apart
from miniapps.lessons.checking.mark import Marked, mark_all
from miniapps.lessons.checking.submissions import found_in, require_runtime
from miniapps.lessons.lesson import MISTAKES, RIGHT, RUNTIMES
from miniapps.parameters import require
from miniapps.workbench.exit_status import FAILED, INTERRUPTED, VALID
from miniapps.workbench.quoting import line


def add_options(parser: Any) -> None:
    """Add what a teacher says."""
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="a folder or file per student")
    parser.add_argument(
        "--salt",
        required=True,
        help="a secret of yours: sizes and numbers differ by student and salt",
    )
    parser.add_argument("--lesson", metavar="LESSON", help="mark only this lesson; default: all")
    parser.add_argument(
        "--for",
        dest="runtime",
        choices=[*RUNTIMES],
        help="only programs for it: LESSON_RUNTIME.py, or else LESSON.py",
    )
    parser.add_argument("--format", default="table", choices=[*marks.FORMATS])
    parser.add_argument(
        "--not-isolated",
        action="store_true",
        help="mark even where the kernel cannot keep programs from your files and the network",
    )
    parser.add_argument(
        "--output", type=Path, metavar="PATH", help="new file, or folder for gradescope, nbgrader"
    )


def mark_folder(options: Namespace) -> int:
    """Mark all submissions; returns the exit status. Raises InputError.

    A file or folder of marks is complete after each submission. If marking is interrupted, the
    marks made so far are written, and the status says so. If they cannot be written, they are
    printed.
    """
    require(bool(options.salt), "--salt", "", "a secret, so that nobody can tell the numbers")
    submissions = found_in(options.folder, options.lesson, options.runtime)
    for runtime in sorted({one.runtime for one in submissions if one.runtime}):
        require_runtime(runtime, "lesson mark", options.folder)
    every = [lessons.load(name).folder for name in lessons.names()]
    shows_answers = [folder / part for folder in every for part in (RIGHT, MISTAKES)]
    hidden = tuple(path.resolve() for path in (options.folder, *shows_answers) if path.is_dir())
    for path in hidden:
        needed = sandbox.needs(path)
        require(not needed, "lesson mark", path, f"must not hold {needed}, which submissions need")
    obstacle = apart.obstacle(hidden)
    if obstacle:
        require(
            options.not_isolated,
            "lesson mark",
            options.folder,
            f"cannot isolate programs here ({obstacle}); in a container or a virtual machine that "
            "holds nothing else, use --not-isolated",
        )
        sandbox.adopt()
    marks.require_output(options.format, options.output)
    made: list[Marked] = []

    def done(marked: Marked) -> None:
        made.append(marked)
        if options.output is not None:
            with suppress(OSError):  # which is reported at the end, when all are marked
                marks.write(options.format, made, options.output)

    notes, status = [isolation(obstacle)], VALID
    try:
        mark_all(submissions, options.salt, Apart(hidden, not obstacle).run, done)
    except (KeyboardInterrupt, SystemExit) as ended:
        status = ended.code if isinstance(ended, Terminated) else INTERRUPTED
        left = len(submissions) - len(made)
        notes.append(f"interrupted: {left} of {len(submissions)} submissions are not marked")
    by_hand = [one.submission for one in made if one.by_hand]
    if by_hand and status == VALID:
        status = FAILED
    notes += [f"mark by hand: {one.lesson} of {line(one.student)}" for one in by_hand]
    for note in notes:
        print(note, file=sys.stderr)
    try:
        marks.write(options.format, made, options.output)
    except OSError as error:
        print(f"{options.output}: {error.strerror}; the marks:", file=sys.stderr)
        print(marks.table(made), end="")
        status = FAILED
    return status


def isolation(obstacle: str) -> str:
    """What kept submissions apart, in words."""
    limits = "limits on time, memory, processes and bytes written"
    if not obstacle:
        return f"isolated: no network, no other files; {limits}"
    missing = "submissions had the network and could read other files"
    return f"not isolated ({obstacle}): {missing}; {limits}"
