"""Toolkits of the stub driver that handle messages between processes of one GPU wrongly.

`MINIAPPS_CUDA_TOOLKIT=gpu_hasty:Hasty` chooses one; `tests/test_gpu_stub.py` shows that it is seen.
"""

from __future__ import annotations

from time import sleep
from typing import Any

from stub import Stub

from miniapps.devices.cuda import driver
from miniapps.drivers.gpu_ipc import Loans
from miniapps.drivers.mpi import around

LATE_S = 0.3


class Slow(Stub):
    """Rank 1 copies late, which changes nothing."""

    def __init__(self) -> None:
        super().__init__()
        launcher, borrow = around(), Loans.borrow

        def late(self: Loans, loan: Any) -> Any:
            if launcher is not None and launcher.rank == 1:
                sleep(LATE_S)
            return borrow(self, loan)

        Loans.borrow = late  # type: ignore[method-assign]


class Hasty(Slow):
    """And the next messages are packed where those are that may not be copied yet."""

    def __init__(self) -> None:
        super().__init__()
        lend = Loans.lend

        def hasty(self: Loans, message: Any) -> Any:
            message.buffer.spare.arrays[:] = [message.buffer.flat]
            return lend(self, message)

        Loans.lend = hasty  # type: ignore[method-assign]


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
