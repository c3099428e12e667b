"""Warm PEs: forked from one process that has imported the apps and loaded their kernels.

A launcher starts a `stub` in place of each PE, which hands its place to a fork of the warm process.
A fork takes a tenth of the time in which Python imports a PE's program, and a fault that is seen
ends its launch: a self-test has more than a hundred launches.
"""

from __future__ import annotations

import json
import os
import pickle
import runpy
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from miniapps import apps, kernels
from miniapps.workbench.exit_status import FAILED, VALID
from miniapps.workbench.run import batch, launch, stub
from miniapps.workbench.run.processes import end_with
from miniapps.workbench.run.progress_file import FORKED
from miniapps.workbench.run.scratch import scratch_folder
from miniapps.workbench.run.spec import RunSpec

RUNS = ".pickle"
READY = b"ready\n"  # the first line that the warm process prints
FILES = 64  # the numbers of files that a launcher leaves open for a PE are smaller


@contextmanager
def started(specs: Sequence[RunSpec]) -> Iterator[list[str]]:
    """Start the warm process; yields the program that a launcher starts as a PE.

    ``specs``: runs that need no launcher, which it makes first, and so loads their kernels.
    """
    with scratch_folder() as folder:
        path = str(folder / "warm")
        Path(path).with_suffix(RUNS).write_bytes(pickle.dumps(specs))
        command = [sys.executable, "-P", "-m", __name__, path]  # not a folder workbench here
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, start_new_session=True) as process:
            assert process.stdout is not None
            try:
                if process.stdout.readline() != READY:
                    raise RuntimeError("the process that forks PEs has not started")
                yield [sys.executable, "-I", "-S", str(Path(stub.__file__)), path]
            finally:
                process.kill()


def main() -> None:
    """Load what PEs need, then fork a PE for each stub that connects.

    The numbers of a stub's files are kept free for them: a file of this process that had one would
    be closed when Python frees it, and with it the PE's.
    """
    while os.open(os.devnull, os.O_RDONLY) < FILES:
        pass
    end_with(sys.stdin.fileno())
    kernels.import_compiler()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this one
    path = Path(sys.argv[1])
    batch.solve_all(pickle.loads(path.with_suffix(RUNS).read_bytes()))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # so that none remains as a zombie
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(stub.address(str(path)))
        server.listen()
        os.write(sys.stdout.fileno(), READY)
        while True:
            connection, _ = server.accept()
            if os.fork() == 0:
                server.close()
                try:
                    become_pe(connection)
                except (OSError, ValueError):
                    if is_awaited(connection):
                        raise
                    os._exit(FAILED)  # its launch was ended while it began
            connection.close()


def is_awaited(connection: socket.socket) -> bool:
    """Whether a PE's stub and the folder of its launch still exist."""
    if not Path(os.environ.get(launch.FOLDER, os.curdir)).is_dir():
        return False
    try:
        return connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


def become_pe(connection: socket.socket) -> None:
    """Take the place of a stub, be a PE of its launch, and end; the stub ends with the status."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    size, files, _, _ = socket.recv_fds(connection, stub.SIZE, FILES)
    place = json.loads(connection.recv(int.from_bytes(size, "little"), socket.MSG_WAITALL))
    os.closerange(0, FILES)
    for file, number in zip(files, place["files"], strict=True):
        os.dup2(file, number)
        os.close(file)
    end_with(connection.fileno())
    sys.argv[1:] = place["words"]
    os.environ.clear()
    os.environ.update(place["environment"])
    apps.read_path()
    os.chdir(place["folder"])
    (Path(os.environ[launch.FOLDER]) / f"{FORKED}.{os.getpid()}").touch()
    status = status_of_program()
    connection.send(bytes([status]))
    connection.detach()  # the stub ends when this process has: MPI is finalized at its very end
    sys.exit(status)


def status_of_program() -> int:
    """Run the program, of which this file is a part; returns its status."""
    script = launch.PROGRAM[-1]
    try:
        if launch.PROGRAM[1] == "-m":
            runpy.run_module(script, run_name="__main__")
        else:
            runpy.run_path(script, run_name="__main__")
    except SystemExit as ended:
        return int(ended.code or 0)
    return VALID


if __name__ == "__main__":
    main()
