"""The documentation: paths, options, commands and quoted output exist; plain words for readers."""

from __future__ import annotations

import pkgutil
import re
import shlex
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

import pytest
import support
from pages import LESSONS, PAGES, commands
from support import ROOT

from miniapps import apps, drivers, tiling
from miniapps.lessons.mistakes import Mistake
from miniapps.parameters import InputError
from miniapps.stencil3d.problem import load_factor
from miniapps.workbench.cli import build_parser, spec_of, split_runtime_options, with_names_of_apps
from miniapps.workbench.plural import counted
from miniapps.workbench.run.spec import RunSpec
from miniapps.workbench.selftest import faults
from miniapps.workbench.study.cells import FEW
from miniapps.workbench.study.command import EXAMPLES
from miniapps.workbench.study.options import expanded, shipped, study_of, table_of
from miniapps.workbench.study.plan import KINDS
from miniapps.workbench.study.tables import SHORT_S

TOP = r"(?:devices|kernels|miniapps|drivers|communication|workbench|tests|docs|benchmarks|studies)"
NOT_HERE = {"docs/adding-an-app.md": r"miniapps/advect.*"}  # files that the reader writes
WRITTEN = r"benchmarks/gpu/validation\.json|benchmarks/results/gpu\.json|.*/__pycache__/.*"

# A word that is not used -> the term that is. Regular expressions, without regard to case.
WORDS = {
    r"(?<!new )promises?|share of promise": "ideal gain (max/mean), fraction achieved",
    r"contests?": "pairwise comparison",
    r"hollow": "stub (driver), open (marker)",
    r"parcels?": "message view",
    r"bundles?": "message buffer",
    r"heed": "check errors",
    r"chalk": "progress file",
    r"tied to cores|ties? (?:each )?PEs?": "pinned",
    r"walled": "guard-page array",
    r"one_back|one_on|every_in_line": "shift_left, shift_right, broadcast_line",
    r"tall(?:y|ies)|clean_tally": "counters",
    r"leavers?": "emigrants",
    r"go(?:es)? astray|astray": "lost",
    r"twins?": "counterpart",
    r"(?<!signal\.)alarms?|be_quiet": "error flag",
    r"(?<!fine_)grains?": "position quantum",
    r"oracles?": "reference implementation",
    r"stride\(step\)|BaseProblem\.stride": "steps_per_round",
    r"films?": "animation",
    r"judg(?:e|es|ed|ing)": "validate",
    r"verdicts?": "result",
    r"ways? of running": "configuration",
    r"surroundings": "environment",
    r"keepers?": "snapshot writer",
    r"landed": "on_device",
    r"settled?": "store, synchronize, determine",
    r"conduct(?:s|ed)?": "execute",
    r"(?<![/\"])pictures?": "thumbnail",
    r"stand-in driver": "stub driver",
}
# The same for the prose of pages alone: code may need these words.
PROSE = {
    r"balancings": "load-balancing steps",
    r"time tiles?": "temporal-blocking depth",
    r"standing receives?": "posted receive",
    r"pair objects?": "computes",
    r"(?<!cannot be )(?<!cannot be\n)told|tells?|hears?|heard": "receive, report, give",
    r"whoever|anybody|everybody|nobody": "the people who are meant: users, developers",
    r"go(?:es)? on|went on": "continue",
    r"stands? (?:in|there|beside)": "is",
    r"at hand": "available",
    r"for want of": "because ... is missing",
    r"wherein|thereof|whereby|thereby|hence": "so, by which",
    r"board|beats?": "progress file, heartbeat",
}
COLUMNS = 120
LEFT: dict[str, str] = {}  # files that still use one of these words, and for which term


def without_code(text: str) -> str:
    """A page without blocks of code, whose commands are checked by themselves."""
    return re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)


def named_paths(text: str) -> set[str]:
    """Paths of this project in inline code and in links from a page; modules that are started."""
    found = re.findall(rf"`((?:src/)?{TOP}/[\w./-]*\w)`", text)
    started = re.findall(rf"python3? -m ({TOP}\.[\w.]*\w)", text)
    modules = {f"{name.replace('.', '/')}.py" for name in started}
    return modules | {path for path in found if "<" not in path and "*" not in path}


