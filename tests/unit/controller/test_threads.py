"""How many threads each process of a CPU run gets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from trainmark.controller.workload import SpecOptions, make_plan, make_tasks
from trainmark.launch.job import worker_environment
from trainmark.plan.machine import Machine


@pytest.mark.parametrize(
    ("framework", "devices", "threads"), [("torch", 1, "6"), ("torch", 2, "3"), ("paddle", 1, "1"), ("paddle", 2, "1")]
)
def test_the_cores_are_shared_out_but_paddle_is_slower_with_several_threads(
    framework: str, devices: int, threads: str, tmp_path: Path
) -> None:
    asked = {"framework": framework, "device": "cpu", "size": "small", "devices": devices}
    plan = make_plan(SpecOptions(what="resnet50", overrides=asked))
    machine: Machine = replace(plan.machine, num_cores=6)
    (task,) = make_tasks(replace(plan, machine=machine), plan.cells)
    assert worker_environment(task.job("run", tmp_path))["OMP_NUM_THREADS"] == threads
