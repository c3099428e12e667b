"""The notebook with the lessons: it is made from their pages, and its cells check programs."""

from __future__ import annotations

import nbformat
import pytest
import support

from miniapps import lessons
from miniapps.lessons.handout.notebook import notebook

NOTEBOOK = support.ROOT / "docs" / "teaching" / "lessons.ipynb"


def test_the_notebook_is_made_from_the_lessons() -> None:
    """Catches a page or skeleton that has changed since `make notebook`."""
    assert NOTEBOOK.read_text() == nbformat.writes(notebook()) + "\n"


@pytest.mark.slow
def test_a_cell_checks_a_program(tmp_path, execute_cells):
    """Catches cells that do not run, or that say the same of every program."""
    book = notebook()
    setup, skeleton = (
        next(cell for cell in book.cells if cell.id == name) for name in ("setup", "sum-program")
    )
    answer = lessons.load("sum").answer("mpi4py").read_text()
    complete = nbformat.v4.new_code_cell(f"%%check sum\nfrom mpi4py import MPI\n{answer}")
    book.cells = [setup, skeleton, complete]
    execute_cells(book, tmp_path)
    said = ["".join(out.get("text", "") for out in cell.outputs) for cell in book.cells]
    assert "FAIL" in said[1] and "sum.py: right, to the last bit" not in said[1]
    assert "FAIL" not in said[2] and "sum.py: right, to the last bit" in said[2]
