"""The workbench: tools around runs. Command line, launcher, records, doctor, demo.

Importing it checks that the other packages are this program's own: nothing on PYTHONPATH hides one,
and no other distribution has been installed over one.
"""

import gc
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from miniapps.workbench import inherited
from miniapps.workbench.exit_status import BAD_INPUT

STARTED = ["lesson", "take-part"], ["lesson", "inside"]  # many times, each for a short time
PACKAGES = ("devices", "kernels", "miniapps", "drivers", "communication", "lessons")
FOLDER = Path(__file__).resolve().parents[1]  # that holds them
RECORD = "{}.dist-info/RECORD"  # where pip lists the files of a distribution, with their hashes


def hidden(package: str) -> str | None:
    """The path of what is found instead of this program's package, if there is anything."""
    spec = find_spec(package)
    if spec is None:
        return None
    places = [*(spec.submodule_search_locations or []), str(spec.origin)]
    found = Path(places[0]).resolve()
    return str(found) if found != FOLDER / package else None


def replaced() -> Iterator[tuple[str, str]]:
    """Packages over which another distribution was installed, of which pip says nothing; its name.

    A checkout has no list of files, and nothing is installed into it.
    """
    own = next(FOLDER.glob(RECORD.format("parallel_miniapps-*")), None)
    if own is None:
        return
    from base64 import urlsafe_b64encode
    from hashlib import sha256

    listed = own.read_text(encoding="utf-8")
    for package in PACKAGES:
        name = f"{package}/__init__.py"
        digest = urlsafe_b64encode(sha256((FOLDER / name).read_bytes()).digest())
        if not has_line(listed, f"{name},sha256={digest.decode().rstrip('=')},"):
            for file in FOLDER.glob(RECORD.format("*")):
                if file != own and has_line(file.read_text(encoding="utf-8"), f"{name},"):
                    yield package, file.parent.stem


def has_line(text: str, begin: str) -> bool:
    """Whether a text has a line that begins so."""
    return f"\n{begin}" in f"\n{text}"


def wrong_package() -> str | None:
    """Why a package that would be imported is not this program's own, if one is not."""
    for package in PACKAGES:
        if path := hidden(package):
            return f"{path} hides this program's package {package}"
        if not (FOLDER / package / "__init__.py").exists():
            return f"this program's package {package} is gone: install it again"
    for package, other in replaced():
        apart = "install them in environments of their own"
        return f"{other} has replaced this program's package {package}: {apart}"
    return None


if (_why := wrong_package()) is not None:
    print(f"miniapps: {_why}", file=sys.stderr)
    raise SystemExit(BAD_INPUT)


def main() -> int:
    """Run the program ``miniapps``; returns the exit status.

    Ctrl-C waits until the modules are imported, as some cannot be interrupted: `cli.main` lets it.
    """
    inherited.prepare()
    from miniapps.workbench import environment

    # Before NumPy is imported, as its library then starts its threads, and a process with threads
    # cannot be isolated.
    environment.one_thread()
    from miniapps.drivers import garbage

    gc.set_threshold(*garbage.RARELY)
    try:
        return carry_out()
    finally:
        gc.freeze()  # else Python looks at all objects of the process several times when it ends


def carry_out() -> int:
    """Carry out the command line, which needs few of the modules for some commands."""
    if sys.argv[1:3] in STARTED:
        from miniapps.workbench.lesson import started

        return started.main(sys.argv[2])
    from miniapps.workbench import cli

    return cli.main()
