"""The Paddle engine on the CPU: training, checkpoints, weights in and out, and steps in float64 against PyTorch's."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("paddle")

import paddle

from making import make_images, make_workload_cell
from trainmark.weights.loading import load_start
from trainmark.weights.neutral import WeightsError
from trainmark.worker.checkpoint import CheckpointRefusedError
from trainmark.worker.paddle import is_out_of_memory
from trainmark.worker.paddle.engine import PaddleEngine
from trainmark.worker.paddle.optimizer import build_optimizer
from trainmark.worker.paddle.sources import SampleSource
from trainmark.worker.probe import ProbeRequest
from trainmark.worker.samples import Problems, Share
from trainmark.workloads.card import Sgd
from trainmark.workloads.paddle import ParameterGroup, resize
from trainmark.workloads.registry import load_card, load_module


def build(**changes: Any) -> PaddleEngine:
    return PaddleEngine(make_workload_cell(**{"framework": "paddle", "batch_size_per_device": 2, **changes}))


def losses_of(engine: PaddleEngine, num_steps: int) -> list[float]:
    losses = []
    for _ in range(num_steps):
        engine.step()
        losses.append(engine.read_loss(engine.queue_loss()))
    return losses


def test_a_training_resumes_where_its_checkpoint_was_written(tmp_path: Path) -> None:
    """On real images: weights, momentum, statistics and position in the data, to the last bit."""
    data = str(make_images(tmp_path / "data", per_class=4))
    engine = build(data=data, epochs=1, lr=0.01)
    path = tmp_path / "checkpoint"
    losses_of(engine, 2)
    assert engine.weights_changed()
    engine.save(path, {"num_steps": 2})
    own = engine.export_weights()
    shapes = {name: array.shape for name, array in own.items()}
    start = load_start(path, workload="resnet50", shapes=shapes, recipe="reference", seed=0)
    assert start.kept == ()
    assert {n: a.tobytes() for n, a in start.arrays.items()} == {n: a.tobytes() for n, a in own.items()}, "--weights"
    expected = losses_of(engine, 2)
    metrics = engine.evaluate()
    assert metrics is not None
    assert 0 <= metrics["top1"] <= metrics["top5"] <= 1
    engine.close()

    again = build(data=data, epochs=1, lr=0.01)
    again.restore(path)
    again.begin_epoch(0, step=2)
    assert losses_of(again, 2) == expected
    assert again.facts()["num_parameters"] < 25_557_032  # fewer classes
    (tmp_path / "garbage").write_bytes(b"nothing of the kind")  # test_array_checkpoint.py has what else is refused
    with pytest.raises(CheckpointRefusedError, match="damaged"):
        again.restore(tmp_path / "garbage")
    again.close()


def test_weights_go_to_torch_and_back_without_a_changed_bit() -> None:
    import torch

    from trainmark.worker.torch.weights import export_weights, import_weights

    options: dict[str, Any] = {"recipe": "reference", "device_type": "cpu", "num_classes": 3}
    size = load_card("resnet50").sizes["small"]
    engine = build()
    own = engine.export_weights()
    torch.manual_seed(1)
    other = load_module("resnet50", "torch").build_model(**{**options, "num_classes": 1000}, size=size)
    import_weights(other, own)
    there = export_weights(other)
    assert {name: array.tobytes() for name, array in there.items()} == {n: a.tobytes() for n, a in own.items()}
    changed = {name: array + 1 for name, array in there.items()}
    engine.import_weights(changed)
    assert all(np.array_equal(array, changed[name]) for name, array in engine.export_weights().items())
    assert not engine.weights_changed(), "imported weights are the ones to compare with"
    del changed["fc.bias"]
    with pytest.raises(WeightsError) as refused:
        engine.import_weights({**changed, "fc.more": np.zeros(1)})
    assert "fc.bias" in str(refused.value.why)
    assert "fc.more" in str(refused.value.why)
    engine.close()


SIZES = {
    "resnet50": (32, 32, 4),
    "hrnet_w18": (32, 64, 2),
    "tsm": (32, 32, 1),
    "psenet": (64, 64, 1),
    "mask_rcnn": (64, 96, 1),
}


@pytest.mark.parametrize("name", SIZES)
def test_a_step_in_float64_is_that_of_pytorch(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outputs, loss terms, gradients, updated weights and BatchNorm statistics, in training mode."""
    from trainmark.worker.paddle import probe as own
    from trainmark.worker.torch import probe as torchs

    height, width, batch_size = SIZES[name]
    card = load_card(name)
    size = replace(card.sizes["small"], height=height, width=width)
    monkeypatch.setitem(card.sizes, "small", size)  # type: ignore[arg-type]
    make_batch = load_module(name, "synthetic").make_batch
    rng = np.random.default_rng(0)
    batch = make_batch(rng, batch_size=batch_size, size=size, num_classes=5, fixes_choices=True)
    given: dict[str, Any] = {
        "workload": name,
        "recipe": "reference",
        "precision": "fp64",
        "size": "small",
        "device": "cpu",
        "num_classes": 5,
        "seed": 1,
        "batches": [batch],
    }
    weights = torchs.run_probe(ProbeRequest(framework="torch", weights=None, rates=(), **given)).weights[0]
    given |= {"weights": weights, "rates": (0.01,), "keep_weights_after": (1,)}
    expected = torchs.run_probe(ProbeRequest(framework="torch", **given))
    found = own.run_probe(ProbeRequest(framework="paddle", **given))
    parts = (
        (found.outputs, expected.outputs),
        (found.terms, expected.terms),
        (found.gradients, expected.gradients),
        (found.weights[1], expected.weights[1]),
    )
    for part, reference in parts:
        assert part.keys() == reference.keys()
        worst = max((_difference(part[key], reference[key]), key) for key in part)
        assert worst[0] < 1e-9, worst
    equal_work = ("num_parameters", "forward_flops", "gradient_bytes", "optimizer_steps", "tf32", "layout")
    assert {key: found.facts[key] for key in equal_work} == {key: expected.facts[key] for key in equal_work}


