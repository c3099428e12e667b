"""The contract between a block of a problem and the driver that moves its messages.

A problem is cut into blocks. A block describes its part of the run in generators: each yields what
it needs from other blocks and is resumed by the driver with the answer. A block calls no
communicator, and a driver contains no physics. `Block` says what a block offers, the classes below
are the requests that it may yield, and docs/contract.md explains both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np

from miniapps.devices.backend import Device
from miniapps.devices.messages import DeviceMessage, DeviceMessages, Envelope

Edge = tuple[int, ...]
Index = tuple[int, ...]
Place = tuple[str, Index]  # kind and index: which block
# Of a block: yields requests, receives answers; that of a step returns whether the run is finished.
Requests = Generator[Any, Any, Any]
SETUP = -1  # the step number of messages that blocks exchange in their `setup`

REDUCTIONS = {"sum": np.add, "min": np.minimum, "max": np.maximum}
EXACT = "exact"  # of AllReduce only: a sum of floats that is exact, and rounded once
JOIN = "join"  # of measures only: arrays joined along axis 0, in any order


class MessageError(RuntimeError):
    """A message that the contract does not allow: wrong step, phase, sender, edge or layout."""


class StepError(RuntimeError):
    """A time step failed, for example because two atoms are too close. The message says where."""


class CheckpointError(RuntimeError):
    """The blocks state no checkpoint that can be written. The message says why."""


class Peer(NamedTuple):
    """The block at the other end of an edge, and that block's own label of the edge."""

    kind: str
    block: Index
    edge: Edge

    @property
    def place(self) -> Place:
        """Kind and index of the block."""
        return self[:2]


class Post(NamedTuple):
    """Send ``messages[edge]`` along each edge. From then on the arrays belong to the driver.

    An array may be posted along several edges. The driver then sends it to each PE once, and the
    receivers share it and may only read it.
    """

    phase: str
    messages: Mapping[Edge, np.ndarray]


class Collect(NamedTuple):
    """Wait for this step's messages of a phase; the answer is ``{edge: array}``.

    ``edges`` are edges of the receiver. The block may read the arrays until its next Collect on the
    same edges. It may also write to them, unless they were posted along several edges.
    """

    phase: str
    edges: tuple[Edge, ...]


class PostSum(NamedTuple):
    """Send integers along each edge to receivers that need only the sum of their messages.

    ``messages`` holds one array for every edge. The driver may add up arrays in transit, in any
    order, because sums of integers do not depend on it.
    """

    phase: str
    messages: Mapping[Edge, np.ndarray]


class CollectSum(NamedTuple):
    """Wait for this step's `PostSum` messages of a phase; the answer is their sum, one array.

    ``edges`` are the edges of the receiver along which the messages come.
    """

    phase: str
    edges: tuple[Edge, ...]


@dataclass(frozen=True, slots=True)
class AllReduce:
    """Combine a value (number or array) over all blocks; each is answered with the result.

    ``min`` and ``max`` give the same bits on every decomposition; so does a ``sum`` of integers,
    but not one of floats, whose order of additions follows the decomposition. An ``exact`` sum is
    of float64, float32 or accumulators (`kernels.exact_sum`), in one type by all blocks. It is
    exact, so it has no order, and rounded once: that of accumulators (..., WORDS) is float64 (...).
    Of anything else the driver raises TypeError.
    """

    value: Any
    op: str

    def __post_init__(self) -> None:
        if self.op not in (*REDUCTIONS, EXACT):
            known = ", ".join([*REDUCTIONS, EXACT])
            raise ValueError(f"AllReduce op {self.op!r}: must be one of {known}")


class Begin(NamedTuple):
    """Begin an AllReduce that the block will request later in this step, before any other one.

    So the values of blocks can be combined while the block computes. A driver may also wait until
    the block requests ``reduction`` itself, which is answered with the result. Its value must not
    change in between.
    """

    reduction: AllReduce


@dataclass(frozen=True, slots=True)
class Pause:
    """Record the work since the last request as computing, and let other blocks run first.

    The block sends nothing and waits for nothing. Without a Pause all work before a Post is
    recorded as packing. On a GPU the driver resumes other blocks of the process before
    this one, so that the work they launch overlaps with what this one is about to wait for. On the
    CPU there is nothing to wait for, and the block continues at once.
    """


