"""JAX through the real command line: what a run records of the settings that decide its speed."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest
from test_rank_faults import PLANTED
from test_runs import trainmark

from trainmark.analyse.identity import identity_of
from trainmark.store.folder import read_run

FLAGS = "--xla_backend_optimization_level=0"


@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="jax is not installed")
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_repeats_of_two_ranks_are_one_result_and_name_what_xla_was_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**PLANTED, "XLA_FLAGS": f"{FLAGS} --xla_dump_to={tmp_path / 'dump'}"}.items():
        monkeypatch.setenv(name, value)
    argv = ["run", "resnet50", "--framework", "jax", "--device", "cpu", "--size", "small", "--devices", "2"]
    limits = ["--batch-size", "2", "--max-seconds", "0.5", "--repeat", "2"]
    trainmark(*argv, *limits, "--store", str(tmp_path / "s"))
    rows = [read_run(path.parent) for path in (tmp_path / "s").glob("*/run.json")]
    found = [identity_of(row) for row in rows if row is not None]
    assert len(found) == 2
    assert found[0].is_known
    assert [getattr(found[0], axis) == getattr(found[1], axis) for axis in ("work", "code", "machine")] == [True] * 3
    assert found[0].fact("XLA_FLAGS") == FLAGS
    assert found[0].fact("optax")
