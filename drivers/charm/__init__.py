"""The charm driver: chares of Charm4Py, several per PE, that migrate."""
