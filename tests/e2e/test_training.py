"""Training to a target, kept, killed and resumed, through the real command line on the CPU."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from test_runs import command, results, trainmark

from making import make_images
from trainmark.runfolder.files import CHECKPOINT_FILE
from trainmark.runfolder.records import read_records
from trainmark.weights.loading import Start, load_start
from trainmark.workloads.resnet50.weights import tensor_shapes
from waiting import wait_until

ARGV = ["run", "resnet50", "--device", "cpu", "--size", "small", "--batch-size", "4", "--epochs", "4", "--json"]


def losses(folder: Path) -> dict[int, float]:
    return {r["step"]: r["loss"] for r in read_records(folder / "rank0.jsonl") if r["kind"] == "step"}


def evaluations(folder: Path) -> list[tuple[int, str, float]]:
    found = read_records(folder / "rank0.jsonl")
    return [(r["step"], r["metric"], r["value"]) for r in found if r["kind"] == "eval"]


def as_it_starts(path: Path) -> Start:
    return load_start(path, workload="resnet50", shapes=tensor_shapes(2), recipe="reference", seed=0)


def start_and_kill_after_two_epochs(argv: list[str], store: Path) -> None:
    process = subprocess.Popen(command(*argv), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def is_past_two_epochs() -> bool:
        folders = [path.parent for path in store.glob("*/" + CHECKPOINT_FILE)]
        return any(len(evaluations(folder)) >= 4 and max(losses(folder)) > 8 for folder in folders)

    wait_until(is_past_two_epochs, seconds=240, what="two epochs are done and the third has begun")
    process.send_signal(signal.SIGKILL)
    process.wait()


@pytest.mark.parametrize("framework", ["torch", "paddle", "jax"])
def test_a_training_killed_and_resumed_has_the_losses_of_an_undisturbed_one(framework: str, tmp_path: Path) -> None:
    argv = [*ARGV, "--framework", framework, "--data", str(make_images(tmp_path / "data", per_class=8))]
    (whole,) = results(trainmark(*argv, "--store", str(tmp_path / "whole"), check=False))
    torn = tmp_path / "torn"
    start_and_kill_after_two_epochs([*argv, "--store", str(torn)], torn)
    (first,) = (path.name for path in torn.iterdir() if path.is_dir())
    done = trainmark(*argv, "--store", str(torn), check=False)
    assert f"resuming from {first}" in done.stderr
    (resumed,) = results(done)
    assert resumed["resumed_from"] == resumed["retry_of"] == first
    folders = tmp_path / "whole" / whole["id"], torn / resumed["id"]
    assert losses(folders[0]) == losses(folders[1])
    assert sorted(losses(folders[1])) == list(range(1, 17))
    assert evaluations(folders[0]) == evaluations(folders[1])
    assert whole["outcome"] == resumed["outcome"]
    target = tmp_path / "neutral.safetensors"
    trainmark("weights", whole["id"], "--store", str(tmp_path / "whole"), "--output", str(target))
    kept, written = (as_it_starts(path) for path in (folders[0] / CHECKPOINT_FILE, target))
    assert (kept.num_loaded, written.file.stored.about["framework"]) == (267, framework)
    assert {n: a.tobytes() for n, a in kept.arrays.items()} == {n: a.tobytes() for n, a in written.arrays.items()}


def test_until_target_stops_at_the_first_evaluation_that_reaches_it(tmp_path: Path) -> None:
    """A target so low that any network has it after one epoch."""
    argv = [*ARGV, "--data", str(make_images(tmp_path / "data", per_class=8)), "--store", str(tmp_path / "s")]
    (result,) = results(trainmark(*argv, "--until-target", "0.01", "--lr", "0.01"))
    assert result["outcome"] == "ok"
    assert result["until_target"] == {"top1": 0.01}
    assert [e["epoch"] for e in result["evals"]] == [1, 1]
    assert result["time_to_train_s"] == result["evals"][0]["time_s"] > 0
    assert set(result["pauses"]) == {"eval", "checkpoint"}
    speeds = result["speeds"]
    assert speeds["raw"] < speeds["without_evaluation"] < speeds["pure_step"]
    checkpoint: dict[str, Any] = torch.load(tmp_path / "s" / result["id"] / CHECKPOINT_FILE, weights_only=True)
    assert checkpoint["progress"]["num_steps"] == 4


def test_nothing_to_resume_is_said(tmp_path: Path) -> None:
    argv = [*ARGV, "--data", str(make_images(tmp_path / "data")), "--store", str(tmp_path / "s"), "--max-steps", "1"]
    assert "starting from the beginning" in trainmark(*argv, "--resume", check=False).stderr
