"""Studies: what is run, in which order, which runs count, and that no run is lost or repeated.

Canned records stand for runs where only the study is tested; `killed` studies are real ones.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import skips
import support
from support import BIN, ROOT, execute, record_of

from miniapps import apps, tiling
from miniapps.parameters import InputError
from miniapps.workbench import cli, environment
from miniapps.workbench.exit_status import VALID, WRONG
from miniapps.workbench.run import launch, record
from miniapps.workbench.run.revalidation import CASE
from miniapps.workbench.study import noise, options, provenance, runner, tables, validation
from miniapps.workbench.study.campaign import Campaign, Writer
from miniapps.workbench.study.plan import Study
from miniapps.workbench.study.revalidation import answer_key
from miniapps.workbench.study.runner import Policy
from miniapps.workbench.study.statistics import mean_interval

POLICY = Policy(trials=3, pin=False)
TINY = ("--preset", "tiny", "--pes", "1,2", "--drivers", "mpi")
ALONE = ("--preset", "tiny", "--pes", "1", "--drivers", "mpi")


def study_of(*words: str) -> Study:
    """The study that ``miniapps study WORDS`` asks for."""
    parsed = cli.build_parser(["study", *words]).parse_args(["study", *words])
    return options.study_of(parsed)


def matrix(study: Study) -> list[tuple[Any, ...]]:
    """Driver, PEs, ODF, balancer and period of each run of a trial."""
    asked = [spec.recorded() | {"pes": spec.pes} for spec in study.specs()]
    return [tuple(options[name] for name in CASE) for options in asked]


@pytest.fixture
def canned(monkeypatch: pytest.MonkeyPatch) -> Any:
    """``canned(function of the spec)``: let launches return its result; the specs launched.

    Samples of noise between the runs are short.
    """
    monkeypatch.setattr(noise, "REPEATS", 3)

    def replace(result: Any) -> list[Any]:
        launched: list[Any] = []

        def launch_canned(spec: Any, command: list[str], limit: float | None) -> Any:
            launched.append(spec)
            return result(spec)

        monkeypatch.setattr(launch, "launch", launch_canned)
        return launched

    return replace


def executed(study: Study, path: Path, policy: Policy = POLICY) -> tuple[int, Campaign]:
    """Execute a study in this process; its status, and the campaign as it stands in the file."""
    status = runner.run_campaign(study, study.specs(), policy, path)
    return status, Campaign.read(path)


# The matrix ---------------------------------------------------------------------------------------


def test_strong_is_one_problem_on_more_and_more_pes():
    study = study_of("strong", "jacobi2d", "--pes", "1,2,4", "--odf", "1,4", "--preset", "tiny")
    assert matrix(study) == [
        run
        for pes in (1, 2, 4)
        for run in (
            ("mpi", pes, 1, None, 0),
            ("charm", pes, 1, None, 0),
            ("charm", pes, 4, None, 0),
        )
    ]
    assert {spec.problem.size for spec in study.specs()} == {(101, 83)}


def test_serial_has_one_point_of_one_pe():
    study = study_of("strong", "echo", "--pes", "2,4", "--drivers", "serial,mpi")
    assert matrix(study) == [
        ("serial", 1, 1, None, 0),
        ("mpi", 2, 1, None, 0),
        ("mpi", 4, 1, None, 0),
    ]


def test_weak_grows_from_the_fewest_pes():
    words = "weak stencil3d --size 16x16x16 --pes 2,4,8 --drivers mpi"
    study = study_of(*words.split())
    assert [(s.pes, s.problem.size) for s in study.specs()] == [
        (2, (16, 16, 16)),
        (4, (32, 16, 16)),
        (8, (32, 32, 16)),
    ]
    with pytest.raises(InputError, match="--pes 3: must be a multiple of 2"):
        study_of("weak", "jacobi2d", "--pes", "2,3").specs()


@pytest.mark.long
def test_lb_is_every_balancer_with_every_period_and_none():
    words = "lb stencil3d --pes 2 --balancers Greedy,Rotate --lb-periods 5,9"
    study = study_of(*words.split())
    assert matrix(study) == [
        ("mpi", 2, 1, None, 0),
        ("charm", 2, 4, None, 0),
        ("charm", 2, 4, "Greedy", 5),
        ("charm", 2, 4, "Greedy", 9),
        ("charm", 2, 4, "Rotate", 5),
        ("charm", 2, 4, "Rotate", 9),
    ]


def test_all_runs_take_as_many_sweeps_per_exchange(monkeypatch):
    """Catches a comparison of different algorithms that nobody asked for."""
    monkeypatch.setattr(tiling, "best_tile", lambda *shape_and_more: shape_and_more[3])  # the limit
    words = ("odf", "jacobi2d", "--pes", "2", "--size", "64x48")

    def tiles(*more):
        return [spec.prepared.time_tile for spec in study_of(*words, *more).specs()]

    assert len({*tiles("--time-tile", "auto")}) > 1
    assert tiles() == [min(tiles("--time-tile", "auto"))] * 5


def test_odf_has_its_own_usual_values():
    study = study_of("odf", "jacobi2d", "--pes", "2", "--preset", "tiny")
    assert [(driver, odf) for driver, _, odf, *_ in matrix(study)] == [
        ("mpi", 1),
        *(("charm", odf) for odf in (1, 2, 4, 8)),
    ]


def test_granularity_halves_until_blocks_cannot_be_cut():
    words = "granularity jacobi2d --size 16x8 --pes 4 --drivers mpi --time-tile 1".split()
    sizes = [spec.problem.size for spec in study_of(*words).specs()]
    assert sizes == [(16, 8), (8, 8), (8, 4), (4, 4), (4, 2), (2, 2)]
    fewer = study_of(*words, "--halvings", "2").specs()
    assert [spec.problem.size for spec in fewer] == sizes[:3]


@pytest.mark.parametrize(
    ("words", "steps"),
    [
        (("--steps", "7", "--max-steps", "40"), [7, 14, 28, 40, 40, 40]),
        (("--steps", "6000"), [6000, *[10_000] * 5]),
        (("--steps", "20000"), [20_000] * 6),
        (("--steps", "9", "--max-steps", "9"), [9] * 6),
    ],
)
def test_small_problems_make_more_steps(words, steps):
    """Catches runs of a millisecond, and drivers or ODFs whose runs of a size differ in steps."""
    sized = ("--size", "32x16", "--odf", "1,2", "--pes", "4", "--time-tile", "1", "--halvings", "5")
    specs = study_of("granularity", "jacobi2d", *sized, *words).specs()
    of_size = {}
    for spec in specs:
        of_size.setdefault(spec.problem.size, set()).add(spec.steps)
    assert list(of_size.values()) == [{count} for count in steps] and len(specs) == 18


def test_the_steps_of_each_size_are_those_asked_for(canned, tmp_path):
    """Catches a run of a small problem that is refused, or one of too many steps that counts."""
    path = tmp_path / "c.jsonl"
    words = ("--size", "16x8", "--pes", "2", "--drivers", "mpi", "--steps", "10", "--halvings", "2")
    study = study_of("granularity", "jacobi2d", "--time-tile", "1", *words)
    canned(lambda spec: record_of(spec, 1e-2 / spec.steps))
    status, campaign = executed(study, path)
    assert status == VALID
    assert [run["record"]["steps"] for run in campaign.of("run") if run["trial"] == 1] == [
        10 << point for point in runner.shuffled(study.shuffle_seed, 1, 3)
    ]
    assert provenance.timed_steps(campaign.head) == "10 to 40"
    assert "increase --steps or --max-steps" in " ".join(tables.tables(campaign)[0].notes)
    head, *events = map(json.loads, path.read_text().splitlines())
    assert [point.pop("steps", None) for point in head["points"]] == [None, 20, 40]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in (head, *events)))
    dropped = list(Campaign.read(path).of("dropped"))
    assert {run["reason"] for run in dropped} == {
        "steps were 20, asked were 10",
        "steps were 40, asked were 10",
    }
    assert len(dropped) == 6


def test_many_rounds_of_a_record_are_merged(canned, tmp_path):
    """Catches a campaign file that grows with the steps, and sums over the wrong rounds."""
    steps = 2 * record.FEW_ROUNDS + 1
    study = study_of("strong", "echo", "--pes", "2", "--drivers", "mpi", "--steps", str(steps))
    walls = [1e-3 * (1 + number % 7) for number in range(steps)]
    times = {name: float(getattr(np, name)(walls)) for name in ("median", "min", "max")}

    def long_record(spec):
        first = list(range(spec.warmup, spec.warmup + steps))
        loads = [[0.5 * wall for wall in walls] for _ in range(2)]
        rounds = {"first": first, "count": [1] * steps, "wall_s": walls, "compute_s": loads}
        wall = sum(walls)
        more = {"wall_s": wall, "compute_s": wall, "rate": {"value": 1 / wall, "unit": "points/s"}}
        return record_of(spec, rounds=rounds, step_time_s=times, **more)

    canned(long_record)
    status, campaign = executed(study, tmp_path / "c.jsonl", Policy(1, pin=False))
    assert status == VALID
    (run,) = campaign.of("run")
    rounds = run["record"]["rounds"]
    starts = range(0, steps, 3)
    assert rounds["merged"] == 3 and len(starts) <= record.FEW_ROUNDS
    assert rounds["first"] == [study.warmup + start for start in starts]
    assert rounds["count"] == [*[3] * (len(starts) - 1), steps - starts[-1]]
    sums = [sum(walls[start : start + 3]) for start in starts]
    assert rounds["wall_s"] == pytest.approx(sums, rel=1e-5)
    assert rounds["compute_s"] == [pytest.approx([0.5 * one for one in sums], rel=1e-5)] * 2
    few = record_of(study.specs()[0], steps=record.FEW_ROUNDS)
    assert record.with_few_rounds(few) is few


@pytest.mark.parametrize("app", [name for name in apps.names() if name != "echo"])
def test_granularity_ends_where_an_app_has_no_smaller_problem(app):
    sizes = {
        "jacobi2d": ("--size", "4x4"),
        "stencil3d": ("--size", "2x2x2"),
        "cg": ("--size", "2x2x2"),
        "transpose": ("--size", "3"),
        "amr": ("--size", "40x40", "--refinement", "12x12"),
        "pic": ("--size", "8", "--particles", "4"),
        "leanmd": ("--lattice", "6x5x5"),
    }
    words = ("--pes", "1", "--drivers", "mpi", *sizes[app])
    assert 1 < len(study_of("granularity", app, *words).specs()) < 6


@pytest.mark.parametrize(("pes", "size", "particles"), [(2, 28, 600), (4, 40, 1200)])
def test_particles_grow_with_their_cells(pes, size, particles):
    """Catches weak scaling in which each PE has fewer cells, and its particles more neighbours."""
    grown = apps.load("pic").Problem(size=20, particles=300).weak(pes)
    assert (grown.size, grown.particles) == (size, particles)


@pytest.mark.parametrize(
    ("app", "values", "work", "unit"),
    [
        ("jacobi2d", {"size": (10, 20)}, 200, "points"),
        ("stencil3d", {"size": (4, 5, 6)}, 120, "points"),
        ("leanmd", {"lattice": (3, 4, 5), "cutoff": 2.0}, 4 * 60, "atom-steps"),
        ("pic", {"size": 20, "particles": 300}, 300, "particles"),
    ],
)
def test_work_of_a_step(app, values, work, unit):
    """Catches a rate of half the points, or of those of ghosts, and one in another unit."""
    problem = apps.load(app).Problem(**values)
    assert (problem.work(), problem.unit) == (work, unit)


def test_problems_that_vary():
    """Catches a combination that is left out, a value that is lost, and equal heads of two."""
    words = ["--pes", "2", "--odf", "4", "--balancers", "Greedy", "--preset", "small"]
    vary = ["--vary", "level=0+refinement=50x50,level=1", "--vary", "placement=no-talk,period=30"]
    study = study_of("lb", "amr", *words, *vary)
    found = [(s.problem, s.driver, s.recorded()["balancer"]) for s in study.specs()]
    assert len(found) == study.most_runs() - 4 == 4 * 3  # mpi balances nothing
    problems = list(dict.fromkeys(problem for problem, *_ in found))
    assert [(p.level, p.refinement, p.placement, p.period) for p in problems] == [
        (0, (50, 50), "no-talk", 20),
        (0, (50, 50), "fine-grain", 30),
        (1, (200, 200), "no-talk", 20),
        (1, (200, 200), "fine-grain", 30),
    ]
    cases = {(driver, balancer) for _, driver, balancer in found}
    assert set(found) == {(p, *case) for p in problems for case in cases} and len(cases) == 3
    assert study.head() != study_of("lb", "amr", *words).head()


@pytest.mark.parametrize("app", apps.names())
def test_every_app_grows_and_shrinks(app):
    preset = apps.load(app).Problem.presets["small"]
    values = {name: preset[name] for name in preset if name not in ("steps", "warmup")}
    problem = apps.load(app).Problem(**values)
    # There is less to do at the sides; an order is a whole number.
    rel = 0.02 if app in ("amr", "cg", "transpose") else 0
    assert problem.smaller().work() == pytest.approx(problem.work() / 2, rel)
    assert problem.weak(2).work() == pytest.approx(problem.work() * 2, rel)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            "strong jacobi2d --drivers mpi,smoke",
            "--drivers smoke: one of serial, sim, file, mpi, charm",
        ),
        ("strong jacobi2d --pes 0,1", "--pes 0: must be 1 or more"),
        ("strong jacobi2d --pes 1,1", "--pes 1,1: must name each value once"),
        ("strong jacobi2d --pes 1;2", "integers separated by commas"),
        ("strong jacobi2d --trials 0", "--trials 0: must be 1 or more"),
        ("strong jacobi2d --until-ci 200%", "above 0% and below 100%"),
        ("strong jacobi2d --max-trials 30", "--max-trials 30: needs --until-ci"),
        ("strong jacobi2d --max-steps 300", "--max-steps 300: only in a study of granularity"),
        (
            "granularity jacobi2d --steps 200 --max-steps 199",
            "--max-steps 199: must be 200 or more, the steps of the whole problem",
        ),
        ("strong jacobi2d --until-ci 1% --max-trials 3", "--max-trials 3: must be 10 or more"),
        ("strong pic --until-ci 1% --trials 4", "--until-ci 1%: needs 5 trials"),
        ("strong jacobi2d --drivers mpi,mpi", "--drivers mpi,mpi: must name each"),
        ("lb pic --lb-periods 9,9", "--lb-periods 9,9: must name each value once"),
        ("weak pic --drivers serial --pes 2,4", "--drivers serial: in weak"),
        ("strong pic --halvings 3", "--halvings 3: only in a study of granularity"),
        ("strong pic --drivers mpi --odf 1,4", "--odf 1,4: needs --drivers charm"),
        ("strong pic --folder x", "--folder x: only with --launcher slurm"),
        ("strong pic --launcher slurm --no-pin", "not with --launcher slurm"),
        ("strong pic --launcher no-such-mpiexec", "--launcher no-such-mpiexec: must be"),
        ("strong pic --campaign run.h5", "--campaign run.h5: must end in .jsonl"),
        ("strong pic --published nowhere.json", "--published nowhere.json: cannot be"),
        ("strong pic -- +p4", "-- +p4: a study passes no options"),
        ("lb stencil3d --balancers Magic", "--balancers Magic: must be of Greedy"),
        ("strong jacobi2d --lb-periods 5,9", "--lb-periods 5,9: needs --balancers"),
        ("strong amr --vary level=1,level=2", "--vary level=1,level=2: only in a study"),
        ("lb amr --vary level=1,2", "--vary level=1,2: must be OPTION=VALUE, with an"),
        ("lb amr --vary depth=1", "--vary depth=1: must be OPTION=VALUE"),
        ("lb amr --vary level=one", "--vary level=one: must be an integer"),
        ("lb amr --vary level=1+level=2", "--vary level=1+level=2: gives level twice"),
        ("lb amr --vary level=1,level=9", "--level 9: must be 0 to 8"),
        ("lb amr --vary level=1,level=1", "--vary level=1,level=1: must give each"),
        (
            f"lb amr {'--vary level=1,level=2 ' * 10}",
            "--vary 1024: must be at most 1000 combinations",
        ),
        ("strong jacobi2d --lb-first 5", "--lb-first 5: needs --balancers"),
        ("lb pic --lb-first 9 --warmup 9", "--lb-first 9: must be more than the"),
        ("strong leanmd --decomposition pairs", "--driver mpi: has one block per rank"),
        ("strong jacobi2d --size 4x4 --pes 64", "do not fit"),
        ("lb pic --drivers mpi", "--drivers mpi: only charm balances"),
        ("nowhere.toml", "cannot be read"),
        ("report nowhere.jsonl", "cannot be read"),
    ],
)
def test_bad_input_is_one_line_and_launches_nothing(tmp_path, words, line, monkeypatch, refused):
    monkeypatch.chdir(tmp_path)
    assert line in refused("study", *words.split())
    assert not list(tmp_path.iterdir())


# Files of studies ---------------------------------------------------------------------------------


def test_a_file_asks_for_what_its_words_ask_for(tmp_path):
    file = tmp_path / "study.toml"
    file.write_text(
        'kind = "strong"\napp = "pic"\nsize = 64\nparticles = 900\nk = 1\npes = [1, 2]\n'
        'drivers = ["mpi"]\nevent = ["inject:1:5:0,9,0,9", "remove:2:0,9,0,9"]\n'
        'source = "a paper"\n[quick]\nsize = 32\n'
    )
    words = ["strong", "pic", "--particles", "900", "-k", "1", "--pes", "1,2", "--drivers", "mpi"]
    words += ["--event", "inject:1:5:0,9,0,9", "--event", "remove:2:0,9,0,9"]
    assert study_of(*options.expanded([str(file)])) == study_of(*words, "--size", "64")
    assert study_of(*options.expanded([str(file), "--quick"])) == study_of(*words, "--size", "32")
    over = options.expanded([str(file), "--quick", "--size", "48"])
    assert study_of(*over) == study_of(*words, "--size", "48")


@pytest.mark.slow
def test_the_campaign_of_a_file_is_named_after_it(tmp_path, monkeypatch, canned):
    """Mistake: the small and the large study of a file in one campaign."""
    monkeypatch.chdir(tmp_path)
    text = 'kind = "strong"\napp = "echo"\npes = [1]\ndrivers = ["mpi"]\n[quick]\ntrials = 2\n'
    (tmp_path / "mine.toml").write_text(text)
    canned(record_of)
    assert cli.main(["study", "mine.toml"]) == cli.main(["study", "--quick", "mine.toml"]) == VALID
    trials = {
        file.name: len(list(Campaign.read(file).of("run"))) for file in tmp_path.glob("*.jsonl")
    }
    assert trials == {"mine.jsonl": 10, "mine-quick.jsonl": 2}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("kind = 3", "kind 3: must be one of strong"),
        ('kind = "strong"\napp = "x"', "app x: must be one of"),
        ('kind = "strong"\napp = "pic"\ncolour = "red"', "--colour=red"),
        ('kind = "strong"\napp = "pic"\npublished = 3', "published 3: must be the path"),
        ("kind =", "is no TOML"),
    ],
)
def test_a_wrong_file_is_one_line(tmp_path, text, line, refused):
    (tmp_path / "study.toml").write_text(text)
    assert line in refused("study", tmp_path / "study.toml")


NAMES_PROGRAMS = [
    'launcher = "./mine"',
    'launcher = "slurm"',
    '[quick]\nlauncher = "./mine"',
    '"launcher=./mine #" = ""',
    '"" = "--launcher=./mine"',
    'allow-launcher = true\nlauncher = "./mine"',
    'sbatch = ["--output=/x"]',
    'campaign = "../x.jsonl"',
    'campaign = "/x.jsonl"',
    'folder = "a/../../x"',
]


@pytest.mark.parametrize("text", NAMES_PROGRAMS)
def test_a_file_alone_starts_no_program_and_writes_nowhere_else(tmp_path, text, refused):
    """Catches a study from elsewhere that runs its own program, or writes where it likes."""
    file = tmp_path / "study.toml"
    file.write_text(f'kind = "strong"\napp = "echo"\n{text}\n')
    line = refused("study", file, *["--quick"] * ("quick" in text), "--dry-run")
    assert str(file) in line
    assert "--sbatch yourself" not in line  # an option given beside it is added


def test_a_launcher_is_the_users(tmp_path):
    """Catches a launcher of a file that nobody has allowed, or that replaces the user's."""
    file = tmp_path / "study.toml"
    file.write_text('kind = "strong"\napp = "echo"\nlauncher = "./mine"\n')
    for given, launcher in (("--allow-launcher", "./mine"), ("--launcher=mpiexec", "mpiexec")):
        words = ["study", *options.expanded([str(file), given])]
        assert cli.build_parser(words).parse_args(words).launcher == launcher


