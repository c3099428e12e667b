"""What a process gets from its caller and its system: signals, files, limits, names, locales."""

from __future__ import annotations

import errno
import io
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
import support

from miniapps import drivers
from miniapps.devices import system
from miniapps.drivers import slurm
from miniapps.drivers.file import launch as file_launch
from miniapps.drivers.job import RunError
from miniapps.drivers.machine import Reading, disturbance
from miniapps.workbench import cli, doctor, environment, errors, inherited
from miniapps.workbench.run import launch, processes, scratch
from miniapps.workbench.run.launch import escaped, guarded, reason_in
from miniapps.workbench.run.output import Hdf5Store
from miniapps.workbench.run.progress_file import NoProgressFile
from miniapps.workbench.run.record import summary
from miniapps.workbench.run.replaced import aside
from miniapps.workbench.run.revalidation import contradiction

LAUNCH = support.ROOT / "drivers" / "file" / "launch.py"

# Signals and standard files ----------------------------------------------------------------------


@pytest.mark.parametrize("number", processes.ENDING)
def test_an_ignored_signal_stays_ignored(number):
    """Mistake: a run under nohup that ends when its user logs out."""
    usual = signal.signal(number, signal.SIG_IGN)
    try:
        processes.end_by_signals()
        assert signal.getsignal(number) is signal.SIG_IGN
        signal.signal(number, signal.SIG_DFL)
        processes.end_by_signals()
        assert signal.getsignal(number) not in (signal.SIG_IGN, signal.SIG_DFL)
    finally:
        signal.signal(number, usual)


def ignoring(*numbers: signal.Signals) -> None:
    """Ignore signals in a child process, and block SIGTERM, as some callers do."""
    for number in numbers:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})


def test_the_launcher_of_the_file_driver_ignores_what_its_caller_ignores(tmp_path):
    """Mistake: SIGHUP ends its ranks under nohup; or a rank's status is lost with SIGCHLD."""
    rank = "kill -HUP $PPID; sleep 0.1; exit 5"
    command = [sys.executable, LAUNCH, "-n", "1", "--dir", tmp_path, "--", "/bin/sh", "-c", rank]
    ignored = signal.SIGHUP, signal.SIGCHLD
    done = subprocess.run(command, preexec_fn=lambda: ignoring(*ignored), capture_output=True)
    assert done.returncode == 5 and not list(tmp_path.iterdir())


SIGNALS = """
import os, signal

if "MINIAPPS_RUN_FOLDER" not in os.environ:
    os.environ["TOP"] = str(os.getpid())
    import atexit
    atexit.register(lambda: open(os.environ["SEEN"], "w").write(
        f"{signal.pthread_sigmask(signal.SIG_BLOCK, [])} {os.environ.get('MPLBACKEND')} "
        f"{len(os.listdir('/proc/self/task'))}"))
else:
    for number in (signal.SIGHUP, signal.SIGTERM):
        os.kill(int(os.environ["TOP"]), number)
"""
LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}


@pytest.mark.slow
@pytest.mark.launch
def test_a_run_in_an_environment_that_nobody_meant(tmp_path):
    """Mistake: a run that dies of an ignored signal, or cannot make its files.

    Or one that cannot be ended, or that a name of a folder or of a display ends, or one with a
    thread of NumPy's for each core, which a user with few processes may not start.
    """
    folder = tmp_path / "sp ace\n%s'\"-\xe4"
    folder.mkdir()
    mine = support.in_every_process(tmp_path, SIGNALS)
    mine |= {"SEEN": str(tmp_path / "seen"), "TMPDIR": str(folder)}

    def caller() -> None:
        ignoring(signal.SIGHUP, signal.SIGTERM, signal.SIGCHLD)
        os.umask(0o777)

    done = subprocess.run(
        [support.BIN / "miniapps", "run", "echo", "--preset", "tiny", "--driver", "file", "-n", "2"]
        + ["--output", folder / "o.h5"],
        preexec_fn=caller,
        capture_output=True,
        env=support.clean_environment(LOCALE | mine | {"MPLBACKEND": "none such"}),
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "seen").read_text() == "set() None 1"
    assert [file.name for file in folder.iterdir()] == ["o.h5"]
    assert (folder / "o.h5").stat().st_mode & 0o777 == 0o600  # root could read it with any


