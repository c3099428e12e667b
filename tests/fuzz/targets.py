"""What is fuzzed: for each kind of input its seeds, its mutations and what reads it.

`attempt` returns whether an input was accepted; a refusal in one line is right, too. Anything else
is a failure: another exception, several lines, or a file written that the input does not name.
"""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import exports
import h5py
import mutations
import numpy as np
import parsers

from miniapps import apps, hdf5, tiling
from miniapps.drivers.orders import NAMED, Order, Recorder, Scheduled, order_of
from miniapps.drivers.schedule import VERSION, read_schedule
from miniapps.drivers.sim import SimOptions
from miniapps.hdf5 import DENSEST
from miniapps.leanmd.inputs import atoms_between, opened
from miniapps.leanmd.problem import position_quantum
from miniapps.parameters import InputError
from miniapps.workbench import cli, demo, doctor, new, verify
from miniapps.workbench.adversary import command as search
from miniapps.workbench.adversary.command import replay, subject_of
from miniapps.workbench.adversary.trial import Result, Subject
from miniapps.workbench.comm import anatomy
from miniapps.workbench.comm import command as benchmarks
from miniapps.workbench.exit_status import WRONG
from miniapps.workbench.run import batch, execute, launch
from miniapps.workbench.run.spec import RunSpec
from miniapps.workbench.selftest import command as selftest
from miniapps.workbench.show import plots, trace
from miniapps.workbench.show.saved import SavedRun, periods_of_steps
from miniapps.workbench.study import command, export, noise, provenance, report, tables
from miniapps.workbench.study.comm import command as comm_command
from miniapps.workbench.study.options import check_policy, study_of

ROOT = Path(__file__).resolve().parents[2]
DRAWN = 200  # one of so many inputs that are taken is drawn, too: drawing takes a second
EXPLAINED = 20  # one of so many schedules is read by all commands that read schedules
Mutation = Callable[[bytes, random.Random], bytes]


@dataclass(frozen=True)
class Target:
    """A kind of input.

    ``read``: what reads a file, which has the suffix ``suffix``; it raises InputError, exits with
    status 2, or returns it. ``factor``: how much memory reading may take, as a multiple of the
    input's size, beside `run.SPARE`; ``large()``: inputs that need most of it.
    """

    seeds: Callable[[], list[bytes]]
    mutated: Mutation
    read: Callable[[Path], object]
    factor: int
    large: Callable[[], list[bytes]] = list
    suffix: str = ""

    def attempt(self, data: bytes) -> bool:
        """Whether an input was accepted. Raises any exception but a refusal."""
        folder = Path(tempfile.mkdtemp(dir=SCRATCH))
        os.chdir(folder)
        path, shown, said = folder / f"input{self.suffix}", io.StringIO(), io.StringIO()
        path.write_bytes(data)
        try:
            with redirect_stdout(shown), redirect_stderr(said):
                status = self.read(path)
            if isinstance(status, int) and status not in (0, STOPPED):
                raise SystemExit(status)
        except InputError as error:
            _check_line(f"{error}\n")
            return False
        except SystemExit as end:
            assert end.code in (0, 2), f"exit status {end.code}: {said.getvalue()[-500:]}"
            if end.code == 2 and not shown.getvalue().startswith("usage: "):
                _check_line(said.getvalue())
            return end.code == 0
        finally:
            strange = [name for name in os.listdir(folder) if not _is_named(name, data)]
            os.chdir(SCRATCH)
            shutil.rmtree(folder, ignore_errors=True)
            assert not strange, f"wrote {strange}"
        return True


def any_of(*kinds: Mutation) -> Mutation:
    """A mutation of one of some kinds."""
    return lambda data, dice: dice.choice(kinds)(data, dice)


def one_of(count: int, path: Path) -> bool:
    """Whether a file is one of so many on which more is tried."""
    return zlib.crc32(path.read_bytes()) % count == 0


SCRATCH = Path(tempfile.gettempdir())
LONGEST_LINE = 1000  # characters, of a refusal


def _check_line(said: str) -> None:
    """Fail unless a refusal is one line that a terminal can show, after those on former names."""
    said = "".join(line for line in said.splitlines(True) if " is called --" not in line)
    assert said.count("\n") == 1 and said.endswith("\n"), f"not one line: {said[-500:]}"
    assert len(said) <= LONGEST_LINE, f"{len(said)} characters: {said[:200]}"


