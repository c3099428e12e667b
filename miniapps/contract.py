"""The contract between a block of a problem and the driver that moves its messages.

A problem is cut into blocks. The parallel life of a block stands in its ``step``: a generator that
yields what it needs from other blocks and is resumed by the driver with the answer. No block knows
a communicator, no driver knows physics. `docs/architecture.md` states the rules; here they are in
code.

A block offers

``index``      its place in the grid of blocks, a tuple of ints
``kind``       which family of blocks it belongs to; most problems have one, ``"block"``
``neighbors``  ``{edge: Peer}``: who is reached by each of its edges
``step(count)``  a generator that advances the block ``count`` time steps (`BaseProblem.stride` says
               how many it may take at once) and returns True where the problem is finished
``state()``    the canonical state on the host, a list of `Piece`, for hashing, output and tests
``measure()``  this block's part of what `validate` judges, ``{name: Measure}``
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from devices.messages import DeviceMessage, Envelope

Edge = tuple[int, ...]
Index = tuple[int, ...]
Place = tuple[str, Index]  # kind and index: which block

REDUCTIONS = {"sum": np.add, "min": np.minimum, "max": np.maximum}


class MessageError(RuntimeError):
    """A message that the contract does not allow: wrong step, phase, sender, edge or layout."""


class StepError(RuntimeError):
    """A step that a problem cannot make: the message says which one, what for, and where."""


class Peer(NamedTuple):
    """The other end of an edge: which block, and the edge by which that block sees this one."""

    kind: str
    block: Index
    edge: Edge

    @property
    def place(self) -> Place:
        """Which block it is."""
        return self[:2]


@dataclass(frozen=True, slots=True)
class Post:
    """Send ``messages[edge]`` along each edge. The arrays are the driver's from then on.

    One array may go along several edges; a driver then sends it to each PE once, and those who
    receive it share it and only read it. With ``combine`` the messages are integers, one for every
    edge of the block, and the receiver wants no more than the sum of all that it is sent: a driver
    may add them up on the way.
    """

    phase: str
    messages: Mapping[Edge, np.ndarray]
    combine: bool = False


@dataclass(frozen=True, slots=True)
class Collect:
    """Wait for this step's messages of a phase; answered with ``{edge: array}``.

    ``edges`` names the receiver's own edges. The arrays may be read and, unless they came to others
    too, written until the block's next Collect on the same edges. With ``combine`` the answer is
    one array, the sum of what was posted so.
    """

    phase: str
    edges: tuple[Edge, ...]
    combine: bool = False


@dataclass(frozen=True, slots=True)
class AllReduce:
    """Combine a value (number or array) over all blocks; each is answered with the result.

    ``min`` and ``max`` give the same bits on every decomposition; so does a ``sum`` of integers,
    but not one of floats, whose order of additions follows the decomposition.
    """

    value: Any
    op: str

    def __post_init__(self) -> None:
        if self.op not in REDUCTIONS:
            raise ValueError(f"AllReduce op {self.op!r}: must be one of {', '.join(REDUCTIONS)}")


@dataclass(frozen=True, slots=True)
class Mark:
    """What the block did since its last request was computing, though a Post may come next.

    It asks for nothing and no driver sees it: whoever measures the block goes on with it at once.
    Without it all that a block does before a Post counts as packing.
    """


@dataclass(frozen=True, slots=True)
class Pause:
    """What comes next waits for the device: other blocks of the process may go first.

    So what they ask of the device overlaps with what this one waits for. What was done before it
    was computing, as before a Mark. On the CPU, where nothing is waited for, no driver sees it.
    """


class Exchange:
    """Post, then Collect on the same edges: ``halo = yield from Exchange("halo", messages)``."""

    def __init__(self, phase: str, messages: Mapping[Edge, np.ndarray]) -> None:
        self.phase, self.messages = phase, messages

    def __iter__(self) -> Generator[Any, Any, dict[Edge, np.ndarray]]:
        yield Post(self.phase, self.messages)
        return (yield Collect(self.phase, tuple(self.messages)))


class Piece(NamedTuple):
    """One named part of the global state, held by one block, on the host.

    Grid data: ``values`` covers the cells ``origin + (0..values.shape)`` of a global array of
    ``shape``. Particle data: ``origin`` is None, ``ids`` (int64) numbers the rows of ``values`` and
    ``shape`` is the global number of rows where it is fixed, else ().
    """

    name: str
    values: np.ndarray
    origin: Index | None
    shape: tuple[int, ...]
    ids: np.ndarray | None = None


class Measure(NamedTuple):
    """A block's contribution to a check: a number or array, and the reduction that joins them."""

    op: str
    value: Any


class Check(NamedTuple):
    """One verdict of a run: it holds where ``value <= limit`` (so never for NaN)."""

    name: str
    value: float
    limit: float

    @property
    def ok(self) -> bool:
        """Whether the value is within the limit."""
        return bool(self.value <= self.limit)


def checked_message(edge: Edge, array: Any) -> Any:
    """Return what travels for a yielded array, and take the array away from the block.

    A message that lies on a device is one already; it is sealed, so that others know when it is
    there.

    Raises MessageError for anything but a C-contiguous ndarray of numbers (Charm4Py 1.1 silently
    corrupts others, and knows no structured types) that owns its memory or was `packed`: a view of
    the block's own field would still change with it. The block's name for the array becomes
    read-only, so a block that writes to what it has given away fails at once instead of racing with
    the transfer.
    """
    if not isinstance(array, np.ndarray):
        if isinstance(array, DeviceMessage):
            array.seal()
            return array
        raise MessageError(f"message on edge {edge}: must be a C-contiguous numpy array")
    flags = array.flags
    if not flags.c_contiguous:
        raise MessageError(f"message on edge {edge}: must be a C-contiguous numpy array")
    if array.dtype.kind not in "biufc":
        raise MessageError(f"message on edge {edge}: must hold numbers, not {array.dtype}")
    if array.base is not None and type(array.base) is not Envelope:
        raise MessageError(f"message on edge {edge}: is a view of other memory; use packed()")
    travelling = array.view()
    flags.writeable = False
    return travelling


def checked_messages(request: Post) -> dict[Edge, Any]:
    """What travels along each edge; an array that goes along several is the same one for all.

    Raises MessageError as `checked_message` does, and where floats are to be combined: their sum
    would depend on the order of additions.
    """
    result: dict[Edge, Any] = {}
    travelling: dict[int, Any] = {}
    for edge, array in request.messages.items():
        if id(array) in travelling:
            if isinstance(array, np.ndarray):
                travelling[id(array)].flags.writeable = False
        elif request.combine and array.dtype.kind != "i":
            raise MessageError(f"phase {request.phase!r}: only integers can be combined")
        else:
            travelling[id(array)] = checked_message(edge, array)
        result[edge] = travelling[id(array)]
    return result


def combine(measures: Mapping[str, Measure], more: Mapping[str, Measure]) -> dict[str, Measure]:
    """Join the measures of two groups of blocks, name by name."""
    joined = dict(measures)
    for name, (op, value) in more.items():
        joined[name] = (
            Measure(op, REDUCTIONS[op](joined[name].value, value))
            if name in joined
            else Measure(op, value)
        )
    return joined
