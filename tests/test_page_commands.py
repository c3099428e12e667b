"""Every command on every page is executed, or a marker above it says why it cannot be.

A page's blocks are executed in their order, in one folder. A marker is a comment, which readers do
not see: `<!-- not executed: needs two hosts -->`. Left out are the pages in BY_OTHERS, those of
lessons (test_lesson_page.py executes their programs), and blocks of Python, which tests of the page
execute. test_docs.py parses the commands of `miniapps` of all pages every day, also marked ones.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pages
import pytest
import support
from pages import PAGES, Block, Line, blocks
from support import BIN, ROOT

from miniapps import tiling

BY_OTHERS = {
    "docs/adding-an-app.md": "test_adding_an_app.py makes the app and runs it",
    "docs/reproduction.md": "a report that test_reproduce.py compares with what it would be today",
    "docs/results/README.md": "a report too: test_performance_page.py",
}
BLOCKS = {page: blocks((ROOT / page).read_text()) for page in [*PAGES, pages.STUDENTS]}
EXECUTED = [
    page
    for page, shown in BLOCKS.items()
    if page not in BY_OTHERS and any(block.reason is None for block in shown)
]
# With a Python that is given, make does not look for one, which takes seconds.
DRY = ["--dry-run", f"--directory={ROOT}", f"PYTHON={sys.executable}"]
# How a command begins, what is added to make it short, and what it would cost or need without that.
SHORT = [
    ("make ", shlex.join(DRY), "installs, or takes minutes"),
    ("miniapps study (strong|comm|jacobi2d-strong)", "--dry-run", "a campaign takes minutes"),
    ("miniapps reproduce (espm2-fig7|--all)", "--help", "a figure takes a minute"),
    ("miniapps model measure", "--help", "measures the machine for minutes"),
    ("miniapps adversary", "--seconds 1", "1000 schedules"),
    ("miniapps comm (?!--list)", "-i 5 --trials 1 -m 8:64", "1000 messages of each size"),
    (
        "miniapps comm (bcast|latency --driver charm --compare)",
        "--dry-run",
        "launches by the dozen",
    ),
    ("miniapps comm anatomy( --driver charm)?$", "--dry-run", "a minute of many kinds of message"),
    ("miniapps run jacobi2d --size 11000x11000", "--size 400x400", "checkpoints of 1 GB"),
    ("miniapps run leanmd --preset melt", "--steps 20", "seconds"),
    ("miniapps run pic --preset (paper|uneven)", "--steps 100 --particles 20000", "a minute"),
    ("miniapps run pic .*--particles 2000000", "--particles 20000 --pe-grid 8x8", "a minute"),
    ("miniapps replay large.h5", "--pes 2..16", "1024 PEs"),
    ("miniapps lesson mark", "--not-isolated", "a kernel need not offer isolation"),
    (".*pytest", "--collect-only --quiet", "test_gpu_layers.py executes these tests"),
]
GIVEN = "continue\n"  # to the debugger
SKELETON = "miniapps lesson check ring.py"  # as it was handed out it does not pass


def as_executed(text: str) -> str:
    """A command of a page with what makes it short."""
    more = [words for begin, words, _ in SHORT if re.match(begin, text)]
    return " ".join([text, *more])


def ended(line: Line) -> subprocess.CompletedProcess[str]:
    """Execute a line in the current folder: in this process if it needs no shell."""
    text = as_executed(line.text)
    if text.startswith("miniapps ") and not re.search(r"[|&;<>$*]", text):
        return support.in_process(*shlex.split(text)[1:])
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    return support.execute(["bash", "-o", "pipefail", "-c", text], env={"PATH": path}, given=GIVEN)


def first_failure(shown: Iterable[Block]) -> str:
    """The first command that does not end as its page says, and why; else empty."""
    for block in shown:
        for line in block.lines if block.reason is None else []:
            done = ended(line)
            expected = 2 if line.refused else int(line.text.endswith(SKELETON))
            if done.returncode != expected:
                said = f"{done.stdout}\n{done.stderr}"[-1000:]
                return f"line {line.number}: {line.text}: status {done.returncode}\n{said}"
    return ""


def prepare(page: str) -> None:
    """Lay into the current folder what a page supposes there."""
    programs, ring = ROOT / "docs/teaching", ROOT / "lessons/ring/right/answer_mpi4py.py"
    Path(".venv").symlink_to(BIN.parent)
    match page:
        case "docs/teaching/two-programs.md":
            for name in ("jacobi2d_mpi4py.py", "jacobi2d_charm4py.py"):
                shutil.copy(programs / name, name)
        case "docs/teaching/for-teachers.md" | "docs/teaching/first-lesson.md":
            Path("class/ada").mkdir(parents=True)
            shutil.copy(ring, "class/ada/ring.py")
        case "docs/clusters.md":
            shutil.copy(ROOT / "docs/results/jacobi2d-strong.jsonl", "strong.jsonl")
        case "docs/gpu-checks.md":
            for name in ("tests", "pyproject.toml"):
                Path(name).symlink_to(ROOT / name)
        case "docs/teaching/lessons.md":
            changed = Path(ring.relative_to(ROOT))
            changed.parent.mkdir(parents=True)
            Path("lessons/ring/mistakes").mkdir()
            shutil.copy(ring, changed)
            for words in ("init --quiet", "add ."):
                subprocess.run(["git", *words.split()], check=True)
            changed.write_text(f"{changed.read_text()}mistake = 1\n")
        case pages.STUDENTS:
            support.in_process("lesson", "start", "ring")


@pytest.mark.slow
@pytest.mark.usefixtures("few_resamples")
@pytest.mark.parametrize("page", EXECUTED)
def test_commands_do_what_a_page_says(page, tmp_path, monkeypatch):
    """Catches a command that fails, or whose file another command of the page does not write."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tiling, "best_tile", lambda *_: 1)  # measures nothing
    prepare(page)
    assert first_failure(BLOCKS[page]) == ""


