"""The workbench: tools around runs. Command line, launcher, records, doctor, demo."""

import gc
import sys

from miniapps.workbench import inherited

STARTED = ["lesson", "take-part"], ["lesson", "inside"]  # many times, each for a short time


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
