"""What is published, and how it is measured again: read from the TOML files in `studies/papers`.

A file is a publication. It has figures (or tables), each of which is measured by a study; and each
figure has claims, in one form for applications and messages. docs/studies.md has the keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from miniapps.communication.settings import Span
from miniapps.parameters import require
from miniapps.workbench.run.shapes import (
    COUNT,
    LINE,
    NUMBER,
    POSITIVE,
    Kind,
    misfit,
    shape_in,
    unknown,
)
from miniapps.workbench.study.comm.claims import span_of
from miniapps.workbench.study.options import PAPERS, SHIPPED, published_values, table_of

RATIO, DIFFERENCE, GROWTH, EFFICIENCY = "ratio", "difference", "growth", "efficiency"
RATIOS = "ratios"  # in place of published numbers: all ratios of the published values of two lines
TAKES: Mapping[str, str] = {
    "value": "the value",
    DIFFERENCE: "the value less that of the line it is compared with",
    RATIO: "the value over that of the line it is compared with",
    GROWTH: "the time on the most PEs over that on the fewest",
    EFFICIENCY: "the share of the ideal speed-up from the fewest to the most PEs",
}
EFFECT, SAME, ABOVE = "effect", "same", "above"
RULES = (EFFECT, SAME, ABOVE)


def _is_published(value: Any) -> bool:
    """Whether a value is a number, a range, or a text that leads to one."""
    return _is_range(value) if isinstance(value, list) else NUMBER.fits(value) or LINE.fits(value)


def _is_range(value: Any) -> bool:
    """Whether a value is two numbers in ascending order."""
    two = isinstance(value, list) and len(value) == 2 and all(map(NUMBER.fits, value))
    return two and bool(value[0] <= value[1])


PUBLISHED = Kind("a number, two in ascending order, or a text", _is_published)
SHAPE: Mapping[str, Any] = shape_in(Path(__file__).with_name("paper.json"), published=PUBLISHED)


@dataclass(frozen=True)
class Claim:
    """One claim as a predicate: what is compared, with which published value, by which rule.

    ``of``, ``to``: lines of the study; ``take``: a key of `TAKES`; ``at``: bytes or PEs; ``each``:
    whether it must hold at each of them, rather than for their mean; ``published``: numbers, a
    text, or None; ``rule``: of `RULES`; ``needs_pes``: with fewer it is undecided; ``reason``:
    why it is undecided even if something is measured, or None; ``both``: whether
    it is also told of the models.
    """

    what: str
    part: str | None = None
    of: str | None = None
    to: str | None = None
    take: str = "value"
    at: Span | None = None
    each: bool = False
    published: Any = None
    rule: str = EFFECT
    tolerance: float = 0.0
    needs_pes: int = 0
    reason: str | None = None
    both: bool = False


@dataclass(frozen=True)
class Figure:
    """A figure or table of a publication, and the study that measures it again.

    ``parts``: the claims of a study of messages that belong to it; ``lines``: published values by
    the name of a line and the number of PEs; ``models``: wrong programs to run beside the right
    one, with what they need otherwise; ``peers``: programs of `peers.PEERS`; ``short``: what
    replaces values of the study's table ``quick``, and ``quick``: what does if it is to be quick;
    ``minutes``: on two cores, quick and usual.
    """

    name: str
    source: str
    shows: str
    title: str
    study: str
    parts: tuple[str, ...]
    models: Mapping[str, Mapping[str, Any]]
    peers: tuple[str, ...]
    gpus: int
    short: Mapping[str, Any]
    quick: Mapping[str, Any]
    minutes: tuple[float, float]
    lines: Mapping[str, Mapping[int, float]]
    claims: tuple[Claim, ...]

    @property
    def study_path(self) -> Path:
        """The TOML file of the study."""
        return SHIPPED / f"{self.study}.toml"


def figures(folder: Path = PAPERS) -> list[Figure]:
    """All figures of all publications, in the order of the files. Raises InputError."""
    found = [figure for path in sorted(folder.glob("*.toml")) for figure in read(path)]
    names = [figure.name for figure in found]
    require(len({*names}) == len(names), "papers", folder, "must name each figure once")
    return found


def read(path: Path) -> Iterator[Figure]:
    """The figures of a publication. Raises InputError."""
    table = table_of(path)
    words = misfit(table, SHAPE, "it") or unknown(table, SHAPE, "it")
    require(words is None, "papers", path, str(words))
    for one in table["figures"]:
        data = _published(path, one)
        lines = {name: _by_pes(data, key) for name, key in one.get("lines", {}).items()}
        require(len(one["minutes"]) == 2, "minutes", one["name"], "must be two: quick and usual")
        yield Figure(
            name=one["name"],
            source=table["source"],
            shows=one["shows"],
            title=one["title"],
            study=one["study"],
            parts=tuple(one.get("parts", ())),
            models=one.get("models", {}),
            peers=tuple(one.get("peers", ())),
            gpus=one.get("needs", {}).get("gpus", 0),
            short=one.get("short", {}),
            quick=one.get("quick", {}),
            minutes=tuple(one["minutes"]),
            lines=lines,
            claims=tuple(_claim(claim, data) for claim in one.get("claims", ())),
        )


def _published(path: Path, figure: Mapping[str, Any]) -> dict[str, Any]:
    """The published file of a figure; empty if it has none."""
    if "published" not in figure:
        return {}
    return published_values(path.parents[1] / figure["published"])


def _by_pes(data: Mapping[str, Any], key: Any) -> dict[int, float]:
    """Published ms by PEs: the list under a key, beside the list ``PEs``, or where a table says.

    The table's ``PEs`` and ``ms`` are values, or keys that lead to them. An interval counts as its
    middle. Raises InputError.
    """
    table = key if isinstance(key, dict) else {"PEs": data.get("PEs"), "ms": data.get(str(key))}
    pes, values = (as_list(_found(table.get(name), data)) for name in ("PEs", "ms"))
    middle = [sum(one) / len(one) if _is_range(one) else one for one in values]
    fit = all(map(COUNT.fits, pes)) and all(map(POSITIVE.fits, middle))
    allowed = "must be a list in the published file, as long as its PEs"
    require(fit and len(pes) == len(middle) > 0, "lines", key, allowed)
    return dict(zip(pes, middle, strict=True))


def as_list(value: Any) -> list[Any]:
    """A list as it is, and of any other value one with it."""
    return value if isinstance(value, list) else [value]


def _claim(table: Mapping[str, Any], data: Mapping[str, Any]) -> Claim:
    """A claim of a figure. Raises InputError."""
    given = {key.replace("-", "_"): value for key, value in table.items()}
    read = {"at": span_of(table, "at"), "published": _found(table.get("published"), data)}
    claim = Claim(**given | read)
    require(claim.take in TAKES, "take", claim.take, f"one of {', '.join(TAKES)}")
    require(claim.rule in RULES, "rule", claim.rule, f"one of {', '.join(RULES)}")
    told = "of" in table or "reason" in table
    require(told, "claims", claim.what, "must name of, or the reason why it is undecided")
    alone = claim.take in (RATIO, DIFFERENCE) and "of" in table and "to" not in table
    require(not alone, "claims", claim.what, "must name to, with which it compares")
    tolerant = "tolerance" in table
    require((claim.rule == SAME) == tolerant, "tolerance", claim.what, "belongs to rule same")
    return claim


def _found(published: Any, data: Mapping[str, Any]) -> Any:
    """A published value: as it is, or what the keys of a text lead to. Raises InputError."""
    if not isinstance(published, str) or published == RATIOS:
        return published
    found: Any = data
    for key in published.split("."):
        entries = dict(enumerate(found)) if isinstance(found, list) else found
        place = int(key) if isinstance(found, list) and key.isdigit() else key
        inside = isinstance(entries, dict) and place in entries
        require(inside, "published", published, "is not in the published file")
        found = entries[place]
    return found
