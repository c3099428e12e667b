"""What kernels for a GPU do and cost: on a GPU, and as machine code without one."""
