"""Scaling laws, Amdahl's, Gustafson's and Gunther's, fitted to step times of repeated trials."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import optimize

from miniapps.workbench.plural import counted
from miniapps.workbench.study.statistics import (
    Interval,
    Numbers,
    bootstrap_bounds,
    check_same_size,
    pe_count,
    positive,
    sample_of,
)


@dataclass(frozen=True)
class Fit:
    """A scaling law fitted to step times."""

    model: str
    parameters: dict[str, Interval]
    residual: float  # the largest |t(p) / mean time - 1| over the PE counts of the fit
    note: str  # why the law is not tested, or its parameters have no intervals; or empty

    @property
    def title(self) -> str:
        """The name of the law."""
        return _LAWS[self.model].title

    def predict(self, pes: float | Numbers) -> np.ndarray:
        """Step time in s on ``pes`` PEs, a number or an array, in the shape of ``pes``."""
        values = (interval.value for interval in self.parameters.values())
        return _LAWS[self.model].time_s(np.asarray(pes, float), *values)


def fit_amdahl(pes: Numbers, times: Numbers) -> Fit:
    """Amdahl's law, t(p) = t1 (serial + (1 - serial) / p), fitted to strong scaling.

    ``times`` (n,) are the step times in s of single trials on ``pes`` (n,) PEs, so each PE count
    occurs once per trial. The mean times are fitted by least squares of relative errors, weighted
    by the number of trials; with absolute errors, small PE counts would dominate the fit.
    Parameters: ``t1_s`` in s, ``serial_part`` from 0 to 1.

    Intervals are percentiles of a bootstrap that resamples the trials of each PE count, because
    linearised errors are wrong near a bound, such as a serial part of 0. With few trials the
    intervals are too narrow. They measure the scatter of trials; ``residual`` measures the misfit
    of the law.

    Raises ValueError for fewer PE counts than parameters, PE counts that are not positive
    integers, and times that are not above 0. Source: Amdahl, AFIPS 1967.
    """
    return _fit("amdahl", pes, times)


def fit_gustafson(pes: Numbers, times: Numbers) -> Fit:
    """Gustafson's law, p t1 / t(p) = p - serial (p - 1), fitted to weak scaling.

    The work of a step is proportional to p, so p t1 / t(p) is the scaled speed-up. Input,
    parameters, intervals and errors are those of `fit_amdahl`. Source: Gustafson, Comm. ACM 31
    (1988) 532.
    """
    return _fit("gustafson", pes, times)


def fit_usl(pes: Numbers, times: Numbers, weak: bool = False) -> Fit:
    """Gunther's law of throughput, X(p) = X1 p / (1 + sigma (p - 1) + kappa p (p - 1)).

    The throughput X is work over step time. The work of a step is the same for all p, or p times
    that of one PE in ``weak`` scaling. Parameters: ``t1_s`` in s, ``sigma`` from 0 to 1 (the serial
    fraction), ``kappa``, at least 0 (the cost of each pair of PEs). Input, intervals and errors are
    those of `fit_amdahl`; also raises ValueError if ``t1_s`` of the best fit is 0. Source: Gunther,
    Guerrilla Capacity Planning, Springer 2007.
    """
    return _fit("usl, weak" if weak else "usl", pes, times)


@dataclass(frozen=True)
class _Law:
    """A law whose time or rate is linear in non-negative unknowns.

    So non-negative least squares finds the global optimum without a starting value.
    """

    title: str
    names: tuple[str, ...]
    columns: Callable[[np.ndarray], list[np.ndarray]]  # PE counts (k,) to one (k,) per unknown
    of_rate: bool  # the columns add up to 1/t(p), not to t(p)
    parameters: Callable[..., tuple[Any, ...]]  # unknowns to parameters
    time_s: Callable[..., np.ndarray]  # PE counts and parameters to times


def _gustafson_columns(pes: np.ndarray) -> list[np.ndarray]:
    return [1 / pes, np.ones_like(pes)]


def _gustafson_parameters(serial: Any, scaled: Any) -> tuple[Any, ...]:
    return 1 / (serial + scaled), serial / (serial + scaled)


def _gustafson_time(pes: np.ndarray, t1_s: float, serial: float) -> np.ndarray:
    return t1_s * pes / (pes - serial * (pes - 1))


def _usl_columns(pes: np.ndarray) -> list[np.ndarray]:
    """Amdahl's two columns, whose serial fraction is sigma, and one for the cost of pairs."""
    return [np.ones_like(pes), 1 / pes, pes - 1]


