/* The particle-in-cell loop as the Parallel Research Kernels define it (Georganas et al., IPDPS 2016):
 * one array of particles, a mesh of doubles, the Coulomb force of four corners, one step at a time.
 * Written from that definition. Arguments: STEPS L PARTICLES K M RHO. Prints the number of particles
 * and the seconds of all steps; ends with status 1 if a particle is not where it must be. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef struct { double x, y, vx, vy, charge, x0, y0; } particle;

static void force(double dx, double dy, double charge, double other, double *fx, double *fy) {
    double squared = dx * dx + dy * dy, distance = sqrt(squared), f = charge * other / squared;
    *fx += f * dx / distance;
    *fy += f * dy / distance;
}

static double wrapped(double x, double size) { return fmod(x + size, size); }

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

int main(int argc, char **argv) {
    if (argc != 7) return 2;
    long steps = atol(argv[1]), L = atol(argv[2]), n = atol(argv[3]), k = atol(argv[4]);
    double m = atof(argv[5]), rho = atof(argv[6]), size = L;
    double *mesh = malloc(sizeof(double) * (L + 1) * (L + 1));
    particle *p = malloc(sizeof(particle) * (n + L));
    if (!mesh || !p) return 2;
    for (long i = 0; i <= L; i++)
        for (long j = 0; j <= L; j++) mesh[i * (L + 1) + j] = i % 2 ? -1.0 : 1.0;
    double first = n * (1 - rho) / (1 - pow(rho, L)), r = sqrt(0.5);
    double unit = (2 * k + 1) / (2 * (0.5 / r) / (r * r));
    long count = 0;
    for (long i = 0; i < L; i++)
        for (long c = lround(first * pow(rho, i)); c > 0 && count < n + L; c--) {
            double x = i + 0.5, y = (count * 7919) % L + 0.5;
            p[count++] = (particle){x, y, 0.0, m, i % 2 ? -unit : unit, x, y};
        }
    double begun = now();
    for (long s = 0; s < steps; s++)
        for (long q = 0; q < count; q++) {
            long i = (long)p[q].x, j = (long)p[q].y;
            double ax = 0, ay = 0, dx = p[q].x - i, dy = p[q].y - j;
            const double *left = mesh + i * (L + 1) + j, *right = left + L + 1;
            force(dx, dy, p[q].charge, left[0], &ax, &ay);
            force(dx, dy - 1, p[q].charge, left[1], &ax, &ay);
            force(dx - 1, dy, p[q].charge, right[0], &ax, &ay);
            force(dx - 1, dy - 1, p[q].charge, right[1], &ax, &ay);
            p[q].x = wrapped(p[q].x + p[q].vx + 0.5 * ax, size);
            p[q].y = wrapped(p[q].y + p[q].vy + 0.5 * ay, size);
            p[q].vx += ax;
            p[q].vy += ay;
        }
    double seconds = now() - begun;
    for (long q = 0; q < count; q++) {
        double x = fmod(p[q].x0 + (2.0 * k + 1) * steps, size);
        double y = wrapped(fmod(p[q].y0 + m * steps, size), size);
        if (fabs(p[q].x - x) > 1e-6 || fabs(p[q].y - y) > 1e-6) return 1;
    }
    printf("%ld %.9g\n", count, seconds);
    return 0;
}