def links(text: str) -> set[str]:
    """Targets of links inside this project."""
    return {target for target in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in target}


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", text, flags=re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def complaint(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Why the parser refuses a command, or by which name it knows an option now; else empty."""
    words, _ = split_runtime_options(words)
    words = with_names_of_apps(words)
    try:
        if words[0] == "study":
            words = ["study", *expanded(words[1:])]
        build_parser(words).parse_args(words)
    except SystemExit as end:
        assert not end.code  # after --help or --list
    except InputError as error:
        return str(error)
    return capsys.readouterr().err


@cache
def every_command() -> frozenset[str]:
    """The commands of `miniapps`."""
    (commands,) = build_parser([])._subparsers._group_actions  # type: ignore[union-attr]
    return frozenset(commands.choices)


def long_lines(text: str) -> list[str]:
    """Lines of more than COLUMNS characters that are not rows of a table."""
    return [line for line in text.splitlines() if len(line) > COLUMNS and line[0] != "|"]


def bad_words(text: str, words: Mapping[str, str] = WORDS) -> list[str]:
    """Words of a text, and parts of names, that have a better term, each with that term."""
    whole = r"(?<![a-z0-9-])(?:{})(?![a-z0-9])"
    if not re.search(whole.format("|".join(words)), text, flags=re.I):
        return []
    return [
        f"{match[0]}: say {term}"
        for word, term in words.items()
        for match in re.finditer(whole.format(word), text, flags=re.I)
    ]


@pytest.mark.parametrize("page", [*PAGES, *LESSONS])
def test_paths_and_links_exist(page: str) -> None:
    """Catches a page that names a file which was moved, and a link or anchor that leads nowhere."""
    text = (ROOT / page).read_text()
    missing = {path for path in named_paths(text) if not (ROOT / path).exists()}
    known = f"{NOT_HERE.get(page, '')}|{WRITTEN}"
    assert {path for path in missing if not re.fullmatch(known, path)} == set()
    for link in links(text):
        name, _, anchor = link.partition("#")
        target = (ROOT / page).parent / name if name else ROOT / page
        assert target.exists(), link
        lines = re.fullmatch(r"L\d+", anchor)
        assert not anchor or lines or anchor in anchors(target.read_text()), link