WRONG = """
from miniapps.contract import Check
from miniapps.echo import Block, Problem, reference

def validate(*_):
    return [Check("always wrong", 1, 0)]
"""


@pytest.mark.launch
@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("run wrong --preset tiny", 1),
        ("run echo --preset tiny --driver mpi -n 2 --launcher /bin/false", 3),
    ],
)
def test_who_reads_the_output_does_not_change_the_status(words, status, tmp_path):
    """Mistake: status 0 of a wrong or a failed run if nobody reads what it says."""
    (tmp_path / "wrong").mkdir()
    (tmp_path / "wrong" / "__init__.py").write_text(WRONG)
    read, write = os.pipe()
    os.close(read)
    command = [support.BIN / "miniapps", *words.split()]
    environment = support.clean_environment() | {"MINIAPPS_PATH": str(tmp_path)}
    with open(write, "wb") as closed:
        done = subprocess.run(command, stdout=closed, stderr=closed, env=environment)
    assert done.returncode == status


@pytest.mark.launch
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_behind_standard_output_is_told(unbuffered):
    """Mistake: status 0 or 120, and no result."""
    with open("/dev/full", "wb") as full:
        command = [support.BIN / "miniapps", "list"]
        environment = support.clean_environment() | {"PYTHONUNBUFFERED": unbuffered}
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, env=environment)
    told = b"miniapps: standard output cannot be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (3, told)


def test_a_full_disk_behind_a_run_is_told_once(monkeypatch, capsys):
    """Mistake: a second line, that the run failed, with the words of the system."""
    monkeypatch.setattr(sys, "stdout", inherited.output(os.open("/dev/full", os.O_WRONLY)))
    assert cli.main(["run", "echo", "--preset", "minimal"]) == 3
    told = "miniapps: standard output cannot be written: No space left on device\n"
    assert capsys.readouterr().err == told


def test_figures_need_no_home():
    """Mistake: lines of matplotlib about its cache between those of a command."""
    program = "from miniapps.workbench.show.marks import styled\nwith styled(): pass"
    environment = support.clean_environment() | {"MPLCONFIGDIR": "/dev/null/none"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, env=environment)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])
def test_characters_that_the_locale_lacks_are_printed_as_escapes(errors):
    """Mistake: UnicodeEncodeError for a path or an app with an umlaut; C has surrogateescape."""
    read, write = os.pipe()
    like = io.TextIOWrapper(io.BytesIO(), "ascii", errors)
    print("\u00e4 \udce4", file=inherited.output(write, like), flush=True)
    os.close(write)
    with open(read, "rb") as file:
        assert file.read() == b"\\xe4 \\udce4\n"


# Paths, and what is removed ----------------------------------------------------------------------

NAMES = ["two\nlines", "end ", "\udce4\udcff", "-rf", "a'b\"c$HOME`id`%s\\0", "*"]


def test_names_reach_the_guard_as_they_are():
    """Mistake: a name of which a shell reads another one."""
    for name in NAMES:
        program = 'read -r name; name=$(printf "%b." "$name"); printf "%s" "${name%.}"'
        given = escaped(Path(name)).encode() + b"\n"
        done = subprocess.run(["/bin/sh", "-c", program], input=given, capture_output=True)
        assert done.stdout == os.fsencode(name)


@pytest.mark.launch
def test_the_guard_removes_what_was_made_and_nothing_else(tmp_path):
    """Mistake: a folder or a file of the user's that has the first line of a name as its name."""
    theirs = [tmp_path / "run", tmp_path / "out", tmp_path / "out.part"]
    made, folder = tmp_path / "out\n.part ", tmp_path / "run\nfolder "
    for one in (*theirs, folder):
        one.mkdir()
    made.write_bytes(b"")
    (folder / "file").write_bytes(b"")
    child = os.fork()
    if not child:
        try:
            with guarded(["/bin/true"], folder) as (_, remember):
                remember(made)
                remember(theirs[2])  # a folder is none of the files
                os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    end = time.monotonic() + 60
    while (folder.exists() or made.exists()) and time.monotonic() < end:
        time.sleep(0.05)
    assert sorted(tmp_path.iterdir()) == sorted(theirs)


