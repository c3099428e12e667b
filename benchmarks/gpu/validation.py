"""Find the GPU kernels that have changed since they were last validated on a GPU.

Only `check.py` writes ``gpu/validation.json``. Without a GPU, kernels are only compiled and
simulated; ``python -m benchmarks.gpu.validation --changed`` prints a line on what has not yet run
on a GPU. A kernel counts as changed if its own file has changed, or another file whose code goes
into its machine code.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BUDGET = ROOT / "tests" / "gpu" / "budget.json"  # a test checks that it has every kernel
VALIDATION = Path(__file__).with_name("validation.json")
HOST = (  # code of the host that uses a GPU
    "devices/backend.py",
    "devices/messages.py",
    "devices/cuda/backend.py",
    "devices/cuda/buffers.py",
    "devices/cuda/byte_arrays.py",
    "devices/cuda/driver.py",
    "devices/cuda/driver_info.py",
    "devices/cuda/exports.py",
    "devices/cuda/memory.py",
    "devices/cuda/moves.py",
    "devices/cuda/streams.py",
    "devices/cuda/toolkit.py",
    "kernels/halo/interface.py",
)
IN_NO_KERNEL = (*HOST, "devices/cpu/compiler.py")
WALKS = (  # kernel files
    "kernels/*/gpu.py",
    "kernels/*/gpu/*.py",
    "devices/cuda/host_copies.py",
    "devices/cuda/primitives.py",
)
PROGRAM = ("devices", "kernels", "miniapps", "drivers", "workbench", "benchmarks", "tests")
IMPORT = re.compile(r"^from miniapps\.((?:devices|kernels)[\w.]*) import \(?\s*(\w+)", re.MULTILINE)


def reached(name: str, root: Path = ROOT) -> set[str]:
    """The files whose code goes into the machine code of a kernel file, paths from the root."""
    found: set[str] = set()
    todo = [name]
    while todo:
        file = todo.pop()
        if file not in found and file not in IN_NO_KERNEL:
            found.add(file)
            for package, imported in IMPORT.findall((root / file).read_text()):
                paths = (f"{m.replace('.', '/')}.py" for m in (package, f"{package}.{imported}"))
                todo += [path for path in paths if (root / path).exists()]
    return found


def kernel_files(root: Path = ROOT) -> list[str]:
    """The files of GPU kernels, paths from the root."""
    found = [file for walk in WALKS for file in root.glob(walk)]
    return sorted(str(file.relative_to(root)) for file in found if file.stem != "__init__")


def sources(root: Path = ROOT) -> dict[str, str]:
    """SHA-256, by path, of every file that goes into kernels or that the host runs with them."""
    wanted = {name for file in kernel_files(root) for name in reached(file, root)}
    wanted |= {name for name in HOST if (root / name).exists()}
    return {name: hashlib.sha256((root / name).read_bytes()).hexdigest() for name in sorted(wanted)}


def program(root: Path = ROOT) -> str:
    """SHA-256 of all files of the program that a validation runs; generated files do not count."""
    found = [file for folder in PROGRAM for file in (root / folder).rglob("*.py")]
    files = sorted(file for file in found if "__pycache__" not in file.parts)
    named = [(str(file.relative_to(root)).encode(), file.read_bytes()) for file in files]
    return hashlib.sha256(b"\0".join(part for pair in named for part in pair)).hexdigest()


def kernel_cache(root: Path = ROOT) -> str:
    """The folder for compiled kernels of this program, which no other version of it uses."""
    return str(root / "build" / "kernels" / program(root)[:16])


def kernels(budget: Path = BUDGET) -> list[str]:
    """The names of all kernels: module.name."""
    return sorted(json.loads(budget.read_text())["kernels"])


def file_of(name: str) -> str:
    """The file of a kernel, from the root."""
    module = name.partition("[")[0].rpartition(".")[0].removeprefix("miniapps.")
    return f"{module.replace('.', '/')}.py"


def touched(names: Iterable[str], files: Iterable[str], root: Path = ROOT) -> list[str]:
    """The kernels whose machine code contains code of the given files."""
    changed = set(files)
    hit = {file for file in set(map(file_of, names)) if reached(file, root) & changed}
    return [name for name in names if file_of(name) in hit]


def read(file: Path = VALIDATION) -> dict[str, Any] | None:
    """The results of the last validation; None if there was none."""
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
    root: Path = ROOT,
) -> str:
    """A line on the kernels that have not run on a GPU in their present form."""
    what = "kernels for a GPU"
    if validation is None:
        return f"{what}: none of {len(names)} was ever validated on a GPU (make gpu-check)"
    files = changed(validation["sources"], now)
    when = f"{validation['date']} on {validation['device']['name']}"
    ended = "" if validation["passed"] else f", which FAILED ({len(validation['failures'])} checks)"
    if not files:
        return f"{what}: all {len(names)} are as last validated, {when}{ended}"
    count = len(touched(names, files, root))
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
