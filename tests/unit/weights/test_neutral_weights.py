"""Weights without a framework: what is refused, and that a file gives back the same bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from trainmark.weights.neutral import WeightsError, read_weights, require_tensors, write_weights

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
    write_weights(tmp_path / "w.safetensors", transposed, {"workload": "resnet50"})
    found, about = read_weights(tmp_path / "w.safetensors")
    assert about == {"workload": "resnet50"}
    assert {name: array.tobytes() for name, array in found.items()} == {
        name: np.ascontiguousarray(array).tobytes() for name, array in transposed.items()
    }


@pytest.mark.parametrize("content", [b"", b"\xff" * 64, b"\x08\x00\x00\x00\x00\x00\x00\x00{}{}{}{}"])
def test_a_damaged_file_is_an_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "w.safetensors").write_bytes(content)
    with pytest.raises(WeightsError, match="cannot read"):
        read_weights(tmp_path / "w.safetensors")


def test_a_file_of_another_program_is_refused(tmp_path: Path) -> None:
    save_file(weights(), tmp_path / "w.safetensors")
    with pytest.raises(WeightsError, match="metadata"):
        read_weights(tmp_path / "w.safetensors")
