"""A few steps of PyTorch under observation, for `trainmark parity`; `trainmark.worker.probe` says what is asked."""

from __future__ import annotations

import contextlib
import copy
import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils import _pytree
from torch.utils.flop_counter import FlopCounterMode

from trainmark.worker.probe import ProbeRequest, ProbeResult, batches_of_steps
from trainmark.worker.torch.compiler import has_cpp_compiler
from trainmark.worker.torch.step import Precision, TrainStep
from trainmark.worker.torch.weights import export_weights, import_weights
from trainmark.worker.torch.workload import Batch, TorchWorkload
from trainmark.workloads.data import Arrays
from trainmark.workloads.loss import total_loss
from trainmark.workloads.optimisations import optimisations_of
from trainmark.workloads.registry import load_card, load_module
from trainmark.workloads.torch import Examined, ParameterGroup, to_tensors


def read_batch(batch: Batch) -> Arrays:
    return _pytree.tree_map_only(Tensor, lambda tensor: tensor.detach().cpu().contiguous().numpy(), batch)


def run_probe(request: ProbeRequest) -> ProbeResult:
    card = load_card(request.workload)
    workload: TorchWorkload = load_module(request.workload, "torch")
    device = torch.device(request.device)
    precision = Precision.of(request.precision, device.type)
    precision.apply(has_static_shapes=card.has_static_shapes)
    torch.manual_seed(request.seed)
    without = () if has_cpp_compiler() else ("compile",)
    model = workload.build_model(
        recipe=request.recipe,
        device_type=device.type,
        num_classes=request.num_classes,
        size=card.sizes[request.size],
        without=without,
    )
    # A graph replays the same kernels, but calls no hook that could see a gradient or a step.
    unseen = (*without, "whole_step_graph")
    is_fast = request.recipe == "fast"
    uses = optimisations_of(request.workload, device.type, without=unseen) if is_fast else frozenset()
    is_channels_last = "channels_last" in uses
    model = model.to(device, torch.promote_types(torch.float32, precision.dtype)).train()
    if is_channels_last:
        model = model.to(memory_format=torch.channels_last)
    if request.weights is not None:
        import_weights(model, request.weights)
    with _default_type(torch.promote_types(torch.float32, precision.dtype)):
        batches = batches_of_steps(
            request, lambda batch: _to_device(batch, device, precision, is_channels_last=is_channels_last)
        )
        watched = _Watched(workload)
        step = TrainStep(model=model, workload=watched, optimizer_facts=card.optimizer, precision=precision, uses=uses)
        return _run_steps(request, model, step, watched, batches, precision)


def _run_steps(
    request: ProbeRequest,
    model: nn.Module,
    step: TrainStep,
    watched: _Watched,
    batches: Iterator[Batch],
    precision: Precision,
) -> ProbeResult:
    weights = {0: export_weights(model)} if 0 in request.keep_weights_after or request.weights is None else {}
    if not request.rates:
        return ProbeResult(weights=weights)
    first = next(batches)
    flops = _count_flops(watched, model, first, precision) if request.counts_work else None
    if step.needs_preparation:
        step.prepare(step.arrange(first))
    counter = _StepCounter(step.optimizer)
    losses: list[float] = []
    examined: Examined = ({}, {})
    gradient_bytes = 0
    gradients: dict[str, NDArray[Any]] = {}
    for number, (rate, batch) in enumerate(zip(request.rates, itertools.chain([first], batches), strict=True)):
        is_kept = number == 0 and request.keeps_first_step
        step.set_learning_rate(rate)
        with _noted_gradients(model, step.loss_scale, gradients) if is_kept else contextlib.nullcontext():
            step.run(batch)
        losses.append(float(step.loss))
        if number == 0:
            gradient_bytes = sum(p.grad.nbytes for p in model.parameters() if p.grad is not None)
        if is_kept:
            examined = watched.take()
        if number + 1 in request.keep_weights_after:
            weights[number + 1] = export_weights(model)
    outputs, terms = examined
    return ProbeResult(
        outputs={name: _array(value) for name, value in outputs.items()},
        terms={name: _array(value) for name, value in terms.items()},
        gradients=gradients,
        losses=np.array(losses),
        weights=weights,
        facts={
            "framework": f"torch {torch.__version__}",
            "num_parameters": sum(p.numel() for p in model.parameters() if p.requires_grad),
            "forward_flops": flops,
            "gradient_bytes": gradient_bytes,
            "optimizer_steps": counter.num_steps,
            "tf32": torch.backends.cuda.matmul.allow_tf32 or torch.backends.cudnn.allow_tf32,
            "layout": "NHWC" if step.facts()["layout"] == "channels_last" else "NCHW",
        },
    )


