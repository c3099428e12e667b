"""Scaling studies: a matrix of runs, repeated in shuffled order, validated, analysed and drawn.

`command` is the command line and `options` reads its arguments. `plan` makes the matrix of runs,
`runner` launches them, `validation` decides which runs count, `noise` measures how steady the
machine is, and `campaign` stores everything in one file. `analysis` computes the results; `tables`,
`figures`, `report` and `export` present them. `slurm` runs the same study on a cluster, by scripts
whose text is in `job_texts`, and `joined` joins the parts of a run that was stopped there.
"""
