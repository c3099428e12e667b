"""The catalogue: faults of results and messages, which all apps have, of apps, and of drivers."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from functools import cache
from types import ModuleType
from typing import Any

from miniapps import apps
from miniapps.faults import Fault, catalogue

MESSAGES, RESULTS = (
    f"miniapps.workbench.selftest.{name}_faults" for name in ("messages", "results")
)
OF_THE_PACKAGE = "{package}.faults"  # of an app or a driver
OF_GPUS = "miniapps.gpu_faults"  # whatever the app; those of an app are in its package


@cache
def of(app: str, runs: str, device: str = "cpu") -> Mapping[str, Fault]:
    """The faults that concern an app under a driver, by key: where they are listed, and name.

    ``runs``: the module that runs the driver's jobs; the faults of the driver are beside it. Those
    of a GPU are the same under all drivers.
    """
    others = MESSAGES, RESULTS, OF_THE_PACKAGE.format(package=runs.rpartition(".")[0])
    modules = (module_of(app, device), *((OF_GPUS,) if device == "gpu" else others))
    found = [fault for module in modules for fault in listed(module)]
    return {key(fault): fault for fault in found}


def module_of(app: str, device: str = "cpu") -> str:
    """The name of the module that lists an app's faults, if it has one."""
    package = apps.load(app).__name__
    return f"{package}.gpu_faults" if device == "gpu" else OF_THE_PACKAGE.format(package=package)


def listed(module: str) -> tuple[Fault, ...]:
    """The faults of a module; none if there is no such module."""
    found = _module(module)
    return catalogue(found) if found else ()


def of_transport(app: str, runs: str) -> tuple[Fault, ...]:
    """The faults of a driver, whose jobs the module ``runs`` runs; in one app also of messages."""
    own = listed(OF_THE_PACKAGE.format(package=runs.rpartition(".")[0]))
    return own + (listed(MESSAGES) if app == apps.names()[0] else ())


def of_plain(app: str) -> tuple[Fault, ...]:
    """The faults that do not depend on the kinds of blocks: an app's own, and those of results."""
    return listed(module_of(app)) + listed(RESULTS)


def declared(app: str, name: str, device: str = "cpu") -> Mapping[str, Any]:
    """A table that the faults of an app come with; empty if there is none.

    ``HARMLESS``: the faults, by key, that do not change this app's result, each with the reason;
    ``UNSEEN``: those that only the reference sees, so only in small problems; and why;
    ``PROBLEMS``: by preset, the fields, steps and warm-up in which trials differ from it;
    ``TILES``: constants of GPU kernels that are smaller in trials, by `Fault` target.
    """
    found = _module(module_of(app, device))
    table: Mapping[str, Any] = getattr(found, name, {}) if found else {}
    return table


def _module(name: str) -> ModuleType | None:
    """A module; None if there is no such one."""
    return importlib.import_module(name) if importlib.util.find_spec(name) else None


def key(fault: Fault) -> str:
    """A fault's name with where it is declared: "messages: lost", "gpu: ..."."""
    words = fault.wrong.__module__.replace("_faults", "").removesuffix(".faults").split(".")
    return f"{words[-1].split('_')[-1]}: {fault.name}"
