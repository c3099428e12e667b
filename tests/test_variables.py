"""Variables of other software that change results or speed, and kernels as plain Python."""

from __future__ import annotations

import json
import os
import sys

import pytest
import support

from miniapps import tiling
from miniapps.devices import variables
from miniapps.workbench import doctor, environment
from miniapps.workbench.run import hosts, record

SMALL = (
    "jacobi2d --size 9x11 --steps 3 --time-tile 2",
    "stencil3d --size 5x6x9 --steps 3 --dtype float32 --time-tile auto",
    "pic --size 12 --particles 50 --steps 6",
    "leanmd --lattice 2x2x2 --cutoff 1.5 --skin 0.1 --steps 1",
    "cg --size 6x5x4 --solution noise --preconditioner sgs --steps 1",
    "transpose --size 13 --steps 2",
    "amr --preset minimal",
)


@pytest.mark.slow
@pytest.mark.launch
def test_kernels_run_as_plain_python_with_the_same_bits() -> None:
    """Mistake: the name of an intrinsic, or NumPy's sum of booleans, for who debugs a kernel."""
    lines = [f"{run} --warmup 0 --audit 9" for run in SMALL]
    compiled = support.records_of(lines)
    plain = support.records_of(lines, env={variables.DISABLE_JIT: "1"})
    for one, other in zip(compiled, plain, strict=True):
        assert one["valid"] and other["valid"] and one["state_hash"] == other["state_hash"]
        assert other["environment"][variables.DISABLE_JIT] == "1"
    said = [record.summary(one) for one in (compiled[0], plain[0])]
    assert ["as plain Python; no speed" in text for text in said] == [False, True]


def test_plain_python_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mistake: minutes before the run, and a best tile of plain Python that is kept for others."""
    monkeypatch.setenv(variables.DISABLE_JIT, "1")
    monkeypatch.setattr(tiling, "measured_rates", None)
    monkeypatch.setattr(tiling, "cache_file", None)
    assert tiling.best_tile("jacobi2d", (90, 90), (True, True), 4, "float64") == 4


def test_what_a_variable_changes() -> None:
    """Mistake: a beginning that is taken for a name, or a name that no entry says anything of."""
    known = variables.KNOWN
    assert variables.changed_by("NUMBA_DISABLE_JIT") == known["NUMBA_DISABLE_JIT"]
    assert variables.changed_by("NUMBA_OPT") == known["NUMBA_"]
    assert variables.changed_by("MPIR_CVAR_NOLOCAL") and variables.changed_by("UCX_TLS")
    of_launchers = "HWLOC_XMLFILE", "MPIEXEC_TIMEOUT", "UCC_TLS", "PSM2_DEVICES"
    assert all(map(variables.changed_by, of_launchers))
    assert variables.changed_by("PYTHONMALLOCSTATS") is variables.changed_by("HOME") is None
    given = {"OMP_A": "a\n\x1b[0m", "FI_B": "", "UCX_C": "c" * 999, "PATH": "/bin"}
    assert variables.set_in(given) == {"OMP_A": "a??[0m", "UCX_C": "c" * 197 + "..."}
    switched = [{}, {"NUMBA_DISABLE_JIT": "0"}, {"NUMBA_DISABLE_JIT": "x"}]
    assert not any(variables.kernels_are_python(one) for one in switched)


def test_what_the_user_has_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mistake: what this program or a launcher sets for its ranks counts as the user's."""
    for name in list(variables.set_in(dict(environment.os.environ))):
        monkeypatch.delenv(name)
    assert [one.found for one in doctor.set_by_user()] == [
        "none is set that changes results or speed"
    ]
    monkeypatch.setenv("NUMBA_OPT", "1")
    environment.one_thread()
    assert environment.set_variables() == {"NUMBA_OPT": "1"}
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    both = {"NUMBA_OPT": "1", "OMP_NUM_THREADS": "4"}
    assert environment.set_variables() == both
    assert [one.what for one in doctor.set_by_user()] == [f"{n}={v}" for n, v in both.items()]
    monkeypatch.setenv(environment.SET_VARIABLE, hosts.variables()[environment.SET_VARIABLE])
    monkeypatch.setenv("OMPI_MCA_pml", "ob1")
    assert environment.set_variables() == json.loads(json.dumps(both))


FRESH_PAGES = """
import resource
import numpy as np
from miniapps.devices.cpu import host_memory
host_memory.keep_freed()
for _ in range(3):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    messages = [np.ones(1 << 18) for _ in range(30)]  # of 2 MiB
    del messages
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.parametrize("name", ["MALLOC_ARENA_MAX", "MALLOC_TRIM_THRESHOLD_"])
def test_memory_of_messages_is_kept(name: str) -> None:
    """Catches messages that each get new pages from the system, and a user's own choice ignored."""
    made = support.execute([sys.executable, "-c", FRESH_PAGES], env={**os.environ, name: "131072"})
    own_choice = name == "MALLOC_TRIM_THRESHOLD_"
    assert (int(made.stdout) > 10_000) if own_choice else (int(made.stdout) < 100), made