def _is_named(name: str, data: bytes) -> bool:
    """Whether a file is the input, or is called after it or in it."""
    named = name.partition(".")[0] in data.decode(errors="replace").replace("\0", "")
    return named or name.startswith("input") or name == str(new.FOLDER)


# The command line ---------------------------------------------------------------------------------


STOPPED = -1  # the status of a search that ends before its first schedule


def only_check(options: Any, *_: Any) -> int:
    """In place of a run: everything up to the launch."""
    RunSpec.create(options).arguments()
    return 0


def only_plan(options: Any, *_: Any) -> int:
    """In place of a study: everything up to its first run."""
    check_policy(options)
    for spec in study_of(options).specs():
        spec.arguments()
    return 0


def only_plan_benchmarks(options: Any, *_: Any) -> int:
    """In place of a campaign of communication benchmarks: everything up to its first launch."""
    comm_command.planned(options)
    return 0


def replace_what_runs() -> None:
    """Let commands only check their input, where they would compute or launch.

    About one damaged HDF5 file in 300 makes libhdf5 loop for ever: a second shows that.
    """
    hdf5.SPARE_CORE_S = 0.5
    search.subject_of = lambda *_: None  # type: ignore[assignment, return-value]
    search.check_usual = lambda *_: STOPPED  # type: ignore[assignment]
    nothing: Callable[..., int] = lambda *_, **named: 0  # noqa: E731
    execute.run = only_check  # type: ignore[assignment]
    command.study = only_plan
    comm_command.command = only_plan_benchmarks
    batch.solve_all = lambda *_, **named: []  # type: ignore[assignment]
    verify.verify = doctor.doctor = selftest.selftest = nothing  # type: ignore[assignment]
    demo.demo = noise.noted = nothing  # type: ignore[assignment]
    launch.launch = benchmarks.execute = anatomy.comm_anatomy = nothing  # type: ignore[assignment]
    tiling.measured_rates = lambda *_: {1: 1.0}  # type: ignore[assignment]


LINES = """run jacobi2d --size 64x48 --driver mpi -n 2 --pe-grid 2x1 --time-tile 4 --tolerance 0.1
run pic --preset tiny --driver charm -n 2 --odf 4 --balancer Greedy --lb-period 5
run pic --event inject:3:500:20,50,30,70:0,3 --event remove:9:40,90,10,47:0.5
run pic --distribution linear:1,2
run leanmd --cells 4x4x4 --per-cell 30 --gradient 10,25 --cutoff 2.5 --skin 0.3 --dt 0.005 --seed 3
run leanmd --lattice 6x6x6 --density 0.8 --decomposition pairs --temperature 2 --steps 5
run stencil3d --size 32x32x32 --imbalance paper --imbalance-scale 2 --warmup 3 --lb-first 3
run cg --size 9x8x7 --operator 7 --preconditioner sgs --tolerance 1e-6 --driver mpi -n 2
run cg --preset pipelined-minimal --solution ones --pe-grid 2x1x1
run transpose --fft --size 7x6x5 --driver file -n 2 --pe-grid 2x1x1
run amr --size 41x38 --refinement 8x7 --level 2 --period 4 --duration 3 --placement no-talk
run echo --preset tiny --driver sim --sim-seed 3 --pin --timeout 5 --json -
run pic 10 100 1000 0 1 GEOMETRIC 0.99
study strong echo --pes 1,2 --odf 1,4 --trials 5 --until-ci 2% --max-trials 9 --shuffle-seed 2
study lb stencil3d --pes 2 --balancers Greedy --lb-periods 8 --preset tiny
study weak jacobi2d --pes 1,2,4 --drivers mpi --size 64x64
study granularity jacobi2d --pes 2 --halvings 3 --size 64x64
plot nowhere.h5 --figure x.png --trace
batch nowhere --timeout 3
study report nowhere.jsonl
study comm ombpy --quick --trials 3 --library openmpi=nowhere --shuffle-seed 4
adversary pic --pe-grid 2x2 --steps 4 --schedules 10 --seconds 3 --sim-seed 4 --sim-pes 3
diff nowhere.h5 elsewhere.h5
study export nowhere.jsonl --format csv
list
run jacobi2d --driver charm -n 2 --shared-memory 0 --dtype float32 --boundary periodic -- +stacksize
run echo --driver file -n 2 --file-dir nowhere --audit 3 --audit-every 2 --audit-seed 4 --output x
run leanmd --output x.h5 --trajectory 2 --hash-every 2 --frames 4 --thermo 3 --units argon
comm latency -m 1:4096:4 --buffer bytearray --touch sender -i 10 -x 2 -z 50,99.5 --stall 5 --json -
comm allreduce --driver charm -n 2 --method tree --csv x.csv --figure x.png --trials 3 -f
comm bw --compare buffer,pickle --thread-level multiple --seed 3
comm anatomy -m 8:1024 --driver charm
selftest pic --driver mpi --fault velocity --draw 3 --preset small --json x --resume --markdown
verify jacobi2d --full --device gpu
lesson start ring --for mpi4py
lesson check halo.py
lesson hint ring 2
lesson mark nowhere --format gradescope --salt a --lesson ring --output x
new advect --folder x
demo --folder x
study collect nowhere --campaign x.jsonl
study weak pic --launcher slurm --folder x --sbatch time=1 --max-noise 5% --dry-run"""


