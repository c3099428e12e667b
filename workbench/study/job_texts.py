"""The texts of the files in a folder of job scripts, see `slurm`."""

from __future__ import annotations

SETTINGS_HEAD = """\
# Settings of all job scripts in this folder. Set them here, or in the environment of sbatch.
PYTHON="${PYTHON:-python}"                         # the Python that has parallel-miniapps
MINIAPPS="${MINIAPPS:-miniapps}"                   # its command
MPI="${MPI:-pmi2}"                                 # how srun starts ranks; see srun --mpi=list
REMOTE_SHELL="${REMOTE_SHELL:-./remote-shell.sh}"  # how charmrun reaches a node; or: ssh
CHARM="${CHARM-+setcpuaffinity}"                   # pins PEs to cores 0, 1, ... of each node
RUN_LIMIT="${RUN_LIMIT:-1800}"                     # seconds after which a run counts as hanging

# charmrun needs the full paths of its programs.
PYTHON=$(command -v "$PYTHON") || { echo "no Python found: set PYTHON" >&2; exit 2; }
MINIAPPS=$(command -v "$MINIAPPS") || { echo "no miniapps found: set MINIAPPS" >&2; exit 2; }

"""

WHOLE_RUNS = """\
# A minute before the end of its time, and when it is preempted, a job ends its run and goes back
# into the queue. There it makes the runs that have no valid record yet. A job that has completed no
# run does not: its time is too short, or none of its runs is valid.
running= completed=0
again() {
  trap '' USR1 TERM
  if [ -n "$running" ]; then kill "$running" || true; wait "$running" || true; fi
  if [ "$completed" -gt 0 ]; then exec scontrol requeue "$SLURM_JOB_ID"; fi
  echo "no run was completed in the time of this job: give it more" >&2
  exit 1
}
trap again USR1 TERM

# keep NAME COMMAND...: make a run that has no valid record yet; if it fails, store its status.
keep() {
  local name=$1 status=0
  shift
  if grep -qs '"valid": true' "$name.json"; then return 0; fi
  rm -f "$name.failed" "$name.json"
  printf '%q ' "$@" >"$name.command"
  timeout -k 10 "$RUN_LIMIT" "$@" </dev/null >"$name.log" 2>&1 &
  running=$!
  wait "$running" || status=$?  # a signal's trap waits for no command but this one
  running=
  if [ ! -s "$name.json" ]; then echo "$status" >"$name.failed"; fi
  if grep -qs '"valid": true' "$name.json"; then completed=$((completed + 1)); fi
}

"""

RUNS_IN_PARTS = """\
# Runs are made in parts. A part stops MARGIN seconds before the end of the job's time, and when the
# job is preempted. It has written a checkpoint then, NAME.part-K.h5, and its record, which becomes
# NAME.part-K.json. The job goes back into the queue, and makes the next part from that checkpoint.
# A part without a record is made again. A job whose runs got no further does not go back: its time
# is too short, or none of its runs is valid.
MARGIN="${MARGIN:-120}"  # seconds for the last rounds, the checkpoint, and the checks of the result
GRACE="${GRACE:-50}"     # seconds from the signal to a run until it is killed
FOREVER=1000000000       # seconds, if the end of the job's time is not known
running= run= completed=0

# left: the seconds until the end of the job's time.
left() {
  local text=${SLURM_JOB_END_TIME:-}
  if [[ $text =~ ^[0-9]+$ ]]; then echo $((text - $(date +%s))); return; fi
  text=$(squeue -h -j "$SLURM_JOB_ID" -o %L)  # such as 1-02:03:04, 2:03 or UNLIMITED
  if [[ ${text//[[:space:]]/} =~ ^(([0-9]+)-)?(([0-9]+):)?([0-9]+):([0-9]+)$ ]]; then
    local -a part=("${BASH_REMATCH[@]}")
    echo $(((10#0${part[2]} * 24 + 10#0${part[4]}) * 3600 + 10#${part[5]} * 60 + 10#${part[6]}))
  else
    echo "$FOREVER"
  fi
}

# made NAME: how many parts of a run have a record.
made() {
  local part=0
  while [ -e "$1.part-$part.json" ]; do part=$((part + 1)); done
  echo "$part"
}

# stopped NAME, finished NAME: whether a run's valid record is that of a part, or of the end.
stopped() { grep -qs '"valid": true' "$1.json" && grep -qs '"stopped": {"step":' "$1.json"; }
finished() { grep -qs '"valid": true' "$1.json" && ! stopped "$1"; }

# parts NAME: the options of the next part of a run.
parts() {
  local part limit
  if finished "$1"; then return; fi
  part=$(made "$1")
  limit=$(($(left) - MARGIN))
  echo "--checkpoint $1.part-$part.h5 --time-limit $((limit > 1 ? limit : 1))s"
  if [ "$part" -gt 0 ]; then echo "--resume $1.part-$((part - 1)).h5"; fi
}

again() {
  trap '' USR1 TERM
  if [ -n "$running" ]; then
    kill -USR1 "$running" || true  # srun passes it on to the run, charmrun ends by it
    wait "$running" || true
    store_part
  fi
  if [ "$completed" -gt 0 ]; then exec scontrol requeue "$SLURM_JOB_ID"; fi
  echo "no run got further in the time of this job: give it more" >&2
  exit 1
}
trap again USR1 TERM

# store_part: store what the last run has left.
store_part() {
  if [ ! -s "$run.json" ]; then kill -KILL -- "-$running" 2>/dev/null || true; fi  # what is left
  running=
  if stopped "$run"; then
    mv "$run.json" "$run.part-$(made "$run").json"  # its checkpoint was whole before
  elif finished "$run"; then
    rm -f "$run".part-*.h5
  else
    return 0
  fi
  completed=$((completed + 1))  # a part has made steps, too
}

# keep NAME COMMAND...: make the next part of a run that has no valid record of its end yet; if it
# fails, store its status.
keep() {
  local status=0
  run=$1
  shift
  if finished "$run"; then return 0; fi
  if [ "$(left)" -le "$MARGIN" ]; then again; fi
  rm -f "$run.failed" "$run.json"
  printf '%q ' "$@" >"$run.command"
  # In the foreground: else timeout may send a signal twice, and a run ends at once by the second.
  setsid timeout --foreground -s USR1 -k "$GRACE" "$RUN_LIMIT" "$@" </dev/null >"$run.log" 2>&1 &
  running=$!
  wait "$running" || status=$?  # a signal's trap waits for no command but this one
  if stopped "$run"; then store_part; again; fi
  store_part
  if [ ! -s "$run.json" ]; then echo "$status" >"$run.failed"; fi
}

"""

