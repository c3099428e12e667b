"""What the datasets of a run's file contain, so that readers need no documentation.

Every dataset has the attributes ``description`` and ``units``, and a label of each axis (HDF5's own
``DIMENSION_LABELS``). A table, compound or with an axis ``column``, also has ``columns``, the names
of its columns; its ``units`` are then a list with an entry per column. Units are symbols with
exponents, such as ``sigma tau-1``, the form of UDUNITS and H5MD; ``1`` has no unit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from miniapps.contract import Piece

AXES = ("x", "y", "z")
UNKNOWN = "unknown"


class Quantity(NamedTuple):
    """What a part of the state is; `BaseProblem.quantities` has one for each name of a `Piece`.

    A field has ``units``, particle data have ``columns``: the units of each, by name.
    """

    description: str
    units: str = "1"
    columns: Mapping[str, str] | None = None


class Overlay(NamedTuple):
    """Where a finer field lies over the one that thumbnails show, in the cells of that.

    ``first``: the cell of its first point along each axis; ``spacing``: of its points.
    """

    first: tuple[int, ...]
    spacing: float


def describe(
    data: Any,
    description: str,
    axes: Sequence[str] = (),
    units: str = "1",
    columns: Mapping[str, str] | None = None,
) -> None:
    """Give an HDF5 dataset its attributes; ``columns``: the unit of each column, by name.

    Raises ValueError if there are not as many ``axes`` as the dataset has.
    """
    data.attrs["description"] = description
    data.attrs["units"] = units if columns is None else list(columns.values())
    if columns is not None:
        data.attrs["columns"] = list(columns)
    for axis, label in zip(data.dims, axes, strict=True):
        axis.label = label


def describe_state(state: Any, piece: Piece, quantity: Quantity | None) -> None:
    """Describe the datasets of a piece in an HDF5 group; of ``None``, only names are known."""
    data, columns = state[piece.name], None if quantity is None else quantity.columns
    quantity = quantity or Quantity(f"{piece.name}, which the app does not describe", UNKNOWN)
    if piece.origin is not None:
        axes = [*AXES, *(f"axis {n}" for n in range(len(AXES), data.ndim))][: data.ndim]
        describe(data, quantity.description, axes, quantity.units)
        return
    if columns is None and data.ndim == 2:
        columns = {f"column {n}": UNKNOWN for n in range(data.shape[1])}
    axes = ["row", "column", *(f"axis {n}" for n in range(2, data.ndim))][: data.ndim]
    describe(data, quantity.description, axes, quantity.units, columns)
    describe(state[f"{piece.name}.id"], f"id of each row of state/{piece.name}", ["row"])
