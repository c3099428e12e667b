"""Runs students' programs for Charm4Py."""
