"""A store as a year of work leaves it: sweeps with repeats, trainings, commands, imported logs, and some failures."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from making import make_cell
from trainmark.logs.importing import Task, import_file
from trainmark.logs.record import Facts
from trainmark.plan.identity import cell_id
from trainmark.runfolder.files import ENVIRONMENT_FILE, EXIT_FILE, OUTPUT_FILE, RUN_FILE, rank_file
from trainmark.runfolder.records import encode_record
from trainmark.spec.cell import Cell
from trainmark.spec.command import CommandCell

_REPEATS = 4
_FAILURES = (
    ("oom", "CUDA out of memory: tried to allocate 2.50 GiB; try a smaller --batch-size"),
    ("nan", "the loss was nan at step 57; try a lower learning rate or bf16"),
    ("killed", "the controller was told to end (SIGTERM)"),
    ("timeout", "no end after 3600 s"),
)
_LOG_LINE = (
    "2021-05-11 {h:02d}:{m:02d}:{s:02d} [INFO]\t[TRAIN] epoch: {epoch}, iter: {n}/160000, loss: {loss:.4f}, "
    "lr: 0.009998, batch_cost: {cost:.4f}, reader_cost: 0.00136, ips: {ips:.4f} samples/sec | ETA 07:41:26\n"
)


def make_store(root: Path, num_runs: int) -> None:
    """Seven of ten are our own measurements, one a training, one a command, one an imported log; one in 15 failed."""
    chance = random.Random(num_runs)
    logs = root.parent / f"{root.name}-logs"
    logs.mkdir(parents=True)
    cells = _sweep()
    for number in range(num_runs):
        kind = number % 10
        if kind == 9:
            _import_log(logs / f"train_{number}.log", root, number, chance)
        elif kind == 8:
            _write_command(root, number, chance)
        else:
            _write_own(root, number, next(cells), chance, is_training=kind == 7)


def _sweep() -> Iterator[Cell]:
    axes = (
        ("resnet50", "hrnet_w18", "mask_rcnn", "tsm", "psenet"),
        ("reference", "fast"),
        ("fp32", "tf32", "amp", "bf16"),
        (16, 32, 64, 128),
        (1, 2, 4, 8),
    )
    for workload, recipe, precision, batch, devices in itertools.cycle(itertools.product(*axes)):
        facts = {"workload": workload, "recipe": recipe, "precision": precision, "size": "full", "device": "cuda"}
        cell = make_cell(**facts, batch_size_per_device=batch, devices_per_node=devices)
        for repeat in range(1, _REPEATS + 1):
            yield make_cell(**{**vars(cell), "repeat": repeat})


def _write_own(root: Path, number: int, cell: Cell, chance: random.Random, *, is_training: bool) -> None:
    if is_training:
        cell = make_cell(**{**vars(cell), "epochs": 4})
    failure = chance.choice(_FAILURES) if number % 15 == 7 else None
    num_steps = chance.randrange(100, 401)
    step_s = chance.uniform(0.05, 0.3) / (2 if cell.precision != "fp32" else 1)
    samples = cell.global_batch_size * chance.uniform(0.93, 0.99) / cell.num_devices
    steps = _steps(num_steps, step_s, samples * cell.num_devices, chance, loss_every=1 if is_training else 20)
    evals = [_eval(epoch, steps[(epoch * num_steps) // 5]) for epoch in range(1, 5)] if is_training else []
    phases = [{"kind": "phase", "phase": "eval", "step": 1, "edge": "end", "seconds": 3.5} for _ in evals]
    peak = {"kind": "phase", "phase": "train", "peak_memory_bytes": chance.randrange(2 << 30, 70 << 30)}
    folder = root / _name(cell, number)
    _write(
        folder,
        {"cell": cell.to_json(), "cell_id": cell_id(cell), "suite": "year", "unit": "images", "model": "a model"},
        [*steps, *evals, *phases, peak, {"kind": "run_end"}],
        number=number,
        outcome=failure or ("ok", "the interval of ±0.90% is within the target of ±1.00%"),
        environment=_environment(number, cell),
    )


def _write_command(root: Path, number: int, chance: random.Random) -> None:
    cell = CommandCell(
        template=("python", "train.py", "--bs", "{batch_size}"), device=None, nodes=1, devices_per_node=1,
        batch_size_per_device=8 << number // 40 % 4, precision=None, seed=None, repeat=number // 10 % 4 + 1,
    )  # fmt: skip
    run = {"cell": cell.to_json(), "cell_id": cell_id(cell), "source": "command", "dialect": "mark", "unit": "samples"}
    steps = _steps(chance.randrange(100, 401), 0.05, cell.batch_size_per_device or 8, chance, loss_every=1000)
    folder = root / _name(cell, number)
    run |= {"model": cell.text, "log": {"stated": {}}}
    ok = ("ok", "the command ended with 0")
    _write(folder, run, steps, number=number, outcome=ok, environment=_environment(number, None))


def _name(cell: Cell | CommandCell, number: int) -> str:
    month = number // 100 % 12 + 1
    return f"2026{month:02d}01T000000-{cell.label}-{cell_id(cell)[:6]}-r{cell.repeat}-{number:04x}"


def _steps(
    num_steps: int, step_s: float, samples: float, chance: random.Random, *, loss_every: int
) -> list[dict[str, Any]]:
    """Two slow ones at first, then noise in which neighbours resemble each other."""
    found, time_s, drift = [], 0.0, 0.0
    for number in range(1, num_steps + 1):
        drift = 0.5 * drift + chance.gauss(0, 0.02)
        seconds = step_s * (20 if number < 3 else 1) * (1 + max(drift, -0.5))
        time_s += seconds
        record = {"kind": "step", "step": number, "seconds": seconds, "time_s": time_s, "samples": samples}
        if number % loss_every == 0:
            record["loss"] = 2.3 / number**0.3 + chance.gauss(0, 0.01)
        found.append({**record, "unix_s": 1794713120.5 + time_s})
    return found


def _eval(epoch: int, step: dict[str, Any]) -> dict[str, Any]:
    found = {"kind": "eval", "step": step["step"], "epoch": epoch, "time_s": step["time_s"]}
    return {**found, "metric": "top1", "value": 0.6 + 0.04 * epoch}


def _environment(number: int, cell: Cell | None) -> dict[str, Any]:
    commit = f"{number // 500:040x}"
    return {
        "schema": 1, "trainmark": "0.1.0", "hostname": f"node{number // 40 % 2}", "system": "Linux-6.18-x86_64",
        "python": "3.12.3", "cpu": "AMD EPYC", "num_cores": 16, "memory_bytes": 128 << 30,
        "packages": {"torch": "2.15.0", "torchvision": "0.29.2", "triton": "3.9.0", "numpy": "2.4.6"},
        "variables": {"OMP_NUM_THREADS": "2", "NCCL_DEBUG": "WARN"}, "container": None,
        "git": {"commit": commit, "diff_sha256": None}, "framework": "torch 2.15.0+cu132",
        "device_name": "NVIDIA H200" if cell is not None else None, "cuda": "13.2", "cudnn": "9.10", "nccl": "2.29",
        "flags": {"tf32_matmul": False, "cudnn_benchmark": True, "layout": "channels_last", "compiled": True},
    }  # fmt: skip


def _write(
    folder: Path,
    run: dict[str, Any],
    lines: list[dict[str, Any]],
    *,
    number: int,
    outcome: tuple[str, str],
    environment: dict[str, Any],
) -> None:
    """Without the forcing to disk of a real run, which is most of its time."""
    folder.mkdir(parents=True)
    documents = {
        RUN_FILE: {"schema": 1, **run, "created_unix_s": 1.79e9 + 60.0 * number},
        ENVIRONMENT_FILE: environment,
        EXIT_FILE: {"outcome": outcome[0], "reason": outcome[1], "wall_s": 30.0 + number % 60},
    }
    for name, document in documents.items():
        (folder / name).write_text(json.dumps(document))
    (folder / rank_file(0)).write_bytes(b"".join(encode_record(line) for line in lines))
    (folder / OUTPUT_FILE).write_text("")


def _import_log(path: Path, store: Path, number: int, chance: random.Random) -> None:
    devices, batch = 2 ** (number // 40 % 4), 8
    lines = [f"GPUs used: {devices}\nbatch_size: {batch}\n"]
    for step in range(1, chance.randrange(100, 401)):
        cost = 0.3 * (1 + chance.gauss(0, 0.03))
        clock = {"h": step // 3600 % 24, "m": step // 60 % 60, "s": step % 60}
        loss, ips = 2.3 / step**0.3, batch / cost
        lines.append(_LOG_LINE.format(**clock, epoch=step // 100, n=10 * step, loss=loss, cost=cost, ips=ips))
    path.write_text("".join(lines))
    given = Facts(model=f"model{number // 160}", precision="fp32", devices=devices, batch_size_per_device=batch)
    imported = import_file(Task(path=path, store=store, given=given, pattern=None, targets={}))
    assert imported.run_id is not None, imported.reason
