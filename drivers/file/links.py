"""Messages as files: the folder that ranks share, and the links of a rank's block.

A message is written under another name and renamed, so a file that a receiver finds is whole. Its
name says who receives it and its number in the order of sending; the receiver, who knows both,
opens it by its name and removes it.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from miniapps.contract import Edge, MessageError, Peer
from miniapps.devices.messages import HEADER_BYTES
from miniapps.drivers import gpu_ipc, links
from miniapps.drivers.file.launch import LOCK
from miniapps.drivers.headers import HEAD, enveloped, read_kind
from miniapps.drivers.job import RunError

LOOK_S = 0.2  # between two looks whether the run has been ended


class Folder:
    """The folder of a run's messages; ``path`` must exist."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)

    def put(self, name: str, buffer: np.ndarray) -> None:
        """Write a message that nobody has sent yet. Raises OSError, as where the disk is full."""
        aside = f".{name}"
        try:
            file = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=self.fd)
            try:
                rest = buffer.data
                while rest:
                    rest = rest[os.write(file, rest) :]
            finally:
                os.close(file)
            os.rename(aside, name, src_dir_fd=self.fd, dst_dir_fd=self.fd)
        except FileNotFoundError:
            self.require()
            raise
        except OSError as error:
            text = f"cannot write a message: {error.strerror}; --file-dir chooses another folder"
            raise OSError(error.errno, text, str(self.path)) from None

    def take(self, name: str, room: np.ndarray) -> np.ndarray:
        """Wait for a message, and remove its file; returns ``room``, or a longer buffer, with it.

        Raises RunError if the run has been ended, as another rank has failed.
        """
        file = self._open(name)
        try:
            nbytes = os.fstat(file).st_size
            if nbytes > room.nbytes:
                room = np.empty(nbytes, np.uint8)
            rest = room.data[:nbytes]
            while rest and (read := os.readv(file, [rest])):
                rest = rest[read:]
        finally:
            os.close(file)
        self._check(name, nbytes, room, len(rest))
        os.unlink(name, dir_fd=self.fd)
        return room

    def _open(self, name: str) -> int:
        """Wait for a file and open it; looks often at first, and pauses longer and longer."""
        begun = looked = time.perf_counter()
        while True:
            try:
                return os.open(name, os.O_RDONLY, dir_fd=self.fd)
            except FileNotFoundError:
                now = time.perf_counter()
            if now - looked > LOOK_S:
                looked = now
                self.require()
            links.pause(now - begun)

    def _check(self, name: str, nbytes: int, buffer: np.ndarray, missing: int) -> None:
        """Raise MessageError unless a file holds a header and the array that it announces."""
        try:
            announced = read_kind(HEAD.unpack_from(buffer.data)[1]).nbytes if nbytes else -1
        except (TypeError, ValueError):
            announced = -1
        if missing or nbytes != HEADER_BYTES + announced:
            raise MessageError(f"{self.path / name}: is no message: {nbytes} bytes")

    def has(self, name: str) -> bool:
        """Whether there is such a message."""
        return os.access(name, os.F_OK, dir_fd=self.fd)

    def require(self) -> None:
        """Raise RunError if the run has been ended: its owner or `end` has removed the lock."""
        if not self.has(LOCK):
            raise RunError(f"{self.path}: another rank has ended")

    def end(self) -> None:
        """Have all ranks that wait for a message end."""
        with suppress(FileNotFoundError):
            os.unlink(LOCK, dir_fd=self.fd)


class Link(links.Link):
    """One edge of this rank's block: a message of it has the name of its receiver and number."""

    def __init__(
        self,
        folder: Folder,
        run: int,
        own_rank: int,
        edge: Edge,
        peer: Peer,
        rank: int,
        kinds: tuple[int, int] = (0, 0),
    ) -> None:
        super().__init__(own_rank, edge, peer, rank, kinds)
        self.folder = folder
        self.to, self.mine = f"{run}-{rank}-{self.send_tag}", f"{run}-{own_rank}-{self.receive_tag}"
        self.sent = self.received = 0
        # Two buffers: the block may use the message in one until it collects the next.
        self.buffers = [np.empty(HEADER_BYTES, np.uint8) for _ in range(2)]

    def send(self, step: int, code: int, array: np.ndarray) -> None:
        """Write an array to a file."""
        buffer = enveloped(array)
        self._write_head(buffer, step, code, array)
        self.folder.put(f"{self.to}-{self.sent}", buffer)
        self.sent += 1

    def ready(self) -> bool:
        """Whether the file of the next message is there."""
        return self.folder.has(f"{self.mine}-{self.received}")

    def arrived(self) -> np.ndarray:
        """Wait for the next file; returns its contents."""
        self.buffers.reverse()
        self.buffers[0] = self.folder.take(f"{self.mine}-{self.received}", self.buffers[0])
        self.received += 1
        return self.buffers[0]

    def _refuse(self, *header: int) -> None:
        """Raise MessageError, which names the file."""
        try:
            super()._refuse(*header)
        except MessageError as error:
            name = f"{self.mine}-{self.received - 1}"
            raise MessageError(f"{self.folder.path / name}: {error}") from None

    def _body(self, nbytes: int, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """The message that has arrived."""
        return np.ndarray(shape, dtype, self.buffers[0], HEADER_BYTES)

    def _kept(self, message: Any) -> Any:
        """An early message, whose buffer is replaced so that no later one overwrites it."""
        self.buffers[0] = np.empty(HEADER_BYTES, np.uint8)
        return message

    def close(self) -> None:
        """Raise MessageError if a message was never collected."""
        self.advance()
        if self.folder.has(f"{self.mine}-{self.received}"):
            raise MessageError(f"edge {self.edge}: a message that was never collected")


class SharedLink(gpu_ipc.SharedLink, Link):
    """An edge to a rank on the same GPU."""
