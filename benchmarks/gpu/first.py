"""``make gpu-first``: the first half hour on a machine with a GPU, without a network.

    python benchmarks/gpu_first.py              the parts in turn, as far as ten minutes suffice
    python benchmarks/gpu_first.py tests bench  these parts
    python benchmarks/gpu_first.py take         results from the folder $OUT into this tree
    python benchmarks/gpu_first.py --seconds 200 bench    in less than ten minutes

The parts are in `PARTS`. This script needs nothing but Python. Called again, it continues: what has
passed is not repeated. If $OUT is set, results and the log are copied to that folder whenever a
part prints a line, so nothing is lost if the machine or the time limit ends a part.

Exit status: 0 all passed, 1 something failed or time is up, 2 there is no GPU.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import site
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.gpu.validation import kernel_cache  # noqa: E402 - this project need not be installed

WHEELS, VENV = ROOT / ".whl", ROOT / ".venv-gpu"
LOGS = ROOT / "build" / "gpu-first"  # where $OUT is not set
LOG = "gpu-first.log"  # one for all parts, because some machines return few files
RESULTS = (
    "benchmarks/gpu/validation.json",
    "benchmarks/results/gpu.json",
    "benchmarks/results/gpu_calls.json",
)
CUDA_FOLDERS = "/usr/local/cuda", "/usr/local/cuda-13", "/usr/local/cuda-13.0", "/opt/cuda"
# What wheels bring.
IMPORTED = "numba_cuda", "cuda.bindings", "mpi4py", "charm4py", "pytest_timeout"
TOTAL_S, SPARE_S = 580.0, 100.0  # the time of a call; what the last step of a part may take
PASSED, FAILED, NO_GPU = 0, 1, 2
HAS_GPU = "from miniapps.devices.cuda.toolkit import chosen; print(chosen().missing() or '')"
HAS_SANITIZER = "from benchmarks.gpu import check as c; print(c.sanitizer_program() or '')"
HAS_NCU = "from benchmarks.gpu import ncu; print(ncu.profiler() or '')"
CAN_IMPORT = f"import {', '.join(IMPORTED)}"


class Part(NamedTuple):
    """A module of this folder with its arguments, and whether it needs a GPU."""

    words: tuple[str, ...]
    needs_gpu: bool = True
    timed: bool = True  # takes --resume and --seconds


CHECK = "check"
NOT_CHECKED_YET = (  # under sanitizers, at the revision of which results/gpu.json is
    "*check *float32,*check leanmd pairs,*check cg,*check transpose,*check amr,synccheck"
)
PARTS = {  # what no GPU has shown yet is first
    "inventory": Part(("inventory",), needs_gpu=False, timed=False),
    "first": Part((CHECK, "--steps", "first")),
    "calls": Part(("calls",)),
    "charm": Part((CHECK, "--steps", "* charm,* staged,leanmd paper pairs")),
    "sanitizers": Part((CHECK, "--steps", NOT_CHECKED_YET)),
    "tests": Part((CHECK, "--steps", "tests,launched")),
    "ncu": Part(("ncu",), timed=False),
    "bench": Part(("bench",)),  # behind short parts: it keeps what it has when time is up
    "check": Part((CHECK,)),
}
DECISIVE = "inventory", "first"  # parts without which no other one makes sense
OPTIONAL = {  # parts that are left out where a program is missing, and what says where it is
    "sanitizers": ("compute-sanitizer", HAS_SANITIZER),
    "ncu": ("ncu", HAS_NCU),
}


class Stopped(Exception):
    """Why no further part can run, in one line."""

    def __init__(self, reason: str, status: int = FAILED) -> None:
        super().__init__(reason)
        self.status = status


def say(text: str) -> None:
    """Print a line without buffering."""
    print(f"gpu-first: {text}", flush=True)


# Packages ----------------------------------------------------------------------------------------


def environment() -> dict[str, str]:
    """The environment of parts: this project is found, and CUDA's folder is named.

    Parts share the kernels that they have compiled.
    """
    found = os.environ | {"NUMBA_CACHE_DIR": kernel_cache()}
    found["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [found.get("PYTHONPATH")])])
    nvcc = shutil.which("nvcc")
    folders = [str(Path(nvcc).resolve().parents[1])] if nvcc else []
    for folder in [*CUDA_FOLDERS, *folders]:
        if "CUDA_HOME" not in found and Path(folder).is_dir():
            found["CUDA_HOME"] = folder
    return found


def asked(python: str, program: str) -> subprocess.CompletedProcess[str]:
    """What a program of one line prints."""
    command = [python, "-c", program]
    return subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False
    )


def install() -> str:
    """The Python to use: this one if it has all packages, else an environment from the wheels.

    The environment sees this Python's packages behind its own, and this Python is left as it is.
    Raises Stopped if there are no wheels or they cannot be installed.
    """
    wheels = sorted(WHEELS.glob("*.whl"))
    if not wheels:
        if asked(sys.executable, CAN_IMPORT).returncode == 0:
            return sys.executable
        raise Stopped(f"{sys.executable} lacks {', '.join(IMPORTED)}, and there is no .whl; "
                      "make gpu-wheels fills it where there is a network")  # fmt: skip
    python, made = VENV / "bin" / "python", VENV / "made-from"
    text = "\n".join([sys.executable, sys.version, *(wheel.name for wheel in wheels)])
    if made.exists() and made.read_text() == text:
        return str(python)
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    for command in (
        [sys.executable, "-m", "venv", "--without-pip", "--clear", str(VENV)],
        [*pip, "--no-index", "--no-deps", "--no-cache-dir", *map(str, wheels)],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            lines = f"{done.stdout}\n{done.stderr}".strip().splitlines()
            errors = [line for line in lines if line.startswith("ERROR")] or lines[-1:]
            raise Stopped(f"install: {' '.join(errors[:1])}")
    (folder,) = VENV.glob("lib/python3.*/site-packages")
    (folder / "image.pth").write_text(packages_of_this_python())
    made.write_text(text)
    say(f"{len(wheels)} wheels are installed in {VENV.name}")
    return str(python)


def packages_of_this_python() -> str:
    """A .pth file that adds them; CUDA's libraries are searched where site.PREFIXES says."""
    lines = [f"import site; site.PREFIXES.append({prefix!r})" for prefix in site.PREFIXES]
    users = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    places = [*site.getsitepackages(), *users]
    lines += [f"import site; site.addsitedir({place!r})" for place in places]
    return "\n".join(lines) + "\n"


