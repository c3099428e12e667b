"""What the machine code of every kernel costs, found by compiling it for sm_90a without a GPU.

``python tests/gpu_budget.py`` (``make gpu-budget``) writes the costs into gpu/budget.json, against
which `test_gpu_budget.py` holds them. The numbers are the compiler's own, so another version of it
may give others; the file says by which version they were found.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple
from unittest import mock

ROOT = Path(__file__).resolve().parents[1]
BUDGET = Path(__file__).parent / "gpu" / "budget.json"
LAUNCHED = "MINIAPPS_TEST_LAUNCHED"  # the file to which tests write the kernels that they launched
ENDS = "MINIAPPS_TEST_ENDS"  # if it is set, only the first and last case of each test is made
CAPABILITY, ARCHITECTURE = (9, 0), "sm_90a"
COMPILED_WITH = ("numba-cuda", "nvidia-nvvm", "nvidia-nvjitlink")
TO_LTOIR = ("fastmath", "launch_bounds", "lineinfo", "debug", "opt")  # options of `cuda.compile`


# The lowest 9 bits of every instruction say what it does, since sm_70, whatever its operands are.
INSTRUCTION_BYTES, OPERATION = 16, 0x1FF
JOINED = (0x02B, 0x023)  # DFMA, FFMA


class Code(NamedTuple):
    """The machine code of a kernel for one signature: its cost, its PTX, ``joined`` and ``said``.

    These are how many of its instructions round a product and a sum at once, and how many in the
    PTX do because the kernel says ``fma``.
    """

    cost: dict[str, int]
    ptx: str
    joined: int
    said: int


class _Device:
    """The properties of a GPU that the compiler reads."""

    compute_capability = CAPABILITY


@contextmanager
def as_if_on_device() -> Iterator[None]:
    """Let functions that kernels call be compiled where there is no GPU to ask for its kind."""
    with mock.patch("numba.cuda.dispatcher.get_current_device", _Device):
        yield


def compiled(kernel: Any, signature: str) -> Code:
    """Compile a `devices.cuda.compiler.Kernel` for one of its signatures, as numba-cuda does.

    Its code for the linker is optimised and becomes machine code when it is linked.
    """
    code, options = for_linker(kernel, signature), options_of(kernel)
    ptx = linked(code, [*options, "-ptx"])[0].decode()
    apart = linked(code, [*options, "-ptx", "-fma=0"])[0].decode() if joins(ptx) else ptx
    cubin, log = linked(code, [*options, "-Xptxas=-v"])
    cost = cost_of(log, ptx) | {"instructions": sum(1 for _ in instructions(cubin))}
    joined = sum(word & OPERATION in JOINED for word in instructions(cubin))
    return Code(cost, ptx, joined, len(joins(apart)))


def options_of(kernel: Any) -> list[str]:
    """The options with which numba-cuda links a kernel."""
    options = [f"-arch={ARCHITECTURE}", "-lto"]
    if "max_registers" in kernel.options:
        options.append(f"-maxrregcount={kernel.options['max_registers']}")
    return options


def for_linker(kernel: Any, signature: str) -> bytes:
    """What numba-cuda gives the linker: LTO-IR, NVIDIA's code before optimisation."""
    from numba import cuda
    from numba.core import sigutils

    arguments, _ = sigutils.normalize_signature(signature)
    chosen = {name: kernel.options[name] for name in TO_LTOIR if name in kernel.options}
    with as_if_on_device():
        code, _ = cuda.compile(
            kernel.function, arguments, device=False, abi="numba", output="ltoir",
            cc=(*CAPABILITY, "a"), **chosen,
        )  # fmt: skip
    return code


def linked(code: bytes, options: list[str]) -> tuple[bytes, str]:
    """Link such code; returns a cubin, or PTX if an option asks for it, and the linker's log."""
    from cuda.bindings import nvjitlink

    linker = nvjitlink.create(len(options), options)
    try:
        nvjitlink.add_data(linker, nvjitlink.InputType.LTOIR, code, len(code), "kernel")
        nvjitlink.complete(linker)
        kind = "ptx" if "-ptx" in options else "cubin"
        out = bytearray(getattr(nvjitlink, f"get_linked_{kind}_size")(linker))
        getattr(nvjitlink, f"get_linked_{kind}")(linker, out)
        log = bytearray(nvjitlink.get_info_log_size(linker))
        nvjitlink.get_info_log(linker, log)
    finally:
        nvjitlink.destroy(linker)
    return bytes(out).rstrip(b"\0") if kind == "ptx" else bytes(out), log.decode()


def cost_of(log: str, ptx: str) -> dict[str, int]:
    """Costs as ``ptxas -v`` reports them: of registers the most of any function, of bytes the sum.

    It does not count shared memory that the linker could see, as all of Numba's, so that is read
    from the PTX; what a launch asks for besides is not in it.
    """

    def reported(pattern: str) -> list[int]:
        return [int(number) for number in re.findall(pattern, log)]

    registers = reported(r"Used (\d+) registers")
    if not registers:
        raise ValueError(f"the compiler does not report the cost of the kernel: {log!r}")
    return {
        "registers": max(registers),
        "shared_bytes": sum(map(int, re.findall(r"\.shared\s.*\[(\d+)\];", ptx))),
        "spill_bytes": sum(reported(r"(\d+) bytes spill (?:stores|loads)")),
        "stack_bytes": sum(reported(r"(\d+) bytes stack frame")),
    }


