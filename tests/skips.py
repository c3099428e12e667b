"""Which tests may be skipped: those for which a browser, a GPU or a GPU's tools are missing.

Kernels for a GPU are checked in four ways, called layers.

``gpu``: on a GPU. ``sim``: in numba's simulator, in a process of its own. ``compile``: to machine
code, which needs no GPU. ``stub``: by runs over a driver without a GPU, made of C. Where
something is missing a test is skipped, and says so in words that the test run counts by layer at
its end.
"""

from __future__ import annotations

import importlib.metadata
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, NamedTuple

import pytest

from miniapps import drivers

# How tests fail where there is no wheel of Charm4Py for this Python; or else they name charm.
NO_CHARM = r"charm4py is not installed \(no wheel|No module named '(charm4py|charmrun)'"
NAMES_CHARM = r"\[.*\bcharm\b.*\]|charmrun"
NO_ISOLATION = "the kernel does not let this user isolate programs"
NO_HOSTS = "there are no virtual hosts"
NO_BROWSER = "there is no chromium to open the page in"


class Layer(NamedTuple):
    """A layer: its name, what it does, and what happens instead where it is skipped."""

    name: str
    does: str
    instead: str


LAYERS = (
    Layer(
        "gpu",
        "on a GPU",
        "The same files run in numba's simulator: see tests/test_gpu_layers.py. "
        "What a simulator cannot show (races, speed) stays unchecked.",
    ),
    Layer("sim", "in numba's simulator", "pip install -e '.[gpu-check]' brings it."),
    Layer("compile", "by NVIDIA's compiler", "pip install -e '.[gpu-check]' brings it."),
    Layer("stub", "on a stub driver", "It needs a C compiler and the extra gpu-check."),
)
COMPILER = ("cuda-core", "nvidia-nvvm", "nvidia-nvjitlink")  # wheels


def missing(layer: str) -> str | None:
    """Why a layer cannot run in this process; None where it can."""
    needed = ("numba-cuda", *(COMPILER if layer in ("compile", "stub") else ()))
    absent = [wheel for wheel in needed if not installed(wheel)]
    if absent:
        return f"{', '.join(absent)} not installed"
    if layer == "stub":
        return None if shutil.which("cc") else "no C compiler, cc, was found"
    return None if layer != "gpu" or has_gpu() else "there is no NVIDIA GPU with a working driver"


@cache
def has_gpu() -> bool:
    """Whether this process can use a GPU; to ask takes another process."""
    from miniapps.devices.cuda.toolkit import chosen

    return chosen().missing() is None


def installed(wheel: str) -> bool:
    """Whether a package is there."""
    try:
        return bool(importlib.metadata.version(wheel))
    except importlib.metadata.PackageNotFoundError:
        return False


def without(layer: str) -> None:
    """Skip the test that calls, or the module that is collected, where a layer cannot run."""
    reason = missing(layer)
    if reason is not None:
        pytest.skip(skip_reason(layer, reason), allow_module_level=True)


def no_wheel() -> str | None:
    """Why charm cannot be used if Charm4Py has no wheel for this Python; None if it has one."""
    reason = drivers.get("charm").unavailable()
    return reason if reason is not None and "no wheel" in reason else None


def expected(*names: str) -> tuple[str, ...]:
    """These drivers, without charm if Charm4Py has no wheel for this Python."""
    return tuple(name for name in names if name != "charm" or no_wheel() is None)


def skip_without_wheel(report: Any) -> None:
    """Make a failed test's report a skip where it failed as Charm4Py has no wheel for this Python.

    Where there is a wheel, a missing Charm4Py is a failure as any other.
    """
    reason = no_wheel() if report.failed else None  # to look for modules 15 000 times takes 10 s
    if reason is None:
        return
    if re.search(NO_CHARM, str(report.longrepr)) or re.search(NAMES_CHARM, report.nodeid):
        report.outcome, report.longrepr = "skipped", (report.nodeid, None, f"Skipped: {reason}")


def skip_reason(layer: str, reason: str) -> str:
    """The words of a skip from which `layer_of` reads the layer."""
    return f"layer {layer}: {reason}"


def layer_of(text: str) -> tuple[str, str] | None:
    """The layer and the reason of a skip, from its report; None where it is none of a layer."""
    names = "|".join(layer.name for layer in LAYERS)
    found = re.search(rf"layer ({names}): ([^'\"]+)", text)
    return (found[1], found[2]) if found else None


def must_fail(why: str, option: Callable[[str], Any]) -> str | None:
    """The switch by which a skip counts as a failure; None where it may be skipped.

    Browser and C compiler are system packages, a GPU is hardware, and containers often cannot
    isolate programs, so --no-skips excuses them.
    """
    layer = layer_of(why)
    if layer and option(f"--require-{layer[0]}"):
        return f"--require-{layer[0]}"
    excused = layer and layer[0] in ("gpu", "stub")
    excused = excused or re.search(NO_CHARM, why) is not None
    excused = excused or NO_ISOLATION in why
    excused = excused or (NO_HOSTS in why and not option("--require-hosts"))
    excused = excused or (NO_BROWSER in why and not option("--require-browser"))
    return "--no-skips" if option("--no-skips") and not excused else None


def without_charm(skips: Iterable[str]) -> list[str]:
    """How many tests were skipped for want of Charm4Py, why and how to get it: one line or none."""
    count = sum(re.search(NO_CHARM, skip) is not None for skip in skips)
    return [f"{count} skipped under charm: {drivers.get('charm').unavailable()}"] if count else []


def unchecked(skips: Iterable[str]) -> list[str]:
    """How many tests of each layer were skipped and why, a line each."""
    counts = Counter(found for found in map(layer_of, skips) if found)
    return [
        f"{count} skipped that check kernels {layer.does}: {reason}. {layer.instead}"
        for layer in LAYERS
        for (name, reason), count in sorted(counts.items())
        if name == layer.name
    ]
