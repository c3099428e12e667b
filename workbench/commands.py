"""The commands but `run` and `batch`: the options of each, and what it calls."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from miniapps import apps, drivers
from miniapps.parameters import Number, require
from miniapps.workbench.arguments import (
    add_app_options,
    add_apps,
    add_former,
    add_launcher,
    add_number,
    add_options,
    typed,
)
from miniapps.workbench.exit_status import FAILED, VALID
from miniapps.workbench.parser import command_parser
from miniapps.workbench.table import width

PLOT_EXAMPLES = """examples:
  miniapps run pic --output run.h5 && miniapps plot run.h5
  miniapps run pic --output run.h5 --snapshot-every 5 --trace
  miniapps plot run.h5 --animation --trace
"""


RESUME_EXAMPLES = """examples:
  miniapps run pic --checkpoint run.h5 --checkpoint-every 100
  miniapps resume run.h5
  miniapps resume run.h5 --pe-grid 2x2 --steps 500
"""


def add_list(commands: Any, arguments: Sequence[str]) -> None:
    """Add `miniapps list`."""
    command_parser(commands, "list", "list the apps", "example: miniapps list", _list)


def _list(options: argparse.Namespace, runtime: list[str]) -> int:
    for name, app in _all_apps().items():
        summary = (app.__doc__ or "").partition("\n")[0]
        label = f"{name:12} "
        print(label + textwrap.shorten(summary, width() - len(label), placeholder=" ..."))
    return VALID


def _all_apps() -> dict[str, ModuleType]:
    """All apps that can be imported; prints a line for each that cannot."""
    loaded, left_out = apps.load_all()
    for line in left_out:
        print(line, file=sys.stderr)
    return loaded


def _for_apps(asked: list[str], act: Callable[[list[str]], int]) -> int:
    """Call ``act`` for the apps that the user names, else for all; returns the exit status.

    If one of all cannot be imported, it is FAILED at least; if a named one cannot, InputError is
    raised.
    """
    for name in asked:
        apps.load(name)
    wanted = asked or list(_all_apps())
    status = act(wanted)
    return status if asked or wanted == apps.names() else max(status, FAILED)


def add_new(commands: Any, arguments: Sequence[str]) -> None:
    """Add `miniapps new`."""
    help = "write a new app, which runs at once, and its tests"
    parser = command_parser(commands, "new", help, "example: miniapps new heat", _new)
    parser.add_argument("name", metavar="NAME", help="name of the app, in lower case")
    help = f"where to write the app's package; default: the first of {apps.APP_PATH}, else apps"
    parser.add_argument("--folder", type=Path, metavar="FOLDER", help=help)


def _new(options: argparse.Namespace, runtime: list[str]) -> int:
    from miniapps.workbench import new

    print(*new.new(options.name, options.folder), sep="\n")
    return VALID


def add_resume(commands: Any, arguments: Sequence[str]) -> None:
    """Add `miniapps resume`, for its help: `cli.main` makes a `run` of its other words."""
    help = "continue from a checkpoint, perhaps under another driver or on other PEs"
    parser = command_parser(commands, "resume", help, RESUME_EXAMPLES, None)
    parser.add_argument("file", metavar="FILE.h5", help="written by run --checkpoint")
    help = "options of `miniapps run APP`, as far as they do not change the result"
    parser.add_argument("options", nargs=argparse.REMAINDER, metavar="OPTIONS", help=help)


def add_checkpoint(commands: Any, arguments: Sequence[str]) -> None:
    """Add `miniapps checkpoint`."""
    help = "what is in a checkpoint, and whether all its hashes hold; exit status 2 if not"
    parser = command_parser(commands, "checkpoint", help, "example: miniapps checkpoint run.h5",
                            _checkpoint)  # fmt: skip
    parser.add_argument("file", type=Path, metavar="FILE.h5", help="written by run --checkpoint")
    parser.add_argument("--json", action="store_true", help="print it as one JSON object")


def _checkpoint(options: argparse.Namespace, runtime: list[str]) -> int:
    from miniapps.workbench import resume

    return resume.checkpoint(options.file, options.json)


def add_verify(commands: Any, arguments: Sequence[str]) -> None:
    """Add `miniapps verify`."""
    help = "whether every app, driver and decomposition gives the same bits; exit status 1 if not"
    example = "example: miniapps verify jacobi2d stencil3d"
    parser = command_parser(commands, "verify", help, example, _verify)
    parser.set_defaults(starts_runs=True)
    parser.add_argument("apps", nargs="*", metavar="APP", help="default: all")
    parser.add_argument("--full", action="store_true", help="every balancer with every --time-tile")
    help = "gpu: run everything on a GPU, and compare it with a run on the CPU"
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu", help=help)


def _verify(options: argparse.Namespace, runtime: list[str]) -> int:
    from miniapps.workbench import verify

    act = partial(verify.verify, full=options.full, device=options.device)
    return _for_apps(options.apps, act)


def add_adversary(commands: Any, arguments: Sequence[str]) -> None:
    """Add `miniapps adversary`."""
    help = "look for an order of messages, turns and migrations that changes an app's result"
    parser = command_parser(commands, "adversary", help, "example: miniapps adversary pic", None)
    add = _add_adversary_options
    add_apps(parser, arguments, 1, add, command=_adversary, starts_runs=True)


def _add_adversary_options(parser: argparse.ArgumentParser, problem: Any) -> None:
    from miniapps.workbench.adversary import command
    from miniapps.workbench.run.spec import RunSpec

    add_options(parser, RunSpec, ("steps", "pe_grid"))
    add = parser.add_argument_group("search").add_argument
    add(
        "--preset",
        metavar="NAME",
        help=f"one of: {', '.join(problem.presets)}; default: minimal, else tiny",
    )
    add("--schedules", type=typed(int), default=command.SCHEDULES, metavar="N", help="at most N")
    help = "begin no schedule after S seconds"
    add_number(add, "--seconds", Number(zero=True), help, default=command.SECONDS, metavar="S")
    help = "processes; default: one per core"
    add("--jobs", type=typed(int), default=0, metavar="N", help=help)
    add("--sim-seed", type=typed(int), default=0, metavar="K", help="the first seed")
    add("--sim-pes", type=typed(int), default=command.PES, metavar="P", help="virtual PEs")
    help = "write a schedule that fails to this file; default: APP-schedule.json"
    add("--schedule", type=Path, metavar="FILE", help=help)
    add("--json", type=Path, metavar="FILE", help="write what was found as JSON")
    add("--replay", type=Path, metavar="FILE", help="run this schedule instead, and explain it")
    add_app_options(parser, problem)


def _adversary(options: argparse.Namespace, runtime: list[str]) -> int:
    from miniapps.workbench.adversary import command

    return command.adversary(options)


def add_selftest(commands: Any, arguments: Sequence[str]) -> None:
    """Add `miniapps selftest`."""
    from miniapps.workbench.selftest.drawn import part_or_number

    help = "make known mistakes in the program, one at a time; exit status 1 if one is not caught"
    example = "example: miniapps selftest pic"
    parser = command_parser(commands, "selftest", help, example, _selftest)
    parser.set_defaults(starts_runs=True)
    parser.add_argument("apps", nargs="*", metavar="APP", help="default: all")
    help = "only under this driver; repeatable"
    names = drivers.names()
    parser.add_argument("--driver", action="append", choices=names, metavar="NAME", help=help)
    parser.add_argument("--fault", metavar="WORDS", help="only faults whose name contains this")
    help = "preset of the problems, with few steps: small, large, or a reduced tiny (default)"
    parser.add_argument("--preset", default="tiny", metavar="NAME", help=help)
    help = "only N faults per app and driver, or a part such as 1/4; a different choice each day"
    parser.add_argument("--draw", type=typed(part_or_number), metavar="N", help=help)
    help = "only N faults of times, units, statistics and figures, or a part such as 1/4"
    parser.add_argument("--numbers", type=typed(part_or_number), metavar="N", help=help)
    help = "append each trial to this file, as a line of JSON"
    parser.add_argument("--json", type=Path, metavar="FILE", help=help)
    help = "leave out the trials that the file of --json has already"
    parser.add_argument("--resume", action="store_true", help=help)
    help = "print the table in Markdown"
    parser.add_argument("--markdown", action="store_true", help=help)


def _selftest(options: argparse.Namespace, runtime: list[str]) -> int:
    from miniapps.workbench.selftest import command

    def act(apps: list[str]) -> int:
        asked = command.Asked(
            apps,
            options.driver or drivers.names(),
            options.fault,
            options.preset,
            options.draw,
            options.json,
            options.resume,
            options.numbers,
        )
        return command.selftest(asked, options.markdown)

    return _for_apps(options.apps, act)


def add_study(commands: Any, arguments: Sequence[str]) -> None:
    """Add `miniapps study`."""
    help = "measure how an app scales: repeated runs and a report"
    parser = command_parser(commands, "study", help, "", None)
    if arguments[:1] == ["study"]:
        from miniapps.workbench.study import command

        command.add_commands(parser, arguments)


def add_model(commands: Any, arguments: Sequence[str]) -> None:
    """Add `miniapps model`."""
    help = "predict how an app would scale, here or on another machine"
    parser = command_parser(commands, "model", help, "", None)
    if arguments[:1] == ["model"]:
        from miniapps.workbench.model import command

        command.add_commands(parser, arguments)


def add_comm(commands: Any, arguments: Sequence[str]) -> None:
    """Add `miniapps comm`."""
    help = "communication benchmarks, named as in OMB: latency, bw, allreduce ..."
    parser = command_parser(commands, "comm", help, "", None)
    if arguments[:1] == ["comm"]:
        from miniapps.workbench.comm import command

        command.add_comm_options(parser)
        parser.set_defaults(command=command.comm)
        parser.epilog = command.EXAMPLES


def add_reproduce(commands: Any, arguments: Sequence[str]) -> None:
    """Add `miniapps reproduce`."""
    help = "published figures and claims, measured again on this machine"
    parser = command_parser(commands, "reproduce", help, "", None)
    if arguments[:1] == ["reproduce"]:
        from miniapps.workbench.reproduce import command

        command.add_options(parser)


def add_doctor(commands: Any, arguments: Sequence[str]) -> None:
    """Add `miniapps doctor`."""
    help = "what is installed, what works, and how to get what is missing"
    parser = command_parser(commands, "doctor", help, "example: miniapps doctor", _doctor)
    add_launcher(parser)


def _doctor(options: argparse.Namespace, runtime: list[str]) -> int:
    from miniapps.workbench import doctor

    return doctor.doctor(options.launcher)


def add_plot(commands: Any, arguments: Sequence[str]) -> None:
    """Add `miniapps plot`."""
    parser = command_parser(
        commands,
        "plot",
        "draw one run: final state, loads, step times and migrations; or write its animation, "
        "trace, or files for ParaView, ASE and OVITO",
        PLOT_EXAMPLES,
        _plot,
    )
    help = "written by run --output; with --paraview also by run --checkpoint"
    parser.add_argument("file", type=Path, metavar="FILE.h5", help=help)
    add = parser.add_argument
    add("--figure", type=Path, metavar="FILE", help=".png, .svg or .pdf; default: FILE.png")
    add("--animation", action="store_true", help="write FILE.html, with a slider over the steps")
    add_former(parser, "--film", "--animation", "animation", nargs=0, const=True)
    second = "a second run of the same problem, beside the first in the animation"
    add("--compare", type=Path, metavar="OTHER.h5", help=second)
    add_former(parser, "--beside", "--compare", "compare", type=Path)
    add("--trace", action="store_true", help="write FILE.trace.json, for Perfetto")
    add("--paraview", action="store_true", help="write FILE.vtkhdf, for ParaView")
    add("--xyz", action="store_true", help="write FILE.xyz, a trajectory for ASE and OVITO")


def _plot(options: argparse.Namespace, runtime: list[str]) -> int:
    from miniapps.workbench.show import paraview, plots, trace, xyz

    source, written = options.file, []
    animated = options.animation
    require(animated or not options.compare, "--compare", options.compare, "needs --animation")
    others = animated, options.trace, options.paraview, options.xyz
    if options.figure or not any(others):
        written.append(plots.write_figure(source, options.figure or source.with_suffix(".png")))
    if animated:
        from miniapps.workbench.show import animation

        page = source.with_suffix(".html")
        written.append(animation.write_animation(source, options.compare, page))
    if options.trace:
        written.append(trace.write_trace(source, source.with_suffix(".trace.json")))
    if options.paraview:
        written.append(paraview.write_paraview(source, source.with_suffix(".vtkhdf")))
    if options.xyz:
        written.append(xyz.write_xyz(source, source.with_suffix(".xyz")))
    print(*written, sep="\n")
    return VALID


def add_diff(commands: Any, arguments: Sequence[str]) -> None:
    """Add `miniapps diff`."""
    help = "the first step, part of the domain and field in which two runs differ"
    example = "example: miniapps diff A.h5 B.h5; make both with run --hash-every 1 --output"
    parser = command_parser(commands, "diff", help, example, _diff)
    for name in ("A.h5", "B.h5"):
        parser.add_argument(name, type=Path, help="written by run --output or --checkpoint")


def _diff(options: argparse.Namespace, runtime: list[str]) -> int:
    from miniapps.workbench import diff

    return diff.diff(*(getattr(options, name) for name in ("A.h5", "B.h5")))


def add_replay(commands: Any, arguments: Sequence[str]) -> None:
    """Add `miniapps replay`."""
    help = "what another balancer, period, ODF or number of PEs would have done with a run's loads"
    parser = command_parser(commands, "replay", help, "", _replay)
    if arguments[:1] == ["replay"]:
        from miniapps.workbench.replay import options

        options.add_replay_options(parser)
        parser.epilog = options.EXAMPLES


def _replay(options: argparse.Namespace, runtime: list[str]) -> int:
    from miniapps.workbench.replay import command

    return command.replay(options)


def add_demo(commands: Any, arguments: Sequence[str]) -> None:
    """Add `miniapps demo`."""
    help = "apps under every driver, and a load that is balanced, in about a minute"
    example = "example: miniapps demo --folder demo"
    parser = command_parser(commands, "demo", help, example, _demo)
    parser.set_defaults(starts_runs=True)
    parser.add_argument("--folder", type=Path, default=Path("demo"), help="default: demo")


def _demo(options: argparse.Namespace, runtime: list[str]) -> int:
    from miniapps.workbench import demo

    return demo.demo(options.folder)