@pytest.mark.launch
def test_wrong_commands_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a check that accepts anything: each page but the first has one mistake."""
    monkeypatch.chdir(tmp_path)
    listed, run = "miniapps list > apps  # all", "miniapps run echo --preset tiny \\\n  --dry-run"
    right = f"```sh\n{listed}\n\n{run}\n```\n"
    assert first_failure(blocks(right)) == "" and (tmp_path / "apps").exists()
    shown = "```\n$ miniapps fly\nminiapps: an error\n$ miniapps list\nminiapps: none"
    for was, becomes, number in [
        ("--preset", "--presets", 4),
        (listed, "cat gone", 2),
        (listed, "miniaps list", 2),
        (listed, "miniapps plot gone.h5", 2),
        (listed, "make no-such-target", 2),
        ("```sh", shown, 4),
    ]:
        wrong = right.replace(was, becomes)
        assert first_failure(blocks(wrong)).startswith(f"line {number}: "), wrong
        assert first_failure(blocks(f"<!-- not executed: wrong -->\n{wrong}")) == ""


def test_blocks_of_every_form_are_found() -> None:
    """Catches a block that is overlooked, so that its commands are never executed."""
    text = "One:\n\n    A=1 python -m this   # why\n    x = 1\n\n    miniapps: an error\n\n"
    text += "<!-- not executed: needs two hosts -->\n\n```console\n$ cat a | wc\n1\n```\n"
    text += "```\nmake it\nmade\n```\n```python\nmake = 1\n```\n"
    text += "```bash\n#!/bin/bash\nls $A && [ b ]\n```\n"
    lines = [line for block in blocks(text) for line in block.lines]
    assert [(line.number, line.text) for line in lines] == [
        (3, "A=1 python -m this"),
        (11, "cat a | wc"),
        (15, "make it"),
        (23, "ls $A && [ b ]"),
    ]
    assert lines[1].commands() == [["cat", "a"], ["wc"]]
    assert lines[3].commands() == [["ls", "1"], ["b", "]"]]
    assert [block.reason for block in blocks(text)] == [None, "needs two hosts", None, None]


def test_markers_and_short_ways_are_needed() -> None:
    """Catches a marker that is misspelt, has no reason or no block, and a row of no command."""
    for page, shown in BLOCKS.items():
        reasons = [block.reason for block in shown if block.reason is not None]
        comments = re.findall(
            "^<!-- (?!make )", (ROOT / page).read_text(), re.M
        )  # what make writes
        assert all(reasons) and len(comments) == len(reasons), page
    lines = [line.text for page in EXECUTED for block in BLOCKS[page] for line in block.lines]
    assert [begin for begin, *_ in SHORT if not any(re.match(begin, line) for line in lines)] == []
    assert BY_OTHERS.keys() <= BLOCKS.keys()


@pytest.mark.launch
def test_targets_of_make_exist() -> None:
    """Catches a page that names a target of make which was renamed or is gone."""
    texts = [(ROOT / page).read_text() for page in PAGES]
    named = {words for text in texts for words in re.findall("`make ([^`&]+)", text)}
    targets = {word for words in named for word in words.split() if "=" not in word}
    assert len(targets) > 20
    support.execute(["make", *sorted(targets), *DRY], check=True)
    assert support.execute(["make", "no-such-target", *DRY]).returncode == 2