@cache
def words_known() -> list[str]:
    """Words of the command line: commands, options, their choices and values."""
    found = set(LINES.split())
    for words, action in parsers.actions():
        found.update([*words, *action.option_strings, *map(str, action.choices or ())])
    return sorted(found)


def mutated_word(data: bytes, dice: random.Random) -> bytes:
    """A command line with another word."""
    return mutations.of_words(data, dice, words_known())


def read_line(path: Path) -> int:
    """Run a command line up to the launch."""
    words = path.read_bytes().decode(errors="replace").replace("\0", "").split()
    return cli.main(words)


# Studies in TOML ----------------------------------------------------------------------------------


def read_toml(path: Path) -> object:
    """Plan the study of a TOML file."""
    return cli.main(["study", str(path)])


# Atoms --------------------------------------------------------------------------------------------

XYZ = b"""3
Lattice="4 0 0 0 5 0 0 0 6.5" Properties=species:S:1:pos:R:3:id:I:1:velo:R:3:q:R:2 pbc="T T T"
Ar 0.5 0.25 6.0 7 0.1 -0.2 0.3 0 0
Ar 3.75 4.5 1.0 2 1.5 0.0 -2.25 0 0
Ar 1.1 2.2 3.3 9 0.7 0.7 0.1 0 0
"""
LAMMPS = b"""LAMMPS data file, timestep = 40, units = lj

3 atoms
1 atom types

-1 3 xlo xhi
2 7 ylo yhi
0.25 6.75 zlo zhi

Masses

1 1.0

Atoms # atomic

7 1 -0.5 2.25 6.25 0 0 0
2 1 2.75 6.5 1.25 0 -1 0
9 1 0.1 4.2 3.55 0 0 0

Velocities

9 0.0 0.3 -0.3
2 1.5 0.0 -2.25
7 -3.0 1e-5 4.0
"""


def read_atoms(path: Path) -> object:
    """Read all atoms of a file, which must be finite, and each there once."""
    source = opened(path)
    box = np.array(source.box)
    ids, position, velocity = atoms_between(source, np.zeros(3), box, position_quantum(box))
    assert ids.size == source.atoms == np.unique(ids).size
    assert np.isfinite(position).all() and np.isfinite(velocity).all()
    return source


def h5md_seed(atoms: int = 5, level: int | None = 4) -> bytes:
    """An H5MD file of two frames; ``level``: how far masses and velocities are compressed."""
    memory = io.BytesIO()
    dice = np.random.default_rng(1)
    with h5py.File(memory, "w") as file:
        file.create_group("h5md").attrs["version"] = [1, 1]
        group = file.create_group("particles/all")
        for name in ("position", "velocity"):
            group[f"{name}/value"] = dice.random((2, atoms, 3))
            group[f"{name}/step"] = [30, 40]
        group["id"] = np.arange(atoms, 0, -1) * 2
        group["box/edges"] = [4.0, 5.0, 6.5]
        group["box"].attrs["boundary"] = ["periodic"] * 3
        shape = 2, atoms
        masses = group.create_dataset(
            "mass/value", shape, "f8", chunks=(1, atoms), compression=level
        )
        masses[...] = 1
    return memory.getvalue()


# Campaigns and records ----------------------------------------------------------------------------


def campaign_seeds() -> list[bytes]:
    """The first runs of committed campaigns."""
    files = sorted((ROOT / "docs/results").glob("*.jsonl"))
    seeds = []
    for file in files:
        head, *events = file.read_bytes().splitlines(keepends=True)
        least = sorted((line for line in events if b'"event":"run"' in line), key=len)[:3]
        seeds.append(b"".join([head, *events[:3], *least]))
    return sorted(seeds, key=len)[:5] + [(ROOT / "tests/data/schema-1.jsonl").read_bytes()]


