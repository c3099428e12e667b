"""What the kernels of both stencils share."""
