/* A sweep of AMR as PRK's programs write it, beside the app amr: one loop applies the star stencil of
 * radius 2 and adds its results up, another adds 1 to all values. Compiled and called by amr.py. */

void sweep(double *u, double *sums, long rows, long columns)
{
    for (long i = 2; i < rows - 2; i++)
        for (long j = 2; j < columns - 2; j++) {
            double *at = u + i * columns + j;
            double near = (at[columns] - at[-columns]) + (at[1] - at[-1]);
            double far = (at[2 * columns] - at[-2 * columns]) + (at[2] - at[-2]);
            sums[i * columns + j] += 0.25 * near + 0.125 * far;
        }
    for (long i = 0; i < rows; i++)
        for (long j = 0; j < columns; j++)
            u[i * columns + j] += 1.0;
}