SHIPPED = sorted(
    file for file in (ROOT / "studies").rglob("*.toml") if file.parent.name != "papers"
)  # those of papers are for `miniapps reproduce`


@pytest.mark.slow
@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_shipped_studies_can_be_run(file, monkeypatch, refused, capsys):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    quick = ["--quick"] if "[quick]" in file.read_text() else []
    words = ["study", str(file), *quick, "--dry-run"]
    if 'device = "gpu"' in file.read_text():
        assert refused(*words).startswith("miniapps: --device gpu")
    else:
        assert cli.main(words) == VALID
        lines = capsys.readouterr().out.splitlines()
        kind = "comm" if 'kind = "comm"' in file.read_text() else "run"
        assert lines and all(f"miniapps {kind} " in line for line in lines)


def test_published_studies_are_as_published():
    """Sizes of the papers: Fink et al., ESPM2 2021; Galvez et al., CLUSTER 2018."""

    def published(name: str) -> Study:
        return study_of(*options.words_of_file(ROOT / "studies" / name, quick=False))

    jacobi = published("jacobi2d-strong.toml")
    assert (jacobi.problem.size, jacobi.steps, jacobi.warmup) == ((24576, 24576), 100, 10)
    assert jacobi.pes == tuple(6 << n for n in range(11)) and jacobi.problem.time_tile == 1
    weak = published("jacobi2d-weak.toml")
    assert weak.problem.size == (6144, 6144) and weak.problem.weak(2).size == (12288, 6144)
    pic = published("pic-lb.toml")
    assert (pic.problem.particles, pic.problem.size, pic.steps) == (600_000, 5998, 1000)
    assert pic.odfs == (1, 8) and {period for _, period in pic.balancer_settings} == {0, 80}
    made = [spec.recorded() for spec in pic.specs()]
    assert {(run["odf"], run["lb_period"]) for run in made} == {(1, 0), (8, 0), (8, 80)}
    on_gpus = published("jacobi2d-gpu-weak.toml")
    assert on_gpus.problem.size == (73728, 73728) and on_gpus.pes[-1] == 6 * 256
    assert on_gpus.problem.weak(256).size == (16 * 73728, 16 * 73728)
    stencil = published("stencil3d-lb.toml")
    assert stencil.odfs == (4,) and {period for _, period in stencil.balancer_settings} == {0, 30}
    assert stencil.problem.imbalance == "paper" and stencil.steps == 1000
    assert 8e6 <= published("leanmd-strong.toml").problem.atoms < 8.2e6
    assert 51e6 <= published("leanmd-large.toml").problem.atoms < 52e6
    for file in (ROOT / "studies" / "published").glob("*.json"):
        assert json.loads(file.read_text())["source"]


