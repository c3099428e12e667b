"""The specification of one communication benchmark, checked before anything is launched."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from dataclasses import Field, dataclass, fields
from pathlib import Path
from typing import Any, Self

from miniapps import communication, drivers
from miniapps.communication.actions import NONE
from miniapps.communication.buffers import DEVICE
from miniapps.communication.catalogue import ANATOMY, CATALOGUE, Benchmark
from miniapps.communication.session import most_bytes
from miniapps.communication.settings import OUT_OF_BAND, Settings
from miniapps.devices import backend as device
from miniapps.drivers.descriptor import Driver, Options
from miniapps.drivers.hosts import Hosts
from miniapps.parameters import InputError, require, words
from miniapps.workbench.arguments import destination, driver_option_names
from miniapps.workbench.run.spec import check_hosts, driver_options

FEWEST = 2  # ranks that can communicate


@dataclass(frozen=True)
class CommSpec:
    """One benchmark under one driver; a `workbench.run.launched.Launched`."""

    benchmark: Benchmark
    driver: str
    pes: int
    settings: Settings
    own: Options  # the driver's own
    hosts: Hosts | None = None

    @classmethod
    def create(cls, options: Namespace) -> Self:
        """The benchmark that parsed arguments request. Raises InputError."""
        known = {**CATALOGUE, ANATOMY.name: ANATOMY}
        require(options.name in known, "NAME", options.name, "one of `miniapps comm --list`")
        given = {
            field.name: value
            for field in fields(Settings)
            if (value := getattr(options, field.name)) is not None
        }
        usual = options.hosts.pes if options.hosts else FEWEST
        pes = usual if options.pes is None else options.pes
        own = {
            field: value
            for driver, field in own_fields()
            if (value := getattr(options, destination(driver, field))) is not None
        }
        made = driver_options(options.driver, own)
        spec = cls(known[options.name], options.driver, pes, Settings(**given), made, options.hosts)
        spec.check()
        return spec

    @property
    def app(self) -> str:
        """The name for messages."""
        return f"comm {self.benchmark.name}"

    @property
    def device(self) -> str:
        """Where the data are: ``cpu`` or ``gpu``."""
        return "gpu" if self.settings.buffer in DEVICE else "cpu"

    @property
    def output(self) -> Path | None:
        """Processes write no file."""
        return None

    @property
    def folders(self) -> list[Path]:
        """Processes read no files but their messages."""
        return [value for value in vars(self.own).values() if isinstance(value, Path)]

    @property
    def warmup(self) -> int:
        """The checks of all sizes."""
        return 0 if self.settings.no_check else len(self.settings.sizes(self.benchmark))

    @property
    def steps(self) -> int:
        """The measurements: each size in each trial."""
        return self.settings.trials * len(self.settings.sizes(self.benchmark))

    @property
    def block_bytes(self) -> float:
        """There are no blocks."""
        return 0.0

    @property
    def shared_bytes(self) -> int:
        """The shared memory that the runtime needs for its ranks, and for windows or a message."""
        driver = drivers.get(self.driver)
        start = driver.shared_bytes * self.pes
        if driver.by_files:
            return start + max(self.settings.sizes(self.benchmark))
        in_windows = self.benchmark.one_sided and self.device == "cpu"
        return start + (most_bytes(self.benchmark, self.settings) if in_windows else 0)

    def arguments(self) -> list[str]:
        """The command line that requests this benchmark."""
        line = ["comm", self.benchmark.name, "--driver", self.driver, "-n", str(self.pes)]
        for field in fields(Settings):
            value = getattr(self.settings, field.name)
            if value is True:
                line.append(field.metadata["option"])
            elif value != field.default:
                line += words(field.metadata["option"], value)
        for driver, field in own_fields():
            if driver.name == self.driver and getattr(self.own, field.name) != field.default:
                name = driver_option_names(driver, field, Settings)[0]
                line += words(name, getattr(self.own, field.name))
        return line

    def recorded(self) -> dict[str, Any]:
        """The options that the record stores, by their keys there."""
        keys = {field.name: field.metadata["key"] for field in fields(Settings)}
        found = {key: getattr(self.settings, name) for name, key in keys.items() if key}
        method = communication.get(self.driver).method_of(self.benchmark.name, found["method"])
        return found | {"method": method}

    def check(self) -> None:
        """Raise InputError unless the runtime can make this benchmark with these options."""
        runtime, name = communication.get(self.driver), self.benchmark.name
        require(name not in runtime.lacks, "--driver", self.driver, runtime.lacks.get(name, ""))
        refused = self.benchmark.refuses(self.pes)
        require(refused is None, "-n", self.pes, str(refused))
        able = [one.driver for one in communication.runtimes().values() if one.anatomy]
        known = bool(runtime.anatomy) or self.benchmark != ANATOMY
        require(known, "--driver", self.driver, f"anatomy is of {' and '.join(able)}")
        self._check_taken()
        check_hosts(self)
        self.settings.check()
        self.settings.sizes(self.benchmark)
        buffer, level = self.settings.buffer, self.settings.thread_level
        allowed = f"one of {', '.join(runtime.buffers)}"
        allowed += f": {runtime.buffers_why}" if runtime.buffers_why else ""
        require(buffer in runtime.buffers, "--buffer", buffer, allowed)
        known = level is None or level in runtime.thread_levels
        able = [name for name, one in communication.runtimes().items() if one.thread_levels]
        require(known, "--thread-level", level, f"only with --driver {' or '.join(able)}")
        if buffer in DEVICE:
            try:
                device.OPENED.get("gpu").require(1)
            except device.DeviceUnavailable as error:
                raise InputError("--buffer", buffer, str(error)) from None
        self.own.check(self)
        self._check_method(runtime)
        self._check_pickle(runtime)
        self._check_touch()

    def _check_taken(self) -> None:
        """Raise InputError for options that the benchmark does not use."""
        for field in fields(Settings):
            value, option = getattr(self.settings, field.name), field.metadata["option"]
            taken = value == field.default or self.benchmark.takes(field.name)
            word = "given" if value is True else value
            require(taken, option, word, f"no option of {self.benchmark.name}")

    def _check_method(self, runtime: communication.Runtime) -> None:
        """Raise InputError unless the runtime can move the data as asked."""
        method, name = self.settings.method, self.benchmark.name
        able = [one for one, names in runtime.methods.items() if name in names]
        allowed = f"{name} has no such form under {self.driver}"
        allowed += f": one of {', '.join(able)}" if able else ""
        require(method is None or method in able, "--method", method, allowed)

    def _check_pickle(self, runtime: communication.Runtime) -> None:
        """Raise InputError unless objects can be sent as asked."""
        pickle, name, buffer = self.settings.pickle, self.benchmark.name, self.settings.buffer
        if pickle is None:
            return
        require(buffer not in DEVICE, "--pickle", pickle, f"not with --buffer {buffer}")
        able = runtime.out_of_band if pickle == OUT_OF_BAND else runtime.pickles
        allowed = f"{name} has no such form under {self.driver}"
        allowed += f"; {', '.join(sorted(able))} have" if able else ""
        require(name in able, "--pickle", pickle, allowed)
        bytes_ = buffer == "bytearray"
        allowed = "a bytearray has no data out of its pickle: use --buffer numpy"
        require(not (bytes_ and pickle == OUT_OF_BAND), "--pickle", pickle, allowed)
        allowed = "bytearrays cannot be added: use --buffer numpy"
        require(not (bytes_ and self.benchmark.reduces), "--pickle", pickle, allowed)

    def _check_touch(self) -> None:
        """Raise InputError unless the data can be touched."""
        touch, buffer = self.settings.touch, self.settings.buffer
        if touch == NONE:
            only = self.settings.touch_only
            require(not only, "--touch-only", "given", "only with --touch sender or both")
            return
        require(buffer not in DEVICE, "--touch", touch, f"not with --buffer {buffer}")


def own_fields() -> Iterator[tuple[Driver, Field[Any]]]:
    """The drivers' own options that benchmarks take."""
    for name, runtime in communication.runtimes().items():
        driver = drivers.get(name)
        yield from ((driver, one) for one in fields(driver.options) if one.name in runtime.options)
