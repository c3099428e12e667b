"""Studies on clusters whose runs continue from checkpoints: scripts, and records that are joined.

The scripts run with stand-ins for Slurm's commands, which put a job back into the queue.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import skips
import support
from test_study_slurm import STAND_INS, forged, jobs, run_jobs

from miniapps import apps
from miniapps.parameters import InputError
from miniapps.workbench.run.revalidation import objection
from miniapps.workbench.study import slurm
from miniapps.workbench.study.campaign import Campaign
from miniapps.workbench.study.job_texts import CHECKPOINTS_TEXT
from miniapps.workbench.study.joined import joined
from miniapps.workbench.study.plan import NO_BALANCING

STOPPED = '{"valid": true, "stopped": {"step": 4, "by": "signal"}}'
NAME = "trial-00-point-00"

# The job is made anew as long as it is put back into the queue. Only the first time it has an end.
REQUEUING = {
    "sbatch": STAND_INS["sbatch"].replace(
        'cd / && exec bash "$SPOOL/slurm_script"',
        """\
echo 2:01 >"$SPOOL/left"
cd / && while true; do
  rm -f "$SPOOL/requeued"
  bash "$SPOOL/slurm_script" & echo $! >"$SPOOL/job"
  wait $!
  [ -e "$SPOOL/requeued" ] || exit 0
  echo UNLIMITED >"$SPOOL/left"
done
""",
    ),
    "scontrol": 'if [ "$1" = requeue ]; then touch "$SPOOL/requeued"; else hostname; fi\n',
    # Like the real one, it passes SIGUSR1 on, and kills its tasks by SIGTERM.
    "srun": STAND_INS["srun"].replace(
        'exec "$MPIEXEC" -n "$ranks" "$@"',
        """\
"$MPIEXEC" -n "$ranks" "$@" & tasks=$!
  trap 'kill -USR1 "$tasks"' USR1
  trap 'kill -KILL "$tasks"' TERM
  while true; do wait "$tasks"; status=$?; kill -0 "$tasks" 2>/dev/null || exit "$status"; done""",
    ),
    "squeue": 'test "$*" = "-h -j 1 -o %L" && cat "$SPOOL/left"\n',
}

# In every process: PEs agree from some step of a part on, and wait there until they are to stop.
# The last part, which begins when the others have left their records, waits for nothing.
UNTIL_STOPPED = """
import time
from pathlib import Path
from miniapps.drivers.agreements import Agreements
usual, limit = Agreements.due, time.monotonic() + 120
def due(self, segment):
    last = Path("{record}").exists()
    while not (last or self.stopping or self.wish()[0] or time.monotonic() > limit):
        time.sleep(0.02)
    return segment.stop - self.job.start >= {steps} and usual(self, segment)
