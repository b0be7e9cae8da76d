"""The arithmetic and the memory traffic of one training step, counted from the operations that the model really calls.

Nothing is computed: tensors are fake, with shapes and types only.

Bytes are the fewest that kernels of today's libraries can move: every convolution, matrix product and norm reads its
inputs from memory and writes its outputs there, statistics and gradients of norms need a second pass, the gradient of a
convolution reads the incoming gradient twice; all pointwise operations count as fused with those and cost nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from trainmark.worker.torch.step import Precision
from trainmark.workloads.registry import load_card, load_module

_ATEN = torch.ops.aten
_READ_ONCE = {_ATEN.mm, _ATEN.addmm, _ATEN.bmm, _ATEN.convolution}
_READ_TWICE = {
    _ATEN.convolution_backward: (0,),
    _ATEN.native_batch_norm: (0,),
    _ATEN._native_batch_norm_legit: (0,),
    _ATEN.native_batch_norm_backward: (0, 1),
}
"""And which arguments."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """Of one sample."""

    flops: float
    bytes: float


def count_work(workload: str, *, size: str, batch_size: int, precision: str) -> Work:
    """Of the recipe `reference` on a GPU, or of `fast` where the shapes of `reference` depend on the data."""
    card, module = load_card(workload), load_module(workload, "torch")
    dimensions, exact = card.sizes[size], Precision.of(precision, "cpu")
    recipe = "reference" if card.has_static_shapes else "fast"
    with FakeTensorMode(), torch.device("cpu"):
        model = module.build_model(
            recipe=recipe, device_type="cuda", num_classes=card.num_classes, size=dimensions
        ).train()
        batch = module.synthetic_batch(
            batch_size=batch_size, size=dimensions, num_classes=card.num_classes, generator=torch.Generator()
        )
        if not card.has_static_shapes:
            batch = module.arrange(model, batch)
        traffic, arithmetic = _Traffic(), FlopCounterMode(display=False)
        with arithmetic, traffic:
            with exact.autocast():
                loss = module.compute_loss(model, batch)
            loss.backward()
    return Work(flops=arithmetic.get_total_flops() / batch_size, bytes=traffic.bytes / batch_size)


class _Traffic(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.bytes = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        packet = function._overloadpacket
        if packet in _READ_ONCE or packet in _READ_TWICE:
            again = [args[number] for number in _READ_TWICE.get(packet, ())]
            self.bytes += sum(_size(part) for part in _pytree.tree_leaves((args, result, again)))
        return result


def _size(part: Any) -> int:
    return part.numel() * part.element_size() if isinstance(part, Tensor) else 0
