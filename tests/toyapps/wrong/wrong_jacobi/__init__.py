"""Jacobi2D with one of the mistakes of tests/wrong_programs.py, for launched runs."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import wrong_programs

from miniapps.contract import checked_messages
from miniapps.jacobi2d import Audit, reference, validate
from miniapps.jacobi2d.block import JacobiBlock
from miniapps.jacobi2d.problem import JacobiProblem
from miniapps.parameters import parameter

__all__ = ["Audit", "Block", "Problem", "reference", "validate"]

ROUNDED = "rounded_messages"  # by the driver, after the block has posted them


@dataclass(frozen=True)
class Problem(JacobiProblem):
    """Parameters of Jacobi2D, and the mistake."""

    app: ClassVar[str] = "jacobi2d"  # whose kernels it uses
    mistake: str = parameter("--mistake", "", str, "name of a function in wrong_programs")


def Block(problem: Problem, *arguments: Any) -> Any:  # noqa: N802 - a class elsewhere
    """A block with the problem's mistake."""
    set_rounding(problem.mistake == ROUNDED)
    right = problem.mistake in ("", ROUNDED)
    make = JacobiBlock if right else getattr(wrong_programs, problem.mistake)(JacobiBlock)
    return make(problem, *arguments)


def rounded(array: np.ndarray) -> np.ndarray:
    """The array as float32 would carry it."""
    return array.astype(np.float32).astype(array.dtype)


def set_rounding(on: bool) -> None:
    """Make the driver of this process round the messages that it sends, or send them unchanged."""
    mail, links = (sys.modules.get(f"drivers.{name}") for name in ("charm.mail", "mpi.links"))
    if mail is not None:
        mail.checked_messages = checked_and_rounded if on else checked_messages
    if links is not None:
        right = getattr(links.Link.send, "__wrapped__", links.Link.send)
        links.Link.send = sends_rounded(right) if on else right


def checked_and_rounded(request: Any) -> Mapping[Any, np.ndarray]:
    """The messages of a Post, rounded."""
    return {edge: rounded(message) for edge, message in checked_messages(request).items()}


def sends_rounded(send: Callable[..., None]) -> Callable[..., None]:
    """The method of a link that sends a message, rounded."""

    @functools.wraps(send)
    def rounding(self: Any, step: int, code: int, array: np.ndarray) -> None:
        send(self, step, code, rounded(array))

    return rounding