def test_temporary_files_have_names_of_this_programs_own(tmp_path):
    """Mistake: a user's file beside the output that a run overwrites or removes."""
    store = Hdf5Store(tmp_path / "o.h5")
    part = aside(store.path)
    theirs = {"o.h5", "o.h5.part", "o.h5.part.0", f"{part.name}.kept", f"{part.name}ial"}
    for name in (*theirs, part.name, f"{part.name}.0", f"{part.name}.12"):
        (tmp_path / name).write_bytes(b"")
    store.clear()
    assert {file.name for file in tmp_path.iterdir()} == theirs
    assert len(aside(tmp_path / ("x" * 255)).name) < 100


def test_the_folder_for_temporary_files_is_found_without_a_file(tmp_path, monkeypatch):
    """Catches Python's test of that folder, whose file stays if the process is killed."""
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_get_default_tempdir", lambda: pytest.fail("tested"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with scratch.scratch_folder() as folder:
        assert folder.parent == tmp_path
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "missing"))
    with scratch.scratch_folder() as folder:
        assert folder.parent == Path("/tmp")


def test_only_memory_of_mpi_is_removed(tmp_path, monkeypatch):
    """Mistake: a failed run that removes the user's data in /dev/shm, or libraries installed there.

    One line of the map has a name that is not UTF-8.
    """
    names = ["sm_segment.x.1", "mpich_shm_1", "mine.npy", "venv/lib.so", "sm_segment.d/mine"]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    maps = "".join(f"0-1 rw-s 0 00:1 7 {tmp_path}/{name}\n" for name in [*names, "\udce4"])
    monkeypatch.setattr(processes, "SHARED", tmp_path)
    monkeypatch.setattr(system, "text", lambda path: maps)
    assert processes.shared_files(1) == {tmp_path / name for name in names[:2]}


def test_a_folder_with_a_lock_of_another_program_is_left_alone(tmp_path):
    """Mistake: removing a folder because of its name, or a copy of one."""
    folder = tmp_path / f"{file_launch.PREFIX}old"
    folder.mkdir()
    lock = folder / file_launch.LOCK
    for text in ("", file_launch.PREFIX, f"{file_launch.PREFIX}1"):
        lock.write_text(text)
        assert file_launch.remove_stale(tmp_path) == []
    lock.write_text(file_launch.mark(folder))
    assert file_launch.remove_stale(tmp_path) == [folder]


def test_a_folder_of_messages_that_nobody_guards_is_removed(tmp_path, monkeypatch):
    """Mistake: files in memory that stay where the guard cannot be started."""

    def refused(*_: object, **more: object) -> None:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", refused)
    with pytest.raises(BlockingIOError), file_launch.owned(tmp_path):
        pass
    assert not list(tmp_path.iterdir())


def test_a_current_folder_that_was_removed_is_told(tmp_path, monkeypatch):
    """Mistake: "No such file or directory" by Numba or a launcher, and no name of a file."""
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    done = support.in_process("run", "echo", "--preset", "tiny")
    told = "miniapps: the current folder has been removed: change to another one\n"
    assert (done.returncode, done.stderr) == (2, told)


# What the system tells ---------------------------------------------------------------------------

TWO = {"cpu.max": "200000 100000", "memory.max": "4096"}
QUOTA = "cpu.cfs_quota_us"
ONE = {QUOTA: "150000", "cpu.cfs_period_us": "100000", "memory.limit_in_bytes": "4096"}


