"""Checkpoint files: written in place by all PEs, and read back with all their bytes verified.

Layout: ``state/<name>`` and ``state/<name>.id`` as in the files of ``run --output``, but rows in
the order of their ids; ``more/<name>``: further pieces; ``totals/<name>``: what blocks add up. The
attribute ``checkpoint`` is JSON: the problem, the step, and a hash of every dataset; the attribute
``sha256`` is that of this text. So a bit that changes anywhere is found.

A file has a temporary name until it is whole and on the disk. Then the previous one gets another
name and the new one takes its place, so that at every moment a whole checkpoint is there.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import typing
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from miniapps import apps
from miniapps.contract import REDUCTIONS, Measure, Piece
from miniapps.drivers.shares import Extent, Share, hashed
from miniapps.hdf5 import Unreadable, damage, require_own_data, require_readable
from miniapps.json_input import parsed_object
from miniapps.kernels.state_hash import WORDS, digest
from miniapps.parameters import InputError, require, require_permission, shown
from miniapps.quantities import Quantity, describe_state
from miniapps.saved import NOBODY, SavedState, Stored
from miniapps.workbench.run.disk import hdf5_file, told
from miniapps.workbench.run.launched import FOLDER
from miniapps.workbench.run.replaced import aside
from miniapps.workbench.run.versions import versions

SCHEMA = 1
MOST_KEPT = 1000
STATE, MORE, TOTALS = "state", "more", "totals"
DESCRIPTION = (
    "Checkpoint of a run of one of the parallel mini-apps; `miniapps resume` continues the run. "
    "The attribute `checkpoint` of this group is JSON text: problem, step, and hashes of all "
    "datasets."
)


def kept(path: Path, number: int) -> Path:
    """The name of an earlier checkpoint: ``FILE.1.h5`` is the one before ``FILE.h5``."""
    return path.with_name(f"{path.stem}.{number}{path.suffix}") if number else path


def offers_checkpoints(make: Any) -> bool:
    """Whether the blocks of an app can be resumed; for a function, those that it returns."""
    kinds = [make]
    if not inspect.isclass(make):
        found = typing.get_type_hints(make).get("return", Any)
        kinds = [*(typing.get_args(found) or (found,))]
    known = [kind for kind in kinds if inspect.isclass(kind)]  # else a run says it at its start
    return all(hasattr(kind, "checkpoint") and hasattr(kind, "resume") for kind in known)


def fixed_parameters(app: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Those parameters of a problem that fix the result, as JSON has them, with whole paths."""
    kind = apps.load(app).Problem
    plain = kind.fixing(parameters)
    for option in fields(kind):
        if option.metadata["parse"] is Path and plain.get(option.name) is not None:
            plain[option.name] = str(Path(plain[option.name]).resolve())
    found: dict[str, Any] = json.loads(json.dumps(plain))
    return found


