"""The four stages as pure functions: what holds, what fails, and what is named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from trainmark.analyse.parity import Observed, check_mathematics, check_rounding, worse_of
from trainmark.analyse.parity_trajectory import check_trajectory
from trainmark.analyse.parity_work import Work, check_work

RNG = np.random.default_rng(0)
EXACT = Observed(
    outputs={"logits": RNG.normal(size=(4, 100))},
    terms={"cross_entropy": np.array(2.0)},
    gradients={"a": RNG.normal(size=(10, 20)), "zero on paper": np.full(64, 1e-17)},
    weights={"a": RNG.normal(size=(10, 20))},
    statistics={"bn.running_mean": RNG.normal(size=8)},
)


def nudged(relative: float, *, seed: int, only: str | None = None, given: Observed = EXACT) -> Observed:
    """With noise of a relative size in every tensor, or only in those of one kind."""
    rng = np.random.default_rng(seed)
    kinds: dict[str, Any] = {
        kind: {name: array + relative * np.abs(array) * rng.normal(size=array.shape) for name, array in tensors.items()}
        for kind, tensors in given.kinds().items()
        if only in (None, kind)
    }
    return replace(given, **kinds)


# -- mathematics -------------------------------------------------------------------------------------------------------


def test_rounding_of_float64_is_no_difference() -> None:
    noisy = nudged(1e-13, seed=1)
    noisy = replace(noisy, gradients={**noisy.gradients, "zero on paper": np.full(64, -3e-17)})
    found = check_mathematics(EXACT, noisy)
    assert found.holds
    assert 1e-14 < (found.measured or 0) < 1e-10


@pytest.mark.parametrize("kind", ["outputs", "terms", "gradients", "weights", "statistics"])
def test_any_kind_of_tensor_can_fail_and_is_named(kind: str) -> None:
    found = check_mathematics(EXACT, nudged(1e-8, seed=1, only=kind))
    assert not found.holds
    assert found.worst.startswith(f"{kind}: ")
    assert [name for name, value in found.parts.items() if value is None or value > found.limit] == [kind]


@pytest.mark.parametrize("other", [{}, {"logits": np.zeros((4, 99))}, {"logits": np.full((4, 100), np.nan)}])
def test_a_missing_misshapen_or_nan_tensor_fails(other: dict[str, Any]) -> None:
    found = check_mathematics(EXACT, replace(EXACT, outputs=other))
    assert (found.holds, found.measured, found.worst) == (False, None, "outputs: logits")


# -- rounding ----------------------------------------------------------------------------------------------------------


def draws(error: float, *, num_batches: int = 3, given: Observed = EXACT) -> list[list[Observed]]:
    """Of the reference: four runs on each batch."""
    seeds = iter(range(100, 1000))
    return [[nudged(error, seed=next(seeds), given=given) for _ in range(4)] for _ in range(num_batches)]


def test_the_same_error_holds_and_a_larger_one_fails() -> None:
    exact, reference = [EXACT] * 3, draws(1e-4)
    same = check_rounding(exact, reference, [nudged(1e-4, seed=seed) for seed in (7, 8, 9)], precision="fp32")
    assert same.holds
    assert 0.5 < (same.measured or 0) < 1.8
    worse = check_rounding(exact, reference, [nudged(4e-4, seed=seed) for seed in (7, 8, 9)], precision="fp32")
    assert not worse.holds
    assert worse.limit == 2


def test_half_precision_may_be_three_times_as_far() -> None:
    exact, reference = [EXACT] * 3, draws(1e-2)
    other = [nudged(2.4e-2, seed=seed, only="gradients") for seed in (7, 8, 9)]
    assert check_rounding(exact, reference, other, precision="bf16").holds
    assert not check_rounding(exact, reference, other, precision="fp32").holds


def test_one_bad_tensor_among_many_good_ones_fails() -> None:
    many = replace(EXACT, gradients={f"w{number}": RNG.normal(size=100) for number in range(200)})
    other = nudged(1e-4, seed=2, given=many)
    bad = other.gradients["w5"] + 1e-3 * np.abs(many.gradients["w5"]) * RNG.normal(size=100)
    found = check_rounding(
        [many],
        draws(1e-4, num_batches=1, given=many),
        [replace(other, gradients={**other.gradients, "w5": bad})],
        precision="fp32",
    )
    assert not found.holds
    assert found.worst == "gradients: w5"


def test_a_value_that_rounding_puts_across_zero_on_two_batches_of_five_is_no_fault() -> None:
    """ReLU then stops a gradient that it passes in float64: an error a thousand times the usual one."""

    def run(number_of_wrong: int) -> bool:
        other = [nudged(0.1 if seed < number_of_wrong else 1e-4, seed=seed, only="gradients") for seed in range(5)]
        return check_rounding([EXACT] * 5, draws(1e-4, num_batches=5), other, precision="fp32").holds

    assert run(2)
    assert not run(3)


def test_a_loss_that_the_reference_has_exactly_may_be_wrong_in_its_last_digit() -> None:
    exact = [replace(EXACT, terms={"loss": np.array(0.5)})] * 3

    def holds(error: float) -> bool:
        other = [replace(one, terms={"loss": np.array(0.5 * (1 + error))}) for one in exact]
        return check_rounding(exact, [[one] * 4 for one in exact], other, precision="fp32").holds

    assert holds(2e-7)
    assert not holds(4e-7)


def test_where_the_reference_itself_meets_a_value_next_to_zero_another_may_too() -> None:
    reference = draws(1e-4)
    for runs in reference:
        runs[2] = nudged(0.1, seed=50, only="gradients")
    other = [nudged(0.1, seed=seed, only="gradients") for seed in (7, 8, 9)]
    assert check_rounding([EXACT] * 3, reference, other, precision="fp32").holds


# -- trajectory --------------------------------------------------------------------------------------------------------


def losses(seed: int, *, num_steps: int = 200, rounding: float = 1e-7, drift: float = 0.0) -> np.ndarray:
    """Falling losses with noise that grows, as rounding does in a training."""
    steps = np.arange(num_steps)
    rng = np.random.default_rng(seed)
    growth = rounding * np.exp(np.minimum(steps, 120) / 10)
    return 5 * np.exp(-steps / 100) * np.exp(growth * rng.normal(size=num_steps) + drift)


def test_one_more_run_of_the_reference_is_inside_its_noise() -> None:
    outside = 0
    for trial in range(60):
        runs = [losses(100 * trial + seed) for seed in range(9)]
        outside += not check_trajectory(runs[:8], runs[8], precision="fp32").holds
    assert outside <= 3  # 1% is allowed


@pytest.mark.parametrize("change", [{"drift": 1e-5}, {"rounding": 1e-5}])
def test_a_small_difference_is_seen_while_the_noise_is_still_small(change: dict[str, float]) -> None:
    found = check_trajectory([losses(seed) for seed in range(8)], losses(8, **change), precision="fp32")
    assert not found.holds
    first = found.parts["steps 1 to 20"]
    assert first is not None
    assert first > 2


def test_a_training_that_breaks_fails() -> None:
    broken = losses(8)
    broken[150:] = np.nan
    found = check_trajectory([losses(seed) for seed in range(8)], broken, precision="fp32")
    assert (found.holds, found.measured) == (False, None)


# -- work --------------------------------------------------------------------------------------------------------------

WORK = Work(
    facts={
        "num_parameters": 10,
        "gradient_bytes": 40,
        "optimizer_steps": 1,
        "tf32": False,
        "forward_flops": 1000,
        "layout": "NCHW",
    },
    samples_per_step=2,
    steps_per_epoch=2,
    rates=np.array([0.1, 0.2]),
    batches=[[("images", np.arange(6, dtype=np.uint8)), ("boxes", np.array([0.1, 0.2]))]],
    digests=["0123456789abcdef"],
)


def test_the_same_work_in_another_layout_and_by_another_count_holds() -> None:
    close = [[("images", np.arange(6, dtype=np.uint8)), ("boxes", np.array([0.1, 0.2 + 1e-9]))]]
    other = replace(WORK, facts={**WORK.facts, "forward_flops": 1005, "layout": "NHWC"}, batches=close)
    found = check_work(WORK, other, precision="fp32")
    assert found.holds
    assert found.facts["layout"] == ("NCHW", "NHWC")
    assert found.facts["batches"] == ("0123456789ab", "0123456789ab")
    assert found.facts["learning_rates"] == ("0.1 0.2", "0.1 0.2")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"facts": {**WORK.facts, "num_parameters": 11}}, "num_parameters"),
        ({"facts": {**WORK.facts, "gradient_bytes": 20}}, "gradient_bytes"),
        ({"facts": {**WORK.facts, "optimizer_steps": 2}}, "optimizer_steps"),
        ({"facts": {**WORK.facts, "tf32": True}}, "tf32"),
        ({"facts": {**WORK.facts, "forward_flops": 1020}}, "forward_flops"),
        ({"facts": {**WORK.facts, "forward_flops": None}}, "forward_flops"),
        ({"steps_per_epoch": 3}, "samples per epoch"),
        ({"rates": np.array([0.2, 0.3])}, "learning rates"),
        ({"batches": [[("images", np.arange(6, dtype=np.uint8)[::-1]), ("boxes", np.array([0.1, 0.2]))]]}, "batch 1"),
        ({"batches": [[("images", np.arange(6, dtype=np.uint8)), ("boxes", np.array([0.1, 0.21]))]]}, "batch 1"),
        ({"batches": []}, "number of batches"),
    ],
)
def test_any_other_work_is_named(change: dict[str, Any], named: str) -> None:
    found = check_work(WORK, replace(WORK, **change), precision="fp32")
    assert (found.holds, found.failed) == (False, (named,))


def test_what_holds_for_a_pair_holds_for_both_against_the_reference() -> None:
    good = check_work(WORK, WORK, precision="fp32")
    bad = check_work(WORK, replace(WORK, steps_per_epoch=3), precision="fp32")
    assert worse_of(good, bad) is worse_of(bad, good) is bad