@pytest.mark.parametrize(
    ("own", "files", "cores", "memory"),
    [
        ("0::/a/b\n", {f"a/{name}": text for name, text in TWO.items()}, 2.0, 4096),
        ("0::/\n", TWO, 2.0, 4096),
        ("0::/elsewhere/c\n", TWO, 2.0, 4096),  # a container that sees the host's name
        ("0::/a\n", TWO | {"a/cpu.max": "50000 100000"}, 0.5, 4096),
        ("0::/a\n", {"a/cpu.max": "max 100000", "a/memory.max": "max"}, None, None),
        ("4:cpu,cpuacct:/d\n", {f"cpu,cpuacct/d/{n}": t for n, t in ONE.items()}, 1.5, None),
        (
            "4:cpu:/\n3:memory:/d\n",
            {f"{n[:3].replace('mem', 'memory')}/{n}": ONE[n] for n in ONE},
            1.5,
            4096,
        ),
        (
            "4:cpu:/\n",
            {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"},
            None,
            None,
        ),
        ("0::/../..\n", {"cpu.max": ""}, None, None),
        ("", {}, None, None),
    ],
)
def test_limits_of_control_groups_are_known(tmp_path, monkeypatch, own, files, cores, memory):
    """Mistake: a quota of cores that only the outer group has, or that counts for none."""
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    real = system.text
    monkeypatch.setattr(system, "GROUPS", tmp_path)
    monkeypatch.setattr(system, "text", lambda p: own if p == "/proc/self/cgroup" else real(p))
    assert (system.cpu_quota(), system.memory_limit()) == (cores, memory)


@pytest.mark.parametrize(("quota", "cores", "whole"), [(1.9, 1, 1), (0.5, 1, 0), (None, 3, 3)])
def test_a_quota_limits_the_cores(monkeypatch, quota, cores, whole):
    """Mistake: a run whose PEs wait for each other, and that is not said to be oversubscribed."""
    monkeypatch.setattr(system, "cpu_quota", lambda: quota)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    monkeypatch.delenv(environment.CORES_VARIABLE, raising=False)
    monkeypatch.delenv(environment.SLURM_CORES, raising=False)
    assert (environment.cores(), environment.cores_of_run()) == (cores, whole)
    said = [finding.found for finding in doctor.cpu_quota()]
    assert all(f"more than {whole} PE" in finding.cost for finding in doctor.cpu_quota())
    told = f"the time of {quota:g} of 3 cores, by the control group" if quota else None
    assert said == [told] * (quota is not None)


def test_a_run_with_less_than_a_core_is_oversubscribed(monkeypatch):
    """Mistake: a right run that fails, as its record has no cores."""
    monkeypatch.setattr(system, "cpu_quota", lambda: 0.5)
    found = support.run_record("echo", "--preset", "tiny")
    assert found["valid"] and found["oversubscribed"] and found["host"]["cores"] == 0
    assert "oversubscribed: 1 PE on less than one core" in summary(found)


@pytest.mark.parametrize(("size", "written"), [(4096, False), (resource.RLIM_INFINITY, True)])
def test_bytecode_is_written_whole_or_not(monkeypatch, size, written):
    """Mistake: half a file of bytecode, as under `ulimit -f`: each later import fails."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (size, size))
    inherited.write_whole_bytecode()
    assert sys.dont_write_bytecode is not written


def test_a_start_that_cannot_be_known_is_absent(monkeypatch):
    """Mistake: a negative time, with which a study refuses its own record, or one in other units.

    Linux tells when a process was started in ticks since the start of the system.
    """
    second = os.sysconf("SC_CLK_TCK")
    monkeypatch.setattr(time, "clock_gettime", {time.CLOCK_BOOTTIME: 50.0}.get)
    for told, age_s in ((None, None), (60 * second, None), (42 * second, 8.0)):
        stat = "" if told is None else "1 (x y) S " + " ".join(["0"] * 18) + f" {told} 0"
        monkeypatch.setattr(system, "text", lambda path, stat=stat: stat)
        assert system.age_s() == age_s
    monkeypatch.undo()
    monkeypatch.setattr(system, "age_s", lambda: None)
    record = support.run_record("echo", "--preset", "tiny")
    assert "import_s" not in record and contradiction(record) is None
    assert "imports unknown" in support.in_process("run", "echo", "--preset", "tiny").stdout


@pytest.mark.parametrize(
    ("number", "limit", "told"),
    [
        (resource.RLIMIT_NOFILE, 63, "; a process may open 63 files here (ulimit -n)"),
        (resource.RLIMIT_NPROC, 0, "; a user may have 0 processes and threads here (ulimit -u)"),
        (resource.RLIMIT_AS, 9, "; a process may have 9 bytes of addresses here (ulimit -v)"),
        (resource.RLIMIT_NPROC, 128, ""),
    ],
)
def test_a_low_limit_is_told_with_what_fails_for_it(monkeypatch, tmp_path, number, limit, told):
    """Mistake: a launcher or a library that cannot go on, and names no limit."""
    usual = resource.RLIM_INFINITY
    monkeypatch.setattr(resource, "getrlimit", lambda n: (limit if n == number else usual, usual))
    assert errors.explained(OSError("no more")) == f"no more{told}"
    (tmp_path / launch.RUNS).touch()
    (tmp_path / launch.LOG).write_text("it fails")
    ended = f"the launcher ended with status 1: it fails{told}"
    assert launch._failed(tmp_path, None, 1) == ended
    (tmp_path / launch.ERRORS).write_text("PE 1, no more\n")  # which the PE has explained
    assert launch._failed(tmp_path, None, 1) == "PE 1, no more"


def test_counters_that_go_back_are_no_negative_shares():
    """Mistake: a record that is refused because a container shows another host's counters."""
    before, after = Reading(0.0, 0.0, 9.0, 9, 9, 99), Reading(1.0, 1.0, 0.0, 0, 0, 9)
    assert disturbance(before, after) == (0.0, 0.0, 0.0)


def test_nothing_is_told_of_processes(monkeypatch):
    """Mistake: PEs that are taken for dead because /proc is not there."""
    assert processes.process_state(os.getpid()) in "RS"
    monkeypatch.setattr(system, "text", lambda path: "")
    assert processes.process_state(os.getpid()) == "R"
    assert processes.process_state(0) == processes.process_state(2**22 + 1) == "X"
    assert processes.parent_of(os.getpid()) == 0 and processes.words_of(os.getpid()) == []


@pytest.mark.parametrize("told", [True, False])
def test_the_end_of_a_child_is_noticed(monkeypatch, told):
    """Mistake: an AttributeError or ENOSYS where there is no pidfd_open; or no end to the wait."""
    if not told:
        monkeypatch.delattr(os, "pidfd_open")
    assert doctor.watching().works is told
    child = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE)
    with child, system.waited_for(child.pid) as wait:
        begin = time.monotonic()
        assert not wait(0.1) and time.monotonic() - begin >= 0.1
        child.kill()
        assert wait(60) and wait(60)
        assert child.wait() == -signal.SIGKILL and wait(60)


