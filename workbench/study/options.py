"""The options of ``miniapps study``, from the command line or a TOML file.

Each key of a TOML file is an option, and a list is a value with commas. With ``--quick``, the
values in the table ``quick`` override the others.
"""

from __future__ import annotations

import argparse
import math
import re
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from itertools import chain, product
from pathlib import Path
from typing import Any

from miniapps import apps, drivers
from miniapps.drivers.descriptor import Balancing
from miniapps.drivers.hosts import hosts
from miniapps.json_input import in_words, parsed
from miniapps.parameters import InputError, contents, integer, require
from miniapps.workbench.arguments import (
    SHARE,
    add_app_options,
    add_max_noise,
    add_number,
    add_options,
    add_stall,
    typed,
)
from miniapps.workbench.run.spec import MOST_PES, WARMUP, RunSpec, requested
from miniapps.workbench.study.plan import KINDS, MOST_STEPS, NO_BALANCING, SHARED, Study, usual_pes
from miniapps.workbench.study.titles import TITLES
from miniapps.workbench.table import labelled, width

SHIPPED = Path(__file__).parents[2] / "studies"  # in the source tree and where it is installed
PAPERS = SHIPPED / "papers"  # files that are no studies: what publications say
MOST_TRIALS = 100
MOST_RUNS = 1000  # of a trial: each is planned before the first begins
MOST_BYTES = 1 << 15  # of a TOML file
MOST_PUBLISHED = 1 << 20  # bytes of a file with published values
MOST_PARTS = 16  # of a key a.b.c: reading one takes as long as the square of their number
PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""
LONG_KEY = re.compile(rf"(?<![\w-]){PART}(?:[ \t]*+\.[ \t]*+{PART}){{{MOST_PARTS}}}")
MATRIX = ("pes", "drivers", "odf", "balancers", "lb-periods")  # options that take a list
ONLY_SLURM = ("--folder", "--sbatch", "--checkpoints")
ONLY_HERE = ("--until-ci", "--max-noise", "--no-pin", "--stall", "--campaign", "--hosts")
HALVINGS = 12
VARY = (
    "in a study of kind lb: make it with each of these values of an option of the app; a + joins "
    "several to one: size=9x9+level=1,size=8x8+level=2; several --vary: all combinations"
)
ONLY_GRANULARITY = "only in a study of granularity"
COMM = "comm"  # the kind of campaigns of communication benchmarks
SOURCES = ("published", "source", "quick")  # keys of a TOML file that are no options
KEY = re.compile("[a-z0-9][a-z0-9-]*")  # of a TOML file
ALLOW = "--allow-launcher"
PROGRAMS = ("--launcher", "--sbatch", ALLOW)  # of a TOML file: what it would have started
PLACES = ("--campaign", "--folder")  # of a TOML file: where it would have files written


def numbers(text: str) -> tuple[int, ...]:
    """Read a list such as "1,2,4". Raises ValueError."""
    try:
        return tuple(integer(word) for word in text.split(","))
    except ValueError:
        raise ValueError("integers separated by commas, such as 1,2,4") from None


def names(text: str) -> tuple[str, ...]:
    """Read a list of names separated by commas."""
    return tuple(text.split(","))


def balancer_names(text: str) -> tuple[str, ...]:
    """Read the names of balancers, in any case; unknown names stay unchanged."""
    known = {name.lower(): name for name in balancers()}
    return tuple(known.get(name.lower(), name) for name in names(text))


def expanded(arguments: list[str]) -> list[str]:
    """The arguments of a study; a TOML file, or the name of one of ours, becomes its options.

    Raises InputError.
    """
    own = shipped()
    files = [word for word in arguments[:2] if word.endswith(".toml") or word in own]
    if not files:
        return arguments
    path = own.get(files[0]) or study_file(Path(files[0]))
    if table_of(path).get("kind") == COMM:
        rest = [word for word in arguments if word not in (COMM, files[0])]
        return [COMM, str(path), *rest]
    allowed = "is of no communication benchmarks: study FILE.toml makes it"
    require(arguments[0] != COMM, "FILE.toml", path, allowed)
    rest = [word for word in arguments if word not in ("--quick", files[0])]
    quick = "--quick" in arguments
    name = path.stem + ("-quick" if quick else "")
    words = words_of_file(path, quick)
    _require_harmless(path, words, {word.partition("=")[0] for word in rest})
    return [*words, f"--name={name}", *rest]


