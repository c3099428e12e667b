"""Makes the zip file that students get: the lessons and what runs them, without the answers.

python teaching/student_package.py student-package.zip
"""

from __future__ import annotations

import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = "lessons-in-parallel-python"
FILES = ("LICENSE", "pyproject.toml", "Dockerfile", ".dockerignore")
FILES += (".devcontainer/devcontainer.json",)
README = ROOT / "teaching" / "README-for-students.md"


def files() -> Iterator[tuple[str, Path]]:
    """The files of the package, by the names that they have there."""
    yield "README.md", README
    for name in FILES:
        yield name, ROOT / name
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    for pattern in project["tool"]["setuptools"]["packages"]["find"]["include"]:
        for path in sorted((ROOT / pattern.rstrip("*")).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield str(path.relative_to(ROOT)), path


def write(target: Path) -> None:
    """Write the zip file, with the same bytes from the same files."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as package:
        for name, path in files():
            entry = zipfile.ZipInfo(f"{FOLDER}/{name}")
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            package.writestr(entry, path.read_bytes())


if __name__ == "__main__":
    write(Path(sys.argv[1]))
