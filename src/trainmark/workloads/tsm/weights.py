"""TSM has the tensors of ResNet-50: the shift has none. The public code wraps the first convolution of each block."""

from __future__ import annotations

from trainmark.workloads.layout import Layout, rewrite
from trainmark.workloads.resnet50 import weights as resnet50

CLASS_LAYERS = resnet50.CLASS_LAYERS
tensor_shapes = resnet50.tensor_shapes


def rename_public(name: str) -> str:
    inner = rewrite(name, [(r"base_model\.", ""), (r"new_fc\.", "fc.")])
    return inner.replace(".conv1.net.", ".conv1.")


LAYOUTS = (
    *resnet50.LAYOUTS,
    Layout(name="TSM's public checkpoints", rename=rename_public),
)
