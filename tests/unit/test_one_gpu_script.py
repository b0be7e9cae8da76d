"""`benchmarks/one_gpu.sh guide`: which commands of a guide it runs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]


def commands_of(guide: str, tmp_path: Path, **variables: str) -> list[str]:
    """What it calls instead of trainmark; `data make` fails for videos, as it does without PyAV."""
    program = tmp_path / "program"
    program.write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/called\ncase "$*" in *--as-videos*) exit 2;; esac\n')
    program.chmod(0o755)
    environment = {
        **os.environ,
        "TRAINMARK": str(program),
        "DATA": str(tmp_path / "data"),
        "STORE": "runs",
        **variables,
    }
    argv = [_ROOT / "benchmarks" / "one_gpu.sh", "guide", guide]
    done = subprocess.run(argv, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return [line.split(" --store")[0] for line in (tmp_path / "called").read_text().splitlines()]


def test_videos_are_not_made(tmp_path: Path) -> None:
    make, train, unshifted = commands_of("tsm", tmp_path)
    assert make == "data make kinetics clips --images 1500"
    assert train == "run tsm --data clips --size medium --batch-size 8 --precision bf16 --epochs 20"
    assert unshifted == f"{train} --recipe unshifted"


@pytest.mark.parametrize(
    ("guide", "training"),
    [
        ("tsm", "run tsm --data clips --size medium --batch-size 8 --precision bf16 --epochs 20"),
        ("resnet50", "run resnet50 --data pictures --precision bf16 --epochs 14"),
    ],
)
def test_given_recipes_are_trained_once_in_the_place_of_the_guides_own(
    guide: str, training: str, tmp_path: Path
) -> None:
    _, *trained = commands_of(guide, tmp_path, RUN="--recipe reference,fast")
    assert trained == [training]
