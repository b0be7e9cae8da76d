"""Series of step durations with known truth: 28 kinds of disturbance that real machines show.

Each kind says what it claims to be true. Where there is more than one fair answer the docstring of its maker says
which is used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Truth = Callable[[int], float]
"""True seconds of a step, for a run that used so many steps."""

STEP_S = 0.02
NOISE = 0.02
SAMPLES = 64.0


@dataclass(frozen=True, kw_only=True)
class Kind:
    name: str
    causes: frozenset[str]
    """Codes of the doubts that name what was planted; empty if nothing was."""
    make: Callable[[np.random.Generator, int], tuple[Floats, Truth]]
    """Durations of so many steps."""


def _white(random: np.random.Generator, num: int) -> Floats:
    return 1 + NOISE * random.standard_normal(num)


def _always(value: float) -> Truth:
    return lambda _: value * STEP_S


def _autoregressive(phi: float) -> Callable[[np.random.Generator, int], tuple[Floats, Truth]]:
    def make(random: np.random.Generator, num: int) -> tuple[Floats, Truth]:
        from scipy.signal import lfilter

        shocks = random.standard_normal(num) * np.sqrt(1 - phi**2)
        start = [phi * random.standard_normal()]
        series = lfilter([1.0], [1.0, -phi], shocks, zi=start)[0] if phi else shocks
        return STEP_S * (1 + NOISE * series), _always(1.0)

    return make


def _two_levels(apart: float, dwell: int) -> Callable[[np.random.Generator, int], tuple[Floats, Truth]]:
    """Dwell times are exponential. The truth is the mixture, unless at least 95% of the steps had one level."""

    def make(random: np.random.Generator, num: int) -> tuple[Floats, Truth]:
        is_slow = (np.cumsum(random.random(num) < 1 / dwell) + random.integers(2)) % 2
        counts = np.cumsum(is_slow)

        def truth(used: int) -> float:
            share = float(counts[used - 1]) / used
            return STEP_S * (1 + apart * (0.0 if share <= 0.05 else 1.0 if share >= 0.95 else 0.5))

        return STEP_S * _white(random, num) * (1 + apart * is_slow), truth

    return make


def _drift(change: float) -> Callable[[np.random.Generator, int], tuple[Floats, Truth]]:
    """Linear slow-down by `change` over the run (3,000 steps where the run may be longer).

    There is no long-run rate; the truth is the mean over the steps used.
    """

    def make(random: np.random.Generator, num: int) -> tuple[Floats, Truth]:
        slope = change / min(num, 3000)
        return STEP_S * _white(random, num) * (1 + slope * np.arange(num)), lambda used: STEP_S * (1 + slope * used / 2)

    return make


def _thermal(random: np.random.Generator, num: int) -> tuple[Floats, Truth]:
    """5% slower in the end, approached with a time constant of 300 steps; the truth is the end."""
    return STEP_S * _white(random, num) * (1.05 - 0.05 * np.exp(-np.arange(num) / 300)), _always(1.05)


def _warm_up(steps: int) -> Callable[[np.random.Generator, int], tuple[Floats, Truth]]:
    """One slow step, or a ramp from 1.5 times the usual step down to it."""

    def make(random: np.random.Generator, num: int) -> tuple[Floats, Truth]:
        series = _white(random, num)
        if steps == 1:
            series[0] *= 50
        else:
            series *= 1 + 0.5 * np.clip(1 - np.arange(num) / steps, 0, None)
        return STEP_S * series, _always(1.0)

    return make


def _second_compile(random: np.random.Generator, num: int) -> tuple[Floats, Truth]:
    """The first step takes 100 times as long, and one about the middle again; the truth is without both."""
    series = _white(random, num)
    series[[0, int(random.uniform(0.4, 0.6) * min(num, 3000))]] *= 100
    return STEP_S * series, _always(1.0)


def _every(period: int) -> Callable[[np.random.Generator, int], tuple[Floats, Truth]]:
    """Every so many steps one takes three times as long."""

    def make(random: np.random.Generator, num: int) -> tuple[Floats, Truth]:
        is_slow = (np.arange(num) + random.integers(period)) % period == 0
        return STEP_S * _white(random, num) * (1 + 2 * is_slow), _always(1 + 2 / period)

    return make


def _stalls(share: float) -> Callable[[np.random.Generator, int], tuple[Floats, Truth]]:
    """Each step takes ten times as long with this probability."""

    def make(random: np.random.Generator, num: int) -> tuple[Floats, Truth]:
        is_stalled = random.random(num) < share
        return STEP_S * _white(random, num) * (1 + 9 * is_stalled), _always(1 + 9 * share)

    return make


def _printed(random: np.random.Generator, num: int) -> tuple[Floats, Truth]:
    """Durations printed with two or three digits, as 0.023 or 0.123; the noise is 0.5%."""
    mean = random.uniform(0.01, 0.1)
    digits = int(random.integers(2, 4))
    return np.round(mean * (1 + 0.005 * random.standard_normal(num)), digits + 1), lambda _: mean


def _rounded_clock(random: np.random.Generator, num: int) -> tuple[Floats, Truth]:
    """Time stamps of a clock that ticks every 1 to 10 ms; a step takes 1.5 to 6 ticks."""
    tick = random.choice([0.001, 0.002, 0.005, 0.010])
    mean = tick * random.uniform(1.5, 6)
    stamps = np.floor(random.random() + np.cumsum(np.concatenate(([0.0], mean / tick * _white(random, num))))) * tick
    return np.maximum(np.diff(stamps), tick / 10), lambda _: mean


def _kind(name: str, make: Callable[[np.random.Generator, int], tuple[Floats, Truth]], *causes: str) -> Kind:
    return Kind(name=name, make=make, causes=frozenset(causes))


KINDS: tuple[Kind, ...] = (
    _kind("independent steps", _autoregressive(0.0)),
    *(_kind(f"correlation {phi}", _autoregressive(phi)) for phi in (0.5, 0.9, 0.98)),
    *(
        _kind(f"two levels {apart:.0%} apart, dwell {dwell}", _two_levels(apart, dwell), "two-levels")
        for apart in (0.05, 0.15)
        for dwell in (50, 200, 500)
    ),
    *(_kind(f"drift {change:.1%}", _drift(change), "drift") for change in (0.005, 0.01, 0.03)),
    _kind("thermal, 5% to an asymptote", _thermal, "drift"),
    *(_kind(f"warm-up {steps}", _warm_up(steps), "still-warming-up") for steps in (1, 20, 100, 200)),
    _kind("second compile", _second_compile, "long-pause"),
    *(
        _kind(f"every {period}th step slow", _every(period), "period", "rare-stalls")
        for period in (10, 50, 100, 250, 500)
    ),
    *(_kind(f"{share:.1%} rare stalls", _stalls(share), "rare-stalls") for share in (0.005, 0.001)),
    _kind("printed with 2-3 digits", _printed, "printed-digits"),
    _kind("rounded clock", _rounded_clock, "printed-digits"),
)
