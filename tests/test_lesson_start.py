"""`miniapps lesson start`, `list` and `check --watch`: what a student does with files."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import support
from test_lesson_mark import answer, hand_in

from miniapps import lessons
from miniapps.lessons.checking import command, running
from miniapps.lessons.checking.submissions import found_in
from miniapps.workbench import cli
from miniapps.workbench.exit_status import INTERRUPTED, VALID
from miniapps.workbench.table import USUAL_WIDTH


def test_a_lesson_starts_for_a_second_runtime(tmp_path, monkeypatch, capsys, refused) -> None:
    """Catches a second skeleton that overwrites the first, or a page with the student's notes."""
    monkeypatch.chdir(tmp_path)
    assert cli.main(["lesson", "start", "halo", "--for", "mpi4py"]) == VALID
    mine = {name: f"from mpi4py import MPI  # mine\n{name}" for name in ("halo.py", "halo.md")}
    for name, text in mine.items():
        (tmp_path / name).write_text(text)
    for runtime in ("charm4py", "block"):
        capsys.readouterr()
        assert cli.main(["lesson", "start", "halo", "--for", runtime]) == VALID
        name = f"halo_{runtime}.py"
        said = capsys.readouterr().out
        assert f"fill in {name}" in said and "halo.py stays as it is" in said
        skeleton = (tmp_path / name).read_text()
        assert name in skeleton.split('"""')[1]  # how it is started
        assert skeleton.replace(name, "halo.py") == lessons.load("halo").skeleton(runtime)
    for runtime, name in (("mpi4py", "halo.py"), ("charm4py", "halo_charm4py.py")):
        assert f"{name} exists; it is not over" in refused(
            "lesson", "start", "halo", "--for", runtime
        )
    assert all((tmp_path / name).read_text() == text for name, text in mine.items())
    assert len([*tmp_path.iterdir()]) == 5
    assert cli.main(["lesson", "hint", "halo_charm4py.py"]) == VALID


def test_a_program_is_checked_beside_files_with_names_of_modules(tmp_path, monkeypatch) -> None:
    """Catches a process that imports a student's own file in place of Python's."""
    monkeypatch.chdir(tmp_path)
    Path("json.py").write_text("raise ValueError('mine')\n")
    Path("ring.py").write_text(answer("ring", "mpi4py"))
    done = support.miniapps("lesson", "check", "ring.py")
    assert done.returncode == VALID and "right, to the last bit" in done.stdout, done.stderr


def test_what_is_started_prepares_itself_before_it_imports_numpy() -> None:
    """Catches threads of NumPy's library: a process that has some cannot be isolated."""
    named = f"import sys, {running.PROCESS[-1]}; print(sys.modules.keys() & {{'numpy'}})"
    assert support.execute([sys.executable, "-c", named]).stdout == "set()\n"


def test_a_folder_that_cannot_be_written_is_told(monkeypatch, refused) -> None:
    """Catches the words of the system, and the status of a run that failed."""
    monkeypatch.chdir("/proc")
    assert "halo.py: cannot be written: " in refused("lesson", "start", "halo")


def test_programs_for_a_second_runtime_are_found(tmp_path, refused) -> None:
    """Catches a second program that cannot be checked or marked, or that hides the first."""
    for name, runtime in (("halo", "mpi4py"), ("halo_charm4py", "charm4py")):
        hand_in(tmp_path, "ada", answer("halo", runtime), name)
    hand_in(tmp_path, "bob", answer("halo", "charm4py"))
    hand_in(tmp_path, "cy", answer("halo", "mpi4py"))
    runtimes = {one.student: one.runtime for one in found_in(tmp_path, "halo")}
    assert runtimes == {"ada": "mpi4py", "bob": "charm4py", "cy": "mpi4py"}
    ada, bob, cy = found_in(tmp_path, None, "charm4py")
    assert (ada.program.name, ada.runtime) == ("halo_charm4py.py", "charm4py")
    assert (bob.program.name, bob.runtime) == ("halo.py", "charm4py")
    assert cy.trouble == "is for mpi4py, not for charm4py"
    assert command.lesson_of(ada.program) == "halo"
    words = ("lesson", "mark", tmp_path, "--salt", "s", "--lesson", "kernel", "--for", "mpi4py")
    assert "the lesson kernel is for numba" in refused(*words)
    (tmp_path / "halo_numba.py").write_text("import numba")
    assert "its name must say the lesson" in refused("lesson", "check", tmp_path / "halo_numba.py")


def test_the_list_says_for_what_lessons_are(capsys) -> None:
    """Catches a lesson whose runtimes the list does not name, and lines that are too long."""
    assert cli.main(["lesson", "list"]) == VALID
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= USUAL_WIDTH
    said = " ".join(said.split())
    for lesson in map(lessons.load, lessons.names()):
        runtimes = ", ".join(lesson.runtimes)
        assert f"{lesson.name} {lesson.minutes} min {lesson.title} ({runtimes})" in said


def watched(acts: Iterator[Callable[[], object]]) -> Callable[[float], None]:
    """What happens instead of waiting between two looks at a file; at the end, Ctrl-C."""

    def wait(_: float) -> None:
        act = next(acts, None)
        if act is None:
            raise KeyboardInterrupt
        act()

    return wait


def test_watch_checks_at_each_save(tmp_path, monkeypatch, capsys, refused) -> None:
    """Catches a save that is missed, and a watch that ends by an error or without the file."""
    program, other = tmp_path / "ring.py", tmp_path / "new"
    assert "does not exist" in refused("lesson", "check", program, "--watch")
    program.write_text("def collect(")
    times = []

    def replaced() -> None:
        """As editors do: a new file of the same size and time in the place of the old one."""
        other.write_text(program.read_text().replace("sys", "abs"))
        os.utime(other, ns=(program.stat().st_atime_ns, program.stat().st_mtime_ns))
        os.replace(other, program)

    def check(path: Path) -> int:
        times.append(path.read_text() if path.is_file() else "")
        return real(path)

    real = command.check_program
    monkeypatch.setattr(command, "check_program", check)
    nothing = lambda: None  # noqa: E731
    acts = [
        nothing,
        lambda: program.write_text("import sys"),
        nothing,
        replaced,
        program.unlink,
        nothing,
        lambda: program.write_text("import sys"),
        lambda: (program.unlink(), program.mkdir()),
        lambda: (program.rmdir(), program.write_text("x = 1")),
    ]
    monkeypatch.setattr(command.time, "sleep", watched(iter(acts)))
    words = ["lesson", "check", str(program), "--watch"]
    assert cli.main(words) == INTERRUPTED
    said = capsys.readouterr().out
    assert times == ["def collect(", "import sys", "import abs", "import sys", "", "x = 1"]
    assert "this is no Python" in said and said.count(f"{program} is gone; waiting") == 1
