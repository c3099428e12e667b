"""The base class of blocks that run kernels."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar, cast

from miniapps import kernels
from miniapps.arrays import arrived
from miniapps.contract import Batch, Requests
from miniapps.decomposition import Layout
from miniapps.devices.backend import Device

Kernels = TypeVar("Kernels")  # the app's Protocol, in `kernels/<app>/interface.py`


class KernelUser(Generic[Kernels]):
    """A block that finds its kernels by the names of its app and its device.

    Modules cannot be pickled, so a block migrates without its kernels.
    ``arrays``: attributes that are arrays on the device; ``rebuilt``: those that do not migrate,
    as they are faster to rebuild.
    """

    arrays: ClassVar[tuple[str, ...]] = ()
    rebuilt: ClassVar[tuple[str, ...]] = ()
    problem: Any
    device: Device
    together: bool  # whether one launch does the work of all blocks of the process

    def __getstate__(self) -> dict[str, Any]:
        """Return what migrates."""
        left = {"kernels", *self.rebuilt}
        state = {name: value for name, value in self.__dict__.items() if name not in left}
        return state | {name: self.device.leaving(state[name]) for name in self.arrays}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the block after a migration, with arrays aligned to cache lines."""
        for name in self.arrays:  # one at a time: one extra copy at most
            state[name] = arrived(state["device"], state.pop(name))
        self.__dict__.update(state)

    @cached_property
    def kernels(self) -> Kernels:
        """The app's kernels for the block's device."""
        return cast(Kernels, kernels.load(self.problem.app, self.device.name))

    def work_together(self, layout: Layout) -> bool:
        """Share a queue with the other blocks of the process, if there are any."""
        return layout.is_shared and self.device.share_queue()

    def at_once(self, kernel: Callable[..., None], *task: Any) -> Requests:
        """Call a kernel function, or for all blocks at once the one with ``_all`` in its name.

        Returns the answer to the block.
        """
        if self.together:
            return (yield Batch(getattr(self.kernels, f"{kernel.__name__}_all"), task))
        return kernel(*task)
