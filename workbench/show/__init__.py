"""Figures, animations and traces of one run."""
