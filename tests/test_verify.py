"""`miniapps verify`: its cases can all be run, and it says so where one is different or wrong."""

from __future__ import annotations

import pytest

import miniapps
from workbench import verify
from workbench.cases import spec_of


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
    monkeypatch.setattr(verify, "outcome_of", lambda app, case: next(outcomes, ("same", "ok")))
    assert verify.verify(["echo"], full=False) == 1
    assert "1 of the runs above went wrong" in capsys.readouterr().out


def test_all_alike_is_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a command that fails whatever it finds."""
    monkeypatch.setattr(verify, "outcome_of", lambda app, case: ("same", "ok"))
    assert verify.verify(["echo"], full=False) == 0