Agreements.due = due
"""


def handles_signals(pid: Path) -> bool:
    """Whether a process handles SIGUSR1."""
    for line in (pid / "status").read_text().splitlines():
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) >> (signal.SIGUSR1 - 1) & 1)
    return False


def resumed_pes(folder: Path) -> list[Path]:
    """The PEs of a run of a job in a folder, which is resumed and handles signals."""
    found = []
    for pid in Path("/proc").iterdir():
        try:
            words = (pid / "cmdline").read_text().split("\0") if pid.name.isdigit() else []
            ours = "--resume" in words and Path(words[0]).name.startswith("python")
            if ours and (pid / "cwd").resolve() == folder and handles_signals(pid):
                found.append(pid)
        except OSError:  # it has ended
            continue
    return found


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("driver", "count"), [("mpi", 3), ("charm", 2)])
def test_a_run_that_is_stopped_continues(driver, count, tmp_path, monkeypatch):
    """Mistake: a run that begins again, or whose times are those of its last part.

    It is stopped by the time of its job, and where signals reach it, by one.
    """
    skips.expected(driver)
    monkeypatch.setattr("test_study_slurm.STAND_INS", STAND_INS | REQUEUING)
    hook = UNTIL_STOPPED.format(steps=6, record=f"{NAME}.part-{count - 2}.json")
    support.in_every_process(tmp_path, hook)
    pic = support.small_problem(apps.load("pic"))
    balanced = ("Rotate", 4) if driver == "charm" else NO_BALANCING
    values = {"app": "pic", "problem": pic, "steps": 30}
    values |= {"pes": (2,), "drivers": (driver,), "balancer_settings": (balanced,)}
    folder, path = (tmp_path / "jobs").resolve(), tmp_path / "campaign.jsonl"
    jobs(folder, checkpoints=True, **values)

    def signal_the_second() -> None:
        support.wait_for(lambda: len(resumed_pes(folder)) == 2, 120)
        job = int((tmp_path / "stand-ins" / "job").read_text())
        os.kill(job, signal.SIGUSR1)

    sender = threading.Thread(target=signal_the_second if count == 3 else list)
    sender.start()
    run_jobs(folder, tmp_path, {"PYTHONPATH": f"{support.ROOT}:{tmp_path}"})
    sender.join()
    assert slurm.collect(folder, path) == 0
    (run,) = Campaign.read(path).of("run")
    record = run["record"]
    files = [folder / f"{NAME}.part-{number}.json" for number in range(count - 1)]
    parts = [json.loads(file.read_text()) for file in [*files, folder / f"{NAME}.json"]]
    reasons = [part["stopped"]["by"] for part in parts[:-1]]
    assert reasons == ["--time-limit", "signal"][: count - 1]
    assert record["parts"] == count and record["steps"] == values["steps"]
    assert all(0 < part["steps"] < values["steps"] for part in parts)
    assert (parts[0].get("migrations", 0) > 0) is (driver == "charm")
    (whole,) = support.records_of([shlex.join(record_words(folder))])
    assert record["state_hash"] == whole["state_hash"] != parts[0]["state_hash"]
    assert sum(record["rounds"]["count"]) == values["steps"]
    for key in ("wall_s", "compute_s", "jit_s", "checkpoints_s"):
        assert record[key] == pytest.approx(sum(part.get(key, 0) for part in parts), rel=1e-4)
    assert record["migrations"] == sum(part.get("migrations", 0) for part in parts)
    assert not [*folder.glob("*.h5"), *folder.glob(".miniapps*")]
    before = path.read_bytes()
    assert slurm.collect(folder, path) == 0 and path.read_bytes() == before


def record_words(folder: Path) -> list[str]:
    """The arguments of the only run of a study, after ``run``."""
    (point,) = json.loads((folder / "head.json").read_text())["points"]
    words: list[str] = point["arguments"][1:]
    return words


# Scripts ------------------------------------------------------------------------------------------


class Job:
    """A job of one run, whose program a test writes; it has the time that ``squeue`` prints."""

    def __init__(self, folder: Path, left: str = "UNLIMITED") -> None:
        self.folder = folder
        (folder / "settings.sh").write_text(CHECKPOINTS_TEXT)
        self.write("scontrol", 'echo "$*" >>asked')
        self.write("squeue", f'echo "{left}"')
        (folder / "job.sh").write_text("set -u\n. ./settings.sh\nkeep one ./program $(parts one)\n")

    def write(self, name: str, text: str) -> None:
        """Write a program."""
        (self.folder / name).write_text(f"#!/bin/bash\n{text}\n")
        (self.folder / name).chmod(0o755)

    def start(self, program: str, **variables: str) -> subprocess.Popen[str]:
        """Start the job; ``program``: its run, which notes what it is given."""
        self.write("program", f'echo "$*" >>calls\n{program}')
        given = {"PATH": f"{self.folder}:{os.environ['PATH']}", "PYTHON": "true"}
        given |= {"MINIAPPS": "true", "SLURM_JOB_ID": "7"} | variables
        env = support.clean_environment(given)
        words = ["bash", "job.sh"]
        return subprocess.Popen(words, cwd=self.folder, env=env, stderr=subprocess.PIPE, text=True)

    def run(self, program: str, **variables: str) -> tuple[int, str]:
        """Run the job; returns its status and what it has said."""
        job = self.start(program, **variables)
        _, said = job.communicate(timeout=support.PATIENCE_S)
        return job.returncode, said

    def lines(self, name: str) -> list[str]:
        """The lines of a file."""
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []

    def left(self) -> set[str]:
        """What the run has left."""
        return {path.name for path in self.folder.glob("one.*")} - {"one.log", "one.command"}


def test_parts_of_a_run(tmp_path: Path) -> None:
    """Mistake: a part that is left out, a killed one that counts, and checkpoints for ever."""
    job, limit = Job(tmp_path), f"--time-limit {10**9 - 120}s"
    write = "touch one.part-{0}.h5; echo '{1}' >one.json; exit 4"
    assert job.run(write.format(0, STOPPED)) == (0, "")
    assert job.lines("asked") == ["requeue 7"]
    assert job.left() == {"one.part-0.json", "one.part-0.h5"}
    # A part that is killed has a checkpoint, but no record.
    assert job.run("touch one.part-1.h5; exit 9") == (0, "")
    assert job.lines("asked") == ["requeue 7"] and job.lines("one.failed") == ["9"]
    assert job.run("echo '{\"valid\": true}' >one.json") == (0, "")
    assert job.left() == {"one.part-0.json", "one.json"}
    second = f"--checkpoint one.part-1.h5 {limit} --resume one.part-0.h5"
    assert job.lines("calls") == [f"--checkpoint one.part-0.h5 {limit}", second, second]
    assert job.run("exit 1") == (0, "") and len(job.lines("calls")) == 3


def test_a_part_whose_record_was_not_moved(tmp_path: Path) -> None:
    """Mistake: a job that died between the two is taken for the end of the run."""
    job = Job(tmp_path)
    (tmp_path / "one.json").write_text(STOPPED)
    job.run("echo '{\"valid\": true}' >one.json")
    assert [call.split()[1] for call in job.lines("calls")] == ["one.part-0.h5"]
    assert job.left() == {"one.json"}


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM])
@pytest.mark.parametrize("writes", [True, False])
def test_a_job_that_is_preempted(number: signal.Signals, writes: bool, tmp_path: Path) -> None:
    """Mistake: a run that has no time to write its checkpoint, and one that has time for ever."""
    job = Job(tmp_path)
    does = f"echo '{STOPPED}' >one.json; exit 4" if writes else "echo again >>signals"
    program = f"stop() {{ {does}; }}\ntrap stop USR1\n"
    program += "sleep 70 & echo $! >child; touch begun\nuntil wait; do :; done"
    started = job.start(program, GRACE="1")
    support.wait_for((tmp_path / "begun").exists)
    started.send_signal(number)
    _, said = started.communicate(timeout=support.PATIENCE_S)
    assert job.lines("asked") == ["requeue 7"] * writes
    assert ("no run got further" in said) is (started.returncode == 1) is not writes
    assert job.left() == ({"one.part-0.json"} if writes else set())
    assert job.lines("signals") == ["again"] * (not writes)
    child = Path("/proc") / (tmp_path / "child").read_text().strip()
    if writes:
        os.kill(int(child.name), signal.SIGKILL)  # the run has not ended it
    else:
        support.wait_for(lambda: not child.exists() or "(zombie)" in (child / "status").read_text())


def test_a_run_that_hangs(tmp_path: Path) -> None:
    """Mistake: a run that does not stop, and uses up the time of the job."""
    job = Job(tmp_path)
    job.run("trap '' USR1\nsleep 70", RUN_LIMIT="1", GRACE="1")
    assert job.left() == {"one.failed"} and not job.lines("asked")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1-02:03:04", 93784),
        ("08:09:10", 29350),
        ("2:03", 123),
        ("0:09", 9),
        (" 12:00 ", 720),
        ("UNLIMITED", 10**9),
        ("NOT_SET", 10**9),
        ("INVALID", 10**9),
        ("", 10**9),
    ],
)
def test_time_that_is_left(text: str, seconds: int, tmp_path: Path) -> None:
    """Mistake: hours taken for minutes, days left out, and 08 read as an octal number."""
    job = Job(tmp_path, text)
    (tmp_path / "job.sh").write_text("set -u\n. ./settings.sh\nleft >found\n")
    assert job.run("exit 0") == (0, "") and job.lines("found") == [str(seconds)]


def test_the_end_of_a_job(tmp_path: Path) -> None:
    """Mistake: a part that begins when there is no time for it, or that has no limit."""
    job = Job(tmp_path)
    status, said = job.run("exit 1", SLURM_JOB_END_TIME=str(int(time.time()) + 110))
    assert status == 1 and "no run got further" in said and not job.lines("calls")
    job.run("exit 1", SLURM_JOB_END_TIME=str(int(time.time()) + 220))
    limit = int(job.lines("calls")[0].split()[-1].removesuffix("s"))
    assert 60 < limit <= 100


def test_without_checkpoints_scripts_have_none(tmp_path: Path) -> None:
    """Mistake: runs that pay for what they do not use."""
    for script in jobs(tmp_path / "plain", drivers=("serial", "charm")):
        plain = script.parent / "settings.sh"
        assert "part" not in script.read_text() + plain.read_text()
    for script in jobs(tmp_path / "parts", drivers=("serial", "charm"), checkpoints=True):
        subprocess.run(["bash", "-n", script], check=True)
        runs = script.read_text().replace(" \\\n", " ").splitlines()
        lines = [line for line in runs if line.startswith("keep ")]
        for name, line in ((line.split()[1], line) for line in lines):
            assert line.count(f"--json {name}.json $(parts {name})") == 1
            assert "charm" not in line or line.index("$(parts") < line.index("--no-launch")
        assert lines
    subprocess.run(["bash", "-n", tmp_path / "parts" / "settings.sh"], check=True)


def test_what_cannot_have_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mistake: an option that is taken and does nothing."""
    words = "study strong jacobi2d --preset tiny --pes 1 --checkpoints".split()
    assert "--checkpoints yes: only with --launcher slurm" in support.refused(words)
    monkeypatch.setattr(slurm, "offers_checkpoints", lambda block: False)
    with pytest.raises(InputError, match="--checkpoints given: app jacobi2d does not offer them"):
        jobs(tmp_path / "jobs", checkpoints=True)
    assert not (tmp_path / "jobs").exists()
    monkeypatch.undo()
    rest = ["--launcher", "slurm", "--dry-run", "--folder", tmp_path / "jobs"]
    assert support.in_process(*words, *rest).returncode == 0
    assert "$(parts " in next((tmp_path / "jobs").glob("trial-*.sh")).read_text()


