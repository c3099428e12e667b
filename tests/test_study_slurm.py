"""Studies on a cluster: the job scripts really run, with stand-ins for Slurm's commands.

The stand-ins are as strict as the real ones where it matters: `sbatch` runs a copy of the script
from another place, and the `srun` that stands in for ssh ends whatever its command leaves behind.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import skips
import support

from miniapps.parameters import InputError
from miniapps.workbench import environment
from miniapps.workbench.study import slurm
from miniapps.workbench.study.campaign import Campaign

STAND_INS = {
    "srun": """\
ranks=1 host= mpi=
while [[ $1 == -* ]]; do
  case $1 in
    -n) ranks=$2; shift ;;
    --ntasks=*) ranks=${1#*=} ;;
    --nodelist=*) host=${1#*=} ;;
    --mpi=none) mpi=none ;;
  esac
  shift
done
if [[ -n $mpi ]]; then
  export SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=$ranks
  for ((rank = 0; rank < ranks; rank++)); do SLURM_PROCID=$rank "$@" & done
  for ((rank = 0; rank < ranks; rank++)); do wait -n || exit; done
  exit 0
fi
if [[ -z $host ]]; then exec "$MPIEXEC" -n "$ranks" "$@"; fi
echo "$host" >>"$HOSTS_SEEN"
setsid "$@" & step=$!
wait "$step"
kill -KILL -- "-$step" 2>/dev/null || true
""",
    "sleep": "",  # charmrun's script waits a second for nothing before it leaves PEs behind
    "scontrol": 'test "$*" = "show hostnames here" && hostname\n',
    "sbatch": """\
