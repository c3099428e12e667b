"""Reads the loads that the runtime measured, as its load balancers see them, or replaces them.

The runtime adds up, per chare, the wall-clock time of its entry methods since the last
load-balancing step. Charm4Py's interface neither gives nor takes these loads, so they are read from
the runtime's own table, by the functions from which TreeLB gets them, and written there by the one
behind ``CkMigratable::setObjTime``. The layouts are those of the library in the wheels of Charm4Py
1.1.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import charm4py
import numpy as np

Entry = tuple[int, int]  # a chare in the table: the group that places its array, its number there

VERSION = "1.1"  # of Charm4Py
TABLE_AT = 0x240  # of the pointer to the table of loads in the runtime's LBManager, bytes
PLACED_BY = 2  # an array's group has this number less than the array
OBJECT = np.dtype(  # LDObjData: a chare in the table; it begins with its LDObjHandle
    {
        "names": ["group", "number", "wall_s"],
        "formats": [np.int32, np.uint64, np.float64],
        "offsets": [0, 8, 24],
        "itemsize": 40,
    }
)


class Loads:
    """The loads of the chares on a PE."""

    @classmethod
    def of(cls, arrays: Mapping[str, Any], here: Mapping[str, Mapping[Any, Any]]) -> Loads | None:
        """Those of a run; None for another Charm4Py, or if the table has other chares than the run.

        ``arrays`` and ``here``: proxies, and chares in the order of their creation, none of which
        has migrated yet, by kind. Each gets its `Entry`, which it keeps when it migrates.
        """
        if version("charm4py") != VERSION:
            return None
        table = _table()
        for kind, array in arrays.items():
            group = int(array.aid) - PLACED_BY
            numbers = np.sort(table["number"][table["group"] == group]).tolist()
            if len(numbers) != len(here[kind]):
                return None
            for number, chare in zip(numbers, here[kind].values(), strict=True):
                chare.entry = group, number
        return cls()

    def read(self, chares: Iterable[Any]) -> list[tuple[int, float]]:
        """The number of each chare of this PE and its load, s, in the runtime's order."""
        table = _table()
        loads = table["wall_s"].tolist()
        return [(number, loads[row]) for row, number in _rows(table, chares)]

    def write(self, chares: Iterable[Any], loads: Mapping[int, float]) -> None:
        """Replace the loads of the chares of this PE, s, by their numbers; 0 for one without."""
        table, library = _table(), _library()
        for row, number in _rows(table, chares):
            handle = ctypes.c_void_p(table.ctypes.data + row * OBJECT.itemsize)
            load = ctypes.c_double(loads.get(number, 0.0))
            library._ZN10LBDatabase10EstObjLoadERK11LDObjHandled(_database(), handle, load)


def _rows(table: np.ndarray, chares: Iterable[Any]) -> list[tuple[int, int]]:
    """The rows of chares in a table, in its order, and their numbers."""
    numbers = {chare.entry: chare.number for chare in chares}
    entries = enumerate(zip(table["group"].tolist(), table["number"].tolist(), strict=True))
    return [(row, numbers[entry]) for row, entry in entries if entry in numbers]


def _table() -> np.ndarray:
    """All chares of this PE that can migrate, as `OBJECT`."""
    library, database = _library(), _database()
    found = np.zeros(library._ZN10LBDatabase12GetObjDataSzEv(database), OBJECT)
    library._ZN10LBDatabase10GetObjDataEP9LDObjData(database, ctypes.c_void_p(found.ctypes.data))
    return found


def _database() -> ctypes.c_void_p:
    """The address of this PE's table in the runtime."""
    library = _library()
    manager = library.CkLocalBranch(ctypes.c_int.in_dll(library, "_lbmgr"))
    return ctypes.c_void_p.from_address(manager + TABLE_AT)


@cache
def _library() -> Any:
    """The runtime's library, which Charm4Py has loaded."""
    library = ctypes.CDLL(str(Path(charm4py.__file__).parent / ".libs" / "libcharm.so"))
    library.CkLocalBranch.restype = ctypes.c_void_p
    return library
