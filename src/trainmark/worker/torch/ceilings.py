"""What this device can do at most: the rate of a large matrix product and of a large copy.

On random data: a product of zeros runs faster than any training can.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch

_MATRIX_SIDE = {"cuda": 8192, "cpu": 1024}
_COPY_BYTES = {"cuda": 1 << 32, "cpu": 1 << 28}
_REPEATS = {"cuda": 10, "cpu": 5}
_CALLS = {"cuda": 5, "cpu": 1}
"""Between two readings of the clock, so that the start of a call is small against its length."""
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
