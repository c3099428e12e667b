"""The three ways to check kernels for a GPU, and what each of them needs to be there.

``gpu``: on a GPU. ``sim``: in numba's simulator, in a process of its own. ``compile``: to machine
code, which needs no GPU. Where something is missing a test is skipped, and says so in words that
the test run counts by layer at its end.
"""

from __future__ import annotations

import importlib.metadata
import re
from typing import NamedTuple

import pytest


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
)
COMPILER = ("cuda-core", "nvidia-nvvm", "nvidia-nvjitlink")  # wheels


def missing(layer: str) -> str | None:
    """Why a layer cannot run in this process; None where it can."""
    needed = ("numba-cuda", *(COMPILER if layer == "compile" else ()))
    absent = [wheel for wheel in needed if not installed(wheel)]
    if absent:
        return f"{', '.join(absent)} not installed"
    if layer != "gpu":
        return None
    from kernels import cuda

    return None if cuda.PRESENT else "there is no NVIDIA GPU with a working driver"


def installed(wheel: str) -> bool:
    """Whether a package is there."""
    try:
        return bool(importlib.metadata.version(wheel))
    except importlib.metadata.PackageNotFoundError:
        return False


def skip_without(layer: str) -> None:
    """Skip the test that calls, or the module that is collected, where a layer cannot run."""
    reason = missing(layer)
    if reason is not None:
        pytest.skip(skip_reason(layer, reason), allow_module_level=True)


def skip_reason(layer: str, reason: str) -> str:
    """The words of a skip from which `layer_of` reads the layer."""
    return f"layer {layer}: {reason}"


def layer_of(text: str) -> tuple[str, str] | None:
    """The layer and the reason of a skip, from its report; None where it is none of a layer."""
    found = re.search(r"layer (gpu|sim|compile): ([^'\"]+)", text)
    return (found[1], found[2]) if found else None