pes=$(sed -n 's/^#SBATCH --ntasks=//p' "$1")
export SLURM_JOB_ID=1 SLURM_PROCID=0 SLURM_JOB_NODELIST=here SLURM_SUBMIT_DIR=$PWD
export SLURM_TASKS_PER_NODE=$pes SLURM_JOB_CPUS_PER_NODE=$pes
echo "$1" >>submitted
cp "$1" "$SPOOL/slurm_script"
cd / && exec bash "$SPOOL/slurm_script"
""",
}


def jobs(
    folder: Path,
    trials: int = 1,
    extra: tuple[str, ...] = (),
    checkpoints: bool = False,
    **values: Any,
) -> list[Path]:
    study = support.small_study(**values)
    return slurm.write_jobs(study, study.specs(), trials, folder, extra, checkpoints)


def run_jobs(folder: Path, tmp_path: Path, more: dict[str, str] | None = None) -> None:
    """Submit the jobs of a folder to the stand-ins."""
    place = tmp_path / "stand-ins"
    place.mkdir(exist_ok=True)
    for name, text in STAND_INS.items():
        (place / name).write_text(f"#!/bin/bash\n{text}")
        (place / name).chmod(0o755)
    variables = {
        "PATH": f"{place}:{support.BIN}:{os.environ['PATH']}",
        "PYTHON": sys.executable,
        "MPIEXEC": str(support.BIN / "mpiexec"),
        "HOSTS_SEEN": str(tmp_path / "hosts"),
        "SPOOL": str(place),
        "PYTHONPATH": os.pathsep.join([str(support.ROOT), os.environ.get("PYTHONPATH", "")]),
    }
    support.execute([folder / "submit.sh"], 200, variables | (more or {}), check=True)


def forged(folder: Path, trial: int, point: int, **changes: Any) -> Path:
    """Put a record into a folder as if its run had been made."""
    head = json.loads((folder / "head.json").read_text())
    study, asked = head["study"], head["points"][point]
    given = asked | {key: study[key] for key in ("app", "warmup", "steps")} | changes
    record = support.whole_record(given, 1.0)
    path = folder / f"trial-{trial:02}-point-{point:02}.json"
    path.write_text(json.dumps(record))
    path.with_suffix(".command").write_text("srun -n 1 miniapps")
    return path


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM])
@pytest.mark.parametrize("completed", [True, False])
def test_a_job_whose_time_ends(number: signal.Signals, completed: bool, tmp_path: Path) -> None:
    """Mistake: a run that outlives its job, or one that counts; a job that is requeued for ever."""
    (tmp_path / "settings.sh").write_text(slurm.SETTINGS_TEXT)
    (tmp_path / "scontrol").write_text('#!/bin/bash\necho "$*" >asked\n')
    (tmp_path / "scontrol").chmod(0o755)
    (tmp_path / "record").write_text('{"valid": true}')
    made = "keep one cp record one.json\n" * completed
    # The run that is ended would leave a record, if it were not.
    script = f'set -u\n. ./settings.sh\n{made}keep two sh -c "sleep 60; touch two.json"\n'
    env = support.clean_environment({"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHON": "true"})
    env |= {"MINIAPPS": "true", "SLURM_JOB_ID": "7"}
    job = subprocess.Popen(
        ["bash", "-c", script], cwd=tmp_path, env=env, stderr=subprocess.PIPE, text=True
    )
    support.wait_for((tmp_path / "two.log").exists)
    job.send_signal(number)
    _, said = job.communicate(timeout=support.PATIENCE_S)
    asked = tmp_path / "asked"
    assert (asked.read_text() if asked.exists() else "") == "requeue 7\n" * completed
    assert ("no run was completed" in said) is (job.returncode == 1) is not completed
    left = {file.name for file in tmp_path.glob("*.json")} | {
        f.name for f in tmp_path.glob("*.fa*")
    }
    assert left == {"one.json"} if completed else not left


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_the_jobs_run_and_what_comes_back_is_the_study(tmp_path, capsys):
    """Mistake: scripts that were never run; PEs that end with the shell that started them."""
    folder, path = tmp_path / "jobs", tmp_path / "campaign.jsonl"
    used = skips.expected("serial", "file", "mpi", "charm")
    of_charm = 2 if "charm" in used else 0  # points: with and without balancing
    count = 3 + of_charm
    scripts = jobs(folder, drivers=used, pes=(2,))
    run_jobs(folder, tmp_path, {"RUN_LIMIT": "60"})
    assert (folder / "submitted").read_text().split() == [script.name for script in scripts]
    assert slurm.collect(folder, path) == 0
    campaign = Campaign.read(path)
    points, runs = campaign.head["points"], list(campaign.of("run"))
    assert sorted(run["point"] for run in runs) == list(range(len(points))) == list(range(count))
    assert len({run["record"]["state_hash"] for run in runs}) == 1
    for run in runs:
        record, point = run["record"], points[run["point"]]
        assert {key: record[key] for key in point if key != "arguments"} == {
            key: point[key] for key in point if key != "arguments"
        }
        assert record["valid"] and record["oversubscribed"] is False
        assert len(record["rounds"]["compute_s"]) == record["pes"]
        first = Path(sys.executable).name if record["driver"] == "charm" else "srun"
        assert run["command"].split()[0] == first
    assert len(list(campaign.of("noise"))) == len(runs) + len(scripts)  # before, between, after
    assert [start["host"]["cores"] > 0 for start in campaign.of("start")] == [True] * len(scripts)
    assert all(start["clock_tick_s"] > 0 for start in campaign.of("start"))
    hosts = (tmp_path / "hosts").read_text().split() if of_charm else []
    assert hosts == [os.uname().nodename] * of_charm  # a shell per charm run
    before = path.read_bytes()
    assert slurm.collect(folder, path) == 0
    assert path.read_bytes() == before
    assert (
        capsys.readouterr().out.splitlines()[1] == f"{count} of {count} runs count, 0 of them new"
    )


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_run_that_failed_is_said_and_made_again(tmp_path, capsys):
    """Mistake: a job that dies without a trace, or a study that is stuck with its failures."""
    folder, path = tmp_path / "jobs", tmp_path / "campaign.jsonl"
    jobs(folder, pes=(1,), drivers=("serial", "mpi"))
    kept = forged(folder, 0, 0)
    run_jobs(folder, tmp_path, {"MPIEXEC": "false"})
    assert slurm.collect(folder, path) == 1
    assert capsys.readouterr().err.splitlines() == [
        "FAILED  trial-00-point-01: failed with status 1",
        "1 of 2 runs count, 1 of them new",
    ]
    assert slurm.collect(folder, path) == 1
    assert len(list(Campaign.read(path).of("dropped"))) == 1
    run_jobs(folder, tmp_path)
    assert json.loads(kept.read_text())["state_hash"] == "ab" * 32  # not made a second time
    kept.unlink()
    path.unlink()
    run_jobs(folder, tmp_path)
    assert slurm.collect(folder, path) == 0 and not list(folder.glob("*.failed"))


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_a_run_that_hangs_is_ended(tmp_path: Path) -> None:
    """Mistake: one hanging run that uses up the time of the whole job."""
    jobs(tmp_path / "jobs", pes=(1,), drivers=("mpi",))
    program = tmp_path / "hang"
    program.write_text("#!/bin/bash\nexec /bin/sleep 100\n")
    program.chmod(0o755)
    run_jobs(tmp_path / "jobs", tmp_path, {"RUN_LIMIT": "1", "MPIEXEC": str(program)})
    assert (tmp_path / "jobs" / "trial-00-point-00.failed").read_text() == "124\n"


def test_scripts_are_clean_and_travel(tmp_path: Path) -> None:
    """Mistake: a place of this machine in a script that another one is to run."""
    folder = tmp_path / "jobs"
    scripts = jobs(folder, trials=2, extra=("--time=10:00", "--partition=long nodes"))
    assert {script.name for script in scripts} == {
        f"trial-0{trial}-pes-000{pes}.sh" for trial in (0, 1) for pes in (1, 2)
    }
    for path in folder.glob("*.sh"):
        text = path.read_text()
        subprocess.run(["bash", "-n", path], check=True)
        for place in (tmp_path, support.ROOT, support.BIN.parent, Path.home()):
            assert str(place) not in text.replace("#!/bin/bash", "")
    text = scripts[0].read_text()
    assert "#SBATCH --time=10:00\n#SBATCH --partition=long nodes\n" in text
    assert text.index("#SBATCH --partition") < text.index("set -u")
    assert "set -u\n" in text


def test_points_are_shuffled_and_the_same_again(tmp_path: Path) -> None:
    """Mistake: an order that favours one configuration, or that nobody can repeat."""
    orders = []
    for folder in (tmp_path / "one", tmp_path / "two"):
        scripts = jobs(folder, trials=6, odfs=(1, 2, 4))
        made = {path.name: re.findall(r"^keep (\S+)", path.read_text(), re.M) for path in scripts}
        orders.append(made)
    assert orders[0] == orders[1] and list(orders[0]) == list(orders[1])
    assert list(orders[0]) != sorted(orders[0])
    runs = [
        [name[-2:] for name in made] for script, made in orders[0].items() if "pes-0002" in script
    ]
    assert len({tuple(order) for order in runs}) > 1
    assert all(sorted(order) == sorted(runs[0]) for order in runs)
    every = {name for made in orders[0].values() for name in made}
    assert len(every) == 6 * len(support.small_study(odfs=(1, 2, 4)).specs())


def test_nodes_are_listed_as_often_as_they_have_tasks(tmp_path: Path) -> None:
    """Mistake: PEs that are placed on nodes differently from ranks."""
    jobs(tmp_path)
    line = 'scontrol() { printf "%s\\n" a b c; }; . ./settings.sh; nodes list'
    variables = {"SLURM_JOB_NODELIST": "x", "SLURM_TASKS_PER_NODE": "2(x2),1"}
    variables |= {"PYTHON": "true", "MINIAPPS": "true", "PATH": os.environ["PATH"]}
    subprocess.run(["bash", "-uc", line], cwd=tmp_path, env=variables, check=True)
    hosts = "host a\nhost a\nhost b\nhost b\nhost c\n"
    assert (tmp_path / "list").read_text() == "group main\n" + hosts


def test_cores_of_all_nodes_of_a_job_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mistake: every run on several nodes taken for oversubscribed."""
    assert environment.counts_of_nodes("4(x2),3") == [4, 4, 3]
    monkeypatch.setenv("SLURM_JOB_CPUS_PER_NODE", "16(x3),8")
    assert environment.cores_of_run() == 56
    monkeypatch.setenv("MINIAPPS_CORES", "3")
    assert environment.cores_of_run() == 3
    monkeypatch.delenv("SLURM_JOB_CPUS_PER_NODE")
    monkeypatch.delenv("MINIAPPS_CORES")
    assert environment.cores_of_run() == len(os.sched_getaffinity(0))


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    """Mistake: a campaign with holes that looks whole."""
    jobs(tmp_path, trials=2, pes=(1,), drivers=("serial", "mpi"))
    for trial, point in ((0, 0), (0, 1), (1, 1)):
        forged(tmp_path, trial, point)
    collected = slurm.merge(tmp_path, tmp_path / "campaign.jsonl")
    assert collected.missing == [(1, 0)] and not collected.complete and collected.added == 3
    assert collected.lines()[0] == "MISSING trial-01-point-00: no file came back"
    forged(tmp_path, 1, 0)
    collected = slurm.merge(tmp_path, tmp_path / "campaign.jsonl")
    assert collected.complete and collected.added == 1


