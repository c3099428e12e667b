"""``miniapps selftest``: makes known mistakes in the program and sees them caught."""
