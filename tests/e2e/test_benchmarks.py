"""A benchmark that nobody runs for a while breaks unseen; what it prints here is no measurement."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_SMALL = {
    "recording_overhead": ("--pairs", "2", "--block-s", "0.1", "--batch-size", "2"),
    "false_alarms": ("DIR", "--part", "same", "--comparisons", "1", "--steps", "20"),
    "coverage": ("--trials", "1", "--only", "every 10th", "--lengths", "100", "--processes", "1"),
    "gate_power": ("--trials", "2"),
    "verdict_errors": ("--trials", "2"),
    "crop_decoding": ("--images", "10", "--rounds", "2"),
    "pse_expansion": ("--repeats", "1"),
    "import_speed": ("--gigabytes", "0.001", "--passes", "1"),
    "dense_import": ("--megabytes", "3", "--passes", "1", "--program", "timm"),
    "observer_cost": ("--script", "images", "--pairs", "2", "--block-s", "0.05"),
    "plan_ranges": ("--sweeps", "0"),
    "many_runs": ("--runs", "3", "--passes", "1"),
    "fast": (
        "--device", "cpu", "--only", "resnet50", "--size", "small", "--batch-size", "1", "--seconds", "0.1",
        "--rounds", "2", "--output", "DIR/fast.jsonl", "--profile-start", "DIR/start",
    ),
    "feed": (
        "--device", "cpu", "--data", "DIR/data", "--only", "resnet50", "--images", "100", "--size", "small",
        "--batch-size", "1", "--seconds", "0.1", "--rounds", "1", "--output", "DIR/feed.jsonl",
    ),
    "frameworks": (
        "--only", "resnet50", "--variants", "torch:reference", "--batch-size", "1", "--seconds", "0.1", "--rounds", "2",
        "--output", "DIR/frameworks.jsonl",
    ),
    "all_trainings": ("DIR", "--frameworks", "torch", "--only", "resnet50", "--max-minutes", "0"),
    "parity_mutants": ("--only", "label-smoothing", "--expected-only"),
    "parity_table": ("DIR/store", "--print-only"),
    "same_metric": (
        "DIR/results.json", "--frameworks", "torch", "--workloads", "resnet50", "--seeds", "1", "--epochs", "1",
        "--images", "48",
    ),
    "versions": (
        "--device", "cpu", "--rows", "resnet50:fp32:1", "--size", "small", "--rounds", "1", "--seconds", "0.1",
        "--output", "DIR/versions.jsonl",
    ),
    "small_costs": ("--passes", "1", "--images", "40"),
    "large_files": ("--megabytes", "1", "--line-megabytes", "1"),
}  # fmt: skip
_NEEDS_A_GPU = {"gpu_resize"}
"""Which CI has not."""
_SHARED = {"json_rows"}
"""What several benchmarks import."""


def test_no_benchmark_is_forgotten() -> None:
    assert {path.stem for path in (_ROOT / "benchmarks").glob("*.py")} == {*_SMALL, *_NEEDS_A_GPU, *_SHARED}


def test_public_scripts_are_all_described() -> None:
    """The scripts themselves are not here; `benchmarks/public_scripts` runs them by hand."""
    argv = [sys.executable, _ROOT / "benchmarks" / "public_scripts", "--list"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) >= 20


@pytest.mark.parametrize("name", _SMALL)
def test_it_runs(name: str, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(_ROOT / "src")}
    argv = [
        sys.executable,
        _ROOT / "benchmarks" / f"{name}.py",
        *(word.replace("DIR", str(tmp_path)) for word in _SMALL[name]),
    ]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    if name == "recording_overhead":
        found = json.loads(done.stdout)
        assert found["steps_per_block"] >= 1
        low, high = found["ci95"]
        assert low <= found["overhead"] <= high
        assert found["pairs"] == 2
