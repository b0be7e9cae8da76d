"""What this machine can do at most: a large matrix product, a large copy, and the decoding of JPEGs.

On random data: a product of zeros runs faster than any training can.
"""

from __future__ import annotations

import io
import json
import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from trainmark import host
from trainmark.datasets.jpeg import decode_lenient
from trainmark.measured_peaks import MATRIX_PRECISIONS

_MATRIX_SIDE = {"cuda": 8192, "cpu": 1024}
_COPY_BYTES = {"cuda": 1 << 32, "cpu": 1 << 28}
_REPEATS = {"cuda": 10, "cpu": 5}
_CALLS = {"cuda": 5, "cpu": 1}
"""Between two readings of the clock, so that the start of a call is small against its length."""
_DECODE_S = 0.5
_DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "amp": torch.float16, "bf16": torch.bfloat16}


def matrix_flops_per_s(precision: str, device: torch.device) -> float:
    side, dtype = _MATRIX_SIDE[device.type], _DTYPES[precision]
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    try:
        left, right = (torch.randn(side, side, device=device, dtype=dtype) for _ in range(2))
        product = torch.empty_like(left)
        return 2 * side**3 / _seconds(lambda: torch.mm(left, right, out=product), device)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def copy_bytes_per_s(device: torch.device) -> float:
    """Bytes read plus bytes written."""
    source = torch.randint(0, 256, (_COPY_BYTES[device.type],), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * source.numel() / _seconds(lambda: target.copy_(source), device)


def _seconds(work: Callable[[], object], device: torch.device) -> float:
    """Median time of one call."""
    is_cuda, calls = device.type == "cuda", _CALLS[device.type]
    spent = []
    for number in range(_REPEATS[device.type] + 2):
        if is_cuda:
            torch.cuda.synchronize(device)
        begin = time.perf_counter()
        for _ in range(calls):
            work()
        if is_cuda:
            torch.cuda.synchronize(device)
        if number >= 2:  # the first ones load modules and raise the clocks
            spent.append((time.perf_counter() - begin) / calls)
    return statistics.median(spent)


def measure_ceilings(device: torch.device) -> dict[str, Any]:
    """As `trainmark.measured_peaks` keeps them."""
    is_cuda = device.type == "cuda"
    precisions = MATRIX_PRECISIONS if is_cuda else ("bf16", "fp32")
    matrix = {precision: matrix_flops_per_s(precision, device) for precision in precisions}
    clock = torch.cuda.clock_rate() if is_cuda and _can_read_clock() else None
    alone, together = jpegs_per_s()
    return {
        "device": torch.cuda.get_device_name(device) if is_cuda else host.cpu_name(),
        "matrix_flops_per_s": matrix,
        "copy_bytes_per_s": copy_bytes_per_s(device),
        "jpegs_per_s_core": alone,
        "jpegs_per_s": together,
        "num_cores": host.num_cores(),
        "clock_mhz": clock,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "framework": f"torch {torch.__version__}",
    }


def _can_read_clock() -> bool:
    try:
        import pynvml  # noqa: F401
    except ImportError:
        return False
    return True


def jpegs_per_s() -> tuple[float, float]:
    """Images of 500 x 375 on one core, and on all cores at the same time."""
    from PIL import Image

    rng = np.random.default_rng(0)
    coarse = Image.fromarray(rng.integers(0, 256, (94, 125, 3), dtype=np.uint8))
    buffer = io.BytesIO()
    coarse.resize((500, 375), Image.Resampling.BICUBIC).save(buffer, "JPEG", quality=90)
    alone = _decode_for_a_while(buffer.getvalue())
    with multiprocessing.get_context("spawn").Pool(host.num_cores()) as pool:
        together = sum(pool.map(_decode_for_a_while, [buffer.getvalue()] * host.num_cores(), chunksize=1))
    return alone, together


def _decode_for_a_while(data: bytes) -> float:
    decode_lenient(data)  # loads the library
    begin, count = time.perf_counter(), 0
    while time.perf_counter() - begin < _DECODE_S:
        decode_lenient(data)
        count += 1
    return count / (time.perf_counter() - begin)


if __name__ == "__main__":
    print(json.dumps(measure_ceilings(torch.device(sys.argv[1]))))
