"""Exit statuses of all commands."""

VALID = 0
WRONG = 1  # ran to its end, but the result is wrong
BAD_INPUT = 2  # reported in one line, before anything was launched
FAILED = 3  # a rank died, hung or could not be started
STOPPED = 4  # early, as asked, after a checkpoint: `miniapps resume` continues
INTERRUPTED = 130  # by Ctrl-C; shells use the same number
