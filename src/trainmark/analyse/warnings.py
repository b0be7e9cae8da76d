"""All warnings of runs: recorded by a run, found in its numbers, and found by comparing it with other runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from trainmark.analyse.analysis import own_warnings
from trainmark.analyse.laws import judge, marks_of
from trainmark.analyse.origin import origin_of, pooling_key
from trainmark.analyse.table import Line, without_replaced
from trainmark.messages.identity import pooled_unknown
from trainmark.messages.message import Message
from trainmark.messages.scaling import mixed_batch
from trainmark.store.rows import RunRow

Warnings = dict[str, list[dict[str, Any]]]
"""By run id, as `Message.to_json` gives them."""


def warnings_of(lines: Sequence[Line]) -> Warnings:
    rows = [run for line in lines for run in line.runs]
    beside = check_rows(rows)
    return {row.id: [*own_warnings(row), *beside[row.id]] for row in rows}


def check_rows(rows: Sequence[RunRow]) -> Warnings:
    """Only those found by comparing runs."""
    judge(rows)
    found: Warnings = {row.id: [] for row in rows}
    for run_id, message in (*_find_mixed_batches(rows), *_find_pooled_unknown(rows)):
        found[run_id].append(message.to_json())
    for row in rows:
        if marks := marks_of(row):
            own = {warning["code"] for warning in own_warnings(row)}
            found[row.id] += [mark.message.to_json() for mark in marks if mark.law not in own]
    return found


def _find_mixed_batches(rows: Sequence[RunRow]) -> Iterator[tuple[str, Message]]:
    """More devices with another batch than the fewest devices: the quotient of the two is not a speed-up.

    Only in imported logs: our own tables never divide such runs, a published column may.
    """
    groups: dict[tuple[object, ...], list[RunRow]] = {}
    for row in rows:
        if row.dialect is not None and row.devices and row.batch_size_per_device and (row.workload or row.model):
            groups.setdefault((row.workload or row.model, row.framework, row.precision, row.machine), []).append(row)
    for group in groups.values():
        fewest = min(row.devices or 0 for row in group)
        base = {row.batch_size_per_device for row in group if row.devices == fewest}
        sizes = [str(size) for size in sorted(base, key=str)]
        for row in group:
            batch, devices = row.batch_size_per_device, row.devices
            if batch is not None and devices is not None and batch not in base:
                yield row.id, mixed_batch(batch=batch, devices=devices, base_batches=sizes, base_devices=fewest)


def _find_pooled_unknown(rows: Sequence[RunRow]) -> Iterator[tuple[str, Message]]:
    """Repeats that may be runs of different code or machines, since they do not tell."""
    groups: dict[tuple[object, ...], list[RunRow]] = {}
    for row in without_replaced(rows):
        if row.outcome == "ok" and origin_of(row).place is not None:
            groups.setdefault(pooling_key(row), []).append(row)
    for group in groups.values():
        for row in group if len(group) > 1 else ():
            place = origin_of(row).place or None
            is_log = row.source not in ("trainmark", "command")
            yield (
                row.id,
                pooled_unknown(num=len(group), folder=place if is_log else None, sweep=None if is_log else place),
            )
