"""The launches of a campaign of communication benchmarks, and what cannot be launched here.

A *line* of a claim is one of its variants. A launch measures all sizes of a line; lines of several
claims share it if they ask for the same. A launch of the anatomy measures several lines at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from miniapps import communication, drivers
from miniapps.communication.catalogue import ANATOMY
from miniapps.parameters import InputError
from miniapps.workbench import environment
from miniapps.workbench.comm.spec import CommSpec
from miniapps.workbench.comm.variants import DRIVER, LIBRARY, Variant, combined
from miniapps.workbench.plural import counted
from miniapps.workbench.study.comm.claims import Claim, Wanted
from miniapps.workbench.study.comm.libraries import Library, library
from miniapps.workbench.study.options import COMM

# Keys of a record that name what is measured.
POINT = ("buffer", "pickle", "touch", "window", "thread_level", "method")


@dataclass(frozen=True)
class Launch:
    """A launch of one trial: a benchmark with an MPI library."""

    spec: CommSpec
    library: Library

    def point(self) -> dict[str, Any]:
        """As the campaign file stores it."""
        recorded = self.spec.recorded()
        return {
            "benchmark": self.spec.benchmark.name,
            "driver": self.spec.driver,
            "pes": self.spec.pes,
            "library": self.library.name,
            **{name: recorded[name] for name in POINT},
            "sizes": self.spec.settings.sizes(self.spec.benchmark),
            "arguments": self.spec.arguments(),
        }


@dataclass
class Plan:
    """The launches of a trial, the claims with their lines, and what is left out.

    ``left_out``: claim, variants and reason of what cannot be made here.
    """

    wanted: Wanted
    launches: list[Launch] = field(default_factory=list)
    claims: list[dict[str, Any]] = field(default_factory=list)
    left_out: list[dict[str, str]] = field(default_factory=list)

    @classmethod
    def of(cls, wanted: Wanted, folders: Mapping[str, Path]) -> Plan:
        """Plan all claims. ``folders``: of MPI libraries, by name. Raises InputError."""
        plan = cls(wanted)
        for claim in wanted.claims:
            lines = list(plan._lines(claim, folders))
            plan.claims.append(
                {
                    "name": claim.name,
                    "title": claim.title,
                    "says": claim.says,
                    "benchmark": claim.benchmark.name,
                    "ranks": claim.ranks,
                    "lines": lines,
                    "published": claim.published,
                    "series": {
                        name: {str(size): us for size, us in values.items()}
                        for name, values in claim.series.items()
                    },
                }
            )
        return plan

    def head(self) -> dict[str, Any]:
        """The study as the campaign file stores it."""
        return {
            "kind": COMM,
            "source": self.wanted.source,
            "shuffle_seed": self.wanted.seed,
            "claims": self.claims,
        }

    def _lines(self, claim: Claim, folders: Mapping[str, Path]) -> Iterator[dict[str, Any]]:
        """The lines of a claim that can be measured here; the others are left out."""
        cores = environment.cores()
        if claim.ranks > cores and not claim.oversubscribe:
            reason = f"{claim.ranks} ranks are more than the {counted(cores, 'core')} here"
            self._leave_out(claim, "all", reason)
            return
        for loaded in self._libraries(claim, folders):
            for variant in self._variants(claim):
                number = self._number(Launch(variant.spec, loaded))
                values = {**dict(variant.values), LIBRARY: loaded.name}
                for call in claim.calls or ("",):
                    shown = claim.line_name(values, call)
                    yield {"name": shown, "point": number, "call": call or None}

    def _libraries(self, claim: Claim, folders: Mapping[str, Path]) -> Iterator[Library]:
        """The MPI libraries of a claim that are found."""
        if LIBRARY not in claim.choices:
            yield Library()
        for name in claim.choices.get(LIBRARY, ()):
            try:
                yield library(name, folders)
            except InputError as error:
                self._leave_out(claim, name, str(error))

    def _variants(self, claim: Claim) -> Iterator[Variant]:
        """The variants of a claim that can be made, but for the MPI libraries."""
        choices = {name: values for name, values in claim.choices.items() if name != LIBRARY}
        able = [name for name in choices[DRIVER] if name in communication.runtimes()]
        for name in choices[DRIVER]:
            if name not in able:
                self._leave_out(claim, name, f"{name} has no communication benchmarks yet")
        if not able:
            return
        own = drivers.get(able[0]).options()
        spec = CommSpec(claim.benchmark, able[0], claim.ranks, claim.settings, own)
        made, left_out = combined(spec, choices | {DRIVER: tuple(able)})
        for reason, labels in left_out.items():
            self._leave_out(claim, ", ".join(labels), reason)
        for variant in made:
            missing = drivers.get(variant.spec.driver).unavailable()
            if missing is not None:
                self._leave_out(claim, variant.name, missing)
                continue
            yield variant

    def _number(self, wanted: Launch) -> int:
        """The number of a launch, which is new unless another line asks for the same."""
        if wanted not in self.launches:
            self.launches.append(wanted)
        return self.launches.index(wanted)

    def _leave_out(self, claim: Claim, variants: str, reason: str) -> None:
        entry = {"claim": claim.name, "variants": variants, "reason": reason}
        if entry not in self.left_out:
            self.left_out.append(entry)


def label(head: Mapping[str, Any], number: int) -> str:
    """A launch in a few words: the benchmark and what is not as by default."""
    point = head["points"][number]
    words = [point["benchmark"], point["driver"], point["buffer"]]
    if point["pickle"]:
        words.append(f"pickle {point['pickle']}")
    if point["touch"] != "none":
        words.append(f"touch {point['touch']}")
    words += [word for word in (point["thread_level"], point["method"], point["library"]) if word]
    if point["benchmark"] == ANATOMY.name:
        words.remove(point["buffer"])
    return f"{' '.join(words)}, {counted(point['pes'], 'rank')}"


def left_out_line(entry: Mapping[str, str]) -> str:
    """What is left out, and why."""
    return f"left out: {entry['claim']}: {entry['variants']}: {entry['reason']}"
