"""The exact commands behind the results, each once; of imported logs one command for the folder they share."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Sequence

from trainmark.analyse.table import Line
from trainmark.store.rows import RunRow
from trainmark.units import ABSENT, plain


def list_commands(lines: Sequence[Line]) -> list[str]:
    runs = [run for line in lines for run in line.runs if run.asked is not None or run is line.first]
    imported = [run for run in runs if is_imported(run)]
    own = dict.fromkeys(run.asked or _rebuild(run) for run in runs if not is_imported(run))
    return [plain(command) for command in (*own, *_import_commands(imported))]


def is_imported(run: RunRow) -> bool:
    return run.source not in ("trainmark", "command")


def _import_commands(runs: Iterable[RunRow]) -> list[str]:
    folders = sorted({os.path.dirname(plain(run.source)) or "." for run in runs})  # noqa: PTH120 - a text, not a file
    if not folders:
        return []
    try:
        shared = os.path.commonpath(folders)
    except ValueError:  # absolute and relative
        return [shlex.join(("trainmark", "import", folder)) for folder in folders]
    return [shlex.join(("trainmark", "import", shared or "."))]


def _rebuild(row: RunRow) -> str:
    """For a run that did not record its command line: built from its facts. Every word is quoted for a shell."""
    if row.source == "command":
        nodes = row.nodes or 1
        known = {"--nodes": nodes if nodes > 1 else None, "--devices": row.devices // nodes if row.devices else None,
            "--batch-size": row.batch_size_per_device, "--precision": row.precision, "--seed": row.seed}  # fmt: skip
        flags = [str(word) for flag, value in known.items() if value is not None for word in (flag, value)]
        return f"trainmark run {shlex.join(flags)} -- {row.model}"
    given: dict[str, object] = {"--framework": row.framework, "--recipe": row.recipe, "--precision": row.precision,
        "--size": row.size, "--device": row.device, "--nodes": row.nodes,
        "--devices": (row.devices or 1) // (row.nodes or 1), "--batch-size": row.batch_size_per_device,
        "--data": row.data, "--seed": row.seed, "--epochs": row.epochs or None,
        "--lr": row.lr, "--until-target": next(iter(row.until_target.values()), None)}  # fmt: skip
    words = [word for flag, value in given.items() if value is not None for word in (flag, value)]
    return shlex.join(plain(word) for word in ("trainmark", "run", row.workload or row.model or ABSENT, *words))
