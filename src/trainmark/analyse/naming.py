"""Names by which people know cells."""

from __future__ import annotations

from pathlib import PurePath

from trainmark.store.rows import RunRow
from trainmark.units import plain


def short_model(row: RunRow) -> str:
    """A command without the paths of its interpreter and its script, which do not tell two commands apart."""
    if row.model is None:
        return PurePath(row.source).name
    if row.source != "command":
        return row.model
    words = row.model.split(" ")
    is_script = len(words) > 1 and not words[1].startswith("-")  # after python, -c and -m are not a script's name
    has_interpreter = is_script and words[0].rsplit("/", 1)[-1].startswith("python")
    first, *rest = words[1:] if has_interpreter else words
    return " ".join([first.rsplit("/", 1)[-1], *rest])


def cell_name(row: RunRow) -> str:
    """resnet50 (small) torch reference fp32, 1 x 8, batch 32, synthetic; without what is unknown.

    In ASCII where the facts are, since a pattern in a baseline file must match it.
    """
    size = f" ({row.size})" if row.size not in (None, "full") else ""
    what = [f"{row.workload or short_model(row)}{size}", row.framework, row.recipe, row.precision]
    parts = [
        " ".join(part for part in what if part),
        _devices(row),
        f"batch {row.batch_size_per_device}" if row.batch_size_per_device else None,
        PurePath(row.data).name if row.data else None,
        f"{row.epochs} epochs" if row.epochs else None,
    ]
    return plain(", ".join(part for part in parts if part))


def _devices(row: RunRow) -> str | None:
    if not row.devices:
        return None
    count = f"{row.nodes} x {row.devices // row.nodes}" if row.nodes else str(row.devices)
    return f"{count} cpu" if row.device == "cpu" else count
