"""PSENet learns to find words on a generated set, through the real pipeline, from scratch, in a minute of one core.

The full-size version is a command in docs/guides/psenet.md. Here the images are small, the words large and few, and the
optimizer's memory is short (momentum .9 instead of .99), because a minute holds 70 steps and not a thousand.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from trainmark.datasets.icdar2015.make import Page, make_icdar2015
from trainmark.workloads.card import ImageSize
from trainmark.workloads.psenet import metric
from trainmark.workloads.psenet import torch as workload
from trainmark.workloads.psenet.data import TextImages, open_data
from trainmark.workloads.torch import to_tensors

SIZE = ImageSize(height=64, width=64, flops_per_sample=1.0, batch_size=8)
PAGE = Page(height=128, width=160, max_words=3, max_letters=3, word_height=(0.25, 0.35), ignored_part=0.0)
NUM_STEPS, BATCH, RATE = 70, 8, 0.05


def collate(samples: Any) -> Any:
    return to_tensors(TextImages.collate(samples))


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def evaluate(model: nn.Module, pipeline: TextImages) -> dict[str, float]:
    model.eval()
    samples = [pipeline.eval_sample(index).arrays for index in range(pipeline.num_val)]
    counts = [workload.score(model, collate(samples[at : at + 4])) for at in range(0, len(samples), 4)]
    model.train()
    return metric.summarise(torch.stack(counts).sum(0).numpy(), None)


def train(model: nn.Module, pipeline: TextImages) -> list[float]:
    optimizer = torch.optim.SGD([vars(group) for group in workload.parameter_groups(model)], lr=RATE, momentum=0.9)
    losses: list[float] = []
    for epoch in range(1000):
        order = pipeline.order(seed=0, epoch=epoch, global_batch=BATCH)
        for indices in order.reshape(-1, BATCH).tolist():
            for group in optimizer.param_groups:
                group["lr"] = RATE * (0.1 if len(losses) > 0.75 * NUM_STEPS else 1.0)
            samples = [pipeline.train_sample(index, np.random.default_rng([0, epoch, index])) for index in indices]
            loss = workload.compute_loss(model, collate([sample.arrays for sample in samples]))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if len(losses) == NUM_STEPS:
                return losses
    raise AssertionError("unreachable")


@pytest.mark.timeout(1500)  # ten minutes where six others share two cores
def test_psenet_learns_to_find_words(tmp_path: Path) -> None:
    make_icdar2015(tmp_path / "words", num_images=32, val_fraction=0.25, num_workers=1, page=PAGE)
    pipeline = open_data(tmp_path / "words", size=SIZE)
    torch.manual_seed(0)
    model = workload.build_model(recipe="reference", device_type="cpu", num_classes=1, size=SIZE)
    untrained = evaluate(model, pipeline)
    losses = train(model, pipeline)
    trained = evaluate(model, pipeline)
    # Measured: the loss from 0.46 to 0.19, F from 0 to 0.74.
    assert np.mean(losses[-10:]) < min(0.3, 0.6 * np.mean(losses[:5])), losses
    assert untrained["f"] < 0.1
    assert trained["f"] > 0.4, trained
