"""The workbench: tools around runs. Command line, launcher, records, doctor, demo."""

import gc
from collections.abc import Callable

from miniapps.workbench import inherited


def main() -> int:
    """Run the program ``miniapps``; returns the exit status."""
    return prepared(command_line)


def prepared(act: Callable[[], int]) -> int:
    """Prepare this process, and run its program; returns the exit status.

    Ctrl-C waits until the modules are imported, as some cannot be interrupted: ``act`` lets it.
    """
    inherited.prepare()
    from miniapps.workbench import environment

    # Before NumPy is imported, as its library then starts its threads, and a process with threads
    # cannot be isolated.
    environment.one_thread()
    from miniapps.drivers import garbage

    gc.set_threshold(*garbage.RARELY)
    try:
        return act()
    finally:
        gc.freeze()  # else Python looks at all objects of the process several times when it ends


def command_line() -> int:
    """Carry out the command line, whose modules are imported only now."""
    from miniapps.workbench import cli

    return cli.main()
