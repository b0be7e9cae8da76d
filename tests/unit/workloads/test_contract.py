"""Every workload offers the same functions with the same parameters, so that an engine never has to ask what it has."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from trainmark.worker.torch.workload import TorchWorkload
from trainmark.workloads.metric import Metric
from trainmark.workloads.registry import load_cards, load_module

CARDS = load_cards()


def methods_of(protocol: type) -> dict[str, list[str]]:
    """Names of the parameters of each method, without `self`."""
    found: dict[str, Any] = {name: value for name, value in vars(protocol).items() if inspect.isfunction(value)}
    public = {name: value for name, value in found.items() if not name.startswith("_")}
    return {name: list(inspect.signature(value).parameters)[1:] for name, value in public.items()}


@pytest.mark.parametrize("name", CARDS)
@pytest.mark.parametrize(("part", "protocol"), [("torch", TorchWorkload), ("metric", Metric)])
def test_a_part_has_all_functions_of_its_protocol(name: str, part: str, protocol: type) -> None:
    module = vars(load_module(name, part))
    expected = methods_of(protocol)
    assert expected
    assert {method: list(inspect.signature(module[method]).parameters) for method in expected} == expected


@pytest.mark.parametrize("name", CARDS)
def test_a_data_set_is_opened_in_the_same_way(name: str) -> None:
    open_data = vars(load_module(name, "data"))["open_data"]
    assert list(inspect.signature(open_data).parameters) == ["root", "size"]


@pytest.mark.parametrize("name", [name for name, card in CARDS.items() if "paddle" in card.frameworks])
def test_a_part_for_paddle_has_all_functions_of_its_protocol(name: str) -> None:
    pytest.importorskip("paddle")
    from trainmark.worker.paddle.workload import PaddleWorkload

    module, expected = vars(load_module(name, "paddle")), methods_of(PaddleWorkload)
    assert {"build_model", "examine", "compute_loss", "score"} <= set(expected)
    assert {method: list(inspect.signature(module[method]).parameters) for method in expected} == expected


@pytest.mark.parametrize("name", [name for name, card in CARDS.items() if "jax" in card.frameworks])
def test_a_part_for_jax_has_all_functions_of_its_protocol(name: str) -> None:
    pytest.importorskip("jax")
    from trainmark.worker.jax.workload import JaxWorkload

    module, expected = vars(load_module(name, "jax")), methods_of(JaxWorkload)
    assert {"build_model", "examine", "compute_loss", "score"} <= set(expected)
    assert {method: list(inspect.signature(module[method]).parameters) for method in expected} == expected
