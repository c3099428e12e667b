"""Kernels for a GPU as machine code, without a GPU: what they cost, and how they round.

After a change that costs more on purpose, ``make gpu-budget`` writes the new costs down.
"""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from types import ModuleType
from typing import Any

import gpu_budget
import of_day
import pytest
import skips
import support
from numba import cuda

from benchmarks.gpu import loops

VECTORS = "void(float64[::1], float64[::1], float64[::1])"


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, gpu_budget.Code]]:
    """The machine code of the kernels of the day."""
    skips.without("compile")
    kernels = gpu_budget.all_kernels()
    of_today = {name: kernels[name] for name in of_day.share(sorted(kernels))}

    def make(folder: Path) -> None:
        (folder / "code").write_bytes(pickle.dumps(gpu_budget.code_of(of_today)))

    return pickle.loads((support.made_once(tmp_path_factory, "code", make) / "code").read_bytes())


@pytest.fixture
def toolkit() -> ModuleType:
    """`devices.cuda.compiler`, where kernels can be compiled."""
    skips.without("compile")
    from miniapps.devices.cuda import compiler

    return compiler


@pytest.mark.slow
def test_kernels_keep_their_budget(code):
    """Catches a change that makes a kernel spill, or need registers or memory it did not need."""
    document = json.loads(gpu_budget.BUDGET.read_text())
    by = f"budget found by {document['compilers']}, costs by {gpu_budget.compilers()}"
    budget = document["kernels"]
    assert sorted(budget) == sorted(gpu_budget.all_kernels())
    of_today = {name: budget[name] for name in code}
    assert gpu_budget.excesses(gpu_budget.costs_of(code), of_today) == [], by


@pytest.mark.slow
def test_kernels_round_as_their_counterparts_do(code):
    """Catches products and sums that are joined where the kernel does not say so.

    The CPU's compiler joins none, so a GPU would get other bits.
    """
    joined = {
        f"{name} {signature}": found
        for name, row in code.items()
        for signature, one in row.items()
        if (found := gpu_budget.contractions(one))
    }
    assert joined == {}


# That the checks above can fail ------------------------------------------------------------------


def kernel_of(toolkit: ModuleType, function: Any, **options: Any) -> Any:
    """A kernel of a function of three vectors."""
    return toolkit.kernel(VECTORS, **options)(function)


def wide(a, b, out):
    """Eight numbers in registers at a time, and the divisions' own."""
    p, q, r, s, t, u, v, w = a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]
    for j in range(b.size):
        y = b[j]
        p, q, r, s, t, u, v, w = p / y, r + y, s / y, t + y, u / y, v + y, w / y, p + y
    out[0] = p + q + r + s + t + u + v + w


def in_shared(a, b, out):
    """A kilobyte of shared memory, and 400 bytes of the thread's own."""
    shared, own = cuda.shared.array(128, "float64"), cuda.local.array(50, "float64")
    i = cuda.threadIdx.x
    shared[i] = a[i]
    for j in range(50):
        own[j] = b[i * j]
    cuda.syncthreads()
    out[i] = shared[127 - i] + own[int(a[0])]


def fused(a, b, out):
    """A product that is added at once."""
    out[0] = a[0] * b[0] + out[0]


def fused_or_divided(a, b, out):
    """A product that is added on one way only, in code that has joined instructions anyway."""
    product = a[0] * b[0]
    if product > 0.5:
        product = product - 1.0
    out[0] = product / a[1]


def apart(a, b, out):
    """A product of which nothing is added, and a sum of no products."""
    out[0] = a[0] * b[0]
    out[1] = a[1] + b[1]


@pytest.mark.slow
def test_a_kernel_that_spills_is_over_budget(toolkit):
    """Catches a check of budgets that never fails, and options that are not compiled for."""
    usual = gpu_budget.compiled(kernel_of(toolkit, wide), VECTORS).cost
    tight = gpu_budget.compiled(kernel_of(toolkit, wide, max_registers=24), VECTORS).cost
    full = gpu_budget.compiled(kernel_of(toolkit, wide, launch_bounds=(1024, 2)), VECTORS).cost
    assert usual["spill_bytes"] == 0 < tight["spill_bytes"]
    assert tight["registers"] <= 24 < full["registers"] <= 32 < usual["registers"]
    budget = {"x.wide": {VECTORS: usual}}
    said = gpu_budget.excesses({"x.wide": {VECTORS: tight}}, budget)
    assert any("spill_bytes, allowed are 0" in line for line in said)
    assert gpu_budget.excesses({"x.wide": {VECTORS: usual}}, budget) == []


@pytest.mark.long
def test_memory_is_counted(toolkit):
    """Catches memory that the compiler's log does not report."""
    cost = gpu_budget.compiled(kernel_of(toolkit, in_shared), VECTORS).cost
    assert (cost["shared_bytes"], cost["stack_bytes"]) == (1024, 400)


