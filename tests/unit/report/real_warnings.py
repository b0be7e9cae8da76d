"""Every warning that a run can have, made by the code that makes it: no sentence is written down here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from making import make_cell, make_run
from trainmark.analyse.traps import check_side_by_side
from trainmark.launch.command_source import NO_RECORDS
from trainmark.logs.facts import resolve
from trainmark.logs.record import Claim, Facts
from trainmark.logs.warning import SENTENCES, warn
from trainmark.report.document import own_warnings
from trainmark.runfolder.records import WarningCode
from trainmark.store.folder import read_run
from trainmark.store.marks import add_up
from trainmark.store.rows import RunRow
from trainmark.worker.fake.engine import FakeClock, FakeEngine
from trainmark.worker.loop import Limits, MeasuredLoop
from trainmark.worker.telemetry.isolation import _ACTIONS, Isolation
from trainmark.worker.telemetry.sampler import Telemetry

Warned = dict[str, str]


def all_warnings(root: Path) -> list[Warned]:
    return [*of_the_machine(), *of_logs(), *of_numbers(root), *side_by_side(root), *of_marks(), *of_the_run()]


def of_the_machine() -> Iterator[Warned]:
    yield from judge(*measured(3, gpu_foreign_processes=[{"pid": 5, "name": None, "used_bytes": None}]))
    two = [{"pid": 5, "name": "python", "used_bytes": 3 << 30}, {"pid": 6, "name": "x", "used_bytes": 1}]
    yield from judge(*measured(3, gpu_foreign_processes=two), gpu="GPU 0 of gpu2 (rank 3)")
    for reason in _ACTIONS:
        limits = {"gpu_limits": {"power_w": 500.0, "power_usual_w": 700.0, "sm_max_mhz": 1980}}
        slow = measured(9, gpu_throttle=[reason], gpu_sm_mhz=1100)
        yield from judge(limits, *slow, *measured(9, gpu_throttle=[], gpu_sm_mhz=1900))
    yield from judge(limits, *measured(9, gpu_throttle=list(_ACTIONS)))
    yield from judge({"clock_shift_s": 3.0})
    yield from judge({"clock_shift_s": 3.0}, {"clock_shift_s": -4.5}, host="gpu2")
    for cores in (1, 8):
        load = {"num_cores": cores, "seconds": 1.0, "own_cores": 0.5, "other_cores": 0.75, "stolen_cores": 0.5}
        yield from judge({"load": load})
    telemetry: Any = object.__new__(Telemetry)
    telemetry._neighbours = SimpleNamespace(busiest=lambda: (77, "cc1plus", 0.9))
    yield from judge({"load": load}, busiest=telemetry._name_busiest())


def judge(*samples: dict[str, Any], busiest: str | None = None, **names: str) -> list[Warned]:
    isolation = Isolation(**{"gpu": "GPU 0", **names})
    for sample in samples:
        isolation.note(sample)
    return [{"code": code, "message": message} for code, message in isolation.warnings(busiest=busiest)]


def measured(num: int, **readings: Any) -> list[dict[str, Any]]:
    return [{"is_measuring": True, **readings}] * num


def of_logs() -> Iterator[Warned]:
    numbers = {"log": 8, "path": 4, "config": 64, "used": 256, "nodes": 4, "count": 12, "days": 400.2}
    yield from (warn(code, name="devices", **numbers).to_json() for code in SENTENCES)
    path = Facts(framework="paddle", devices=4, nodes=1, precision="amp", workload="bert", batch_size_per_device=4)
    told = {"framework": "torch", "devices": 8, "nodes": 2, "precision": "fp32", "workload": "resnet50"}
    claims = {name: [claim(value, 3)] for name, value in told.items()}
    claims |= {name: [claim(8, 3), claim(4, 1)] for name in ("batch_size_per_device", "learning_rate")}
    for devices in (4, 8):
        resolved = resolve(claims, replace(path, devices=devices), Facts(), None)
        yield from (warning.to_json() for warning in resolved.warnings)


def claim(value: Any, strength: int) -> Claim:
    return Claim(name="", value=value, strength=strength, text="")


def imported(root: Path, name: str, *, seconds: list[float] | None = None, **changes: Any) -> RunRow:
    folder = make_run(root, name, cell=make_cell(devices_per_node=4, batch_size_per_device=8), seconds=seconds)
    row = read_run(folder)
    assert row is not None
    return replace(row, dialect="ngc", **changes)


def of_numbers(root: Path) -> Iterator[Warned]:
    slow = {"step": 10, "metric": "eval_accuracy", "value": 0.1, "epoch": 0}
    rows = [
        imported(root, "mean", seconds=[0.1, 0.1, 0.4, 0.1] * 20),
        imported(root, "part", log={"stated": {"avg_ips": {"value": 80.0}}}),
        imported(root, "twice", log={"stated": {"avg_ips": {"value": 1280.0}}}),
        imported(root, "last", seconds=[0.1] * 50 + [3.0]),
        imported(root, "eval", seconds=[0.1] * 10 + [2.0] + [0.1] * 50, evals=(slow,)),
        imported(root, "evals", seconds=([0.1] * 10 + [2.0]) * 5, evals=(slow, {**slow, "step": 21})),
        imported(root, "tf32", machine="NVIDIA A100-SXM4-40GB"),
        imported(root, "wild", evals=tuple({"metric": "top1", "value": 1.0, "step": {}} for _ in range(2))),
    ]
    for row in rows:
        yield from own_warnings(row)


def side_by_side(root: Path) -> Iterator[Warned]:
    one = imported(root, "one", devices=1, batch_size_per_device=16)
    four = imported(root, "four")
    for found in check_side_by_side([one, four], [(four, one, 4.5)]).values():
        yield from found


def of_marks() -> Iterator[Warned]:
    def marked(num: int) -> dict[str, Any]:
        return {"warnings": (), **{name: np.ones(num) for name in ("seconds", "samples", "steps", "times")}}

    yield from add_up([marked(100), marked(3)])["warnings"]


def of_the_run() -> Iterator[Warned]:
    yield {"code": WarningCode.NO_RECORDS, "message": NO_RECORDS}
    clock, written = FakeClock(), []
    for epochs in (1, 2):
        engine = FakeEngine([0.1], clock=clock, steps_per_epoch=epochs, metrics=[{"top1": 0.1}])
        recorder: Any = SimpleNamespace(failure=None, write=written.append)
        limits = Limits(max_seconds=1, epochs=epochs, targets={"top1": 0.759})
        MeasuredLoop(engine=engine, recorder=recorder, limits=limits, should_stop=lambda: None, clock=clock).run()
    yield from (record for record in written if record["kind"] == "warning")
    torch_step = pytest.importorskip("trainmark.worker.torch.step")
    yield {"code": WarningCode.NOT_COMPILED, "message": torch_step.NO_COMPILER}
    gpu_images = pytest.importorskip("trainmark.worker.torch.gpu_images")
    yield {"code": WarningCode.NOT_COMPILED, "message": gpu_images.NO_KERNEL.format(why="RuntimeError: no compiler")}
