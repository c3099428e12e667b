"""The record of a run: one JSON object whose keys and units docs/records.md lists."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from miniapps import apps, audit
from miniapps.contract import Check
from miniapps.devices import system, variables
from miniapps.devices.cpu import host_memory
from miniapps.drivers.agreements import Wish
from miniapps.drivers.descriptor import Balancing
from miniapps.drivers.lives import exists
from miniapps.drivers.outcome import Outcome
from miniapps.drivers.timing import imbalance
from miniapps.kernels.state_hash import digest
from miniapps.parameters import require
from miniapps.workbench import environment
from miniapps.workbench.exit_status import STOPPED, VALID, WRONG
from miniapps.workbench.plural import counted
from miniapps.workbench.run import clocks
from miniapps.workbench.run.revalidation import MEASURED, RECORD, UNTIMED, untimed
from miniapps.workbench.run.schema import SCHEMA
from miniapps.workbench.run.shapes import in_lines, misfit, unprintable
from miniapps.workbench.run.spec import RunSpec
from miniapps.workbench.run.versions import versions
from miniapps.workbench.table import fitted, width

DISTURBED = 0.02  # share of the timed steps; more is said wherever the times are shown
MANY = 100_000  # PEs x rounds; if there are more, their compute times are in the HDF5 file only
STOPPED_BY = {Wish.TIME_LIMIT: "--time-limit", Wish.SIGNAL: "signal"}
FEW_ROUNDS = 500  # the most entries for rounds of a record in a campaign file


def build(spec: RunSpec, outcome: Outcome, import_s: float | None) -> dict[str, Any]:
    """The record of a finished run, as plain data. Raises InputError if it has no such shape."""
    state_hash = digest(outcome.words)
    problem = spec.prepared
    checks = [
        *spec.module.validate(problem, outcome.steps_done, outcome.measures, state_hash),
        *_whole(spec, outcome),
        Check("steps missing", float(_steps_missing(spec, outcome)), 0),
        *_balanced(spec, outcome),
        *_audited(spec, outcome, state_hash),
        *clocks.checks(outcome),
    ]
    valid = all(check.ok for check in checks)
    timed = valid and not _untimed(outcome)
    record = {
        "schema": SCHEMA,
        "app": spec.app,
        **spec.recorded(),
        "audit_seed": None if outcome.audit is None else outcome.audit.seed,
        "pes": outcome.pes,
        "blocks": list(spec.layout.grid),
        "pe_grid": list(spec.layout.pe_grid),
        "steps": max(0, outcome.steps_done - max(spec.warmup, spec.start)),
        "warmup": spec.warmup,
        "resumed": [] if spec.resumed is None else spec.resumed.past(),
        **_unusual(problem, outcome),
        "problem": problem.parameters(),
        "extent": list(problem.extent),
        "valid": valid,
        "checks": [_plain_check(check) for check in checks],
        "state_hash": state_hash,
        **problem.results(outcome.measures),
        **(_timing(spec, outcome) if timed else {}),
        "lb": outcome.balancing,
        "jit_s": outcome.jit_s,
        **({} if import_s is None else {"import_s": import_s}),
        "first_step_at": outcome.first_step_at,
        "snapshots_s": outcome.snapshots_s,
        "checkpoints_s": outcome.checkpoints_s,
        "checkpoints_written_s": outcome.checkpoints_written_s,
        "checkpoints_waited_s": outcome.checkpoints_waited_s,
        "agreements_s": outcome.agreements_s,
        "audits_s": outcome.audits_s,
        "clocks": clocks.recorded(outcome),
        "disturbance": {"load_average": os.getloadavg()[0], **outcome.disturbance._asdict()},
        "peak_rss_bytes": outcome.peak_rss_bytes,
        "versions": versions() | outcome.versions,
        "environment": environment.set_variables(),
        "host": host(),
        **({"hosts": environment.hosts()} if environment.hosts() else {}),
        "gpu": outcome.gpu,
        "transport": outcome.transport,
        "oversubscribed": environment.oversubscribed(outcome.pes),
    }
    record = in_lines(record)
    shape = {**RECORD, **(dict(MEASURED) if timed else {})}
    shape.pop("rounds", None)  # there may be a million numbers, which `_timing` has computed
    wrong = misfit(record, shape, "record") or unprintable(record, "record")
    require(wrong is None, "app", spec.app, str(wrong))
    return record


def status_of(record: dict[str, Any]) -> int:
    """The exit status of a run with this record."""
    if not record["valid"]:
        return WRONG
    return STOPPED if "stopped" in record else VALID


def _balanced(spec: RunSpec, outcome: Outcome) -> list[Check]:
    """The check that the load was balanced when it was due, if it was to be balanced."""
    if not isinstance(spec.own, Balancing) or not spec.own.lb_period:
        return []
    due, made = spec.own.steps_due(outcome.rounds), (entry["step"] for entry in outcome.balancing)
    return [Check("balancing steps missing", float(len(set(due).symmetric_difference(made))), 0)]


def _audited(spec: RunSpec, outcome: Outcome, state_hash: str) -> list[Check]:
    """The checks of the audit, if there was one."""
    if outcome.audit is None:
        return []
    run = spec.module, spec.prepared, spec.layout, outcome.audit, outcome.audits
    steps = spec.warmup + spec.steps, outcome.steps_done
    return audit.checks_of(*run, *steps, outcome.measures, state_hash)


def _steps_missing(spec: RunSpec, outcome: Outcome) -> int:
    """The number of steps that were asked for and not made, or made and not asked for."""
    missing = spec.warmup + spec.steps - outcome.steps_done
    early = outcome.stopped or spec.prepared.may_finish(outcome.steps_done)
    return 0 if missing > 0 and early else abs(missing)


def _unusual(problem: Any, outcome: Outcome) -> dict[str, Any]:
    """The entries of a run that has stopped early, and of one whose blocks exist for a time."""
    found: dict[str, Any] = {}
    if outcome.stopped:
        found["stopped"] = {"step": outcome.steps_done, "by": STOPPED_BY[outcome.stopped]}
    if problem.kinds_at(0) is not None:
        found["for_a_time"] = True
    return found


def _untimed(outcome: Outcome) -> bool:
    """Whether a run was stopped in its warm-up, so that there is nothing of which to give times."""
    return bool(outcome.stopped) and not outcome.rounds


def _whole(spec: RunSpec, outcome: Outcome) -> list[Check]:
    """The check that all blocks made all timed rounds, if there was one."""
    if _untimed(outcome):
        return []
    missing = float(len(spec.layout.numbers) - _blocks_seen(spec, outcome))
    return [Check("blocks missing", missing, 0)]


def _blocks_seen(spec: RunSpec, outcome: Outcome) -> int:
    """The number of blocks that finished every round in which they exist, and no other."""
    counts = np.bincount(outcome.blocks["block"], minlength=len(spec.layout.numbers))
    due = {
        kind: sum(exists(spec.problem, kind, step) for step, _ in outcome.rounds)
        for kind in spec.layout.counts()
    }
    kinds = (kind for kind, _ in spec.layout.numbers)
    return sum(count == due[kind] for count, kind in zip(counts.tolist(), kinds, strict=False))


def _plain_check(check: Check) -> dict[str, Any]:
    """A check as plain data; a value that is not finite becomes None, as JSON has no NaN."""
    value = float(check.value)
    return {
        "name": check.name,
        "value": value if math.isfinite(value) else None,
        "limit": float(check.limit),
        "ok": check.ok,
    }


@dataclass(frozen=True)
class Times:
    """What the times of a record follow from: those of a run, or of all parts of one.

    ``rounds`` (rounds, 2): first step and number of steps; ``wall_s`` (rounds,); ``loads`` (PEs,
    rounds): compute times, s; None if they are not known; ``compute_s``: their sum; ``imbalance``:
    theirs; ``work``: of all timed steps, in ``unit``.
    """

    rounds: np.ndarray
    wall_s: np.ndarray
    loads: np.ndarray | None
    compute_s: float
    imbalance: float
    work: float
    unit: str


def _timing(spec: RunSpec, outcome: Outcome) -> dict[str, Any]:
    """The measured times; only valid runs have them."""
    compute, problem = outcome.compute_s, spec.prepared
    done = problem.work_done(outcome.rounds[0][0], outcome.steps_done, outcome.measures)
    times = Times(
        rounds=np.array(outcome.rounds),
        wall_s=outcome.wall_s,
        loads=compute,
        compute_s=float(compute.sum()),
        imbalance=imbalance(compute),
        work=done,
        unit=f"{problem.unit}/s",
    )
    return timing(times, outcome.pes, outcome.balancing)


def timing(times: Times, pes: int, balancing: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The keys of a record that say what was measured; ``balancing``: its ``lb``."""
    first, counts = times.rounds.T
    per_step = times.wall_s / counts
    wall = float(times.wall_s.sum())
    loads = times.loads if times.loads is not None and times.loads.size <= MANY else None
    return {
        "step_time_s": {
            "median": float(np.median(per_step)),
            "min": float(per_step.min()),
            "max": float(per_step.max()),
        },
        "wall_s": wall,
        "rate": {"value": times.work / wall, "unit": times.unit},
        "compute_s": times.compute_s,
        "utilisation": times.compute_s / (pes * wall),
        "imbalance": times.imbalance,
        "migrations": sum(entry["moved"] for entry in balancing),
        "rounds": {
            "first": first.tolist(),
            "count": counts.tolist(),
            "wall_s": _short(times.wall_s),
            **({} if loads is None else {"compute_s": [_short(pe) for pe in loads]}),
        },
    }


