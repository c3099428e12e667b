"""The baselines of CG's benchmark compute what the app does, and wrong ones are refused."""

from __future__ import annotations

import shutil
from contextlib import nullcontext
from pathlib import Path

import pytest
import skips

from benchmarks.apps import cg as benchmark
from benchmarks.apps.one_core import require_one_core
from miniapps.devices.cpu.compiler import njit
from miniapps.devices.cpu.vectors import bits


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("", ""),
        ("26.0 : -1.0", "25.0 : -1.0"),
        ("27.0 * at[k]", "26.0 * at[k]"),
        ("x[i] += alpha", "x[i] += 2 * alpha"),
        ("r[i] -= alpha", "r[i] -= 0.999999 * alpha"),
    ],
    ids=["right", "matrix", "operator", "solution", "residual"],
)
def test_the_program_in_c_is_checked(right: str, wrong: str, tmp_path: Path) -> None:
    """Catches a wrong baseline in C, whose rate would stand beside that of the app."""
    if shutil.which("cc") is None:
        skips.without("stub")
    program = Path(benchmark.__file__).with_suffix(".c").read_text()
    assert right in program
    (tmp_path / "cg.c").write_text(program.replace(right, wrong) if right else program)
    with pytest.raises(RuntimeError, match="C, .*does not compute") if right else nullcontext():
        benchmark.in_c(str(tmp_path / "cg.py"), 12, benchmark.squares(12, 9), 9)


@pytest.mark.slow
def test_plain_iterations_of_the_benchmark_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a baseline that leaves products out, as the last ones of a row."""
    benchmark.iterations(12, "noise")
    joined = njit(forceinline=True)(lambda lines, rest: (bits(rest[0]), 0, 0, 0))
    monkeypatch.setattr(benchmark, "_joined", joined)
    benchmark.fused.cache_clear()
    with pytest.raises(RuntimeError, match="plain fused: .*does not compute"):
        benchmark.iterations(12, "noise")
    benchmark.fused.cache_clear()


def test_a_benchmark_on_one_core_starts_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches `make bench` without the variable, and a benchmark that starts itself for ever."""
    begun: list[dict[str, str]] = []
    monkeypatch.setattr("os.execve", lambda path, words, environment: begun.append(environment))
    for given, starts in ({}, 1), ({"OPENBLAS_NUM_THREADS": "2"}, 2):
        monkeypatch.setattr("os.environ", given)
        require_one_core()
        assert len(begun) == starts and begun[-1]["OPENBLAS_NUM_THREADS"] == "1"
    monkeypatch.setattr("os.environ", begun[-1])
    require_one_core()
    assert len(begun) == 2
