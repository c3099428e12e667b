"""The zip file for students: no answers in it, and two commands that start the first lesson."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import support
from test_docs import links, named_paths

from miniapps import lessons
from miniapps.lessons.handout import student_package


@pytest.fixture(scope="module")
def package(tmp_path_factory) -> Path:
    """The folder that a student has after unzipping."""
    folder = tmp_path_factory.mktemp("student")
    student_package.write(folder / "package.zip")
    with zipfile.ZipFile(folder / "package.zip") as file:
        file.extractall(folder)
    (unzipped,) = [path for path in folder.iterdir() if path.is_dir()]
    return unzipped


def test_no_answer_is_inside(package) -> None:
    """Catches a package that gives the answers away, under any name."""
    every = [lessons.load(name) for name in lessons.names()]
    right = [path for one in every for runtime in one.runtimes for path in one.right(runtime)]
    answers = {path.read_bytes() for path in right}
    assert len(answers) == len(right) > 60
    files = [path for path in package.rglob("*") if path.is_file()]
    assert len(files) > 100
    for path in files:
        assert path.read_bytes() not in answers, path
        assert b"Model answer of the lesson" not in path.read_bytes(), path
    assert not [*package.rglob("right"), *package.rglob("*.diff")]


def test_known_mistakes_are_whole_programs(package, monkeypatch) -> None:
    """Catches a package that shows what is right, or whose check has no known mistakes."""
    for lesson in map(lessons.load, lessons.names()):
        for runtime in lesson.runtimes:
            made = {one.name: one.text for one in lesson.mistakes(runtime)}
            with monkeypatch.context() as there:
                there.setattr(lessons.lesson, "FOLDER", package / "src" / "miniapps" / "lessons")
                inside = lesson.mistakes(runtime)
                assert {one.name: one.path.read_text() for one in inside} == made
                assert {one.path.suffix for one in inside} == {".py"}


def test_links_and_paths_lead_somewhere(package) -> None:
    """Catches a page that names a file which students do not have, and a plain program left out."""
    pages = [*package.rglob("*.md")]
    assert len(pages) > 30
    for page in pages:
        text = page.read_text()
        for link in links(text):
            assert (page.parent / link.partition("#")[0]).exists(), (page, link)
        if "lessons" in page.relative_to(package).parts:
            assert {path for path in named_paths(text) if not (package / path).exists()} == set()
    given = {path.name for path in (package / "docs" / "teaching").iterdir()}
    programs = {"jacobi2d_mpi4py.py", "jacobi2d_charm4py.py"}
    assert given == {*programs, "first-lesson.md", "lessons.md", "two-programs.md"}
    gone = student_package.with_links_inside(
        "[a](b.md#c) [d](e.md) ![f](g.png)", "docs/x.md", {"docs/b.md"}
    )
    assert gone == "[a](b.md#c) d f"


@pytest.mark.slow
def test_two_commands_start_the_first_lesson(package, tmp_path) -> None:
    """Catches a package that cannot be installed, or that lacks a page or a skeleton."""
    block = re.search(r"```sh\n(.*?)```", (package / "README.md").read_text(), re.DOTALL)
    assert block is not None
    install, start = block[1].strip().splitlines()
    assert install == "python3 -m venv .venv && .venv/bin/pip install ."
    # Without the network: into a folder, with the dependencies that are there already.
    words = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--target", tmp_path]
    support.execute([sys.executable, "-m", "pip", "install", *words, package], check=True)
    program, *arguments = shlex.split(start)
    assert program == ".venv/bin/miniapps" and arguments[-1] == lessons.names()[0]
    student = tmp_path / "student"
    student.mkdir()
    line = f"cd {student} && exec {sys.executable} {tmp_path}/bin/miniapps {' '.join(arguments)}"
    support.execute(["sh", "-c", line], env={"PYTHONPATH": str(tmp_path)}, check=True)
    first = lessons.load(arguments[-1])
    assert (student / "ring.py").read_text() == first.skeleton("mpi4py")
    assert (student / "ring.md").read_text().startswith("# 1.")


def test_the_container_installs_the_package(package) -> None:
    """Catches a Dockerfile that is not one, and a dev container that is made from another."""
    hadolint = shutil.which("hadolint", path=Path(sys.executable).parent)
    assert hadolint is not None

    def complaints(text: str) -> str:
        return subprocess.run([hadolint, "-"], input=text, capture_output=True, text=True).stdout

    text = (package / "Dockerfile").read_text()
    assert complaints(text) == ""
    assert "unexpected" in complaints(text.replace("COPY .", "COPPY ."))
    folder = package / ".devcontainer"
    build = json.loads((folder / "devcontainer.json").read_text())["build"]
    assert (folder / build["dockerfile"]).resolve() == package / "Dockerfile"
    assert (folder / build["context"]).resolve() == package
    python = re.search(r"^FROM python:(3\.\d+)-slim$", text, re.MULTILINE)
    assert python is not None and f"{python[1]}" in (package / "README.md").read_text()
