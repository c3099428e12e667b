"""What ``--model`` draws over the figures of a study, and the table of its errors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from miniapps.workbench.model import campaigns
from miniapps.workbench.model.errors import errors_table
from miniapps.workbench.model.fitting import leave_one_out, misfit_of
from miniapps.workbench.model.machine import LEVEL_WIDTH, Machine
from miniapps.workbench.model.measure import machine_named
from miniapps.workbench.study.campaign import Campaign
from miniapps.workbench.study.overlay import Overlay
from miniapps.workbench.study.statistics import Interval


def predictor(name: str | None) -> Callable[[Campaign], Overlay]:
    """What predicts the points of a campaign by a machine's costs; None: this machine.

    Raises InputError for a machine that cannot be read.
    """
    return partial(overlay, machine_named(name))


def overlay(machine: Machine, campaign: Campaign) -> Overlay:
    """Each point predicted from the others; intervals are the spread of all their errors.

    Raises InputError if the model does not know the app, or the machine a cost.
    """
    found = leave_one_out(machine, campaigns.cells(machine, campaign))
    wide = float(np.exp(LEVEL_WIDTH / 2 * misfit_of(found)))
    predicted = {
        one.cell.result.number: Interval(
            one.predicted_s, one.predicted_s / wide, one.predicted_s * wide
        )
        for one in found
    }
    return Overlay(predicted, errors_table("The model", found))
