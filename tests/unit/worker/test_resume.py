"""What a resumed training's folder tells of its first part: everything once."""

from __future__ import annotations

from trainmark.runfolder.files import Json
from trainmark.worker.loop import ResumePoint
from trainmark.worker.resume import records_before


def step(number: int) -> Json:
    return {"kind": "step", "step": number, "loss": 1.0}


def evaluation(number: int) -> list[Json]:
    phase = {"kind": "phase", "phase": "eval", "step": number}
    metric = {"kind": "eval", "step": number, "metric": "top1", "value": 0.5}
    return [{**phase, "edge": "begin"}, {**phase, "edge": "end", "seconds": 1.0}, metric]


def checkpoint(number: int) -> list[Json]:
    phase = {"kind": "phase", "phase": "checkpoint", "step": number}
    return [{**phase, "edge": "begin"}, {**phase, "edge": "end", "seconds": 0.1}]


def test_an_evaluation_after_the_checkpoint_of_its_step_will_happen_again() -> None:
    """Killed between the evaluation at step 4 and the checkpoint behind it; the one before is of step 4 too."""
    held = [step(1), step(2), *evaluation(2), *checkpoint(2), step(3), step(4), *checkpoint(4)]
    lost = evaluation(4)
    found = records_before([{"kind": "run_start"}, *held, *lost], ResumePoint(num_steps=4, evaluated_step=2))
    assert list(found) == held


def test_an_evaluation_that_the_checkpoint_holds_is_kept() -> None:
    held = [step(1), step(2), *evaluation(2), *checkpoint(2)]
    assert list(records_before([*held, step(3)], ResumePoint(num_steps=2, evaluated_step=2))) == held


def test_what_disturbed_the_first_part_is_not_forgotten() -> None:
    shared = {"kind": "warning", "code": "foreign-gpu-process", "message": "GPU 0 was shared"}
    verdict = {"kind": "warning", "code": "target-not-reached", "message": "after 4 epochs"}
    assert list(records_before([step(1), shared, verdict], ResumePoint(num_steps=1))) == [step(1), shared]
