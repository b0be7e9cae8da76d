"""Compares our HRNet-W18 with PaddleSeg's in float64: outputs and gradients of a training step.

Needs `paddlepaddle` and `paddleseg` beside PyTorch, which our own environment does not have:

    uv venv paddle && echo "opencv-python==4.14.0.94" > override.txt
    uv pip install --python paddle/bin/python --override override.txt \\
        paddlepaddle==3.3.1 paddleseg==2.8.0 setuptools torch torchvision
    PYTHONPATH=src paddle/bin/python scripts/hrnet_parity.py

Prints the largest differences, and exits with 1 if one of them is above its limit. `--facts FILE` writes what
PaddleSeg's network gave, so that a test can compare ours with it where there is no Paddle.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from trainmark.workloads.hrnet_w18.torch_network import Network

LIMITS = {(2, 3, 64, 96): 1e-9, (2, 3, 75, 50): 1e-5}
"""By shape: even sides, which `same` pads unevenly in every halving, and sides of both kinds.

Paddle computes the factor of a bilinear resize in float32, which is exact for powers of two only.
"""
NUM_CLASSES = 19
NUM_PROBES = 12
GRADIENT_STEP = 40
"""Facts have the norm of every 40th gradient."""

Arrays = dict[str, NDArray[np.float64]]


def random_arrays(shapes: list[tuple[int, ...]]) -> list[NDArray[np.float64]]:
    """Uniform values of PCG64, whose stream numpy keeps: convolutions at He's scale, norms around 1 and 0."""
    rng = np.random.default_rng(18)
    arrays = []
    for number, shape in enumerate(shapes):
        values = 2 * rng.random(shape) - 1
        if len(shape) == 4:
            values *= np.sqrt(6 / np.prod(shape[1:]))
        arrays.append(values if len(shape) == 4 else 0.2 * values + (number % 3 == 1))
    return arrays


def random_input(shape: tuple[int, ...]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Images, and the gradient of the logits."""
    rng = np.random.default_rng(shape[2:])
    return 2 * rng.random(shape) - 1, 2 * rng.random((shape[0], NUM_CLASSES, *shape[2:])) - 1


def run_ours(shape: tuple[int, ...]) -> Arrays:
    model = Network(NUM_CLASSES).double().train()
    parameters = list(model.parameters())
    with torch.no_grad():
        for parameter, values in zip(parameters, random_arrays([tuple(p.shape) for p in parameters]), strict=True):
            parameter.copy_(torch.from_numpy(values))
    images, gradient = random_input(shape)
    logits = model(torch.from_numpy(images))
    logits.backward(torch.from_numpy(gradient))
    gradients = [parameter.grad.numpy() for parameter in parameters if parameter.grad is not None]
    return {"logits": logits.detach().numpy(), **_named(gradients)}


def run_paddleseg(shape: tuple[int, ...]) -> Arrays:
    import paddle  # type: ignore[import-not-found]
    from paddleseg.models import FCN, HRNet_W18  # type: ignore[import-not-found]

    paddle.set_device("cpu")
    paddle.set_default_dtype("float64")
    backbone = HRNet_W18(align_corners=False)
    model = FCN(num_classes=NUM_CLASSES, backbone=backbone, backbone_indices=(-1,), bias=False)
    model.train()
    # Both have their layers in the same order. Running statistics are parameters in Paddle, without a gradient.
    parameters = [parameter for parameter in model.parameters() if not parameter.stop_gradient]
    for parameter, values in zip(parameters, random_arrays([tuple(p.shape) for p in parameters]), strict=True):
        parameter.set_value(paddle.to_tensor(values))
    images, gradient = random_input(shape)
    (logits,) = model(paddle.to_tensor(images))
    logits.backward(paddle.to_tensor(gradient))
    return {"logits": logits.numpy(), **_named([parameter.grad.numpy() for parameter in parameters])}


def _named(gradients: list[Any]) -> Arrays:
    return {f"gradient {number}": array for number, array in enumerate(gradients)}


def differences(one: Arrays, other: Arrays) -> dict[str, float]:
    """The largest difference of each kind, relative to the largest value of its array."""
    assert list(one) == list(other)
    found: dict[str, float] = {}
    for name, array in one.items():
        kind = name.split()[0]
        relative = np.abs(array - other[name]).max() / np.abs(other[name]).max()
        found[kind] = max(found.get(kind, 0.0), float(relative))
    return found


def facts_of(arrays: Arrays) -> dict[str, Any]:
    """Norms, and values of the logits at fixed places."""
    logits = arrays["logits"].ravel()
    kept = [name for number, name in enumerate(arrays) if number % GRADIENT_STEP == 0]
    return {
        "norms": {name: float(np.linalg.norm(arrays[name])) for name in kept},
        "logits": logits[:: len(logits) // NUM_PROBES][:NUM_PROBES].tolist(),
    }


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--facts", type=Path)
    options = parser.parse_args()
    facts, is_equal = {}, True
    for shape, limit in LIMITS.items():
        theirs = run_paddleseg(shape)
        found = differences(run_ours(shape), theirs)
        is_equal &= all(value <= limit for value in found.values())
        print(json.dumps({"shape": shape, "largest_relative_difference": found}))
        facts["x".join(map(str, shape))] = facts_of(theirs)
    if options.facts is not None:
        options.facts.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    return 0 if is_equal else 1


if __name__ == "__main__":
    raise SystemExit(main())
