"""Toolkits of the stub driver that handle messages between processes of one GPU wrongly.

`MINIAPPS_CUDA_TOOLKIT=gpu_hasty:Hasty` chooses one; `tests/test_gpu_stub.py` shows that it is seen.
"""

from __future__ import annotations

from importlib import import_module
from time import sleep
from typing import Any

import races
from stub import Stub

from miniapps.devices.cuda import driver
from miniapps.devices.cuda.buffers import MessageView
from miniapps.drivers import charm, mpi
from miniapps.drivers.gpu_ipc import Ledger, Loan, Loans

LATE_S = 0.3


def is_second() -> bool:
    """Whether this process is rank 1 or PE 1."""
    launcher = mpi.around()
    if charm.around() is not None:
        return import_module("miniapps.drivers.charm.pe").charm.myPe() == 1
    return launcher is not None and launcher.rank == 1


def copy_late() -> None:
    """Let rank or PE 1 copy messages late."""
    fetched = Loan.fetched

    def late(self: Loan, *what: Any) -> Any:
        if is_second():
            sleep(LATE_S)
        return fetched(self, *what)

    Loan.fetched = late  # type: ignore[method-assign]


class Slow(Stub):
    """Rank or PE 1 copies late, which changes nothing."""

    def __init__(self) -> None:
        super().__init__()
        copy_late()


class Hasty(Slow):
    """And the next messages are packed where those are that may not be copied yet."""

    def __init__(self) -> None:
        super().__init__()
        for loans in (Loans, Ledger):
            loans.lend = hasty(loans.lend)  # type: ignore[attr-defined]


def hasty(lend: Any) -> Any:
    """A `lend` that lets the memory of a message be used again at once."""

    def lent(self: Any, message: Any) -> Any:
        message.buffer.spare.arrays[:] = [message.buffer.flat]
        return lend(self, message)

    return lent


class Forgetful(races.Checked):
    """PEs do not keep messages that they lend; the checker poisons what nobody keeps.

    PE 1 copies late: on a busy machine all copies may come before the poison.
    """

    moves = False  # whether they are those with the arrays of blocks that migrate

    def __init__(self) -> None:
        super().__init__()
        copy_late()
        lend, moves = Ledger.lend, self.moves

        def forgotten(self: Ledger, message: Any) -> bytes | None:
            loan = lend(self, message)
            if (message.edge is None) is moves:
                self.lent.popitem()
            return loan

        Ledger.lend = forgotten  # type: ignore[method-assign]
        Ledger.give_back = lambda self, numbers: None  # type: ignore[method-assign]


class ForgetfulOfBlocks(Forgetful):
    """The same with blocks that migrate."""

    moves = True


class Careless(races.Checked):
    """PEs give back what they may still copy."""

    def __init__(self) -> None:
        super().__init__()
        MessageView.is_written = lambda self: True  # type: ignore[method-assign]


class Unwritten(races.Checked):
    """PEs lend messages that kernels may still write."""

    def __init__(self) -> None:
        super().__init__()

        def place(self: MessageView) -> bytes | None:
            return self.buffer.stream.toolkit.share().place(self.array)

        MessageView.place = place  # type: ignore[method-assign]


class Alone(Stub):
    """No other process can open the memory of messages."""

    def share(self) -> Any:
        """As where processes are isolated from each other."""
        exports = super().share()
        exports.driver = Deaf()
        return exports


class Deaf:
    """The driver, where no handle can be opened."""

    def __getattr__(self, name: str) -> Any:
        return getattr(driver, name)

    def opened(self, handle: bytes) -> int:
        """Refuse it."""
        raise driver.DriverError("CUDA_ERROR_INVALID_VALUE")
