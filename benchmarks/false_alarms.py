"""How often a verdict is false, and how small a slow-down is found, on this machine.

A script of CPU-bound steps lies in two checkouts of one repository. Each comparison measures it three times in each,
in the order A B B A A B, so that a machine that slowly changes its speed changes both sides alike. Every run is a
process of its own under `trainmark run -- CMD`; the verdicts are those of `compare` and `check`.

    python benchmarks/false_alarms.py DIR                               # 100 with the same code on both sides, 30 slower
    python benchmarks/false_alarms.py DIR --part same --comparisons 100
    python benchmarks/false_alarms.py DIR --part slower --planted 30 --slow-down 0.03
    python benchmarks/false_alarms.py DIR --part report                 # judges what DIR holds; measures nothing

What is finished is kept in DIR, and the same command continues. Leave the machine alone while it measures.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median, stdev, variance

from trainmark.analyse.analysis import estimate_run
from trainmark.analyse.verdict import Side, Verdict, judge
from trainmark.cli.main import main as trainmark
from trainmark.cli.output import open_store

_ORDER = "ABBAAB"
_UNITS = 1000
"""Of work in a step; a slow-down of 3% is 30 more."""
_SCRIPT = '''\
"""Steps of a known amount of work that fits the first-level cache, so that only the processor's speed matters."""
import hashlib

from trainmark import mark

DATA = bytes(4096)

for _ in range({steps} + 1):
    digest = hashlib.sha256()
    for _ in range({units}):
        digest.update(DATA)
    mark.step(samples=1)
'''
_LADDER = (0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.06, 0.08, 0.10, 0.15, 0.20)
_WANTED = 0.9


@dataclass(frozen=True, kw_only=True)
class Comparison:
    a: tuple[float, ...]
    b: tuple[float, ...]


# -- measuring ---------------------------------------------------------------------------------------------------------


def measure(folder: Path, part: str, number: int, *, steps: int, slow_down: float) -> None:
    """Continue up to `number` comparisons."""
    kept = folder / f"{part}.jsonl"
    checkouts = {side: folder / f"{part}-{side}" for side in "AB"}
    _make_checkout(checkouts["A"], _SCRIPT.format(steps=steps, units=_UNITS), source=None)
    units = round(_UNITS * (1 + slow_down))
    _make_checkout(checkouts["B"], _SCRIPT.format(steps=steps, units=units), source=checkouts["A"])
    for count in range(len(_read(kept)), number):
        values: dict[str, list[float]] = {"A": [], "B": []}
        for side in _ORDER:
            values[side].append(_run(checkouts[side], folder / f"{part}-runs"))
        with kept.open("a") as file:
            file.write(json.dumps(values) + "\n")
        print(f"{part}: {count + 1} of {number}", file=sys.stderr)


def _make_checkout(folder: Path, script: str, *, source: Path | None) -> None:
    if (folder / "train.py").exists():
        return
    quiet = [
        "git",
        "-c",
        "user.name=benchmark",
        "-c",
        "user.email=benchmark@localhost",
        "-c",
        "init.defaultBranch=main",
    ]
    start = ["init", "--quiet", str(folder)] if source is None else ["clone", "--quiet", str(source), str(folder)]
    subprocess.run([*quiet, *start], check=True)
    (folder / "train.py").write_text(script)
    subprocess.run([*quiet, "-C", str(folder), "add", "train.py"], check=True)
    subprocess.run([*quiet, "-C", str(folder), "commit", "--quiet", "--allow-empty", "-m", "Train"], check=True)


def _run(checkout: Path, store: Path) -> float:
    """One run by the command line itself, called in this process to save its start-up; the script has its own."""
    said = io.StringIO()
    with contextlib.chdir(checkout), contextlib.redirect_stdout(said), contextlib.redirect_stderr(io.StringIO()):
        code = trainmark(["run", "--json", "--store", str(store), "--", sys.executable, "train.py"])
    (result,) = json.loads(said.getvalue())["results"]
    if code != 0 or result["throughput"] is None:
        raise SystemExit(f"the run {result['id']} has no result: {result['reason']}")
    row = next(row for row in open_store(store).rows() if row.id == result["id"])
    estimate = estimate_run(row)
    assert estimate is not None
    return estimate.value


# -- judging -----------------------------------------------------------------------------------------------------------


def _read(path: Path) -> list[Comparison]:
    lines = path.read_text().splitlines() if path.exists() else []
    found = [json.loads(line) for line in lines]
    return [Comparison(a=tuple(values["A"]), b=tuple(values["B"])) for values in found]
