"""Which kernels for a GPU have changed since they were last validated on one.

``gpu-validation.json`` is written by `gpu_check.py` and by nothing else. Where there is no GPU,
kernels are compiled and simulated only; ``python benchmarks/gpu_validation.py --changed`` prints a
line that says what no GPU has run yet.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

KERNELS = Path(__file__).resolve().parents[1] / "kernels"
VALIDATION = Path(__file__).with_name("gpu-validation.json")


def sources(folder: Path = KERNELS) -> dict[str, str]:
    """SHA-256 of every file of kernels but those that are for the CPU alone, by file name.

    Units, tallies and hashes are among them, and files for the CPU that others take functions from:
    all that is frozen into kernels' machine code.
    """
    files = {file.stem: file.read_bytes() for file in folder.glob("*.py")}
    wanted = [name for name in files if not name.endswith("_cpu")]
    for name in wanted:  # which grows
        taken = re.findall(rb"^from kernels\.(\w+_cpu) import", files[name], re.MULTILINE)
        wanted += [found for word in taken if (found := word.decode()) not in wanted]
    return {f"{name}.py": hashlib.sha256(files[name]).hexdigest() for name in sorted(wanted)}


def read(file: Path = VALIDATION) -> dict[str, Any] | None:
    """What the last validation has written; None if there never was one."""
    return json.loads(file.read_text()) if file.exists() else None


def changed(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Names of files that are new, gone or different."""
    return sorted(name for name in {*then, *now} if then.get(name) != now.get(name))


def line(validation: Mapping[str, Any] | None, now: Mapping[str, str]) -> str:
    """What has not been run on a GPU as it is now."""
    what = "kernels for a GPU"
    if validation is None:
        return f"{what}: none of {len(now)} files was ever validated on a GPU (make gpu-check)"
    names = changed(validation["sources"], now)
    when = f"{validation['date']} on {validation['device']['name']}"
    ended = "" if validation["passed"] else f", which FAILED ({len(validation['failures'])} checks)"
    if not names:
        return f"{what}: all {len(now)} files are as last validated, {when}{ended}"
    shown = f"{len(names)} of {len({*now, *validation['sources']})} files changed"
    return f"{what}: {shown} since the last validation, {when}{ended}: {', '.join(names)}"


def main() -> None:
    """Print the line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--changed", action="store_true", required=True, help="print what changed")
    parser.parse_args()
    print(line(read(), sources()))


if __name__ == "__main__":
    main()
