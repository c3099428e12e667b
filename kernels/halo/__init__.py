"""Kernels that pack faces into messages and unpack messages into ghosts."""
