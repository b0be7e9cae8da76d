"""Processor time of decoding for a training's random crops: whole images, and only the rows that a crop needs.

Makes images as `trainmark data make imagenet` does, in memory's own temporary folder. Whole and cut take turns, and the
rows that a crop needs must be the same to the bit. Prints one JSON object; times are medians in milliseconds an image.

    python benchmarks/crop_decoding.py
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from trainmark.datasets.imagenet.make import make_imagenet
from trainmark.datasets.jpeg import decode_lenient, jpeg_size
from trainmark.worker.images import View
from trainmark.workloads.resnet50.data import CROPS


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=21)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        make_imagenet(Path(folder) / "shapes", num_images=args.images, val_fraction=0)
        files = [path.read_bytes() for path in sorted((Path(folder) / "shapes").rglob("*.JPEG"))]
    sizes = np.array([jpeg_size(data) for data in files])
    cuts = View(crops=CROPS, seed=0, epoch=1).cuts(sizes, np.arange(len(files)), image_size=224)
    wanted = [int(top + height) for top, _, height, _ in cuts.places]
    memory = np.empty(4_000_000, dtype=np.uint8)
    for data, num_rows in zip(files, wanted, strict=True):
        whole, _ = decode_lenient(data)
        part, _ = decode_lenient(data, num_rows=num_rows)
        assert whole is not None
        assert part is not None
        np.testing.assert_array_equal(part[:num_rows], whole[:num_rows])

    def clock(rows: list[int] | list[None]) -> float:
        begin = time.process_time()
        for data, num_rows in zip(files, rows, strict=True):
            decode_lenient(data, into=memory, num_rows=num_rows)
        return 1000 * (time.process_time() - begin) / len(files)

    rounds = [(clock([None] * len(files)), clock(wanted)) for _ in range(args.rounds)]
    ratios = sorted(part / whole for whole, part in rounds)
    result = {
        "images": len(files),
        "whole_ms": round(statistics.median(whole for whole, _ in rounds), 3),
        "part_ms": round(statistics.median(part for _, part in rounds), 3),
        "ratio": round(statistics.median(ratios), 3),
        "ratio_of_nine_in_ten": [round(ratios[len(ratios) // 20], 3), round(ratios[-1 - len(ratios) // 20], 3)],
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
