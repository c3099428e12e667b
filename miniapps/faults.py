"""Faults: deliberate mistakes that are made in the running program, to show that checks see them.

`miniapps selftest` applies the faults in a module named ``faults`` in an app's package, or beside a
driver's file, one at a time. Nothing else imports these modules.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

SPOILT_AT = 3  # the step of `spoiling`


@dataclass(frozen=True, eq=False)
class Fault:
    """One mistake: ``wrong`` takes what is right at each of the ``targets``, and returns the wrong.

    A target is ``module:name`` or ``module:Class.name``, in which ``{app}`` stands for the name of
    the app. ``given``: fields of the problem without which the fault changes nothing. ``needs``: a
    capability of the driver, a field of `drivers.descriptor.Driver`. ``migrating``: whether it acts
    only where blocks migrate. ``conditional``: whether it says itself, by `Acted.now`, that it has
    changed something; of other faults it is known as soon as what is wrong is called.
    """

    name: str
    summary: str
    targets: tuple[str, ...]
    wrong: Callable[[Any], Any] = field(repr=False)
    given: Mapping[str, Any] = field(default_factory=dict)
    needs: str = ""
    migrating: bool = False
    conditional: bool = False

    @contextmanager
    def applied(self, app: str) -> Iterator[None]:
        """Make the mistake inside this context."""

        def change(right: Any) -> Any:
            wrong = self.wrong(right)
            return wrong if self.conditional else reporting(wrong)

        with ExitStack() as stack:
            for target in self.targets:
                place = target.format(app=app)
                stack.enter_context(replaced(place, change))
            yield


class Acted:
    """Reports that the fault of this process has changed something."""

    def __init__(self) -> None:
        self.tell: Callable[[], None] | None = None

    def now(self) -> None:
        """Report it, once."""
        tell, self.tell = self.tell, None
        if tell is not None:
            tell()


ACTED = Acted()


def rounded(message: np.ndarray) -> np.ndarray:
    """A message as float32 would carry it; reports where that changes it."""
    if message.dtype.kind != "f":
        return message
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        single = message.astype(np.float32).astype(message.dtype)
    if single.tobytes() != message.tobytes():
        ACTED.now()
    return single


def off_in_its_last_bit(right: Any) -> Any:
    """A block's `state`, in the first block with the middle value of a piece off in one bit."""

    def state(self: Any) -> Any:
        piece, *others = right(self)
        if any(self.index):
            return [piece, *others]
        values = piece.values.copy()
        middle = tuple(n // 2 for n in values.shape)
        values[middle] = np.nextafter(values[middle], np.inf)
        return [piece._replace(values=values), *others]

    return state


def skipping(
    right: Any, skips: Callable[[int], bool], count_it: Callable[[Any, int], None] | None = None
) -> Any:
    """A block's ``step`` that makes some steps only in name, by their number, from 1 on.

    ``count_it``: what the block does in their place, to say that it has made so many.
    """

    def step(self: Any, count: int) -> Generator[Any, Any, bool]:
        self.made = vars(self).get("made", 0) + count
        if not skips(self.made):
            return bool((yield from right(self, count)))
        if count_it is not None:
            count_it(self, count)
        return False

    return step


def spoiling(right: Any, spoil: Callable[[Any], None]) -> Any:
    """A block's ``step``, after which the first block is spoilt, when step `SPOILT_AT` is made."""

    def step(self: Any, count: int) -> Generator[Any, Any, bool]:
        finished = yield from right(self, count)
        self.made = vars(self).get("made", 0) + count
        if self.made - count < SPOILT_AT <= self.made and not any(self.index):
            spoil(self)
        return bool(finished)

    return step


def reporting(wrong: Any) -> Any:
    """A function that reports that it is called; anything else is returned as it is."""
    if not isinstance(wrong, FunctionType):
        return wrong

    def reported(*arguments: Any, **options: Any) -> Any:
        ACTED.now()
        return wrong(*arguments, **options)

    return reported


@contextmanager
def replaced(target: str, change: Callable[[Any], Any]) -> Iterator[None]:
    """Replace what is at a target, ``module:name`` or ``module:Class.name``, by its change."""
    module, _, path = target.partition(":")
    *owners, name = path.split(".")
    owner: Any = importlib.import_module(module)
    for part in owners:
        owner = getattr(owner, part)
    inherited = name not in vars(owner)
    right = getattr(owner, name)
    setattr(owner, name, change(right))
    try:
        yield
    finally:
        if inherited:
            delattr(owner, name)
        else:
            setattr(owner, name, right)


def fault(*targets: str, **options: Any) -> Callable[[Callable[[Any], Any]], Fault]:
    """Make a `Fault` of a function from right to wrong; its docstring is the summary."""

    def declare(wrong: Callable[[Any], Any]) -> Fault:
        name = wrong.__name__.replace("_", " ")
        return Fault(name, str(wrong.__doc__).splitlines()[0], targets, wrong, **options)

    return declare


def in_place_of(*targets: str, **options: Any) -> Callable[[Callable[..., Any]], Fault]:
    """Make a `Fault` of a function that is called in place of the right one, its first argument."""

    def declare(wrong: Callable[..., Any]) -> Fault:
        @functools.wraps(wrong)
        def change(right: Any) -> Any:
            return lambda *given, **named: wrong(right, *given, **named)

        return fault(*targets, **options)(change)

    return declare


def catalogue(module: ModuleType) -> tuple[Fault, ...]:
    """The faults of the modules in a module's ``OTHERS``, and those that it declares or imports.

    Raises ValueError if there are none.
    """
    found = [fault for other in getattr(module, "OTHERS", ()) for fault in catalogue(other)]
    found += [value for value in vars(module).values() if isinstance(value, Fault)]
    if not found:
        raise ValueError(f"{module.__name__} has no faults")
    return tuple(found)
