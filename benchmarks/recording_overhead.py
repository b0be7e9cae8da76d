"""What measuring costs: the measured loop with its recorder and telemetry against a bare loop of the same steps.

Both alternate in one process, in blocks of a second or so, so that a drifting machine touches both alike. Prints one
JSON object; `overhead` is the median over pairs of (measured - bare) / bare, with a 95% interval by bootstrap.

    python benchmarks/recording_overhead.py --device cuda --recipe fast --precision bf16 --batch-size 128 --size full
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from trainmark.runfolder.records import Outcome
from trainmark.spec.cell import Cell, DataSource
from trainmark.worker.loop import Limits, MeasuredLoop
from trainmark.worker.recorder import Recorder
from trainmark.worker.telemetry.sampler import Telemetry
from trainmark.worker.torch.engine import TorchEngine


def run_bare(engine: TorchEngine, num_steps: int) -> float:
    engine.wait()
    begin = time.perf_counter()
    for _ in range(num_steps):
        engine.step()
    engine.wait()
    return time.perf_counter() - begin


def run_measured(engine: TorchEngine, num_steps: int, folder: Path) -> float:
    recorder = Recorder(folder / "rank0.jsonl")
    stop = folder / "stop"
    engine.wait()
    gpu_index = 0 if engine.facts()["device_name"] else None
    with Telemetry(recorder, gpu_index=gpu_index):
        begin = time.perf_counter()
        MeasuredLoop(
            engine=engine,
            recorder=recorder,
            limits=Limits(max_seconds=1e9, max_steps=num_steps),
            should_stop=lambda: (Outcome.KILLED, "asked to") if stop.exists() else None,
        ).run()
        seconds = time.perf_counter() - begin
    recorder.close()
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser()
    for flag, default in (("device", "cpu"), ("recipe", "reference"), ("precision", "fp32"), ("size", "small")):
        parser.add_argument(f"--{flag}", default=default)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--block-s", type=float, default=1.0)
    args = parser.parse_args()
    cell = Cell(
        workload="resnet50", framework="torch", nodes=1, devices_per_node=1, data=DataSource(), epochs=None, lr=None,
        until_target=(), seed=0, repeat=1, batch_size_per_device=args.batch_size, device=args.device,
        recipe=args.recipe, precision=args.precision, size=args.size,
    )  # fmt: skip
    engine = TorchEngine(cell.to_json())
    engine.begin_epoch(0)
    run_bare(engine, 5)
    num_steps = max(1, round(5 * args.block_s / run_bare(engine, 5)))
    pairs = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(args.pairs):  # which goes first alternates too
            if number % 2:
                bare = run_bare(engine, num_steps)
                measured = run_measured(engine, num_steps, Path(folder))
            else:
                measured = run_measured(engine, num_steps, Path(folder))
                bare = run_bare(engine, num_steps)
            pairs.append(measured / bare - 1)
    random = np.random.default_rng(0)
    medians = np.median(random.choice(pairs, (2000, len(pairs))), axis=1)
    low, high = np.percentile(medians, [2.5, 97.5]).tolist()
    result = {**vars(args), "steps_per_block": num_steps, "overhead": statistics.median(pairs), "ci95": [low, high]}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