def read_campaign(path: Path) -> object:
    """Make all tables, the page and the CSV file of a campaign, and sometimes its figures."""
    if one_of(DRAWN, path):
        status = cli.main(["study", "report", str(path)])
        return 0 if status == WRONG else status  # which says that runs differ
    campaign = report.read_study(path)
    shown = [*tables.tables(campaign), provenance.failures_table(campaign)]
    report.html(campaign, shown, [], [])
    return export.tidy_csv(campaign)


def mutated_h5(data: bytes, dice: random.Random) -> bytes:
    """An HDF5 file with other bytes; of a file that is whole, sometimes another record."""
    seeds = record_seeds()
    if dice.random() < 0.5:
        return mutations.of_bytes(data, dice)
    memory = io.BytesIO(dice.choice(seeds))
    with h5py.File(memory, "r+") as file:
        record = json.loads(file.attrs["record"])
        for _ in range(dice.choice((1, 1, 2))):
            record = mutations.of_json(record, dice)
        file.attrs["record"] = json.dumps(record)
    return memory.getvalue()


def record_seeds() -> list[bytes]:
    """A committed output file."""
    return [(ROOT / "tests/data/schema-1.h5").read_bytes()]


def read_record(path: Path) -> object:
    """Read an output file and all that figures compute from it; sometimes draw it."""
    run = SavedRun.read(path)
    periods = periods_of_steps(run.rounds[:, 0], run.end, run.lb_steps, 80)
    run.by_block(periods)
    run.compute()
    run.command()
    if run.slices is not None:
        trace.trace(run)
    return plots.run_figure(path) if one_of(DRAWN, path) else run


def toml_seeds() -> list[bytes]:
    """The project's own studies."""
    files = sorted((ROOT / "studies").rglob("*.toml"))
    left_out = "leanmd-large.toml"  # its plan of 10^8 atoms takes 20 s
    return [path.read_bytes() for path in files if path.name != left_out]


# Schedules ----------------------------------------------------------------------------------------


def schedule_seeds() -> list[bytes]:
    """Schedules of one run of the app echo, recorded in each order."""
    subject, head, _ = echoed()
    seeds = []
    for number, name in enumerate(NAMED):
        recorder = Recorder(order_of(name, number))
        subject.run(recorder)
        data = {"schedule": VERSION, **head, "seed": number, **recorder.schedule().plain()}
        data["holds"] = data["holds"][:20]
        seeds.append(json.dumps(data).encode())
    return seeds


@cache
def echoed() -> tuple[Subject, dict[str, Any], Result]:
    """A small run of the app echo, what a schedule's file says about it, and its result."""
    problem = apps.load("echo").Problem(**{"size": (3, 2)})
    spec = RunSpec("echo", problem, "sim", steps=2, parts=4, own=SimOptions())
    spec.check()
    subject = subject_of(spec, 2)
    return subject, {"app": "echo", "steps": 2, "pes": 2}, subject.run(Order())


def read_schedule_file(path: Path) -> object:
    """Run by a schedule: whatever it holds back, the state is the same. Sometimes explain it."""
    schedule, _ = read_schedule(path, "--schedule")
    subject, head, right = echoed()
    assert subject.run(Scheduled(schedule)) == right, "another state"
    if not one_of(EXPLAINED, path):
        return schedule
    status = replay(subject, path, head)
    assert status == 0, f"status {status}"
    return cli.main(["run", "echo", "--driver", "sim", "--schedule", str(path), "--steps", "2"])


# Large inputs -------------------------------------------------------------------------------------

ATOMS = 100_000


def large_xyz() -> list[bytes]:
    """Many atoms, and one line that never ends."""
    head, about, *_ = XYZ.decode().splitlines()
    rows = "".join(f"Ar 0.5 0.25 6.0 {n + 1} 0.1 -0.2 0.3 0 0\n" for n in range(ATOMS))
    return [f"{ATOMS}\n{about}\n{rows}".encode(), f"{head}\nLattice=".encode() + b" " * (8 << 20)]


def large_lammps() -> list[bytes]:
    """Many atoms, and one line that never ends."""
    rows = "".join(f"{n + 1} 1 -0.5 2.25 6.25\n" for n in range(ATOMS))
    head = LAMMPS.decode().partition("7 1 -0.5")[0].replace("3 atoms", f"{ATOMS} atoms")
    return [f"{head}{rows}".encode(), LAMMPS + b"1" * (8 << 20)]


