"""Data of other files of the machine, which an HDF5 file can name, are never read."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from support import ROOT, refused
from test_leanmd_inputs import write_h5md

from miniapps.leanmd import plain_input
from miniapps.leanmd.inputs import opened
from miniapps.parameters import InputError
from miniapps.workbench.show.saved import SavedRun

OUTPUT = ROOT / "tests/data/schema-1.h5"
SECRET = "secret"  # the name of the other file


def external_storage(file: Any, name: str) -> None:
    """Its values are bytes of any file."""
    kind, shape = file[name].dtype, file[name].shape
    size = kind.itemsize * int(np.prod(shape))
    del file[name]
    file.create_dataset(name, shape, kind, external=[(SECRET, 0, size)])


def external_link(file: Any, name: str) -> None:
    """It is an object of another HDF5 file."""
    del file[name]
    file[name] = h5py.ExternalLink(SECRET, name)


def virtual(file: Any, name: str) -> None:
    """It is made of parts of other HDF5 files."""
    kind, shape = file[name].dtype, file[name].shape
    layout = h5py.VirtualLayout(shape, kind)
    layout[...] = h5py.VirtualSource(SECRET, name, shape, kind)
    del file[name]
    file.create_virtual_dataset(name, layout)


def link_out(file: Any, name: str) -> None:
    """It is what another part of the file holds."""
    file["elsewhere"] = file[name][...]
    del file[name]
    file[name] = h5py.SoftLink("/elsewhere")


def link_to_link(file: Any, name: str) -> None:
    """It is where a link of the same group leads, which is in another file."""
    del file[name]
    file[f"{name}_"] = h5py.ExternalLink(SECRET, name)
    file[name] = h5py.SoftLink(f"/{name}_")


def group_out(file: Any, name: str) -> None:
    """The group that it is in is one of another file."""
    group = name.partition("/")[0]
    del file[group]
    file[group] = h5py.ExternalLink(SECRET, f"/{group}")


WAYS = [external_storage, external_link, virtual, link_out, link_to_link, group_out]
Way = Callable[[Any, str], None]


@pytest.fixture
def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder, in which this process is, with two files: one is read, the other must not be."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["state/u", "timing/wall_s", "frames/step"])
def test_a_run_has_its_own_data(way: Way, name: str, beside: Path) -> None:
    """Catches a figure, a comparison or an export of what another file of the machine holds."""
    for copy in (SECRET, "run.h5"):
        shutil.copy(OUTPUT, beside / copy)
    with h5py.File("run.h5", "r+") as file:
        way(file, name)
    with pytest.raises(InputError, match="only data in the file itself"):
        SavedRun.read(Path("run.h5"))


@pytest.mark.long
def test_every_command_that_reads_a_run_refuses(beside: Path) -> None:
    """Catches a command that opens the file by itself."""
    for copy in (SECRET, "run.h5"):
        shutil.copy(OUTPUT, beside / copy)
    with h5py.File("run.h5", "r+") as file:
        external_link(file, "state/u")
    for words in ("plot run.h5", "plot run.h5 --animation", "plot run.h5 --paraview",
                  "diff run.h5 secret", "diff secret run.h5"):  # fmt: skip
        assert "link to another file" in refused(words.split())
    assert sorted(path.name for path in beside.iterdir()) == ["run.h5", SECRET]


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_an_input_has_its_own_data(way: Way, beside: Path) -> None:
    """Catches atoms that are the bytes of another file, in either of the two readers."""
    for copy in (SECRET, "in.h5"):
        write_h5md(beside / copy)
    assert opened(Path("in.h5")).atoms == 5
    with h5py.File("in.h5", "r+") as file:
        way(file, "particles/all/position/value")
    with pytest.raises(InputError, match="only data in the file itself"):
        opened(Path("in.h5"))
    with pytest.raises(Exception, match="only data in the file itself"):
        plain_input.of_h5md(Path("in.h5"), {2})


def test_links_within_the_particles_are_followed(beside: Path) -> None:
    """Catches a refusal of files of other programs that share steps by links, and a circle."""
    write_h5md(beside / "in.h5")
    with h5py.File("in.h5", "r+") as file:
        group = file["particles/all"]
        group["again"] = group  # a hard link: a circle
        group["positions"] = group["position"]
        del group["id"]
        group["ids"] = [5, 3, 2, 1, 4]
        group["id"] = h5py.SoftLink("ids")
    assert opened(Path("in.h5")).atoms == 5
