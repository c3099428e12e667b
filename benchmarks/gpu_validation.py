"""Which kernels for a GPU have changed since they were last validated on one.

``gpu-validation.json`` is written by `gpu_check.py` and by nothing else. Where there is no GPU,
kernels are compiled and simulated only; ``python benchmarks/gpu_validation.py --changed`` prints a
line that says what no GPU has run yet. A kernel counts as changed where its own file has, or one
from which that takes what goes into machine code.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
KERNELS = ROOT / "kernels"
BUDGET = ROOT / "tests" / "gpu" / "budget.json"  # which a test holds to have every kernel
VALIDATION = Path(__file__).with_name("gpu-validation.json")
HOST = (
    "bundle",
    "device",
    "gpu",
    "halo_cpu",
    "messages",
    "nvidia",
)  # what the host does with a GPU
IN_NO_KERNEL = (*HOST, "compiler")
PROGRAM = ("kernels", "miniapps", "drivers", "workbench", "benchmarks", "tests/gpu")
IMPORT = re.compile(r"^from kernels(?:\.(\w+)| import (\w+))", re.MULTILINE)


def reached(name: str, folder: Path = KERNELS) -> set[str]:
    """The files of kernels, without endings, that go into the machine code of one of them."""
    found: set[str] = set()
    todo = [name]
    while todo:
        file = todo.pop()
        if file not in found and file not in IN_NO_KERNEL:
            found.add(file)
            text = (folder / f"{file}.py").read_text()
            todo += [module or imported for module, imported in IMPORT.findall(text)]
    return found


def sources(folder: Path = KERNELS) -> dict[str, str]:
    """SHA-256 of every file that goes into kernels, or that the host runs with them, by name."""
    own = (file.stem for file in folder.glob("*_gpu.py"))
    wanted = {name for file in own for name in reached(file, folder)}
    wanted |= {name for name in HOST if (folder / f"{name}.py").exists()}
    texts = {f"{name}.py": (folder / f"{name}.py").read_bytes() for name in sorted(wanted)}
    return {name: hashlib.sha256(text).hexdigest() for name, text in texts.items()}


def program(root: Path = ROOT) -> str:
    """SHA-256 of all files of the program that a validation runs."""
    files = sorted(file for folder in PROGRAM for file in (root / folder).rglob("*.py"))
    named = [(str(file.relative_to(root)).encode(), file.read_bytes()) for file in files]
    return hashlib.sha256(b"\0".join(part for pair in named for part in pair)).hexdigest()


def kernels(budget: Path = BUDGET) -> list[str]:
    """The names of all kernels: file.name."""
    return sorted(json.loads(budget.read_text())["kernels"])


def touched(names: Iterable[str], files: Iterable[str], folder: Path = KERNELS) -> list[str]:
    """Kernels into whose machine code some files go."""
    stems = {file.removesuffix(".py") for file in files}
    own = {name.partition(".")[0] for name in names}
    hit = {file for file in own if reached(file, folder) & stems}
    return [name for name in names if name.partition(".")[0] in hit]


def read(file: Path = VALIDATION) -> dict[str, Any] | None:
    """What the last validation has written; None if there never was one."""
    try:
        return json.loads(file.read_text()) if file.exists() else None
    except ValueError as error:
        raise SystemExit(f"{file.name} cannot be read: {error}") from None


def changed(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Names of files that are new, gone or different."""
    return sorted(name for name in {*then, *now} if then.get(name) != now.get(name))


def line(
    validation: Mapping[str, Any] | None,
    now: Mapping[str, str],
    names: list[str],
    folder: Path = KERNELS,
) -> str:
    """What has not been run on a GPU as it is now."""
    what = "kernels for a GPU"
    if validation is None:
        return f"{what}: none of {len(names)} was ever validated on a GPU (make gpu-check)"
    files = changed(validation["sources"], now)
    when = f"{validation['date']} on {validation['device']['name']}"
    ended = "" if validation["passed"] else f", which FAILED ({len(validation['failures'])} checks)"
    if not files:
        return f"{what}: all {len(names)} are as last validated, {when}{ended}"
    count = len(touched(names, files, folder))
    shown = f"{count} of {len(names)} changed since the last validation"
    return f"{what}: {shown}, {when}{ended}; changed files: {', '.join(files)}"


def main() -> None:
    """Print the line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--changed", action="store_true", required=True, help="print what changed")
    parser.parse_args()
    print(line(read(), sources(), kernels()))


if __name__ == "__main__":
    main()
