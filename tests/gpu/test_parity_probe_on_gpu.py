"""The probe of `trainmark parity` sees gradients and updates of `fast` on a GPU, where a training replays a graph."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from making import make_probe_request
from trainmark.controller.parity_inputs import make_batches
from trainmark.worker.torch.probe import run_probe
from trainmark.workloads.registry import load_card

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.filterwarnings("default"),
]


def test_fast_gives_the_gradients_outputs_and_steps_of_reference() -> None:
    card = load_card("resnet50")
    batches = make_batches(card, size="small", batch_size=4, num_batches=1, seed=1)
    reference, fast = (
        run_probe(
            make_probe_request(
                recipe=recipe,
                device="cuda",
                num_classes=card.num_classes,
                batches=batches,
                rates=(0.01,),
                keep_weights_after=(1,),
            )
        )
        for recipe in ("reference", "fast")
    )
    assert fast.facts["optimizer_steps"] == reference.facts["optimizer_steps"] == 1
    assert fast.gradients.keys() == reference.gradients.keys()
    assert {name: array.shape for name, array in fast.outputs.items()} == {"logits": (4, card.num_classes)}
    np.testing.assert_allclose(fast.terms["cross_entropy"], reference.terms["cross_entropy"], rtol=1e-4)
    for name, gradient in reference.gradients.items():  # untrained: rounding alone is some percent
        assert np.linalg.norm(fast.gradients[name] - gradient) < 0.3 * np.linalg.norm(gradient) + 1e-6, name