def with_few_rounds(record: dict[str, Any], most: int = FEW_ROUNDS) -> dict[str, Any]:
    """A record whose ``rounds`` have at most ``most`` entries; unchanged if it has no more.

    Otherwise each entry is the sum over ``rounds.merged`` consecutive rounds, the last one over
    those that are left.
    """
    rounds = record.get("rounds", {"first": []})
    if len(rounds["first"]) <= most:
        return record
    merged = -(-len(rounds["first"]) // most)
    starts = np.arange(0, len(rounds["first"]), merged)
    few = {
        "merged": merged,
        "first": rounds["first"][::merged],
        "count": np.add.reduceat(rounds["count"], starts).tolist(),
        "wall_s": _short(np.add.reduceat(rounds["wall_s"], starts)),
    }
    if "compute_s" in rounds:
        few["compute_s"] = [_short(np.add.reduceat(pe, starts)) for pe in rounds["compute_s"]]
    return record | {"rounds": few}


def _short(seconds: np.ndarray) -> list[float]:
    """Times rounded to six digits: more would be noise."""
    return [float(f"{value:.6g}") for value in seconds]


def fixed_parameters(record: dict[str, Any]) -> dict[str, Any]:
    """The parameters of a record's problem that affect the result."""
    fixed: dict[str, Any] = apps.load(record["app"]).Problem.fixing(record["problem"])
    return fixed


def host() -> dict[str, Any]:
    """A description of the machine, without its name."""
    told = system.text("/proc/cpuinfo").splitlines()
    lines = [line for line in told if line.startswith("model name")]
    if lines:
        processor = lines[0].partition(":")[2].strip()
    else:  # asked only here, as it starts a process
        processor = platform.processor() or platform.machine()
        processor += "" if told else " (no /proc/cpuinfo)"
    return {
        "system": f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}",
        "processor": processor,
        "cores": environment.cores_of_run(),
        "memory_bytes": host_memory.memory_bytes(),
    }


