"""What `miniapps doctor` finds out about GPUs and MPI; drivers of NVIDIA and MPIs stand in."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import skips
import support

from miniapps import drivers
from miniapps.devices.cuda import driver_info as nvidia
from miniapps.drivers.mpi import gpu_aware as asked
from miniapps.drivers.mpi.gpu_aware import gpu_aware
from miniapps.workbench import doctor
from miniapps.workbench.run import versions

OPENMPI = Path(sys.executable).parents[1] / "openmpi"
OLD = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024\n"
NEW = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (a@b)\n"
SAYS_NO = False, "the MPI library does not say that it can read device memory"


class Driver:
    """A libcuda with some GPUs, as ctypes would call it."""

    def __init__(self, version: int, names: tuple[str, ...], status: int = 0) -> None:
        self.version, self.names, self.status = version, names, status

    def cuDriverGetVersion(self, number) -> int:
        number._obj.value = self.version
        return 0

    def cuInit(self, flags: int) -> int:
        return self.status

    def cuDeviceGetCount(self, count) -> int:
        count._obj.value = len(self.names)
        return 0

    def cuDeviceGet(self, device, number: int) -> int:
        device._obj.value = number
        return 0

    def cuDeviceGetName(self, name, room: int, device) -> int:
        name.value = self.names[device.value].encode()
        return 0

    def cuDeviceTotalMem_v2(self, memory, device) -> int:
        memory._obj.value = (device.value + 1) * 2**37
        return 0


class Comm:
    """A communicator whose info names some kinds of memory."""

    def __init__(self, kinds: str | None) -> None:
        self.kinds = kinds

    def Get_info(self):
        return SimpleNamespace(Get={asked.KINDS: self.kinds}.get)


def library(answer: int | None):
    """An MPI library whose function answers; one without the function if None."""
    return SimpleNamespace(**({} if answer is None else {asked.QUERY: lambda: answer}))


# The driver of NVIDIA ----------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "version"), [(OLD, "535.183.01"), (NEW, "580.65.06"), ("", None)])
def test_version_of_the_driver_is_read(text, version, tmp_path):
    """Catches a reader that knows only one of the two forms of that line, or takes the date."""
    file = tmp_path / "version"
    file.write_text(f"{text}GCC version:  gcc version 12.3.0\n")
    assert nvidia.driver_version(file) == version
    assert nvidia.driver_version(tmp_path / "missing") is None


def test_gpus_are_listed_with_their_memory():
    """Catches a number that was taken for a handle, and a driver that answers but does not work."""
    works = Driver(13000, ("NVIDIA H200", "NVIDIA L4"))
    assert nvidia.gpus(works) == [("NVIDIA H200", 2**37), ("NVIDIA L4", 2**38)]
    assert nvidia.gpus(Driver(13000, ("NVIDIA H200",), status=999)) == []
    assert nvidia.gpus(None) == []
    assert nvidia.cuda_version(works) == (13, 0)
    assert nvidia.cuda_version(Driver(12040, ())) == (12, 4)
    assert nvidia.cuda_version(Driver(0, ())) is nvidia.cuda_version(None) is None


@pytest.mark.parametrize(
    ("driver", "number", "works"),
    [
        (Driver(13000, ("NVIDIA H200",)), "580.65.06", [True, True]),
        (Driver(12040, ("NVIDIA H200",)), "550.54.15", [False, True]),
        (Driver(13000, ()), "580.65.06", [True, False]),
        (None, "580.65.06", [False, False]),
        (None, None, [False, False]),
    ],
)
def test_doctor_says_what_is_missing(driver, number, works, monkeypatch):
    """Catches a driver that is too old for the packages, or none, that is called right."""
    monkeypatch.setattr(nvidia, "library", lambda: driver)
    monkeypatch.setattr(nvidia, "seen", lambda: nvidia.gpus(driver))
    monkeypatch.setattr(nvidia, "driver_version", lambda: number)
    monkeypatch.setattr(doctor, "gpu_aware", lambda _: doctor.Finding("mpi", True, "", ""))
    findings = list(doctor.gpu())
    assert [finding.what for finding in findings] == [
        *("NVIDIA driver", "GPU", "numba-cuda", "CuPy", "CUDA compiler", "mpi")
    ]
    assert [finding.works for finding in findings[:2]] == works
    assert all("--device gpu" in finding.cost for finding in findings[:5])
    if driver is not None and driver.names:
        assert findings[1].found == "NVIDIA H200, 128 GiB"
    if number is None:
        assert (findings[0].found, findings[1].found) == ("not found", "none")


def test_packages_are_found_by_any_of_their_names(monkeypatch):
    """Catches a CuPy that was built from source, or one of the wheels, taken for none."""
    monkeypatch.setattr(versions, "version", {"cupy": "14.0.1"}.get)
    monkeypatch.setattr(doctor, "gpu_aware", lambda _: doctor.Finding("mpi", True, "", ""))
    found = {finding.what: finding for finding in doctor.gpu()}
    assert (found["CuPy"].works, found["CuPy"].found) == (True, "14.0.1")
    assert (found["numba-cuda"].works, found["numba-cuda"].found) == (False, "not installed")


class Pathfinder(ModuleType):
    """NVIDIA's search for its libraries, as if it found nothing."""

    def load_nvidia_dynamic_lib(self, name: str) -> Any:
        """Not there."""
        raise RuntimeError(f"no {name}")