def large_values(head: bytes) -> list[bytes]:
    """Texts in which each byte stands for as many objects as possible."""
    parts = b"{},", b'{"a":1},', b"[],", b"1.5,"
    return [head + b"[" + part * (1_000_000 // len(part)) + b"0]" for part in parts]


def large_toml() -> list[bytes]:
    """A long comment, and values where each byte stands for as many objects as possible."""
    start = b'kind = "strong"\napp = "echo"\n'
    texts = [text.replace(b":", b"=").replace(b'"', b"") for text in large_values(b"pes = ")]
    return [start + text for text in (*texts, b"#" * 8_000_000, b"#" * 1_000_000)]


def large_record() -> list[bytes]:
    """An output file whose state is long, plain, and compressed as far as it can be."""
    files = []
    for level in (None, 9):
        memory = io.BytesIO(record_seeds()[0])
        with h5py.File(memory, "r+") as file:
            state = file["state"]
            state.create_dataset("more", data=np.zeros(1 << 20), compression=level)
        files.append(memory.getvalue())
    return files


def large_campaign() -> list[bytes]:
    """A campaign of many runs, and values where each byte stands for many objects."""
    head, *lines = campaign_seeds()[0].splitlines(keepends=True)
    run = next(line for line in lines if b'"event":"run"' in line)
    many = b"".join([head, *lines, *[run] * 300])
    return [many, *(head + text + b"\n" + lines[0] for text in large_values(b""))]


PARSED = 64  # bytes of memory per byte of JSON or TOML: {"a":1} takes 300 bytes
TEXT = 16  # of a text whose lines are read some at a time
NUMBERS, LINE, BYTES, JSON = (
    mutations.of_numbers, mutations.of_lines, mutations.of_bytes, mutations.of_json_lines
)  # fmt: skip
OF_TEXT = any_of(NUMBERS, NUMBERS, LINE, BYTES)
TARGETS = {
    "command line": Target(
        lambda: [x.encode() for x in LINES.split("\n")],
        any_of(NUMBERS, NUMBERS, BYTES, mutated_word), read_line, 1,
    ),
    "TOML": Target(toml_seeds, OF_TEXT, read_toml, PARSED, large_toml, ".toml"),
    "H5MD": Target(
        lambda: [h5md_seed()], BYTES, read_atoms, DENSEST,
        lambda: [h5md_seed(ATOMS, None), h5md_seed(ATOMS, 9)],
    ),
    "extended XYZ": Target(lambda: [XYZ], OF_TEXT, read_atoms, TEXT, large_xyz),
    "LAMMPS data": Target(lambda: [LAMMPS], OF_TEXT, read_atoms, TEXT, large_lammps),
    "campaign": Target(
        campaign_seeds, any_of(*[JSON] * 8, LINE, BYTES), read_campaign, PARSED, large_campaign,
        ".jsonl",
    ),
    "record": Target(record_seeds, mutated_h5, read_record, DENSEST, large_record, ".h5"),
    "schedule": Target(
        schedule_seeds, any_of(*[JSON] * 4, BYTES), read_schedule_file, PARSED,
        lambda: large_values(b'{"schedule": 1, "holds": '), ".json",
    ),
    "export": Target(
        exports.campaign_seeds, exports.mutated_campaign, exports.read_campaign, PARSED,
        suffix=".jsonl",
    ),
    "trajectory": Target(
        exports.trajectory_seeds, exports.mutated_trajectory, exports.read_trajectory, DENSEST,
        suffix=".h5",
    ),
}  # fmt: skip


@contextmanager
def writes_watched(allowed: Path) -> Iterator[list[str]]:
    """Paths outside a folder that Python code opens for writing, makes, moves or removes."""
    found: list[str] = []
    active = [True]

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if not active[0]:
            return
        writes = event in ("os.mkdir", "os.rename", "os.remove", "os.symlink", "os.truncate")
        if event == "open":
            writes = bool(arguments[2] & 3) and not isinstance(arguments[0], int)
        path = os.path.abspath(os.fsdecode(arguments[0])) if writes else ""
        writes = writes and not (event == "os.remove" and arguments[1] != -1)  # by rmtree
        if (
            writes
            and not path.startswith((str(allowed), "/dev/", "/proc/self/"))
            and "__pycache__" not in path
        ):
            found.append(f"{event} {path}")

    sys.addaudithook(hook)
    yield found
    active[0] = False
