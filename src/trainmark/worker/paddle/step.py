"""One training step in Paddle, in the dynamic graph."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
import paddle
from numpy.typing import NDArray
from paddle import Tensor, nn

from trainmark.messages.message import Message
from trainmark.messages.scaling import one_process
from trainmark.worker.paddle.optimizer import build_optimizer, clip_by_norm, load_state, read_state
from trainmark.worker.paddle.workload import Batch, PaddleWorkload
from trainmark.workloads.card import Optimizer

_LEVELS = {"amp": ("O1", "float16"), "bf16": ("O1", "bfloat16"), "fp16": ("O2", "float16")}
"""O1 casts the inputs of some operations; O2 keeps the weights in half precision too, with float32 copies."""


@dataclass(frozen=True, kw_only=True)
class Precision:
    name: str
    """As in a cell, or `fp64`, which only `trainmark parity` uses."""
    device_type: str

    def apply(self) -> None:
        """fp32 means fp32: TF32 is off unless it is asked for."""
        paddle.set_default_dtype("float64" if self.name == "fp64" else "float32")
        for switch in ("set_cublas_switch", "set_cudnn_switch"):
            if hasattr(paddle.base.core, switch):  # not in a build for the CPU
                getattr(paddle.base.core, switch)(self.name == "tf32")

    @property
    def is_pure(self) -> bool:
        return _LEVELS.get(self.name, ("", ""))[0] == "O2"

    @property
    def has_scaler(self) -> bool:
        return _LEVELS.get(self.name, ("", ""))[1] == "float16"

    def autocast(self) -> AbstractContextManager[Any]:
        if self.name not in _LEVELS:
            return contextlib.nullcontext()
        level, dtype = _LEVELS[self.name]
        context: AbstractContextManager[Any] = paddle.amp.auto_cast(True, level=level, dtype=dtype)
        return context

    def uses_tf32(self, what: str) -> bool:
        """`what` is `cublas` or `cudnn`."""
        read = getattr(paddle.base.core, f"get_{what}_switch", None)
        return bool(read()) if read is not None else False


class TrainStep:
    """Model, optimizer and loss scaler; `run` trains one step and puts its loss into `loss`, on the device."""

    def __init__(
        self, *, model: nn.Layer, workload: PaddleWorkload, optimizer_facts: Optimizer, precision: Precision
    ) -> None:
        self.model, self._workload, self._precision = model, workload, precision
        self._clip_norm = optimizer_facts.clip_norm
        groups = workload.parameter_groups(model)
        self.optimizer = build_optimizer(optimizer_facts, groups, multi_precision=precision.is_pure)
        if precision.is_pure:
            paddle.amp.decorate(model, self.optimizer, level="O2", dtype="float16", master_weight=True)
        self._scaler = paddle.amp.GradScaler(enable=precision.has_scaler, init_loss_scaling=2.0**16)
        self._wrapped: nn.Layer = model
        """The model, or what exchanges its gradients with those of other processes."""
        self.loss: Tensor = paddle.zeros([])

    def share(self) -> None:
        """From now on gradients are the mean over all processes."""
        self._wrapped = paddle.DataParallel(self.model)

    def set_learning_rate(self, rate: float) -> None:
        self.optimizer.set_lr(rate)

    def run(self, batch: Batch) -> None:
        self.optimizer.clear_grad()
        with self._precision.autocast():
            loss = self._workload.compute_loss(self._wrapped, batch)
        self._scaler.scale(loss).backward()
        self.update()
        self.loss = loss.detach()

    def update(self) -> None:
        """By the gradients that are there."""
        if self._clip_norm is not None:
            self._scaler.unscale_(self.optimizer)
            clip_by_norm(self.model.parameters(), self._clip_norm)
        self._scaler.step(self.optimizer)
        self._scaler.update()

    @contextlib.contextmanager
    def without_exchange(self) -> Iterator[None]:
        """Steps inside exchange no gradients; buffers are never exchanged. SyncBN is part of the forward pass."""
        assert isinstance(self._wrapped, paddle.DataParallel)
        with self._wrapped.no_sync():
            yield

    def why_no_twin(self) -> Message | None:
        return None if isinstance(self._wrapped, paddle.DataParallel) else one_process()

    @property
    def loss_scale(self) -> float:
        """What the gradients of the next backward pass are multiplied by until the optimizer steps; 1 without fp16."""
        return float(self._scaler._scale.item()) if self._precision.has_scaler else 1.0

    def facts(self) -> dict[str, Any]:
        return {
            "tf32_matmul": self._precision.uses_tf32("cublas"),
            "tf32_convolution": self._precision.uses_tf32("cudnn"),
            "layout": "contiguous",
            "compiled": False,
            "loss_scaler": self._precision.has_scaler,
            "pure_half_precision": self._precision.is_pure,
        }

    def state(self) -> dict[str, Any]:
        """Everything that the next step depends on, as arrays and plain values."""
        return {
            "model": {name: tensor.numpy() for name, tensor in self.model.state_dict().items()},
            "optimizer": dict(read_state(self.optimizer)),
            "scaler": _plain(self._scaler.state_dict()) if self._precision.has_scaler else {},
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        load_arrays(self.model, state["model"])
        load_state(self.optimizer, state["optimizer"])
        if self._precision.has_scaler:
            given: Mapping[str, Any] = state["scaler"]
            own = self._scaler.state_dict()
            self._scaler.load_state_dict({**own, **given, "scale": np.array([given["scale"]], dtype=np.float32)})


def load_arrays(model: nn.Layer, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Every tensor of the model and no other; ValueError with a name where they differ."""
    tensors = model.state_dict()
    different = sorted(set(tensors) ^ set(arrays))
    if different:
        raise ValueError(f"other layers than those of the model: {different[0]}")
    for name, tensor in tensors.items():
        if list(arrays[name].shape) != tensor.shape:
            raise ValueError(f"{name} has shape {arrays[name].shape}, the model's has {tuple(tensor.shape)}")
        tensor.set_value(arrays[name])


def _plain(state: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value.item() if isinstance(value, np.ndarray | Tensor) else value for name, value in state.items()}