def _require_harmless(path: Path, words: list[str], given: set[str]) -> None:
    """Raise InputError if a file has a program started, or files written outside this folder.

    ``words``: those of the file; ``given``: the options of the command line, which may allow it or
    name others instead.
    """
    for word in words:
        option, _, value = word.partition("=")
        mine = ALLOW in given or (option in given and option != "--sbatch")  # which are added
        mend = ALLOW if option == "--sbatch" else f"{option} yourself, or {ALLOW}"
        allowed = f"{path} says what to start: give {mend} if you trust it"
        require(mine or option not in PROGRAMS, option, value, allowed)
        inside = not Path(value).is_absolute() and ".." not in Path(value).parts
        allowed = f"{path} names a place outside this folder: give {option} yourself"
        require(inside or option in given or option not in PLACES, option, value, allowed)


def shipped() -> dict[str, Path]:
    """The files of the studies that come with the project, by name, such as jacobi2d-strong."""
    found = (file for file in SHIPPED.rglob("*.toml") if PAPERS not in file.parents)
    files = sorted(found, key=lambda file: (len(file.parts), file))
    return {str(file.relative_to(SHIPPED).with_suffix("")): file for file in files}


def listed() -> Iterator[str]:
    """The names of the project's studies, each with what it repeats or measures."""
    for name, file in shipped().items():
        table = tomllib.loads(file.read_text(encoding="utf-8"))
        about = table.get("source") or f"{TITLES[table['kind']]} of {table['app']}"
        yield from labelled(f"{name:33}", about, width())


def study_file(path: Path) -> Path:
    """The path of a TOML file; if it does not exist, the project's own file of that name.

    Both ``pic-lb.toml`` and ``studies/pic-lb.toml`` name the project's own file.
    """
    own = SHIPPED / (path.relative_to("studies") if path.parts[0] == "studies" else path)
    return own if own.exists() and not path.exists() else path


def add_study_options(parser: Any, problem: Any) -> None:
    """Add the options of a study of one app."""
    add_options(parser, RunSpec, SHARED)
    add_options(parser, Balancing, ("lb_first",))
    add_matrix(parser, problem)
    group = parser.add_argument_group("study")
    add = group.add_argument
    add("--trials", type=typed(int), default=10, metavar="N", help="default: 10")
    add_number(add, "--until-ci", SHARE, "add trials until intervals are narrow", metavar="P%")
    help = f"with --until-ci; default: {MOST_TRIALS}"
    add("--max-trials", type=typed(int), metavar="N", help=help)
    add_max_noise(add)
    add("--shuffle-seed", type=typed(int), default=0, metavar="N", help="seed of the order of runs")
    add("--force", action="store_true", help="run even what does not fit into memory")
    add("--hosts", type=typed(hosts), metavar="a:8,b:8", help="as of `miniapps run`")
    add("--no-pin", action="store_true", help="do not pin PEs to cores")
    add_stall(group)
    help = "default: KIND-APP.jsonl, or named as the TOML file"
    add("--campaign", type=Path, metavar="FILE.jsonl", help=help)
    add("--published", type=Path, help=argparse.SUPPRESS)
    add_model(add)
    add("--name", help=argparse.SUPPRESS)  # of the campaign file; from a TOML file
    add("--launcher", metavar="slurm|PATH", help="slurm: write job scripts; or an mpiexec to start")
    add(ALLOW, action="store_true", help="accept the launcher and sbatch options of a TOML file")
    add("--dry-run", action="store_true", help="list the runs; with slurm, write scripts only")
    add("--folder", type=Path, help="folder of job scripts; default: jobs")
    add("--sbatch", action="append", default=[], metavar="OPTION", help="a line for every script")
    help = "with slurm: runs that were stopped continue from a checkpoint"
    add("--checkpoints", action="store_true", help=help)
    add_app_options(parser, problem)


def add_model(add: Any) -> None:
    """Add ``--model``, by a method ``add_argument``; empty: this machine."""
    help = "also draw the predictions of `miniapps model`, for one of its machines or this one"
    add("--model", nargs="?", const="", metavar="MACHINE", help=help)


def add_matrix(parser: Any, problem: Any) -> None:
    """Add the options from which the points of a study are made."""
    add = parser.add_argument_group("matrix").add_argument
    add("--pes", type=typed(numbers), metavar="LIST", help="default: 1,2,4.. or the cores")
    found = drivers.found().values()
    several = tuple(driver.name for driver in found if driver.studied and not driver.one_process)
    usual = f"default: {','.join(several)}"
    add("--drivers", type=typed(names), default=several, help=usual)
    add("--odf", type=typed(numbers), metavar="LIST", help="blocks per PE")
    help = f"of {', '.join(balancers())}"
    add("--balancers", type=typed(balancer_names), metavar="LIST", help=help)
    add("--lb-periods", type=typed(numbers), metavar="LIST", help="steps between load balancing")
    add("--vary", action="append", default=[], metavar="OPTION=VALUE,..", help=VARY)
    help = f"of a granularity study; default: {HALVINGS}"
    add("--halvings", type=typed(int), metavar="N", help=help)
    help = f"of a granularity study: a halving doubles the steps up to N; default: {MOST_STEPS}"
    add("--max-steps", type=typed(int), metavar="N", help=help)
    add("--preset", metavar="NAME", help=f"one of: {', '.join(problem.presets)}")