class _Watched:
    """A workload whose latest outputs and terms can be read after a step. The loss is the same sum."""

    def __init__(self, workload: TorchWorkload) -> None:
        self._workload = workload
        self._examined: Examined = ({}, {})

    def build_model(self, **options: Any) -> nn.Module:
        return self._workload.build_model(**options)

    def parameter_groups(self, model: nn.Module) -> list[ParameterGroup]:
        return self._workload.parameter_groups(model)

    def examine(self, model: nn.Module, batch: Batch) -> Examined:
        return self._workload.examine(model, batch)

    def compute_loss(self, model: nn.Module, batch: Batch) -> Tensor:
        outputs, terms = self._workload.examine(model, batch)
        self._examined = (
            {name: value.detach() for name, value in outputs.items()},
            {name: value.detach() for name, value in terms.items()},
        )
        return total_loss(terms)

    def synthetic_batch(self, **options: Any) -> Batch:
        return self._workload.synthetic_batch(**options)

    def score(self, model: nn.Module, batch: Batch) -> Any:
        return self._workload.score(model, batch)

    def take(self) -> Examined:
        examined, self._examined = self._examined, ({}, {})
        return examined


class _StepCounter:
    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.num_steps = 0
        optimizer.register_step_post_hook(self._count)

    def _count(self, *_: Any) -> None:
        self.num_steps += 1


@contextlib.contextmanager
def _noted_gradients(model: nn.Module, scale: float, found: dict[str, NDArray[Any]]) -> Iterator[None]:
    """As the backward pass makes them; what is left in `grad` after a step may have been clipped."""

    def note(name: str, gradient: Tensor) -> None:
        found[name] = _array(gradient) / scale if scale != 1 else _array(gradient)

    handles = [
        parameter.register_hook(lambda gradient, name=name: note(name, gradient))
        for name, parameter in model.named_parameters()
        if parameter.requires_grad
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _count_flops(workload: _Watched, model: nn.Module, batch: Batch, precision: Precision) -> int:
    """On a copy: a forward pass in training mode changes BatchNorm's statistics."""
    twin = copy.deepcopy(model)
    counter = FlopCounterMode(display=False, custom_mapping={torch.ops.aten.convolution: _count_convolution})
    with torch.no_grad(), precision.autocast(), counter:
        workload.examine(twin, batch)
    return int(counter.get_total_flops())


def _count_convolution(x: Tensor, weight: Tensor, *rest: Any, out_val: Tensor, **_: Any) -> int:
    """Without the zeros that `fast` pads kernels with: rows of outputs, and values that are zero for all outputs."""
    is_transposed = rest[4]  # after bias, stride, padding and dilation
    num_samples, _channels, *sides = (x if is_transposed else out_val).shape
    own = weight != 0
    num_values = int(own.any(0).sum()) * int(own.flatten(1).any(1).sum())
    return 2 * num_samples * math.prod(sides) * num_values


_count_convolution._get_raw = True  # type: ignore[attr-defined]  # FlopCounterMode passes tensors instead of shapes


def _to_device(batch: Arrays, device: torch.device, precision: Precision, *, is_channels_last: bool) -> Batch:
    """Types and layouts as the feed gives them to this recipe."""

    def move(tensor: Tensor) -> Tensor:
        if not tensor.is_floating_point():
            return tensor.to(device)
        if is_channels_last and tensor.dim() == 4:
            return tensor.to(device, precision.dtype).contiguous(memory_format=torch.channels_last)
        return tensor.to(device, torch.get_default_dtype())

    return _pytree.tree_map_only(Tensor, move, to_tensors(batch))


@contextlib.contextmanager
def _default_type(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _array(tensor: Tensor) -> NDArray[Any]:
    """On the host, contiguous; half precision as float32, which numpy has."""
    wide = tensor.detach().to(torch.promote_types(tensor.dtype, torch.float32))
    return wide.cpu().contiguous().clone().numpy()
