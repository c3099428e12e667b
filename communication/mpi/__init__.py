"""The communication benchmarks by mpi4py."""

from communication import Runtime
from communication.buffers import KINDS
from communication.settings import LEVELS

OBJECTS = frozenset({"latency", "bw", "bibw", "multi_lat", "mbw_mr"})
COLLECTIVES = frozenset({"allgather", "alltoall", "bcast", "gather", "scatter"})
REDUCTIONS = frozenset({"allreduce", "reduce"})
NEIGHBORS = frozenset({"neighbor_allgather", "neighbor_alltoall"})

RUNTIME = Runtime(
    driver="mpi",
    title="MPI",
    file="communication.mpi.runtime",
    buffers=KINDS,
    pickles=OBJECTS | COLLECTIVES | REDUCTIONS | NEIGHBORS,
    out_of_band=OBJECTS | COLLECTIVES,
    thread_levels=LEVELS,
    anatomy=True,
)
