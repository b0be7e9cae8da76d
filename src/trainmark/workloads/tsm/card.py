"""TSM-ResNet50 on Kinetics-400, 8 frames of a clip: the facts."""

from __future__ import annotations

from trainmark.workloads.card import Card, ImageSize, Schedule, Sgd, Target

NUM_FRAMES = 8

_FORWARD_FLOPS_224 = 8.176e9
"""Of one frame at 224 x 224, by torch.utils.flop_counter, with 400 classes; they grow with the area.

The shift moves data and computes nothing. Backward costs two forwards.
"""


def _size(side: int, batch_size: int) -> ImageSize:
    flops = 3 * NUM_FRAMES * _FORWARD_FLOPS_224 * (side / 224) ** 2
    return ImageSize(height=side, width=side, flops_per_sample=flops, batch_size=batch_size, num_frames=NUM_FRAMES)


CARD = Card(
    name="tsm",
    title="TSM-ResNet50, 8 frames",
    task="video recognition",
    unit="clips",
    frameworks=("torch", "paddle", "jax"),
    recipes=("reference", "fast", "unshifted"),
    recipes_of={"paddle": ("reference", "unshifted")},
    sizes={"full": _size(224, 16), "medium": _size(112, 32), "small": _size(32, 2)},
    num_parameters=24_327_632,
    num_classes=400,
    starts_uniform=True,
    num_train_samples=234_584,
    schedule=Schedule(kind="step", base_lr=0.02, base_batch=128, epochs=50, milestones=(20 / 50, 40 / 50), gamma=0.1),
    optimizer=Sgd(momentum=0.9, weight_decay=1e-4, clip_norm=20.0),
    targets=(Target(metric="top1", value=0.711),),
    dataset="kinetics",
    source="TSM: Temporal Shift Module for Efficient Video Understanding, official PyTorch recipe, 8 segments",
    version=2,
)

DROPOUT = 0.5
