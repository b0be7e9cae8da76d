"""Whole reports against stored ones: what a reader sees changes only on purpose.

After a wanted change: TRAINMARK_REWRITE_GOLDEN=1 pytest tests/golden, and read the diff.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from making import make_cell, make_run
from reporting import markdown_of
from trainmark.analyse.table import build_lines
from trainmark.messages.endings import controller_stopped
from trainmark.messages.ranks import no_step
from trainmark.store.folder import read_run

HERE = Path(__file__).parent
ENVIRONMENT = {
    "cpu": "Example CPU", "num_cores": 16, "memory_bytes": 128 << 30, "system": "Linux-6.1", "python": "3.11.7",
    "trainmark": "0.1.0", "framework": "torch 2.11.0", "device_name": "NVIDIA H200", "cuda": "13.0", "cudnn": 91900,
    "flags": {"tf32_matmul": False, "layout": "channels_last", "whole_step_graph": True},
}  # fmt: skip


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_markdown(tmp_path: Path, lang: str) -> None:
    noise = np.random.default_rng(7)
    rows = []
    for devices, seconds in ((1, 0.0177), (2, 0.0184), (8, 0.0192)):
        for repeat in (1, 2, 3):
            cell = make_cell(
                device="cuda", size="full", recipe="fast", precision="bf16", batch_size_per_device=128,
                devices_per_node=devices, repeat=repeat,
            )  # fmt: skip
            steps = [40.0, *(seconds * (1 + 0.01 * noise.standard_normal(200))).tolist()]
            killed = devices == 8 and repeat == 3
            folder = make_run(
                tmp_path, f"run-{devices}-{repeat}", cell=cell, seconds=steps, outcome="hang" if killed else "ok",
                reason=no_step(seconds=60.0, usual_s=None, causes=[]) if killed else controller_stopped(),
            )  # fmt: skip
            (folder / "env.json").write_text(json.dumps(ENVIRONMENT))
            rows.append(read_run(folder))
    text = markdown_of(build_lines([row for row in rows if row is not None]), lang=lang)
    golden = HERE / f"report.{lang}.md"
    if os.environ.get("TRAINMARK_REWRITE_GOLDEN"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")
