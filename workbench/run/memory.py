"""Whether there is enough memory for a run, and for the files that its processes share."""

from __future__ import annotations

from miniapps import drivers
from miniapps.devices.cpu import host_memory
from miniapps.drivers.descriptor import Options
from miniapps.parameters import require
from miniapps.workbench.run.launched import Launched


def require_memory(option: str, value: object, needed: float, hint: str = "") -> None:
    """Raise InputError if a run needs more bytes of memory than this machine has."""
    there = host_memory.memory_bytes()
    allowed = (
        f"needs {needed / 1e9:.1f} GB of memory at least, this machine has {there / 1e9:.1f} GB"
    )
    require(needed <= there, option, value, allowed + hint)


def require_shared_of(option: str, *specs: Launched) -> None:
    """Raise InputError if there is less of it than the PEs of a launch need to start."""
    for spec in specs:
        driver = drivers.get(spec.driver)
        require_shared(option, spec.app, driver.shared_bytes * spec.pes, spec.own)


def require_shared(option: str, value: object, needed: int, own: Options) -> None:
    """Raise InputError if there is less memory than that for files that processes share.

    ``own``: the driver's options, which say where these files are.
    """
    folder, more = own.shared_files()
    allowed = (
        f"needs {needed / 1e6:.3g} MB of shared memory: {host_memory.shared_words(folder)}; {more}"
    )
    require(needed <= host_memory.shared_bytes_free(folder), option, value, allowed)