# Parts -------------------------------------------------------------------------------------------


def require_gpu(python: str, name: str) -> None:
    """Raise Stopped if kernels cannot run here."""
    done = asked(python, HAS_GPU)
    if done.returncode:
        raise Stopped(f"{name}: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
    if done.stdout.strip():
        raise Stopped(f"{name} needs a GPU: {done.stdout.strip()}", NO_GPU)


def run(python: str, name: str, left_s: float, out: Path | None) -> int:
    """Run a part, which is ended when no time is left; its exit status."""
    part = PARTS[name]
    command = [python, "-m", f"benchmarks.gpu.{part.words[0]}", *part.words[1:]]
    command += ["--resume", "--seconds", f"{left_s - SPARE_S:.0f}"] if part.timed else []
    say(f"{name}: {' '.join(command[1:])}")
    folder = out or LOGS
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / LOG, "a") as log:
        print(f"gpu-first: {name}", file=log, flush=True)
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        timer = threading.Timer(left_s, os.killpg, (process.pid, signal.SIGKILL))
        timer.daemon = True
        timer.start()
        try:
            for line in process.stdout or ():
                print(line, end="", flush=True)
                print(line, end="", file=log, flush=True)
                give(out)
        except OSError:  # no room in the folder
            os.killpg(process.pid, signal.SIGKILL)
            raise
        finally:
            status = process.wait()
            timer.cancel()
    give(out)
    return status


