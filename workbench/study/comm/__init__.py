"""Campaigns of communication benchmarks: what a paper claims about messages, measured here."""
