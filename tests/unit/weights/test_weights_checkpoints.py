"""`--weights` takes a checkpoint of a training in any framework, and the neutral file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from trainmark.weights.loading import Start, load_start
from trainmark.weights.neutral import WeightsError, pack_weights
from trainmark.weights.reading import read_file
from trainmark.worker.array_checkpoint import write_state
from trainmark.workloads.layout import Shapes
from trainmark.workloads.resnet50.weights import tensor_shapes

NUM_CLASSES = 5


def shapes_for(num_classes: int) -> Shapes:
    """Of the stem, one block and the classifier: all of ResNet-50 takes seconds to write."""
    shapes = tensor_shapes(num_classes)
    return {name: shape for name, shape in shapes.items() if not name.startswith("layer") or "layer1.0." in name}


SHAPES = shapes_for(NUM_CLASSES)
Values = Mapping[str, np.ndarray[Any, Any]]


@pytest.fixture(scope="module")
def values() -> Values:
    rng = np.random.default_rng(0)
    return {name: rng.random(shape, dtype=np.float32) for name, shape in SHAPES.items()}


def as_paddle(values: Values) -> Values:
    """Paddle's names of statistics, and linear layers as (in, out)."""
    renamed = {}
    for name, array in values.items():
        ours = name.replace(".running_mean", "._mean").replace(".running_var", "._variance")
        renamed[ours] = np.ascontiguousarray(array.T) if array.ndim == 2 else array
    return renamed


def write_arrays(path: Path, values: Values, framework: str) -> None:
    with path.open("wb") as file:
        write_state(
            {"model": values, "optimizer": {"slot": np.zeros(3)}, "progress": {}, "randomness": []},
            file,
            framework=framework,
        )


def write_torch(path: Path, values: Values) -> None:
    counters = {"bn1.num_batches_tracked": torch.tensor(3)}
    model = {**{name: torch.from_numpy(array) for name, array in values.items()}, **counters}
    torch.save({"model": model, "scaler": None, "randomness": [], "progress": {}}, path)


def write_neutral(path: Path, values: Values, **about: str) -> None:
    path.write_bytes(pack_weights(values, {"workload": "resnet50", **about}))


WRITERS: dict[str, Callable[[Path, Values], None]] = {
    "torch": write_torch,
    "paddle": lambda path, values: write_arrays(path, as_paddle(values), "paddle"),
    "jax": lambda path, values: write_arrays(path, values, "jax"),
    "neutral": write_neutral,
}


def load(path: Path, *, num_classes: int = NUM_CLASSES) -> Start:
    return load_start(path, workload="resnet50", shapes=shapes_for(num_classes), recipe="reference", seed=0)


@pytest.mark.parametrize("kind", WRITERS)
def test_every_kind_gives_the_same_bits(tmp_path: Path, values: Values, kind: str) -> None:
    WRITERS[kind](tmp_path / "checkpoint", values)
    start = load(tmp_path / "checkpoint")
    assert (start.layout, start.num_loaded, start.kept, start.left_out) == ("trainmark", len(SHAPES), (), ())
    assert {name: array.tobytes() for name, array in start.arrays.items()} == {
        name: array.tobytes() for name, array in values.items()
    }


def test_another_recipe_is_said(tmp_path: Path, values: Values) -> None:
    """It may be another network with the same tensors."""
    for recipe, note in (("reference", None), ("fast", "they were trained with --recipe fast, this run has reference")):
        write_neutral(tmp_path / "w.safetensors", values, recipe=recipe)
        assert load(tmp_path / "w.safetensors").note == note


@pytest.mark.parametrize("kind", ["paddle", "jax"])
def test_the_framework_is_in_the_record(tmp_path: Path, values: Values, kind: str) -> None:
    WRITERS[kind](tmp_path / "checkpoint", values)
    assert load(tmp_path / "checkpoint").to_json()["format"] == f"checkpoint of {kind}"


