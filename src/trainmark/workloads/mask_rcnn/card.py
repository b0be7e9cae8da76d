"""Mask R-CNN R50-FPN 1x on COCO: the facts."""

from __future__ import annotations

from collections.abc import Sequence

from trainmark.workloads.card import Card, ImageSize, Schedule, Sgd, Target

_ITERATIONS, _GLOBAL_BATCH = 45_000, 32
_NUM_TRAIN = 118_287
_LONG_PER_SHORT, _STRIDE = 1333 / 800, 32
_OBJECT_PLACES = (8, 32, 128, 512)

CARD = Card(
    name="mask_rcnn",
    title="Mask R-CNN R50-FPN 1x",
    task="instance segmentation",
    unit="images",
    frameworks=("torch", "paddle"),
    recipes=("reference", "fast", "torchvision"),
    recipes_of={"paddle": ("reference",)},
    # FLOPs by torch.utils.flop_counter, forward and backward: backbone (what is frozen has no backward), pyramid and
    # proposals on a synthetic image, 9.94e11 at `full`; the heads on a full sample of regions, which is the most. The
    # recipe `torchvision` has 1.7% more: its 3x3 convolutions have the strides.
    #
    # The short side of every image, and the width of synthetic ones; the long side of real ones is at most 1333/800 of
    # the short side. COCO's 640 x 480 becomes 1067 x 800; in a batch with others, padded, 1216 x 800 is usual.
    sizes={
        "full": ImageSize(height=800, width=1216, flops_per_sample=1.445e12, batch_size=4),
        "medium": ImageSize(height=320, width=480, flops_per_sample=6.079e11, batch_size=16),
        "small": ImageSize(height=96, width=128, flops_per_sample=3.37e10, batch_size=1),
    },
    num_parameters=44_125_173,
    num_classes=80,  # objects; the network has one more output, for the background
    num_train_samples=_NUM_TRAIN,
    schedule=Schedule(
        kind="step",
        base_lr=0.04,
        base_batch=_GLOBAL_BATCH,
        epochs=_ITERATIONS * _GLOBAL_BATCH / _NUM_TRAIN,
        warmup_steps=500,
        warmup_from=1 / 3,
        milestones=(33_000 / _ITERATIONS, 44_000 / _ITERATIONS),
    ),
    optimizer=Sgd(momentum=0.9, weight_decay=1e-4),
    targets=(Target(metric="box_ap", value=0.377), Target(metric="mask_ap", value=0.339)),
    dataset="coco",
    source="NVIDIA NGC Mask R-CNN for PyTorch, R50-FPN 1x",
    version=2,
    has_static_shapes=False,
)


def regions_per_image(size: ImageSize) -> int:
    """Regions to train on: the recipe's 512, a quarter of them with an object; fewer at `small`, for a CPU."""
    return 512 if size.height >= 320 else size.height // 4


def buckets_of(size: ImageSize) -> tuple[tuple[int, int], ...]:
    """Heights and widths that `fast` pads batches to: of wide images, of tall ones, and of both."""
    longest = -(-round(size.height * _LONG_PER_SHORT) // _STRIDE) * _STRIDE
    short = -(-size.height // _STRIDE) * _STRIDE
    wide = [(short, size.width), (short, longest)]
    return (*wide, *((width, height) for height, width in wide), (longest, longest))


def batch_shape(
    sizes: Sequence[tuple[int, int]], most_objects: int, buckets: Sequence[tuple[int, int]]
) -> tuple[int, int, int]:
    """Height, width and places for objects to which `fast` pads a batch of images of these sizes.

    `buckets`: the smallest first; a batch that fits none keeps its own size.
    """
    height, width = (-(-max(sides) // _STRIDE) * _STRIDE for sides in zip(*sizes, strict=True))
    fitting = (bucket for bucket in buckets if bucket[0] >= height and bucket[1] >= width)
    places = next((number for number in _OBJECT_PLACES if number >= most_objects), most_objects)
    return (*next(fitting, (height, width)), places)
