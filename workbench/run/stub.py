"""What a launcher starts in place of a PE: it has one forked by the `warm` process, and waits.

Started by ``python -I -S``, it takes 10 ms of a core. It hands the warm process its environment,
folder and open files, and ends with the PE's status. If a launcher kills it, its PE ends, too.
"""

import json
import os
import socket
import sys

SIZE = 4  # bytes of the length of what is handed over
FAILED = 3  # as in workbench.exit_status, which would take longer to import


def main() -> None:
    """Hand over what belongs to this process, and end with the status that comes back."""
    with socket.socket(socket.AF_UNIX) as server:
        numbers = [int(name) for name in os.listdir("/proc/self/fd")]
        numbers = [number for number in numbers if number != server.fileno() and is_open(number)]
        server.connect(address(sys.argv[1]))
        place = {
            "words": sys.argv[2:],
            "environment": dict(os.environ),
            "folder": os.getcwd(),
            "files": numbers,
        }
        text = json.dumps(place).encode()
        socket.send_fds(server, [len(text).to_bytes(SIZE, "little")], numbers)
        server.sendall(text)
        status = server.recv(1)
        server.recv(1)  # returns when the PE has ended
    os._exit(status[0] if status else FAILED)


def address(path: str) -> str:
    """A path of a socket that is short enough for the kernel, which takes 107 characters."""
    folder, name = os.path.split(path)
    return f"/proc/self/fd/{os.open(folder, os.O_PATH)}/{name}"


def is_open(number: int) -> bool:
    """Whether this is an open file; the folder that listed it no longer is."""
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main()
