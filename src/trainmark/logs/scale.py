"""Convert printed numbers to seconds and samples of all devices, by the rules of the dialect."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trainmark.logs.dialect import Dialect
from trainmark.logs.record import Facts, Scope
from trainmark.logs.timing import Basis, Floats, Timed
from trainmark.messages.logs import batch_unknown, devices_unknown, one_node_of_many, scope_ambiguous
from trainmark.messages.message import Message

_TEXT_UNITS = ("tokens", "words")
"""A sequence has many of them. A batch size counts sequences, so it never tells how many there are in a step."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How to convert the printed numbers of one log to global ones."""

    factor: float | None
    """Global rate divided by printed rate; None if unknown."""
    global_batch: int | None
    warnings: tuple[Message, ...]

    def convert(self, *, timed: Timed, seconds: Floats, rate: Floats, samples: Floats, basis: Basis) -> Converted:
        """Seconds and samples of records; NaN where the speed is unknown. `seconds` and `rate` are those printed.

        If the number of samples is unknown, an iteration counts as one unit of work: rates and sums over records are
        still right, and nothing else is computed from them.
        """
        batch = np.where(np.isnan(samples), np.nan if self.global_batch is None else self.global_batch, samples)
        factor = np.nan if self.factor is None else self.factor
        with np.errstate(divide="ignore", invalid="ignore"):
            both = rate * factor * seconds
            work = np.where(np.isnan(batch), 1.0, batch)
            # As printed: a rate counts before seconds, which need a batch size.
            step_s = np.where(np.isnan(seconds) & ~np.isnan(rate), work / (rate * factor), seconds)
            step_work = np.where(np.isnan(both), work, both)
            is_known = np.isnan(rate) | ~np.isnan(rate * factor) | ~np.isnan(batch)
            printed = np.where(is_known & ~np.isnan(step_s), step_work / step_s, np.nan)
            if basis is Basis.PRINTED:
                durations = timed.num_steps * step_s
            else:
                durations = timed.seconds * (work / factor if timed.is_per_sample else 1.0)
                step_work = np.where(np.isnan(batch) & ~np.isnan(both), both, work)
            amounts = np.where(is_known, timed.num_steps * step_work, np.nan)
            # A damaged number must not become an infinite rate.
            is_sane = (durations > 1e-12) & (durations < 1e15) & (amounts > 1e-12) & (amounts < 1e15)
            is_rate = (printed > 1e-12) & (printed < 1e15)
        return Converted(
            seconds=np.where(is_sane, durations, np.nan),
            samples=np.where(is_sane, amounts, np.nan),
            rates=np.where(is_rate, printed, np.nan),
        )


@dataclass(frozen=True, kw_only=True)
class Converted:
    seconds: Floats
    samples: Floats
    rates: Floats
    """As printed, over all devices."""


def find_scale(
    dialect: Dialect,
    facts: Facts,
    scope: Scope | None,
    *,
    has_rates: bool,
    has_seconds: bool,
    has_samples: bool = False,
    unit: str | None = None,
) -> Scale:
    """`scope` and `unit`: those of the records if they state one, else the dialect's."""
    devices, batch = facts.devices, facts.batch_size_per_device
    global_batch = facts.global_batch_size or (batch * devices if batch and devices else None)
    if has_rates and _specific(unit, dialect) in _TEXT_UNITS:
        global_batch = None  # a rate in tokens and a batch in sequences do not go together
    global_batch = 1 if dialect.counts_samples else facts.samples_per_step or global_batch
    factor: float | None = None
    warnings: list[Message] = []
    if scope == "global":
        factor = 1.0
        if dialect.name == "paddle-rec" and facts.nodes is not None and facts.nodes > 1:
            warnings.append(one_node_of_many(nodes=facts.nodes))
    elif scope == "node":
        factor = float(facts.nodes) if facts.nodes else None
    elif scope == "device":
        factor = float(devices) if devices else None
    # The speed follows from the clock and the batch size.
    is_timed = scope is None and has_seconds and global_batch is not None
    if has_rates and factor is None and (scope is not None or devices != 1) and not is_timed:
        warnings.append(scope_ambiguous() if scope is None else devices_unknown())
    if scope is None and devices == 1:
        factor = 1.0  # one device: both interpretations are the same
    if not has_rates and has_seconds and not has_samples and global_batch is None:
        warnings.append(batch_unknown())
    return Scale(factor=factor, global_batch=global_batch, warnings=tuple(warnings))


def name_unit(
    dialect: Dialect,
    facts: Facts,
    scale: Scale,
    unit: str | None,
    *,
    has_rates: bool,
    has_seconds: bool,
    has_samples: bool,
) -> str:
    """What the converted records count. `unit`: that of the records, if they state one."""
    if dialect.counts_samples:
        return dialect.unit
    is_printed = has_rates or has_samples
    if has_seconds and not is_printed and scale.global_batch is None:
        return "iterations"
    named = _specific(facts.unit or unit, dialect)
    is_from_batch = not is_printed and facts.samples_per_step is None and scale.global_batch is not None
    return "sequences" if is_from_batch and named in _TEXT_UNITS else named


def _specific(unit: str | None, dialect: Dialect) -> str:
    """`samples` says less than the dialect does."""
    return unit if unit not in (None, "samples") else dialect.unit