def test_studies_of_jacobi2d_are_beside_the_values_of_their_own_figure():
    """Catches a weak study beside the values of a strong one."""
    for path in (ROOT / "studies").glob("jacobi2d-*.toml"):
        table = options.table_of(path)
        source = json.loads((path.parent / table["published"]).read_text())["source"]
        assert source.startswith(table["source"].removeprefix("Fink et al., ")), path.name


# The campaign file --------------------------------------------------------------------------------

STUDY = {"kind": "strong", "app": "echo", "problem": {}, "steps": 8, "warmup": 2}
STUDY |= {"device": "cpu", "shuffle_seed": 0}
POINT = {"driver": "mpi", "pes": 1, "odf": 1, "balancer": None, "lb_period": 0}
POINT |= {"problem": {}, "arguments": ["run", "echo"]}
HEAD = {"campaign": 1, "study": STUDY, "points": [POINT, POINT | {"pes": 2}]}


def test_a_kept_command_names_no_folder_of_its_machine():
    """Catches the folder of a library in a variable, and an option that is taken for a file."""
    words = ["env", "LIB=/home/me/lib/libmpi.so", "/usr/bin/mpiexec", "-m", "1:4", "--lb=a/b"]
    plain = "env LIB=libmpi.so mpiexec -m 1:4 --lb=a/b"
    assert runner.plain_command(words) == plain


