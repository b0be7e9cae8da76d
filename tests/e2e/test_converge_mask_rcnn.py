"""Mask R-CNN learns: files on disk, the real pipeline, the engine's own step, COCO's own metric."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch

from trainmark.datasets.coco.make import make_coco
from trainmark.worker.torch.step import Precision, TrainStep
from trainmark.workloads.card import ImageSize
from trainmark.workloads.mask_rcnn import metric
from trainmark.workloads.mask_rcnn import torch as workload
from trainmark.workloads.mask_rcnn.card import CARD
from trainmark.workloads.mask_rcnn.data import CocoImages, open_data
from trainmark.workloads.schedules import learning_rate
from trainmark.workloads.torch import to_tensors

SIZE = ImageSize(height=64, width=80, flops_per_sample=0.0, batch_size=2)
NUM_IMAGES, NUM_STEPS, PEAK = 2, 60, 0.01


def collate(samples: Any) -> Any:
    return to_tensors(CocoImages.collate(samples))


def make_folder(root: Path) -> Path:
    """Two images to learn by heart: the validation part is the training part."""
    make_coco(root, num_images=NUM_IMAGES, num_classes=2, val_fraction=0, seed=1, num_workers=1, mean_size=(64, 80))
    shutil.copytree(root / "train2017", root / "val2017")
    shutil.copy(root / "annotations/instances_train2017.json", root / "annotations/instances_val2017.json")
    return root


def evaluate(model: Any, pipeline: CocoImages) -> dict[str, float]:
    model.eval()
    with torch.no_grad():
        samples = [pipeline.eval_sample(index).arrays for index in range(pipeline.num_val)]
        items = [found for sample in samples for found in workload.score(model, collate([sample]))]
    model.train()
    return metric.summarise(items, pipeline.truth)  # type: ignore[arg-type]


def test_two_images_are_learnt_from_scratch(tmp_path: Path) -> None:
    pipeline = open_data(make_folder(tmp_path / "coco"), size=SIZE)
    torch.manual_seed(0)
    model = workload.build_model(recipe="reference", device_type="cpu", num_classes=pipeline.num_classes, size=SIZE)
    step = TrainStep(
        model=model.train(),
        workload=workload,  # type: ignore[arg-type]
        optimizer_facts=CARD.optimizer,
        precision=Precision.of("fp32", "cpu"),
    )
    before = evaluate(model, pipeline)
    losses = []
    order = np.concatenate([pipeline.order(seed=0, epoch=epoch, global_batch=2) for epoch in range(NUM_STEPS)])
    for number, chunk in enumerate(order.reshape(-1, 2)):
        samples = [pipeline.train_sample(int(i), np.random.default_rng([number, int(i)])).arrays for i in chunk]
        step.set_learning_rate(learning_rate(CARD.schedule, peak=PEAK, step=number, num_steps=NUM_STEPS))
        step.run(collate(samples))
        losses.append(step.loss.item())
    after = evaluate(model, pipeline)
    assert before["box_ap50"] < 0.2
    assert after["box_ap50"] > 0.7
    assert after["mask_ap50"] > 0.7
    assert np.mean(losses[-10:]) < 0.5 * np.mean(losses[:3])
