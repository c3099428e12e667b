"""The kernels of AMR: a star stencil that is applied to a grid, and whose results are added up."""

REACH = 2  # points, of the stencil
