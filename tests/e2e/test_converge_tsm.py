"""TSM learns the order of events through the real pipeline, and does not without the shift.

ResNet-50 from scratch needs minutes of a GPU for that, so this is the same code with one block a stage instead of 3, 4,
6 and 3, with 4 frames of 32 pixels: generated clips on disk, the workload's own pipeline, feed, step, score and metric.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from trainmark.datasets.kinetics.make import make_kinetics
from trainmark.worker.feed import DataFeed, open_feed
from trainmark.worker.samples import Share
from trainmark.worker.torch.sources import TorchSources
from trainmark.worker.torch.step import Precision, TrainStep
from trainmark.workloads.card import ImageSize
from trainmark.workloads.schedules import learning_rate
from trainmark.workloads.tsm import metric
from trainmark.workloads.tsm import torch as workload
from trainmark.workloads.tsm.card import CARD
from trainmark.workloads.tsm.data import open_data

NUM_CLASSES = 3
SIZE = ImageSize(height=32, width=32, flops_per_sample=1.0, batch_size=12, num_frames=4)
NUM_EPOCHS, PEAK = 16, 0.002


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("kinetics") / "made"
    make_kinetics(
        root, num_clips=96, num_classes=NUM_CLASSES, val_fraction=0.375, num_workers=1, size=(48, 64), num_frames=16
    )
    return root


def train(root: Path, *, is_shifted: bool) -> tuple[float, float, float]:
    """Top-1 before and after, and the last loss."""
    torch.manual_seed(0)
    model = workload.Tsm(
        num_classes=NUM_CLASSES, num_frames=SIZE.num_frames, is_shifted=is_shifted, layers=(1, 1, 1, 1)
    )
    share = Share(rank=0, world_size=1, batch_size=SIZE.batch_size, seed=0)
    cpu = torch.device("cpu")
    sources = TorchSources(workload=workload, size=SIZE, device=cpu, input_dtype=torch.float32, channels_last=False)
    feed = open_feed(open_data(root, size=SIZE), share, sources)
    precision = Precision.of("fp32", "cpu")
    step = TrainStep(model=model, workload=workload, optimizer_facts=CARD.optimizer, precision=precision)
    before = evaluate(model, feed)
    num_steps = NUM_EPOCHS * feed.steps_per_epoch
    feed.begin_epoch(0)
    for number in range(num_steps):
        step.set_learning_rate(learning_rate(CARD.schedule, peak=PEAK, step=number, num_steps=num_steps))
        step.run(feed.next_batch())
    assert feed.warnings() == []
    return before, evaluate(model, feed), step.loss.item()


def evaluate(model: torch.nn.Module, feed: DataFeed[Any]) -> float:
    model.eval()
    with torch.no_grad():
        scores = sum(workload.score(model, batch) for batch in feed.eval_batches())
    model.train()
    return metric.summarise(scores.numpy(), None)["top1"]  # type: ignore[union-attr]


def test_the_order_of_events_is_learned_with_the_shift_and_only_with_it(clips: Path) -> None:
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)  # small pictures: more threads would only wait for each other
    try:
        before, after, loss = train(clips, is_shifted=True)
        _, control, _ = train(clips, is_shifted=False)
    finally:
        torch.set_num_threads(num_threads)
    assert before < 0.6
    assert after > 0.85, f"top-1 {after:.2f}, loss {loss:.3f}"
    assert control < 0.6, "36 clips of three classes, all made of the same frames: nothing to be seen without order"
