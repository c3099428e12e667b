"""Functions that the kernels of both stencils share."""
