"""The memory for reading a folder does not grow with its files, and what is left of a long run is still its speed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from making import make_run
from trainmark.runfolder.records import encode_record
from trainmark.store import step_columns
from trainmark.store.bounded import Thinned
from trainmark.store.folder import read_run
from trainmark.store.rank_records import read_rank


@pytest.mark.parametrize("num", [0, 1, 5, 8, 9, 17, 1000])
def test_a_thinned_list_is_even_and_has_both_ends(num: int) -> None:
    thinned = Thinned[int](4)
    for item in range(num):
        thinned.add(item)
    found = thinned.items
    assert len(found) <= 2 * 4 + 1
    assert found[:1] + found[-1:] == ([0, num - 1] if num else [])
    assert len(set(np.diff(found)[:-1])) <= 1


@pytest.mark.parametrize("num_steps", [7, 16, 17, 18, 33, 64, 100, 1001])
def test_neighbouring_steps_of_a_long_run_are_added_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, num_steps: int
) -> None:
    monkeypatch.setattr(step_columns, "MOST_STEPS", 8)
    path = tmp_path / "rank0.jsonl"
    facts = [
        {"kind": "step", "step": n, "seconds": n / 1000, "samples": 2 * n, "time_s": float(n), "loss": 1 / n,
         "rounding_s": 0.5, "unix_s": 100.0 + n}
        for n in range(1, num_steps + 1)
    ]  # fmt: skip
    path.write_bytes(b"".join(encode_record(record) for record in facts))
    found = read_rank(path)
    steps = found.steps
    assert (found.num_steps, len(steps.seconds) <= 17) == (num_steps, True)
    assert steps.seconds.sum() == pytest.approx(sum(fact["seconds"] for fact in facts))
    assert steps.samples.sum() == sum(fact["samples"] for fact in facts)
    assert steps.rounding.sum() == pytest.approx(num_steps / 2)
    assert (steps.steps[-1], steps.times[-1], steps.stamps[-1]) == (num_steps, num_steps, 100 + num_steps)
    group = int(steps.steps[0])
    assert np.all(np.diff(steps.steps)[:-1] == group), "all groups but the last have the same size"
    assert steps.samples[0] == sum(2 * n for n in range(1, group + 1))
    assert len(steps.losses) == len(steps.loss_steps) <= 17


def test_marked_steps_that_are_left_out_are_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "rank0.jsonl"
    path.write_bytes(encode_record({"kind": "step", "seconds": 0.1, "samples": 4.0}) * 10)
    assert read_rank(path, is_marked=True, most_steps=10).warnings == ()
    (warning,) = read_rank(path, is_marked=True, most_steps=4).warnings
    assert warning["message"].startswith("the speed is that of the first 4 steps; 6 later steps are left out")


def test_a_file_of_many_megabytes_needs_little_memory(tmp_path: Path) -> None:
    """In a process of its own, whose address space has room for it and no more."""
    folder = make_run(tmp_path, "run", seconds=[0.1])
    kinds = [{"kind": "warning", "code": "x", "message": "m" * 200}, {"kind": "eval", "value": 0.5, "metric": "top1"},
             {"kind": "telemetry", "unix_s": 1.0}, {"kind": "step", "seconds": 0.1, "samples": 4.0}]  # fmt: skip
    part = b"".join(encode_record(kind) for kind in kinds) * 100
    with (folder / "rank0.jsonl").open("ab") as file:
        for _ in range(500):
            file.write(part)
        file.write(b"x" * (40 << 20))
    code = (
        "import sys, resource; from pathlib import Path; from trainmark.store.folder import read_run\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "row = read_run(Path(sys.argv[1]))\n"
        "print(row.num_records, len(row.warnings), len(row.evals))\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=True, timeout=120
    )
    counts, grown_kb = done.stdout.splitlines()
    num_records, num_warnings, num_evals = (int(word) for word in counts.split())
    assert num_records == 50_001
    assert num_warnings <= 1001
    assert num_evals <= 20_001
    assert int(grown_kb) < 120_000


def test_deep_and_huge_values_are_passed_over(tmp_path: Path) -> None:
    folder = make_run(tmp_path, "run")
    with (folder / "rank0.jsonl").open("ab") as file:
        file.write(b"[" * 200_000 + b"\n" + b'{"kind": "step", "seconds": ' + b"9" * 10_000 + b', "samples": 4}\n')
        file.write(json.dumps({"kind": "eval", "value": 10**400, "metric": "x"}).encode() + b"\n")
    row = read_run(folder)
    assert row is not None
    assert len(row.seconds) == 50


@pytest.mark.parametrize("name", ["env.json", "rank0.jsonl"])
def test_millions_of_tiny_values_are_not_decoded(tmp_path: Path, name: str) -> None:
    """16 MB of them would need 900 MB."""
    folder = make_run(tmp_path, "run")
    bomb = json.dumps({"kind": "eval", "value": 0.5, "metric": "x", "many": [{}] * 700_000}).encode()
    if name == "env.json":
        (folder / name).write_bytes(bomb)
    else:
        with (folder / name).open("ab") as file:
            file.write(bomb + b"\n")
    row = read_run(folder)
    assert row is not None
    assert (len(row.seconds), row.evals, "many" in row.environment) == (50, (), False)
