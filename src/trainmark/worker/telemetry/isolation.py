"""Was the run alone, and undisturbed? Decided from its telemetry records; docs/concepts/warnings.md explains.

The worker decides, second by second, rather than the analysis afterwards: it keeps tallies only, so a run of a week
costs no memory, and no reader of run folders needs to know of telemetry.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from trainmark.units import format_count

CODES = ("foreign-gpu-process", "throttled", "clock-jump", "noisy-neighbour")

_LEAST_SAMPLES = 3
_LEAST_SHARE = 0.05
"""Of the samples that were throttled."""
_JUMP_S = 0.5
_LEAST_OTHER_CORES = 0.25
_LEAST_OTHER_SHARE = 0.05
"""Of our cores: both must be passed, since a desktop is never quite idle and a large server never at all."""
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
    """Fed with telemetry records in their order; those made while steps were timed have `is_measuring`."""

    def __init__(self, *, gpu: str = "the GPU", host: str = "this host") -> None:
        self._gpu, self._host = gpu, host
        self._limits: dict[str, float] = {}
        self._throttling = _Throttling()
        self._num_listed = self._num_shared = 0
        self._foreign: dict[tuple[int, str], int] = {}
        """Most bytes of each."""
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

    def warnings(self, *, busiest: str | None = None) -> list[tuple[str, str]]:
        """Code and sentence. `busiest` says who else worked hardest, where that can be seen."""
        found = (*self._warn_shared(), *self._warn_throttled(), *self._warn_clock(), *self._warn_load(busiest))
        assert all(code in CODES for code, _ in found)
        return list(found)

    # -- the GPU -------------------------------------------------------------------------------------------------------

    def _note_processes(self, record: Mapping[str, Any]) -> None:
        processes = record.get("gpu_foreign_processes")
        if processes is None:
            return
        self._num_listed += 1
        self._num_shared += bool(processes)
        for process in processes:
            key = process["pid"], process.get("name") or "a process"
            self._foreign[key] = max(self._foreign.get(key, 0), process.get("used_bytes") or 0)

    def _warn_shared(self) -> Iterator[tuple[str, str]]:
        if self._num_shared < 2:  # one sample may be a process that is just about to end
            return
        (pid, name), used_bytes = max(self._foreign.items(), key=lambda item: item[1])
        memory = f" with {used_bytes / 2**30:.1f} GiB" if used_bytes else ""
        more = f" and {len(self._foreign) - 1} more" if len(self._foreign) > 1 else ""
        message = (
            f"{self._gpu} was shared in {self._num_shared} of {self._num_listed} samples, by {name} (pid {pid})"
            f"{memory}{more}; end it or choose a free GPU with CUDA_VISIBLE_DEVICES, then run again"
        )
        yield "foreign-gpu-process", message

    def _warn_throttled(self) -> Iterator[tuple[str, str]]:
        seen = self._throttling
        if seen.num_throttled < max(_LEAST_SAMPLES, _LEAST_SHARE * seen.num_samples):
            return
        reasons = [reason for reason, _ in seen.reasons.most_common()]
        clocks = f"; SM clock {seen.clock(is_throttled=True)} MHz then" if seen.clock(is_throttled=True) else ""
        free, most = seen.clock(is_throttled=False), self._limits.get("sm_max_mhz")
        clocks += f", {free} otherwise" if clocks and free else ""
        clocks += f", at most {most:.0f}" if clocks and most else ""
        is_capped = _POWER_CAP in reasons
        limit = f" of {self._limits['power_w']:.0f} W, usual {self._limits['power_usual_w']:.0f} W" if is_capped else ""
        named = ", ".join(reason + limit * (reason == _POWER_CAP) for reason in reasons)
        actions = " and ".join(dict.fromkeys(_ACTIONS[reason] for reason in reasons))
        share = 100 * seen.num_throttled / seen.num_samples
        message = (
            f"{self._gpu} was slowed down in {share:.0f}% of {seen.num_samples} samples ({named}){clocks}; "
            f"{actions}, then run again"
        )
        yield "throttled", message

    # -- the host ------------------------------------------------------------------------------------------------------

    def _note_clock(self, record: Mapping[str, Any]) -> None:
        """Between two samples: a clock that is slowly put right is none that jumps."""
        shift_s = record.get("clock_shift_s")
        if shift_s is None:
            return
        if abs(shift_s - self._shift_s) > _JUMP_S:
            self._jumps_s.append(shift_s - self._shift_s)
        self._shift_s = shift_s

    def _warn_clock(self) -> Iterator[tuple[str, str]]:
        if not self._jumps_s:
            return
        largest = max(self._jumps_s, key=abs)
        many = len(self._jumps_s)
        times = f"{many} times, by {largest:+.1f} s at most" if many > 1 else f"by {largest:+.1f} s"
        message = (
            f"the clock of {self._host} jumped {times} during the run: time stamps and wall time are wrong by that, "
            "steps and speed are not, since their clock cannot be set; check the time service, or whether it slept"
        )
        yield "clock-jump", message

    def _note_load(self, record: Mapping[str, Any]) -> None:
        load = record.get("load")
        if load is None:
            return
        self._num_cores = load["num_cores"]
        self._load["seconds"] += load["seconds"]
        for name in ("own_cores", "other_cores", "stolen_cores"):
            self._load[name] += load[name] * load["seconds"]

    def _warn_load(self, busiest: str | None) -> Iterator[tuple[str, str]]:
        seconds = self._load["seconds"]
        if not seconds:
            return
        own, other, stolen = (self._load[name] / seconds for name in ("own_cores", "other_cores", "stolen_cores"))
        of = f"of {format_count(self._num_cores, 'cores')} of {self._host}"
        if other > max(_LEAST_OTHER_CORES, _LEAST_OTHER_SHARE * self._num_cores):
            who = f", the busiest {busiest}" if busiest else ""
            message = (
                f"other processes used {other:.2f} {of} while this run used {own:.2f}{who}; "
                "end them or take a free machine, then run again"
            )
            yield "noisy-neighbour", message
        if stolen > _LEAST_STOLEN_SHARE * self._num_cores:
            message = (
                f"the hypervisor kept back {stolen:.2f} {of} that were wanted here, for other machines on the same "
                "hardware; take a host of your own, or run at another time"
            )
            yield "noisy-neighbour", message


class _Throttling:
    """How often, why, and at what clock."""

    def __init__(self) -> None:
        self.num_samples = self.num_throttled = 0
        self.reasons = Counter[str]()
        self._clocks: dict[bool, list[float]] = {True: [0, 0.0], False: [0, 0.0]}
        """Number and sum, of the samples that were throttled and of the others."""

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
    """At its usual limit a busy card meets the power cap all the time: that is its speed, not a fault."""
    limit, usual = limits.get("power_w"), limits.get("power_usual_w")
    return limit is not None and usual is not None and limit < 0.99 * usual
