"""The loads of Stencil3D, with the synthetic imbalance."""

from __future__ import annotations

import dataclasses

import numpy as np

from miniapps import grid_loads
from miniapps.decomposition import Layout
from miniapps.loads import Loads
from miniapps.stencil3d.problem import StencilProblem, load_factor


def loads(problem: StencilProblem, layout: Layout, step: int = 0) -> Loads:
    """What blocks compute and send in a step. The extra load is alpha times a block's own sweep."""
    plain = grid_loads.loads(problem, layout, step)
    parts = [load_factor(problem, part, layout.pes, step) for part in range(layout.pes)]
    extra = np.reshape(parts, layout.pe_grid)
    for axis, blocks in enumerate(layout.sub_grid):
        extra = extra.repeat(blocks, axis)
    units = {**plain.units, "cells": plain.units["cells"] * (1 + extra)}
    return dataclasses.replace(plain, units=units)