# Records ------------------------------------------------------------------------------------------

HASHES = ["1a" * 32, "2b" * 32, "3c" * 32]
ENDS = [5, 8, 12]  # of the parts of a run of 10 steps after 2 of warm-up
STEP_S = [1.0, 3.0, 2.0]


def parts(**changes: Any) -> list[dict[str, Any]]:
    """The records of three parts of a run on two PEs, of which the second one computes half."""
    found = []
    for number, (begin, end, step_s) in enumerate(zip([2, *ENDS], ENDS, STEP_S, strict=False)):
        given = {"app": "jacobi2d", "driver": "charm", "pes": 2, "odf": 2, "balancer": "Greedy"}
        given |= {"lb_period": 3, "warmup": 2, "problem": {"size": [4, 4]}, "lb_first": None}
        given |= {"steps": end - begin, "state_hash": HASHES[number], "peak_rss_bytes": 9 - number}
        past = zip(ENDS[:number], HASHES, strict=False)
        given["resumed"] = [{"step": step, "state_hash": of} for step, of in past]
        record = support.whole_record(given, step_s)
        first = list(range(begin, end))
        wall, load = step_s * len(first), [step_s / 2] * len(first)
        record["rounds"] |= {"first": first, "compute_s": [load, [half / 2 for half in load]]}
        record["lb"] = [
            {"step": step, "moved": 1 + number, "imbalance_before": 1.0, "imbalance_after": 1.0,
             "seconds": 0.0, "paid_after": None} for step in (3, 6, 9) if begin < step < end
        ]  # fmt: skip
        record |= {"migrations": len(record["lb"]) * (1 + number), "compute_s": wall * 0.75}
        record |= {"utilisation": 0.375, "imbalance": 4 / 3, "first_step_at": 100.0 * number}
        record["clocks"] = {"passed_s": wall, "second_s": wall, "launch_s": None}
        names = ("load_average", "waited", "switches_per_s", "steal")
        record["disturbance"] = dict.fromkeys(names, [0.1, 0.3, 0.2][number])
        if number < 2:
            record["stopped"] = {"step": end, "by": "signal"}
        found.append(record | changes)
        assert objection(found[-1]) is None
    return found


