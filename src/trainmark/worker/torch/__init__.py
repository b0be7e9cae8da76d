"""The PyTorch engine. `trainmark.worker.engine.EnginePackage` documents these functions."""

from __future__ import annotations

import os

import torch

from trainmark import rank_environment
from trainmark.runfolder.document import WorkloadCell
from trainmark.worker.engine import Engine
from trainmark.worker.memory import is_memory_error, limit_host_memory


def build_engine(cell: WorkloadCell) -> Engine:
    from trainmark.worker.torch.engine import TorchEngine

    return TorchEngine(cell)


def is_out_of_memory(error: BaseException) -> bool:
    return isinstance(error, torch.OutOfMemoryError) or is_memory_error(error)


def limit_memory(device: str, num_bytes: int) -> None:
    if device == "cpu":
        limit_host_memory(num_bytes)
        return
    index = rank_environment.read("LOCAL_RANK", os.environ, default=0)
    total = torch.cuda.get_device_properties(index).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, num_bytes / total), index)
