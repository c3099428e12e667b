"""The notebook in docs/: it runs, and the outputs that it was stored with are its own."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import nbformat
import pytest
import support

from miniapps.workbench.show.captions import machine_text

NOTEBOOK = support.ROOT / "docs/notebook.ipynb"
CAMPAIGN = support.ROOT / "docs/results/jacobi2d-strong.jsonl"  # of its figure
OF_A_MACHINE = r"(?<![\w.])/(?:home|root|tmp|usr|work|opt)/|" + re.escape(os.uname().nodename)
STATE = r"state ([0-9a-f]{64})"


def stored() -> Any:
    """The notebook as it is in the repository."""
    return nbformat.read(NOTEBOOK, as_version=4)


def texts(book: Any) -> str:
    """All outputs that are text."""
    outputs = [output for cell in book.cells for output in cell.get("outputs", ())]
    plain = [str(output.get("data", {}).get("text/plain", "")) for output in outputs]
    return "\n".join([*(output.get("text", "") for output in outputs), *plain])


def problems(book: Any) -> list[str]:
    """What is wrong with the stored outputs of a notebook."""
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    figures = [out for cell in code for out in cell.outputs if "image/png" in out.get("data", {})]
    found = ["not executed"] if any(cell.execution_count is None for cell in code) else []
    found += ["an error"] * any(out.output_type == "error" for cell in code for out in cell.outputs)
    found += [] if figures else ["no figure"]
    found += ["of one machine"] if re.search(OF_A_MACHINE, texts(book)) else []
    found += ["disturbed"] if "DISTURBED" in texts(book) else []
    return found


def test_the_notebook_is_stored_with_its_outputs() -> None:
    """Catches a notebook without figure, with an error or a path, or of a busy machine."""
    assert problems(stored()) == []


def test_problems_of_a_notebook_are_seen() -> None:
    """Catches a check of outputs that finds nothing."""
    book = deepcopy(stored())
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    code[0].outputs[0].text += "DISTURBED in /home/somebody/run.h5\n"
    code[0].execution_count = None
    code[-1].outputs = [nbformat.v4.new_output("error")]
    wrong = ["not executed", "an error", "no figure", "of one machine", "disturbed"]
    assert problems(book) == wrong


@pytest.mark.slow
def test_the_notebook_runs(execute_cells: Callable[[Any, Path], None]) -> None:
    """Catches a notebook of an interface that has changed, and a stored state of another run.

    And a figure that does not name app, size or machine.
    """
    book = stored()
    book.cells.append(nbformat.v4.new_code_cell("print('title:', axes.get_title())"))
    execute_cells(book, NOTEBOOK.parent)
    (output,) = book.cells.pop().outputs
    about = "Strong scaling of jacobi2d, size 4096x4096, initial noise"
    events = [json.loads(line) for line in CAMPAIGN.read_text().splitlines()]
    measured_on = [event["host"] for event in events if "host" in event]
    assert output.text == f"title: {about}\n{machine_text(measured_on)}\n"
    assert re.findall(STATE, texts(book)) == re.findall(STATE, texts(stored())) != []
    imbalances = re.search(r"imbalance ([\d.]+), in the record ([\d.]+)", texts(book))
    assert imbalances is not None and imbalances[1] == imbalances[2]