def balancers() -> list[str]:
    """The balancers of all drivers."""
    named = (driver.balancers for driver in drivers.found().values())
    return list(dict.fromkeys(chain.from_iterable(named)))


def _halvings(options: argparse.Namespace) -> int:
    """The number of halvings of the problem. Raises InputError."""
    given = options.halvings
    if options.kind != "granularity":
        require(given is None, "--halvings", given, ONLY_GRANULARITY)
        return 0
    require(given is None or given >= 0, "--halvings", given, "must be 0 or more")
    return HALVINGS if given is None else int(given)


def _odfs(options: argparse.Namespace) -> tuple[int, ...]:
    """The numbers of blocks per PE. Raises InputError if no driver can have several."""
    usual = {"odf": (1, 2, 4, 8), "lb": (4,)}.get(options.kind, (1,))
    named: tuple[int, ...] = options.odf or usual
    able = [driver.name for driver in drivers.found().values() if driver.over_decomposition]
    fits = options.odf in (None, (1,)) or bool({*able} & {*options.drivers})
    allowed = f"needs --drivers {' or '.join(able)}"
    require(fits, "--odf", ",".join(map(str, named)), allowed)
    return named


def study_of(options: argparse.Namespace) -> Study:
    """The study that the options request. Raises InputError."""
    kind = options.kind
    problem, steps, warmup = requested(options)
    if options.warmup is None:
        warmup = max(warmup, WARMUP)
    vary, problems = tuple(options.vary), varied(options)
    study = Study(
        kind=kind,
        app=options.app,
        problem=problem,
        steps=steps,
        warmup=warmup,
        device=options.device or "cpu",
        pes=options.pes or usual_pes(kind, options.hosts),
        drivers=options.drivers,
        odfs=_odfs(options),
        balancer_settings=_balancer_settings(options),
        halvings=_halvings(options),
        pe_grid=options.pe_grid,
        shuffle_seed=options.shuffle_seed,
        most_steps=MOST_STEPS if options.max_steps is None else options.max_steps,
        lb_first=options.lb_first,
        hosts=options.hosts,
        own_best=frozenset(f.name for f in fields(problem) if getattr(options, f.name) == "auto"),
        vary=vary,
        problems=problems,
    )
    for driver in study.drivers:
        drivers.get(driver, "--drivers")
    runs = study.most_runs()
    require(runs <= MOST_RUNS, kind, options.app, f"plans {runs} runs, more than {MOST_RUNS}")
    for pes in study.pes:
        require(1 <= pes <= MOST_PES, "--pes", pes, f"must be 1 or more, at most {MOST_PES}")
    if options.max_steps is not None:
        require(kind == "granularity", "--max-steps", options.max_steps, ONLY_GRANULARITY)
        least = f"must be {steps} or more, the steps of the whole problem"
        require(options.max_steps >= steps, "--max-steps", options.max_steps, least)
    for option in MATRIX:
        values = getattr(options, option.replace("-", "_")) or ()
        once = len(set(values)) == len(values)
        require(once, f"--{option}", ",".join(map(str, values)), "must name each value once")
    return study


def varied(options: argparse.Namespace) -> tuple[Any, ...]:
    """The problems that ``--vary`` asks for: all combinations of its sets. Raises InputError."""
    sets: list[list[dict[str, Any]]] = []
    for text in options.vary:
        allowed = "only in a study of load balancing, of kind lb"
        require(options.kind == "lb", "--vary", text, allowed)
        sets.append([_assigned(options.app, text, words) for words in text.split(",")])
    many = math.prod(map(len, sets))
    require(many <= MOST_RUNS, "--vary", many, f"must be at most {MOST_RUNS} combinations")
    found = []
    for chosen in product(*sets) if sets else ():
        values = dict(chain.from_iterable(one.items() for one in chosen))
        found.append(requested(argparse.Namespace(**vars(options) | values))[0])
    twice = next((one for n, one in enumerate(found) if one in found[:n]), None)
    require(twice is None, "--vary", ", ".join(options.vary), "must give each problem once")
    return tuple(found)


def _assigned(app: str, text: str, words: str) -> dict[str, Any]:
    """The fields of a problem that an alternative of ``--vary`` sets. Raises InputError."""
    declared = {
        field.metadata["option"].lstrip("-"): field
        for field in fields(apps.load(app).Problem)
        if "option" in field.metadata
    }
    found: dict[str, Any] = {}
    for word in words.split("+"):
        option, equals, value = word.partition("=")
        known = f"must be OPTION=VALUE, with an option of {app}: {', '.join(declared)}"
        require(bool(equals) and option in declared, "--vary", text, known)
        field = declared[option]
        require(field.name not in found, "--vary", text, f"gives {option} twice")
        try:
            found[field.name] = field.metadata["parse"](value)
        except ValueError as error:
            raise InputError("--vary", word, f"must be {error}") from None
    return found


