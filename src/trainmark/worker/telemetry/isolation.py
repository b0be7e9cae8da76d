"""Whether the run had the machine to itself, decided from its telemetry records; see docs/concepts/warnings.md.

The worker decides this during the run rather than the analysis afterwards: it keeps only sums, so a run of a week costs
no memory, and readers of run folders need not read telemetry.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from trainmark.messages.machine import (
    clock_jump,
    cores_stolen,
    foreign_gpu_process,
    name_gpu,
    noisy_neighbour,
    other_processes,
    power_capped,
    this_host,
    throttled,
)
from trainmark.messages.message import Message

_LEAST_SAMPLES = 3
_LEAST_SHARE = 0.05
"""Of the samples that were throttled."""
_JUMP_S = 0.5
_LEAST_OTHER_CORES = 0.25
_LEAST_OTHER_SHARE = 0.05
"""Of our cores. Both limits must be exceeded: a desktop is never quite idle, and a large server even less."""
_LEAST_STOLEN_SHARE = 0.02
_POWER_CAP = "software power cap"
_ACTIONS = {
    _POWER_CAP: "raise the limit with nvidia-smi -pl",
    "hardware slowdown": "check cooling and power supply",
    "software thermal slowdown": "check fans and air flow",
    "hardware thermal slowdown": "check fans and air flow",
    "hardware power brake": "check the power supply",
}


class Isolation:
    """Takes telemetry records in order; those from while steps were timed have `is_measuring`."""

    def __init__(self, *, gpu: Message | None = None, host: Message | str | None = None) -> None:
        self._gpu, self._host = gpu or name_gpu(index=0, host=None, rank=None), host or this_host()
        self._limits: dict[str, float] = {}
        self._throttling = _Throttling()
        self._num_listed = self._num_shared = 0
        self._foreign: dict[tuple[int, str | None], int] = {}
        """Largest number of bytes of each."""
        self._shift_s = 0.0
        self._jumps_s: list[float] = []
        self._load = Counter[str]()
        self._num_cores = 0

    def note(self, record: Mapping[str, Any]) -> None:
        self._limits.update(record.get("gpu_limits") or {})
        self._note_clock(record)
        self._note_load(record)
        if record.get("is_measuring"):
            self._note_processes(record)
            self._throttling.note(record, self._limits)

    def warnings(self, *, busiest: Message | None = None) -> list[Message]:
        """`busiest` says who else worked hardest, if that can be seen."""
        return [*self._warn_shared(), *self._warn_throttled(), *self._warn_clock(), *self._warn_load(busiest)]

    # -- the GPU -------------------------------------------------------------------------------------------------------

    def _note_processes(self, record: Mapping[str, Any]) -> None:
        processes = record.get("gpu_foreign_processes")
        if processes is None:
            return
        self._num_listed += 1
        self._num_shared += bool(processes)
        for process in processes:
            key = process["pid"], process.get("name")
            self._foreign[key] = max(self._foreign.get(key, 0), process.get("used_bytes") or 0)

    def _warn_shared(self) -> Iterator[Message]:
        if self._num_shared < 2:  # a single sample may be a process that is about to end
            return
        (pid, name), used_bytes = max(self._foreign.items(), key=lambda item: item[1])
        yield foreign_gpu_process(
            gpu=self._gpu,
            shared=self._num_shared,
            samples=self._num_listed,
            name=name,
            pid=pid,
            used_bytes=used_bytes or None,
            more=len(self._foreign) - 1 or None,
        )

    def _warn_throttled(self) -> Iterator[Message]:
        seen = self._throttling
        if seen.num_throttled < max(_LEAST_SAMPLES, _LEAST_SHARE * seen.num_samples):
            return
        reasons = [reason for reason, _ in seen.reasons.most_common()]
        clock = seen.clock(is_throttled=True)
        yield throttled(
            gpu=self._gpu,
            share=seen.num_throttled / seen.num_samples,
            samples=seen.num_samples,
            reasons=[self._name_reason(reason) for reason in reasons],
            clock_mhz=clock,
            free_mhz=seen.clock(is_throttled=False) if clock else None,
            max_mhz=self._limits.get("sm_max_mhz") if clock else None,
            actions=list(dict.fromkeys(_ACTIONS[reason] for reason in reasons)),
        )

    def _name_reason(self, reason: str) -> Message | str:
        if reason != _POWER_CAP:
            return reason
        return power_capped(limit_w=self._limits["power_w"], usual_w=self._limits["power_usual_w"])

    # -- the host ------------------------------------------------------------------------------------------------------

    def _note_clock(self, record: Mapping[str, Any]) -> None:
        """Between two samples: a clock that is adjusted slowly does not jump."""
        shift_s = record.get("clock_shift_s")
        if shift_s is None:
            return
        if abs(shift_s - self._shift_s) > _JUMP_S:
            self._jumps_s.append(shift_s - self._shift_s)
        self._shift_s = shift_s

    def _warn_clock(self) -> Iterator[Message]:
        if not self._jumps_s:
            return
        times = len(self._jumps_s)
        yield clock_jump(host=self._host, seconds=max(self._jumps_s, key=abs), times=times if times > 1 else None)

    def _note_load(self, record: Mapping[str, Any]) -> None:
        load = record.get("load")
        if load is None:
            return
        self._num_cores = load["num_cores"]
        self._load["seconds"] += load["seconds"]
        for name in ("own_cores", "other_cores", "stolen_cores"):
            self._load[name] += load[name] * load["seconds"]

    def _warn_load(self, busiest: Message | None) -> Iterator[Message]:
        seconds = self._load["seconds"]
        if not seconds:
            return
        own, other, stolen = (self._load[name] / seconds for name in ("own_cores", "other_cores", "stolen_cores"))
        host, cores = self._host, self._num_cores
        if other > max(_LEAST_OTHER_CORES, _LEAST_OTHER_SHARE * self._num_cores):
            what = other_processes(host=host, cores=cores, other=other, own=own, busiest=busiest)
            yield noisy_neighbour(what=what)
        if stolen > _LEAST_STOLEN_SHARE * self._num_cores:
            yield noisy_neighbour(what=cores_stolen(host=host, cores=cores, stolen=stolen))


class _Throttling:
    """How often the GPU was throttled, why, and at what clock."""

    def __init__(self) -> None:
        self.num_samples = self.num_throttled = 0
        self.reasons = Counter[str]()
        self._clocks: dict[bool, list[float]] = {True: [0, 0.0], False: [0, 0.0]}
        """Number and sum, for throttled samples and for the others."""

    def note(self, record: Mapping[str, Any], limits: Mapping[str, float]) -> None:
        reasons = record.get("gpu_throttle")
        if reasons is None:
            return
        harmful = [reason for reason in reasons if reason != _POWER_CAP or _is_limit_lowered(limits)]
        self.num_samples += 1
        self.num_throttled += bool(harmful)
        self.reasons.update(harmful)
        if (clock := record.get("gpu_sm_mhz")) is not None:
            tally = self._clocks[bool(harmful)]
            tally[0] += 1
            tally[1] += clock

    def clock(self, *, is_throttled: bool) -> int | None:
        num, total = self._clocks[is_throttled]
        return round(total / num) if num else None


def _is_limit_lowered(limits: Mapping[str, float]) -> bool:
    """At its default limit a busy GPU is always at the power cap: that is normal, not throttling."""
    limit, usual = limits.get("power_w"), limits.get("power_usual_w")
    return limit is not None and usual is not None and limit < 0.99 * usual
