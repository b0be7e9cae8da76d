"""A few steps of JAX under observation, for `trainmark parity`; `trainmark.worker.probe` says what is asked."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from trainmark.weights.neutral import require_tensors
from trainmark.worker.jax.compiler import keep_compiled
from trainmark.worker.jax.graph import count_flops, may_use_tf32
from trainmark.worker.jax.placement import Placement, choose_platform
from trainmark.worker.jax.step import Precision, TrainStep
from trainmark.worker.jax.workload import Batch, JaxWorkload
from trainmark.worker.probe import ProbeRequest, ProbeResult, batches_of_steps, leaves
from trainmark.workloads.card import ImageSize
from trainmark.workloads.data import Arrays
from trainmark.workloads.jax_layers import Declared, declare, initialise
from trainmark.workloads.registry import load_card, load_module

_NUM_COLOURS = 3
_QUICK = {"xla_backend_optimization_level": 0}
"""For float64, which asks what is computed and not how fast: HRNet-W18 compiles in a minute of core time."""


def read_batch(batch: Batch) -> Arrays:
    """JAX has no int64 by default, and floating-point images lie NHWC."""

    def read(leaf: Any) -> NDArray[Any]:
        array = np.asarray(leaf.addressable_data(0) if isinstance(leaf, jax.Array) else leaf)
        if array.dtype == np.int32:
            return array.astype(np.int64)
        is_image = array.ndim == 4 and np.issubdtype(array.dtype, np.floating)
        return np.ascontiguousarray(np.moveaxis(array, -1, 1)) if is_image else array

    return jax.tree.map(read, batch)


def run_probe(request: ProbeRequest) -> ProbeResult:
    choose_platform(request.device)
    keep_compiled(request.device)
    with _float64(request.precision == "fp64"):
        network = _build_network(
            _NetworkOptions(
                workload=request.workload,
                recipe=request.recipe,
                precision=request.precision,
                size=request.size,
                device=request.device,
                num_classes=request.num_classes,
                seed=request.seed,
                shapes=tuple(array.shape for _, array in leaves(list(request.batches[:1]))),
            )
        )
        declared, step, precision = network.declared, network.step, network.precision
        if request.weights is not None:
            require_tensors(request.weights, {name: found.shape for name, found in declared.items()})
        step.start(initialise(declared, request.seed) if request.weights is None else request.weights)
        flops = None
        if request.counts_work and request.rates:
            flops = count_flops(step.trace_forward(_to_device(request.batches[0], precision)))
        batches = batches_of_steps(request, lambda batch: _to_device(batch, precision))
        return _run_steps(request, step, batches, flops)


@dataclass(frozen=True, kw_only=True)
class _NetworkOptions:
    """What a compiled step depends on."""

    workload: str
    recipe: str
    precision: str
    size: str
    device: str
    num_classes: int
    seed: int
    shapes: tuple[tuple[int, ...], ...]
    """Of a batch."""


@dataclass(frozen=True, kw_only=True)
class _Network:
    declared: Declared
    precision: Precision
    step: CountedStep


@functools.lru_cache(maxsize=1)
def _build_network(options: _NetworkOptions) -> _Network:
    """Kept for the next request of the process: to trace HRNet-W18 takes as long as twenty of its steps."""
    card = load_card(options.workload)
    size = card.sizes[options.size]
    assert isinstance(size, ImageSize)
    workload: JaxWorkload = load_module(options.workload, "jax")
    forward = workload.build_model(
        recipe=options.recipe, device_type=options.device, num_classes=options.num_classes, size=size
    )
    declared = declare(forward, (size.num_frames, size.height, size.width, _NUM_COLOURS))
    precision = Precision(name=options.precision)
    step = CountedStep(
        forward=forward,
        declared=declared,
        values=initialise(declared, options.seed),
        workload=workload,
        optimizer_facts=card.optimizer,
        precision=precision,
        placement=Placement.of(1),
        is_fast=options.recipe == "fast",
        syncs_batch_norm=False,
        seed=options.seed,
        compiler_options=_QUICK if options.precision == "fp64" else None,
    )
    return _Network(declared=declared, precision=precision, step=step)


def forget_networks() -> None:
    """For who changes the code of a network while the process runs."""
    _build_network.cache_clear()


class CountedStep(TrainStep):
    """The step of a training, with an optimizer that counts its updates in its own state."""

    def __init__(self, *, values: Mapping[str, Any], **options: Any) -> None:
        super().__init__(values=values, **options)
        self._optimizer = _count_updates(self._optimizer)
        self.start(values)

    @property
    def num_updates(self) -> int:
        _, number = self.state.slots
        return int(number)


def _count_updates(optimizer: optax.GradientTransformation) -> optax.GradientTransformation:
    def init(weights: Any) -> Any:
        return optimizer.init(weights), jnp.zeros((), jnp.int32)

    def update(gradients: Any, state: Any, weights: Any = None) -> Any:
        slots, number = state
        updates, slots = optimizer.update(gradients, slots, weights)
        return updates, (slots, number + 1)

    return optax.GradientTransformation(init, update)


def _run_steps(request: ProbeRequest, step: CountedStep, batches: Iterator[Batch], flops: int | None) -> ProbeResult:
    weights = {0: step.read_values()} if 0 in request.keep_weights_after or request.weights is None else {}
    if not request.rates:
        return ProbeResult(weights=weights)
    losses: list[float] = []
    watched: Any = ({}, {}, {})
    gradient_bytes = 0
    for number, (rate, batch) in enumerate(zip(request.rates, batches, strict=True)):
        seen = step.run(batch, rate, is_watched=True)
        losses.append(float(np.asarray(step.loss)))
        if number == 0:
            gradient_bytes = sum(gradient.nbytes for gradient in seen[2].values())
            watched = seen if request.keeps_first_step else watched
        if number + 1 in request.keep_weights_after:
            weights[number + 1] = step.read_values()
    outputs, terms, gradients = ({name: np.asarray(value) for name, value in part.items()} for part in watched)
    assert step.watched_graph is not None
    return ProbeResult(
        outputs=outputs,
        terms=terms,
        gradients=gradients,
        losses=np.array(losses),
        weights=weights,
        facts={
            "framework": f"jax {jax.__version__}",
            "num_parameters": sum(weight.size for weight in step.state.weights.values()),
            "forward_flops": flops,
            "gradient_bytes": gradient_bytes,
            "optimizer_steps": step.num_updates,
            "tf32": may_use_tf32(step.watched_graph),
            "layout": step.facts()["layout"],
        },
    )


def _to_device(batch: Arrays, precision: Precision) -> Batch:
    def move(array: NDArray[Any]) -> jax.Array:
        if not np.issubdtype(array.dtype, np.floating):
            return jnp.asarray(array)
        return jnp.asarray(np.moveaxis(array, 1, -1) if array.ndim == 4 else array, precision.master_dtype)

    return jax.tree.map(move, batch)


@contextlib.contextmanager
def _float64(is_wanted: bool) -> Iterator[None]:
    before = jax.config.read("jax_enable_x64")
    jax.config.update("jax_enable_x64", is_wanted)
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", before)