def _balancer_settings(options: argparse.Namespace) -> tuple[tuple[str | None, int], ...]:
    """Pairs of balancer and period; in a study of kind lb the first pair is no balancing."""
    named, periods = options.balancers, options.lb_periods
    if options.kind != "lb" and named is None:
        given = ",".join(map(str, periods or ()))
        require(periods is None, "--lb-periods", given, "needs --balancers")
        require(options.lb_first is None, "--lb-first", options.lb_first, "needs --balancers")
        return (NO_BALANCING,)
    for name in named or ():
        known = f"must be of {', '.join(balancers())}"
        require(name in balancers(), "--balancers", name, known)
    able = [driver.name for driver in drivers.found().values() if driver.balancers]
    allowed = f"only {' and '.join(able)} balances, and must be there"
    given = options.drivers
    require(bool({*able} & {*given}), "--drivers", ",".join(given), allowed)
    named = named or ("Greedy", "GreedyRefine")
    pairs = tuple((name, period) for name in named for period in periods or (30,))
    return (NO_BALANCING, *pairs) if options.kind == "lb" else pairs


def check_policy(options: argparse.Namespace) -> None:
    """Raise InputError unless the options of trials and launching can be combined."""
    require(options.trials >= 1, "--trials", options.trials, "must be 1 or more")
    if options.until_ci is not None:
        few = "needs 5 trials or more: fewer have no interval to speak of"
        require(options.trials >= 5, "--until-ci", f"{100 * options.until_ci:g}%", few)
    most, least = options.max_trials, f"must be {options.trials} or more"
    if most is not None:
        require(options.until_ci is not None, "--max-trials", most, "needs --until-ci")
        require(most >= options.trials, "--max-trials", most, least)
    slurm = options.launcher == "slurm"
    for option in ONLY_SLURM if not slurm else ONLY_HERE:
        value = getattr(options, option[2:].replace("-", "_"))
        allowed = "not with --launcher slurm" if slurm else "only with --launcher slurm"
        require(not value, option, value, allowed)


def table_of(path: Path) -> dict[str, Any]:
    """The contents of a TOML file. Raises InputError."""
    text = contents("FILE.toml", path, MOST_BYTES)
    many = f"has a key, or a word, of more than {MOST_PARTS} parts with dots between"
    require(LONG_KEY.search(text) is None, "FILE.toml", path, many)
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError("FILE.toml", path, f"is no TOML: {in_words(error)}") from None


def json_of(option: str, path: Path) -> Any:
    """The value of a JSON file. Raises InputError."""
    text = contents(option, path, MOST_PUBLISHED)
    try:
        return parsed(text)
    except ValueError as error:
        raise InputError(option, path, f"is no JSON: {error}") from None


def published_values(path: Path, option: str = "published") -> dict[str, Any]:
    """The object in a JSON file, which names its source. Raises InputError."""
    found = json_of(option, path)
    named = isinstance(found, dict) and isinstance(found.get("source"), str)
    require(named, option, path, "must be an object that names its source")
    return dict(found)


def words_of_file(path: Path, quick: bool) -> list[str]:
    """The arguments that are equivalent to a TOML file. Raises InputError."""
    table = table_of(path)
    if quick:
        require("quick" in table, "--quick", path, "the file has no table [quick]")
        table |= table["quick"]
    kind, app = table.pop("kind", None), table.pop("app", None)
    require(kind in KINDS, "kind", kind, f"must be one of {', '.join(KINDS)}")
    require(app in apps.names(), "app", app, f"must be one of {', '.join(apps.names())}")
    words = [kind, app]
    for key, value in table.items():
        require(bool(KEY.fullmatch(key)), "FILE.toml", path, f"has the key {key!r}, no option")
        if key not in SOURCES:
            words += option_words(key, value)
    if "published" in table:
        beside = table["published"]
        require(isinstance(beside, str), "published", beside, "must be the path of a file")
        words += ["--published", str(path.parent / beside)]
    return words


def option_words(key: str, value: Any) -> list[str]:
    """The arguments of one key; a list becomes one option of the matrix, or repeated options."""
    option = f"-{key}" if len(key) == 1 else f"--{key}"
    if isinstance(value, bool):
        return [option] if value else []
    if isinstance(value, list) and key not in MATRIX:
        return [word for one in value for word in option_words(key, one)]
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return [f"{option}={text}"] if len(key) > 1 else [option, text]
