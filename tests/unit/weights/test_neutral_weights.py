"""Weights without a framework: what is refused, and that a file gives back the same bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from trainmark.weights.neutral import FORMAT, WeightsError, pack_weights, require_tensors
from trainmark.weights.reading import read_file

SHAPES = {"conv.weight": (2, 3, 1, 1), "fc.bias": (2,)}


def weights() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}


def test_the_right_tensors_pass() -> None:
    require_tensors(weights(), SHAPES)


def test_every_wrong_tensor_is_named() -> None:
    wrong = weights()
    wrong["stem.weight"] = wrong.pop("conv.weight")
    wrong["fc.bias"] = np.zeros((1, 2), np.float32)
    with pytest.raises(WeightsError) as caught:
        require_tensors(wrong, SHAPES)
    assert caught.value.why == (
        "missing: conv.weight; not in the model: stem.weight; wrong shape: fc.bias is 1x2 instead of 2"
    )


def test_a_file_gives_back_the_same_bits_and_facts(tmp_path: Path) -> None:
    given = weights()
    given["fc.bias"][0] = np.nan
    transposed = {**given, "conv.weight": given["conv.weight"].transpose(1, 0, 2, 3)}
    (tmp_path / "w.safetensors").write_bytes(pack_weights(transposed, {"workload": "resnet50"}))
    stored = read_file(tmp_path / "w.safetensors").stored
    assert stored.is_own
    assert stored.about.pop("layouts").startswith("convolution OIHW, ")
    assert stored.about == {"trainmark": FORMAT, "workload": "resnet50"}
    found = {name: tensor.read() for name, tensor in stored.tensors.items()}
    assert {name: array.tobytes() for name, array in found.items()} == {
        name: np.ascontiguousarray(array).tobytes() for name, array in transposed.items()
    }


def test_a_file_of_another_program_does_not_count_as_ours(tmp_path: Path) -> None:
    save_file(weights(), tmp_path / "w.safetensors")
    assert not read_file(tmp_path / "w.safetensors").stored.is_own