def test_a_torn_last_line_is_cut_off_and_nothing_else(tmp_path):
    path = tmp_path / "c.jsonl"
    writer = Writer(path, HEAD)
    record = support.whole_record(POINT | STUDY | {"pes": 2}, 1e-3)
    writer.add("run", trial=0, point=1, command="", record=record)
    writer.close()
    whole = path.read_bytes()
    for torn in (b"{", b'{"event":"run","trial":0,"point":0', b'{"event":"run"}'):
        path.write_bytes(whole + torn)
        assert [run["point"] for run in Campaign.read(path).of("run")] == [1]
        writer = Writer(path, HEAD)
        assert path.read_bytes() == whole
        assert writer.campaign.completed == {(0, 1)}
        writer.close()


def test_a_head_that_was_torn_is_written_anew(tmp_path):
    path = tmp_path / "c.jsonl"
    path.write_bytes(b'{"campaign":1,"stu')
    Writer(path, HEAD).close()
    assert Campaign.read(path).head == HEAD


def test_a_damaged_line_is_named(tmp_path):
    path = tmp_path / "c.jsonl"
    Writer(path, HEAD).close()
    path.write_bytes(path.read_bytes() + b"gibberish\n" + b'{"event":"run"}\n')
    with pytest.raises(InputError, match="line 2 is no JSON object"):
        Writer(path, HEAD)


