"""The Paddle engine. `trainmark.worker.engine.EnginePackage` documents these functions."""

from __future__ import annotations

import faulthandler
import signal
import threading
import warnings

from trainmark.runfolder.document import WorkloadCell
from trainmark.worker.engine import Engine
from trainmark.worker.memory import is_memory_error, limit_host_memory

with warnings.catch_warnings():
    # Paddle can compile extensions, which we do not; every import of it says that this would be faster with ccache.
    warnings.filterwarnings("ignore", message="No ccache found")
    import paddle

paddle.disable_signal_handler()
for _number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    # Paddle's import replaces the handlers in place, by one that prints a stack and ends the process at once: a run
    # that is stopped could not write its checkpoint. Those that Python knows are put back.
    if threading.current_thread() is threading.main_thread() and signal.getsignal(_number) is not None:
        signal.signal(_number, signal.getsignal(_number))
if faulthandler.is_enabled():
    faulthandler.enable()


def build_engine(cell: WorkloadCell) -> Engine:
    from trainmark.worker.paddle.engine import PaddleEngine

    return PaddleEngine(cell)


def is_out_of_memory(error: BaseException) -> bool:
    """Paddle's allocators report a full GPU as ResourceExhaustedError, in the text of a plain MemoryError."""
    return "ResourceExhaustedError" in str(error) or is_memory_error(error)


def limit_memory(device: str, num_bytes: int) -> None:
    if device == "cpu":
        limit_host_memory(num_bytes)
        return
    # In whole MiB. Read when the allocator first needs memory, which is after this.
    paddle.set_flags({"FLAGS_gpu_memory_limit_mb": max(1, num_bytes >> 20)})
