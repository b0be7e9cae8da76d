"""The JAX engine. `trainmark.worker.engine.EnginePackage` documents these functions."""

from __future__ import annotations

import os

from trainmark import rank_environment
from trainmark.gpus import read_gpus
from trainmark.runfolder.document import WorkloadCell
from trainmark.worker.engine import Engine
from trainmark.worker.memory import is_memory_error, limit_host_memory

_SHARE = "XLA_PYTHON_CLIENT_MEM_FRACTION"
_NEW_SHARE = "XLA_CLIENT_MEM_FRACTION"
"""Its name in newer versions of JAX, which know the old one too and refuse both together."""
_MOST = "0.95"
"""The rest is for CUDA itself, NCCL and cuDNN. JAX alone would take 0.75, and fail where PyTorch fits."""
_NO_MEMORY = ("RESOURCE_EXHAUSTED", "Out of memory")


def build_engine(cell: WorkloadCell) -> Engine:
    if cell.device == "cuda" and _NEW_SHARE not in os.environ:
        os.environ.setdefault(_SHARE, _MOST)  # a user's own value or that of `limit_memory` is kept

    from trainmark.worker.jax.engine import JaxEngine

    return JaxEngine(cell)


def is_out_of_memory(error: BaseException) -> bool:
    return is_memory_error(error) or any(text in str(error) for text in _NO_MEMORY)


def limit_memory(device: str, num_bytes: int) -> None:
    """Before JAX is used: its allocator for a GPU takes its share when the first array is made."""
    if device == "cpu":
        limit_host_memory(num_bytes)
        return
    gpus, _ = read_gpus()
    total = gpus[rank_environment.read("LOCAL_RANK", os.environ, default=0)].memory_bytes
    name = _NEW_SHARE if _NEW_SHARE in os.environ else _SHARE
    os.environ[name] = f"{min(1.0, num_bytes / total):.4f}"