SETTINGS_TAIL = """\
# steady JOB: store the noise of the machine, and its description.
steady() {
  "$MINIAPPS" study noise </dev/null >>"$1.noise"
}

# nodes FILE: charmrun's node list, a line for each task, so that PEs are placed like ranks.
# With "host NAME ++cpus K", the charmrun of Charm4Py 1.1 starts all PEs on this machine.
nodes() {
  local tasks times name
  local -a names counts=()
  mapfile -t names < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
  for tasks in ${SLURM_TASKS_PER_NODE//,/ }; do  # such as 4(x2),3
    times=1
    case $tasks in *x*) times=${tasks##*x} times=${times%?} ;; esac
    for ((; times > 0; times--)); do counts+=("${tasks%%(*}"); done
  done
  echo "group main" >"$1"
  for name in "${!names[@]}"; do
    for ((tasks = ${counts[name]}; tasks > 0; tasks--)); do echo "host ${names[name]}"; done
  done >>"$1"
}
"""

SETTINGS_TEXT = SETTINGS_HEAD + WHOLE_RUNS + SETTINGS_TAIL
CHECKPOINTS_TEXT = SETTINGS_HEAD + RUNS_IN_PARTS + SETTINGS_TAIL  # of study --checkpoints

REMOTE_SHELL_TEXT = """\
#!/bin/bash
# charmrun's remote shell, without ssh: remote-shell.sh HOST OPTION... '/bin/bash -f'.
# charmrun gives the text of a script on standard input and waits until this returns. That script
# starts the PEs in the background and ends. Slurm would then end the step and with it the PEs, so
# the step waits for the end of a pipe that the PEs inherit, and this script does not wait for it.
set -u
script=$(cat)
srun --overlap --nodes=1 --ntasks=1 --nodelist="$1" --cpu-bind=none --input=none \\
  /bin/bash -c '/bin/bash -f <<<"$1" 9>&1 | cat' remote-shell "$script" </dev/null &
"""

JOB_TEXT = """\
#!/bin/bash
#SBATCH --job-name={name}
#SBATCH --output={name}.out
#SBATCH --ntasks={pes}
#SBATCH --cpus-per-task=1
#SBATCH --exclusive
#SBATCH --requeue
#SBATCH --signal=B:USR1@60
{extra}# Trial {trial} of the study, its runs on {counted_pes}, in shuffled order.
set -u
cd "${{SLURM_SUBMIT_DIR:-$(dirname "$0")}}" || exit 2
. ./settings.sh || exit 2
steady {name}
"""

SUBMIT_TEXT = """\
#!/bin/bash
# Submits all jobs in shuffled order. Options go to sbatch: ./submit.sh --partition=NAME
# Runs with a record are not repeated, so this may be called again for missing runs.
set -eu
cd "$(dirname "$0")"
"""
