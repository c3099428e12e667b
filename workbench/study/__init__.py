"""Scaling studies: a matrix of runs, repeated and shuffled, judged, and drawn.

`plan` says what is run, `conduct` runs it, `campaign` keeps what came of it in a file, `analysis`
makes numbers of that, `figures`, `report` and `export` show them; `slurm` hands the same study to
a cluster.
"""