def _usl_parameters(serial: Any, divided: Any, *pairs: Any) -> tuple[Any, ...]:
    t1_s = serial + divided
    return t1_s, serial / t1_s, *(one / t1_s for one in pairs)


def _usl_time(pes: np.ndarray, t1_s: float, sigma: float, kappa: float = 0.0) -> np.ndarray:
    return t1_s * (1 + sigma * (pes - 1) + kappa * pes * (pes - 1)) / pes


def _usl_weak_columns(pes: np.ndarray) -> list[np.ndarray]:
    return [pes * column for column in _usl_columns(pes)]


def _usl_weak_time(pes: np.ndarray, t1_s: float, sigma: float, kappa: float) -> np.ndarray:
    return pes * _usl_time(pes, t1_s, sigma, kappa)


_SERIAL = ("t1_s", "serial_part")
_USL = ("t1_s", "sigma", "kappa")
_LAWS = {
    "amdahl": _Law(  # USL without a cost of pairs
        "Amdahl", _SERIAL, lambda pes: _usl_columns(pes)[:2], False, _usl_parameters, _usl_time
    ),
    "gustafson": _Law(
        "Gustafson", _SERIAL, _gustafson_columns, True, _gustafson_parameters, _gustafson_time
    ),
    "usl": _Law("USL", _USL, _usl_columns, False, _usl_parameters, _usl_time),
    "usl, weak": _Law("USL", _USL, _usl_weak_columns, False, _usl_parameters, _usl_weak_time),
}


def _fit(model: str, pes: Numbers, times: Numbers) -> Fit:
    """Fit a law of `_LAWS`; see `fit_amdahl`."""
    law = _LAWS[model]
    counts, trials = _by_count(pes, times)
    if len(counts) < len(law.names):
        raise ValueError(f"{law.title} needs at least {len(law.names)} numbers of PEs")
    estimate = partial(_estimate, law, counts)
    values = estimate(*trials)
    if not np.isfinite(values).all():
        raise ValueError(f"the best fit of {law.title} takes no time on one PE")
    lows, highs = bootstrap_bounds(trials, estimate, "percentile")
    found = zip(values.tolist(), lows.tolist(), highs.tolist(), strict=True)
    predicted = law.time_s(counts, *values)
    means = np.array([sample.mean() for sample in trials])
    return Fit(
        model,
        dict(zip(law.names, (Interval(*numbers) for numbers in found), strict=True)),
        float(np.abs(predicted / means - 1).max()),
        _fit_note(counts, trials, len(law.names)),
    )


def _by_count(pes: Numbers, times: Numbers) -> tuple[np.ndarray, list[np.ndarray]]:
    """The distinct PE counts (k,), ascending, and for each the times of its trials."""
    each, seconds = sample_of("pes", pes), positive("times", times)
    check_same_size("pes", each, "times", seconds)
    counts = np.array([pe_count("pes", count) for count in np.unique(each)], float)
    return counts, [seconds[each == count] for count in counts]


def _estimate(law: _Law, counts: np.ndarray, *trials: np.ndarray, axis: int = -1) -> np.ndarray:
    """Parameters (parameters, ...) of the law from ``trials``, one array (..., n) per PE count."""
    means = np.stack([sample.mean(axis) for sample in trials], axis=-1)
    rows = means.reshape(-1, len(counts))
    weights = np.sqrt([sample.shape[axis] for sample in trials])
    columns = np.stack(law.columns(counts), axis=-1)
    relative = rows if law.of_rate else 1 / rows
    matrices = (weights * relative)[:, :, None] * columns
    unknowns = np.array([optimize.nnls(matrix, weights)[0] for matrix in matrices])
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.stack(law.parameters(*unknowns.T))
    return found.reshape(-1, *means.shape[:-1])


def _fit_note(counts: np.ndarray, trials: list[np.ndarray], parameters: int) -> str:
    """A note if PE counts are too few to test the law, or trials too few for intervals."""
    notes = []
    if len(counts) == parameters:
        notes.append(
            f"{parameters} numbers of PEs determine {parameters} parameters, so they do not test "
            "the law"
        )
    single = [
        counted(int(count), "PE")
        for count, sample in zip(counts, trials, strict=True)
        if len(sample) < 2
    ]
    if single:
        notes.append(f"one trial on {', '.join(single)}: no intervals")
    return "; ".join(notes)
