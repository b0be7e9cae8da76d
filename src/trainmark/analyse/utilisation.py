"""What part of a device's matrix rate a training uses (MFU): FLOPs by the workload's card, the rate by measurement."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from trainmark.analyse.estimate import Estimate
from trainmark.errors import TrainmarkError
from trainmark.measured_peaks import MATRIX_PRECISIONS
from trainmark.messages.machine import peak_not_measured
from trainmark.messages.message import Message
from trainmark.store.rows import RunRow

if TYPE_CHECKING:
    from trainmark.analyse.table import Line
    from trainmark.workloads.card import Card


def achieved_flops_per_s(row: RunRow, estimate: Estimate | None) -> float | None:
    """Of one device; None where the rate or the work of a sample is not known."""
    card = card_of(row)
    if estimate is None or card is None or not row.devices or row.unit != card.unit:
        return None
    size = card.sizes.get(row.size or "full")
    return None if size is None else estimate.value * size.flops_per_sample / row.devices


def measured_peak(row: RunRow) -> float | None:
    """FLOP/s of a matrix product that `doctor --peaks` measured on this device in this precision."""
    if row.analysis is not None:
        kept: float | None = row.analysis["measured_peak"]
        return kept
    found = row.environment.get("matrix_flops_per_s")
    return float(found) if isinstance(found, int | float) and found > 0 else None


def latest_peak(line: Line) -> float | None:
    """Of all runs of a line: the peak is often measured after the first of them."""
    return next((peak for run in reversed(line.runs) if (peak := measured_peak(run)) is not None), None)


def find_missing_peak(lines: Iterable[Line]) -> Message | None:
    """One sentence for all results on a GPU that have no MFU only because `doctor --peaks` had not run before them."""
    found = [line.first for line in lines if _lacks_only_peak(line)]
    if not found:
        return None
    machines = list(dict.fromkeys(str(row.machine) for row in found))
    precisions = list(dict.fromkeys(str(row.precision) for row in found))
    return peak_not_measured(machines=machines, precisions=precisions)


def _lacks_only_peak(line: Line) -> bool:
    """Not a command or an imported log, which never have MFU, nor a precision that `doctor --peaks` leaves out."""
    row = line.first
    is_measurable = row.source == "trainmark" and row.device == "cuda" and row.precision in MATRIX_PRECISIONS
    if not is_measurable or row.machine is None or latest_peak(line) is not None:
        return False
    return achieved_flops_per_s(row, line.known) is not None


def find_utilisation(row: RunRow, estimate: Estimate | None, peak: float | None) -> float | None:
    """May be above 1: then the rate, the FLOPs or the peak is wrong, and it is not to be shown as a number."""
    achieved = achieved_flops_per_s(row, estimate) if peak is not None else None
    return None if achieved is None or peak is None else achieved / peak


def card_of(row: RunRow) -> Card | None:
    if row.workload is None:
        return None
    from trainmark.workloads.registry import load_card

    try:
        return load_card(row.workload)
    except TrainmarkError:  # of a package that is not installed here
        return None
