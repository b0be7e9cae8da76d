"""The four stages as pure functions: what holds, what fails, and what is named."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PIL import Image

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

NUM_BATCHES = 16


def runs(*errors: float, first_seed: int = 100, only: str | None = None, given: Observed = EXACT) -> list[Observed]:
    """One on each batch, with these errors in turn."""
    turns = zip(itertools.count(first_seed), itertools.islice(itertools.cycle(errors), NUM_BATCHES), strict=False)
    return [nudged(error, seed=seed, only=only, given=given) for seed, error in turns]


def test_the_same_error_holds_and_a_larger_one_fails() -> None:
    exact, reference = [EXACT] * NUM_BATCHES, runs(1e-4)
    same = check_rounding(exact, reference, runs(1e-4, first_seed=7), precision="fp32")
    assert same.holds
    assert 0.7 < (same.measured or 0) < 1.4
    worse = check_rounding(exact, reference, runs(4e-4, first_seed=7), precision="fp32")
    assert not worse.holds
    assert worse.limit == 2


def test_half_precision_may_be_three_times_as_far() -> None:
    exact, reference = [EXACT] * NUM_BATCHES, runs(1e-2)
    other = runs(2.5e-2, first_seed=7, only="gradients")
    assert check_rounding(exact, reference, other, precision="bf16").holds
    assert not check_rounding(exact, reference, other, precision="fp32").holds


def test_one_bad_tensor_among_many_good_ones_fails() -> None:
    many = replace(EXACT, gradients={f"w{number}": RNG.normal(size=100) for number in range(200)})
    wrong = 1e-3 * np.abs(many.gradients["w5"]) * RNG.normal(size=100)
    bad = [
        replace(run, gradients={**run.gradients, "w5": run.gradients["w5"] + wrong})
        for run in runs(1e-4, first_seed=2, given=many)
    ]
    found = check_rounding([many] * NUM_BATCHES, runs(1e-4, given=many), bad, precision="fp32")
    assert not found.holds
    assert found.worst == "gradients: w5"


def test_a_loss_that_the_reference_has_exactly_may_be_wrong_in_its_last_digit() -> None:
    exact = [replace(EXACT, terms={"loss": np.array(0.5)})] * NUM_BATCHES

    def holds(error: float) -> bool:
        other = [replace(one, terms={"loss": np.array(0.5 * (1 + error))}) for one in exact]
        return check_rounding(exact, exact, other, precision="fp32").holds

    assert holds(2e-7)
    assert not holds(9e-7)


ONE_GRADIENT = replace(EXACT, outputs={}, terms={}, gradients={"a": EXACT.gradients["a"]})


def signs_change(excess: float, rng: np.random.Generator) -> list[Observed]:
    """As in PSENet: errors of 3e-6, but up to 1e-3 where an activation has changed its sign, on every second batch.

    A side that rounds worse meets such activations more often.
    """
    is_changed = rng.random(NUM_BATCHES) < 1 - 0.5**excess
    sizes = np.where(is_changed, 10 ** rng.uniform(-4.5, -3, NUM_BATCHES), excess * 3e-6)
    return [nudged(size, seed=int(rng.integers(1 << 30)), only="gradients", given=ONE_GRADIENT) for size in sizes]


@pytest.mark.parametrize(
    ("excess", "least", "most"), [(1.0, 0, 1), (1.25, 0, 2), (8.0, 199, 200)], ids=["same", "worse", "fault"]
)
def test_signs_that_change_by_chance_neither_make_a_fault_nor_hide_one(excess: float, least: int, most: int) -> None:
    rng = np.random.default_rng(1)
    exact = [ONE_GRADIENT] * NUM_BATCHES
    pairs = ((signs_change(1.0, rng), signs_change(excess, rng)) for _ in range(200))
    assert least <= sum(not check_rounding(exact, *pair, precision="fp32").holds for pair in pairs) <= most


def test_what_is_wrong_on_most_batches_fails_though_it_is_right_on_some() -> None:
    other = runs(1e-4, 1e-4, 3e-2, 3e-2, 3e-2, 3e-2, only="gradients")
    assert not check_rounding([EXACT] * NUM_BATCHES, runs(1e-4, 1e-4, 1e-2), other, precision="fp32").holds


@pytest.mark.parametrize("side", ["reference", "other"])
def test_a_value_that_is_not_finite_on_one_batch_fails(side: str) -> None:
    sides = {"reference": runs(1e-4), "other": runs(1e-4, first_seed=7)}
    broken = sides[side][3]
    sides[side][3] = replace(broken, gradients={**broken.gradients, "a": np.full_like(broken.gradients["a"], np.nan)})
    found = check_rounding([EXACT] * NUM_BATCHES, sides["reference"], sides["other"], precision="fp32")
    assert not found.holds
    assert found.measured is None


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
        outside += not check_trajectory(runs[:8], runs[8:], exact=losses(0, rounding=0), precision="fp32").holds
    assert outside <= 3  # 1% is allowed


@pytest.mark.parametrize("change", [{"drift": 1e-5}, {"rounding": 1e-5}])
def test_a_small_difference_is_seen_while_the_noise_is_still_small(change: dict[str, float]) -> None:
    runs, exact = [losses(seed) for seed in range(8)], losses(0, rounding=0)
    found = check_trajectory(runs, [losses(seed, **change) for seed in (8, 9, 10)], exact=exact, precision="fp32")
    assert not found.holds
    first = found.parts["steps 1 to 20"]
    assert first is not None
    assert first > 2


@pytest.mark.parametrize(
    ("drift", "holds"), [(0.0, True), (-5e-6, True), (2.5e-5, True), (5e-5, False), (-3e-5, False)]
)
def test_rounding_that_all_runs_of_the_reference_share_may_be_missing_elsewhere(drift: float, holds: bool) -> None:
    runs, exact = [losses(seed, drift=1e-5) for seed in range(8)], losses(0, rounding=0)
    assert check_trajectory(runs, [losses(8, drift=drift)], exact=exact, precision="fp32").holds is holds


@pytest.mark.parametrize(("num_moved", "holds"), [(0, True), (2, True), (3, False)])
def test_one_run_of_three_that_stays_near_is_enough(num_moved: int, holds: bool) -> None:
    others = [losses(8 + number, drift=1e-3 if number < num_moved else 0.0) for number in range(3)]
    runs, exact = [losses(seed) for seed in range(8)], losses(0, rounding=0)
    assert check_trajectory(runs, others, exact=exact, precision="fp32").holds is holds


@pytest.mark.parametrize("broken", ["reference", "other", "exact"])
def test_a_training_that_breaks_fails(broken: str) -> None:
    runs = {"other": losses(8), "exact": losses(0, rounding=0), "reference": losses(1)}
    runs[broken][150:] = np.nan
    reference = [runs["reference"], *(losses(seed) for seed in range(2, 9))]
    found = check_trajectory(reference, [runs["other"]], exact=runs["exact"], precision="fp32")
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
    found = check_work(WORK, other, precision="fp32", device="cpu")
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
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_any_other_work_is_named(change: dict[str, Any], named: str, device: str) -> None:
    found = check_work(WORK, replace(WORK, **change), precision="fp32", device=device)
    assert (found.holds, found.failed) == (False, (named,))


def test_photos_may_be_unrounded_in_pytorch_on_a_gpu_but_not_moved() -> None:
    """As Pillow resizes bytes, rounding twice, and as it resizes floats."""
    rng = np.random.default_rng(0)
    bytes_ = np.asarray(Image.fromarray(rng.integers(60, 200, (9, 9), dtype=np.uint8)).resize((96, 96)))
    sized = {
        name: np.asarray(Image.fromarray(pixels).resize((64, 64), Image.Resampling.BILINEAR), np.float64)
        for name, pixels in {"rounded": bytes_, "unrounded": bytes_.astype(np.float32)}.items()
    }
    sized["moved"] = np.roll(sized["rounded"], 1, axis=1)

    def made_by(framework: str, photo: str) -> Work:
        pixels = (sized[photo] / 255 - 0.45) / 0.22
        return replace(
            WORK, facts={**WORK.facts, "framework": f"{framework} 1.0"}, batches=[[("images", pixels[None, None])]]
        )

    def holds(one: Work, other: Work, device: str) -> bool:
        return check_work(one, other, precision="fp32", device=device).holds

    torch = made_by("torch", "unrounded")
    assert holds(torch, made_by("jax", "rounded"), "cuda")
    assert not holds(torch, made_by("jax", "moved"), "cuda")
    assert not holds(torch, made_by("jax", "rounded"), "cpu")
    assert not holds(made_by("paddle", "unrounded"), made_by("jax", "rounded"), "cuda")


def test_what_holds_for_a_pair_holds_for_both_against_the_reference() -> None:
    good = check_work(WORK, WORK, precision="fp32", device="cpu")
    bad = check_work(WORK, replace(WORK, steps_per_epoch=3), precision="fp32", device="cpu")
    assert worse_of(good, bad) is worse_of(bad, good) is bad
