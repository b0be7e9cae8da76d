"""The digest that ties a proof of parity to the code of runs: what changes it, and what does not."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from trainmark.controller import parity_code
from trainmark.controller.parity_code import read_check_code
from trainmark.worker import training_code as module
from trainmark.worker.training_code import read_training_code

SOURCE = Path(str(module.__file__)).parents[1]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of trainmark's sources, whose digests are taken."""
    copy = tmp_path / "trainmark"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__", "report", "store", "logs"))
    cards = {name: type("Card", (), {"__file__": str(copy / "workloads" / name / "card.py")}) for name in ("tsm",)}
    for target in (module, parity_code):
        monkeypatch.setattr(target, "PACKAGE", copy)
        monkeypatch.setattr(target, "engine_folder", lambda framework: copy / "worker" / framework)
    monkeypatch.setattr(module, "load_module", lambda workload, part: cards[workload])
    return copy


def changes(package: Path, name: str, digest: Callable[[], str]) -> bool:
    before = digest()
    (package / name).write_text((package / name).read_text() + "\n# changed\n")
    return digest() != before


@pytest.mark.parametrize(
    ("name", "is_part"),
    [
        ("workloads/tsm/data.py", True),
        ("workloads/tsm/paddle.py", True),
        ("workloads/tsm/torch.py", False),
        ("workloads/psenet/data.py", False),
        ("workloads/schedules.py", True),
        ("workloads/paddle_layers.py", True),
        ("workloads/jax_layers.py", False),
        ("worker/feed.py", True),
        ("worker/training.py", True),
        ("worker/recorder.py", False),
        ("worker/paddle/step.py", True),
        ("worker/paddle/probe.py", False),
        ("worker/torch/step.py", False),
        ("weights/neutral.py", True),
        ("datasets/kinetics/read.py", True),
        ("datasets/coco/read.py", False),
    ],
)
def test_what_decides_a_training_is_part_of_its_code(name: str, is_part: bool, package: Path) -> None:
    assert changes(package, name, lambda: read_training_code("tsm", "paddle")) is is_part


@pytest.mark.parametrize(
    ("name", "is_part"),
    [
        ("analyse/parity.py", True),
        ("analyse/parity_trajectory.py", True),
        ("controller/parity.py", True),
        ("controller/parity_inputs.py", True),
        ("worker/probe.py", True),
        ("worker/probe_files.py", True),
        ("worker/paddle/probe.py", True),
        ("worker/jax/probe.py", False),
        ("worker/paddle/step.py", False),
    ],
)
def test_what_decides_a_check_is_part_of_its_code(name: str, is_part: bool, package: Path) -> None:
    assert changes(package, name, lambda: read_check_code(["torch", "paddle"])) is is_part
