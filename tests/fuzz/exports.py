"""Files with hostile texts and data, exported and then loaded by the programs they are for.

A *canary* is a file that appears if a text is obeyed, or a number of a file that must not be read.
"""

from __future__ import annotations

import ast
import contextlib
import csv
import io
import json
import os
import random
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import ase.io
import h5py
import mutations
import numpy as np

from miniapps.hdf5 import require_readable
from miniapps.parameters import InputError, one_line
from miniapps.workbench import cli
from miniapps.workbench.study import export
from miniapps.workbench.study.campaign import Campaign
from miniapps.workbench.study.reframe import reframe_check

ROOT = Path(__file__).resolve().parents[2]
EXTRAP = Path(sys.executable).parents[1] / "extrap"
CANARY = "canary"
FORMULA = tuple("=+-@\uff1d\uff0b\uff0d\uff20")  # how a cell begins that a spreadsheet computes
FOREIGN = 271828.25  # every number of the file that must not be read
LOADED = 10  # one of so many checks of ReFrame is loaded, and one Extra-P file: it takes a second
CODE = f"open('{CANARY}', 'w')"
TEXTS = (
    f'"""\n{CODE}\n"""', f"'+str({CODE})+'", f"\\'+{CODE}#", f"\n{CODE}\n", f"{{{CODE}}}", "{0}",
    f"../{CANARY}", f"../../../../tmp/{CANARY}", f"/tmp/{CANARY}", f"a/../../{CANARY}", "..", ".",
    f"x\nREGION {CANARY}\nMETRIC {CANARY}", f"x\n\nPOINTS ( 1 )\n#{CANARY}", "REGION", "a b",
    f"=cmd|'/C touch {CANARY}'!A1", "+1+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\uff1d1", "1e5",
    f"$(touch {CANARY})", f"`touch {CANARY}`", f"; touch {CANARY}", f"| touch {CANARY} #",
    f"--launcher=./{CANARY}", f"--output={CANARY}", f"--json={CANARY}", "--", "-n",
    "\x1b]0;title\x07", "\x00", "\u202e", "\ud800", "\x85", "\u2028", "é", "", "a" * 300,
    "<script>alert(1)</script>", '"><img src=x>', "$\\frac{1}{0}$", "a,b", 'a"b', "a;b", "a|b",
    f"Ar 1 2 3\n{CANARY}", f"Ar\n2\n{CANARY}\nAr 0 0 0", "Ar:S:1", "A r", "é\n",
)  # fmt: skip

TOLD = ("driver", "balancer", "unit", "app", "command", "kind")  # what exports tell


# Campaigns ----------------------------------------------------------------------------------------


def campaign_seeds() -> list[bytes]:
    """The first trial of some points of committed campaigns."""
    _loader()  # which writes a log when it is made
    seeds = []
    for name in ("leanmd-lb", "jacobi2d-strong"):
        head, *events = map(json.loads, (ROOT / f"docs/results/{name}.jsonl").open())
        kept = range(len(head["points"]) - 3, len(head["points"]))  # with a balancer, if any has
        runs = [event for event in events if event["event"] == "run" and event["point"] in kept][:6]
        head["points"] = [head["points"][number] for number in kept]
        runs = [run | {"point": run["point"] - kept.start} for run in runs]
        seeds.append("".join(json.dumps(line) + "\n" for line in (head, *runs)).encode())
    return seeds


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """All texts in a value of JSON: what holds each, and its key there."""
    entries = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in entries:
        if isinstance(inner, str):
            yield value, key
        elif isinstance(inner, dict | list):
            yield from places(inner)
            if isinstance(inner, dict) and key in ("problem", "versions"):
                yield inner, None  # one of its keys


def mutated_campaign(data: bytes, dice: random.Random) -> bytes:
    """A campaign some of whose texts are hostile; often the same one wherever it stood."""
    lines = list(map(json.loads, data.splitlines()))
    found_places = list(places(lines))
    told = [place for place in found_places if place[1] in TOLD]
    holder, key = dice.choice(told if dice.random() < 0.6 else found_places)
    text = dice.choice(TEXTS)
    if key is None:
        old = dice.choice(list(holder) or ["x"])
        holder[text] = holder.pop(old, 1)
    else:
        old = holder[key]
        same = [place for place in places(lines) if place[1] == key and place[0][key] == old]
        for found, name in same if dice.random() < 0.7 else [(holder, key)]:
            found[name] = text
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def read_campaign(path: Path) -> object:
    """Export a campaign as its file, and past the validation of the file, in all formats."""
    folder = path.parent
    made = [_export(path, folder, "input-read", lambda: Campaign.read(path))]
    made.append(_export(path, folder, "input-past", lambda: _unvalidated(path.read_bytes())))
    canaries = [*folder.rglob(f"*{CANARY}*"), *folder.parent.glob(f"*{CANARY}*")]
    assert not canaries and not Path("/tmp", CANARY).exists(), f"canary: {canaries}"
    if not any(made):
        raise InputError("export", path, "is refused in all formats")
    return made


