"""A card's optimizer in Paddle, and its state in a checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import paddle
from numpy.typing import NDArray
from paddle import Tensor
from paddle.optimizer import Optimizer

from trainmark.workloads.card import AdamW, Sgd
from trainmark.workloads.card import Optimizer as Facts
from trainmark.workloads.paddle import ParameterGroup

_CLIP_EPSILON = 1e-6
State = Mapping[str, NDArray[Any]]
"""Arrays by the position of their parameter in the groups and their name."""


def build_optimizer(facts: Facts, groups: Sequence[ParameterGroup], *, multi_precision: bool) -> Optimizer:
    """`multi_precision` keeps float32 copies of weights in half precision."""
    rated = [
        {"params": list(group.params), "weight_decay": group.weight_decay, "learning_rate": group.lr_scale}
        for group in groups
    ]
    if isinstance(facts, Sgd):
        return Momentum(learning_rate=0.0, momentum=facts.momentum, parameters=rated, multi_precision=multi_precision)
    if isinstance(facts, AdamW):
        return paddle.optimizer.AdamW(
            learning_rate=0.0,
            beta1=facts.betas[0],
            beta2=facts.betas[1],
            epsilon=facts.epsilon,
            parameters=rated,
            multi_precision=multi_precision,
        )
    raise TypeError(f"no optimizer of Paddle for {type(facts).__name__}")


@paddle.no_grad()
def clip_by_norm(parameters: Iterable[Tensor], limit: float) -> None:
    """As PyTorch's clip_grad_norm_.

    Paddle's own adds one square after the other in float32: with two million of them the norm is wrong by 0.1%.
    """
    gradients = [parameter.grad_ for parameter in parameters if parameter.grad_ is not None]
    norm = paddle.stack([gradient.astype("float64").square().sum() for gradient in gradients]).sum().sqrt()
    factor = (limit / (norm + _CLIP_EPSILON)).clip(max=1.0)
    for gradient in gradients:
        gradient.multiply_(factor.astype(gradient.dtype))


class Momentum(paddle.optimizer.Momentum):
    """Paddle's own, except in float64, which only `trainmark parity` uses.

    Its kernel takes momentum and weight decay in float32 even for float64 weights: 0.9 becomes 0.89999998. So does the
    tensor that holds the learning rate.
    """

    _exact_rate = 0.0

    def set_lr(self, value: float) -> None:
        self._exact_rate = value
        super().set_lr(value)

    def _append_optimize_op(self, block: Any, param_and_grad: Any) -> Any:
        pair = param_and_grad["params"] if isinstance(param_and_grad, dict) else param_and_grad
        if pair[0].dtype != paddle.float64:
            return super()._append_optimize_op(block, param_and_grad)
        if isinstance(param_and_grad, dict):
            self._update_param_group(param_and_grad)
        return self._step_exactly(*pair)

    @paddle.no_grad()
    def _step_exactly(self, parameter: Any, gradient: Any) -> None:
        decay = self._regularization_coeff if self._regularization_method == "l2_decay" else 0.0
        rate = self._exact_rate * parameter.optimize_attr["learning_rate"]
        velocity = self._get_accumulator_master(self._velocity_acc_str, parameter)
        change = gradient + decay * parameter
        paddle.assign(self._momentum * velocity + change, output=velocity)
        step = change + self._momentum * velocity if self._use_nesterov else velocity
        paddle.assign(parameter - rate * step, output=parameter)


def parameters_of(optimizer: Optimizer) -> list[Any]:
    return [parameter for group in optimizer._param_groups for parameter in group["params"]]


def read_state(optimizer: Optimizer) -> State:
    """Under the position of each parameter: Paddle's own names count up in a process and differ in the next one."""
    found: dict[str, NDArray[Any]] = {}
    for position, parameter in enumerate(parameters_of(optimizer)):
        for name, tensors in optimizer._accumulators.items():
            if parameter.name in tensors:
                found[f"{position}/{name}"] = tensors[parameter.name].numpy()
        master = optimizer._master_weights.get(parameter.name)
        if master is not None:
            found[f"{position}/master"] = master.numpy()
    return found


def load_state(optimizer: Optimizer, saved: State) -> None:
    """Replaces all state: an optimizer that has not stepped when it was saved gets its fresh state back."""
    parameters = parameters_of(optimizer)
    with paddle.no_grad():
        if saved and not optimizer._accumulators:
            optimizer._create_accumulators(paddle.static.default_main_program().global_block(), parameters)
        for tensors in optimizer._accumulators.values():
            for tensor in tensors.values():
                tensor.set_value(np.zeros(tensor.shape, dtype=tensor.numpy().dtype))
        for key, value in saved.items():
            position, _, name = key.partition("/")
            parameter = parameters[int(position)]
            if name == "master":
                optimizer._master_weights[parameter.name].set_value(value)
            else:
                optimizer._accumulators[name][parameter.name].set_value(value)