def test_kernels_and_entries_belong_together():
    """Catches a kernel that no budget covers, and a budget whose kernel is gone or has changed."""
    cost = {"registers": 8, "spill_bytes": 0}
    row = {"x.a": {VECTORS: cost}}
    assert gpu_budget.excesses(row, row) == []
    assert "has no entry" in gpu_budget.excesses(row, {})[0]
    assert "no such kernel" in gpu_budget.excesses({}, row)[0]
    assert len(gpu_budget.excesses(row, {"x.a": {"void(int64)": cost}})) == 2
    assert gpu_budget.excesses(row, {"x.a": {VECTORS: cost | {"registers": 7}}}) == [
        f"x.a {VECTORS}: 8 registers, allowed are 7"
    ]


@pytest.mark.slow
def test_joined_products_are_seen(toolkit):
    """Catches a check of rounding that never fails, or sees only what one compiler joined."""

    def seen(function: Any) -> list[str]:
        return gpu_budget.contractions(gpu_budget.compiled(kernel_of(toolkit, function), VECTORS))

    def ruled(a, b, out):
        out[0] = toolkit.mul(a[0], b[0]) + out[0]

    def said(a, b, out):
        out[0] = toolkit.fma(a[0], b[0], out[0])

    def said_once(a, b, out):
        out[1] = toolkit.fma(a[0], b[0], out[0]) + a[1] * b[1]

    joined = fused, fused_or_divided, said_once
    assert [len(seen(function)) for function in joined] == [1, 1, 2]
    assert seen(fused)[0].startswith("fma.rn.f64")
    assert seen(fused_or_divided)[0].startswith("add.f64")
    assert seen(apart) == seen(ruled) == seen(said) == []


@pytest.mark.long
def test_joined_instructions_are_counted(toolkit):
    """Catches a reader of machine code that finds nothing in it; divisions have such inside."""

    def single(a, b, out):
        out[0] = a[0] * b[0] + out[0]

    def divided(a, b, out):
        out[0] = a[0] / b[0]

    floats = VECTORS.replace("64", "32")
    assert gpu_budget.compiled(kernel_of(toolkit, fused), VECTORS).joined == 1
    assert gpu_budget.compiled(toolkit.kernel(floats)(single), floats).joined == 1
    assert gpu_budget.compiled(kernel_of(toolkit, divided), VECTORS).joined > 1
    assert gpu_budget.compiled(kernel_of(toolkit, apart), VECTORS).joined == 0


def test_kernels_are_found_wherever_they_stand(toolkit, monkeypatch):
    """Catches kernels in a table that nobody compiles, and those of another file counted twice."""
    module = ModuleType("miniapps.kernels.some_gpu")
    monkeypatch.setattr(fused, "__module__", module.__name__)
    mine, other = kernel_of(toolkit, fused), kernel_of(toolkit, apart)
    vars(module).update(one=mine, table={2: mine}, row=(0, mine), other=other, number=3)
    found = gpu_budget.kernels_of(module)
    assert sorted(found) == [
        "miniapps.kernels.some_gpu.one",
        "miniapps.kernels.some_gpu.row[1]",
        "miniapps.kernels.some_gpu.table[2]",
    ]


def test_a_log_that_tells_nothing_is_an_error():
    """Catches costs of nought because the compiler's words have changed."""
    with pytest.raises(ValueError, match="does not report"):
        gpu_budget.cost_of("ptxas info : all is well", "")


@pytest.mark.slow
def test_float32_forces_make_few_slow_operations(toolkit):
    """Catches conversions that return: a multiprocessor makes 16 of them while it makes 128 sums.

    Of the loop for four entries of a list; with three more per pair it was slower than float64.
    """
    from miniapps.kernels.leanmd.gpu.interactions import _forces_in_single

    (signature,) = _forces_in_single.signatures
    (loop, *_) = loops.loops(loops.machine_code(_forces_in_single, signature)[0])
    made = loops.units(loop)
    assert made["loads"] == 8 and made["slow"] <= 16 and made["float64"] == 0


@pytest.mark.long
def test_loops_are_found_in_machine_code(toolkit):
    """Catches a reader of branches that finds no loop, or another one."""

    def summed(a, b, out):
        total = 0.0
        for n in range(a.size):
            total += a[n] * b[n]
        out[0] = total

    words, registers = loops.machine_code(kernel_of(toolkit, summed), VECTORS)
    made = [loops.units(loop) for loop in loops.loops(words)]
    assert all(one["loads"] == 2 * one["float64"] >= 2 and one["stores"] == 0 for one in made)
    assert made and 8 < registers < 64
    assert loops.warps(48, 256) == 40 and loops.warps(56, 64) == 36
