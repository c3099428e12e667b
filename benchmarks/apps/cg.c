/* Conjugate gradients as plain C writes them, beside the app cg: on a matrix in rows of 27 elements,
 * as HPCG's reference code keeps it, and without a matrix.
 *
 *     cc -O3 -march=native -o cg cg.c && ./cg n iterations
 *
 * prints for "csr" and "matrix_free" the seconds of the fastest iteration ("csr_s"), and at the end the
 * sums of squares of the residual ("csr_rr") and of the error of the solution ("csr_ee").
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double *values;
static int *columns, *counts;
static int n;

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + 1e-9 * now.tv_nsec;
}

static double dot(const double *a, const double *b, long size)
{
    double sum = 0;
    for (long i = 0; i < size; i++)
        sum += a[i] * b[i];
    return sum;
}

static void assemble(void)
{
    long size = (long)n * n * n, row = 0;
    values = malloc(27 * size * sizeof(double));
    columns = malloc(27 * size * sizeof(int));
    counts = malloc(size * sizeof(int));
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            for (int k = 0; k < n; k++, row++) {
                int count = 0;
                for (int a = i - 1; a <= i + 1; a++)
                    for (int b = j - 1; b <= j + 1; b++)
                        for (int c = k - 1; c <= k + 1; c++)
                            if (a >= 0 && a < n && b >= 0 && b < n && c >= 0 && c < n) {
                                long at = ((long)a * n + b) * n + c;
                                columns[27 * row + count] = at;
                                values[27 * row + count++] = at == row ? 26.0 : -1.0;
                            }
                counts[row] = count;
            }
}

static void with_rows(const double *u, double *v)
{
    long size = (long)n * n * n;
    for (long row = 0; row < size; row++) {
        double sum = 0;
        for (int e = 0; e < counts[row]; e++)
            sum += values[27 * row + e] * u[columns[27 * row + e]];
        v[row] = sum;
    }
}

/* The same for arrays with a layer of zeros around them. */
static void without(const double *u, double *v)
{
    long row = n + 2, plane = row * row;
    for (int i = 1; i <= n; i++)
        for (int j = 1; j <= n; j++) {
            const double *at = u + i * plane + j * row;
            double *to = v + i * plane + j * row;
            for (int k = 1; k <= n; k++) {
                double sum = 0;
                for (int a = -1; a <= 1; a++)
                    for (int b = -1; b <= 1; b++)
                        for (int c = -1; c <= 1; c++)
                            sum += at[k + a * plane + b * row + c];
                to[k] = 27.0 * at[k] - sum;
            }
        }
}

/* Solve A x = A 1 from x = 0, and print what this took and led to. */
static void solve(const char *name, void (*apply)(const double *, double *), long layer, int iterations)
{
    long row = n + 2 * layer, size = row * row * row;
    double *x = calloc(size, 8), *r = calloc(size, 8), *p = calloc(size, 8), *q = calloc(size, 8);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            for (int k = 0; k < n; k++)
                p[((i + layer) * row + j + layer) * row + k + layer] = 1.0;
    apply(p, r);
    double now = dot(r, r, size), before = 0, fastest = INFINITY, error = 0;
    for (int step = 0; step < iterations; step++) {
        double begun = seconds();
        double beta = step ? now / before : 0;
        for (long i = 0; i < size; i++)
            p[i] = r[i] + beta * p[i];
        apply(p, q);
        double alpha = now / dot(p, q, size);
        for (long i = 0; i < size; i++)
            x[i] += alpha * p[i];
        for (long i = 0; i < size; i++)
            r[i] -= alpha * q[i];
        before = now;
        now = dot(r, r, size);
        fastest = fmin(fastest, seconds() - begun);
    }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            for (int k = 0; k < n; k++)
                error += pow(x[((i + layer) * row + j + layer) * row + k + layer] - 1, 2);
    printf("\"%s_s\": %.6g, \"%s_rr\": %.15g, \"%s_ee\": %.15g", name, fastest, name, now, name, error);
    free(x), free(r), free(p), free(q);
}

int main(int argc, char **argv)
{
    n = atoi(argv[1]);
    int iterations = argc > 2 ? atoi(argv[2]) : 50;
    assemble();
    printf("{");
    solve("csr", with_rows, 0, iterations);
    printf(", ");
    solve("matrix_free", without, 1, iterations);
    printf("}\n");
    return 0;
}