def test_a_missing_compiler_is_told(monkeypatch):
    """Catches numba-cuda without the compiler that its kernels need, called right."""
    skips.without("compile")
    there = doctor.kernel_compiler()
    assert there.works and "libnvvm" in there.found
    monkeypatch.setattr("cuda.pathfinder", Pathfinder("cuda.pathfinder"))
    missing = doctor.kernel_compiler()
    assert not missing.works and "CUDA_PATH" in missing.cost
    monkeypatch.setitem(sys.modules, "cuda", None)
    assert not doctor.kernel_compiler().works


def test_a_cache_whose_folders_numba_makes_works(monkeypatch, tmp_path):
    """Catches a kernel cache that is said not to work because its folder is not there yet."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "not" / "there" / "yet"))
    assert doctor.kernel_cache().works
    monkeypatch.setenv("NUMBA_CACHE_DIR", "")  # numba takes that for unset
    assert doctor.kernel_cache().found.endswith("__pycache__")


def test_what_is_shown_is_what_was_found(monkeypatch, capsys):
    """Catches a path that is shortened, and words in brackets that are taken for a colour.

    And a group that is said not to work for want of what only makes it faster.
    """
    path = f"/{'long/' * 40}python"
    findings = {
        "CPU": [doctor.Finding("driver serial", True, path, "")],
        "GPU": [
            doctor.Finding("CuPy", False, "not installed", "install 'numba-cuda[cu13]'"),
            doctor.Finding("compiler", False, "not found", "install 'numba-cuda[cu13]'"),
            doctor.Finding("GPU-aware MPI", False, "no", "copies", needed=False),
        ],
        "mpi": [doctor.Finding("GPU-aware MPI", False, "no", "copies", needed=False)],
    }
    losses = "no --device gpu"
    groups = [doctor.Group(name, losses, found) for name, found in findings.items()]
    monkeypatch.setattr(doctor, "groups", lambda launcher: groups)
    assert doctor.doctor() == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line and not line.startswith(" ")] == [
        *("CPU: works", "GPU: does not work: no --device gpu", "mpi: works")
    ]
    assert f"  ok  driver serial: {path}" in lines
    assert lines.count("      without it: install 'numba-cuda[cu13]'") == 1  # in a group


def test_the_advice_is_for_this_python(monkeypatch):
    """Catches advice that needs a checkout, or that pip of another Python would follow."""
    monkeypatch.setattr(versions, "version", lambda package: None)
    monkeypatch.setattr(doctor, "gpu_aware", lambda _: doctor.Finding("mpi", True, "", ""))
    advice = {finding.what: finding.cost for finding in (*doctor.gpu(), *doctor.packages(()))}
    assert f"{sys.executable} -m pip install 'numba-cuda[cu13]" in advice["CuPy"]
    assert "cupy-cuda13x" in advice["CuPy"]
    assert advice["numpy"] == f"nothing works; install it: {sys.executable} -m pip install numpy"
    assert not any("-e " in words or "make " in words for words in advice.values())


# MPI ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kinds", "answers", "environment", "aware", "why"),
    [
        ("mpi,system,cuda:device", [0], {}, True, "mpi_memory_alloc_kinds is mpi,system,cuda"),
        ("mpi, cuda", [], {}, True, "mpi_memory_alloc_kinds"),
        ("mpi,system", [1], {}, True, "MPIX_Query_cuda_support says yes"),
        (None, [0], {"MV2_USE_CUDA": "1"}, False, "MPIX_Query_cuda_support says no"),
        (None, [None, 1], {}, True, "MPIX_Query_cuda_support says yes"),
        (None, [None], {"MPICH_GPU_SUPPORT_ENABLED": "1"}, True, "MPICH_GPU_SUPPORT_ENABLED is 1"),
        (None, [], {"MPICH_GPU_SUPPORT_ENABLED": "0"}, False, "MPICH_GPU_SUPPORT_ENABLED is 0"),
        (None, [], {"MV2_USE_CUDA": "1"}, True, "MV2_USE_CUDA is 1"),
        ("system,cudalike", [], {}, *SAYS_NO),
        (None, [], {"MV2_USE_CUDA_NOT": "1"}, *SAYS_NO),
    ],
)
def test_mpi_is_asked_in_three_places(kinds, answers, environment, aware, why):
    """Catches a library that is handed device pointers though it says no, or nothing."""
    answer, reason = gpu_aware(Comm(kinds), environment, [library(a) for a in answers])
    assert answer is aware
    assert reason.startswith(why)


def test_a_library_is_asked_only_where_the_info_says_nothing():
    """Catches a call into a library that need not be made, as it can only go wrong."""

    def refuse():
        raise AssertionError("asked")

    found = SimpleNamespace(**{asked.QUERY: refuse})
    assert gpu_aware(Comm("cuda"), {}, [found])[0]


def test_libraries_are_found_in_the_map_of_a_process():
    """Catches a path cut at a space, one that comes twice, and libraries of another name."""
    maps = (
        "7f00-7f01 r--p 00000000 00:21 123    /opt/my mpi/libmpi.so.12.4.2\n"
        "7f01-7f02 r-xp 00001000 00:21 123    /opt/my mpi/libmpi.so.12.4.2\n"
        "7f02-7f03 r--p 00000000 00:21 124    /usr/lib/libmpi_cray.so.12\n"
        "7f03-7f04 r--p 00000000 00:21 125    /usr/lib/libmpfr.so.6\n"
        "7f04-7f05 r--p 00000000 00:21 126    /site-packages/mpi4py/MPI.libmpi.so\n"
        "7f05-7f06 rw-p 00000000 00:00 0 \n"
        "7ffc-7ffd rw-p 00000000 00:00 0      [stack]\n"
    )
    assert asked.mpi_libraries(maps) == [
        "/opt/my mpi/libmpi.so.12.4.2",
        "/usr/lib/libmpi_cray.so.12",
    ]


@pytest.mark.parametrize("name", ["MPICH", "Open MPI"])
def test_the_mpis_of_the_wheels_say_no(name, monkeypatch):
    """Catches a way to ask that finds no library, and memory that MPI leaves after its answer."""
    if name == "Open MPI":
        (libmpi,) = OPENMPI.glob("lib*/libmpi.so.40")
        monkeypatch.setenv("MPI4PY_LIBMPI", str(libmpi))
    with support.no_shared_memory_left():
        finding = doctor.gpu_aware(drivers.get("mpi"))
    assert (finding.works, finding.found) == (False, "MPIX_Query_cuda_support says no")


def test_doctor_asks_mpi_in_another_process():
    """Catches a doctor that starts MPI itself, after which its own small runs could fail."""
    loaded = set(sys.modules)
    finding = doctor.gpu_aware(drivers.get("mpi"))
    assert (finding.works, finding.found) == (False, "MPIX_Query_cuda_support says no")
    assert "mpi4py" not in set(sys.modules) - loaded


def test_doctor_survives_an_mpi_that_does_not_start(monkeypatch, tmp_path):
    """Catches a report that ends in a traceback where MPI is broken."""
    monkeypatch.setenv("MPI4PY_LIBMPI", str(tmp_path / "libmpi.so"))
    finding = doctor.gpu_aware(drivers.get("mpi"))
    assert (finding.works, finding.found) == (False, "MPI library could not be started to ask")
