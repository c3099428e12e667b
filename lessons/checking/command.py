"""The commands of `miniapps lesson`."""

from __future__ import annotations

import re
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

from miniapps import lessons
from miniapps.lessons.checking import check, marking, naming, returned
from miniapps.lessons.checking.check import Outcome
from miniapps.lessons.checking.mark import cases_of, seed_from
from miniapps.lessons.checking.page import as_html
from miniapps.lessons.checking.submissions import Unfit, lesson_of, require_runtime, runtime_of
from miniapps.lessons.lesson import IMPORTED, RUNTIMES, Lesson
from miniapps.parameters import InputError, require
from miniapps.workbench.exit_status import VALID, WRONG
from miniapps.workbench.run.replaced import write_text
from miniapps.workbench.run.writable import check_writable
from miniapps.workbench.table import labelled, width

PUBLIC_SEED = 1
OWN_NUMBERS = "sizes and numbers that no other program gets"
LOOK_S = 0.5  # between two looks at a watched file
EXAMPLES = """examples:
  miniapps lesson list
  miniapps lesson start ring --for mpi4py
  miniapps lesson check ring.py
"""


def add_commands(parser: Any) -> None:
    """Add what a student does."""
    parser.epilog = EXAMPLES
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def add(name: str, help: str, act: Callable[[Namespace], int]) -> Any:
        made = commands.add_parser(name, help=help, allow_abbrev=False)
        made.set_defaults(command=lambda options, runtime: act(options))
        return made

    add("list", "the lessons", lambda options: list_lessons())
    begin = add("start", "copy a lesson's page and skeleton into this folder", start)
    begin.add_argument("name", metavar="LESSON")
    begin.add_argument("--for", dest="runtime", choices=[*RUNTIMES], help="default: the first one")
    checking = add("check", "run a program on 1 to 4 processes, and say what holds", _check)
    checking.set_defaults(starts_runs=True)
    checking.add_argument("program", type=Path, metavar="FILE.py")
    checking.add_argument("--watch", action="store_true", help="check again when the file is saved")
    help_me = add("hint", "one of three hints", hint)
    help_me.add_argument("name", metavar="LESSON")
    help_me.add_argument("number", type=int, nargs="?", default=1, metavar="1|2|3")
    known = add("mistakes", "the known mistakes of a lesson, for teachers", mistakes)
    known.add_argument("name", metavar="LESSON")
    known.add_argument("--show", metavar="MISTAKE", help="print this wrong program")
    marked = add("mark", "run the programs of a class apart, and give points", _mark)
    marked.set_defaults(starts_runs=True)
    marking.add_options(marked)


def _check(options: Namespace) -> int:
    return watch(options.program) if options.watch else check_program(options.program)


def _mark(options: Namespace) -> int:
    if options.lesson is not None:
        found(options.lesson)
    return marking.mark_folder(options)


def list_lessons() -> int:
    """Print the lessons."""
    longest = max(map(len, lessons.names()))
    for name in lessons.names():
        lesson = lessons.load(name)
        about = f"{lesson.title} ({', '.join(lesson.runtimes)})"
        label = f"{lesson.number}  {name:{longest}}  {lesson.minutes} min  "
        print(*labelled(label, about, width()), sep="\n")
    print("\nin brackets: the values of --for, the default first")
    print("begin with one by its name: miniapps lesson start ring")
    return VALID


def start(options: Namespace) -> int:
    """Copy a lesson's page and skeleton into this folder. Raises InputError.

    Without a runtime it is the first one for which there is a skeleton.
    """
    lesson, name = found(options.name), options.name
    runtime = options.runtime or lesson.runtimes[0]
    allowed = f"this lesson is for {' and '.join(lesson.runtimes)}"
    require(runtime in lesson.runtimes, "--for", runtime, allowed)
    require_runtime(runtime, "lesson start", name)
    program = program_for(lesson, runtime)
    require(not program.exists(), "lesson start", name, f"{program} exists; it is not overwritten")
    check_writable("lesson start", program)
    text = (lesson.folder / "page.md").read_text(encoding="utf-8")
    page, shown = (Path(f"{name}.{kind}") for kind in ("md", "html"))
    for file, written in ((page, text), (shown, as_html(text))):
        if not file.exists():  # it may be there already: it is the same for all runtimes
            write_text(file, written)
    write_text(program, lesson.skeleton(runtime).replace(f"{name}.py", program.name, 1))
    print(f"read {page} or {shown}, fill in {program}, then: miniapps lesson check {program}")
    if program.stem != name:
        print(f"{name}.py stays as it is; where the page says {name}.py, use {program}")
    return VALID


def program_for(lesson: Lesson, runtime: str) -> Path:
    """The name of a new program: one that says the runtime too, beside a program for another."""
    first = Path(f"{lesson.name}.py")
    package = IMPORTED.get(runtime, runtime)
    imports = re.compile(rf"(?m)^\s*(import|from)\s+{package}\b")
    if not first.is_file() or imports.search(first.read_text(encoding="utf-8", errors="replace")):
        return first
    return Path(f"{lesson.name}_{runtime}.py")


def hint(options: Namespace) -> int:
    """Print one of a lesson's three hints. Raises InputError."""
    hints, number = found(Path(options.name).stem.partition("_")[0]).hints(), options.number
    require(1 <= number <= len(hints), "lesson hint", number, f"1 to {len(hints)}")
    print(hints[number - 1])
    return VALID


