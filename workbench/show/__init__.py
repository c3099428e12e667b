"""Figures, films and traces of one run."""
