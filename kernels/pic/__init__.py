"""Kernels of PIC."""