def disturbed(record: dict[str, Any]) -> float:
    """The share of the timed steps that other programs or the host took from a PE.

    It is 0 for oversubscribed runs, whose PEs wait for each other, and for records without it.
    """
    found = record.get("disturbance")
    if found is None or record["oversubscribed"]:
        return 0.0
    return float(max(found["waited"], found["steal"]))


def disturber(record: dict[str, Any]) -> str:
    """What took the time that `disturbed` says."""
    share, found = f"{disturbed(record):.0%}", record["disturbance"]
    if found["steal"] > found["waited"]:
        return f"the host of this virtual machine took {share} of the time from its cores"
    return f"a PE waited {share} of the time for a core that other programs used"


def summary(record: dict[str, Any]) -> str:
    """A readable summary of a finished run in a few lines, with units."""
    lines = [
        f"{record['app']} under {record['driver']} on {counted(record['pes'], 'PE')}"
        f"{_placed(record)}, "
        f"{record['gpu'] or record['device']}, "
        f"blocks {'x'.join(map(str, record['blocks']))} (ODF {record['odf']})",
        f"  {counted(record['steps'], 'step')} {_begun(record)}",
    ]
    for check in record["checks"]:
        sign = "ok   " if check["ok"] else "WRONG"
        value = "not a number" if check["value"] is None else f"{check['value']:.3g}"
        lines.append(f"  {sign} {check['name']}: {value} (limit {check['limit']:.3g})")
    lines += [f"  {line}" for line in apps.load(record["app"]).Problem.lines(record)]
    lines.append(f"  state {record['state_hash']}")
    if record["valid"] and untimed(record):
        lines.append(f"  {UNTIMED}")
    elif record["valid"]:
        lines += _timing_lines(record)
    else:
        lines.append("  NOT VALID: no timing is given")
    if record["valid"] and disturbed(record) > DISTURBED:
        lines.append(f"  DISTURBED: {disturber(record)}; times are too long")
    if variables.kernels_are_python(record.get("environment", {})):
        lines.append(f"  {variables.DISABLE_JIT}: kernels ran as plain Python; no speed to quote")
    if record["oversubscribed"]:
        lines.append(f"  oversubscribed: {crowded(record, 'PE')}; no speed to quote")
    return "\n".join(part for line in lines for part in fitted(line, width()))


