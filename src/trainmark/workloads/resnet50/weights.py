"""ResNet-50's tensors, and the names that torchvision, timm and PaddleClas give them.

TSM, PSENet and Mask R-CNN have the same body and use what is here.
"""

from __future__ import annotations

import re

from trainmark.workloads.layout import Layout, Rules, Shapes, batch_norm, convolution, linear, rewrite, together

BLOCKS = (3, 4, 6, 3)
CLASS_LAYERS = ("fc.",)
CLASSIFIER = ("fc.",)


def tensor_shapes(num_classes: int) -> Shapes:
    stem = convolution("conv1", 3, 64, 7) | batch_norm("bn1", 64)
    return stem | body_shapes(stem_width=64) | linear("fc", 2048, num_classes)


def body_shapes(*, stem_width: int) -> Shapes:
    parts, inputs = [], stem_width
    for stage, num_blocks in enumerate(BLOCKS):
        width = 64 << stage
        for block in range(num_blocks):
            name = f"layer{stage + 1}.{block}"
            parts += [convolution(f"{name}.conv1", inputs, width, 1), batch_norm(f"{name}.bn1", width)]
            parts += [convolution(f"{name}.conv2", width, width, 3), batch_norm(f"{name}.bn2", width)]
            parts += [convolution(f"{name}.conv3", width, 4 * width, 1), batch_norm(f"{name}.bn3", 4 * width)]
            if block == 0:
                parts += [convolution(f"{name}.downsample.0", inputs, 4 * width, 1)]
                parts += [batch_norm(f"{name}.downsample.1", 4 * width)]
            inputs = 4 * width
    return together(parts)


def rename_paddleclas(name: str) -> str:
    """PaddleClas counts the blocks of all stages together, and the convolutions of a block from 0."""

    def block(match: re.Match[str]) -> str:
        number, stage = int(match[1]), 0
        while stage < len(BLOCKS) - 1 and number >= BLOCKS[stage]:
            number, stage = number - BLOCKS[stage], stage + 1
        shortcut = {"conv": "downsample.0", "bn": "downsample.1"}
        part = shortcut[match[3]] if match[2] == "short" else f"{match[3]}{int(match[2][4:]) + 1}"
        return f"layer{stage + 1}.{number}.{part}."

    rules: Rules = [
        (r"stem\.0\.(conv|bn)\.", r"\g<1>1."),
        (r"blocks\.(\d{1,3})\.(conv[0-2]|short)\.(conv|bn)\.", block),
    ]
    return rewrite(name, rules)


LAYOUTS = (
    Layout(name="ResNet-50 of torchvision or timm", rename=lambda name: name),
    Layout(name="ResNet-50 of PaddleClas", rename=rename_paddleclas),
)