# Launchers ---------------------------------------------------------------------------------------

LINE = "-" * 74
ROOT = f"""prterun has detected an attempt to run as root.

Running as root is *strongly* discouraged.

You can override this protection by adding an option.
{LINE}
"""
SLOTS = f"""a warning
{LINE}
There are not enough slots available in the system to satisfy the 40
slots that were requested by the application:

  /bin/true

Either request fewer procs for your application, or make more slots
available for use.
{LINE}
"""
RANK = f"""Fatal error in internal_Init_thread: error stack:
check(167):  Runtime environment uses unsupported PMI version PMIx. Aborting.
{LINE}
prterun detected that one or more processes exited with non-zero status,
thus causing the job to be terminated. The first process to do so was:

   Process name: [prterun-vm-17870@1,1]
   Exit code:    16
{LINE}
"""
ENOUGH = (
    "There are not enough slots available in the system to satisfy the 40 slots that were "
    "requested by the application: /bin/true"
)


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        (ROOT, "prterun has detected an attempt to run as root."),
        (SLOTS, ENOUGH),
        (RANK, "check(167):  Runtime environment uses unsupported PMI version PMIx. Aborting."),
        ("x\nfork: Resource temporarily unavailable\ny", "fork: Resource temporarily unavailable"),
        ("one\nlast\n=====\n", "last"),
        (f"{LINE}\n{LINE}\n", ""),
        ("", "it printed nothing"),
    ],
)
def test_the_reason_is_found_in_a_launchers_banner(log, reason):
    """Mistake: the last line of Open MPI's advice in place of the reason."""
    assert reason_in(log) == reason


