"""Communication benchmarks: what is moved, checked and timed, whichever runtime moves it.

A runtime is a package in this one, named as its driver; nothing is registered. It exports a
`Runtime` as ``RUNTIME``. The module that ``RUNTIME.file`` names defines ``run(settings, session)``,
which calls ``session(world)`` on every rank where the runtime's calls may block, and returns its
status; and ``fail(status)``, which ends all ranks. `session.World` is what a runtime offers to the
shared code: a barrier, a gather, and the actions of each benchmark. Only that module imports the
runtime's library.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType, ModuleType

from communication.catalogue import CATALOGUE
from miniapps.parameters import require


@dataclass(frozen=True)
class Runtime:
    """A runtime that makes the benchmarks, all but those that it ``lacks``, each with the reason.

    ``title``: its name in headings; ``pickles``: the benchmarks that it also makes with pickled
    objects, ``out_of_band``: those of them whose data may stay outside the pickle; ``buffers``: the
    kinds of buffers that it takes; ``thread_levels``: those that it can be started with;
    ``anatomy``: whether its `session.World` has the method ``anatomy``.
    """

    driver: str
    title: str
    file: str
    buffers: tuple[str, ...]
    lacks: Mapping[str, str] = field(default_factory=dict)
    pickles: frozenset[str] = frozenset()
    out_of_band: frozenset[str] = frozenset()
    thread_levels: tuple[str, ...] = ()
    anatomy: bool = False

    def makes(self, name: str) -> bool:
        """Whether it makes a benchmark."""
        return name in CATALOGUE and name not in self.lacks


@cache
def runtimes() -> Mapping[str, Runtime]:
    """All runtimes, by the name of their driver."""
    names = [module.name for module in pkgutil.iter_modules(__path__) if module.ispkg]
    found = [importlib.import_module(f"{__name__}.{name}") for name in names]
    made = [module.RUNTIME for module in found if hasattr(module, "RUNTIME")]
    return MappingProxyType({runtime.driver: runtime for runtime in made})


def get(driver: str) -> Runtime:
    """The runtime of a driver. Raises InputError if it has no communication benchmarks."""
    require(driver in runtimes(), "--driver", driver, f"one of {', '.join(runtimes())}")
    return runtimes()[driver]


def load(driver: str) -> ModuleType:
    """The module that runs a runtime's benchmarks."""
    return importlib.import_module(get(driver).file)
