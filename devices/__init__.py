"""Where blocks' arrays live and their kernels run: memory, messages and clocks of CPU and GPU."""