class Batch(NamedTuple):
    """Do work that is cheaper for many blocks at once; the answer is the result of ``task``.

    ``function(tasks)`` takes a list of tasks and returns a list of as many answers, in the same
    order. On a GPU the driver collects the tasks of all blocks of its process and calls each
    function once, when no block can continue without an answer. On the CPU the block is answered at
    once, by ``function([task])[0]``. An answer that is an Exception is raised in the block that
    asked, at its ``yield``. ``weight``: how much of the function's time counts as the block's,
    relative to the other blocks.
    """

    function: Callable[[list[Any]], list[Any]]
    task: Any
    weight: float = 1.0


class Exchange:
    """Post, then Collect on the same edges: ``halo = yield from Exchange("halo", messages)``."""

    def __init__(self, phase: str, messages: Mapping[Edge, np.ndarray]) -> None:
        self.phase, self.messages = phase, messages

    def __iter__(self) -> Generator[Any, Any, dict[Edge, np.ndarray]]:
        yield Post(self.phase, self.messages)
        return (yield Collect(self.phase, tuple(self.messages)))


class Piece(NamedTuple):
    """One block's part of a named array of the global state, in host memory.

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
    """A block's contribution to a check: a number or array, and the reduction over all blocks.

    ``op`` is one of REDUCTIONS, or JOIN for an array whose rows are joined with those of others.
    """

    op: str
    value: Any


class Checkpoint(NamedTuple):
    """What a block needs to go on, beside its `state`, which every checkpoint has.

    ``pieces``: further arrays, cut into blocks as those of the state are. ``totals``: by name,
    numbers and arrays that are combined over all blocks; their op is one of REDUCTIONS.
    """

    pieces: Sequence[Piece] = ()
    totals: Mapping[str, Measure] = MappingProxyType({})


class Saved(Protocol):
    """A checkpoint, as the blocks of a resumed run read it: each takes what it needs."""

    @property
    def step(self) -> int:
        """The number of steps that had been made."""

    def cells(self, name: str, bounds: Sequence[tuple[int, int]]) -> np.ndarray:
        """The cells within ``bounds`` of the array of that name: a copy."""

    def rows(
        self, name: str, low: Sequence[float], high: Sequence[float]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Ids (n,) int64 and values (n, ...) of the rows whose position is in [low, high).

        The position is in the first columns; rows come in the order of their ids.
        """

    def rows_of(self, name: str, ids: np.ndarray) -> np.ndarray:
        """The rows with these ids, in their order."""

    def total(self, name: str) -> Any:
        """A total: a sum goes to the first block of the layout, others get 0; else all get it."""


class Block(Protocol):
    """One block of a problem: the attributes and methods that drivers and checks use.

    Between rounds a block must pickle, because it may move to another process then. A block that
    has something to do before its first step, such as placing particles, is a `BlockWithSetup`.
    """

    @property
    def kind(self) -> str:
        """The family of blocks that it belongs to; most problems have one, ``"block"``."""

    @property
    def index(self) -> Index:
        """Its coordinates in the grid of the blocks of its kind."""

    @property
    def device(self) -> Device:
        """Where its arrays are."""

    @property
    def neighbors(self) -> Mapping[Edge, Peer]:
        """The block at the other end of each of its edges."""

    def step(self, count: int) -> Requests:
        """Advance ``count`` time steps; returns True where the whole problem is finished.

        `BaseProblem.steps_per_round` says how many steps a block may be asked to take at once.
        """

    def state(self) -> list[Piece]:
        """The block's part of the global state, on the host, for hash, output and tests."""

    def measure(self) -> dict[str, Measure]:
        """The block's contribution to what `validate` needs, by name."""


class BlockWithSetup(Block, Protocol):
    """A block that does something before its first step."""

    def setup(self) -> Requests | None:
        """Prepare the first step; may yield requests as `step` does. It is not timed."""