def crowded(record: dict[str, Any], what: str) -> str:
    """How many PEs, or ``what`` they are called, share how few cores."""
    for host in record.get("hosts", []):
        if host["pes"] > host["cores"]:
            cores = counted(host["cores"], "core")
            return f"{counted(host['pes'], what)} on {cores} of host {host['name']}"
    cores = record["host"]["cores"]
    given = counted(cores, "core") if cores else "less than one core"
    return f"{counted(record['pes'], what)} on {given}"


def _placed(record: dict[str, Any]) -> str:
    """Where the PEs were, if on named hosts."""
    hosts = ", ".join(f"{one['pes']} on {one['name']}" for one in record.get("hosts", []))
    return f" ({hosts})" if hosts else ""


def _begun(record: dict[str, Any]) -> str:
    """What came before the timed steps."""
    steps = record["warmup"]
    if record.get("resumed"):
        return f"from the checkpoint of step {record['resumed'][-1]['step']} on"
    return f"after {steps} of warm-up" if steps else "without warm-up"


def _timing_lines(record: dict[str, Any]) -> list[str]:
    step, rate = record["step_time_s"], record["rate"]
    shown = {name: f"{seconds * 1e3:.4g}" for name, seconds in step.items()}
    spread = f"median ({shown['min']} to {shown['max']})"
    if len(record["rounds"]["first"]) == 1:
        spread = "mean (all steps in one round)"
    lines = [
        f"  step {shown['median']} ms {spread}, {rate['value']:.4g} {rate['unit']}",
        f"  utilisation {record['utilisation']:.1%}, imbalance {record['imbalance']:.3f}, "
        f"compiling {record['jit_s']:.2f} s, imports {_imports(record)}",
    ]
    stood = {what: record.get(f"{what}_s") for what in ("snapshots", "checkpoints")}
    lines += [f"  {what} {seconds:.3g} s, not timed" for what, seconds in stood.items() if seconds]
    if record["transport"]:
        sent = record["transport"]
        staged = f"; {sent['staged_bytes'] / 1e6:.4g} MB through hosts" if record["gpu"] else ""
        lines.append(f"  messages {sent['path']}: {sent['reason']}{staged}")
    return lines + [_balancing_line(entry) for entry in record["lb"]]


def _imports(record: dict[str, Any]) -> str:
    return f"{record['import_s']:.2f} s" if "import_s" in record else "unknown"


def _balancing_line(entry: dict[str, Any]) -> str:
    moved = counted(entry["moved"], "block") if entry["moved"] else "no block"
    saved = "less than that"
    if entry["paid_after"]:
        saved = f"more than that within {counted(entry['paid_after'], 'step')}"
    before, after = (f"{entry[f'imbalance_{when}']:.3f}" for when in ("before", "after"))
    return (
        f"  balanced before step {entry['step']}: moved {moved} in "
        f"{entry['seconds'] * 1e3:.3g} ms, imbalance {before} -> {after}"
        f"{f'; saved {saved}' if entry['moved'] else ''}"
    )
