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
    from miniapps.workbench.errors import explained
    from miniapps.workbench.exit_status import FAILED, INTERRUPTED

    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    try:
        if sys.argv[1] == "inside":
            from miniapps.lessons.checking.apart import inside as act
        else:
            from miniapps.lessons.checking.taking_part import take_part as act
        return act()
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        print(f"miniapps: {explained(error)}", file=sys.stderr)
        return FAILED


if __name__ == "__main__":
    raise SystemExit(prepared(main))
