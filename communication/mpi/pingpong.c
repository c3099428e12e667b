/* A ping-pong in C, for the same MPI library as mpi4py: what the library takes without Python.

   Compiled to a shared library, which the ranks of an mpi4py program load. */

#include <mpi.h>

/* Write the name of the library whose header this was compiled with and that it calls. */
int library_of(char *text)
{
    int length;
    return MPI_Get_library_version(text, &length);
}

/* Seconds per message of `times` round trips of `bytes` bytes with rank `other`; the rank that
   `leads` sends first. `comm`: the address of the communicator's handle. */
double ping_pong(const MPI_Comm *comm, char *sent, char *received, int bytes, int other, int tag,
                 int leads, int times)
{
    double begin = MPI_Wtime();
    for (int n = 0; n < times; n++) {
        if (leads)
            MPI_Send(sent, bytes, MPI_BYTE, other, tag, *comm);
        MPI_Recv(received, bytes, MPI_BYTE, other, tag, *comm, MPI_STATUS_IGNORE);
        if (!leads)
            MPI_Send(sent, bytes, MPI_BYTE, other, tag, *comm);
    }
    return (MPI_Wtime() - begin) / (2.0 * times);
}
