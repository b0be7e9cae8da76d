"""Sample the machine during a run, and report at the end what disturbed it."""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from trainmark import rank_environment
from trainmark.messages.machine import busy_process, name_gpu, this_host
from trainmark.messages.message import Message
from trainmark.runfolder.records import RUN_TAG, Kind
from trainmark.units import plain
from trainmark.worker.recorder import Recorder
from trainmark.worker.telemetry.energy import EnergyMeter
from trainmark.worker.telemetry.isolation import Isolation
from trainmark.worker.telemetry.neighbours import Neighbours, is_of_run, name_of
from trainmark.worker.telemetry.sensors import ClockSensor, GpuSensor, HostSensor, pick_foreign

_PERIOD_S = 1.0
_ENERGY_PER_SAMPLE = 2
"""Readings of the energy counters in each period: twice as many let a short run have an interval."""
_BUSY_CORES = 0.05
"""Processes that use less are not named."""


class Telemetry:
    """A thread that writes telemetry records. What concerns a whole host is reported by its first rank."""

    def __init__(self, recorder: Recorder, *, gpu_index: int | None) -> None:
        self._recorder = recorder
        place = read_place(os.environ)
        self._host = HostSensor()
        self._clock = ClockSensor() if place.is_first_of_host else None
        tag = os.environ.get(RUN_TAG)
        self._neighbours = Neighbours(tag) if place.is_first_of_host else None
        self._gpu = GpuSensor(gpu_index) if gpu_index is not None else None
        self._energy = EnergyMeter(gpu=self._gpu, host=place.host, is_first_of_host=place.is_first_of_host)
        # Before the framework is loaded: no rank of this run can be on the GPU yet.
        at_start = frozenset(process.pid for process in (self._gpu.processes() if self._gpu else None) or ())
        self._pick_foreign = partial(
            pick_foreign,
            own_pid=os.getpid(),
            is_own=lambda pid: is_of_run(pid, tag),
            at_start=at_start,
            num_local_ranks=place.num_local_ranks,
        )
        host, rank = (place.host, place.rank) if place.num_ranks > 1 else (None, None)
        self._isolation = Isolation(gpu=name_gpu(index=gpu_index or 0, host=host, rank=rank), host=host or this_host())
        self._was_measuring = self._has_measured = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="telemetry", daemon=True)

    def __enter__(self) -> Telemetry:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(timeout=5)
        if self._thread.is_alive():  # the driver hangs: report nothing
            return
        if self._has_measured:
            self._note({"kind": Kind.TELEMETRY, **self._read_load(is_last=True)})
        for warning in self._isolation.warnings(busiest=self._name_busiest()):
            self._recorder.write({"kind": Kind.WARNING, **warning.to_json()})

    def _work(self) -> None:
        if self._neighbours is not None:
            self._neighbours.look()  # finding the owners of all processes is slow: do it during set-up
        limits = {"gpu_limits": self._gpu.limits()} if self._gpu is not None else {}
        self._recorder.write(self._energy.describe())
        tick = 0
        while not self._stop.wait(_PERIOD_S / _ENERGY_PER_SAMPLE):
            used = self._energy.read()
            if used is not None:
                self._recorder.write(used)
            tick = (tick + 1) % _ENERGY_PER_SAMPLE
            if tick == 0:
                self._note({"kind": Kind.TELEMETRY, **self._read(), **limits})
                limits = {}

    def _read(self) -> dict[str, Any]:
        is_measuring = self._recorder.is_stepping
        # A sample covers the second before it, which must have been measured from its start.
        record: dict[str, Any] = {"is_measuring": is_measuring and self._was_measuring, **self._host.read()}
        self._was_measuring = is_measuring
        if self._clock is not None:
            record.update(self._clock.read())
        if self._gpu is not None:
            record.update(self._gpu.read())
            listed = self._gpu.processes()
            if listed is not None:
                foreign = self._pick_foreign(listed)
                record["gpu_foreign_processes"] = [{**vars(found), "name": name_of(found.pid)} for found in foreign]
        if is_measuring:
            record.update(self._read_load())
        return record

    def _read_load(self, *, is_last: bool = False) -> dict[str, Any]:
        """From the first step to the last, pauses included: work of the run in a pause is its own too."""
        if self._neighbours is None:
            return {}
        is_first, self._has_measured = not self._has_measured, True
        if not (is_first or is_last or self._neighbours.is_due()):
            return {}
        load = self._neighbours.look()
        return {} if load is None or is_first else {"load": load}

    def _note(self, record: dict[str, Any]) -> None:
        self._isolation.note(record)
        self._recorder.write(record)

    def _name_busiest(self) -> Message | None:
        found = self._neighbours.busiest() if self._neighbours is not None else None
        if found is None or found[2] < _BUSY_CORES:
            return None
        pid, name, cores = found
        return busy_process(name=plain(name), pid=pid, cores=cores)


@dataclass(frozen=True, kw_only=True)
class Place:
    """This process within the run."""

    rank: int
    num_ranks: int
    is_first_of_host: bool
    num_local_ranks: int
    host: str


def read_place(environment: Mapping[str, str]) -> Place:
    num_ranks = rank_environment.read("WORLD_SIZE", environment, default=1)
    return Place(
        rank=rank_environment.read("RANK", environment, default=0),
        num_ranks=num_ranks,
        is_first_of_host=rank_environment.read("LOCAL_RANK", environment, default=0) == 0,
        num_local_ranks=rank_environment.read("LOCAL_WORLD_SIZE", environment, default=num_ranks),
        host=platform.node() or "this host",
    )
