"""What `lesson check` and `lesson mark` start, many times, each for a short time.

``python -m miniapps.lessons.checking.started take-part`` or ``inside``. It does without the command
line, whose imports take longer than most programs of students.
"""

from __future__ import annotations

import signal
import sys

from miniapps.workbench import prepared


def main() -> int:
    """Run the act that the first argument names; returns the exit status."""
    from miniapps.parameters import InputError
    from miniapps.workbench.errors import explained
    from miniapps.workbench.exit_status import BAD_INPUT, FAILED, INTERRUPTED

    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    try:
        return run(sys.argv[1])
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
        from miniapps.lessons.checking.apart import inside

        return inside()
    from miniapps.lessons.checking.taking_part import take_part

    return take_part()


if __name__ == "__main__":
    raise SystemExit(prepared(main))
