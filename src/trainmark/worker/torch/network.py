"""Measure the network between the processes of a run: `python -m trainmark.worker.torch.network FOLDER`.

Started by a launcher, once per device, like the worker. Reads network-request.json in the folder; rank 0 writes
network.json: the raw samples of all-reduce for each size. Every rank ends with a run_end record, so that the supervisor
knows which one failed and why.
"""

from __future__ import annotations

import faulthandler
import os
import socket
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import distributed

from trainmark import rank_environment
from trainmark.messages.endings import raised
from trainmark.messages.training import sizes_done
from trainmark.parent_death import die_with
from trainmark.runfolder.files import NETWORK_FILE, NETWORK_REQUEST_FILE, SCHEMA, rank_file, read_json, write_json
from trainmark.runfolder.records import Kind, Outcome
from trainmark.worker.recorder import Recorder
from trainmark.worker.torch.ranks import join_processes, time_all_reduce

_SMALLEST_BYTES = 4
_GROWTH = 4
_SIZE_S = 0.25
"""Time for the samples of one size."""


def main(argv: list[str]) -> int:
    folder = Path(argv[1])
    faulthandler.enable()
    die_with(os.getppid())
    rank = rank_environment.read("RANK", os.environ, default=0)
    recorder = Recorder(folder / rank_file(rank))
    recorder.write({"kind": Kind.RUN_START, "schema": SCHEMA, "rank": rank, "pid": os.getpid()})
    outcome, reason = Outcome.OK, sizes_done()
    try:
        request = read_json(folder / NETWORK_REQUEST_FILE)
        if request is None:
            raise ValueError(f"no readable {NETWORK_REQUEST_FILE} in {folder}")
        measured = measure_network(device=request["device"], max_bytes=request["max_bytes"], max_s=request["max_s"])
        if rank == 0:
            write_json(folder / NETWORK_FILE, {"schema": SCHEMA, **measured})
    except Exception as error:
        traceback.print_exc()
        outcome, reason = Outcome.FAILED, raised(error=f"{type(error).__name__}: {error}"[:1000])
    recorder.write({"kind": Kind.RUN_END, "outcome": outcome, **reason.to_reason(), "steps": None})
    recorder.close()
    if distributed.is_initialized() and outcome is Outcome.OK:
        distributed.destroy_process_group()
    return 0 if outcome is Outcome.OK else 1


def measure_network(*, device: str, max_bytes: int, max_s: float) -> dict[str, Any]:
    place = _choose_device(device)
    backend = "nccl" if place.type == "cuda" else "gloo"
    ranks = join_processes(place)
    hosts = ranks.gather(socket.gethostname())
    measured: list[dict[str, Any]] = []
    left_out: list[int] = []
    spent_s = 0.0
    for num_bytes in _sizes(max_bytes):
        # The next size takes two warm-ups and one sample, each longer by about the growth of the sizes.
        expected_s = 3 * _GROWTH * measured[-1]["seconds"][-1] if measured else 0.0
        if left_out or spent_s + expected_s > max_s:
            left_out.append(num_bytes)
            continue
        samples, took_s = time_all_reduce(num_bytes, device=place, ranks=ranks, max_seconds=_SIZE_S)
        measured.append({"num_bytes": num_bytes, "seconds": samples})
        spent_s += took_s
    return {
        "backend": backend,
        "device": device,
        "num_ranks": len(hosts),
        "hosts": hosts,
        "sizes": measured,
        "left_out_bytes": left_out,
    }


def _sizes(max_bytes: int) -> Iterator[int]:
    size = _SMALLEST_BYTES
    while size <= max_bytes:
        yield size
        size *= _GROWTH


def _choose_device(kind: str) -> torch.device:
    if kind == "cpu":
        return torch.device("cpu")
    device = torch.device("cuda", rank_environment.read("LOCAL_RANK", os.environ, default=0))
    torch.cuda.set_device(device)
    return device


if __name__ == "__main__":
    sys.exit(main(sys.argv))
