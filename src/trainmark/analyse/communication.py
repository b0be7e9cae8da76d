"""The exposed communication of a step, from blocks of steps and of twins that exchange nothing.

Medians, since a machine stalls now and then and a few pairs cannot outvote one stall in a mean. The interval of the
median difference is that of the sign test: the k-th smallest and k-th largest difference, which cover the median in at
least 95 of 100 measurements whatever its distribution. It needs six pairs; fewer have no interval.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import comb
from typing import Any

from trainmark.analyse.exchange import summarise_exchange
from trainmark.store.rows import RunRow


@dataclass(frozen=True, kw_only=True)
class Communication:
    exposed_s: float
    """Per step: how much longer it takes than its twin. Waiting for a slower rank is part of it."""
    ci95: tuple[float, float] | None
    step_s: float
    compute_s: float
    """Of the twin, on the slowest rank."""
    gradient_bytes: int
    allreduce_gb_per_s: float | None
    """Algorithm bandwidth of a buffer as large as the gradients; None where it was not measured."""
    allreduce_bus_gb_per_s: float | None

    @property
    def fraction(self) -> float:
        """Of the step."""
        return self.exposed_s / self.step_s


def read_communication(row: RunRow) -> Communication | None:
    """None where it was not measured; correctness gates it like speed."""
    record = row.communication
    if record is None or record.get("reason") is not None or row.outcome != "ok":
        return None
    pairs: list[list[float]] = record["pairs"]
    differences = [step_s - twin_s for step_s, twin_s in pairs]
    num_bytes, samples_s = record["gradient_bytes"], record["all_reduce_s"]
    exchange = summarise_exchange(num_bytes, samples_s, num_ranks=record["num_ranks"]) if samples_s else None
    return Communication(
        exposed_s=statistics.median(differences),
        ci95=median_interval(differences),
        step_s=statistics.median(step_s for step_s, _ in pairs),
        compute_s=statistics.median(twin_s for _, twin_s in pairs),
        gradient_bytes=num_bytes,
        allreduce_gb_per_s=exchange.algorithm_gb_per_s if exchange else None,
        allreduce_bus_gb_per_s=exchange.bus_gb_per_s if exchange else None,
    )


def describe_communication(row: RunRow) -> dict[str, Any] | None:
    found = read_communication(row)
    if found is None:
        return None
    return {**asdict(found), "fraction": found.fraction, "ci95": list(found.ci95) if found.ci95 else None}


def median_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Order statistics k and n + 1 - k, with the largest k that has at most 2.5% on either side."""
    num, below, rank = len(values), 0.0, 0
    while (below := below + comb(num, rank) / 2**num) <= 0.025:
        rank += 1
    ordered = sorted(values)
    return (ordered[rank - 1], ordered[num - rank]) if rank else None