def _difference(found: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> float:
    return float(np.abs(found - expected).max() / max(np.abs(expected).max(), 1e-30))


def test_the_optimizer_in_float64_follows_pytorch_over_many_steps() -> None:
    import torch

    start = np.array([0.5, -1.0, 2.0])
    ours = [paddle.create_parameter([3], "float64") for _ in range(2)]
    for parameter in ours:
        parameter.set_value(start)
    theirs = [torch.nn.Parameter(torch.tensor(start)) for _ in range(2)]
    groups = [
        ParameterGroup(params=ours[:1], weight_decay=0.01),
        ParameterGroup(params=ours[1:], weight_decay=0.0, lr_scale=2.0),
    ]
    optimizer = build_optimizer(Sgd(momentum=0.9, weight_decay=0.01), groups, multi_precision=False)
    reference = torch.optim.SGD(
        [{"params": theirs[:1], "weight_decay": 0.01}, {"params": theirs[1:]}], 0.1, momentum=0.9
    )
    for step in range(20):
        rate = 0.1 / (step + 1)
        optimizer.set_lr(rate)
        reference.param_groups[0]["lr"], reference.param_groups[1]["lr"] = rate, 2 * rate
        optimizer.clear_grad()
        sum((parameter**2).sum() for parameter in ours).backward()
        optimizer.step()
        reference.zero_grad()
        sum((parameter**2).sum() for parameter in theirs).backward()
        reference.step()
    for parameter, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(parameter.numpy(), other.detach().numpy(), rtol=1e-14)


@pytest.mark.parametrize("size", [(16, 32), (13, 11), (5, 6)])
def test_resizing_is_that_of_pytorch_at_any_ratio(size: tuple[int, int]) -> None:
    import torch

    x = np.random.default_rng(0).normal(size=(2, 3, 8, 8))
    expected = torch.nn.functional.interpolate(torch.tensor(x), size=size, mode="bilinear", align_corners=False)
    np.testing.assert_allclose(resize(paddle.to_tensor(x), size).numpy(), expected.numpy(), rtol=0, atol=1e-14)


def test_loader_threads_give_the_batches_in_the_same_order() -> None:
    """As on a GPU, where samples are made by several threads."""
    data = _Numbers()
    share = Share(rank=0, world_size=1, batch_size=2, seed=0)
    batches = []
    for num_loaders in (1, 3):
        stream = SampleSource(data, share, Problems(), num_loaders=num_loaders).training(epoch=0, step=1)
        batches.append([next(stream)["values"].numpy().tolist() for _ in range(6)])
        stream.close()
    assert batches[0] == batches[1]


class _Numbers:
    num_train, num_val, num_classes, truth = 8, 0, 1, None

    def order(self, *, seed: int, epoch: int, global_batch: int) -> Any:
        return np.random.default_rng([seed, epoch]).permutation(8)

    def train_sample(self, index: int, rng: np.random.Generator) -> Any:
        from trainmark.workloads.data import Sample

        return Sample(arrays={"values": np.array([index, rng.integers(1000)])})

    def eval_sample(self, index: int) -> Any:
        raise AssertionError(index)

    @staticmethod
    def collate(samples: Any) -> Any:
        return {"values": np.stack([sample["values"] for sample in samples])}


def test_memory_errors_are_told_from_others() -> None:
    assert is_out_of_memory(RuntimeError("ResourceExhaustedError: Out of memory error on GPU 0"))
    assert not is_out_of_memory(RuntimeError("InvalidArgumentError: shapes differ"))


def test_facts_are_json_and_say_what_was_switched_on() -> None:
    engine = build(workload="hrnet_w18")
    facts = json.loads(json.dumps(engine.facts()))
    assert facts["num_parameters"] == 9_640_830
    assert facts["framework"].startswith("paddle 3")
    assert facts["flags"]["tf32_matmul"] is False
    assert facts["flags"]["compiled"] is False
    engine.close()
