"""What a terminal shows, against stored captures: 80 and 140 columns, and a pipe. Nothing here has a colour.

After a wanted change: TRAINMARK_REWRITE_GOLDEN=1 pytest tests/golden, and read the diff.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from making import make_cell, make_run
from trainmark.analyse.table import build_lines
from trainmark.messages.endings import controller_stopped
from trainmark.messages.ranks import no_step
from trainmark.report.console import print_lines
from trainmark.report.run_page import print_run
from trainmark.store.folder import read_run
from trainmark.store.rows import RunRow

HERE = Path(__file__).parent
ENVIRONMENT = {
    "cpu": "Example CPU", "num_cores": 16, "system": "Linux-6.1", "python": "3.11.7", "trainmark": "0.1.0",
    "framework": "torch 2.11.0", "device_name": "NVIDIA H200", "cuda": "13.0", "hostname": "node1",
}  # fmt: skip


@pytest.fixture
def rows(tmp_path: Path) -> list[RunRow]:
    noise = np.random.default_rng(7)
    found = []
    for precision in ("fp32", "bf16"):
        for devices in (1, 8):
            cell = make_cell(
                device="cuda", size="full", precision=precision, batch_size_per_device=128, devices_per_node=devices
            )
            steps = [40.0, *(0.02 * (1 + 0.01 * noise.standard_normal(400))).tolist()]
            is_stuck = (precision, devices) == ("bf16", 8)
            folder = make_run(
                tmp_path, f"run-{precision}-{devices}", cell=cell, seconds=steps, outcome="hang" if is_stuck else "ok",
                reason=no_step(seconds=60.0, usual_s=0.02, causes=[]) if is_stuck else controller_stopped(),
                extra=[{"kind": "eval", "step": 400, "epoch": 1, "metric": "top1", "value": 0.5}],
            )  # fmt: skip
            (folder / "env.json").write_text(json.dumps(ENVIRONMENT))
            row = read_run(folder)
            assert row is not None
            found.append(row)
    return found


def capture(path: Path, *, width: int, is_pipe: bool = False) -> Console:
    return Console(file=path.open("w", encoding="utf-8"), width=width, highlight=False, soft_wrap=is_pipe)


def check(path: Path, name: str, *, without: Path | None = None) -> None:
    text = path.read_text(encoding="utf-8")
    text = text.replace(str(without), "runs") if without is not None else text
    golden = HERE / name
    if os.environ.get("TRAINMARK_REWRITE_GOLDEN"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")
    assert "\x1b" not in text


@pytest.mark.parametrize(("name", "width", "is_pipe"), [("80", 80, False), ("140", 140, False), ("pipe", 80, True)])
def test_show(rows: list[RunRow], tmp_path: Path, name: str, width: int, is_pipe: bool) -> None:
    path = tmp_path / "out.txt"
    console = capture(path, width=width, is_pipe=is_pipe)
    print_lines(build_lines(rows), console)
    console.file.close()
    check(path, f"show.{name}.txt")
    if not is_pipe:
        assert max(map(len, path.read_text(encoding="utf-8").splitlines())) <= width


def test_no_color_on_a_terminal(rows: list[RunRow], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same text; headings may be bold, but nothing is coloured."""
    monkeypatch.setenv("NO_COLOR", "1")
    path = tmp_path / "out.txt"
    with path.open("w", encoding="utf-8") as file:
        print_lines(build_lines(rows), Console(file=file, width=80, highlight=False, force_terminal=True))
    text = path.read_text(encoding="utf-8")
    assert set(re.findall(r"\x1b\[([0-9;]*)m", text)) <= {"0", "1", "2"}
    path.write_text(re.sub(r"\x1b\[[0-9;]*m", "", text), encoding="utf-8")
    check(path, "show.80.txt")


def test_show_run(rows: list[RunRow], tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    console = capture(path, width=80)
    print_run(rows[0], tmp_path / rows[0].id, console)
    console.file.close()
    check(path, "show-run.80.txt", without=tmp_path)