# Writing -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Hdf5Checkpoints:
    """Writes checkpoints of a run; a `drivers.shares.CheckpointWriter`.

    ``path``: as --checkpoint, absolute; ``keep``: how many are kept; ``head``: what each says of
    the run.
    """

    path: Path
    every: int
    keep: int
    head: Mapping[str, Any]
    quantities: Mapping[str, Quantity] = field(default_factory=dict)  # of the app's problem

    def parts(self) -> list[Path]:
        """The temporary files, whether they exist or not."""
        return [aside(self.path), aside(kept(self.path, 1))]

    def clear(self) -> None:
        """Remove the temporary files of a failed run."""
        for part in self.parts():
            part.unlink(missing_ok=True)

    def wants(self, before: int, step: int) -> bool:
        """Whether the round from step ``before`` to ``step`` crossed a multiple of ``every``."""
        return self.every > 0 and before // self.every < step // self.every

    def create(self, step: int, finished: bool, share: Share) -> None:
        """Create the file, with room for all that ``share`` lists; its bytes are on the disk."""
        head = dict(self.head) | {
            "schema": SCHEMA,
            "file": self.path.name,
            "step": step,
            "finished": finished,
            "state_hash": digest(share.state_words()),
            "arrays": {
                name: {
                    "dtype": extent.dtype,
                    "shape": list(extent.whole),
                    "hash": digest(share.words[name]),
                    **({"first_id": extent.ids[0]} if extent.ids else {}),
                }
                for name, extent in sorted(share.extents.items())
            },
            "totals": {name: summary_of(total) for name, total in sorted(share.totals.items())},
            "versions": versions(),
        }
        with self._told():
            with hdf5_file(aside(self.path), "w") as file:
                for name, extent in share.extents.items():
                    group = STATE if name in share.of_state else MORE
                    _allocate(file.require_group(group), name, extent)
                    if group == STATE:
                        origin = None if extent.ids else (0,) * len(extent.shape)
                        like = Piece(name, np.empty(0), origin, ())
                        describe_state(file[STATE], like, self.quantities.get(name))
                totals = file.create_group(TOTALS)
                for name, total in share.totals.items():
                    totals[name] = total.value
                text = json.dumps(head)
                file.attrs["checkpoint"] = text
                file.attrs["sha256"] = hashlib.sha256(text.encode()).hexdigest()
                file.attrs["description"] = DESCRIPTION
            with open(aside(self.path), "r+b") as disk:  # so that no later write finds a full disk
                os.posix_fallocate(disk.fileno(), 0, os.fstat(disk.fileno()).st_size)
            for name, extent in share.extents.items():
                if extent.ids and extent.span != extent.rows:
                    self._arrays()[f"{name}.id"].mapped(aside(self.path), "r+")[:] = NOBODY

    def write(self, pieces: Iterable[Piece]) -> None:
        """Write the pieces of some blocks in place."""
        with self._told():
            arrays = self._arrays()
            with open(aside(self.path), "r+b", buffering=0) as disk:
                for piece in pieces:
                    stored = arrays[piece.name]
                    if piece.ids is None:
                        self._write_cells(disk, stored, piece)
                        continue
                    assert stored.first is not None
                    rows = piece.ids - stored.first
                    stored.mapped(aside(self.path), "r+")[rows] = piece.values
                    arrays[f"{piece.name}.id"].mapped(aside(self.path), "r+")[rows] = piece.ids

    def _write_cells(self, disk: BinaryIO, stored: Stored, piece: Piece) -> None:
        """Write the cells of a block in place; if they are one run of bytes, without mapping."""
        values, origin = piece.values, piece.origin
        assert origin is not None
        if values.shape[1:] != stored.shape[1:] or not values.flags.c_contiguous:
            ends = zip(origin, values.shape, strict=True)
            into = stored.mapped(aside(self.path), "r+")
            into[tuple(slice(low, low + n) for low, n in ends)] = values
            return
        disk.seek(stored.offset + origin[0] * (stored.nbytes // max(1, stored.shape[0])))
        left = values.reshape(-1).view(np.uint8).data
        while left:
            left = left[disk.write(left) :]

    def flush(self) -> None:
        """Bring to the disk what this PE has written."""
        with self._told():
            _synchronize(aside(self.path))

    def finish(self) -> None:
        """Rename the earlier files, and this one; the renaming is on the disk, too."""
        with self._told():
            for number in range(self.keep - 2, 0, -1):
                if kept(self.path, number).exists():
                    os.replace(kept(self.path, number), kept(self.path, number + 1))
            if self.keep > 1 and self.path.exists():
                _keep_too(self.path, kept(self.path, 1))
            os.replace(aside(self.path), self.path)
            _synchronize(self.path.parent)

    def _arrays(self) -> dict[str, Stored]:
        """Where the arrays of the new file lie."""
        import h5py

        with h5py.File(aside(self.path)) as file:
            return arrays_of(file, json.loads(file.attrs["checkpoint"]))

    def _told(self) -> AbstractContextManager[None]:
        return told("--checkpoint", self.path)


def summary_of(total: Measure) -> dict[str, str]:
    """The operation of a total, and the hash of its bytes."""
    value = np.asarray(total.value)
    found = hashlib.sha256(f"{value.dtype.str} {value.shape}".encode() + value.tobytes())
    return {"op": total.op, "sha256": found.hexdigest()}


def _allocate(group: Any, name: str, extent: Extent) -> None:
    """Create the datasets of a piece, with their bytes in the file but not written."""
    import h5py

    how = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    how.set_layout(h5py.h5d.CONTIGUOUS)
    how.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    how.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    group.create_dataset(name, extent.whole, extent.dtype, dcpl=how.copy())
    if extent.ids is not None:
        group.create_dataset(f"{name}.id", extent.whole[:1], "i8", dcpl=how)


def _synchronize(path: Path) -> None:
    """Bring a file or a folder to the disk."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _keep_too(path: Path, also: Path) -> None:
    """Give a file another name, too; on a file system without hard links, instead."""
    spare = aside(also)
    spare.unlink(missing_ok=True)
    try:
        os.link(path, spare)
    except OSError:
        os.replace(path, also)
    else:
        os.replace(spare, also)


# Reading -----------------------------------------------------------------------------------------


def arrays_of(file: Any, head: Mapping[str, Any]) -> dict[str, Stored]:
    """Where the arrays of a checkpoint lie. Raises Unreadable if one is not as they are written."""
    found = {}
    for group in (STATE, MORE):
        for name, data in file.get(group, {}).items():
            offset = data.id.get_offset()
            if data.size and offset is None or data.compression or not data.shape:
                raise Unreadable(f"{data.name} is not stored as one run of bytes")
            first = head["arrays"].get(name, {}).get("first_id")
            found[name] = Stored(data.dtype.str, data.shape, offset or 0, first)
    for name, stated in head["arrays"].items():
        shape, ids = tuple(stated["shape"]), "first_id" in stated
        due = {name: (stated["dtype"], shape)} | ({f"{name}.id": ("<i8", shape[:1])} if ids else {})
        for part, like in due.items():
            if part not in found or found[part][:2] != like:
                raise Unreadable(f"is damaged: {part} is missing, or of another type or shape")
    return found


@dataclass(frozen=True)
class Resumed:
    """A checkpoint that has been read: what it says of its run, and where its arrays are."""

    option: str
    path: Path
    head: Mapping[str, Any]
    state: SavedState

    def past(self) -> list[dict[str, Any]]:
        """The checkpoints that the state has come from, the last of them this one."""
        this = {"step": self.state.step, "state_hash": self.state.state_hash}
        return [*self.head["resumed"], this]

    def verify(self) -> None:
        """Raise InputError unless every dataset has the bytes that were written."""
        for name in self.state.names():
            words, stray = np.zeros(WORDS, np.uint64), 0
            for unused, piece in self.state.pieces(name):
                words += hashed([piece])
                stray += unused
            same = digest(words) == self.head["arrays"][name]["hash"] and not stray
            require(same, self.option, self.path, f"is damaged: {name} has another hash")
        for name, total in self.state.totals.items():
            same = summary_of(total) == self.head["totals"][name]
            require(same, self.option, self.path, f"is damaged: total {name} has another hash")

    def check(self, spec: Any) -> None:
        """Raise InputError unless a run, a `RunSpec`, continues that of the checkpoint."""
        head, made, of_file = self.head, self.state.step, self.head["app"]
        require(spec.app == of_file, self.option, self.path, f"is of {of_file}, not {spec.app}")
        asked = fixed_parameters(spec.app, spec.problem.parameters())
        options = {field.name: field.metadata["option"] for field in fields(spec.problem)}
        for name, value in head["problem"].items():
            same = asked.get(name) == value
            allowed = f"would change the result: {self.path.name} is of {_said(value)}"
            require(same, options.get(name, name), _said(asked.get(name)), allowed)
        kept_steps = f"would change the result: {self.path.name} is of {head['warmup']}"
        require(spec.warmup == head["warmup"], "--warmup", spec.warmup, kept_steps)
        ended = f"is of a run that has met its tolerance at step {made}: nothing is left to do"
        require(not head["finished"], self.option, self.path, ended)
        left = spec.warmup + spec.steps > made
        warm = f" after {spec.warmup} of warm-up" if spec.warmup else ""
        more = f"{self.path.name} has made {made - spec.warmup}{warm}: must be more"
        require(left, "--steps", spec.steps, more)


def _said(value: Any) -> str:
    """A value of a parameter, as JSON has it, in words of the command line."""
    return shown(tuple(value)) or "none" if isinstance(value, list) else shown(value)


def is_checkpoint(file: Any) -> bool:
    """Whether an open HDF5 file says that it is a checkpoint."""
    return "checkpoint" in file.attrs


def read_checkpoint(option: str, path: Path) -> Resumed:
    """Read what a checkpoint says, but not its arrays. Raises InputError for any other file."""
    import h5py

    missing = "is not a file" if os.path.exists(path) else "there is no such file"
    require(os.path.isfile(path), option, path, missing)
    require_permission(option, path)
    require(path.stat().st_size > 0, option, path, "is empty")
    require(h5py.is_hdf5(path), option, path, "is no HDF5 file, or was not written to its end")
    try:
        if FOLDER not in os.environ:  # else the launching process has done it
            require_readable(path, lambda: _contents(option, path))
        head, arrays, totals = _contents(option, path)
    except InputError:
        raise
    except Unreadable as error:
        raise InputError(option, path, str(error)) from None
    except Exception as error:
        raise InputError(option, path, f"is damaged: {damage(error)}") from None
    size = path.stat().st_size
    whole = all(stored.offset + stored.nbytes <= size for stored in arrays.values())
    require(whole, option, path, "is damaged: its end is missing")
    names = {name for name in arrays if not name.endswith(".id")}
    alike = names == set(head["arrays"]) and totals.keys() == head["totals"].keys()
    alike = alike and all(total.op in REDUCTIONS for total in totals.values())
    require(alike, option, path, "is damaged: datasets are missing or added")
    state = SavedState(path, head["step"], head["state_hash"], arrays, totals)
    return Resumed(option, path, head, state)


def _contents(
    option: str, path: Path
) -> tuple[dict[str, Any], dict[str, Stored], dict[str, Measure]]:
    """What a checkpoint says of its run, where its arrays lie, and its totals."""
    import h5py

    with h5py.File(path) as file:
        require_own_data(file)
        head = _head(option, path, file)
        totals = {
            name: Measure(head["totals"][name]["op"], data[()])
            for name, data in file[TOTALS].items()
        }
        return head, arrays_of(file, head), totals


def _head(option: str, path: Path, file: Any) -> dict[str, Any]:
    """What a checkpoint says of its run."""
    text = file.attrs.get("checkpoint")
    other = "is the --output of a run, which lacks what a run needs to continue: use --checkpoint"
    require(text is not None or "record" not in file.attrs, option, path, other)
    require(text is not None, option, path, "is no checkpoint")
    head = parsed_object(text)
    newer = f"is of schema {head.get('schema')}; this version reads {SCHEMA}: use a newer one"
    require(head.get("schema") == SCHEMA, option, path, newer)
    same = hashlib.sha256(text.encode()).hexdigest() == file.attrs.get("sha256")
    require(same, option, path, "is damaged: attribute checkpoint has another hash")
    return head
