"""Lets every Python that has this folder in PYTHONPATH find the apps beside it, launched or not."""

from pathlib import Path

import miniapps

miniapps.__path__.append(str(Path(__file__).parent / "apps"))