def mistakes(options: Namespace) -> int:
    """Print the known mistakes of a lesson, or one as a whole program. Raises InputError."""
    lesson, name, shown = found(options.name), options.name, options.show
    every = {one.name: one for runtime in lesson.runtimes for one in lesson.mistakes(runtime)}
    if shown is None:
        longest = max(map(len, every))
        for one in every.values():
            said = one.words.splitlines()[0]
            print(*labelled(f"{one.name:{longest}}  ", said, width()), sep="\n")
        print(f"\nfor a whole program: miniapps lesson mistakes {name} --show {one.name}")
        return VALID
    (near,) = get_close_matches(shown, every, 1, 0)
    require(shown in every, "--show", shown, f"no mistake of {name}; the nearest name is {near}")
    print(every[shown].text, end="")
    return VALID


def found(name: str) -> Lesson:
    """A lesson by its name. Raises InputError."""
    names = lessons.names()
    require(name in names, "lesson", name, f"one of {', '.join(names)}")
    return lessons.load(name)


def check_program(program: Path) -> int:
    """Check a program, and say what holds; returns the exit status. Raises InputError."""
    lesson = lessons.load(lesson_of(program))
    try:
        runtime = runtime_of(program, lesson)
    except Unfit as error:
        raise InputError("lesson check", program, str(error)) from None
    require_runtime(runtime, "lesson check", program)
    note = returned.not_waited_for(program) if runtime == "mpi4py" else ""
    so_far: list[Outcome] = []
    for processes in check.PROCESSES:
        cases = lesson.cases_for(runtime, processes, PUBLIC_SEED)
        for outcomes in check.outcomes(lesson, runtime, [program.resolve()], cases):
            so_far += outcomes
            for outcome in outcomes:
                say(outcome, check.where(lesson, runtime, outcome.case))
                if outcome.reason:
                    more = partial(in_further_cases, lesson, runtime, program.resolve(), processes)
                    explain(lesson, runtime, program, so_far, note, more)
                    return WRONG
    if not right_with_own_numbers(lesson, runtime, program.resolve(), note):
        return WRONG
    print(f"\n{program}: right, to the last bit")
    note = note or left_open(so_far)
    if note:
        print(f"\nbut {note}")
    return VALID


def in_further_cases(lesson: Lesson, runtime: str, program: Path, processes: int) -> list[Outcome]:
    """What becomes of a program on more processes than some, until it is stopped."""
    found: list[Outcome] = []
    for count in (one for one in check.PROCESSES if one > processes):
        cases = lesson.cases_for(runtime, count, PUBLIC_SEED)
        for outcomes in check.outcomes(lesson, runtime, [program], cases):
            found += outcomes
        if any(outcome.stops for outcome in found):
            break
    return found


def say(outcome: Outcome, words: str) -> None:
    """Print whether a program was right in a case, and if not, why."""
    print(f"  {'FAIL' if outcome.reason else 'ok  '}  {words}", flush=True)
    if outcome.reason:
        print(f"        {outcome.reason}", flush=True)


def right_with_own_numbers(lesson: Lesson, runtime: str, program: Path, note: str) -> bool:
    """Check a program in cases that depend on its own text, so that no text can contain results."""
    cases = cases_of(lesson, runtime, seed_from(program.read_bytes()))
    most = [case for case in cases if case.processes == cases[-1].processes]
    (outcomes,) = check.outcomes(lesson, runtime, [program], most)
    for outcome in outcomes:
        if outcome.reason:
            say(outcome, f"{check.where(lesson, runtime, outcome.case)}, {OWN_NUMBERS}")
            explain(lesson, runtime, program, outcomes, note)
            return False
    say(outcome, f"{check.parts(lesson, runtime, outcome.case)}, {OWN_NUMBERS}")
    return True


def explain(
    lesson: Lesson,
    runtime: str,
    program: Path,
    known: Sequence[Outcome],
    note: str,
    more: naming.More = tuple,
) -> None:
    """Print what explains what a program did, and what may help."""
    found = naming.explanation(lesson, runtime, program, known, more)
    print(f"\n{found.words or 'no known mistake looks like this'}")
    note = note or left_open(known)
    if note and not found.sure:
        print(f"\n{note}")
    print(f"\nnot yet right; miniapps lesson hint {lesson.name} helps")


def left_open(known: Sequence[Outcome]) -> str:
    """In words, the first messages that a program did not wait for; empty if there are none."""
    return next((one.open for one in known if one.open), "")


def watch(program: Path) -> int:
    """Check a program at each save, until Ctrl-C. Raises InputError if it does not exist.

    Editors may write a new file in place of the old one, so a file that is gone is waited for.
    """
    require(program.exists(), "lesson check", program, "does not exist")
    before = None
    while True:
        now = saved(program)
        if now is not None and now != before:
            try:
                check_program(program)
            except (InputError, OSError) as error:
                print(error)
            print("waiting for the next save; Ctrl-C ends", flush=True)
        elif now is None and before is not None:
            print(f"{program} is gone; waiting until it is saved again", flush=True)
        before = now
        time.sleep(LOOK_S)


def saved(program: Path) -> tuple[int, ...] | None:
    """What changes when a file is saved or replaced; None if there is none."""
    try:
        about = program.stat()
    except OSError:
        return None
    return about.st_ino, about.st_mtime_ns, about.st_size