def test_another_study_does_not_mix_in(tmp_path):
    path = tmp_path / "c.jsonl"
    Writer(path, HEAD).close()
    for other in (HEAD | {"study": STUDY | {"kind": "weak"}}, HEAD | {"points": [POINT]}):
        with pytest.raises(InputError, match="holds another study"):
            Writer(path, other)
    with pytest.raises(InputError, match="kind strong, not weak"):
        Writer(path, HEAD | {"study": STUDY | {"kind": "weak"}})


@pytest.mark.parametrize(
    "text", [b"", b"some notes", b"two\nlines", b"\x89HDF\r\n\x1a\n\0", b'{"a":1}\n']
)
def test_a_file_that_is_no_campaign_is_left_as_it_is(tmp_path, text):
    path = tmp_path / "c.jsonl"
    path.write_bytes(text)
    if text:
        with pytest.raises(InputError, match="--campaign|campaign"):
            Writer(path, HEAD)
        assert path.read_bytes() == text
    else:
        Writer(path, HEAD).close()
        assert Campaign.read(path).head == HEAD


def test_two_writers_are_refused(tmp_path):
    path = tmp_path / "c.jsonl"
    writer = Writer(path, HEAD)
    with pytest.raises(InputError, match="another study is writing"):
        Writer(path, HEAD)
    writer.close()
    Writer(path, HEAD).close()


# Execution ----------------------------------------------------------------------------------------


def test_each_trial_runs_every_point_once_in_an_order_of_its_own(tmp_path, canned):
    study = study_of("strong", "echo", "--pes", "1,2,3,4,6", "--drivers", "mpi")
    launched = canned(record_of)
    status, campaign = executed(study, tmp_path / "c.jsonl")
    assert status == VALID
    runs = list(campaign.of("run"))
    orders = [[run["point"] for run in runs if run["trial"] == trial] for trial in range(3)]
    assert all(sorted(order) == [0, 1, 2, 3, 4] for order in orders)
    assert len({tuple(order) for order in orders}) > 1
    assert [campaign.head["points"][run["point"]]["pes"] for run in runs] == [
        spec.pes for spec in launched
    ]
    assert orders == [runner.shuffled(0, trial, 5) for trial in range(3)]
    assert runner.shuffled(1, 0, 20) != runner.shuffled(0, 0, 20)


def test_noise_is_sampled_before_between_and_after(tmp_path, canned):
    canned(record_of)
    _, campaign = executed(study_of("strong", "echo", *TINY), tmp_path / "c.jsonl")
    kinds = [entry["event"] for entry in campaign.events]
    assert kinds == ["start", "noise", *["run", "noise"] * 6]
    assert all(entry["seconds"] > 0 for entry in campaign.of("noise"))


def test_what_is_left_is_counted(tmp_path, canned, capsys):
    """Catches "1 runs left", and a last line that says that nothing is left."""
    canned(record_of)
    study = study_of("strong", "echo", *ALONE)
    executed(study, tmp_path / "c.jsonl", Policy(3, pin=False))
    first, second, last = capsys.readouterr().err.splitlines()
    assert "; 2 runs left, about" in first and "; 1 run left, about" in second
    assert last.endswith("ms per step")


@pytest.mark.slow
def test_runs_say_how_and_where(tmp_path):
    study = study_of("strong", "echo", "--preset", "tiny", "--pes", "2")
    status, campaign = executed(study, tmp_path / "c.jsonl", Policy(1))
    assert status == VALID
    runs = {run["record"]["driver"]: run for run in campaign.of("run")}
    assert runs["mpi"]["command"].startswith("mpiexec -n 2 -bind-to user:")
    assert "+setcpuaffinity +pemap" in runs["charm"]["command"]
    for run in runs.values():
        assert "miniapps run echo" in run["command"] and str(Path.home()) not in run["command"]
        assert str(ROOT) not in run["command"]
        assert run["record"]["versions"]["numpy"] and run["record"]["host"]["processor"]
    assert "MPICH" in runs["mpi"]["record"]["versions"]["mpi"]
    assert runs["charm"]["record"]["versions"]["charm"] == "netlrts"
    (start,) = campaign.of("start")
    assert start["host"]["cores"] == environment.cores() and start["pinned"]


