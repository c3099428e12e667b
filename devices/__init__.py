"""Where arrays of blocks are and kernels run: memory, messages and clocks of CPU and GPU."""