def test_a_wrong_run_does_not_count_until_it_is_made_again(tmp_path: Path) -> None:
    """Mistake: collecting without validating."""
    jobs(tmp_path, pes=(1,), drivers=("serial", "mpi"))
    forged(tmp_path, 0, 0)
    forged(tmp_path, 0, 1, state_hash="cd")
    path = tmp_path / "campaign.jsonl"
    collected = slurm.merge(tmp_path, path)
    assert collected.added == 1 and [entry["point"] for entry in collected.failed] == [1]
    forged(tmp_path, 0, 1)
    assert slurm.merge(tmp_path, path).complete


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("app", "stencil3d"),
        ("driver", "mpi"),
        ("pes", 2),
        ("problem", {"size": [61, 44]}),
        ("warmup", 3),
        ("steps", 9),
        ("steps", 0),
        ("lb_period", 3),
    ],
)
def test_records_of_other_runs_are_refused(tmp_path: Path, key: str, value: Any) -> None:
    """Mistake: taking a file for what its name says it is."""
    jobs(tmp_path, pes=(1,), drivers=("serial",))
    forged(tmp_path, 0, 0, **{key: value})
    with pytest.raises(InputError, match=f"is of another run: {key} is"):
        slurm.collect(tmp_path, tmp_path / "campaign.jsonl")
    assert not (tmp_path / "campaign.jsonl").exists()


