"""FCN-HRNetW18 on Cityscapes: the facts."""

from __future__ import annotations

from trainmark.workloads.card import Card, ImageSize, Schedule, Sgd, Target

NUM_TRAIN_IMAGES = 2975

_SEED_BATCH = 64
_SEED_ITERATIONS = 160_000
_SEED_EVAL_ITERATIONS = 2_000

_TRAIN_FLOPS = 220_648_587_264
"""Forward and backward of one crop of 1024 x 512, by torch's FlopCounterMode (convolutions only; the rest is small)."""


def _size(height: int, width: int, batch_size: int) -> ImageSize:
    flops = _TRAIN_FLOPS * (height * width) / (512 * 1024)
    return ImageSize(height=height, width=width, flops_per_sample=flops, batch_size=batch_size)


CARD = Card(
    name="hrnet_w18",
    title="FCN-HRNetW18",
    task="semantic segmentation",
    unit="images",
    frameworks=("torch", "paddle", "jax"),
    recipes=("reference", "fast"),
    recipes_of={"paddle": ("reference",)},
    sizes={"full": _size(512, 1024, 8), "small": _size(64, 128, 4)},
    num_parameters=9_640_830,
    num_classes=19,
    starts_uniform=True,
    num_train_samples=NUM_TRAIN_IMAGES,
    schedule=Schedule(
        kind="poly",
        base_lr=0.01,
        base_batch=_SEED_BATCH,
        epochs=_SEED_ITERATIONS * _SEED_BATCH / NUM_TRAIN_IMAGES,
        power=0.9,
        eval_epochs=_SEED_EVAL_ITERATIONS * _SEED_BATCH / NUM_TRAIN_IMAGES,
    ),
    optimizer=Sgd(momentum=0.9, weight_decay=5e-4),
    targets=(Target(metric="miou", value=0.78),),
    dataset="cityscapes",
    source="PaddleSeg FCN-HRNetW18, Cityscapes 1024x512",
    version=2,
    sync_batch_norm=True,
)