def test_times_of_all_parts() -> None:
    """Mistake: times of one part, means of parts of different lengths, and sums of peaks."""
    whole = joined(parts(agreements_s=0.25, snapshots_s=1.0))
    assert isinstance(whole, dict) and objection(whole) is None
    walls = [*[1.0] * 3, *[3.0] * 3, *[2.0] * 4]
    assert whole["rounds"]["first"] == list(range(2, 12)) and whole["rounds"]["wall_s"] == walls
    assert whole["steps"] == 10 and whole["parts"] == 3 and whole["resumed"] == []
    assert "stopped" not in whole and whole["state_hash"] == HASHES[-1]
    assert whole["wall_s"] == 20 and whole["step_time_s"] == {"min": 1, "median": 2, "max": 3}
    assert whole["rate"]["value"] == pytest.approx(10 / 20)  # a point per step
    assert whole["compute_s"] == 15 and whole["utilisation"] == 0.375
    assert whole["imbalance"] == pytest.approx(4 / 3)
    assert [entry["step"] for entry in whole["lb"]] == [3, 6, 9] and whole["migrations"] == 6
    assert (whole["jit_s"], whole["import_s"]) == (1.5, 3.0)
    assert (whole["agreements_s"], whole["snapshots_s"]) == (0.75, 3.0)
    assert whole["clocks"] == {"passed_s": 20, "second_s": 20, "launch_s": None}
    assert set(whole["disturbance"].values()) == {0.3} and whole["peak_rss_bytes"] == 9
    assert whole["first_step_at"] == 0


