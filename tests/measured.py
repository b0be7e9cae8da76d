"""Stores of measured cells for the tests of `check`: known speeds, machines, code and endings."""

from __future__ import annotations

import itertools
import json
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from making import make_cell, make_run
from trainmark.cli.output import open_store
from trainmark.controller.checking import Measured, read_measured
from trainmark.runfolder.files import ENVIRONMENT_FILE, EXIT_FILE, RUN_FILE, read_json, write_json
from trainmark.spec.cell import Cell

MACHINE = {"cpu": "A CPU", "hostname": "one", "num_cores": 8, "memory_bytes": 2**36}


@dataclass
class History:
    """Adds batches to a store, a minute apart."""

    root: Path
    _numbers: Any = field(default_factory=itertools.count)

    def measure(
        self,
        speed: float | list[float] = 100.0,
        *,
        runs: int = 3,
        spread: float = 0.002,
        cell: Cell | None = None,
        commit: str = "a" * 40,
        machine: dict[str, Any] | None = None,
        outcomes: tuple[str | None, ...] = (),
        memory: int | None = None,
        metric: tuple[str, float] | None = None,
        first_step_s: float | None = None,
        steps: int = 60,
        suite: str = "t",
    ) -> list[str]:
        """One sweep of a cell; `speed` in samples per second, of all runs around it or of each run."""
        batch = next(self._numbers)
        rng = random.Random(batch)
        speeds = speed if isinstance(speed, list) else [speed * (1 + rng.gauss(0, spread)) for _ in range(runs)]
        cell = cell or make_cell()
        found = []
        for number, own in enumerate(speeds, start=1):
            run_id, began = f"{self.root.name}-{batch:04d}-{number}", 1.7e9 + 60 * batch + number
            step_s = cell.global_batch_size / own
            extra: list[dict[str, Any]] = []
            if metric is not None:
                value = metric[1] + 0.0001 * number
                extra.append(
                    {"kind": "eval", "step": 60, "epoch": 1, "time_s": 1.0, "metric": metric[0], "value": value}
                )
            if memory is not None:
                extra.append({"kind": "phase", "phase": "end", "edge": "end", "peak_memory_bytes": memory + number})
            outcome = outcomes[number - 1] if number <= len(outcomes) else "ok"
            seconds = [step_s * (1 + rng.gauss(0, 0.01)) for _ in range(steps)]
            folder = make_run(self.root, run_id, cell=cell, seconds=seconds, outcome=outcome, extra=extra)
            _add(folder / RUN_FILE, created_unix_s=began, sweep=f"sweep-{batch}", suite=suite)
            git = {"commit": commit, "is_diff_known": True}
            write_json(folder / ENVIRONMENT_FILE, {"trainmark": "0.1", "git": git, **(machine or MACHINE)})
            if first_step_s is not None:
                _stamp_first_step(folder / "rank0.jsonl", began + first_step_s)
            found.append(run_id)
        return found

    def read(self, *, since_unix_s: float | None = None) -> Measured:
        return read_measured(open_store(self.root), since_unix_s=since_unix_s, tell=lambda _, __: None)


def _add(path: Path, **facts: Any) -> None:
    write_json(path, {**(read_json(path) or {}), **facts})


def _stamp_first_step(path: Path, unix_s: float) -> None:
    lines = path.read_text().splitlines(keepends=True)
    lines[0] = json.dumps({**json.loads(lines[0]), "unix_s": unix_s}) + "\n"
    path.write_text("".join(lines))


def change_run(root: Path, run_id: str, **facts: Any) -> None:
    _add(root / run_id / RUN_FILE, **facts)


def change_end(root: Path, run_id: str, **facts: Any) -> None:
    _add(root / run_id / EXIT_FILE, **facts)
