"""The workbench: tools around runs. Command line, launcher, records, doctor, demo.

Importing it checks that nothing on PYTHONPATH hides one of this program's packages.
"""

import gc
import sys
from importlib.util import find_spec
from pathlib import Path

from workbench import inherited
from workbench.exit_status import BAD_INPUT

STARTED = ["lesson", "take-part"], ["lesson", "inside"]  # many times, each for a short time
PACKAGES = ("devices", "kernels", "miniapps", "drivers", "communication", "lessons")


def hidden(package: str) -> str | None:
    """The path of what is found instead of this program's package, if there is anything."""
    spec = find_spec(package)
    if spec is None:
        return None
    places = [*(spec.submodule_search_locations or []), str(spec.origin)]
    found, own = Path(places[0]).resolve(), Path(__file__).resolve().parent.with_name(package)
    return str(found) if found != own else None


for _package in PACKAGES:
    if (_path := hidden(_package)) is not None:
        print(f"miniapps: {_path} hides this program's package {_package}", file=sys.stderr)
        raise SystemExit(BAD_INPUT)


def main() -> int:
    """Run the program ``miniapps``; returns the exit status.

    Ctrl-C waits until the modules are imported, as some cannot be interrupted: `cli.main` lets it.
    """
    inherited.prepare()
    from workbench import environment

    # Before NumPy is imported, as its library then starts its threads, and a process with threads
    # cannot be isolated.
    environment.one_thread()
    from drivers import garbage

    gc.set_threshold(*garbage.RARELY)
    try:
        return carry_out()
    finally:
        gc.freeze()  # else Python looks at all objects of the process several times when it ends


def carry_out() -> int:
    """Carry out the command line, which needs few of the modules for some commands."""
    if sys.argv[1:3] in STARTED:
        from workbench.lesson import started

        return started.main(sys.argv[2])
    from workbench import cli

    return cli.main()