@pytest.mark.parametrize("kind", WRITERS)
def test_a_missing_an_extra_and_a_misshapen_tensor_are_named(tmp_path: Path, values: Values, kind: str) -> None:
    path = tmp_path / "checkpoint"
    WRITERS[kind](path, {name: array for name, array in values.items() if name != "layer1.0.bn2.running_var"})
    with pytest.raises(WeightsError, match=r"incomplete: .*it lacks layer1\.0\.bn2\.running_var"):
        load(path)
    WRITERS[kind](path, {**values, "layer9.weight": np.zeros((2, 2, 1, 1), np.float32)})
    with pytest.raises(WeightsError, match=r"layer9\.weight \(2x2x1x1\) is not in the model"):
        load(path)
    WRITERS[kind](path, {**values, "conv1.weight": np.zeros((64, 3, 3, 3), np.float32)})
    with pytest.raises(WeightsError, match=r"conv1\.weight \(64x3x3x3\) is 64x3x7x7 in the model"):
        load(path)


@pytest.mark.parametrize("kind", WRITERS)
def test_half_of_a_classifier_is_an_error(tmp_path: Path, values: Values, kind: str) -> None:
    """Without any of it, it is the file of a backbone."""
    WRITERS[kind](tmp_path / "checkpoint", {name: array for name, array in values.items() if name != "fc.bias"})
    with pytest.raises(WeightsError, match=r"it lacks fc\.bias"):
        load(tmp_path / "checkpoint")
    backbone = {name: array for name, array in values.items() if not name.startswith("fc.")}
    WRITERS[kind](tmp_path / "checkpoint", backbone)
    assert load(tmp_path / "checkpoint").kept == ("fc.weight", "fc.bias")


@pytest.mark.parametrize("kind", WRITERS)
def test_a_classifier_for_other_classes_is_left_out(tmp_path: Path, values: Values, kind: str) -> None:
    WRITERS[kind](tmp_path / "checkpoint", values)
    start = load(tmp_path / "checkpoint", num_classes=7)
    assert start.kept == ("fc.weight", "fc.bias")
    assert "fc.weight is 5x2048 in the file, 7x2048 in the model" in start.sentence


def test_half_precision_becomes_float32(tmp_path: Path) -> None:
    """A Paddle training in fp16 keeps its weights in half precision."""
    write_arrays(tmp_path / "checkpoint", {"conv1.weight": np.array([0.1], np.float16)}, "paddle")
    found = read_file(tmp_path / "checkpoint").stored.tensors["conv1.weight"].read()
    assert found.dtype == np.float32
    assert found.tolist() == [float(np.float16(0.1))]


def test_integers_are_not_weights(tmp_path: Path) -> None:
    write_arrays(tmp_path / "checkpoint", {"conv1.weight": np.array([1])}, "jax")
    with pytest.raises(WeightsError, match="int64, expected floating point"):
        read_file(tmp_path / "checkpoint").stored.tensors["conv1.weight"].read()


def test_hostile_and_foreign_archives_are_refused(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "bomb.npz", **{"plain": np.zeros(1, np.uint8), "model/a": np.zeros(10**7)})
    np.savez(tmp_path / "objects.npz", plain=np.array([{}], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "foreign.npz", weight=np.zeros(3))
    for name, why in (
        ("bomb.npz", "compressed"),
        ("objects.npz", "Python objects"),
        ("foreign.npz", "not a checkpoint of trainmark"),
    ):
        with pytest.raises(WeightsError, match=rf"{name}: .*{why}"):
            read_file(tmp_path / name)


def test_a_damaged_tensor_is_named(tmp_path: Path, values: Values) -> None:
    path = tmp_path / "checkpoint"
    WRITERS["jax"](path, values)
    data = bytearray(path.read_bytes())
    data[data.index(values["layer1.0.bn1.bias"].tobytes()) + 5] ^= 1
    path.write_bytes(data)
    with pytest.raises(WeightsError, match=r"CRC-32 for file 'model/layer1\.0\.bn1\.bias"):
        load(path)
