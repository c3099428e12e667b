"""Models of public programs that are wrong: apps that only `miniapps reproduce` finds."""