def test_a_run_that_was_never_stopped() -> None:
    """Mistake: other numbers, or another reason, because the record was joined with no other."""
    only = parts()[0]
    del only["stopped"]
    found = joined([only])
    assert isinstance(found, dict) and found.pop("parts") == 1
    assert found == only
    assert str(joined([only | {"valid": False}])).startswith("not valid: ")
    two = [parts()[0] | {"valid": False}, parts()[1]]
    assert str(joined(two)).startswith("part 0: not valid: ")


def test_bytes_that_all_parts_have_staged() -> None:
    """Mistake: bytes of the last part only, and a part that sent nothing through shared memory."""
    some, path = parts(), {"path": "staged", "reason": "no GPU-aware MPI"}
    some[0]["transport"] = path | {"staged_bytes": 40}
    some[1]["transport"] = None
    some[2]["transport"] = path | {"staged_bytes": 2}
    whole = joined(some)
    assert isinstance(whole, dict) and whole["transport"] == path | {"staged_bytes": 42}
    some[0]["transport"] = path | {"staged_bytes": "many"}
    assert "record.transport must be an object of path" in str(joined(some))


def test_parts_that_have_computed_nothing() -> None:
    """Mistake: a division by zero, or an imbalance of blocks that only send messages."""
    idle = [part | {"compute_s": 0.0, "utilisation": 0.0, "imbalance": 1.0} for part in parts()]
    for part in idle:
        part["rounds"] = part["rounds"] | {"compute_s": [[0.0] * part["steps"]] * 2}
    whole = joined(idle)
    assert isinstance(whole, dict) and whole["imbalance"] == 1.0 and whole["compute_s"] == 0.0


def test_parts_with_and_without_loads_of_rounds() -> None:
    """Mistake: an imbalance that is a mean over parts, whatever they compute."""
    some = parts()
    del some[0]["rounds"]["compute_s"]
    some[0] |= {"imbalance": 2.0}
    whole = joined(some)
    assert isinstance(whole, dict) and objection(whole) is None
    assert "compute_s" not in whole["rounds"]
    assert whole["imbalance"] == pytest.approx((2 * 3 + 4 / 3 * 17) / 20)


def test_a_part_that_was_stopped_in_its_warm_up() -> None:
    """Mistake: a run that is refused, or begins again, because one of its parts has no times."""
    first, *rest = parts()
    measured = ("step_time_s", "wall_s", "rate", "compute_s", "utilisation", "imbalance")
    untimed = {k: v for k, v in first.items() if k not in (*measured, "migrations", "rounds")}
    early = {"step": 1, "state_hash": HASHES[0]}
    untimed |= {"steps": 0, "lb": [], "stopped": {"step": 1, "by": "--time-limit"}}
    second = parts()[0] | {"resumed": [early], "state_hash": "4d" * 32}
    for part in rest:
        others = part["resumed"][1:]
        part["resumed"] = [early, {"step": 5, "state_hash": "4d" * 32}, *others]
    whole = joined([untimed, second, *rest])
    assert isinstance(whole, dict) and objection(whole) is None
    assert whole["parts"] == 4 and whole["steps"] == 10 and whole["wall_s"] == 20
    assert whole["jit_s"] == 2.0


def test_cores_and_what_is_oversubscribed() -> None:
    """Mistake: speeds of a run of which one part shared its cores."""
    some = parts()
    some[1]["host"] = some[1]["host"] | {"cores": 1}
    some[1]["oversubscribed"] = True
    whole = joined(some)
    assert isinstance(whole, dict) and objection(whole) is None and whole["oversubscribed"]


