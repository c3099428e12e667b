"""The pages of lessons: their parts, the outputs that they show, and what a browser shows."""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path

import pytest
import support

from miniapps import lessons
from miniapps.lessons.checking.page import as_html

MAIN = 'if __name__ == "__main__":'
SECTIONS = ["The idea", "The task", "What to look at", "Questions", "Where to read on"]
SHOWN = """
import doctest, sys, {name}
print(doctest.testfile("{page}", module_relative=False, globs=vars({name})).failed, "failed")
"""


def page_of(name: str) -> str:
    """The page of a lesson."""
    return (lessons.load(name).folder / "page.md").read_text()


def solved(name: str, runtime: str) -> str:
    """The skeleton of a lesson, completed: the model answer replaces what it defines."""
    answer = lessons.load(name).answer(runtime).read_text()
    before, main, after = lessons.load(name).skeleton(runtime).partition(MAIN)
    return f"{before}\n{answer}\n{main}{after}"


def outputs(text: str) -> list[str]:
    """What a page shows in blocks of code without a language, fenced or indented."""
    indented = re.findall(r"(?<=\n\n)((?: {4}.*\n)+)", text)
    fenced = re.findall(r"(?ms)^ *```\n(.*?)^ *```$", text)
    return [textwrap.dedent(block) for block in fenced + indented]


def launched(program: Path, processes: int) -> str:
    """What a program for mpi4py prints; each process writes all of it at once."""
    command = [support.BIN / "mpiexec", "-n", processes, sys.executable, program]
    done = support.execute(command, env={"PYTHONUNBUFFERED": ""}, check=True)
    return done.stdout


@pytest.mark.parametrize("name", lessons.names())
def test_a_page_has_all_parts(name: str) -> None:
    """Catches a page without aims, figure, folded answers, or the program that it continues."""
    text = page_of(name)
    minutes, aims, *_ = text.split("\n\n")[1:]
    assert (
        f"{lessons.load(name).minutes} minutes" in minutes and aims == "After this lesson you can"
    )
    found = [title for title in re.findall(r"(?m)^## (.*)", text) if title in SECTIONS]
    assert found == SECTIONS
    parts = dict(re.findall(r"(?ms)^## ([^\n]*)\n(.*?)(?=^## |\Z)", text))
    assert outputs(parts["The idea"])  # the figure
    assert parts["Questions"].count("<details>") == parts["Questions"].count("</details>") >= 3
    if name != lessons.names()[0]:
        assert re.search(r"lessons? \d", parts["The task"]), "which program does it continue?"


@pytest.mark.parametrize("name", ["sum", "overdecomposition"])
def test_what_a_page_types_into_python(name: str, tmp_path: Path) -> None:
    """Catches a result that the page shows and Python does not."""
    (tmp_path / f"{name}.py").write_text(solved(name, lessons.load(name).runtimes[0]))
    code = SHOWN.format(name=name, page=lessons.load(name).folder / "page.md")
    done = support.execute([sys.executable, "-c", code], env={"PYTHONPATH": str(tmp_path)})
    assert "0 failed" in done.stdout, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ring", "halo", "kernel"])
def test_what_a_right_program_prints(name: str, tmp_path: Path) -> None:
    """Catches an output on a page that no right program prints."""
    program = tmp_path / f"{name}.py"
    program.write_text(solved(name, "numba" if name == "kernel" else "mpi4py"))
    if name == "kernel":
        command = [sys.executable, program]
        printed = support.execute(command, env={"NUMBA_ENABLE_CUDASIM": "1"}).stdout
        printed = printed.split("tiled: True\n")[1]
    else:
        printed = launched(program, 3)
    shown = [*map(sorted_lines, outputs(page_of(name)))]
    assert sorted_lines(printed) in shown, printed


def sorted_lines(text: str) -> list[str]:
    """The lines that processes print in any order."""
    return sorted(line for line in text.splitlines() if line)


@pytest.mark.slow
def test_the_last_program_uses_those_of_the_lessons(tmp_path: Path) -> None:
    """Catches a lesson that changed a function which later programs call, and lost digits.

    The program that is timed has a tenth of the rows here.
    """
    for name in ("ring", "sum", "measuring", "overlap", "particles"):
        (tmp_path / f"{name}.py").write_text(solved(name, "mpi4py"))
    for name, file in (("measuring", "time_overlap.py"), ("particles", "own.py")):
        (program,) = re.findall(r"(?ms)^ *```python\n(.*?)^ *```", page_of(name))
        (tmp_path / file).write_text(
            textwrap.dedent(program).replace("2000 // count", "200 // count")
        )
    assert len(launched(tmp_path / "time_overlap.py", 2).splitlines()) == 3
    page = page_of("particles")
    for processes in (1, 2, 3):
        moment, balance, _ = launched(tmp_path / "own.py", processes).splitlines()
        assert f"{moment}\n" in outputs(page)
        assert processes != 2 or f"On two processes {balance.replace('n ', 'n is ')}. So" in page


@pytest.mark.slow
def test_a_browser_shows_the_pages(tmp_path, browser_page) -> None:
    """Catches Markdown that is shown as it is, answers that are not folded, and text cut off.

    Three pages have all that pages have: tables, figures, code, folded answers.
    """
    for name in lessons.names()[::4]:
        markdown = (lessons.load(name).folder / "page.md").read_text()
        file = tmp_path / f"{name}.html"
        file.write_text(as_html(markdown))
        page, complaints = browser_page(file)
        outside = re.sub(r"```.*?```", "", markdown, flags=re.DOTALL)
        headings = [re.sub("`", "", title) for title in re.findall(r"(?m)^#+ (.*)", outside)]
        assert page.locator("h1, h2, h3").all_inner_texts() == headings, name
        assert page.title() == headings[0] and not complaints, name
        assert page.locator("pre").count() >= markdown.count("```") // 2, name
        answers = page.locator("details > p")
        assert answers.count() > 0, name
        assert not any(answer.is_visible() for answer in answers.all()), name
        page.locator("summary").first.click()
        assert answers.first.is_visible(), name
        shown = re.sub(r"\s+", " ", page.locator("body").inner_text())
        assert not re.search(r"\|---|\*\*|\]\(|<summary>|`", shown), name
        page.set_viewport_size({"width": 400, "height": 800})  # a telephone
        assert page.evaluate("document.documentElement.scrollWidth") <= 400, name
