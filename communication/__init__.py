"""Communication benchmarks: what is moved, checked and timed, whichever runtime moves it.

A runtime is a package in this one, named as its driver; nothing is registered. It exports a
`Runtime` as ``RUNTIME``. The module that ``RUNTIME.file`` names defines ``run(settings, own,
session)``, which calls ``session(world)`` on every rank where the runtime's calls may block, and
returns its status, where ``own`` are the driver's own options; and ``fail(status)``, which ends all
ranks. `session.World` is what a runtime offers to the shared code: a barrier, a gather, and the
actions of each benchmark. Only that module imports the runtime's library.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from types import ModuleType

from miniapps.communication.catalogue import CATALOGUE
from miniapps.parameters import require


@dataclass(frozen=True)
class Runtime:
    """A runtime that makes the benchmarks, all but those that it ``lacks``, each with the reason.

    ``title``: its name in headings; ``pickles``: the benchmarks that it also makes with pickled
    objects, ``out_of_band``: those of them whose data may stay outside the pickle; ``buffers``: the
    kinds of buffers that it takes, ``buffers_why``: why no others; ``thread_levels``: those that it
    can be started with; ``methods``: its ways to move data, by name, each with the benchmarks that
    can be made with it, the usual way first. ``anatomy``: the calls that ``miniapps comm anatomy``
    takes apart, with their names for readers, the library alone first; ``own_calls``: those of
    nothing, which a rank makes to itself; ``sides``: what only one rank does for a message. With
    them its `session.World` has the method ``anatomy``. ``options``: the driver's own options that
    the benchmarks take, by the names of their fields.
    """

    driver: str
    title: str
    file: str
    buffers: tuple[str, ...]
    buffers_why: str = ""
    lacks: Mapping[str, str] = field(default_factory=dict)
    pickles: frozenset[str] = frozenset()
    out_of_band: frozenset[str] = frozenset()
    thread_levels: tuple[str, ...] = ()
    methods: Mapping[str, frozenset[str]] = field(default_factory=dict)
    anatomy: Mapping[str, str] = field(default_factory=dict)
    own_calls: Mapping[str, str] = field(default_factory=dict)
    sides: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()

    @property
    def library_alone(self) -> str | None:
        """The call of the anatomy that is the library alone."""
        return next(iter(self.anatomy), None)

    def makes(self, name: str) -> bool:
        """Whether it makes a benchmark."""
        return name in CATALOGUE and name not in self.lacks

    def method_of(self, name: str, asked: str | None) -> str | None:
        """The way in which a benchmark is made: the asked one, or the usual one if it has any."""
        usual = (method for method, names in self.methods.items() if name in names)
        return asked or next(usual, None)


USUAL = "mpi"  # the driver, if none is asked for


@cache
def runtimes() -> Mapping[str, Runtime]:
    """All runtimes, by the name of their driver, the usual one first."""
    names = [module.name for module in pkgutil.iter_modules(__path__) if module.ispkg]
    found = [importlib.import_module(f"{__name__}.{name}") for name in names]
    made = [module.RUNTIME for module in found if hasattr(module, "RUNTIME")]
    made.sort(key=lambda runtime: runtime.driver != USUAL)
    return {runtime.driver: runtime for runtime in made}


def get(driver: str) -> Runtime:
    """The runtime of a driver. Raises InputError if it has no communication benchmarks."""
    require(driver in runtimes(), "--driver", driver, f"one of {', '.join(runtimes())}")
    return runtimes()[driver]


def load(driver: str) -> ModuleType:
    """The module that runs a runtime's benchmarks."""
    return importlib.import_module(get(driver).file)