def test_a_part_that_ends_where_blocks_are_balanced() -> None:
    """Mistake: a run that is refused, as its blocks were not balanced between two parts."""
    some = parts()
    balanced = [{**some[0]["lb"][0], "step": step} for step in (6, 9)]
    for number, entry in enumerate(([], [balanced[0]], [balanced[1]])):
        some[number] |= {"lb": entry, "migrations": len(entry), "lb_first": 5, "lb_period": 4}
    some[0]["lb"] = some[1]["lb"] = []
    some[0]["migrations"] = some[1]["migrations"] = 0
    whole = joined(some)  # due before steps 5, where a part begins, and 9
    assert isinstance(whole, dict) and objection(whole) is None
    alone = {key: value for key, value in whole.items() if key != "parts"}
    assert objection(alone) == "contradicts itself: lb must have the steps [5, 9]"


Change = Callable[[list[dict[str, Any]]], Any]
WRONG: dict[str, tuple[str, Change]] = {
    "other state": (
        "part 2 does not continue from the end of part 1",
        lambda p: p[1].update(state_hash="ff" * 32),
    ),
    "other step": (
        "part 1 does not continue from the end of part 0",
        lambda p: p[0]["stopped"].update(step=4),
    ),
    "exchanged": ("continues from a checkpoint", lambda p: p.insert(0, p.pop(1))),
    "first missing": ("the records of the parts before are missing", lambda p: p.pop(0)),
    "middle missing": ("part 1 does not continue", lambda p: p.pop(1)),
    "last missing": ("stopped after step 8, and not yet continued", lambda p: p.pop()),
    "not stopped": ("part 1 was not stopped, but there is a part 2", lambda p: p[1].pop("stopped")),
    "not valid": ("part 1: not valid", lambda p: p[1].update(valid=False)),
    "no record": ("part 0: is no whole record", lambda p: p[0].pop("lb")),
    "other problem": (
        "part 1 has another problem than part 0",
        lambda p: p[0].update(problem={"size": [4, 8]}),
    ),
    "other PEs": ("part 2 has another blocks", lambda p: p[2].update(blocks=[2])),
    "other driver": ("part 2 has another driver", lambda p: p[2].update(driver="mpi")),
    "other version": ("part 2 has another versions", lambda p: p[2].update(versions={})),
    "other processor": (
        "part 2 has another processor",
        lambda p: p[2].update(host=p[2]["host"] | {"processor": "Slide rule"}),
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_parts_of_other_runs_are_refused(name: str) -> None:
    """Mistake: a run made of parts that are not its own."""
    reason, change = WRONG[name]
    some = parts()
    change(some)
    found = joined(some)
    assert isinstance(found, str) and reason in found


def test_parts_that_are_refused_are_made_again(tmp_path: Path) -> None:
    """Mistake: a campaign with a part of a run, or one that is stuck with a wrong part."""
    jobs(tmp_path, pes=(1,), drivers=("serial", "mpi"))
    end = {"step": 6, "state_hash": "cd" * 32}
    forged(tmp_path, 0, 1)
    last = forged(tmp_path, 0, 0, steps=4)
    part = last.with_suffix(".part-0.json")

    def rewritten(path: Path, source: Path, **changes: Any) -> None:
        record = json.loads(source.read_text()) | changes
        record["rounds"]["first"] = list(range(changes["first"], changes["first"] + 4))
        path.write_text(json.dumps(record))

    rewritten(part, last, first=2, stopped=end | {"by": "signal"}, state_hash="cd" * 32)
    rewritten(last, last, first=6, resumed=[end | {"state_hash": "ef" * 32}])
    path = tmp_path / "campaign.jsonl"
    collected = slurm.merge(tmp_path, path)
    assert (
        collected.lines()[0] == f"FAILED  {NAME}: part 1 does not continue from the end of part 0"
    )
    # Without its last part a run is not complete, and not a failure of which a status tells.
    rewritten(last, last, first=6, resumed=[end])
    kept = last.read_text()
    last.unlink()
    collected = slurm.merge(tmp_path, path)
    assert collected.lines()[0] == f"FAILED  {NAME}: stopped after step 6, and not yet continued"
    last.with_suffix(".failed").write_text("9\n")
    assert slurm.merge(tmp_path, path).lines()[0] == f"FAILED  {NAME}: failed with status 9"
    last.write_text(kept)
    assert slurm.merge(tmp_path, path).complete
    (run,) = (run for run in Campaign.read(path).of("run") if run["point"] == 0)
    assert run["record"]["parts"] == 2 and run["record"]["steps"] == 8
