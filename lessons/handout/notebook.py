"""Makes the notebook with the lessons for mpi4py, from their pages and skeletons.

python -m miniapps.lessons.handout.notebook docs/teaching/lessons.ipynb
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from miniapps import lessons

RUNTIME = "mpi4py"
INTRODUCTION = """# Lessons in parallel Python

In a hosted notebook, upload `student-package.zip` beside this notebook, and run the next cell: it
installs what is missing. Then read a lesson, complete its program in the cell below it, and run the
cell: it checks the program on 1 to 4 processes, as `miniapps lesson check` does, and says what is
wrong. `!miniapps lesson hint ring` in a cell gives a hint, `hint ring 2` and `hint ring 3` better
ones.
"""
SETUP = '''import shutil
from pathlib import Path

from IPython.core.magic import register_cell_magic

if shutil.which("miniapps") is None:
    %pip install --quiet student-package.zip


@register_cell_magic
def check(name, program):
    """Write a cell to a file, and check it as the program of a lesson."""
    Path(f"{name}.py").write_text(program)
    !miniapps lesson check {name}.py'''


def notebook() -> Any:
    """The notebook: a page and a cell for each lesson."""
    cells = [new_markdown_cell(INTRODUCTION, id="introduction"), new_code_cell(SETUP, id="setup")]
    for name in lessons.names():
        lesson = lessons.load(name)
        if RUNTIME not in lesson.runtimes:
            continue
        page = (lesson.folder / "page.md").read_text(encoding="utf-8")
        program = f"%%check {name}\n{lesson.skeleton(RUNTIME)}".rstrip()
        cells += [
            new_markdown_cell(page, id=f"{name}-page"),
            new_code_cell(program, id=f"{name}-program"),
        ]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return new_notebook(cells=cells, metadata={"kernelspec": kernel})


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(nbformat.writes(notebook()) + "\n", encoding="utf-8")
