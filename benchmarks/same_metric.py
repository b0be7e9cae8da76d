"""Do the frameworks reach the same metric? Several seeds of each, and two one-sided tests at 5%.

    python benchmarks/same_metric.py RESULTS [--frameworks torch,paddle,jax] [--workloads resnet50,hrnet_w18] [--jobs 4]

Trains on generated data at size `small`, each training in a process of its own. RESULTS is a JSON file that grows with
every training, so that an interrupted call is continued. Two frameworks reach the same metric if the 90% interval of
the difference of their means (Welch) lies within the margin: that is what two one-sided tests at 5% ask.

A CPU trains a few hundred steps of a few images. By shape and texture alone, networks learn so little in that time that
two seeds of one framework end 30 points apart, and nothing can be said about two frameworks. So each class also has a
colour, mixed into its pixels, which is learnt in time; there are four classes of images, and three in street scenes
(ground, sky, the rest). The rates are so low that the loss falls from the first epoch on: with seven times the rate it
rose to 11 first, and where each seed ended was chance.
"""

from __future__ import annotations

import argparse
import colorsys
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from PIL import Image

from trainmark.analyse.distributions import t_quantile
from trainmark.datasets.cityscapes.labels import ID_OF
from trainmark.frameworks import frameworks
from trainmark.runfolder.document import WorkloadCell
from trainmark.runfolder.files import write_json

Metrics = dict[str, float]
Results = dict[str, dict[str, dict[str, Metrics]]]
"""By workload, framework with its version, and seed."""


@dataclass(frozen=True, kw_only=True)
class Training:
    metrics: tuple[str, ...]
    """Of those that an evaluation gives."""
    batch_size: int
    lr: float
    num_images: int
    """For training and validation together."""
    epochs: int
    colour_share: float
    """How much of a pixel is the colour of its class."""


