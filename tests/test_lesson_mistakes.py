"""Known mistakes: each applies to a right program, to the letter, and the command shows it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import support
from lesson_table import RUNTIMES

from miniapps import lessons
from miniapps.lessons.mistakes import Mistake, without_docstring
from miniapps.parameters import InputError
from miniapps.workbench import cli
from miniapps.workbench.exit_status import VALID

RIGHT = '''"""Right."""

one = 1
two = 2
three = 3
four = 4
'''
HEAD = "You add.\n\nIt is\na sum.\n\nstops: Send\n\n--- a/here/right/a.py\n+++ b/here/right/a.py\n"
FIRST = "@@ -3,2 +3,3 @@\n one = 1\n+more = 1\n two = 2\n"
SECOND = "@@ -5,2 +6,1 @@\n three = 3\n-four = 4\n"
REFUSED = {  # what is refused, and why
    FIRST.replace(" one = 1", " one = 0"): "line 3 is 'one = 1', not 'one = 0'",
    SECOND.replace("+6,1", "+5,1").replace("-four", "-five"): "line 6 is 'four = 4', not 'five",
    SECOND: "@@ -5,2 +6,1 @@ is not where the lines before it end",
    FIRST.replace("-3,2 +3,3", "-4,2 +4,3"): "line 4 is 'two = 2', not 'one = 1'",
    FIRST + SECOND.replace("-5,2", "-4,2"): "@@ -4,2 +6,1 @@ is not where",
    FIRST.replace("-3,2", "-3,3"): "@@ -3,3 +3,3 @@ has other numbers of lines",
    FIRST.replace("+3,3", "+3,2"): "@@ -3,2 +3,2 @@ has other numbers of lines",
    "@@ -6,2 +6,2 @@\n four = 4\n five = 5\n": "line 7 is 'its end', not 'five = 5'",
    "+more = 1\n": "'+more = 1' is not @@",
    "": "changes nothing in here/right/a.py",
    "@@ -3,1 +3,1 @@\n one = 1\n": "changes nothing",
    '@@ -1,1 +1,1 @@\n-"""Right."""\n+"""Wrong."""\n': "changes nothing",
}


def stored(folder: Path, text: str) -> Mistake:
    """A mistake in a folder with a right program."""
    for part, name, content in (("right", "a.py", RIGHT), ("mistakes", "b.diff", text)):
        (folder / part).mkdir()
        (folder / part / name).write_text(content)
    return Mistake(folder / "mistakes" / "b.diff")


def test_a_difference_is_applied(tmp_path: Path) -> None:
    """Catches a hunk that is left out or misplaced, and words that no student reads."""
    mistake = stored(tmp_path, HEAD + FIRST + SECOND)
    body = "one = 1\nmore = 1\ntwo = 2\nthree = 3\n"
    assert mistake.text == f'"""You add.\n\nIt is\na sum.\n"""\n\nSTOPS = "Send"\n\n{body}'
    assert (mistake.words, mistake.stops) == ("You add.\n\nIt is\na sum.", "Send")


@pytest.mark.parametrize(("hunks", "why"), REFUSED.items())
def test_a_difference_is_never_applied_by_guess(hunks: str, why: str, tmp_path: Path) -> None:
    """Catches a difference that applies in another place than it says, or to other lines."""
    with pytest.raises(InputError) as error:
        stored(tmp_path, HEAD + hunks).text  # noqa: B018
    assert why in str(error.value) and "b.diff" in str(error.value)


@pytest.mark.parametrize(
    "head",
    [
        "--- a/here/right/a.py\n+++ b/here/right/a.py\n",  # no explanation
        HEAD.replace("+++ b/here/right/a.py", "+++ b/here/right/b.py"),
        "You add.\n\n",
    ],
)
def test_a_difference_says_of_what_and_why(head: str, tmp_path: Path) -> None:
    """Catches a mistake that nobody can explain, and one that renames the program."""
    with pytest.raises(InputError, match="needs an explanation, and then --- a/FILE"):
        stored(tmp_path, head + FIRST).text  # noqa: B018


@pytest.mark.parametrize(("name", "runtime"), RUNTIMES)
def test_stored_mistakes_apply(name: str, runtime: str) -> None:
    """Catches a right program that has changed without the mistakes that differ from it."""
    lesson = lessons.load(name)
    known = lesson.mistakes(runtime)
    assert len({without_docstring(one.text) for one in known}) == len(known) > 1
    for one in known:
        compile(one.text, one.path, "exec")
        assert one.words and f"\n--- a/lessons/{name}/right/" in one.path.read_text()
    command = ["git", "apply", "--check", "-v", known[0].path]
    done = subprocess.run(command, cwd=support.ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and "Checking patch lessons/" in done.stderr, done.stderr


def test_the_command_lists_and_shows_mistakes(capsys: pytest.CaptureFixture[str]) -> None:
    """Catches a mistake that a teacher cannot find, and one that is shown in part."""
    known = [one for run in ("mpi4py", "charm4py") for one in lessons.load("ring").mistakes(run)]
    assert cli.main(["lesson", "mistakes", "ring"]) == VALID
    listed = capsys.readouterr().out
    assert [line.split()[0] for line in listed.splitlines() if line[:1].isalpha()][:-1] == [
        one.name for one in known
    ]
    assert known[0].words.split(" ")[0] in listed
    assert cli.main(["lesson", "mistakes", "ring", "--show", known[0].name]) == VALID
    assert capsys.readouterr().out == known[0].text


def test_an_unknown_mistake_is_one_line(refused) -> None:
    """Catches a traceback, and a line that does not help who has mistyped a name."""
    assert "the nearest name is mpi4py_send_first" in refused(
        "lesson", "mistakes", "ring", "--show", "mpi4py_sends_first"
    )
    assert "lesson rings: one of ring, halo" in refused("lesson", "mistakes", "rings")
