"""Where results of a campaign come from: machine, noise, commands, dropped runs, final states."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from miniapps import drivers
from miniapps.workbench.plural import counted
from miniapps.workbench.run.record import DISTURBED, disturbed, fixed_parameters
from miniapps.workbench.study import analysis
from miniapps.workbench.study.campaign import Campaign
from miniapps.workbench.study.cells import columns_of, distinct
from miniapps.workbench.study.noise import NOISY, Noise
from miniapps.workbench.study.plan import steps_of
from miniapps.workbench.study.validation import answer_key, in_words, label
from miniapps.workbench.table import NONE, Table

Named = Callable[[dict[str, Any], int], str]  # a point of a head in a few words
Item = tuple[str, list[str]]  # with its distinct values


def noise_line(campaign: Campaign) -> str:
    """The noise of the machine while the study ran."""
    seconds = [entry["seconds"] for entry in campaign.of("noise")]
    return str(Noise.of(seconds)) if seconds else "machine noise: not measured"


def disturbed_lines(campaign: Campaign) -> list[str]:
    """What makes the times of a study doubtful: disturbed runs, and a noisy machine."""
    shares = [disturbed(run["record"]) for run in campaign.of("run")]
    count = sum(share > DISTURBED for share in shares)
    repeat = f"repeat the study with --max-noise {DISTURBED:.0%}, or on a quiet machine"
    lines = []
    if count:
        runs = counted(len(shares), "run")
        lines.append(
            f"DISTURBED: in {count} of {runs} other programs took up to {max(shares):.0%} of a "
            f"PE's time; {repeat}"
        )
    samples = [entry["seconds"] for entry in campaign.of("noise")]
    if not count and samples and Noise.of(samples).spread > NOISY:
        lines.append(f"NOISY: the same work took very different times; {repeat}")
    return lines


def timed_steps(head: dict[str, Any]) -> str:
    """The number of timed steps; of a study of granularity the fewest and the most."""
    found = {steps_of(head, point) for point in head["points"]}
    return " to ".join(map(str, dict.fromkeys((min(found), max(found)))))


def hashes(campaign: Campaign) -> dict[str, dict[str, int]]:
    """For each problem and number of steps, the final state hashes and the runs that had each."""
    found: dict[str, dict[str, int]] = {}
    for run in campaign.of("run"):
        record = run["record"]
        _, steps, _ = answer_key(record)
        mine = found.setdefault(f"{_problem(record)}; {steps} steps", {})
        mine[record["state_hash"]] = mine.get(record["state_hash"], 0) + 1
    return found


def _problem(record: dict[str, Any]) -> str:
    """The problem of a record as text, without parameters that cannot change the final state."""
    given = {name: value for name, value in fixed_parameters(record).items() if value is not None}
    return ", ".join(in_words(name, value) for name, value in given.items())


def hashes_table(campaign: Campaign) -> Table:
    """The final state of each problem: one hash over all bits, the same for every configuration."""
    rows = []
    for problem, states in hashes(campaign).items():
        text = "one state" if len(states) == 1 else f"WRONG: {len(states)} states"
        rows += [(problem, str(runs), state, text) for state, runs in states.items()]
    columns = columns_of("problem", "#runs", "$state hash", "result")
    return Table("Final states", columns, tuple(rows))


def environment_table(campaign: Campaign, settings: Iterable[Item]) -> Table:
    """Settings of the runs, machine, clock, noise and versions."""
    items = (*settings, *_machine(campaign))
    rows = tuple((name, "; ".join(values) or NONE) for name, values in items)
    return Table("Machine and versions", columns_of("item", "value"), rows)


def settings(campaign: Campaign) -> Iterator[Item]:
    """The settings of a study of an app."""
    study = campaign.head["study"]
    yield "steps", [f"{timed_steps(campaign.head)} timed, after {study['warmup']} of warm-up"]
    if "lb_first" in study:
        yield "first load-balancing step", [f"before step {study['lb_first']}"]
    if "hosts" in study:
        yield "hosts, and the PEs that each may have", [study["hosts"]]
    yield "trials", _trials(campaign)
    yield "shuffle seed", [str(study["shuffle_seed"])]
    yield "device", [study["device"]]


def _machine(campaign: Campaign) -> Iterator[Item]:
    """Where and with what the runs were made."""
    starts = list(campaign.of("start"))
    records = [run["record"] for run in campaign.of("run")]
    pinned = {
        True: "each PE pinned to a core, if there are enough; see the commands",
        False: "PEs not pinned",
    }
    yield "pinning", distinct(pinned[start["pinned"]] for start in starts)
    ticks = [start["clock_tick_s"] for start in starts]
    yield "clock", [f"ticks {max(ticks) * 1e9:.3g} ns at worst"] if ticks else []
    yield "noise", [noise_line(campaign)]
    hosts = [source["host"] for source in (*starts, *records)]
    yield "processor", distinct(host["processor"] for host in hosts)
    yield "cores", distinct(host["cores"] for host in hosts)
    yield "memory", distinct(f"{host['memory_bytes'] / 2**30:.1f} GiB" for host in hosts)
    yield "system", distinct(host["system"] for host in hosts)
    versions = [source["versions"] for source in (*starts, *records)]
    titles = {driver.name: driver.runtime for driver in drivers.found().values() if driver.runtime}
    for name in dict.fromkeys(name for found in versions for name in found):
        values = distinct(found[name] for found in versions if name in found)
        yield titles.get(name, name), values


def _trials(campaign: Campaign) -> list[str]:
    counts = [len(result.records) for result in analysis.results(campaign)]
    if not counts:
        return ["none"]
    span = f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
    return [f"{span} of each point that has any, {sum(counts)} in all"]


def commands_table(campaign: Campaign, named: Named = label) -> Table:
    """The commands of each point: as typed, and as launched."""
    launched: dict[int, str] = {}
    for entry in (*campaign.of("run"), *campaign.of("dropped")):
        launched.setdefault(entry["point"], entry["command"])
    rows = []
    for number, point in enumerate(campaign.head["points"]):
        typed = shlex.join(["miniapps", *point["arguments"]])
        rows.append((named(campaign.head, number), typed, launched.get(number, NONE)))
    return Table("Commands", columns_of("point", "$command", "$as launched"), tuple(rows))


def failures_table(campaign: Campaign, named: Named = label) -> Table:
    """Dropped runs without a later run that counts."""
    rows = []
    for entry in campaign.failures:
        name = named(campaign.head, entry["point"])
        rows.append((str(entry["trial"] + 1), name, entry["reason"], entry["command"]))
    return Table("Dropped runs", columns_of("#trial", "point", "reason", "$command"), tuple(rows))