PINNED = Policy(1)
AFFINITY = """
import os, sys
def said():
    os.write(1, f"cores {sorted(os.sched_getaffinity(0))}\\n".encode())
if sys.argv[1:2] == ["charm"]:
    from charm4py import Chare, Group, charm
    class PE(Chare):
        def say(self):
            said()
    def main(arguments):
        Group(PE).say(awaitable=True).get()
        charm.exit()
    charm.start(main)
else:
    said()
"""


@pytest.mark.parametrize("driver", ["serial", "mpi", "charm"])
def test_each_pe_is_pinned_to_a_core_of_its_own_the_same_under_all_drivers(tmp_path, driver):
    """Mistake: words that a launcher takes and ignores, or cores that are not allowed."""
    pes = min(2, environment.cores())
    (spec,) = study_of("strong", "echo", "--pes", str(pes), "--drivers", driver).specs()
    pinning = runner.pinning(spec, PINNED)
    program = tmp_path / "affinity.py"
    program.write_text(AFFINITY)
    start = {
        "serial": [*pinning, BIN / "python", program],
        "mpi": [BIN / "mpiexec", "-n", pes, *pinning, BIN / "python", program],
        "charm": [
            *[BIN / "python", "-m", "charmrun.start", f"+p{pes}", BIN / "python", program],
            *["charm", "--", "++local", "++quiet", *pinning],
        ],
    }[driver]
    lines = [line for line in execute(start).stdout.splitlines() if line.startswith("cores ")]
    wanted = environment.core_numbers()[: 1 if driver == "serial" else pes]
    assert sorted(lines) == sorted(f"cores [{core}]" for core in wanted)