def test_records_with_the_steps_of_a_small_problem_are_taken(tmp_path: Path) -> None:
    """Mistake: comparing with the steps of the whole problem."""
    values = {"kind": "granularity", "halvings": 2, "pes": (1,), "drivers": ("serial",)}
    jobs(tmp_path, **values)
    for point, steps in enumerate((8, 16, 32)):
        forged(tmp_path, 0, point, steps=steps)
    assert slurm.merge(tmp_path, tmp_path / "campaign.jsonl").added == 3
    forged(tmp_path, 0, 1, steps=17)
    with pytest.raises(InputError, match="is of another run: steps is 17, not 16"):
        slurm.collect(tmp_path, tmp_path / "campaign.jsonl")


@pytest.mark.parametrize("key", ["valid", "state_hash", "wall_s", "rounds"])
def test_records_that_lack_something_are_refused(tmp_path: Path, key: str) -> None:
    """Mistake: a traceback for what another version on the cluster has written."""
    jobs(tmp_path, pes=(1,), drivers=("serial",))
    path = forged(tmp_path, 0, 0)
    record = json.loads(path.read_text())
    del record[key]
    path.write_text(json.dumps(record))
    with pytest.raises(InputError, match=f"lacks {key}: was it another version"):
        slurm.collect(tmp_path, tmp_path / "campaign.jsonl")


def test_folders_are_not_mixed(tmp_path: Path) -> None:
    """Mistake: records of one study under the points of another."""
    jobs(tmp_path, pes=(1,), drivers=("serial",))
    jobs(tmp_path, pes=(1,), drivers=("serial",), trials=3)
    with pytest.raises(InputError, match="another study"):
        jobs(tmp_path, pes=(1,), drivers=("serial",), steps=9)
    jobs(tmp_path, pes=(1,), drivers=("serial",), trials=1)
    assert json.loads((tmp_path / "head.json").read_text())["trials"] == 3  # none is forgotten
    (tmp_path / "trial-03-point-00.json").write_text("{}")
    with pytest.raises(InputError, match="is no run of this study"):
        slurm.collect(tmp_path, tmp_path / "campaign.jsonl")


@pytest.mark.parametrize("text", ["", "{", "[]"])
def test_files_that_are_no_records_are_refused(tmp_path: Path, text: str) -> None:
    """Mistake: a traceback for a file that a full disk has cut."""
    jobs(tmp_path, pes=(1,), drivers=("serial",))
    (tmp_path / "trial-00-point-00.json").write_text(text)
    with pytest.raises(InputError, match="is no JSON object"):
        slurm.collect(tmp_path, tmp_path / "campaign.jsonl")
    (tmp_path / "head.json").write_text("{}")
    with pytest.raises(InputError, match="is no head of a study"):
        slurm.collect(tmp_path, tmp_path / "campaign.jsonl")


@pytest.mark.parametrize("option", ["time=1", "--time=1\nrm -rf x", ""])
def test_options_that_are_none_are_refused(tmp_path: Path, option: str) -> None:
    """Mistake: an option of sbatch that becomes a line of the script."""
    with pytest.raises(InputError, match="--sbatch"):
        jobs(tmp_path, extra=(option,))


def test_submitting_without_slurm_is_refused(tmp_path, monkeypatch):
    """Mistake: a traceback where there is no cluster."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="no sbatch found"):
        slurm.submit(tmp_path)
