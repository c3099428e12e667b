"""What the models of wrong programs share: checks of the right app must fail."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from miniapps.contract import Check

MUST_FAIL = "fails as it must: "
Validate = Callable[..., list[Check]]


def demanding(right: Validate, must: Sequence[str], may: Sequence[str]) -> Validate:
    """A model's `validate`, by that of the right app: see `as_it_must_fail`."""
    return lambda *run: as_it_must_fail(right(*run), must, may)


def as_it_must_fail(
    checks: Sequence[Check], must: Sequence[str], may: Sequence[str]
) -> list[Check]:
    """The checks of the right app, of which some must fail and others may.

    ``must``, ``may``: how their names begin. One that must fail becomes a check that is passed if
    the right one has failed, and whose name says by how much; so does one that may fail and has.
    Raises ValueError if no check has such a name.
    """
    missing = [name for name in must if not any(check.name.startswith(name) for check in checks)]
    if missing:
        raise ValueError(f"no check is called {', '.join(missing)}")
    return [
        _inverted(check)
        if check.name.startswith(tuple(must))
        or (check.name.startswith(tuple(may)) and not check.ok)
        else check
        for check in checks
    ]


def _inverted(check: Check) -> Check:
    said = f"{MUST_FAIL}{check.name} is {check.value:.3g}, the limit is {check.limit:.3g}"
    return Check(said, float(check.ok), 0)
