"""What every figure states about itself: the app, its problem, and the machine."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

from miniapps import apps, drivers
from miniapps.parameters import words
from miniapps.workbench.plural import counted
from miniapps.workbench.quoting import figure

GLUE = "\N{NO-BREAK SPACE}"
Problem = Mapping[str, Any]  # parameters of a problem, as in a record


def problem_text(app: str, problems: Iterable[Problem]) -> str:
    """What one problem, or several of one study, have that the default problem has not; the size.

    A parameter that differs between problems has its first and its last value.
    """
    problems = list(problems)
    parts = []
    for name in dict.fromkeys(name for problem in problems for name in _stated(app, problem)):
        values = [text for problem in problems if (text := value_text(problem.get(name)))]
        more = f" to {values[-1]}" if values[-1] != values[0] else ""
        parts.append(f"{name.replace('_', ' ')} {values[0]}{more}")
    return ", ".join(parts)


def _stated(app: str, problem: Problem) -> list[str]:
    """The parameters to state: the size, or what replaces it, and those that are no default."""
    kind = apps.load(app).Problem
    usual = kind().parameters()
    variants = {variant.field for variant in kind.variants}
    fixed = {name: value_text(value) for name, value in problem.items() if name not in variants}
    size = next(iter(fixed), "")
    if any(fixed.get(name) for name in kind.instead_of_size):
        fixed.pop(size)
    return [
        name
        for name, text in fixed.items()
        if text and (name == size or text != value_text(usual.get(name)))
    ]


def _is_extent(value: Any) -> bool:
    """Whether a parameter is a number of cells along several axes."""
    return isinstance(value, list | tuple) and bool(value) and isinstance(value[0], int)


def value_text(value: Any) -> str:
    """A parameter of a problem in a few characters; empty if it is not set."""
    if isinstance(value, list | tuple):
        return ("x" if _is_extent(value) else " ").join(map(str, value))
    if value is None or isinstance(value, bool):
        return {None: "", True: "yes", False: "no"}[value]
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def machine_text(hosts: Iterable[Mapping[str, Any]]) -> str:
    """The distinct machines of records, such as "AMD EPYC, 2 cores"."""
    named = [f"{host['processor']}, {counted(host['cores'], 'core')}" for host in hosts]
    return "; ".join(dict.fromkeys(named))


def command_text(record: Mapping[str, Any]) -> str:
    """The command line of a run without the options of its problem."""
    given = {
        "--driver": record["driver"],
        "-n": None if drivers.of_record(record["driver"]).one_pe else record["pes"],
        "--odf": record["odf"] if record["odf"] > 1 else None,
        "--balancer": record["balancer"],
        "--lb-period": record["lb_period"] or None,
        "--lb-first": record.get("lb_first"),
        "--steps": record["steps"],
        "--warmup": record["warmup"] or None,
    }
    line = [record["app"], *(word for pair in given.items() for word in words(*pair))]
    return " ".join(line) + ("" if record["valid"] else " (NOT VALID)")


def run_title(record: Mapping[str, Any], width: int) -> str:
    """The title of a figure of one run: its command line, problem and machine."""
    about = [problem_text(record["app"], [record["problem"]]), machine_text([record["host"]])]
    return figure(f"{wrapped(command_text(record), width)}\n{fitted(about, width)}")


def wrapped(text: str, width: int, line_break: str = "\n") -> str:
    """Text in lines of at most ``width`` characters, which begin after commas or with options.

    If a part is too long for a line, they begin with any word; a longer word is broken.
    """
    glued = re.sub(r"(?<![,;]) (?!--)", GLUE, text)
    text = glued if all(len(part) <= width for part in glued.split(" ")) else text
    lines = textwrap.wrap(text, width, break_on_hyphens=False)
    return line_break.join(lines).replace(GLUE, " ")


def fitted(parts: Iterable[str], width: int, line_break: str = "\n") -> str:
    """Parts of a title in one line if it fits; otherwise each begins a line, and is `wrapped`."""
    parts = list(parts)
    line = "; ".join(parts)
    if len(line) <= width:
        return line
    return line_break.join(wrapped(part, width, line_break) for part in parts)
