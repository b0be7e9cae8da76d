"""One training step in JAX: one jitted function of all state, which is donated, so that it is updated in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.extend.core import Jaxpr
from jax.flatten_util import ravel_pytree

from trainmark.messages.message import Message
from trainmark.messages.scaling import one_process
from trainmark.worker.jax.compiler import kept_by_every_process
from trainmark.worker.jax.optimizer import build_optimizer, clip_by_norm, names_of_state, rates_of
from trainmark.worker.jax.placement import AXIS, OWN, SAME, Placement
from trainmark.worker.jax.workload import Batch, JaxWorkload
from trainmark.workloads.card import Optimizer
from trainmark.workloads.jax import Examined, Model
from trainmark.workloads.jax_layers import Declared, Forward, Kind, Layers, Numbers
from trainmark.workloads.loss import total_loss

_FIRST_SCALE = 65_536.0
_GROWTH, _BACKOFF, _GROWTH_STEPS = 2.0, 0.5, 2000
"""Of the loss scale for fp16, as in PyTorch's GradScaler."""

_DTYPES = {
    "fp64": jnp.float64,
    "fp32": jnp.float32,
    "tf32": jnp.float32,
    "bf16": jnp.bfloat16,
    "amp": jnp.float16,
}


@dataclass(frozen=True, kw_only=True)
class Precision:
    name: str

    def __post_init__(self) -> None:
        if self.name not in _DTYPES:
            raise ValueError(f"the JAX engine has no precision {self.name!r}; it has fp32, tf32, bf16 and amp")

    @property
    def numbers(self) -> Numbers:
        """fp32 means fp32: the device may use TF32 only where it is asked for."""
        is_tf32 = self.name == "tf32"
        precision = lax.Precision.DEFAULT if is_tf32 else lax.Precision.HIGHEST
        return Numbers(dtype=_DTYPES[self.name], precision=precision)

    @property
    def master_dtype(self) -> Any:
        """Of weights, optimizer and statistics."""
        return np.float64 if self.name == "fp64" else np.float32


class Scaler(NamedTuple):
    """Of the loss, so that fp16 gradients do not vanish."""

    scale: Any
    num_good: Any
    """Steps since the scale changed."""


class State(NamedTuple):
    """Everything that the next step depends on."""

    weights: dict[str, Any]
    statistics: dict[str, Any]
    """Of each rank's own batches; with several ranks there is a first dimension for the rank."""
    slots: Any
    """Of the optimizer."""
    scaler: Scaler
    num_steps: Any


Watched = tuple[Mapping[str, Array], Mapping[str, Array], Mapping[str, Array]]
"""Outputs, terms of the loss, and gradients before clipping; all empty in a step that is not watched."""


