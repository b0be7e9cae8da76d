"""PSENet-R50 on ICDAR 2015: the facts."""

from __future__ import annotations

from trainmark.workloads.card import Card, ImageSize, Schedule, Sgd, Target

_MACS_736 = 169.06e9
"""Multiply-adds of the convolutions of one forward pass at 736 x 736, counted once by torch.utils.flop_counter.

They grow with the area. Backward costs two forwards. The bilinear steps and the loss are not counted.
"""


def _size(side: int, batch_size: int) -> ImageSize:
    flops = 3 * 2 * _MACS_736 * (side / 736) ** 2
    return ImageSize(height=side, width=side, flops_per_sample=flops, batch_size=batch_size)


CARD = Card(
    name="psenet",
    title="PSENet-R50",
    task="scene-text detection",
    unit="images",
    frameworks=("torch", "paddle", "jax"),
    recipes=("reference", "fast"),
    recipes_of={"paddle": ("reference",)},
    sizes={"full": _size(736, 16), "medium": _size(384, 16), "small": _size(128, 2)},
    num_parameters=28_749_511,
    num_classes=1,
    num_train_samples=1000,
    # The recipe keeps its rate whatever the batch is: base_batch is None.
    schedule=Schedule(
        kind="step", base_lr=1e-3, base_batch=None, epochs=600, milestones=(200 / 600, 400 / 600), eval_epochs=10
    ),
    optimizer=Sgd(momentum=0.99, weight_decay=5e-4),
    targets=(Target(metric="f", value=0.785),),
    dataset="icdar2015",
    source="PSENet (Wang et al.), ICDAR 2015 without extra data",
    version=2,
)

NUM_KERNELS = 7
"""Maps of the network: map 0 is the whole text, map 6 the smallest kernel."""
SMALLEST_KERNEL = 0.4
"""Its rate of shrinking; those of the maps between are evenly spaced from 1."""
