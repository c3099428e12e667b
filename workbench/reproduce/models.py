"""Models of public programs that are wrong, run beside the right ones.

A model is an app in the folder `as_published`, where only these functions look. It has the problem
of the right app and a block with the public program's mistake. Its own `validate` calls that of the
right app and demands that this fails (`as_it_must_fail`), so that a model that has become right is
no valid run. What a campaign stores of its runs says ``valid: false``, and ``as_published`` what
is wrong: no other command counts such a run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from miniapps import apps
from miniapps.workbench.environment import variables_kept
from miniapps.workbench.reproduce.wrong import MUST_FAIL
from miniapps.workbench.study.campaign import Campaign
from miniapps.workbench.study.revalidation import dropped, objection_to
from miniapps.workbench.study.runner import RunsOfAnApp

FOLDER = Path(__file__).with_name("as_published")
VALID, MARK = "valid", "as_published"
Record = dict[str, Any]


@contextmanager
def known() -> Iterator[None]:
    """A context in which this process, and those that it starts, find the models as apps."""
    usual = os.environ.get(apps.APP_PATH)
    try:
        with variables_kept():
            os.environ[apps.APP_PATH] = os.pathsep.join(filter(None, [str(FOLDER), usual]))
            apps.read_path()
            yield
    finally:
        apps.read_path()


def summary(model: str) -> str:
    """What is wrong in a model: the first line of its docstring."""
    with known():
        return str(apps.load(model).__doc__).partition("\n")[0]


def marked(record: Record, model: str) -> Record:
    """The record of a model's run as it is stored: not valid, as published, with the reason."""
    checks = [check | {"ok": not _must_fail(check)} for check in record["checks"]]
    failed = [check["name"].removeprefix(MUST_FAIL) for check in checks if not check["ok"]]
    said = f"valid: false, as published: {summary(model)} {'; '.join(failed)}"
    return record | {VALID: False, MARK: said, "checks": checks}


def unmarked(record: Record) -> Record:
    """A stored record as the run has made it, to be validated like any other."""
    checks = [check | {"ok": check["ok"] or _must_fail(check)} for check in record["checks"]]
    return record | {VALID: True, "checks": checks}


def _must_fail(check: Mapping[str, Any]) -> bool:
    return str(check["name"]).startswith(MUST_FAIL)


class ModelCampaign(Campaign):
    """A campaign of a model; as wrong programs have no right state, none is asked for."""

    @staticmethod
    def revalidated(head: Record, events: Sequence[Record]) -> list[Record]:
        """The events, in which each run that is no run of a model, or not whole, is dropped."""
        kept = []
        for event in events:
            if event["event"] == "run":
                event, reason = _validated(head, event)
                event = dropped(event, reason) if reason else event
            kept.append(event)
        return kept


def _validated(head: Record, event: Record) -> tuple[Record, str | None]:
    """A run of a model with its record as it was made, and why it does not count."""
    record = event["record"]
    if not isinstance(record, dict) or record.get(VALID) is not False or MARK not in record:
        return event, "is of no model: it is not marked as published"
    try:
        event = event | {"record": unmarked(record)}
    except (KeyError, TypeError, AttributeError):
        return event, "is no whole record: its checks are none"
    return event, objection_to(head, event["point"], event["record"])


@dataclass(frozen=True)
class RunsOfAModel(RunsOfAnApp):
    """A study of a model."""

    reader = ModelCampaign

    def stored(self, record: Record) -> Record:
        """The record, which says that it is not valid."""
        return marked(record, self.study.app)

    def rejection(self, campaign: Campaign, point: int, record: Record) -> str | None:
        """Why a run does not count; its final state may depend on the decomposition."""
        return objection_to(campaign.head, point, record)
