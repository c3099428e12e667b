"""Measurements of the apps, and what their results are written into."""
