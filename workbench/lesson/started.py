"""What `lesson check` and `lesson mark` start, many times, each for a short time.

It does without the command line, whose imports take longer than most programs of students.
"""

from __future__ import annotations

import signal
import sys


def main(name: str) -> int:
    """Run ``lesson take-part`` or ``lesson inside``; returns the exit status."""
    from miniapps.parameters import InputError
    from miniapps.workbench.errors import explained
    from miniapps.workbench.exit_status import BAD_INPUT, FAILED, INTERRUPTED

    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    try:
        return run(name)
    except InputError as error:
        print(f"miniapps: {error}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        print(f"miniapps: {explained(error)}", file=sys.stderr)
        return FAILED


def run(name: str) -> int:
    """Run the act of a name; only that is imported."""
    if name == "inside":
        from miniapps.workbench.lesson.apart import inside

        return inside()
    from miniapps.workbench.lesson.taking_part import take_part

    return take_part()
