"""How many iterations the first record of a log covers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from samples import import_text


def mmseg(steps: Sequence[int]) -> str:
    text = "samples_per_gpu=4,\nDistributed training: False\noptimizer_config = dict()\n"
    for place, step in enumerate(steps):
        text += f"2024-01-01 10:{place:02d}:00,1 - mmseg - INFO - Iter [{step}/80000]\tlr: 1e-2, "
        text += "time: 0.500, data_time: 0.01, memory: 1024, loss: 1.0\n"
    return text


@pytest.mark.parametrize(
    ("steps", "num_steps"),
    [
        ((50050, 50100, 50150), [50, 50, 50]),
        ((50050, 50050, 50100), [50, 50, 50]),
        ((50, 100, 150), [50, 50, 50]),
        ((1, 50, 100), [1, 49, 50]),
        ((10, 100, 200), [10, 90, 100]),
    ],
)
def test_a_resumed_log_prints_as_often_at_first_as_later(
    steps: Sequence[int], num_steps: list[int], tmp_path: Path
) -> None:
    import_text(tmp_path, mmseg(steps))
    (file,) = tmp_path.rglob("steps.npy")
    assert np.load(file)["num_steps"].tolist() == num_steps
