"""``python -m miniapps``: the command line, where ``miniapps`` is not on the PATH."""

from miniapps.workbench import main

if __name__ == "__main__":
    raise SystemExit(main())
