"""`miniapps verify`: its cases can all be run, and it says so where one is different or wrong."""

from __future__ import annotations

import pytest

import miniapps
from workbench import verify
from workbench.run.cases import Case, spec_of


@pytest.mark.parametrize("app", miniapps.names())
def test_every_case_can_be_run(app: str) -> None:
    """Catches a tiny problem that is too small for a decomposition with a wide halo."""
    for case in verify.cases(miniapps.load(app).Problem.variants, full=True):
        spec_of(app, case, "tiny").check()


@pytest.mark.parametrize("outcome", [("other", "ok"), ("same", "wrong: mode"), ("-", "failed")])
def test_one_bad_case_is_enough(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], outcome: tuple[str, str]
) -> None:
    """Catches a verdict that looks at the last case only, or at hashes but not at checks."""
    outcomes = iter([("same", "ok"), ("same", "ok"), outcome])
    monkeypatch.setattr(
        verify, "outcome_of", lambda app, case, device: next(outcomes, ("same", "ok"))
    )
    assert verify.verify(["echo"], full=False) == 1
    assert "1 of the runs above went wrong" in capsys.readouterr().out


def test_all_alike_is_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a command that fails whatever it finds."""
    monkeypatch.setattr(verify, "outcome_of", lambda app, case, device: ("same", "ok"))
    assert verify.verify(["echo"], full=False) == 0


def test_a_gpu_is_held_against_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches runs on a GPU that are compared with each other only, or that ran on the CPU."""
    devices: list[str] = []

    def outcome(app: str, case: Case, device: str) -> tuple[str, str]:
        devices.append(device)
        return ("right" if device == "cpu" else "wrong", "ok")

    monkeypatch.setattr(verify, "outcome_of", outcome)
    assert verify.verify(["echo"], full=False, device="gpu") == 1
    assert devices[0] == "cpu" and set(devices[1:]) == {"gpu"} and len(devices) > 20
