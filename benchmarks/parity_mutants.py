"""Planted faults: each of 16 classic differences between frameworks is patched into the real Paddle or JAX modules and
put through `trainmark parity`, which must name the right stage.

    python benchmarks/parity_mutants.py                     # all, and a control without a fault
    python benchmarks/parity_mutants.py --only bn-momentum,nesterov

PyTorch runs in processes of its own, once for all faults; the patched framework runs in this process. Prints a table,
and exits with 1 if a fault is missed or the control is not clean. docs/concepts/parity.md has the result.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from trainmark.controller.parity import run_parity
from trainmark.controller.parity_options import ParityOptions
from trainmark.controller.parity_probes import ProcessProber
from trainmark.worker.probe import EpochRequest, EpochResult, ProbeRequest, ProbeResult, run_epoch, run_steps

Patch = Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True, kw_only=True)
class Mutant:
    name: str
    what: str
    stage: str
    """That must catch it; empty for a control."""
    patch: Patch
    workload: str = "resnet50"
    framework: str = "paddle"


def module(name: str) -> Any:
    return importlib.import_module(f"trainmark.{name}")


# -- faults ------------------------------------------------------------------------------------------------------------


def same_padding() -> AbstractContextManager[Any]:
    from paddle import nn

    def convolution(inputs: int, outputs: int, size: int, *, stride: int = 1, bias: bool = False) -> Any:
        return nn.Conv2D(inputs, outputs, size, stride=stride, padding="SAME", bias_attr=None if bias else False)

    return mock.patch.object(module("workloads.paddle_resnet"), "convolution", convolution)


def norm_epsilon() -> AbstractContextManager[Any]:
    norm = module("workloads.paddle_layers").BatchNorm2D

    class OtherNorm(norm):  # type: ignore[misc]
        def __init__(self, width: int) -> None:
            super().__init__(width, epsilon=1e-3)

    return mock.patch.object(module("workloads.paddle_resnet"), "BatchNorm2D", OtherNorm)


def norm_momentum() -> AbstractContextManager[Any]:
    return mock.patch.object(module("workloads.paddle_layers"), "_MOMENTUM", 0.9)


def biased_variance() -> AbstractContextManager[Any]:
    layers = module("workloads.paddle_layers")
    track = layers.BatchNorm2D._track

    def track_biased(self: Any, mean: Any, variance: Any, count: int) -> None:
        track(self, mean, variance * ((count - 1) / count), count)

    return mock.patch.object(layers.BatchNorm2D, "_track", track_biased)


def decayed_norms() -> AbstractContextManager[Any]:
    workload = module("workloads.resnet50.paddle")
    groups = workload.ParameterGroup

    def all_decayed(model: Any) -> list[Any]:
        return [groups(params=list(model.parameters()), weight_decay=workload.CARD.optimizer.weight_decay)]

    return mock.patch.object(workload, "parameter_groups", all_decayed)


def unmoved_statistics() -> AbstractContextManager[Any]:
    """In fp32 only: float64, which `mathematics` compares, is right."""
    norm = module("workloads.paddle_layers").BatchNorm2D
    track = norm._track

    def track_float64(self: Any, mean: Any, variance: Any, count: int) -> None:
        if is_float64(mean):
            track(self, mean, variance, count)

    return mock.patch.object(norm, "_track", track_float64)


def undecayed_weights() -> AbstractContextManager[Any]:
    """In fp32 only: float64, which `mathematics` compares, is right."""
    step = module("worker.paddle.step")
    build = step.build_optimizer

    def build_without_decay(facts: Any, groups: Sequence[Any], **options: Any) -> Any:
        parts = [part if is_float64(part.params[0]) else replace(part, weight_decay=0.0) for part in groups]
        return build(facts, parts, **options)

    return mock.patch.object(step, "build_optimizer", build_without_decay)


def is_float64(tensor: Any) -> bool:
    return bool(tensor.dtype == module("workloads.paddle_layers").paddle.float64)


def late_warm_up() -> AbstractContextManager[Any]:
    engine = module("worker.paddle.engine").PaddleEngine
    rate = engine.learning_rate
    return mock.patch.object(engine, "learning_rate", lambda self, step: rate(self, max(0, step - 1)))


def nesterov() -> AbstractContextManager[Any]:
    optimizers = module("worker.paddle.optimizer")
    plain = optimizers.Momentum

    class Nesterov(plain):  # type: ignore[misc]
        def __init__(self, **options: Any) -> None:
            super().__init__(use_nesterov=True, **options)

    return mock.patch.object(optimizers, "Momentum", Nesterov)


def label_smoothing() -> AbstractContextManager[Any]:
    return mock.patch.object(module("workloads.resnet50.paddle"), "LABEL_SMOOTHING", 0.0)


def softmax_axis() -> AbstractContextManager[Any]:
    functional = module("workloads.paddle").functional

    def over_the_batch(logits: Any, targets: Any, *, smoothing: float) -> Any:
        log_shares = functional.log_softmax(logits, axis=0)
        own = log_shares.take_along_axis(targets.unsqueeze(1), axis=1).mean()
        return -(1 - smoothing) * own - smoothing * log_shares.mean()

    return mock.patch.object(module("workloads.resnet50.paddle"), "cross_entropy", over_the_batch)


def padded_average() -> AbstractContextManager[Any]:
    """A window over the map and its border: `exclusive` decides whether the border's zeros are counted."""
    resnet = module("workloads.paddle_resnet")
    functional = resnet.functional

    def features(self: Any, images: Any) -> Any:
        x = functional.max_pool2d(functional.relu(self.bn1(self.conv1(images))), 3, stride=2, padding=1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return functional.avg_pool2d(x, x.shape[2] + 2, padding=1, exclusive=False).flatten(1)

    return mock.patch.object(resnet.ResNet, "features", features)


@contextlib.contextmanager
def aligned_corners() -> Iterator[None]:
    paddle = module("workloads.paddle")

    def resize(x: Any, size: Sequence[int]) -> Any:
        return paddle.functional.interpolate(x, size=list(size), mode="bilinear", align_corners=True)

    with mock.patch.object(module("workloads.hrnet_w18.paddle_model"), "resize", resize):
        yield


def swapped_colours() -> AbstractContextManager[Any]:
    decoder = module("worker.paddle.images").ImageDecoder
    decode = decoder.decode

    def decode_bgr(self: Any, images: Any) -> Any:
        return decode(self, images)[..., ::-1]

    return mock.patch.object(decoder, "decode", decode_bgr)


def kept_last_batch() -> AbstractContextManager[Any]:
    """An incomplete last batch is filled up instead of left out."""
    data = module("workloads.data")

    def order(num_samples: int, *, seed: int, epoch: int, global_batch: int) -> Any:
        shuffled = np.random.default_rng([seed, epoch]).permutation(num_samples)
        return np.resize(shuffled, -(-num_samples // global_batch) * global_batch)

    return mock.patch.object(data, "shuffled", order)


@contextlib.contextmanager
def tf32_left_on() -> Iterator[None]:
    import jax

    step = module("worker.jax.step")
    plain = step.Precision.numbers.fget

    def numbers(self: Any) -> Any:
        return step.Numbers(dtype=plain(self).dtype, precision=jax.lax.Precision.DEFAULT)

    with mock.patch.object(step.Precision, "numbers", property(numbers)):
        yield


MUTANTS = (
    Mutant(name="control", what="no fault", stage="", patch=contextlib.nullcontext),
    Mutant(name="same-padding", what="SAME padding of strided convolutions", stage="mathematics", patch=same_padding),
    Mutant(name="bn-eps", what="BatchNorm epsilon 1e-3 instead of 1e-5", stage="mathematics", patch=norm_epsilon),
    Mutant(name="bn-momentum", what="BatchNorm momentum 0.9 instead of 0.1", stage="mathematics", patch=norm_momentum),
    Mutant(name="biased-variance", what="biased running variance", stage="mathematics", patch=biased_variance),
    Mutant(name="decayed-norms", what="weight decay on BatchNorm too", stage="mathematics", patch=decayed_norms),
    Mutant(name="late-warm-up", what="warm-up one step late", stage="work", patch=late_warm_up),
    Mutant(name="nesterov", what="Nesterov momentum", stage="mathematics", patch=nesterov),
    Mutant(name="label-smoothing", what="no label smoothing", stage="mathematics", patch=label_smoothing),
    Mutant(name="softmax-axis", what="softmax over the batch", stage="mathematics", patch=softmax_axis),
    Mutant(name="average-pool", what="average pool counts its padding", stage="mathematics", patch=padded_average),
    Mutant(
        name="align-corners",
        what="align_corners in HRNet's resize",
        stage="mathematics",
        patch=aligned_corners,
        workload="hrnet_w18",
    ),
    Mutant(
        name="unmoved-statistics",
        what="running statistics never updated in fp32",
        stage="rounding",
        patch=unmoved_statistics,
    ),
    Mutant(name="undecayed", what="no weight decay in fp32", stage="rounding", patch=undecayed_weights),
    Mutant(name="bgr", what="blue and red swapped after decoding", stage="work", patch=swapped_colours),
    Mutant(name="drop-last", what="incomplete last batch kept", stage="work", patch=kept_last_batch),
    Mutant(name="tf32", what="TF32 left on in fp32", stage="work", patch=tf32_left_on, framework="jax"),
    Mutant(name="control-jax", what="no fault", stage="", patch=contextlib.nullcontext, framework="jax"),
)


# -- running -----------------------------------------------------------------------------------------------------------


class MutantProber:
    """The reference from processes, which keep their results; the patched framework in this process."""

    def __init__(self, reference: ProcessProber) -> None:
        self._reference = reference
        self._epochs: dict[str, list[EpochResult]] = {}
        self.patch: Patch = contextlib.nullcontext

    def run_steps(self, requests: Sequence[ProbeRequest]) -> list[ProbeResult]:
        plain = [request for request in requests if request.framework == "torch"]
        known = iter(self._reference.run_steps(plain))
        with self.patch():
            return [next(known) if request.framework == "torch" else run_steps(request) for request in requests]

    def run_epochs(self, requests: Sequence[EpochRequest]) -> list[EpochResult]:
        """The reference first, as in every check."""
        plain, *others = requests
        if plain.cell.workload not in self._epochs:
            self._epochs[plain.cell.workload] = self._reference.run_epochs([plain])
        with self.patch():
            return [*self._epochs[plain.cell.workload], *map(run_epoch, others)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="names, separated by commas")
    parser.add_argument("--stages", default="mathematics,work", help="stages that run (default: mathematics,work)")
    parser.add_argument("--expected-only", action="store_true", help="run only the stage that should catch the fault")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="float64 is always on the CPU")
    args = parser.parse_args()
    wanted = args.only.split(",") if args.only else [mutant.name for mutant in MUTANTS]
    chosen = [mutant for mutant in MUTANTS if mutant.name in wanted]
    print("| fault | in | caught by | measured | limit | at | s |\n|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        talk: Callable[[str], None] = lambda text: print(text, file=sys.stderr, flush=True)  # noqa: E731
        prober = MutantProber(ProcessProber(Path(folder) / "probe", tell=talk))
        results = [_try(mutant, prober, _stages(mutant, args), args.device) for mutant in chosen]
    return 0 if results and all(results) else 1


def _stages(mutant: Mutant, args: argparse.Namespace) -> tuple[str, ...]:
    if args.expected_only and mutant.stage:
        return (mutant.stage,)
    return tuple(args.stages.split(","))


def _try(mutant: Mutant, prober: MutantProber, stages: tuple[str, ...], device: str) -> bool:
    begin = time.monotonic()
    prober.patch = mutant.patch
    if mutant.framework == "jax":
        module("worker.jax.probe").forget_networks()
    options = ParityOptions(
        workload=mutant.workload,
        frameworks=("torch", mutant.framework),
        stages=stages,
        device=device,
        precisions=("fp32",),
    )
    [pair] = run_parity(options, prober).pairs
    failed = [record for record in pair.stages if not record.holds]
    first = failed[0] if failed else max(pair.stages, key=lambda record: (record.measured or 0) / record.limit)
    is_right = mutant.stage in [record.stage for record in failed] if mutant.stage else not failed
    measured = "∞" if first.measured is None else f"{first.measured:.1e}"
    caught = " and ".join(record.stage for record in failed) or "nothing"
    caught += "" if is_right else " (WRONG)"
    where = f"{mutant.framework}, {mutant.workload}"
    cells = (mutant.what, where, caught, measured, f"{first.limit:g}", first.worst, f"{time.monotonic() - begin:.0f}")
    print(f"| {' | '.join(cells)} |", flush=True)
    return is_right


if __name__ == "__main__":
    sys.exit(main())