def give(out: Path | None) -> None:
    """Copy results that have changed from this tree to a folder."""
    if out is not None:
        copy_results(ROOT, out, lambda source, target: not same(source, target))


def take(out: Path | None) -> None:
    """Copy results from a folder into this tree. Raises Stopped if there are none."""
    if out is None:
        raise Stopped("take needs the folder of results: OUT=... make gpu-first PARTS=take")
    copied = copy_results(out, ROOT, lambda source, target: True)
    if not copied:
        raise Stopped(f"{out} has none of {', '.join(RESULTS)}")
    say(f"taken from {out}: {', '.join(copied)}")


def copy_results(source: Path, target: Path, wanted: Callable[[Path, Path], bool]) -> list[str]:
    """Copy the results that there are, and that are wanted; their names."""
    copied = []
    for name in RESULTS:
        if (source / name).exists() and wanted(source / name, target / name):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / name, target / f"{name}.new")
            os.replace(target / f"{name}.new", target / name)
            copied.append(name)
    return copied


def same(one: Path, other: Path) -> bool:
    """Whether two files have the same content."""
    return other.exists() and one.read_bytes() == other.read_bytes()


def lacking(name: str, python: str) -> str | None:
    """The program for want of which a part is left out."""
    program, asks = OPTIONAL.get(name, ("", ""))
    return program if asks and not asked(python, asks).stdout.strip() else None


def in_turn(names: list[str], out: Path | None, clock: Callable[[], float], total_s: float) -> None:
    """Run parts one after the other, also after one that fails.

    Raises Stopped if one has failed: at once if the others need it, or no time is left.
    """
    begin = clock()
    python, failed = install(), []
    for number, name in enumerate(names):
        if PARTS[name].needs_gpu:
            require_gpu(python, name)
        if program := lacking(name, python):
            say(f"{name} is left out: there is no {program}")
            continue
        left_s = total_s - (clock() - begin)
        if left_s <= SPARE_S:
            raise Stopped(f'time is up; to do: PARTS="{" ".join(names[number:])}"')
        status = run(python, name, left_s, out)
        if status < 0:
            raise Stopped(f"{name} was ended after {left_s:.0f} s; the same command continues it")
        if status and name in DECISIVE:
            raise Stopped(f"{name} has status {status}")
        failed += [name] if status else []
        say(f"{name} has status {status}" if status else f"{name} passed")
    if failed:
        raise Stopped(
            f"failed: {', '.join(failed)}; the same command tries again what has not passed"
        )


def main(words: list[str], clock: Callable[[], float] = time.monotonic) -> int:
    """Run the parts; returns the exit status."""
    options = arguments(words)
    words = options.parts
    unknown = [word for word in words if word not in (*PARTS, "take")]
    out = Path(os.environ["OUT"]).absolute() if os.environ.get("OUT") else None
    try:
        if unknown:
            raise Stopped(f"no part {unknown[0]}; parts: {', '.join((*PARTS, 'take'))}")
        if "take" in words:
            take(out)
            words.remove("take")
            if not words:
                return PASSED
        elif out is not None:
            copy_results(out, ROOT, lambda source, target: not target.exists())
        in_turn(words or list(PARTS), out, clock, options.seconds)
    except Stopped as stopped:
        say(str(stopped))
        return stopped.status
    except OSError as error:
        say(f"{error.filename or out}: {error.strerror}")
        return FAILED
    return PASSED


def arguments(words: list[str]) -> argparse.Namespace:
    """The options, and the names of parts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help=f"take, or some of {', '.join(PARTS)}")
    parser.add_argument("--seconds", type=float, default=TOTAL_S, help="when parts are ended")
    return parser.parse_args(words)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