def _unvalidated(data: bytes) -> Campaign:
    """A campaign in memory as its file says, but of a known app."""
    head, *runs = map(json.loads, data.splitlines())
    right = json.loads(next(seed for seed in campaign_seeds()).splitlines()[0])["study"]["app"]
    apps = [record["record"]["app"] for record in runs if "record" in record]
    known = next((app for app in apps if app in ("leanmd", "jacobi2d")), right)
    head["study"]["app"] = known
    for run in runs:
        run["event"] = "run"
        run["record"]["app"] = known
    return Campaign(head, runs)


def _export(path: Path, folder: Path, name: str, read: Callable[[], Campaign]) -> int:
    """Export a campaign in all formats and load the files; returns in how many it was possible."""
    done = 0
    for form in export.FORMATS:
        target = folder / name / form / "made.py"
        try:
            written = export.export(read(), form, target, path)
        except InputError as error:
            said = str(error)
            assert said == one_line(said) and said.isprintable(), said
            continue
        inside = (folder / name / form).resolve()
        assert all(file.resolve().is_relative_to(inside) for file in written), written
        LOADERS[form](written, zlib.crc32(path.read_bytes()) % LOADED == 0)
        done += 1
    return done


def _load_csv(files: list[Path], drawn: bool) -> None:
    """Each row has all columns, and no cell is a formula or has control codes."""
    for file in files:
        if file.suffix != ".txt":
            head, *rows = csv.reader(io.StringIO(file.read_text(), newline=""))
            assert rows and {len(row) for row in rows} == {len(head)}
            for cell in (cell for row in (head, *rows) for cell in row):
                assert cell.isprintable(), cell
                assert _is_number(cell) or not cell.startswith(FORMULA), cell


def _is_number(text: str) -> bool:
    with contextlib.suppress(ValueError):
        float(text)
        return True
    return False


