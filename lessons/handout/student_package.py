"""Makes the zip file that students get: the lessons and what runs them, without right programs.

python -m miniapps.lessons.handout.student_package student-package.zip
"""

from __future__ import annotations

import re
import sys
import zipfile
from collections.abc import Iterator, Set
from os.path import normpath, relpath
from pathlib import Path

from miniapps.apps import PARTS
from miniapps.lessons.mistakes import SUFFIX, source

ROOT = Path(__file__).resolve().parents[2]
FOLDER = "lessons-in-parallel-python"
FILES = (
    "LICENSE",
    "pyproject.toml",
    "Dockerfile",
    ".dockerignore",
    ".devcontainer/devcontainer.json",
)
README = ROOT / "lessons/handout/README.md"
PAGES = (  # which pages of lessons name; for-teachers.md and the tables of marks are not among them
    "docs/*.md",
    "docs/teaching/first-lesson.md",
    "docs/teaching/lessons.md",
    "docs/teaching/two-programs.md",
    "docs/teaching/jacobi2d_*.py",
)
LEFT_OUT = {"__pycache__", "right", "handout"}  # folders
PATH = re.compile(rf"`((?:miniapps|{'|'.join(PARTS)})/)")  # of a file, in a page
LINK = re.compile(r"!?\[([^\]]+)\]\(([^)#\s]+)(?:#[^)\s]*)?\)")


def files() -> Iterator[tuple[str, Path]]:
    """The files of the package, by their names in a source tree of it."""
    yield "README.md", README
    for name in FILES:
        yield name, ROOT / name
    for pattern in PAGES:
        for path in sorted(ROOT.glob(pattern)):
            yield str(path.relative_to(ROOT)), path
    for package in ("miniapps", *PARTS):
        for path in sorted((ROOT / package).rglob("*")):
            place = path.relative_to(ROOT)
            if path.is_file() and not LEFT_OUT & {*place.parts}:
                # Of a difference from a right program students get the wrong program.
                yield str(place.with_suffix(".py") if path.suffix == SUFFIX else place), path


def placed(name: str) -> str:
    """The place of a file: links cannot be packed, so packages are where the links to them are."""
    top = name.split("/")[0]
    return {"miniapps": "src/", **dict.fromkeys(PARTS, "src/miniapps/")}.get(top, "") + name


def with_links_inside(page: str, name: str, names: Set[str]) -> str:
    """A page of this name, whose links to files that the package leaves out are mere text."""

    def kept(link: re.Match[str]) -> str:
        if "://" in link[2]:
            return link[0]
        target = normpath(Path(name).parent / link[2])
        inside = target in names or any(other.startswith(f"{target}/") for other in names)
        there = relpath(placed(target), Path(placed(name)).parent)
        return link[0].replace(f"({link[2]}", f"({there}", 1) if inside else link[1]

    return PATH.sub(lambda path: f"`{placed(path[1])}", LINK.sub(kept, page))


def write(target: Path) -> None:
    """Write the zip file, with the same bytes from the same files."""
    packed = dict(files())
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as package:
        for name, path in packed.items():
            content = source(path)
            if path.suffix == ".md":
                content = with_links_inside(content.decode(), name, packed.keys()).encode()
            entry = zipfile.ZipInfo(f"{FOLDER}/{placed(name)}")
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            package.writestr(entry, content)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
