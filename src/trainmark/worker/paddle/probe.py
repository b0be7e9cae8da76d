"""A few steps of Paddle under observation, for `trainmark parity`; `trainmark.worker.probe` says what is asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import paddle
from numpy.typing import NDArray
from paddle import Tensor, nn

from trainmark.worker.paddle.engine import choose_device
from trainmark.worker.paddle.sources import map_leaves
from trainmark.worker.paddle.step import Precision, TrainStep
from trainmark.worker.paddle.weights import export_gradients, export_weights, import_weights, to_neutral
from trainmark.worker.paddle.workload import Batch, PaddleWorkload
from trainmark.worker.probe import ProbeRequest, ProbeResult, batches_of_steps
from trainmark.workloads.data import Arrays
from trainmark.workloads.loss import total_loss
from trainmark.workloads.paddle import Examined
from trainmark.workloads.registry import load_card, load_module


def read_batch(batch: Batch) -> Arrays:
    return map_leaves(lambda tensor: tensor.numpy(), batch, of=Tensor)


def run_probe(request: ProbeRequest) -> ProbeResult:
    card = load_card(request.workload)
    workload: PaddleWorkload = load_module(request.workload, "paddle")
    choose_device(request.device)
    precision = Precision(name=request.precision, device_type=request.device)
    precision.apply()
    try:
        paddle.seed(request.seed)
        model = workload.build_model(
            recipe=request.recipe,
            device_type=request.device,
            num_classes=request.num_classes,
            size=card.sizes[request.size],
        )
        model.train()
        if request.weights is not None:
            import_weights(model, request.weights)
        watched: Any = Watched(workload)
        step = WatchedStep(model=model, workload=watched, optimizer_facts=card.optimizer, precision=precision)
        return _run_steps(request, step, watched, batches_of_steps(request, _to_device))
    finally:
        paddle.set_default_dtype("float32")


class Watched:
    """A workload of which the outputs and terms of the first loss are kept. The loss is the same sum."""

    def __init__(self, workload: PaddleWorkload) -> None:
        self._workload = workload
        self.examined: Examined | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._workload, name)

    def compute_loss(self, model: nn.Layer, batch: Batch) -> Tensor:
        outputs, terms = self._workload.examine(model, batch)
        if self.examined is None:
            self.examined = {k: v.detach() for k, v in outputs.items()}, {k: v.detach() for k, v in terms.items()}
        return total_loss(terms)


class WatchedStep(TrainStep):
    """The step of a training, of which the first gradients are kept, before they are clipped."""

    gradients: dict[str, NDArray[Any]] | None = None
    gradient_bytes = 0
    """In the type that they have in the model."""

    def update(self) -> None:
        if self.gradients is None:
            self.gradients = export_gradients(self.model, self.loss_scale)
            made = [parameter.grad for parameter in self.model.parameters() if parameter.grad is not None]
            self.gradient_bytes = sum(gradient.size * gradient.element_size() for gradient in made)
        super().update()


class UpdateCounter:
    """Counts where Paddle calls the kernel for one weight, below all that might step twice or not at all."""

    def __init__(self, optimizer: Any) -> None:
        self._updates: Counter[str] = Counter()
        self._update = optimizer._append_optimize_op
        optimizer._append_optimize_op = self._count

    def _count(self, block: Any, param_and_grad: Any) -> Any:
        pair = param_and_grad["params"] if isinstance(param_and_grad, dict) else param_and_grad
        self._updates[pair[0].name] += 1
        return self._update(block, param_and_grad)

    @property
    def num_steps(self) -> int:
        """Of the weight that was updated most often: one without a gradient is left out of a step."""
        return max(self._updates.values(), default=0)


def _run_steps(request: ProbeRequest, step: WatchedStep, watched: Watched, batches: Iterator[Batch]) -> ProbeResult:
    model = step.model
    weights = {0: export_weights(model)} if 0 in request.keep_weights_after or request.weights is None else {}
    if not request.rates:
        return ProbeResult(weights=weights)
    losses = []
    counter = UpdateCounter(step.optimizer)
    flops = FlopCounter(model) if request.counts_work else None
    for number, (rate, batch) in enumerate(zip(request.rates, batches, strict=True)):
        step.set_learning_rate(rate)
        step.run(batch)
        losses.append(step.loss.item())
        if flops is not None and number == 0:
            flops.close()
        if number + 1 in request.keep_weights_after:
            weights[number + 1] = export_weights(model)
    outputs, terms = watched.examined if watched.examined and request.keeps_first_step else ({}, {})
    trained = [parameter for parameter in model.parameters() if not parameter.stop_gradient]
    facts = step.facts()
    return ProbeResult(
        outputs={name: to_neutral(value, False) for name, value in outputs.items()},
        terms={name: to_neutral(value, False) for name, value in terms.items()},
        gradients=step.gradients if step.gradients and request.keeps_first_step else {},
        losses=np.array(losses),
        weights=weights,
        facts={
            "framework": f"paddle {paddle.__version__}",
            "num_parameters": sum(parameter.size for parameter in trained),
            "forward_flops": None if flops is None else flops.total,
            "gradient_bytes": step.gradient_bytes,
            "optimizer_steps": counter.num_steps,
            "tf32": facts["tf32_matmul"] or facts["tf32_convolution"],
            "layout": "NCHW",
        },
    )


class FlopCounter:
    """Of convolutions and linear layers in a forward pass, from the shapes that they really see."""

    def __init__(self, model: nn.Layer) -> None:
        self.total = 0
        kinds = nn.Conv2D | nn.Conv2DTranspose | nn.Linear
        layers = [layer for layer in model.sublayers(include_self=True) if isinstance(layer, kinds)]
        self._hooks = [layer.register_forward_post_hook(self._count) for layer in layers]

    def _count(self, layer: nn.Layer, inputs: tuple[Tensor], output: Tensor) -> None:
        if isinstance(layer, nn.Conv2DTranspose):  # each input value is multiplied by every weight of its channel
            self.total += 2 * inputs[0].size * layer.weight.size // layer.weight.shape[0]
        elif isinstance(layer, nn.Linear):
            self.total += 2 * output.size * layer.weight.shape[0]
        else:
            self.total += 2 * output.size * layer.weight.size // layer.weight.shape[0]

    def close(self) -> None:
        for hook in self._hooks:
            hook.remove()


def _to_device(batch: Arrays) -> Batch:
    """Types as the feed gives them; float64 in a probe of float64."""

    def move(array: NDArray[Any]) -> Tensor:
        tensor = paddle.to_tensor(array)
        return tensor.astype(paddle.get_default_dtype()) if array.dtype.kind == "f" else tensor

    return map_leaves(move, batch, of=np.ndarray)
