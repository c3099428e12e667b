"""Runs students' blocks of this project's contract, in one process and in random orders."""
