"""Kernels that pack faces and unpack ghosts."""
