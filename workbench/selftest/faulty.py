"""Runs with a fault: a spec whose job makes the mistake in every process that takes part in it.

The PEs of a launch are the program as it is: they unpickle the specs of their runs. A `FaultySpec`
applies its fault when it is asked for its job, just before the run; under some drivers only one PE
does that. So the job applies it too, when it opens the process's device, which is what every driver
does first on every PE. Both take the fault of the run before away.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import KW_ONLY, dataclass, fields
from pathlib import Path
from typing import Any, Self

from miniapps.devices.backend import Backend
from miniapps.drivers.job import Job, Store
from miniapps.faults import ACTED
from miniapps.workbench.run.spec import RunSpec
from miniapps.workbench.selftest import faults


class Applied:
    """The fault that is applied in this process."""

    def __init__(self) -> None:
        self.stack = ExitStack()
        self.fault: str | None = None
        self.mark: Path | None = None

    def change(self, job: FaultyJob) -> None:
        """Take the fault of another job away, and apply that of this one."""
        if (job.fault, job.mark) == (self.fault, self.mark):
            return
        self.clear()
        self.fault, self.mark = job.fault, job.mark
        if job.fault is not None and job.mark is not None:
            ACTED.tell = job.mark.touch
            fault = faults.of(job.app, job.runs, job.device)[job.fault]
            self.stack.enter_context(fault.applied(job.app))

    def clear(self) -> None:
        """Take the fault away."""
        self.stack.close()
        self.fault = self.mark = ACTED.tell = None


APPLIED = Applied()


@dataclass(frozen=True)
class FaultyJob(Job[Any]):
    """A job with a fault; ``fault`` is its key in `faults.of`, None for the right program."""

    _: KW_ONLY
    fault: str | None = None
    runs: str = ""  # the module that runs the driver's jobs
    mark: Path | None = None  # the file that the fault makes when it has changed something

    def take_device(self, local_rank: int, one_queue: bool = False) -> Backend:
        """Apply the fault in this process, then do what every job does."""
        APPLIED.change(self)
        return super().take_device(local_rank, one_queue)


@dataclass(frozen=True)
class FaultySpec(RunSpec):
    """The specification of a run with a fault."""

    fault: str | None = None
    mark: Path | None = None

    @classmethod
    def around(cls, spec: RunSpec, fault: str | None, mark: Path | None) -> Self:
        """A spec with a fault."""
        given = {field.name: getattr(spec, field.name) for field in fields(RunSpec) if field.init}
        return cls(**given, fault=fault, mark=mark)

    def job(self, store: Store | None = None) -> Job[Any]:
        """The job; applies the fault in this process."""
        job = super().job(store)
        given = {field.name: getattr(job, field.name) for field in fields(Job)}
        faulty = FaultyJob(**given, fault=self.fault, runs=self.can.file, mark=self.mark)
        APPLIED.change(faulty)
        return faulty
