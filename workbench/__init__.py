"""The workbench: tools around runs. Command line, launcher, records, doctor, demo.

Importing it checks that no folder on PYTHONPATH hides one of this program's packages.
"""

import os
import signal
import sys
from importlib.util import find_spec
from pathlib import Path

from workbench.exit_status import BAD_INPUT

STARTED = ["lesson", "take-part"], ["lesson", "inside"]  # many times, each for a short time
PACKAGES = ("devices", "kernels", "miniapps", "drivers", "communication", "lessons")


def hidden(package: str) -> str | None:
    """The path of another package that is found instead of this program's, if there is one."""
    spec = find_spec(package)
    found = [Path(path).resolve() for path in (spec and spec.submodule_search_locations) or ()]
    own = Path(__file__).resolve().parent.with_name(package)
    return str(found[0]) if found and found[0] != own else None


for _package in PACKAGES:
    if (_path := hidden(_package)) is not None:
        print(f"miniapps: {_path} hides this program's package {_package}", file=sys.stderr)
        raise SystemExit(BAD_INPUT)


def open_standard_files() -> None:
    """Open /dev/null as each of the standard files that the caller has closed, as by ``>&-``.

    Else Python has none, so printing fails, and a file that is opened later takes its number.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            number = os.open(os.devnull, os.O_RDWR)  # the lowest free one, which is the missing one
            os.set_inheritable(number, True)
            setattr(sys, name, open(number, "r" if name == "stdin" else "w"))


def main() -> int:
    """Run the program ``miniapps``; returns the exit status.

    Ctrl-C waits until the modules are imported, as some cannot be interrupted: `cli.main` lets it.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    open_standard_files()
    if sys.argv[1:3] in STARTED:
        from workbench.lesson import started

        return started.main(sys.argv[2])
    from workbench import cli

    return cli.main()