def _load_extra_p(files: list[Path], drawn: bool) -> None:
    """Extra-P finds the regions that were written, and no others."""
    text = files[0].read_text()
    names = [line.split()[1] for line in text.splitlines() if line.startswith("REGION ")]
    assert CANARY not in " ".join(line.split()[0] for line in text.splitlines() if line)
    places = [*EXTRAP.glob("lib/python*/site-packages")]
    if drawn and places:
        program = (
            "import sys; from extrap.fileio.file_reader.text_file_reader import TextFileReader\n"
            "print(*(p.name for p in TextFileReader().read_experiment(sys.argv[1]).callpaths))"
        )
        done = subprocess.run(
            [sys.executable, "-c", program, files[0]],
            env=os.environ | {"PYTHONPATH": str(places[0])},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr[-300:]
        assert sorted(done.stdout.split()) == sorted(set(names))


def _load_reframe(files: list[Path], drawn: bool) -> None:
    """The check differs from another in its literals only; ReFrame's loader finds every test."""
    text = files[0].read_text()
    tree = ast.parse(text)
    values = [node.value for node in tree.body if isinstance(node, ast.Assign)]
    app, points = map(ast.literal_eval, values)
    assert isinstance(app, str) and _program(text) == _program(_right_check())
    if drawn:
        with contextlib.redirect_stdout(io.StringIO()):
            assert len(_loader()([]).load_from_file(str(files[0]))) == len(points)


def _program(text: str) -> str:
    """A program without its literals."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict | ast.Constant):
            node.value = ast.Constant(0)
        elif isinstance(node, ast.Constant):
            node.value = 0
    return ast.dump(tree)


@cache
def _right_check() -> str:
    """The check of a campaign as it was."""
    head, *runs = map(json.loads, campaign_seeds()[0].splitlines())
    return reframe_check(Campaign(head, runs))


@cache
def _loader() -> Any:
    """ReFrame's loader of checks."""
    from reframe.core import config, runtime
    from reframe.frontend.loader import RegressionCheckLoader

    site = config.load_config("<builtin>")
    site.select_subconfig("generic")
    runtime.init_runtime(site)
    return RegressionCheckLoader


LOADERS: dict[str, Callable[[list[Path], bool], None]] = {
    "csv": _load_csv,
    "seed-csv": _load_csv,
    "extra-p": _load_extra_p,
    "reframe": _load_reframe,
}


# Trajectories -------------------------------------------------------------------------------------


@cache
def trajectory_seeds() -> list[bytes]:
    """The output of a small run, with a trajectory of three frames."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run.h5")
        words = f"run leanmd --preset minimal --units argon --trajectory 2 --output {path}"
        with contextlib.redirect_stdout(io.StringIO()):
            assert cli.main(words.split()) == 0
        return [path.read_bytes()]


def mutated_trajectory(data: bytes, dice: random.Random) -> bytes:
    """A file with another species, other numbers, or data that lie in another file.

    It may have been changed before, and libhdf5 ends the process on some damaged files: so another
    process tries first.
    """
    file = os.memfd_create("trajectory")
    try:
        os.truncate(file, len(data))  # only its size matters
        require_readable(Path(f"/proc/self/fd/{file}"), lambda: _mutated(data, dice))
        return _mutated(data, dice)
    except Exception:  # changed twice in the same place
        return mutations.of_bytes(data, dice)
    finally:
        os.close(file)


def _mutated(data: bytes, dice: random.Random) -> bytes:
    memory = io.BytesIO(data)
    with h5py.File(memory, "r+") as file:
        dice.choice((_other_species, _other_number, _other_number, _elsewhere))(file, dice)
    return memory.getvalue()


def _datasets(file: Any) -> list[str]:
    found: list[str] = []
    file.visititems(lambda name, one: found.append(name) if isinstance(one, h5py.Dataset) else None)
    return [name for name in found if name.startswith(("particles/", "state/", "timing/"))]


def _other_species(file: Any, dice: random.Random) -> None:
    name = dice.choice([text for text in TEXTS if "\0" not in text and "\ud800" not in text])
    kind = h5py.enum_dtype({name or "x": 1}, "u1")
    shape = file["particles/atoms/species"].shape
    del file["particles/atoms/species"]
    file.create_dataset("particles/atoms/species", data=np.ones(shape, "u1"), dtype=kind)


def _other_number(file: Any, dice: random.Random) -> None:
    data = file[dice.choice([name for name in _datasets(file) if name.startswith("particles/")])]
    numbers = (np.nan, np.inf, -np.inf, 0, -1, 1e300, 7, 1 << 40)
    where = tuple(dice.choice((dice.randrange(n), slice(None))) for n in data.shape)
    data[where] = dice.choice(numbers if data.dtype.kind == "f" else numbers[3:5] + numbers[6:])


def _elsewhere(file: Any, dice: random.Random) -> None:
    """A dataset, or the group that it is in, is in the file `foreign`."""
    name = dice.choice(_datasets(file))
    way = dice.randrange(4)
    kind, shape = file[name].dtype, file[name].shape
    if way == 0:
        name = dice.choice((name, name.rpartition("/")[0], name.partition("/")[0]))
    del file[name]
    if way == 0:
        file[name] = h5py.ExternalLink("input-foreign.h5", name)
    elif way == 1:
        size = kind.itemsize * int(np.prod(shape))
        file.create_dataset(name, shape, kind, external=[("input-foreign.raw", 0, size)])
    elif way == 2:
        layout = h5py.VirtualLayout(shape, kind)
        layout[...] = h5py.VirtualSource("input-foreign.h5", name, shape, kind)
        file.create_virtual_dataset(name, layout)
    else:
        file["outside"] = h5py.ExternalLink("input-foreign.h5", name)
        file[name] = h5py.SoftLink("/outside")


def foreign(folder: Path) -> None:
    """Write the files that must not be read: all their floats are `FOREIGN`."""
    path = folder / "input-foreign.h5"
    path.write_bytes(trajectory_seeds()[0])
    with h5py.File(path, "r+") as file:
        for name in _datasets(file):
            if file[name].dtype.kind == "f":
                file[name][...] = FOREIGN
    (folder / "input-foreign.raw").write_bytes(np.full(1 << 14, FOREIGN).tobytes())


def read_trajectory(path: Path) -> object:
    """Export a trajectory, and read it with ASE: every frame has every atom, and finite numbers."""
    foreign(path.parent)
    status = cli.main(["plot", str(path), "--xyz"])
    text = path.with_suffix(".xyz").read_text()
    assert CANARY not in text and repr(FOREIGN) not in text
    frames = ase.io.read(path.with_suffix(".xyz"), index=":")
    with h5py.File(path) as file:
        (group,) = file["particles"].values()
        shape = group["id/value"].shape
    assert [len(frame) for frame in frames] == [shape[1]] * shape[0]
    for frame in frames:
        assert np.isfinite(frame.positions).all() and (np.diag(frame.cell) > 0).all()
        assert len(set(frame.arrays["id"])) == len(frame)
    return status
