"""Runs all cells of a notebook and stores it with their outputs, without the times of the run.

python docs/executed.py docs/notebook.ipynb
"""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

if __name__ == "__main__":
    path = Path(sys.argv[1])
    book = nbformat.read(path, as_version=4)
    where = {"metadata": {"path": str(path.parent)}}
    NotebookClient(book, kernel_name="python3", record_timing=False, resources=where).execute()
    nbformat.write(book, path)