@pytest.mark.parametrize(
    ("more", "size"),
    [({}, None), ({"SLURM_STEP_ID": "0"}, 2), ({"SLURM_STEP_ID": slurm.NO_STEPS[1]}, None)],
)
def test_a_job_step_is_told_from_a_batch_script(monkeypatch, more, size):
    """Mistake: each task of a step launches a run of its own; or none is launched in a script."""
    for name, value in ({"SLURM_PROCID": "0", "SLURM_NTASKS": "2"} | more).items():
        monkeypatch.setenv(name, value)
    found = slurm.launched("x", [slurm.STEP])
    assert (found and found.size) == size


def test_ranks_of_a_launcher_that_tells_no_number_make_no_runs_of_their_own(monkeypatch):
    """Mistake: two serial runs under `prun -n 2`; or none where its variable is left over."""
    run = "run", "echo", "--preset", "tiny", "--dry-run"
    parents = {os.getppid(): ("bash", ["S", "7"]), 7: ("prte", ["S", "1"])}
    monkeypatch.setattr(support, "of_a_launcher", lambda variable: variable.startswith("SLURM"))
    monkeypatch.setenv("PMIX_RANK", "1")
    assert support.in_process(*run).returncode == 0
    monkeypatch.setattr(system, "stat_of", lambda process: parents[process])
    for driver in ("serial", "file", "mpi"):
        done = support.in_process(*run, "--driver", driver, "-n", 1 if driver == "serial" else 2)
        assert done.returncode == (0 if driver == "mpi" else 2), done.stderr
    monkeypatch.setenv("PMIX_RANK", "0")  # which speaks for all
    done = support.in_process(*run)
    assert "cannot run on the ranks of this MPI launcher: use --driver mpi" in done.stderr


STARTING = [
    *("batch -", "verify echo", "adversary echo", "selftest echo", "demo", "study strong echo"),
    *("study comm ombpy", "lesson check x.py", "lesson mark x --salt 1"),
]


def in_a_step(monkeypatch, tasks: int, rank: int = 0) -> None:
    """As a rank of a Slurm step."""
    monkeypatch.setattr(support, "of_a_launcher", lambda variable: False)
    for name, value in (("PROCID", str(rank)), ("STEP_NUM_TASKS", str(tasks)), ("STEP_ID", "0")):
        monkeypatch.setenv(f"SLURM_{name}", value)


@pytest.mark.parametrize("words", STARTING)
def test_each_task_of_a_step_starts_no_runs_of_its_own(monkeypatch, words, tmp_path):
    """Mistake: `srun -n 2 miniapps batch` makes all runs twice at once, with times."""
    in_a_step(monkeypatch, 2)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    done = support.in_process(*words.split())
    told = f"command {words.split()[0]}: cannot run on the ranks of this Slurm step: it starts its"
    assert done.returncode == 2 and done.stderr == f"miniapps: {told} own\n", done.stderr
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("words", ["run echo --driver mpi", "run echo --driver file", "comm bw"])
def test_another_number_of_ranks_than_the_launchers_is_refused(monkeypatch, words):
    """Mistake: advice on MPI's launchers where `srun --pty bash` has one task."""
    in_a_step(monkeypatch, 1)
    done = support.in_process(*words.split(), "-n", 2)
    assert done.returncode == 2 and "has 1 rank: give the same number to both" in done.stderr


def test_a_rank_without_a_rank_0_gives_its_reason(monkeypatch, capsys):
    """Mistake: status 3 without a word, where variables of a Slurm step are left over."""
    in_a_step(monkeypatch, 2, rank=1)
    for there, told in ((False, "miniapps: run failed: rank 1, alone\n"), (True, "")):
        monkeypatch.setattr(drivers, "under", lambda programs, there=there: there)
        NoProgressFile().fail(RunError("alone"))
        assert capsys.readouterr().err == told


def test_lines_leave_at_once_where_python_does_not_buffer() -> None:
    """Catches a buffer of our own, lost with its reason when MPI aborts, under PYTHONUNBUFFERED."""
    reading, writing = os.pipe()
    with open(reading, encoding="utf-8") as told, open(writing, "wb", 0) as raw:
        like = io.TextIOWrapper(raw, "utf-8", write_through=True)
        text = inherited.output(writing, like)
        text.write("the reason\n")
        os.set_blocking(reading, False)
        assert told.readline() == "the reason\n"
