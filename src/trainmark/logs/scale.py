"""Convert printed numbers to seconds and samples of all devices, by the rules of the dialect."""

from __future__ import annotations

from dataclasses import dataclass

from trainmark.logs.dialect import Dialect
from trainmark.logs.record import Facts, Scope
from trainmark.messages.logs import batch_unknown, devices_unknown, one_node_of_many, scope_ambiguous
from trainmark.messages.message import Message


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How to convert the printed numbers of one log to global ones."""

    factor: float | None
    """Global rate divided by printed rate; None if unknown."""
    global_batch: int | None
    warnings: tuple[Message, ...]

    def convert(
        self, *, num_steps: float, seconds: float | None, rate: float | None, samples: float | None
    ) -> tuple[float, float] | None:
        """Seconds and samples of a record that covers `num_steps` iterations; None if its speed is unknown.

        If the number of samples is unknown, an iteration counts as one unit of work: rates and sums over records are
        still right, and nothing else is computed from them.
        """
        work = num_steps * (samples or self.global_batch or 1.0)
        if rate is not None and self.factor is not None:
            value = rate * self.factor
            if seconds is not None:
                return _sane(num_steps * seconds, num_steps * seconds * value)
            return _sane(work / value, work) if value > 0 else None
        if seconds is not None and (rate is None or samples or self.global_batch):
            return _sane(num_steps * seconds, work)
        return None


def _sane(seconds: float, samples: float) -> tuple[float, float] | None:
    """None if no machine can have done it: a damaged number must not become an infinite rate."""
    both = float(seconds), float(samples)
    return both if all(1e-12 < value < 1e15 for value in both) else None


def find_scale(
    dialect: Dialect,
    facts: Facts,
    scope: Scope | None,
    *,
    has_rates: bool,
    has_seconds: bool,
    has_samples: bool = False,
) -> Scale:
    """`scope`: that of the records if they state one, else the dialect's."""
    devices, batch = facts.devices, facts.batch_size_per_device
    global_batch = facts.global_batch_size or (batch * devices if batch and devices else None)
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
