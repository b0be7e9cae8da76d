"""Which of the processes that NVML lists on our GPU are not of our run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class GpuProcess:
    pid: int
    used_bytes: int | None
    """None where the driver does not tell."""


def pick_foreign(
    listed: Sequence[GpuProcess],
    *,
    own_pid: int,
    is_own: Callable[[int], bool],
    at_start: frozenset[int],
    num_local_ranks: int,
) -> list[GpuProcess]:
    """`at_start` are the pids listed before any rank of ours can have used the GPU.

    In a container NVML gives the pids of the host, which mean nothing here: our own is then not among them. Those that
    were there before us are foreign all the same. Of those that came later, as many as this run has ranks on the host
    may be ours, the largest; only what is beyond them is foreign for sure.
    """
    if any(process.pid == own_pid for process in listed):
        return [process for process in listed if not is_own(process.pid)]
    early = [process for process in listed if process.pid in at_start]
    late = [process for process in listed if process.pid not in at_start]
    late.sort(key=lambda process: process.used_bytes or 0)
    return early + late[: max(0, len(late) - num_local_ranks)]
