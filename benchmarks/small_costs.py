"""What small things cost that run beside a measurement or before one: the best of several passes, in microseconds.

python benchmarks/small_costs.py [--passes 20] [--images 10000]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from trainmark import mark
from trainmark.analyse.throughput import estimate_throughput
from trainmark.datasets.imagenet.read import read_folder


def best_us(action: Callable[[], object], *, passes: int, calls: int = 1) -> float:
    best = np.inf
    for _ in range(passes):
        begin = time.perf_counter()
        for _ in range(calls):
            action()
        best = min(best, (time.perf_counter() - begin) / calls)
    return 1e6 * best


def make_folder(root: Path, num_images: int) -> Path:
    for number in range(num_images):
        path = root / "train" / f"{number % 20:02d}" / f"{number}.JPEG"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return root


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--passes", type=int, default=20)
    parser.add_argument("--images", type=int, default=10_000)
    args = parser.parse_args()
    seconds = 0.02 * (1 + 0.03 * np.random.default_rng(7).standard_normal(5000))
    with tempfile.TemporaryDirectory() as folder:
        marker = mark._Marker(folder)
        images = make_folder(Path(folder) / "images", args.images)
        costs = {
            "mark.step under `trainmark run`": best_us(lambda: marker.step(32, None), passes=args.passes, calls=1000),
            "mark.step elsewhere": best_us(lambda: mark.step(samples=32), passes=args.passes, calls=10_000),
            "throughput of 5,000 steps": best_us(lambda: estimate_throughput(seconds, 32), passes=args.passes),
            f"listing {args.images:,} images": best_us(lambda: read_folder(images), passes=min(args.passes, 5)),
        }
    for name, cost in costs.items():
        print(f"{name:<36}{cost:>12,.2f} µs")


if __name__ == "__main__":
    main()
