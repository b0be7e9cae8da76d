"""Every optimisation of `fast` can be left out, alone, and the network stays the same function."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from trainmark.workloads.optimisations import OPTIMISATIONS, optimisations_of
from trainmark.workloads.registry import load_card, load_cards, load_module


def test_what_needs_something_that_is_left_out_is_left_out_too() -> None:
    everything = optimisations_of("tsm", "cuda")
    assert {"whole_step_graph", "fused_optimizer", "fused_shift", "compile"} <= everything
    assert "parallel_branches" not in everything
    without = optimisations_of("tsm", "cuda", without=["fused_optimizer"])
    assert everything - without == {"fused_optimizer", "whole_step_graph"}
    shorter = {"found_signs", "joined_gradients"}
    assert shorter <= optimisations_of("resnet50", "cuda")
    assert not shorter & optimisations_of("resnet50", "cuda", without=["shared_blocks"])
    assert optimisations_of("mask_rcnn", "cuda", without=["fixed_shapes"]) == {"channels_last", "fused_optimizer"}


@pytest.mark.parametrize("workload", load_cards())
def test_on_a_cpu_fast_is_the_reference_with_a_fused_optimizer(workload: str) -> None:
    """Nothing else was faster there, so nothing else is used."""
    assert optimisations_of(workload, "cpu") == {"fused_optimizer"}
    card, module = load_card(workload), load_module(workload, "torch")
    facts = {"device_type": "cpu", "num_classes": card.num_classes, "size": card.sizes["small"]}
    with torch.device("meta"):
        reference, fast = (module.build_model(recipe=recipe, **facts) for recipe in ("reference", "fast"))
    assert [type(part) for part in fast.modules()] == [type(part) for part in reference.modules()]


@pytest.mark.parametrize("workload", ["hrnet_w18", "psenet"])
@pytest.mark.parametrize(
    ("without", "gathers", "writes"),
    [((), True, True), (("written_pyramid",), True, False), (("gathering_resize",), False, False)],
)
def test_a_network_knows_which_kernels_of_the_resize_it_uses(
    workload: str, without: tuple[str, ...], gathers: bool, writes: bool
) -> None:
    network: Any = build(workload, "fast", without)
    assert {module.gathers_gradients for module in network.modules() if hasattr(module, "gathers_gradients")} == {
        gathers
    }
    assert network.writes_pyramid is writes


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown optimisation: tea"):
        optimisations_of("tsm", "cpu", without=["tea"])


def test_every_optimisation_belongs_to_a_workload_that_has_the_recipe() -> None:
    names = [known.name for known in OPTIMISATIONS]
    assert len(set(names)) == len(names)
    fast = {name for name, card in load_cards().items() if "fast" in card.recipes}
    for known in OPTIMISATIONS:
        assert set(known.workloads or ()) <= fast
        assert set(known.needs) <= set(names)


def build(workload: str, recipe: str, without: tuple[str, ...] = ()) -> nn.Module:
    card, module = load_card(workload), load_module(workload, "torch")
    torch.manual_seed(0)
    model: nn.Module = module.build_model(
        recipe=recipe, device_type="cuda", num_classes=5, size=card.sizes["small"], without=without
    )
    return model.double().eval()


@pytest.mark.parametrize(
    ("workload", "without"),
    [
        ("hrnet_w18", ("padded_channels",)),
        ("hrnet_w18", ("sum_norms", "parallel_branches")),
        ("hrnet_w18", ("block_stem", "gathering_resize")),
        ("psenet", ("shared_blocks", "padded_channels")),
        ("psenet", ("sum_norms", "gathering_pool")),
        ("resnet50", ("shared_blocks", "block_stem")),
    ],
)
def test_without_some_it_is_the_same_function(workload: str, without: tuple[str, ...]) -> None:
    images = torch.randn(1, 3, 32, 64, dtype=torch.float64)
    with torch.no_grad():
        wanted, got = build(workload, "reference")(images), build(workload, "fast", without)(images)
    torch.testing.assert_close(got, wanted, rtol=1e-6, atol=1e-8)