def test_hardware_threads_of_a_core_come_after_all_cores(monkeypatch):
    """Four threads on two cores: 0 and 2 share one, 1 and 3 the other."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3})
    monkeypatch.setattr(environment, "_siblings", lambda n: {0: [0, 2], 1: [1, 3]}[n % 2])
    assert environment.core_numbers() == [0, 1, 2, 3]
    monkeypatch.setattr(environment, "_siblings", lambda n: {0: [0, 1], 1: [2, 3]}[n // 2])
    assert environment.core_numbers() == [0, 2, 1, 3]


def test_oversubscribed_runs_and_those_of_another_launcher_are_not_pinned():
    more = environment.cores() + 1
    study = study_of("strong", "echo", "--pes", str(more))
    assert [runner.pinning(spec, PINNED) for spec in study.specs()] == [[], []]
    (spec,) = study_of("strong", "echo", "--pes", "1", "--drivers", "mpi").specs()
    assert runner.pinning(spec, PINNED) != []
    assert runner.pinning(spec, Policy(1, pin=False)) == []
    assert runner.pinning(spec, Policy(1, launcher="mpiexec")) == []


WRONG_RECORDS = {
    "an invalid run": (
        {
            "valid": False,
            "checks": [{"name": "missing cells", "value": 3.0, "limit": 0.0, "ok": False}],
        },
        "not valid: missing cells",
    ),
    "another state": ({"state_hash": "cd" * 32}, "ended in another state than run"),
    "other PEs than asked": ({"pes": 1}, "pes was 1, asked was 2"),
    "another balancer": ({"balancer": "Greedy"}, "balancer was Greedy, asked was None"),
    "rounds too short for the clock": ({"step_s": 1e-9}, "too short"),
}


@pytest.mark.parametrize("what", WRONG_RECORDS)
def test_a_wrong_run_is_dropped_loudly_and_fails_the_study(tmp_path, canned, capfd, what):
    more, reason = WRONG_RECORDS[what]
    study = study_of("strong", "echo", *TINY)
    wrong = iter([False, False, True])  # the third launch

    def result(spec: Any) -> dict[str, Any]:
        if next(wrong, False):
            return record_of(spec, **({"pes": 3 - spec.pes} if what.startswith("other") else more))
        return record_of(spec)

    canned(result)
    status, campaign = executed(study, tmp_path / "c.jsonl")
    assert status == WRONG
    (dropped,) = campaign.of("dropped")
    assert reason.split(" was ")[0] in dropped["reason"] and dropped["final"]
    assert len(list(campaign.of("run"))) == 5
    assert f"DROPPED: {dropped['reason']}" in capfd.readouterr().err
    assert executed(study, tmp_path / "c.jsonl")[0] == WRONG  # and stays so


def test_a_run_that_failed_is_made_again(tmp_path, canned):
    study = study_of("strong", "echo", *TINY)
    results = iter([3])
    canned(lambda spec: next(results, None) or record_of(spec))
    status, campaign = executed(study, tmp_path / "c.jsonl")
    assert status == WRONG and campaign.failures[0]["reason"] == "failed with status 3"
    status, campaign = executed(study, tmp_path / "c.jsonl")
    assert status == VALID and not campaign.failures
    assert len(campaign.completed) == len(list(campaign.of("run"))) == 6


def test_one_run_of_each_trial_and_point_counts(tmp_path, canned):
    """Catches a run that counts twice, and one made again that does not count for the first."""
    path = tmp_path / "c.jsonl"
    study = study_of("strong", "echo", *TINY)
    made = canned(record_of)
    executed(study, path)
    lines = path.read_text().splitlines()
    repeated = next(line for line in lines if '"event":"run"' in line)
    path.write_text("\n".join([*lines, repeated, ""]))
    campaign = Campaign.read(path)
    assert len(list(campaign.of("run"))) == 6 and not campaign.failures
    (dropped,) = campaign.of("dropped")
    assert dropped is campaign.events[-1]
    assert dropped["reason"] == "there is another run of this trial and point before"
    changed = json.loads(repeated)
    changed["record"]["state_hash"] = "cd" * 32
    path.write_text("\n".join([json.dumps(changed) if x == repeated else x for x in lines]) + "\n")
    made.clear()
    for _ in range(2):
        status, campaign = executed(study, path)
        assert status == VALID and not campaign.failures and len(made) == 1
        assert len(campaign.completed) == len(list(campaign.of("run"))) == 6


def test_different_problems_may_end_in_different_states(tmp_path, canned):
    study = study_of("weak", "echo", *TINY)
    canned(lambda spec: record_of(spec, state_hash=f"{spec.pes:064x}"))
    assert executed(study, tmp_path / "c.jsonl")[0] == VALID


def test_the_time_tile_is_no_other_problem(canned):
    one, other = (
        record_of(study_of("strong", "jacobi2d", *TINY, "--time-tile", tile).specs()[0])
        for tile in ("1", "4")
    )
    assert one["problem"] != other["problem"] and answer_key(one) == answer_key(other)
    assert answer_key(one) != answer_key(other | {"steps": 7})


def disturbance(waited: float) -> dict[str, Any]:
    """The disturbance of a PE that waited a share of its time for a core."""
    others = dict.fromkeys(("load_average", "switches_per_s", "steal"), 0.0)
    return {"disturbance": others | {"waited": waited}}


def test_a_disturbed_run_is_repeated(tmp_path, canned, monkeypatch):
    """Catches times of a busy machine in a study that asked for a quiet one."""
    study = study_of("strong", "echo", *ALONE)
    monkeypatch.setattr(noise, "sample", lambda: 0.1)
    waits = iter([0.5, 0.3, 0.01, 0.0])
    canned(lambda spec: record_of(spec, **disturbance(next(waits))))
    policy = Policy(2, pin=False, max_noise=0.05)
    status, campaign = executed(study, tmp_path / "c.jsonl", policy)
    kept = [run["record"]["disturbance"]["waited"] for run in campaign.of("run")]
    assert status == VALID and kept == [0.01, 0.0]
    reasons = [entry["reason"] for entry in campaign.of("dropped")]
    assert len(reasons) == 2 and "disturbed: a PE waited 50% of the time" in reasons[0]


@pytest.mark.long
def test_a_core_that_is_a_little_slower_is_not_waited_for(tmp_path, canned, monkeypatch):
    """Catches a study on a virtual machine that waits minutes before each of its runs."""
    study = study_of("strong", "echo", *ALONE)
    samples = iter([0.1] + [0.12] * 9)
    monkeypatch.setattr(noise, "sample", lambda: next(samples))
    monkeypatch.setattr(runner.time, "sleep", lambda seconds: pytest.fail("waits"))
    launched = canned(lambda spec: record_of(spec, **disturbance(0.01)))
    policy = Policy(2, pin=False, max_noise=0.02)
    executed(study, tmp_path / "c.jsonl", policy)
    assert len(launched) == 2


def test_the_summary_says_that_a_run_was_disturbed():
    """Catches a run beside other work that prints its rate without a word.

    And one that does not say its warm-up, or what was left out of its times.
    """
    spec = study_of("strong", "echo", "--preset", "tiny", "--pes", "1").specs()[0]
    further = {"gpu": None, "transport": None, "jit_s": 0.0, "import_s": 0.0, "snapshots_s": 0.25}
    further["audits_s"] = 0.0
    quiet, busy = (
        record.summary(record_of(spec, **further, **disturbance(waited))) for waited in (0.01, 0.37)
    )
    assert "DISTURBED" not in quiet and "DISTURBED: a PE waited 37% of the time" in busy
    assert "on 1 PE, cpu" in quiet and f"after {spec.warmup} of warm-up" in quiet
    assert "snapshots 0.25 s, not timed" in quiet


def test_a_machine_that_stays_busy_is_announced(tmp_path, canned, monkeypatch):
    """Catches a study that never ends on a busy machine, or ends without a word."""
    study = study_of("strong", "echo", *ALONE)
    samples = iter([0.1] + [0.2] * 99)
    monkeypatch.setattr(noise, "sample", lambda: next(samples))
    monkeypatch.setattr(runner, "PATIENCE_S", 0.0)
    monkeypatch.setattr(runner, "RETRY_S", 0.0)
    launched = canned(lambda spec: record_of(spec, **disturbance(0.5)))
    policy = Policy(1, pin=False, max_noise=0.05)
    status, campaign = executed(study, tmp_path / "c.jsonl", policy)
    assert status == VALID and len(launched) == runner.ATTEMPTS
    (line,) = provenance.disturbed_lines(campaign)
    assert "in 1 of 1 run other programs took up to 50% of a PE's time" in line


@pytest.mark.slow
def test_until_ci_goes_on_where_intervals_are_wide(tmp_path, canned):
    """One PE's times vary by 20 %, two PEs' not at all: the first needs more trials."""
    study = study_of("strong", "echo", *TINY)
    values = np.random.default_rng(7).normal(1e-3, 2e-4, 100)
    times = iter(values.tolist())
    canned(lambda spec: record_of(spec, next(times) if spec.pes == 1 else 1e-3))
    _, campaign = executed(study, tmp_path / "c.jsonl", Policy(5, 0.05, 99, pin=False))
    found = [[run for run in campaign.of("run") if run["point"] == point] for point in (0, 1)]
    assert len(found[1]) == 5 and 5 < len(found[0]) < 99
    count = len(found[0])
    assert mean_interval(values[:count]).relative_half_width <= 0.05
    assert mean_interval(values[: count - 1]).relative_half_width > 0.05


@pytest.mark.long
def test_until_ci_ends_at_the_most_trials_and_says_so(tmp_path, canned):
    study = study_of("strong", "echo", *TINY)
    times = iter(np.geomspace(1e-3, 1.0, 100).tolist())
    canned(lambda spec: record_of(spec, next(times)))
    _, campaign = executed(study, tmp_path / "c.jsonl", Policy(3, 0.01, 5, pin=False))
    assert len(list(campaign.of("run"))) == 10
    assert sorted(validation.wide_points(campaign, 0.01)) == [0, 1]
    notes = [note for note in tables.tables(campaign)[0].notes if "wider than" in note]
    assert len(notes) == 2 and notes[0].startswith("mpi, 1 PE: the interval is ")
    assert "the 1.0% asked for" in notes[0]


def test_a_point_with_a_wrong_run_is_not_made_narrower(tmp_path, canned):
    study = study_of("strong", "echo", *TINY)
    wrong = iter([True])
    times = iter(np.geomspace(1e-3, 1.0, 100).tolist())

    def result(spec: Any) -> dict[str, Any]:
        step_s = next(times) if spec.pes == 1 else 1e-3
        return record_of(spec, step_s, valid=not (spec.pes == 1 and next(wrong, False)))

    canned(result)
    _, campaign = executed(study, tmp_path / "c.jsonl", Policy(3, 0.01, 9, pin=False))
    assert len(list(campaign.of("run"))) == 5 and len(list(campaign.of("dropped"))) == 1


@pytest.mark.parametrize(
    ("what", "line"),
    [
        ("host", "was begun with host {'cores': 99"),
        ("versions", "was begun with versions {'numpy': '1.0'"),
        ("pinned", "was begun with pinned True, not False"),
    ],
)
def test_a_study_is_not_resumed_elsewhere_or_otherwise(tmp_path, canned, what, line):
    path, study = tmp_path / "c.jsonl", study_of("strong", "echo", *TINY)
    canned(record_of)
    executed(study, path, Policy(1, pin=False))
    text = path.read_text()
    start = next(Campaign.read(path).of("start"))
    other = {"host": {"cores": 99}, "versions": {"numpy": "1.0"}, "pinned": True}[what]
    was = json.dumps(start[what], separators=(",", ":"))
    now = start[what] | other if isinstance(other, dict) else other
    path.write_text(text.replace(was, json.dumps(now, separators=(",", ":")), 1))
    with pytest.raises(InputError) as error:
        executed(study, path)
    assert line in str(error.value)


def test_two_studies_do_not_run_at_once(tmp_path, canned):
    study = study_of("strong", "echo", *TINY)

    def result(spec: Any) -> dict[str, Any]:
        with pytest.raises(InputError, match="another one is running"):
            executed(study, tmp_path / "other.jsonl")
        return record_of(spec)

    canned(result)
    assert executed(study, tmp_path / "c.jsonl")[0] == VALID


def test_more_trials_are_added_to_the_same_campaign(tmp_path, canned):
    study = study_of("strong", "echo", *TINY)
    canned(record_of)
    executed(study, tmp_path / "c.jsonl")
    before = (tmp_path / "c.jsonl").read_bytes()
    launched = canned(record_of)
    executed(study, tmp_path / "c.jsonl")
    assert not launched and (tmp_path / "c.jsonl").read_bytes() == before
    executed(study, tmp_path / "c.jsonl", Policy(4, pin=False))
    assert len(launched) == 2 and (tmp_path / "c.jsonl").read_bytes().startswith(before)


# Killed -------------------------------------------------------------------------------------------


RUN = b'"event":"run"'


def start_study(path: Path, *more: object) -> subprocess.Popen[bytes]:
    """A study on two PEs; its processes have the mark ``path``."""
    words = ("study", "strong", "jacobi2d", "--time-tile", 1, "--pes", 2, "--campaign", path, *more)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    environment = support.clean_environment({support.MARK: str(path)})
    return subprocess.Popen([BIN / "miniapps", *map(str, words)], env=environment, **quiet)


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["serial", "mpi", "charm"])
def test_the_run_of_a_killed_study_ends_with_it(tmp_path, driver):
    """Mistake: ranks that compute on for minutes, into the times of the study that is resumed."""
    path = tmp_path / "c.jsonl"
    study = start_study(path, "--size", "400x400", "--steps", 10_000_000, "--drivers", driver)
    pes = 1 if driver == "serial" else 2
    support.wait_for(lambda: support.stepping(path, pes))
    study.send_signal(signal.SIGKILL)
    assert study.wait() == -signal.SIGKILL
    support.wait_for(lambda: not support.marked(path), support.ENDING_S)


def whole_runs(content: bytes) -> int:
    """The runs in a campaign file whose lines were written to their end."""
    return content[: content.rfind(b"\n") + 1].count(RUN)


@pytest.mark.slow
def test_a_killed_study_loses_the_run_under_way_at_most(tmp_path):
    """Kill -9 inside a run, and between two (as soon as a line has been added)."""
    path, kept, drivers = tmp_path / "c.jsonl", b"", skips.expected("mpi", "charm")
    points, trials = len(drivers), 2 // len(drivers)  # two runs, each a second long
    words = ("--size", "600x600", "--steps", 1000, "--trials", trials)
    words += ("--drivers", ",".join(drivers))
    for inside in (True, False):
        study = start_study(path, *words)
        runs = whole_runs(kept)
        if inside:
            support.wait_for(lambda: support.stepping(path, 2))
        else:
            support.wait_for(lambda runs=runs: whole_runs(path.read_bytes()) > runs)
        study.send_signal(signal.SIGKILL)
        study.wait()
        now = path.read_bytes()
        assert now.startswith(kept[: kept.rfind(b"\n") + 1])
        assert whole_runs(now) == runs + (not inside)
        kept = now
        support.wait_for(lambda: not support.marked(path), support.ENDING_S)
    assert start_study(path, *words).wait() == VALID
    runs = [(run["trial"], run["point"]) for run in Campaign.read(path).of("run")]
    assert sorted(runs) == [(trial, point) for trial in range(trials) for point in range(points)]
    assert not support.marked(path)


# Noise --------------------------------------------------------------------------------------------


def test_noise_in_numbers():
    """Eleven samples 10, 11, ..., 20: tenths are 11 and 19, the median 15."""
    found = noise.Noise.of([float(n) for n in range(10, 21)])
    assert (found.samples, found.median_s) == (11, 15.0)
    assert found.spread == pytest.approx(8 / 15) and found.worst == pytest.approx(5 / 15)
    assert "11 times" in str(found) and "53.3%" in str(found)


def test_the_clock_ticks():
    assert 0 < noise.clock_tick() < 1e-4


def test_a_studys_warm_up_is_ten_steps_unless_it_says_otherwise():
    assert study_of("strong", "jacobi2d").warmup == 10
    assert study_of("strong", "leanmd", "--preset", "melt").warmup == 10
    assert study_of("strong", "echo", "--preset", "paper").warmup == 60
    assert study_of("strong", "jacobi2d", "--warmup", "0").warmup == 0
