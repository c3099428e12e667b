"""Virtual hosts: namespaces with a network, a name, processes and temporary files of their own.

Each is a host as far as a run can tell: it has its own `sshd` and boot id, and shares nothing with
the others but the files outside of ``/tmp`` and ``/dev/shm``, and in two folders. Network emulation
(delays) is not needed, and not every kernel has it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

PROGRAMS = "ip", "ssh", "sshd", "ssh-keygen", "unshare", "nsenter", "setsid", "setpriv"
ROOT = Path(__file__).parents[1]
UP_S = 10.0
NETWORKS = range(1, 250)  # of which one is free
INIT = """set -e
hostname {name}
mount --make-rprivate /
mkdir -p {aside}
mount -t tmpfs none {aside}
n=0
for folder in {folders}; do
  n=$((n + 1)); mkdir {aside}/$n; mount --rbind $folder {aside}/$n
done
mount -t tmpfs none /tmp
mount -t tmpfs none /dev/shm
chmod 1777 /tmp /dev/shm
n=0
for folder in {folders}; do
  n=$((n + 1)); mkdir -p $folder; mount --rbind {aside}/$n $folder
done
mount --bind {shared}/hosts /etc/hosts
mount -t proc proc /proc
mount --bind {shared}/boot_{name} /proc/sys/kernel/random/boot_id
exec {sshd} -D -e -f {shared}/sshd_{name}
"""
SSHD = """ListenAddress {address}
HostKey {shared}/key
AuthorizedKeysFile {shared}/key.pub
StrictModes no
UsePAM no
PidFile none
PermitRootLogin yes
MaxStartups 100
"""
CLIENT = """IdentityFile {shared}/key
StrictHostKeyChecking no
UserKnownHostsFile /dev/null
LogLevel ERROR
"""


def missing() -> str | None:
    """Why this process cannot make virtual hosts; None if it can."""
    if os.geteuid():
        return "virtual hosts need root"
    absent = [name for name in PROGRAMS if _path(name) is None]
    if absent:
        return f"virtual hosts need {', '.join(absent)}"
    tried = subprocess.run(["unshare", "-n", "-m", "-u", "-p", "-f", "true"], capture_output=True)
    return None if tried.returncode == 0 else "virtual hosts need the right to make namespaces"


def _path(program: str) -> str | None:
    return shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")


def _run(*words: object) -> None:
    subprocess.run([str(word) for word in words], check=True, capture_output=True)


class VirtualHosts:
    """Hosts that are up. ``shared``: a folder that all of them see."""

    def __init__(self, names: Sequence[str], shared: Path) -> None:
        self.names, self.shared = list(names), shared
        self.inits: dict[str, subprocess.Popen[bytes]] = {}
        self.bridge = ""

    def __enter__(self) -> Self:
        try:
            self._begin_all()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _begin_all(self) -> None:
        """Start all hosts, and wait until they are up."""
        for number in NETWORKS:
            with suppress(subprocess.CalledProcessError):  # another process has it
                _run("ip", "link", "add", f"vh{number}", "type", "bridge")
                self.bridge, network = f"vh{number}", f"10.98.{number}"
                break
        _run("ip", "link", "set", self.bridge, "up")
        _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.shared / "key")
        addresses = {name: f"{network}.{n}" for n, name in enumerate(self.names, 2)}
        lines = ["127.0.0.1 localhost", *(f"{of} {name}" for name, of in addresses.items())]
        (self.shared / "hosts").write_text("\n".join(lines) + "\n")
        (self.shared / "client").write_text(CLIENT.format(shared=self.shared))
        Path("/run/sshd").mkdir(exist_ok=True)
        for name, address in addresses.items():
            self._begin(name, address)
        end = time.monotonic() + UP_S
        for name in self.names:
            log = self.shared / f"log_{name}"
            while "listening" not in log.read_text():
                assert time.monotonic() < end, log.read_text()
                time.sleep(0.02)

    def _begin(self, name: str, address: str) -> None:
        """Start a host."""
        namespace = f"{self.bridge}{name}"
        self._remove(namespace)  # left by tests that were killed
        _run("ip", "netns", "add", namespace)
        _run("ip", "link", "add", namespace, "type", "veth", "peer", "eth0", "netns", namespace)
        _run("ip", "link", "set", namespace, "master", self.bridge, "up")
        _run("ip", "-n", namespace, "link", "set", "lo", "up")
        _run("ip", "-n", namespace, "addr", "add", f"{address}/24", "dev", "eth0")
        _run("ip", "-n", namespace, "link", "set", "eth0", "up")
        (self.shared / f"boot_{name}").write_text(f"{uuid.uuid4()}\n")
        (self.shared / f"sshd_{name}").write_text(SSHD.format(address=address, shared=self.shared))
        folders = shlex.join(map(str, dict.fromkeys((self.shared, ROOT, Path(sys.prefix)))))
        aside, sshd = f"/run/{namespace}", _path("sshd")
        init = self.shared / f"init_{name}"
        init.write_text(
            INIT.format(name=name, aside=aside, folders=folders, shared=self.shared, sshd=sshd)
        )
        spaces = ["unshare", "-m", "-u", "-p", "-f", "--kill-child"]
        with (self.shared / f"log_{name}").open("wb") as log:
            self.inits[name] = subprocess.Popen(
                [
                    "setpriv",
                    "--pdeathsig",
                    "KILL",
                    "setsid",
                    "ip",
                    "netns",
                    "exec",
                    namespace,
                    *spaces,
                    "sh",
                    init,
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for init in self.inits.values():
            init.kill()
            init.wait()
        for name in self.names:
            self._remove(f"{self.bridge}{name}")
        _run("ip", "link", "delete", self.bridge)

    def _remove(self, namespace: str) -> None:
        """Remove what `_begin` has made, if it is there."""
        for kind in ("link", "netns"):
            with suppress(subprocess.CalledProcessError):
                _run("ip", kind, "delete", namespace)
        with suppress(FileNotFoundError):
            Path(f"/run/{namespace}").rmdir()

    def inside(self, host: str) -> list[str]:
        """What begins a command that runs on a host, in the folder of the project."""
        unshare = self.inits[host].pid
        text = Path(f"/proc/{unshare}/task/{unshare}/children").read_text()
        return ["nsenter", "-t", text.split()[0], "-m", "-u", "-n", "-p", f"--wd={ROOT}"]

    def on(self, host: str, *words: object, **more: Any) -> subprocess.CompletedProcess[str]:
        """Run a command on a host."""
        command = [*self.inside(host), *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, check=False, **more)

    def cut_off(self, host: str) -> None:
        """Let no message from and to a host through."""
        _run("ip", "link", "set", f"{self.bridge}{host}", "down")

    def join(self, host: str) -> None:
        """End that."""
        _run("ip", "link", "set", f"{self.bridge}{host}", "up")

    def environment(self) -> dict[str, str]:
        """Variables by which programs on one of the hosts reach the others."""
        return os.environ | {"MINIAPPS_REMOTE_SHELL": f"ssh -F {self.shared / 'client'}"}

    def left(self, host: str) -> list[str]:
        """The processes on a host, but those of the ssh server, and its temporary files."""
        found = self.on(host, "sh", "-c", "ps -eo args; ls -A /tmp /dev/shm").stdout.splitlines()
        usual = "COMMAND", "sh -c ps", "ps -eo", "/tmp:", "/dev/shm:", "sshd", f"{_path('sshd')} -D"
        kept = {part.parts[2] for part in (self.shared, ROOT) if part.parts[1] == "tmp"}
        lines = (line for line in found if line and not line.startswith(usual))
        return [line for line in lines if line not in kept]
