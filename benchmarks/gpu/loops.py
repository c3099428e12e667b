"""What the loops of GPU kernels consist of, in the machine code for sm_90a; needs no GPU.

    python -m benchmarks.gpu.loops jacobi2d stencil3d.gpu._sweep

An argument is a part of the names of kernels, as in tests/gpu/budget.json. For each signature: the
registers and warps per multiprocessor; for each loop: its instructions by the unit that makes them,
and their order. In that, L is a load from global memory, S a store, a a float operation, x one of
the slow unit (conversions, reciprocals), l and s those of shared memory, | a barrier, . the rest.
Needs the extra gpu-check.
"""

from __future__ import annotations

import struct
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[2] / "tests"))
import gpu_budget  # noqa: E402

BRANCH, SHORTEST = 0x147, 4  # an instruction; loops are longer
REGISTERS, WARPS = 65536, 64  # of a multiprocessor
UNIT = 256  # registers that a warp gets at once
SLOW = range(0x100, 0x113)  # conversions between kinds of numbers, reciprocals and roots
UNITS = {
    "float64": [0x28, 0x29, 0x2A, 0x2B],
    "float32": [0x20, 0x21, 0x23],
    "slow": [*SLOW],
    "loads": [0x181],
    "stores": [0x186],
    "shared": [0x184, 0x188],
}
LETTERS = {0x181: "L", 0x186: "S", 0x184: "l", 0x188: "s", 0x11D: "|", **dict.fromkeys(SLOW, "x")}
LETTERS |= dict.fromkeys([*UNITS["float64"], *UNITS["float32"]], "a")


def loops(words: list[int]) -> Iterator[list[int]]:
    """The operations of each loop: from where a branch leads back to, to that branch."""
    for place, word in enumerate(words):
        if word & gpu_budget.OPERATION == BRANCH:
            offset = ((word >> 34) << 8 | (word >> 16 & 0xFF)) << 2  # the upper bits are its sign's
            (signed,) = struct.unpack("<i", struct.pack("<I", offset & 0xFFFFFFFF))
            first = place + 1 + signed // gpu_budget.INSTRUCTION_BYTES
            if signed < 0 and place - first >= SHORTEST:
                yield [one & gpu_budget.OPERATION for one in words[first : place + 1]]


def units(operations: list[int]) -> Counter[str]:
    """How many operations of a loop each unit makes."""
    return Counter(unit for one in operations for unit, own in UNITS.items() if one in own)


def described(operations: list[int]) -> str:
    """A loop in one line for its numbers and one for its order."""
    counts = units(operations)
    numbers = ", ".join(f"{counts[unit]} {unit}" for unit in UNITS if counts[unit])
    order = "".join(LETTERS.get(operation, ".") for operation in operations)
    return f"  {len(operations)} instructions: {numbers}\n    {order}"


def warps(registers: int, threads: int) -> int:
    """How many warps of thread blocks fit into a multiprocessor's registers."""
    of_a_warp = -(-32 * registers // UNIT) * UNIT
    return min(REGISTERS // of_a_warp // (threads // 32) * (threads // 32), WARPS)


def machine_code(kernel: Any, signature: str) -> tuple[list[int], int]:
    """The instructions of a kernel, of each the lower half, and its registers."""
    options = [*gpu_budget.options_of(kernel), "-Xptxas=-v"]
    cubin, log = gpu_budget.linked(gpu_budget.for_linker(kernel, signature), options)
    return list(gpu_budget.instructions(cubin)), gpu_budget.cost_of(log, "")["registers"]


def describe(name: str, kernel: Any) -> None:
    """Print the loops of a kernel for each of its signatures."""
    for signature in kernel.signatures:
        words, registers = machine_code(kernel, signature)
        fit = ", ".join(f"{warps(registers, n)} in blocks of {n}" for n in (64, 128, 256))
        print(f"{name} {signature}\n  {registers} registers; warps: {fit} threads")
        for operations in loops(words):
            print(described(operations))


def main(words: list[str]) -> int:
    """Describe the kernels whose names contain one of the words; 1 if there are none."""
    kernels = {n: k for m in gpu_budget.modules() for n, k in gpu_budget.kernels_of(m).items()}
    chosen = [name for name in sorted(kernels) if any(word in name for word in words)]
    for name in chosen:
        describe(name, kernels[name])
    return 0 if chosen else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
