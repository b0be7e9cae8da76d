"""FLOPs and bytes of a step, counted from the operations that the networks call."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from trainmark.worker.torch.work import _Traffic, count_work
from trainmark.workloads.registry import load_card, load_cards


@pytest.mark.parametrize("name", [name for name, card in load_cards().items() if "torch" in card.frameworks])
def test_a_step_of_every_workload_is_counted(name: str) -> None:
    wanted = load_card(name).sizes["small"].flops_per_sample
    half, whole = (count_work(name, size="small", batch_size=2, precision=each) for each in ("bf16", "fp32"))
    assert half.flops == whole.flops == pytest.approx(wanted, rel=0.02)
    assert 0.4 < half.bytes / whole.bytes < 0.75


def test_bytes_are_what_a_convolution_and_a_norm_read_and_write() -> None:
    pixels = torch.zeros(2, 3, 8, 8, requires_grad=True)
    convolution, norm = nn.Conv2d(3, 5, 3, padding=1, bias=False), nn.BatchNorm2d(5)
    read, written, weights, vector = 2 * 3 * 64, 2 * 5 * 64, 5 * 3 * 9, 5
    with _Traffic() as forward:
        found = norm(convolution(pixels)).relu()
    # The norm reads its input twice; scale, shift, two running and two saved statistics are vectors.
    assert forward.bytes == 4 * (read + weights + written + 3 * written + 6 * vector)
    with _Traffic() as backward:
        found.sum().backward()
    # Gradient and input of the norm twice, its result once; the gradient that comes to the convolution twice.
    of_norm = 5 * written + 7 * vector
    assert backward.bytes == 4 * (of_norm + 2 * written + 2 * (read + weights))
