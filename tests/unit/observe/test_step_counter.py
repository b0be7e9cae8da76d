"""From what a framework reports to step records, without a framework."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest

from trainmark.observe.step_counter import StepCounter


class Records:
    """Stands for the recorder."""

    def __init__(self) -> None:
        self.found: list[dict[str, Any]] = []

    def is_due(self, now: float) -> bool:
        return True

    def line(self, text: str, now: float) -> None:
        self.found += map(json.loads, text.splitlines())

    def record(self, **values: Any) -> None:
        self.found.append(values)

    def on_fork(self, action: Callable[[], None]) -> None: ...

    def on_exit(self, action: Callable[[], None]) -> None:
        self.finish = action

    @property
    def samples(self) -> list[Any]:
        return [record.get("samples") for record in self.found if record["kind"] == "step"]

    @property
    def beside(self) -> list[Any]:
        return [record.get("beside", []) for record in self.found if record["kind"] == "step"]


@pytest.fixture
def records() -> Records:
    return Records()


@pytest.fixture
def counter(records: Records) -> StepCounter:
    return StepCounter(records)  # type: ignore[arg-type]


def draw(counter: StepCounter, samples: int, source: str = "train") -> None:
    counter.batch(source, samples, None, False)


def test_one_optimizer(counter: StepCounter, records: Records) -> None:
    for samples in (4, 5, 6):
        draw(counter, samples)
        counter.optimizer_step("adam", "test")
    assert records.samples == [5, 6], "the first step starts the clock"


def test_gradient_accumulation_adds_up_batches(counter: StepCounter, records: Records) -> None:
    for _ in range(3):
        for samples in (4, 4, 2):
            draw(counter, samples)
        counter.optimizer_step("adam", "test")
    assert records.samples == [10, 10]


@pytest.mark.parametrize("order", [["d", "g"], ["d", "d", "d", "g"], ["muon", "adam", "sgd"]])
def test_several_optimizers_make_as_many_steps_as_the_most_frequent(
    counter: StepCounter, records: Records, order: list[str]
) -> None:
    rounds = 10
    for _ in range(rounds):
        for name in order:
            if name == order[0]:
                draw(counter, 8)
            counter.optimizer_step(name, "test")
    assert records.samples == [8] * (rounds * order.count(order[0]) - 1)


def test_a_skipped_step_is_a_step_with_its_samples(counter: StepCounter, records: Records) -> None:
    for number in range(4):
        draw(counter, 8)
        (counter.skipped_step if number == 2 else counter.optimizer_step)("adam", "test")
    records.finish()
    assert records.samples == [8, 8, 8]
    assert records.found[-1]["count"] == 1


def test_backward_passes_count_until_an_optimizer_steps(counter: StepCounter, records: Records) -> None:
    for _ in range(3):
        draw(counter, 8)
        counter.backward("test")
    assert (counter.signal, records.samples) == ("backward", [8, 8])
    for _ in range(2):
        draw(counter, 8)
        counter.backward("test")
        counter.optimizer_step("adam", "test")
    starts = [record["signal"] for record in records.found if record["kind"] == "run_start"]
    assert starts == ["backward", "optimizer"]
    assert records.found[-1]["step"] == 1, "readers drop what was before the second start"


def test_an_evaluation_until_the_end_of_its_data_is_in_no_step(counter: StepCounter, records: Records) -> None:
    for _ in range(3):
        draw(counter, 8)
        counter.optimizer_step("adam", "test")
    counter.restart("valid")
    for _ in range(5):
        draw(counter, 100, "valid")
    counter.end_of_data("valid")
    for _ in range(2):
        draw(counter, 8)
        counter.optimizer_step("adam", "test")
    assert records.samples == [8, 8, 8, 8]
    assert records.beside == [[], [], ["eval"], []]


def test_an_evaluation_that_stops_early_does_not_count_for_the_training(counter: StepCounter, records: Records) -> None:
    for _ in range(3):
        draw(counter, 8)
        counter.optimizer_step("adam", "test")
    draw(counter, 100, "valid")
    draw(counter, 8)
    counter.optimizer_step("adam", "test")
    assert records.samples == [8, 8, 8]


def test_two_loaders_at_every_step_count_once(counter: StepCounter, records: Records) -> None:
    for _ in range(3):
        draw(counter, 8, "labelled")
        draw(counter, 56, "unlabelled")
        counter.optimizer_step("adam", "test")
    assert records.samples == [8, 8]


def test_an_epoch_of_one_batch_that_was_fetched_ahead_is_no_evaluation(counter: StepCounter, records: Records) -> None:
    for _ in range(3):
        counter.restart("train")
        draw(counter, 8)
        counter.end_of_data("train")
        counter.optimizer_step("adam", "test")
    assert records.samples == [8, 8]
    assert records.beside == [["restart"], ["restart"]]


class Device:
    """A clock whose marks are numbers; the test says when each has happened."""

    def __init__(self) -> None:
        self.done: dict[int, float] = {}
        self._marks = iter(range(100))

    def mark(self) -> int:
        return next(self._marks)

    def seconds(self, begin: int, end: int) -> float | None:
        return self.done[end] - self.done[begin] if end in self.done else None

    def unix_s(self, mark: int) -> float | None:
        return 1000.0 + self.done[mark]


def test_device_times_are_read_later_and_in_order(counter: StepCounter, records: Records) -> None:
    clock = Device()
    counter.add_clock(clock)
    done = clock.done
    done[0] = 0.0
    for _ in range(4):
        draw(counter, 8)
        counter.optimizer_step("adam", "test")
    assert records.samples == [], "the device is behind"
    done |= {1: 1.0, 2: 3.0, 3: 3.5}
    records.finish()
    assert [record["seconds"] for record in records.found if record["kind"] == "step"] == [1.0, 2.0, 0.5]
    assert [record["unix_s"] for record in records.found if record["kind"] == "step"] == [1001.0, 1003.0, 1003.5]


def test_a_step_whose_end_is_not_known_says_so(counter: StepCounter, records: Records) -> None:
    clock = Device()
    counter.add_clock(clock)
    clock.done |= {0: 0.0, 1: 1.0, 2: math.nan, 3: 3.0}
    for _ in range(4):
        counter.optimizer_step("adam", "test")
    steps = [record for record in records.found if record["kind"] == "step"]
    assert [record.get("dispatched", False) for record in steps] == [False, True, True]
    assert steps[0]["seconds"] == 1.0
    assert all(record["seconds"] < 1.0 for record in steps[1:]), "the time of the host"