@pytest.mark.parametrize("page", [*PAGES, *LESSONS])
def test_commands_are_accepted(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Catches a command, app or option that was renamed, even one whose former name works."""
    text = (ROOT / page).read_text()
    for words in commands(text):
        if page not in NOT_HERE or words[1:2] != ["advect"]:
            assert not complaint(words, capsys), words
    named = re.findall(r"`miniapps ([a-z]+)\b", text)
    assert set(named) <= every_command(), named


def least_s(words: list[str]) -> float:
    """The seconds that the shortest run of a study takes on the fastest machine."""
    study = study_of(build_parser(words).parse_args([*words, "--device=cpu"]))
    fastest = support.FASTEST[study.problem.unit]
    if "--device=gpu" in words:
        fastest *= support.GPU_GAIN
    return min(
        spec.prepared.work() * spec.steps * load(spec) / spec.pes / fastest
        for spec in study.specs()
    )


def load(spec: RunSpec) -> float:
    """The load of a run's slowest PE: 1, but in stencil3d with an imbalance."""
    if spec.app != "stencil3d":
        return 1.0
    return 1 + max(load_factor(spec.problem, part, spec.pes, 0) for part in range(spec.pes))


SHOWN = [words for page in PAGES for words in commands((ROOT / page).read_text())]
HELPED = [shlex.split(line)[1:] for line in EXAMPLES.splitlines()[1:]]
QUICK = [
    ["study", name, "--quick"] for name, path in shipped().items() if "quick" in table_of(path)
]


@pytest.mark.slow
def test_reports_do_not_object_to_studies_that_pages_show() -> None:
    """Catches a study of few trials, of short runs, or of unequal numbers of sweeps.

    Also one in the help, and one of ours in its quick size.
    """
    asked = [words for words in (*SHOWN, *HELPED, *QUICK) if words[:1] == ["study"]]
    studies = [["study", *expanded(words[1:])] for words in asked if "my-own.toml" not in words]
    studies = [words for words in studies if words[1] in KINDS]
    assert len(studies) >= 15
    for words in studies:
        options = build_parser(words).parse_args([*words, "--device=cpu"])
        assert options.trials >= FEW and not study_of(options).own_best, words
        assert least_s(words) >= SHORT_S, (words, least_s(words))


def test_the_readme_lists_every_command() -> None:
    """Catches a command that is new, or gone, in the README's table of commands."""
    table = re.findall(r"^\| `miniapps (\w+)", (ROOT / "README.md").read_text(), flags=re.M)
    assert sorted(table) == sorted(every_command())


def test_pages_list_every_app() -> None:
    """Catches an app that is new, or gone, in the README's table or on the site's first page."""
    first = (ROOT / "docs/index.md").read_text().partition("```{toctree}")[0]
    assert sorted(re.findall(r"\[(\w+)\]\(\1\.md\)", first)) == apps.names()
    table = (ROOT / "README.md").read_text()
    assert sorted(re.findall(r"^\| \[(\w+)\]\(docs/\1\.md\)", table, re.M)) == apps.names()


def test_the_architecture_lists_every_part_of_the_workbench() -> None:
    """Catches a package of the workbench that the table of layers leaves out."""
    text = (ROOT / "docs/architecture.md").read_text()
    (row,) = re.findall(r"^\| `workbench/` \|.*$", text, flags=re.M)
    parts = {path.parent.name for path in (ROOT / "workbench").glob("*/*.py")}
    assert parts and {part for part in parts if f"`{part}/`" not in row} == set()


def listed_below(help: str) -> list[str]:
    """The commands, kinds or apps that a help text lists."""
    return re.findall(r"^    ([a-z][\w-]*)(?: |$)", help, flags=re.M)


@pytest.mark.slow
def test_the_page_of_commands_has_every_help(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a help on the page without the options, kinds or commands that `--help` shows."""
    monkeypatch.setenv("COLUMNS", "100")
    text = (ROOT / "docs/command-line.md").read_text()
    (app,) = re.findall(r"^```{command-line} (\w+)$", text, flags=re.M)
    page = dict(support.reference_pages()["help_texts"](app))
    waiting: list[tuple[str, ...]] = [()]
    while waiting:
        words = waiting.pop()
        shown = support.in_process(*words, "--help").stdout
        assert page.pop(" ".join(["miniapps", *words])) == shown.rstrip()
        below = listed_below(shown)
        waiting += [(*words, name) for name in below if name == app or name not in apps.names()]
    assert page == {}


@pytest.mark.long
def test_the_page_of_keys_has_every_key_of_a_record() -> None:
    """Catches a key that runs write and the page does not list; `test_parallel.py` tries drivers.

    Apps may add keys, which the page leaves to docs/records.md.
    """
    record = support.run_record("jacobi2d", "--preset", "tiny")
    assert support.unlisted(record) == set()
    wrong = record | {"new": 1, "checks": [{"why": ""}], "clocks": {"third_s": 1.0}}
    assert support.unlisted(wrong) == {"new", "checks[].why", "clocks.third_s"}


def test_the_page_of_python_has_names_that_users_write() -> None:
    """Catches a name that only the source tree has, and one of `import miniapps` that is left out.

    The wheel installs the package `miniapps` alone.
    """
    text = (ROOT / "docs/python.md").read_text()
    names = re.findall(r"^\.\. auto\w+:: ([\w.]+)", text, flags=re.M)
    assert {f"miniapps.{name}" for name in (*apps.FOR_PROGRAMS, "InputError")} <= {*names}
    for name in names:
        assert name.startswith("miniapps.") and pkgutil.resolve_name(name), name


def examples(text: str) -> list[tuple[str, str]]:
    """The arguments of every run whose output a page quotes, and the first line of that output."""
    return re.findall(r"^\$ miniapps (run .+)\n(.+)$", text, flags=re.M)


def first_line(arguments: str) -> str:
    """What a run prints first: its configuration, or why it is refused."""
    try:
        spec = spec_of(arguments.split())
    except InputError as error:
        return f"miniapps: {error}"
    blocks = "x".join(map(str, spec.layout.grid))
    return (
        f"{spec.app} under {spec.driver} on {counted(spec.pes, 'PE')}, {spec.device}, "
        f"blocks {blocks} (ODF {spec.odf})"
    )


@pytest.mark.parametrize("page", PAGES)
def test_quoted_output_is_that_of_today(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches an example whose decomposition or error message has changed since it was quoted."""
    monkeypatch.setattr(tiling, "best_tile", lambda *_: 1)  # measures nothing
    for arguments, line in examples((ROOT / page).read_text()):
        if page not in NOT_HERE:
            assert line.startswith(first_line(arguments)), arguments


@pytest.mark.long
@pytest.mark.parametrize(("page", "app"), [("README.md", "jacobi2d"), ("docs/leanmd.md", "leanmd")])
def test_quoted_checks_are_those_of_today(page: str, app: str) -> None:
    """Catches a check that was added, renamed or moved since a run was quoted."""
    text = (ROOT / page).read_text().split(f"$ miniapps run {app} ")[1]
    record = support.run_record(app, "--preset", "tiny")  # the checks are those of all drivers
    assert re.findall(r"^  ok    (.+): \S+ \(limit", text, flags=re.M) == [
        check["name"] for check in record["checks"]
    ]
    assert f"  state {record['state_hash']}" in text


@pytest.mark.parametrize("page", PAGES)
def test_a_page_begins_with_its_readers(page: str) -> None:
    """Catches a page that leaves its readers to find out whether it is for them.

    A command and a figure may stand before the first sentence.
    """
    parts = (ROOT / page).read_text().split("\n\n")[1:]
    first = next(part for part in parts if not part.startswith(("    ", "![")))
    assert first.startswith("For "), first


def rows_of_benchmarks(text: str) -> set[str]:
    """The files that the tables of benchmarks/README.md name, from its folder."""
    found = set()
    for section in re.split("^## ", text, flags=re.M):
        folder = "" if section.startswith("#") else f"{section.partition(':')[0]}/"
        for row in re.findall(r"^\| (`.*?) \|", section, flags=re.M):
            found |= {folder + name for name in re.findall("`(.*?)`", row)}
    return found


def test_every_benchmark_has_a_row() -> None:
    """Catches a script that the tables leave out, and a row of one that is gone or has moved."""
    folder = ROOT / "benchmarks"
    files = {str(path.relative_to(folder)) for path in folder.rglob("*.py")}
    named = rows_of_benchmarks((folder / "README.md").read_text())
    assert [name for name in files - named if not name.endswith("__init__.py")] == []
    assert [name for name in named if not (folder / name).exists()] == []


def unwritten(names: Iterable[str]) -> list[str]:
    """Which of these files of benchmarks/results no script in benchmarks/ writes."""
    scripts = (path.read_text() for path in (ROOT / "benchmarks").rglob("*.py"))
    found = re.findall(r'\b(?:save|write|finish)\(\s*"(\w+)"|/ f"(\w+-)\{', "".join(scripts))
    written = "|".join(name or f"{begin}.+" for name, begin in found)
    return [name for name in names if not re.fullmatch(rf"(?:{written})\.(?:json|md)", name)]


def test_every_result_has_a_script_that_writes_it() -> None:
    """Catches results whose script is gone, and those that belong to another command."""
    assert unwritten(path.name for path in (ROOT / "benchmarks/results").iterdir()) == []
    assert unwritten(["pic.json", "compare-1-2.md", "gone.json"]) == ["gone.json"]


def sources() -> list[str]:
    """The files that hold text for readers, but this one, which names the words."""
    folders = *support.LAYERS, "benchmarks", "tests"
    found = (path for folder in folders for path in (ROOT / folder).rglob("*"))
    kept = (path for path in found if path.suffix in (".py", ".html") and path != Path(__file__))
    return sorted(str(path.relative_to(ROOT)) for path in kept)


@pytest.mark.slow
def test_plain_words() -> None:
    """Catches a word of this project's own where the field has a term, also within a name."""
    for name in (*PAGES, *sources()):
        found = bad_words((ROOT / name).read_text())
        left = [word for word in found if name in LEFT and word.endswith(f"say {LEFT[name]}")]
        assert [word for word in found if word not in left] == [], name
        assert left or name not in LEFT, f"{name}: mended: take it off the list LEFT"


@pytest.mark.parametrize("page", [*PAGES, *LESSONS, "benchmarks/performance.md"])
def test_plain_prose(page: str) -> None:
    """Catches a clipped or old-fashioned word in a page, for which there is a plain one."""
    assert bad_words(without_code((ROOT / page).read_text()), WORDS | PROSE) == []


@pytest.mark.long
def test_plain_explanations() -> None:
    """Catches the same in what a student reads about a mistake, and in a skeleton."""
    differences = [*(ROOT / "lessons").glob("*/mistakes/*")]
    assert differences
    for path in differences:
        assert bad_words(Mistake(path).words, WORDS | PROSE) == [], path
    for path in (ROOT / "lessons").glob("*/for_*.py"):
        assert bad_words(path.read_text(), WORDS | PROSE) == [], path


@pytest.mark.parametrize("page", LESSONS)
def test_lines_are_short(page: str) -> None:
    """Catches a line that is cut off in a terminal; tables cannot be wrapped."""
    assert long_lines((ROOT / page).read_text()) == []


def test_the_checks_of_pages_can_fail(capsys: pytest.CaptureFixture[str]) -> None:
    """Catches checks that find nothing: each is given a page with the mistake."""
    page = "A verdict on `kernels/none.py`, see [there](none.md#gone) and tied to cores.\n"
    page += "```sh\nminiapps run echo --frame 2 && miniapps fly\n```\n"
    assert named_paths(page) == {"kernels/none.py"} and links(page) == {"none.md#gone"}
    assert commands(page) == [["run", "echo", "--frame", "2"], ["fly"]]
    assert "fly" not in every_command() and "batch" in every_command()
    assert "--frame" in complaint(commands(page)[0], capsys) and "fly" in complaint(["fly"], capsys)
    assert "called --pe-grid now" in complaint(["run", "echo", "--blocks", "2x1"], capsys)
    assert complaint(["run", "echo", "--pe-grid", "2x1"], capsys) == ""
    quoted = "$ miniapps run echo --driver mpi -n 2\necho under mpi on 3 PEs, cpu"
    ((arguments, line),) = examples(quoted)
    assert first_line(arguments) == "echo under mpi on 2 PEs, cpu, blocks 2x1 (ODF 1)" != line
    assert [word.split(":")[0] for word in bad_words(page)] == ["tied to cores", "verdict"]
    assert bad_words("def _settle_all(): ...") and not bad_words("resettled, judgmental")
    assert bad_words("what each is told at both balancings", PROSE) and not bad_words("is told")
    assert long_lines("|" + COLUMNS * "x") == [] != long_lines(COLUMNS * "x" + ".")
    assert commands("one\n\n    miniapps fly \\\n      --far\n") == [["fly", "--far"]]
    assert anchors("## Load balancing, and `why`\n") == {"load-balancing-and-why"}


def unknown_checks(text: str) -> set[str]:
    """The tests and faults that a page names and that are not there."""
    wrong = set()
    for file, name in re.findall(r"`(\w+\.py)::(\w+)`", text):
        paths = list((ROOT / "tests").glob(f"**/{file}"))
        if not any(re.search(rf"^def {name}\(", path.read_text(), re.M) for path in paths):
            wrong.add(f"{file}::{name}")
    runs = [driver.file for driver in drivers.found().values()]
    known = {key for app in apps.names() for file in runs for key in faults.of(app, file)}
    return wrong | (set(re.findall(r'"(\w+: [\w ]+)"', text)) - known)


def test_mistakes_of_published_programs_have_tests() -> None:
    """Catches a mistake whose test was renamed or is gone."""
    page = (ROOT / "docs/checks.md").read_text()
    table = page.partition("## Mistakes of published programs")[2].partition("## Fuzzing")[0]
    assert table.count("\n| ") > 25 and unknown_checks(table) == set()
    gone = '`test_pic.py::test_gone`, `test_gone.py::test_gone`; fault "pic: gone"'
    assert len(unknown_checks(gone)) == 3


def test_every_driver_has_a_section() -> None:
    """Catches a driver without a description, and a description of none."""
    titles = anchors((ROOT / "docs/drivers.md").read_text())
    assert set(drivers.found()) <= titles
