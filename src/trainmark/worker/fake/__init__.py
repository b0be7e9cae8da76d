"""An engine without a framework, for tests of the loop, of launchers and of log formats. It trains nothing."""

from __future__ import annotations

from trainmark.runfolder.document import WorkloadCell
from trainmark.worker.engine import Engine
from trainmark.worker.memory import is_memory_error, limit_host_memory


def build_engine(cell: WorkloadCell) -> Engine:
    """Steps of 10 ms of a clock that only the engine moves."""
    from trainmark.worker.fake.engine import FakeClock, FakeEngine

    return FakeEngine([0.01], clock=FakeClock(), samples_per_step=cell.batch_size_per_device)


def is_out_of_memory(error: BaseException) -> bool:
    return is_memory_error(error)


def limit_memory(device: str, num_bytes: int) -> None:  # noqa: ARG001 - it has no device
    limit_host_memory(num_bytes)
