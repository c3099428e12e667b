/* PRK's transpose as plain C and MPI write it, beside the app transpose: B += A^T, A += 1, each rank
 * with a block of columns. Partners exchange one block at a time, as in PRK, or all at once.
 *
 *     mpicc -O3 -march=native -o transpose transpose.c && mpiexec -n 2 ./transpose order iterations
 *
 * prints {"phases_s": ..., "alltoall_s": ..., "error": ...}: seconds of an iteration of the slowest
 * rank, and the sum of the absolute errors of B. One iteration before is not timed.
 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define TILE 32

static int order, ranks, rank, wide;

/* Copy the transpose of a block of A to out, or add it where out has its columns; A += 1. */
static void turn(double *a, double *out, long to, int add)
{
    for (int i0 = 0; i0 < wide; i0 += TILE)
        for (int j0 = 0; j0 < wide; j0 += TILE)
            for (int i = i0; i < i0 + TILE && i < wide; i++)
                for (int j = j0; j < j0 + TILE && j < wide; j++) {
                    double *from = a + (long)j * order + i, *there = out + i * to + j;
                    *there = add ? *there + *from : *from;
                    *from += 1.0;
                }
}

static void scatter(double *b, const double *in)
{
    for (int j = 0; j < wide; j++)
        for (int i = 0; i < wide; i++)
            b[(long)j * order + i] += in[(long)j * wide + i];
}

static void by_phases(double *a, double *b, double *in, double *out)
{
    long size = (long)wide * wide;
    for (int phase = 1; phase < ranks; phase++) {
        int from = (rank + phase) % ranks, to = (rank - phase + ranks) % ranks;
        MPI_Request requests[2];
        MPI_Irecv(in, size, MPI_DOUBLE, from, phase, MPI_COMM_WORLD, &requests[0]);
        turn(a + (long)to * wide, out, wide, 0);
        MPI_Isend(out, size, MPI_DOUBLE, to, phase, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        scatter(b + (long)from * wide, in);
    }
}

static void all_at_once(double *a, double *b, double *in, double *out)
{
    long size = (long)wide * wide;
    for (int to = 0; to < ranks; to++)
        if (to != rank)
            turn(a + (long)to * wide, out + to * size, wide, 0);
    MPI_Alltoall(out, size, MPI_DOUBLE, in, size, MPI_DOUBLE, MPI_COMM_WORLD);
    for (int from = 0; from < ranks; from++)
        if (from != rank)
            scatter(b + (long)from * wide, in + from * size);
}

static double run(void (*exchange)(double *, double *, double *, double *), int iterations, double *error)
{
    long size = (long)order * wide;
    double *a = malloc(8 * size), *b = malloc(8 * size), *in = calloc(size, 8), *out = calloc(size, 8);
    double begun = 0, spent, slowest, off = 0, all;
    for (long n = 0; n < size; n++) {
        a[n] = n + (double)rank * size;
        b[n] = 0;
    }
    for (int step = 0; step <= iterations; step++) {
        if (step == 1) {
            MPI_Barrier(MPI_COMM_WORLD);
            begun = MPI_Wtime();
        }
        turn(a + (long)rank * wide, b + (long)rank * wide, order, 1);
        exchange(a, b, in, out);
    }
    spent = (MPI_Wtime() - begun) / iterations;
    MPI_Allreduce(&spent, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    for (int j = 0; j < wide; j++)
        for (int i = 0; i < order; i++) {
            double steps = iterations + 1, first = (double)order * i + j + (double)rank * wide;
            off += fabs(b[(long)j * order + i] - (first * steps + steps * (steps - 1) / 2));
        }
    MPI_Allreduce(&off, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    *error += all;
    free(a), free(b), free(in), free(out);
    return slowest;
}

int main(int argc, char **argv)
{
    double error = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    order = atoi(argv[1]);
    wide = order / ranks;
    int iterations = argc > 2 ? atoi(argv[2]) : 10;
    double phases = run(by_phases, iterations, &error);
    double at_once = run(all_at_once, iterations, &error);
    if (rank == 0)
        printf("{\"phases_s\": %.6g, \"alltoall_s\": %.6g, \"error\": %.6g}\n", phases, at_once, error);
    MPI_Finalize();
    return 0;
}
