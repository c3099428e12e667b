"""The communication benchmarks by mpi4py."""

from miniapps.communication import Runtime
from miniapps.communication.buffers import KINDS
from miniapps.communication.catalogue import MESSAGES
from miniapps.communication.settings import LEVELS

COLLECTIVES = frozenset({"allgather", "alltoall", "bcast", "gather", "scatter"})
REDUCTIONS = frozenset({"allreduce", "reduce"})
NEIGHBORS = frozenset({"neighbor_allgather", "neighbor_alltoall"})
C, SPEC, ARRAY, IN_BAND, OUT_OF_BAND, LINK = "c", "spec", "array", "in band", "out of band", "link"

RUNTIME = Runtime(
    driver="mpi",
    title="MPI",
    file="miniapps.communication.mpi.runtime",
    buffers=KINDS,
    pickles=MESSAGES | COLLECTIVES | REDUCTIONS | NEIGHBORS,
    out_of_band=MESSAGES | COLLECTIVES,
    thread_levels=LEVELS,
    anatomy={
        C: "MPI_Send in C",
        SPEC: "Send([a, BYTE])",
        ARRAY: "Send(a)",
        IN_BAND: "send(a)",
        OUT_OF_BAND: "pkl5 send(a)",
        LINK: "mpi driver",
    },
)
