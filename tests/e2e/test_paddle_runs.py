"""Paddle through the real command line: two processes on generated images, and a measurement that stops cleanly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_runs import results, trainmark

from making import make_images
from trainmark.runfolder.files import COMMAND_FILE
from trainmark.runfolder.records import read_records

pytest.importorskip("paddle")


def test_two_processes_train_and_evaluate_on_generated_images(tmp_path: Path) -> None:
    data = make_images(tmp_path / "data", per_class=4)
    argv = ["run", "resnet50", "--framework", "paddle", "--device", "cpu", "--size", "small", "--devices", "2"]
    training = ["--batch-size", "2", "--data", str(data), "--epochs", "1", "--lr", "0.01"]
    done = trainmark(*argv, *training, "--store", str(tmp_path / "s"), "--json", check=False)
    (result,) = results(done)
    folder = tmp_path / "s" / result["id"]
    assert result["framework"] == "paddle", done.stderr
    assert [e["metric"] for e in result["evals"]] == ["top1", "top5"], (folder / "output.log").read_text()[-2000:]
    assert json.loads((folder / COMMAND_FILE).read_text())["launcher"] == "paddle", "chosen without being asked for"
    losses = [[r["loss"] for r in read_records(folder / f"rank{rank}.jsonl") if r["kind"] == "step"] for rank in (0, 1)]
    assert len(losses[0]) == len(losses[1]) == result["records"] > 0
    assert losses[0] != losses[1], "the ranks see different images"
    assert "ccache" not in done.stderr
