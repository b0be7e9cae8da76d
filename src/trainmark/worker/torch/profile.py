"""Where the device spends the time of a step: its kernels by name."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import torch
from torch._C._autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from trainmark.worker.torch.engine import TorchEngine

_NUM_STEPS = 3
_MAX_NAME = 200


def profile_steps(engine: TorchEngine, path: str) -> dict[str, Any]:
    """Writes one line per kernel, the longest first: milliseconds and calls per step, and the name."""
    is_cuda = torch.cuda.is_available() and engine.facts()["device_name"] is not None
    activity = ProfilerActivity.CUDA if is_cuda else ProfilerActivity.CPU
    with profile(activities=[activity]) as found:
        for _ in range(_NUM_STEPS):
            engine.step()
        engine.wait()
    calls: defaultdict[str, int] = defaultdict(int)
    spent: defaultdict[str, float] = defaultdict(float)
    for event in found.events():
        if (event.device_type == DeviceType.CUDA) is is_cuda and not event.name.startswith("Profiler"):
            name = event.name[:_MAX_NAME]
            calls[name] += 1
            spent[name] += event.time_range.elapsed_us() if is_cuda else event.self_cpu_time_total
    order = sorted(spent, key=lambda name: -spent[name])
    lines = [f"{spent[name] / _NUM_STEPS / 1000:9.3f} ms {calls[name] / _NUM_STEPS:8.1f}  {name}\n" for name in order]
    Path(path).write_text("".join(lines))
    total_ms = sum(spent.values()) / _NUM_STEPS / 1000
    return {"kernel_ms": total_ms, "kernels": sum(calls.values()) / _NUM_STEPS, "path": path}