class TrainStep:
    """`run` trains one step and puts this rank's loss into `loss`, on the device."""

    def __init__(
        self,
        *,
        forward: Forward,
        declared: Declared,
        values: Mapping[str, Any],
        workload: JaxWorkload,
        optimizer_facts: Optimizer,
        precision: Precision,
        placement: Placement,
        is_fast: bool,
        syncs_batch_norm: bool,
        seed: int,
        compiler_options: Mapping[str, Any] | None = None,
    ) -> None:
        self._forward, self._declared, self._workload = forward, declared, workload
        self._precision, self._placement, self._is_fast = precision, placement, is_fast
        self._facts = optimizer_facts
        self._synced_axis = AXIS if syncs_batch_norm else None
        self._seed, self._compiler_options = seed, dict(compiler_options or {})
        groups = workload.parameter_groups(declared)
        self._optimizer, self._rates = build_optimizer(optimizer_facts, groups), rates_of(groups)
        self.state = self._first_state(values)
        self.loss: Array | None = None
        self._compiled: dict[tuple[bool, bool], Callable[..., tuple[State, Array, Watched]]] = {}
        self.watched_graph: Jaxpr | None = None
        """The watched step as it was traced, once it is compiled."""
        self._predict = jax.jit(self._predict_traced)

    # -- running -------------------------------------------------------------------------------------------------------

    def compile(self, batch: Batch, *, is_exchanging: bool = True, is_watched: bool = False) -> None:
        """Nothing is run: the state stays as it is."""
        step = partial(self._step, is_exchanging=is_exchanging, is_watched=is_watched)
        mesh = self._placement.mesh
        if mesh is not None:
            specs: Any = State(SAME, OWN, SAME, SAME, SAME)  # type: ignore[arg-type]
            given, made = (specs, OWN, SAME), (specs, OWN, SAME)
            step = jax.shard_map(step, mesh=mesh, in_specs=given, out_specs=made, check_vma=False)
        rate = np.zeros((), self._precision.master_dtype)
        traced = jax.jit(step, donate_argnums=0).trace(self.state, batch, rate)
        if is_watched:
            self.watched_graph = traced.jaxpr.jaxpr
        with kept_by_every_process():
            compiled = traced.lower().compile(compiler_options=self._compiler_options)
        self._compiled[is_exchanging, is_watched] = compiled

    def trace_forward(self, batch: Batch) -> Jaxpr:
        """The network and its loss as a step computes them, without gradients."""
        graph: Jaxpr = jax.make_jaxpr(self._loss)(self.state.weights, self.state, batch).jaxpr
        return graph

    def run(self, batch: Batch, rate: float, *, is_exchanging: bool = True, is_watched: bool = False) -> Watched:
        """What `is_watched` asks for is computed in every step; only then is it kept."""
        if (is_exchanging, is_watched) not in self._compiled:
            self.compile(batch, is_exchanging=is_exchanging, is_watched=is_watched)
        step = self._compiled[is_exchanging, is_watched]
        self.state, loss, watched = step(self.state, batch, np.asarray(rate, self._precision.master_dtype))
        self.loss = self._placement.own(loss)
        return watched

    def why_no_twin(self) -> Message | None:
        return one_process() if self._placement.mesh is None else None

    def model(self) -> Model:
        """For evaluation, on this rank alone: rank 0's statistics must have been copied before."""
        weights, statistics = self._own_weights()
        return partial(self._predict, weights, statistics)

    def facts(self) -> dict[str, Any]:
        return {
            "layout": "NHWC",
            "compiled": True,
            "donated_state": True,
            "loss_scaler": self._precision.name == "amp",
            "one_pass_batch_norm": self._is_fast,
            "blocked_stem": self._is_fast,
        }

    # -- state in and out ----------------------------------------------------------------------------------------------

    def start(self, values: Mapping[str, Any]) -> None:
        """From these weights and statistics, with nothing trained yet."""
        self.state = self._first_state(values)

    def read_values(self) -> dict[str, np.ndarray[Any, Any]]:
        """Weights and this rank's statistics on the host, in the order of declaration."""
        weights, statistics = jax.device_get(self._own_weights())
        return {name: np.asarray({**weights, **statistics}[name]) for name in self._declared}

    def write_values(self, values: Mapping[str, Any]) -> None:
        """Checks the names; the caller checks shapes."""
        weights, statistics = self._split(values)
        self.state = self.state._replace(weights=weights, statistics=statistics)

    def read_slots(self) -> dict[str, np.ndarray[Any, Any]]:
        own = jax.device_get(self._placement.own((self.state.slots, self.state.scaler, self.state.num_steps)))
        return dict(zip(names_of_state(own), map(np.asarray, jax.tree.leaves(own)), strict=True))

    def write_slots(self, values: Mapping[str, Any]) -> None:
        like = (self.state.slots, self.state.scaler, self.state.num_steps)
        leaves, structure = jax.tree.flatten(like)
        new = []
        for name, leaf in zip(names_of_state(like), leaves, strict=True):
            if values[name].shape != leaf.shape:
                raise ValueError(f"{name} has the shape {values[name].shape} instead of {leaf.shape}")
            new.append(np.asarray(values[name], leaf.dtype))
        slots, scaler, num_steps = self._placement.put_same(jax.tree.unflatten(structure, new))
        self.state = self.state._replace(slots=slots, scaler=scaler, num_steps=num_steps)

    def _own_weights(self) -> tuple[dict[str, Array], dict[str, Array]]:
        weights, statistics = self._placement.own((self.state.weights, self.state.statistics))
        if self._placement.mesh is not None:
            statistics = {name: part[0] for name, part in statistics.items()}
        return weights, statistics

    def _split(self, values: Mapping[str, Any]) -> tuple[dict[str, Array], dict[str, Array]]:
        dtype = self._precision.master_dtype
        weights, statistics = {}, {}
        for name, found in self._declared.items():
            value = np.asarray(values[name], dtype)
            if value.shape != found.shape:
                raise ValueError(f"{name} has the shape {value.shape} instead of {found.shape}")
            if found.kind is Kind.STATISTIC:
                statistics[name] = value if self._placement.mesh is None else value[None]
            else:
                weights[name] = value
        return self._placement.put_same(weights), self._placement.put_own(statistics)

    def _first_state(self, values: Mapping[str, Any]) -> State:
        weights, statistics = self._split(values)
        slots = jax.tree.map(
            lambda leaf: np.zeros(leaf.shape, leaf.dtype), jax.eval_shape(self._optimizer.init, weights)
        )
        scale = _FIRST_SCALE if self._precision.name == "amp" else 1.0
        scaler = Scaler(scale=np.float32(scale), num_good=np.int32(0))
        rest = self._placement.put_same((slots, scaler, np.int32(0)))
        return State(weights, statistics, *rest)

    # -- traced --------------------------------------------------------------------------------------------------------

    def _predict_traced(self, weights: dict[str, Array], statistics: dict[str, Array], images: Array) -> Array:
        layers = Layers(
            weights=weights,
            statistics=statistics,
            numbers=self._precision.numbers,
            is_training=False,
            is_fast=self._is_fast,
        )
        return self._forward(layers, images)

    def _loss(
        self, weights: dict[str, Array], state: State, batch: Batch
    ) -> tuple[Array, tuple[Array, dict[str, Array], Examined]]:
        key = jax.random.fold_in(jax.random.key(self._seed), state.num_steps)
        if self._placement.mesh is not None:  # the ranks have other samples, so they must not drop the same features
            key = jax.random.fold_in(key, lax.axis_index(AXIS))
        layers = Layers(
            weights=weights,
            statistics=state.statistics,
            numbers=self._precision.numbers,
            is_training=True,
            is_fast=self._is_fast,
            synced_axis=self._synced_axis,
            key=key,
        )
        examined = self._workload.examine(partial(self._forward, layers), batch)
        loss = total_loss(examined[1])
        return loss * state.scaler.scale.astype(loss.dtype), (loss, layers.new_statistics, examined)

    def _step(
        self, state: State, batch: Batch, rate: Array, *, is_exchanging: bool, is_watched: bool
    ) -> tuple[State, Array, Watched]:
        is_shared = self._placement.mesh is not None
        if is_shared:
            state = state._replace(statistics={name: part[0] for name, part in state.statistics.items()})
        differentiate = jax.grad(self._loss, has_aux=True)
        gradients, (loss, statistics, examined) = differentiate(state.weights, state, batch)
        if is_shared and is_exchanging:
            gradients = _mean_over_ranks(gradients)
        if self._precision.name == "amp":
            gradients = {name: part / state.scaler.scale for name, part in gradients.items()}
        watched: Watched = (*examined, gradients) if is_watched else ({}, {}, {})
        state = self._update(state, gradients, rate)
        if is_shared:
            statistics, loss = {name: part[None] for name, part in statistics.items()}, loss[None]
        return state._replace(statistics=statistics, num_steps=state.num_steps + 1), loss, watched

    def _update(self, state: State, gradients: dict[str, Array], rate: Array) -> State:
        is_good = None
        if self._precision.name == "amp":  # a step whose gradients overflowed is skipped
            is_good = jnp.all(jnp.array([jnp.isfinite(part).all() for part in gradients.values()]))
        if self._facts.clip_norm is not None:
            gradients = clip_by_norm(gradients, self._facts.clip_norm)
        updates, slots = self._optimizer.update(gradients, state.slots, state.weights)
        weights = {name: part - (rate * self._rates[name]) * updates[name] for name, part in state.weights.items()}
        if is_good is None:
            return state._replace(weights=weights, slots=slots)
        weights, slots = jax.tree.map(
            lambda new, old: jnp.where(is_good, new, old), (weights, slots), (state.weights, state.slots)
        )
        return state._replace(weights=weights, slots=slots, scaler=_next_scale(state.scaler, is_good))


def _mean_over_ranks(gradients: dict[str, Array]) -> dict[str, Array]:
    """For a CPU in one piece: XLA joins exchanges on GPUs only, and HRNet-W18's 919 made it 3 times slower."""
    if jax.default_backend() != "cpu":
        means: dict[str, Array] = lax.pmean(gradients, AXIS)
        return means
    joined, split = ravel_pytree(gradients)
    restored: dict[str, Array] = split(lax.pmean(joined, AXIS))
    return restored


def _next_scale(scaler: Scaler, is_good: Array) -> Scaler:
    num_good = jnp.where(is_good, scaler.num_good + 1, 0)
    grows = num_good >= _GROWTH_STEPS
    scale = jnp.where(is_good, jnp.where(grows, scaler.scale * _GROWTH, scaler.scale), scaler.scale * _BACKOFF)
    return Scaler(scale=scale, num_good=jnp.where(grows, 0, num_good))
