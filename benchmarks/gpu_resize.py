"""What preparing a batch of 128 crops costs the GPU: the kernel against the matrix products, and the copy to the GPU.

    python benchmarks/gpu_resize.py

Rounds alternate in one process; crops are those that ResNet-50's training sees of images of 500 x 375.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

import numpy as np
import torch

from trainmark.worker.images import CELL_SIDE, Crops, View
from trainmark.worker.torch import resample as products
from trainmark.worker.torch import resample_kernel as kernel
from trainmark.worker.torch.images import Format
from trainmark.workloads.resnet50.data import CROPS

BATCH_SIZE = 128
NUM_ROUNDS = 20
CALLS_A_ROUND = 10


def main() -> None:
    sizes = np.tile(np.array([[375, 500]]), (BATCH_SIZE, 1))
    cuts = View(crops=CROPS, seed=0, epoch=0).cuts(sizes, np.arange(BATCH_SIZE), image_size=224)
    stored = cuts.places[:, 2:]
    geometry = products.to_geometry(Crops(boxes=cuts.boxes, flips=cuts.flips, sizes=stored, problems=[])).cuda()
    host = torch.randint(0, 256, (BATCH_SIZE, CELL_SIDE, CELL_SIDE, 3), dtype=torch.uint8).pin_memory()
    cells = host.cuda()
    height, width = stored.max(axis=0).tolist()
    wanted = Format(image_size=224, mean=(0.5,) * 3, std=(0.25,) * 3, dtype=torch.bfloat16, channels_last=True)
    ways: dict[str, Callable[[], object]] = {
        "products": lambda: products.crop_resize(cells[:, :height, :width], geometry, wanted),
        "kernel": lambda: kernel.crop_resize(cells[:, :height, :width], geometry, wanted),
        "copy": lambda: cells.copy_(host, non_blocking=True),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for way in ways.values():
        way()
    for _ in range(NUM_ROUNDS):
        for name, way in ways.items():
            times[name].append(milliseconds(way))
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {BATCH_SIZE} crops; medians:")
    for name, found in times.items():
        print(f"  {name:10} {statistics.median(found):7.3f} ms ({min(found):.3f} to {max(found):.3f})")


def milliseconds(way: Callable[[], object]) -> float:
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(CALLS_A_ROUND):
        way()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / CALLS_A_ROUND


if __name__ == "__main__":
    main()
