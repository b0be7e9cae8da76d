"""What several tests make: cells, requests of a probe, run folders as a worker leaves them, small image folders."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from trainmark.datasets.jpeg import decode_lenient
from trainmark.gpus import Gpu
from trainmark.messages.message import Message
from trainmark.plan.identity import cell_id
from trainmark.plan.machine import Machine
from trainmark.runfolder.document import CellRecord, WorkloadCell
from trainmark.runfolder.files import EXIT_FILE, OUTPUT_FILE, RUN_FILE, rank_file, write_json
from trainmark.spec.cell import Cell, DataSource
from trainmark.worker.probe import ProbeRequest


def make_cell(**changes: Any) -> Cell:
    facts: dict[str, Any] = {
        "workload": "resnet50", "framework": "torch", "recipe": "reference", "precision": "fp32", "size": "small",
        "device": "cpu", "nodes": 1, "devices_per_node": 1, "batch_size_per_device": 4, "data": DataSource(),
        "epochs": None, "lr": None, "until_target": (), "seed": 0, "repeat": 1,
    }  # fmt: skip
    return Cell(**{**facts, **changes})


def make_workload_cell(**changes: Any) -> WorkloadCell:
    """As a worker gets it."""
    return CellRecord.from_json(make_cell(**changes).to_json()).workload_cell()


def make_machine(num_gpus: int = 0, *, frameworks: tuple[str, ...] = ("torch",), **facts: Any) -> Machine:
    known: dict[str, Any] = {
        "hostname": "h", "system": "s", "cpu": "c", "num_cores": 2, "memory_bytes": 1, "driver": None, "compiler": None,
        "gpus": (Gpu(name="H200", memory_bytes=1),) * num_gpus, "frameworks": dict.fromkeys(frameworks, "1"),
    }  # fmt: skip
    return Machine(**{**known, **facts})


def make_probe_request(**changes: Any) -> ProbeRequest:
    facts: dict[str, Any] = {
        "workload": "resnet50", "framework": "torch", "recipe": "reference", "precision": "fp32", "size": "small",
        "device": "cpu", "num_classes": 5, "seed": 1, "weights": None, "batches": (), "rates": (),
    }  # fmt: skip
    return ProbeRequest(**{**facts, **changes})


def make_run(
    root: Path,
    run_id: str,
    *,
    cell: Cell | None = None,
    seconds: list[float] | None = None,
    outcome: str | None = "ok",
    reason: str | Message = "done",
    extra: list[dict[str, Any]] | None = None,
) -> Path:
    """`outcome=None` leaves no exit.json, as a killed controller does. A `reason` of text is one of older versions."""
    cell = cell or make_cell()
    folder = root / run_id
    folder.mkdir(parents=True)
    run = {"cell": cell.to_json(), "cell_id": cell_id(cell), "suite": "t", "unit": "images", "model": "ResNet-50 v1.5"}
    write_json(folder / RUN_FILE, {**run, "created_unix_s": 1.0})
    lines = [
        {"kind": "step", "step": n + 1, "seconds": s, "samples": cell.global_batch_size, "time_s": 0.0}
        for n, s in enumerate(seconds if seconds is not None else [0.1] * 50)
    ]
    end = [{"kind": "run_end", "outcome": outcome}] if outcome == "ok" else []
    text = "".join(json.dumps(line) + "\n" for line in [*lines, *(extra or []), *end])
    (folder / rank_file(0)).write_text(text)
    (folder / OUTPUT_FILE).write_text("")
    if outcome is not None:
        why = reason.to_reason() if isinstance(reason, Message) else {"reason": reason}
        write_json(folder / EXIT_FILE, {"outcome": outcome, **why, "wall_s": 12.0})
    return folder


def make_images(
    root: Path, *, classes: int = 2, per_class: int = 4, splits: tuple[str, ...] = ("train", "val")
) -> Path:
    random = np.random.default_rng(0)
    for split in splits:
        for label in range(classes):
            folder = root / split / f"class{label}"
            folder.mkdir(parents=True)
            for number in range(per_class):
                height, width = int(random.integers(60, 100)), int(random.integers(60, 100))
                pixels = random.integers(0, 255, (height, width, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / f"{number}.jpg", quality=90)
    return root


def heed_interrupts() -> None:
    """For a child's start: a shell's background jobs ignore SIGINT, under nohup SIGHUP, and children inherit that."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def read_pixels(path: Path) -> np.ndarray:
    """Of a sound JPEG."""
    pixels, problem = decode_lenient(path.read_bytes())
    assert pixels is not None
    assert problem is None
    return pixels


STUB_TORCH = """
import sys, types
__version__ = "2.9"
_hooks = []
class Optimizer:
    param_groups = []
    def step(self):
        for hook in _hooks: hook(self, (), {})
def _module(name, **values):
    module = types.ModuleType("torch." + name)
    module.__dict__.update(values)
    sys.modules["torch." + name] = module
    return module
_optimizer = _module("optim.optimizer", register_optimizer_step_post_hook=_hooks.append)
cuda = types.SimpleNamespace(is_initialized=lambda: False)
def train(steps):
    optimizer = Optimizer()
    for _ in range(steps): optimizer.step()
"""
"""As much of torch as the observer cannot do without; what it misses must be a note, never an error."""
