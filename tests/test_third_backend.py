"""A third kind of device: one module in `devices` and files of kernels, added to no other file."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import support
from kernel_interfaces import differences, interface

from miniapps import apps, devices, kernels
from miniapps.devices import backend
from miniapps.kernels import halo, jacobi2d

DEVICE = '''
from miniapps.devices.backend import Backend, Device

DEVICE = "plain"


class Plain(Device):
    """Arrays of NumPy, and kernels in NumPy."""

    name = "plain"


class PlainBackend(Backend):
    """A backend that allocates nothing."""

    name = "plain"

    def device(self):
        """Return a device for one block."""
        return Plain()


def create():
    """The backend of this process."""
    return PlainBackend()
'''
SWEEPS = '''
import numpy as np

WEIGHT = {weight}


def sweep(old, new, x0, x1, y0, y1):
    """Relax the cells [x0, x1) x [y0, y1) once."""
    total = old[x0:x1, y0:y1] + old[x0 - 1 : x1 - 1, y0:y1]
    total = total + old[x0 + 1 : x1 + 1, y0:y1] + old[x0:x1, y0 - 1 : y1 - 1]
    new[x0:x1, y0:y1] = old.dtype.type(WEIGHT) * (total + old[x0:x1, y0 + 1 : y1 + 1])


def sweep_residual(old, new, x0, x1, y0, y1):
    """Do `sweep`; returns the largest change."""
    sweep(old, new, x0, x1, y0, y1)
    return float(np.abs(new[x0:x1, y0:y1] - old[x0:x1, y0:y1]).max(initial=0.0))


def sweep_tile(old, new, sweeps, x0, x1, y0, y1, grow):
    """Relax ``sweeps`` times, a smaller region each time."""
    for more in range(sweeps - 1, -1, -1):
        a, b, c, d = (int(side) * more for side in grow)
        sweep(old, new, x0 - a, x1 + b, y0 - c, y1 + d)
        old, new = new, old
    return sweeps % 2
'''
HALO = "from miniapps.kernels.halo.cpu import Halo as Halo\n"


@pytest.fixture
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Write the files of the device, where Python finds them as if they were in the project."""
    sources = {devices: DEVICE, halo: HALO, jacobi2d: SWEEPS.format(weight=request.param)}
    monkeypatch.setattr(backend, "OPENED", backend.Opened())
    monkeypatch.setattr(kernels, "OPENED", backend.OPENED)
    for package, source in sources.items():
        folder = tmp_path / package.__name__
        folder.mkdir()
        (folder / "plain.py").write_text(source)
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder)])
        monkeypatch.delitem(sys.modules, f"{package.__name__}.plain", raising=False)


@pytest.mark.parametrize(("plain", "right"), [(0.2, True), (0.19, False)], indirect=["plain"])
@pytest.mark.parametrize("tile", [1, 3])
def test_a_third_device_has_the_same_bits(plain: None, right: bool, tile: int) -> None:
    """Catches a device that must be named in a file of the project; 0.19 is a wrong kernel."""
    assert backend.names() == ["cpu", "gpu", "plain"]
    assert kernels.exist("jacobi2d", "plain") and not kernels.exist("pic", "plain")
    problem = apps.load("jacobi2d").Problem(size=(9, 7), initial="noise", time_tile=tile)
    assert differences(interface("jacobi2d"), kernels.load("jacobi2d", "plain")) == []
    assert differences(interface("halo"), kernels.load("halo", "plain")) == []
    usual = support.solve("jacobi2d", problem, (2, 2), 6)
    seen = support.solve("jacobi2d", problem, (2, 2), 6, device="plain")
    assert (seen.state_hash == usual.state_hash) == right
    assert (seen.failed == set()) == right
