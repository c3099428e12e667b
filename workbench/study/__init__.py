"""Scaling studies: a matrix of runs, repeated and shuffled, judged, and drawn.

`options` reads what is asked and `command` does it: `plan` says what is run, `runner` runs it,
`validation` says what counts, `noise` how steady the machine was, and `campaign` keeps it in a file.
`analysis` makes numbers of that, `tables`, `figures`, `report` and `export` show them; `slurm` has
a cluster run the same study.
"""
