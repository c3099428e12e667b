"""``miniapps comm``: launches communication benchmarks, and shows what they have measured."""
