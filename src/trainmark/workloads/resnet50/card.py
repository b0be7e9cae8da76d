"""ResNet-50 v1.5 on ImageNet-1k: the facts."""

from __future__ import annotations

from trainmark.workloads.card import Card, ImageSize, Schedule, Sgd, Target

_MACS_224 = 4.089e9
"""Multiply-adds of one forward pass at 224 x 224; they grow with the area. Backward costs two forwards."""


def _size(image_size: int, batch_size: int) -> ImageSize:
    flops = 3 * 2 * _MACS_224 * (image_size / 224) ** 2
    return ImageSize(height=image_size, width=image_size, flops_per_sample=flops, batch_size=batch_size)


CARD = Card(
    name="resnet50",
    title="ResNet-50 v1.5",
    task="image classification",
    unit="images",
    frameworks=("torch", "paddle", "jax"),
    recipes=("reference", "fast"),
    recipes_of={"paddle": ("reference",)},
    sizes={"full": _size(224, 128), "small": _size(64, 16)},
    num_parameters=25_557_032,
    num_classes=1000,
    starts_uniform=True,
    num_train_samples=1_281_167,
    schedule=Schedule(kind="cosine", base_lr=0.256, base_batch=256, epochs=50, warmup_share=8 / 50),
    optimizer=Sgd(momentum=0.875, weight_decay=1 / 32768),
    targets=(Target(metric="top1", value=0.759),),
    dataset="imagenet",
    source="NVIDIA NGC ResNet-50 v1.5; DLPerf speed protocol",
)

LABEL_SMOOTHING = 0.1