COLOURS = np.array(
    [
        [255 * part for part in colorsys.hsv_to_rgb(label * 0.618 % 1, 0.9, (0.9, 0.5)[label // 2 % 2])]
        for label in range(64)
    ]
)
"""Neighbours have hues that are far apart."""
THREE_CLASSES = np.select(
    [np.arange(256) == ID_OF["sky"], np.arange(256) >= ID_OF["building"], np.arange(256) >= ID_OF["road"]],
    [np.uint8(ID_OF[name]) for name in ("sky", "building", "road")],
    np.uint8(0),
)
"""For each number in a label file, that of its class here; 0, which is not counted, stays."""
TRAININGS = {
    "resnet50": Training(metrics=("top1",), batch_size=16, lr=0.003, num_images=280, epochs=16, colour_share=0.8),
    "hrnet_w18": Training(
        metrics=("miou", "pixel_accuracy"), batch_size=4, lr=0.01, num_images=160, epochs=10, colour_share=0.7
    ),
}


def make_data(workload: str, root: Path, num_images: int) -> None:
    share = TRAININGS[workload].colour_share
    if workload == "resnet50":
        from trainmark.datasets.imagenet.make import make_imagenet

        size = (72, 96)
        make_imagenet(root, num_images=num_images, num_classes=4, val_fraction=4 / 7, num_workers=1, mean_size=size)
        for split in ("train", "val"):
            for label, folder in enumerate(sorted((root / split).iterdir())):
                for path in folder.iterdir():
                    paint(path, label, share)
    else:
        from trainmark.datasets.cityscapes.make import make_cityscapes
        from trainmark.datasets.cityscapes.scan import IMAGE_ENDING, IMAGES, LABEL_ENDING, LABELS

        make_cityscapes(root, num_images=num_images, val_fraction=0.5, num_workers=1, size=(64, 128))
        for path in (root / IMAGES).rglob(f"*{IMAGE_ENDING}"):
            stem = path.relative_to(root / IMAGES).with_name(path.name.removesuffix(IMAGE_ENDING))
            label_path = f"{root / LABELS / stem}{LABEL_ENDING}"
            labels = THREE_CLASSES[np.asarray(Image.open(label_path))]
            Image.fromarray(labels).save(label_path)
            paint(path, labels, share)


def paint(path: Path, labels: ArrayLike, share: float) -> None:
    """Mixes the colour of each pixel's class into an image."""
    kind = "PNG" if path.suffix == ".png" else "JPEG"
    pixels = np.asarray(Image.open(path), dtype=np.float64)
    painted = (1 - share) * pixels + share * COLOURS[labels]
    Image.fromarray(painted.astype(np.uint8)).save(path, format=kind, quality=90)


def train(workload: str, framework: str, data: Path, *, seed: int, epochs: int, device: str) -> Metrics:
    """The metrics on the validation part after the last epoch."""
    training = TRAININGS[workload]
    module = frameworks().load(framework).engine
    assert module is not None
    cell = WorkloadCell(
        workload=workload,
        framework=framework,
        recipe="reference",
        precision="fp32",
        size="small",
        device=device,
        nodes=1,
        devices_per_node=1,
        batch_size_per_device=training.batch_size,
        data=str(data),
        epochs=epochs,
        lr=training.lr,
        until_target={},
        seed=seed,
        repeat=1,
    )
    engine: Any = import_module(module).build_engine(cell)
    for epoch in range(epochs):
        engine.begin_epoch(epoch)
        for _ in range(engine.steps_per_epoch):
            engine.step()
    metrics = engine.evaluate()
    engine.close()
    return {name: float(metrics[name]) for name in training.metrics}


def compare(one: Sequence[float], two: Sequence[float]) -> tuple[float, float, float]:
    """The difference of the means (two - one) and its 90% interval by Welch."""
    parts = [statistics.variance(values) / len(values) for values in (one, two)]
    difference = statistics.fmean(two) - statistics.fmean(one)
    total = sum(parts)
    if total == 0:
        return difference, difference, difference
    shares = [part**2 / (len(values) - 1) for part, values in zip(parts, (one, two), strict=True)]
    half = t_quantile(0.10, total**2 / sum(shares)) * math.sqrt(total)
    return difference, difference - half, difference + half


def report(results: Results, margin: float) -> None:
    print("| workload | metric | framework | seeds | mean | from | to |\n|---|---|---|---|---|---|---|")
    for workload, by_framework in results.items():
        for framework, by_seed in by_framework.items():
            for metric in TRAININGS[workload].metrics:
                values = [metrics[metric] for metrics in by_seed.values()]
                numbers = f"{statistics.fmean(values):.4f} | {min(values):.4f} | {max(values):.4f}"
                print(f"| {workload} | {metric} | {framework} | {len(values)} | {numbers} |")
    print("\n| workload | metric | pair | difference | 90% interval | the same within the margin |")
    print("|---|---|---|---|---|---|")
    for workload, by_framework in results.items():
        pairs = itertools.combinations(by_framework, 2)
        for (one, two), metric in itertools.product(pairs, TRAININGS[workload].metrics):
            pair = [[metrics[metric] for metrics in by_framework[name].values()] for name in (one, two)]
            if min(map(len, pair)) < 2:
                continue
            difference, low, high = compare(*pair)
            verdict = "yes" if -margin < low and high < margin else "not shown"
            interval = f"{low:+.4f} … {high:+.4f}"
            print(f"| {workload} | {metric} | {two} - {one} | {difference:+.4f} | {interval} | {verdict} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--frameworks", default="torch,paddle,jax")
    parser.add_argument("--workloads", default="resnet50,hrnet_w18")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0, help="such as 100 for a pilot (default: 0)")
    parser.add_argument("--epochs", type=int, help="instead of those of the workload")
    parser.add_argument("--images", type=int, help="instead of those of the workload")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--margin", type=float, default=0.02)
    parser.add_argument("--jobs", type=int, default=1, help="trainings at the same time (default: 1)")
    parser.add_argument("--child", nargs=2, metavar=("DATA", "SEED"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child is not None:  # one training in this process; the data are there
        data, seed = args.child
        epochs = args.epochs or TRAININGS[args.workloads].epochs
        metrics = train(args.workloads, args.frameworks, Path(data), seed=int(seed), epochs=epochs, device=args.device)
        print(json.dumps(metrics))
        return
    with tempfile.TemporaryDirectory() as folder:
        train_missing(args, Path(folder))
    report(read(args.results), args.margin)


def read(path: Path) -> Results:
    found: Results = json.loads(path.read_text()) if path.exists() else {}
    by_seeds = [by_seed for by_framework in found.values() for by_seed in by_framework.values()]
    if not all(isinstance(own, dict) for by_seed in by_seeds for own in by_seed.values()):
        sys.exit(f"error: {path} was written by an older version, which kept one metric; use another file")
    return found


def train_missing(args: argparse.Namespace, data: Path) -> None:
    """All frameworks advance together, seed by seed."""
    results = read(args.results)
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    order = itertools.product(seeds, args.workloads.split(","), args.frameworks.split(","))
    name = {framework: versioned(framework, args.device) for framework in args.frameworks.split(",")}
    tasks = [task for task in order if str(task[0]) not in results.get(task[1], {}).get(name[task[2]], {})]
    # More threads than cores wait for each other in PyTorch: two trainings on two cores took four times as long.
    own_cores = max(1, len(os.sched_getaffinity(0)) // args.jobs)
    threads = {"OMP_NUM_THREADS": str(own_cores), "OMP_WAIT_POLICY": "passive"}
    for workload in {workload for _, workload, _ in tasks}:
        make_data(workload, data / workload, args.images or TRAININGS[workload].num_images)

    def run(task: tuple[int, str, str]) -> tuple[tuple[int, str, str], Metrics]:
        seed, workload, framework = task
        own = ["--frameworks", framework, "--workloads", workload, "--child", str(data / workload), str(seed)]
        command = [sys.executable, *sys.argv, *own]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env={**threads, **os.environ})
        return task, json.loads(done.stdout.splitlines()[-1])

    with ThreadPoolExecutor(args.jobs) as pool:
        for future in as_completed([pool.submit(run, task) for task in tasks]):
            (seed, workload, framework), metrics = future.result()
            results.setdefault(workload, {}).setdefault(name[framework], {})[str(seed)] = metrics
            write_json(args.results, results)
            said = ", ".join(f"{metric} {value:.4f}" for metric, value in metrics.items())
            print(f"{workload} {framework} seed {seed}: {said}", file=sys.stderr, flush=True)


def versioned(framework: str, device: str) -> str:
    """Trainings of several machines are pooled only if the version is the same."""
    return f"{framework} {frameworks().load(framework).installed_version()} {device}"


if __name__ == "__main__":
    main()