class BlockWithCheckpoint(Block, Protocol):
    """A block whose run can be continued later, by other drivers and on other blocks."""

    def checkpoint(self) -> Checkpoint:
        """What a checkpoint needs beside `state`; called between rounds."""

    def resume(self, saved: Saved) -> Requests | None:
        """Take up the state of a checkpoint; called for every block, instead of its `setup`."""


BlockMaker = Callable[[Any, Any, Index, Device], Block]  # of problem, layout, index and device


class Check(NamedTuple):
    """One check of a run: it holds if ``value <= limit`` (so never for NaN)."""

    name: str
    value: float
    limit: float

    @property
    def ok(self) -> bool:
        """Whether the value is within the limit."""
        return bool(self.value <= self.limit)


def checked_message(edge: Edge, array: Any) -> Any:
    """The message to send for a yielded array, which no longer belongs to the block.

    A message in device memory is returned unchanged; sealing it records when its data are complete.

    Raises MessageError for anything but a C-contiguous ndarray of numbers (Charm4Py 1.1 silently
    corrupts others, and knows no structured types) that owns its memory or was `packed`: a view of
    the block's own field would still change with it. The block's array becomes
    read-only, so a later write raises ValueError instead of racing with the transfer.
    """
    if not isinstance(array, np.ndarray):
        if isinstance(array, DeviceMessage):
            array.seal()
            return array
        raise MessageError(f"message on edge {edge}: must be a C-contiguous numpy array")
    if not array.flags.c_contiguous:
        raise MessageError(f"message on edge {edge}: must be a C-contiguous numpy array")
    if array.dtype.kind not in "biufc":
        raise MessageError(f"message on edge {edge}: must hold numbers, not {array.dtype}")
    if array.base is not None and not isinstance(array.base, Envelope):
        raise MessageError(f"message on edge {edge}: is a view of other memory; use packed()")
    travelling = array.view()
    # By position, as NumPy documents it, `write` takes half the time.
    array.setflags(False)  # type: ignore[call-arg]
    return travelling


def checked_messages(request: Post | PostSum) -> dict[Edge, Any]:
    """The message for each edge; edges that have the same array share one message.

    Raises MessageError as `checked_message` does, and for a PostSum of anything but integers in
    host memory: a sum of floats would depend on the order of additions, and the host adds.
    """
    given: Any = request.messages
    # A dict, the usual case, is spared the test for an abstract class, which takes time.
    if type(given) is not dict and isinstance(given, DeviceMessages):
        messages = given.sealed()
    elif len(set(map(id, given.values()))) < len(given):
        messages = _checked_shared(given)
    else:
        messages = {edge: checked_message(edge, array) for edge, array in given.items()}
    if type(request) is PostSum and not all(map(_can_be_added, messages.values())):
        raise MessageError(f"phase {request.phase!r}: PostSum takes integers only, in host memory")
    return messages


def _can_be_added(message: Any) -> bool:
    """Whether a driver can add up such messages, with the same result in every order."""
    return isinstance(message, np.ndarray) and message.dtype.kind == "i"


def _checked_shared(messages: Mapping[Edge, Any]) -> dict[Edge, Any]:
    """The messages where some edges have the same array, which their receivers may only read."""
    uses = Counter(map(id, messages.values()))
    shared: dict[int, Any] = {}
    for edge, array in messages.items():
        if id(array) not in shared:
            message = shared[id(array)] = checked_message(edge, array)
            if uses[id(array)] > 1 and isinstance(message, np.ndarray):
                message.flags.writeable = False
    return {edge: shared[id(array)] for edge, array in messages.items()}


def combine(*groups: Mapping[str, Measure]) -> dict[str, Measure]:
    """Join the measures of groups of blocks, name by name."""
    ops: dict[str, str] = {}
    values: dict[str, list[Any]] = {}
    for group in groups:
        for name, (op, value) in group.items():
            ops[name] = op
            values.setdefault(name, []).append(value)
    return {name: Measure(op, _reduced(op, values[name])) for name, op in ops.items()}


def _reduced(op: str, values: list[Any]) -> Any:
    """The reduction of values of which there is at least one."""
    if len(values) == 1:
        return values[0]
    return np.concatenate(values) if op == JOIN else reduce(REDUCTIONS[op], values)