def instructions(cubin: bytes) -> Iterator[int]:
    """The instructions of a cubin, an ELF file: of each the lower half."""
    table, count, names = struct.unpack_from("<40xQ12xHH", cubin)
    headers = [struct.unpack_from("<IIQQQQ", cubin, table + 64 * n) for n in range(count)]
    for name, _, _, _, begin, size in headers:
        if cubin[headers[names][4] + name :].startswith(b".text"):
            for place in range(begin, begin + size, INSTRUCTION_BYTES):
                yield struct.unpack_from("<Q", cubin, place)[0]


def joins(ptx: str) -> list[str]:
    """Instructions of PTX that round a product and a sum at once."""
    return re.findall(r"^\s*(fma\.\S*f(?:32|64)\b.*)$", ptx, re.MULTILINE)


def contractions(code: Code) -> list[str]:
    """Instructions of a kernel's PTX by which a product is not rounded before it is added.

    These are ``fma``, where there are more of them than the kernel says, and sums of products where
    neither names its rounding: such a pair the assembler may join. Where the machine code has no
    joined instruction it did not; where it has, they may be those of a division too, and only
    ``mul`` of `devices.cuda.compiler` keeps out of doubt.
    """
    found = joins(code.ptx)
    if len(found) == code.said:
        found = []
    if not code.joined:
        return found
    free = r"(?:\.ftz)?\.f(?:32|64)\s+"
    products = set(re.findall(rf"\bmul{free}(%\w+)", code.ptx))
    for sum_, operands in re.findall(rf"\b((?:add|sub){free}%\w+, (.*?));", code.ptx):
        if products & set(operands.split(", ")):
            found.append(sum_)
    return found


def modules() -> list[ModuleType]:
    """The kernel files for a GPU."""
    walks = "kernels/*/gpu.py", "kernels/*/gpu/*.py", "devices/cuda/*.py"
    files = [file for walk in walks for file in ROOT.glob(walk) if file.stem != "__init__"]
    paths = sorted(file.relative_to(ROOT).with_suffix("") for file in files)
    return [importlib.import_module(".".join(["miniapps", *path.parts])) for path in paths]


def kernels_of(module: ModuleType) -> dict[str, Any]:
    """The kernels of a file by name, those in its tuples, lists and dicts too."""
    from miniapps.devices.cuda.compiler import declared

    found, own = declared(module), module.__name__
    return {f"{own}.{k}": v for k, v in found.items() if v.function.__module__ == own}


def all_kernels() -> dict[str, Any]:
    """Every kernel there is, by name."""
    return {name: kernel for module in modules() for name, kernel in kernels_of(module).items()}


def code_of(kernels: dict[str, Any]) -> dict[str, dict[str, Code]]:
    """The machine code of kernels, by kernel and signature."""
    return {
        name: {signature: compiled(kernel, signature) for signature in kernel.signatures}
        for name, kernel in kernels.items()
    }


def excesses(
    costs: dict[str, dict[str, dict[str, int]]], budget: dict[str, dict[str, dict[str, int]]]
) -> list[str]:
    """Where kernels cost more than they may, have no budget, or a budget has no kernel."""
    found = []
    for name, signature in sorted(_pairs(costs) | _pairs(budget)):
        cost = costs.get(name, {}).get(signature)
        allowed = budget.get(name, {}).get(signature)
        where = f"{name} {signature}"
        if allowed is None:
            found.append(f"{where}: has no entry in {BUDGET.name}: it needs {cost}")
        elif cost is None:
            found.append(f"{where}: is in {BUDGET.name}, but there is no such kernel")
        else:
            found += [
                f"{where}: {cost[what]} {what}, allowed are {allowed.get(what, 0)}"
                for what in cost
                if cost[what] > allowed.get(what, 0)
            ]
    return found


def _pairs(table: dict[str, dict[str, Any]]) -> set[tuple[str, str]]:
    """Kernels with each of their signatures."""
    return {(name, signature) for name, row in table.items() for signature in row}


def compilers() -> dict[str, str]:
    """Versions on which the numbers depend."""
    return {name: importlib.metadata.version(name) for name in COMPILED_WITH}


def costs_of(code: dict[str, dict[str, Code]]) -> dict[str, dict[str, dict[str, int]]]:
    """The costs alone."""
    return {name: {s: c.cost for s, c in row.items()} for name, row in code.items()}


def main() -> None:
    """Write the costs of all kernels as their budget."""
    kernels = costs_of(code_of(all_kernels()))
    document = {"compilers": compilers(), "kernels": kernels}
    BUDGET.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")
    print(f"{sum(map(len, kernels.values()))} kernels and signatures are in {BUDGET}")
    for name, signature in sorted(_pairs(kernels)):
        spilled = kernels[name][signature]["spill_bytes"]
        if spilled:
            print(f"{name} {signature} spills {spilled} bytes: is that meant?")


if __name__ == "__main__":
    main()
