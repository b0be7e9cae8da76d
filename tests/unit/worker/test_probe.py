"""The probe's documents, and PyTorch under observation: one tiny workload, no subprocess."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from making import make_probe_request  # noqa: E402
from trainmark.worker.probe import EpochResult, ProbeRequest, ProbeResult, digest  # noqa: E402
from trainmark.worker.probe_files import (  # noqa: E402
    ProbeFailedError,
    read_epoch_result,
    read_probe_result,
    read_request,
    write_failure,
    write_request,
    write_result,
)


def request(**other: Any) -> ProbeRequest:
    given: dict[str, Any] = {
        "precision": "fp64",
        "num_classes": 3,
        "weights": {"a.b": np.arange(3.0, dtype=np.float32)},
        "batches": [(np.zeros((2, 3)), [{"x": np.array([1, 2]), "y": []}])],
        "rates": (0.1, 0.2),
    }
    return make_probe_request(**{**given, **other})


def same(one: Any, other: Any) -> bool:
    if isinstance(one, Mapping):
        return set(one) == set(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return type(one) is type(other) and all(map(same, one, other))
    return bool(np.array_equal(one, other)) if isinstance(one, np.ndarray) else bool(one == other)


def test_a_request_comes_back_as_it_was(tmp_path: Path) -> None:
    for number, given in enumerate((request(), request(weights=None, batches=[], keep_weights_after=(0,)))):
        write_request(tmp_path / str(number), given)
        found = read_request(tmp_path / str(number))
        assert same(vars(found), vars(given))


def test_requests_with_the_same_weights_share_their_file(tmp_path: Path) -> None:
    for number, value in enumerate((1.0, 1.0, 2.0)):
        write_request(tmp_path / str(number), request(weights={"a": np.full(3, value)}))
    assert len(list(tmp_path.glob("weights-*.npz"))) == 2
    assert [(read_request(tmp_path / str(number)).weights or {})["a"][0] for number in range(3)] == [1, 1, 2]


def test_results_come_back_as_they_were(tmp_path: Path) -> None:
    given = ProbeResult(
        outputs={"logits": np.ones((2, 2))},
        terms={"one": np.array(1.5)},
        gradients={"a.b": np.arange(3.0)},
        losses=np.array([1.0, 0.5]),
        weights={0: {"a.b": np.zeros(1)}, 12: {"a.b": np.ones(1)}},
        facts={"tf32": False},
    )
    write_result(tmp_path, given)
    assert same(vars(read_probe_result(tmp_path)), vars(given))
    epoch = EpochResult(rates=np.array([0.1]), batches=[{"x": (np.ones(1), np.zeros(2))}], facts={"n": 1})
    write_result(tmp_path, epoch)
    assert same(vars(read_epoch_result(tmp_path)), vars(epoch))


def test_a_failure_is_told(tmp_path: Path) -> None:
    with pytest.raises(ProbeFailedError, match="without a result"):
        read_probe_result(tmp_path)
    write_failure(tmp_path, "ValueError: no")
    with pytest.raises(ProbeFailedError, match="ValueError: no"):
        read_probe_result(tmp_path)


def test_a_digest_sees_names_types_shapes_and_values() -> None:
    batches = [{"a": [np.zeros(2)]}, {"b": [np.zeros(2)]}, {"a": [np.zeros((2, 1))]}, {"a": [np.zeros(2, np.int64)]}]
    assert len({digest(batch) for batch in [*batches, {"a": [np.array([0.0, 1.0])]}]}) == 5
    assert digest({"a": [np.zeros(2)]}) == digest(batches[0])


@pytest.mark.parametrize("inputs", [3, 18])
def test_zeros_that_pad_a_kernel_are_no_work(inputs: int) -> None:
    """`fast` on a GPU convolves blocks of pixels, and pads channels to multiples of 8."""
    from torch import nn

    from trainmark.worker.torch.probe import _count_flops
    from trainmark.worker.torch.step import Precision
    from trainmark.workloads.torch_padding import convolve_padded
    from trainmark.workloads.torch_stem import SpaceToDepthConv2d

    torch.manual_seed(0)
    plain = nn.Conv2d(inputs, 10, 7, stride=2, padding=3, bias=False)
    images = torch.randn(2, inputs, 12, 8)
    wider = nn.functional.pad(images, (0, 0, 0, 0, 0, 6))

    def count(model: Any, convolve: Any) -> int:
        return _count_flops(SimpleNamespace(examine=convolve), model, images, Precision.of("fp32", "cpu"))  # type: ignore[arg-type]

    expected = 2 * 2 * (6 * 4) * (10 * inputs * 7 * 7)
    assert count(plain, lambda model, batch: model(batch)) == expected
    assert count(SpaceToDepthConv2d.of(plain), lambda model, batch: model(batch)) == expected
    assert count(plain, lambda model, _: convolve_padded(model, wider)) == expected
