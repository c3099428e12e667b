"""PIC with one of the mistakes of tests/wrong_pic.py, for launched runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import wrong_pic

from miniapps.parameters import parameter
from miniapps.pic import Audit, reference, validate
from miniapps.pic.block import PicBlock
from miniapps.pic.problem import PicProblem

__all__ = ["Audit", "Block", "Problem", "reference", "validate"]


@dataclass(frozen=True)
class Problem(PicProblem):
    """Parameters of PIC, and the mistake."""

    app: ClassVar[str] = "pic"  # whose kernels it uses
    mistake: str = parameter("--mistake", "", str, "name of a function in wrong_pic")


def Block(problem: Problem, *arguments: Any) -> Any:  # noqa: N802 - a class elsewhere
    """A block with the problem's mistake."""
    make = getattr(wrong_pic, problem.mistake)(PicBlock) if problem.mistake else PicBlock
    return make(problem, *arguments)
