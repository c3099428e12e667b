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
HERE = Path(__file__).parent


def notebook() -> Any:
    """The notebook: a page and a cell for each lesson."""
    introduction = (HERE / "notebook.md").read_text(encoding="utf-8")
    setup = (HERE / "notebook_setup.ipy").read_text(encoding="utf-8").rstrip()
    cells = [new_markdown_cell(introduction, id="introduction"), new_code_cell(setup, id="setup")]
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
