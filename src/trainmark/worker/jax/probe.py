"""A few steps of JAX under observation, for `trainmark parity`; `trainmark.worker.probe` says what is asked."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from trainmark.weights.neutral import require_tensors
from trainmark.worker.jax.compiler import keep_compiled
from trainmark.worker.jax.placement import Placement, choose_platform
from trainmark.worker.jax.step import Precision, TrainStep
from trainmark.worker.jax.workload import Batch, JaxWorkload
from trainmark.worker.probe import ProbeRequest, ProbeResult, batches_of_steps, leaves
from trainmark.workloads.card import ImageSize
from trainmark.workloads.data import Arrays
from trainmark.workloads.jax_layers import Declared, Forward, Kind, Layers, declare, initialise
from trainmark.workloads.jax_resize import mix_by_matrix
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
            flops = _count_flops(network, _to_device(request.batches[0], precision))
        batches = batches_of_steps(request, lambda batch: _to_device(batch, precision))
        return _run_steps(request, step, batches, {**_facts(step, precision), "forward_flops": flops})


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
    forward: Forward
    declared: Declared
    workload: JaxWorkload
    precision: Precision
    step: TrainStep


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
    step = TrainStep(
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
    return _Network(forward=forward, declared=declared, workload=workload, precision=precision, step=step)


def forget_networks() -> None:
    """For who changes the code of a network while the process runs."""
    _build_network.cache_clear()


def _run_steps(request: ProbeRequest, step: TrainStep, batches: Iterator[Batch], facts: dict[str, Any]) -> ProbeResult:
    weights = {0: step.read_values()} if 0 in request.keep_weights_after or request.weights is None else {}
    if not request.rates:
        return ProbeResult(weights=weights)
    losses: list[float] = []
    watched: Any = ({}, {}, {})
    num_updates = 0
    for number, (rate, batch) in enumerate(zip(request.rates, batches, strict=True)):
        before = float(np.asarray(step.state.scaler.scale))
        seen = step.run(batch, rate, is_watched=True)
        losses.append(float(np.asarray(step.loss)))
        num_updates += float(np.asarray(step.state.scaler.scale)) >= before  # a skipped step lowers the scale
        if number == 0 and request.keeps_first_step:
            watched = seen
        if number + 1 in request.keep_weights_after:
            weights[number + 1] = step.read_values()
    outputs, terms, gradients = ({name: np.asarray(value) for name, value in part.items()} for part in watched)
    return ProbeResult(
        outputs=outputs,
        terms=terms,
        gradients=gradients,
        losses=np.array(losses),
        weights=weights,
        facts={**facts, "optimizer_steps": num_updates},
    )


def _facts(step: TrainStep, precision: Precision) -> dict[str, Any]:
    weights = step.state.weights.values()
    return {
        "framework": f"jax {jax.__version__}",
        "num_parameters": sum(weight.size for weight in weights),
        "gradient_bytes": sum(weight.nbytes for weight in weights),
        "tf32": precision.numbers.precision is not jax.lax.Precision.HIGHEST,
        "layout": step.facts()["layout"],
    }


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


# -- work --------------------------------------------------------------------------------------------------------------


def _count_flops(network: _Network, batch: Batch) -> int:
    """Of the convolutions and matrix products in the traced forward pass."""
    declared, precision = network.declared, network.precision

    def run(weights: Any, statistics: Any, batch: Batch) -> Any:
        layers = Layers(weights=weights, statistics=statistics, numbers=precision.numbers, is_training=True)
        return network.workload.examine(functools.partial(network.forward, layers), batch)

    shapes = {name: jax.ShapeDtypeStruct(found.shape, precision.master_dtype) for name, found in declared.items()}
    statistics = {name: shape for name, shape in shapes.items() if declared[name].kind is Kind.STATISTIC}
    weights = {name: shape for name, shape in shapes.items() if name not in statistics}
    return _flops_of(jax.make_jaxpr(run)(weights, statistics, batch).jaxpr)


def _flops_of(jaxpr: Any) -> int:
    """Multiply-adds counted as two, also inside of nested functions."""
    total = 0
    for equation in jaxpr.eqns:
        num_results = math.prod(equation.outvars[0].aval.shape)
        if equation.primitive.name == "conv_general_dilated":
            kernel = equation.invars[1].aval.shape  # OIHW
            total += 2 * num_results * math.prod(kernel[1:])
        elif equation.primitive.name == "dot_general":
            (contracted, _), _ = equation.params["dimension_numbers"]
            shape = equation.invars[0].aval.shape
            total += 2 * num_results * math.prod(shape[axis] for axis in contracted)
        total += sum(_flops_of(inner) for inner in _inner_of(equation))
    return total


def _inner_of(equation: Any) -> Iterator[Any]:
    if equation.params.get("name") == mix_by_matrix.__name__:
        return
    for value in equation.params.values():
        if hasattr(value, "jaxpr"):
            yield value.jaxpr
        elif hasattr(value, "eqns"):
            yield value
