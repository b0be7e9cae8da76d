"""What `trainmark parity` asks of a framework in a process of its own, and what it gets back.

    python -m trainmark.worker.probe FOLDER...

Each folder holds one request, and its result is written beside it. All folders of a process are of one framework and
one precision. A framework implements `ProbePackage` in `worker/<framework>/probe.py`, with the same step as in
training. Everything that goes in and comes out is numpy, named and laid out as the PyTorch reference has it.
"""

from __future__ import annotations

import hashlib
import importlib
import itertools
import math
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from trainmark.frameworks import frameworks
from trainmark.parent_death import die_with
from trainmark.runfolder.document import WorkloadCell
from trainmark.weights.neutral import Weights
from trainmark.worker.bytecode import keep_bytecode
from trainmark.worker.training import TrainingEngine
from trainmark.workloads.data import Arrays

PARENT_VARIABLE = "TRAINMARK_PROBE_PARENT"
"""The process id of the check."""


@dataclass(frozen=True, kw_only=True)
class ProbeRequest:
    """Train a few steps on these batches, from these weights."""

    workload: str
    framework: str
    recipe: str
    precision: str
    """`fp64`, or one that a cell may have. float64 must reach every number: inputs, weights, losses, optimizer."""
    size: str
    device: str
    num_classes: int
    seed: int
    """Of the initial weights, where none are given."""
    weights: Weights | None
    """Neutral; converted to the precision's type. None: the framework's own, which the result then has after step 0."""
    batches: Sequence[Arrays]
    """As `data.collate` or `synthetic.make_batch` gives them; step k, from 0, trains on number k modulo their count."""
    rates: Sequence[float]
    """The learning rate of each step. As many steps as rates; none: only the initial weights are wanted."""
    orders: Sequence[Sequence[int]] = ()
    """Of each step: the order of the samples in its batch. Empty: as they are given."""
    keep_weights_after: Sequence[int] = ()
    """Numbers of steps; 0 is before the first one."""
    keeps_first_step: bool = True
    """Whether outputs, terms and gradients are wanted: they are as large as the weights."""
    most_values: int | None = None
    """Of each output, gradient and weight, if not all of them are wanted; `spread_arrays` chooses them."""
    counts_work: bool = True
    """Whether the FLOPs are to be counted, which costs a forward pass."""


@dataclass(frozen=True, kw_only=True)
class ProbeResult:
    outputs: Weights = field(default_factory=dict)
    """Of the first step, as `examine` names them."""
    terms: Weights = field(default_factory=dict)
    """Of the first step, as `examine` names them; scalars."""
    gradients: Weights = field(default_factory=dict)
    """Of the first step: of the loss by each trained weight, unscaled and before clipping."""
    losses: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    """Of all steps."""
    weights: Mapping[int, Weights] = field(default_factory=dict)
    """By number of steps; BatchNorm's statistics included."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """
    framework         name and version: `torch 2.15.0`
    num_parameters    that are trained
    forward_flops     of convolutions and matrix products in the forward pass of the first batch, a multiply-add
                      counted as two; counted from the graph that runs, not from the card. null if not asked for
    gradient_bytes    what a rank would exchange in a step
    optimizer_steps   how often the optimizer changed the weights
    tf32              whether matrix products or convolutions of float32 may be rounded to TF32
    layout            `NCHW` or `NHWC`: how activations lie in memory
    """


@dataclass(frozen=True, kw_only=True)
class EpochRequest:
    """Train the first steps of a real run: its own feed, schedule and epoch, with the engine that a run has."""

    cell: WorkloadCell
    num_steps: int


@dataclass(frozen=True, kw_only=True)
class EpochResult:
    rates: NDArray[np.float64]
    """The learning rate that each step was given."""
    batches: Sequence[Arrays]
    """What each step was trained on, as it lay on the device."""
    facts: Mapping[str, Any]
    """`steps_per_epoch`, `samples_per_step`, `gradient_bytes`, and the engine's own facts."""


class ProbePackage(Protocol):
    """The module-level functions of `trainmark.worker.<framework>.probe`."""

    def run_probe(self, request: ProbeRequest) -> ProbeResult:
        """All but `most_values`, which `run_steps` takes care of."""

    def read_batch(self, batch: Any) -> Arrays:
        """A batch of this framework's feed on the host, in the neutral form and layout."""


def run_steps(request: ProbeRequest) -> ProbeResult:
    result = _probe_package(request.framework).run_probe(request)
    if request.most_values is None:
        return result
    return replace(
        result,
        outputs=spread_arrays(result.outputs, request.most_values),
        gradients=spread_arrays(result.gradients, request.most_values),
        weights={step: spread_arrays(weights, request.most_values) for step, weights in result.weights.items()},
    )


