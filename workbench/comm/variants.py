"""The variants of a communication benchmark that ``--compare`` makes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from miniapps import communication, drivers
from miniapps.communication.actions import NONE, TOUCHES
from miniapps.communication.buffers import KINDS
from miniapps.communication.settings import IN_BAND, LEVELS, METHODS, OUT_OF_BAND
from miniapps.parameters import InputError, require
from miniapps.workbench.comm.spec import CommSpec

USUAL = "driver,buffer,pickle"
VALUES: Mapping[str, tuple[Any, ...]] = {
    "buffer": KINDS,
    "pickle": (None, IN_BAND, OUT_OF_BAND),
    "touch": TOUCHES,
    "thread-level": LEVELS,
    "method": (None, *METHODS),
}
DRIVER, LIBRARY = "driver", "library"


@dataclass(frozen=True)
class Variant:
    """One of the compared benchmarks, with its values; ``name``: all of them in words."""

    spec: CommSpec
    values: tuple[tuple[str, Any], ...]

    @property
    def name(self) -> str:
        """All values in words."""
        return " ".join(filter(None, (in_words(*pair) for pair in self.values)))


def dimensions(text: str) -> tuple[str, ...]:
    """Read ``"buffer,touch"``. Raises ValueError with what is allowed."""
    names, known = tuple(text.split(",")), (DRIVER, *VALUES)
    if not set(names) <= set(known):
        raise ValueError(f"{', '.join(known)}, with commas between")
    return tuple(dict.fromkeys(names))


def variants(spec: CommSpec, names: Sequence[str]) -> tuple[list[Variant], list[str]]:
    """All variants of a benchmark, and a line for each reason why others cannot be made.

    Raises InputError if fewer than two can be.
    """
    choices = {name: _values(spec, name) for name in names}
    made, left_out = combined(spec, choices, _fits if "method" in names else _always)
    lines = [f"{reason} ({', '.join(labels)})" for reason, labels in left_out.items()]
    few = "fewer than two variants can be made"
    require(len(made) > 1, "--compare", ",".join(names), "; ".join([few, *lines]))
    return made, lines


def _always(spec: CommSpec) -> bool:
    return True


def _fits(spec: CommSpec) -> bool:
    """Whether the driver has the method; one without methods, whether none is chosen."""
    known = communication.get(spec.driver).methods
    able: list[str | None] = [name for name, made in known.items() if spec.benchmark.name in made]
    return spec.settings.method in (able or [None])


def combined(
    spec: CommSpec,
    choices: Mapping[str, Sequence[Any]],
    wanted: Callable[[CommSpec], bool] = _always,
) -> tuple[list[Variant], dict[str, list[str]]]:
    """Every combination of values that can be made, and the names of the others by their reason.

    Of combinations that are not ``wanted``, nothing is said.
    """
    pairs = [[(name, value) for value in values] for name, values in choices.items()]
    made: list[Variant] = []
    left_out: dict[str, list[str]] = {}
    for chosen in itertools.product(*pairs):
        variant = Variant(_changed(spec, dict(chosen)), chosen)
        if not wanted(variant.spec):
            continue
        try:
            variant.spec.check()
            drivers.get(variant.spec.driver).require_modules()
        except InputError as error:
            left_out.setdefault(str(error), []).append(variant.name)
        else:
            made.append(variant)
    return made, left_out


def _values(spec: CommSpec, name: str) -> Sequence[Any]:
    """The values of a dimension, the asked one first: the others are compared with it."""
    if name == DRIVER:
        mine, known = spec.driver, tuple(communication.runtimes())
    else:
        mine, known = getattr(spec.settings, name.replace("-", "_")), VALUES[name]
    return [mine, *(value for value in known if value != mine)] if mine in known else known


def in_words(name: str, value: Any) -> str:
    """A value of a dimension in a word or two."""
    if value is None:
        return "no pickle" if name == "pickle" else ""
    return str(value) if name in (DRIVER, "buffer", LIBRARY) else f"{name} {value}"


def _changed(spec: CommSpec, chosen: dict[str, Any]) -> CommSpec:
    """The specification with other values."""
    driver = chosen.pop(DRIVER, spec.driver)
    own = spec.own if driver == spec.driver else drivers.get(driver).options()
    values = {name.replace("-", "_"): value for name, value in chosen.items()}
    if "touch" in values:  # unchanged buffers are another variant
        values["touch_only"] = values["touch"] != NONE
    return replace(spec, driver=driver, settings=replace(spec.settings, **values), own=own)