def run_epoch(request: EpochRequest) -> EpochResult:
    """The same for all frameworks: what their engine is given in each step is written down."""
    engine = _package(request.cell.framework).build_engine(request.cell)
    assert isinstance(engine, TrainingEngine)
    read_batch = _probe_package(request.cell.framework).read_batch
    rates: list[float] = []
    batches: list[Arrays] = []
    train = engine._train

    def note_and_train(batch: Any, rate: float) -> None:
        rates.append(rate)
        batches.append(read_batch(batch))
        train(batch, rate)

    engine._train = note_and_train  # type: ignore[method-assign]
    try:
        for _ in range(request.num_steps):
            engine.step()
        engine.wait()
        facts = {
            "steps_per_epoch": engine.steps_per_epoch,
            "samples_per_step": engine.samples_per_step,
            "gradient_bytes": engine.gradient_bytes(),
            "engine": engine.facts(),
        }
    finally:
        engine.close()
    return EpochResult(rates=np.array(rates), batches=batches, facts=facts)


def spread_arrays(arrays: Mapping[str, NDArray[Any]], most: int) -> dict[str, NDArray[Any]]:
    """At most so many values of each, the same ones for every array of a size.

    Steps of the golden ratio reach all parts of it: equal steps could meet the same place of every 3x3 kernel.
    """
    places = np.arange(most) * ((math.sqrt(5) - 1) / 2) % 1
    return {
        name: array if array.size <= most else array.reshape(-1)[(places * array.size).astype(np.int64)]
        for name, array in arrays.items()
    }


def digest(batch: Arrays) -> str:
    """Of a batch's exact contents: names, shapes, types and bytes."""
    found = hashlib.sha256()
    for name, array in leaves(batch):
        found.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def leaves(arrays: Arrays, name: str = "") -> Iterator[tuple[str, NDArray[Any]]]:
    """The arrays of a nesting of dicts, lists and tuples, with a path for each."""
    if isinstance(arrays, Mapping):
        for key, part in arrays.items():
            yield from leaves(part, f"{name}/{key}" if name else str(key))
    elif isinstance(arrays, (list, tuple)):
        for number, part in enumerate(arrays):
            yield from leaves(part, f"{name}/{number}" if name else str(number))
    else:
        yield name, np.asarray(arrays)


def batches_of_steps(request: ProbeRequest, move: Callable[[Arrays], Any]) -> Iterator[Any]:
    """What each step trains on, moved to the device by `move`: the given batches in turn, their samples in order."""
    if not request.orders:
        yield from itertools.islice(itertools.cycle([move(batch) for batch in request.batches]), len(request.rates))
    for number, order in enumerate(request.orders):
        yield move(permute_samples(request.batches[number % len(request.batches)], order))


def permute_samples(batch: Arrays, order: Sequence[int]) -> Arrays:
    """The same samples in another order, in whatever nesting a workload has them."""
    if isinstance(batch, np.ndarray):
        return np.ascontiguousarray(batch[list(order)])
    if isinstance(batch, Mapping):
        return {name: permute_samples(part, order) for name, part in batch.items()}
    if isinstance(batch, list) and len(batch) == len(order):  # one item for each sample
        return [batch[number] for number in order]
    return type(batch)(permute_samples(part, order) for part in batch)


def main(folders: Sequence[str]) -> int:
    from trainmark.worker.probe_files import read_request, write_failure, write_result

    for folder in map(Path, folders):
        try:
            request = read_request(folder)
            if isinstance(request, EpochRequest):
                write_result(folder, run_epoch(request))
            else:
                write_result(folder, run_steps(request))
        except Exception as error:
            traceback.print_exc()
            write_failure(folder, f"{type(error).__name__}: {error}")
            return 1
    return 0


def _package(framework: str) -> Any:
    engine = frameworks().load(framework).engine
    if engine is None:
        raise LookupError(f"trainmark has no engine for {framework}")
    keep_bytecode(framework)
    return importlib.import_module(engine)


def _probe_package(framework: str) -> ProbePackage:
    package: Any = importlib.import_module(f"{_package(framework).__name__}.probe")
    probe: ProbePackage = package
    return probe


if __name__ == "__main__":
    # Else it computes on after a kill of the check, beside the next one. It may be killed before this line, too.
    die_with(int(os.environ.pop(PARENT_VARIABLE, os.getppid())))
    # By its real name: `__main__` would be a second copy of the classes here, which no isinstance() recognises.
    sys.exit(importlib.import_module("trainmark.worker.probe").main(sys.argv[1:]))
