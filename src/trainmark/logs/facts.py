"""Merge facts from three sources: the user's options first, then the log, then its path; warn if they disagree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trainmark.logs.dialect import Dialect
from trainmark.logs.paths import facts_of_name
from trainmark.logs.record import PURE_FP16, SIXTEEN_BITS, Claim, Facts
from trainmark.messages.logs import config_contradicted, path_disagrees
from trainmark.messages.message import Message
from trainmark.units import plain

_FP16 = ("amp", "fp16", SIXTEEN_BITS, PURE_FP16)
"""Names for training in fp16, pure or mixed, which do not contradict each other."""

_COUNTED = 3
"""The strength of a claim about what happened; see `Claim`."""
_COMPARED = ("framework", "devices", "batch_size_per_device", "precision", "workload")


@dataclass(frozen=True, kw_only=True)
class Resolved:
    facts: Facts
    warnings: tuple[Message, ...]


def resolve(claims: Mapping[str, Sequence[Claim]], path: Facts, given: Facts, dialect: Dialect | None) -> Resolved:
    log = _of_log(claims, dialect)
    if "workload" not in log and facts_of_name(str(log.get("model", ""))):
        # The log names a model that is not one of our workloads, whatever its folder is called.
        path = replace(path, workload=None)
    found: dict[str, Any] = {**path.known(), **log, **given.known()}
    if "precision" not in given.known():
        found["precision"] = _precision(log.get("precision"), path.precision, dialect)
    _complete(found, log, path, given, is_total_counted=_is_counted(claims.get("global_batch_size", ())))
    disagreeing = [
        path_disagrees(name=name, log=_show(log[name]), path=_show(getattr(path, name)))
        for name in _COMPARED
        if name not in given.known() and not _agree(name, log.get(name), getattr(path, name))
    ]
    # The same number of devices on different nodes. If the devices differ too, that warning is enough.
    is_asked = log.get("devices") == path.devices and not {"nodes", "devices"} & set(given.known())
    if is_asked and not _agree("nodes", log.get("nodes"), path.nodes):
        disagreeing.append(path_disagrees(name="nodes", log=_show(log["nodes"]), path=_show(path.nodes)))
    contradicted = [
        config_contradicted(name=name, used=_show(claims[name][0].value), config=_show(weaker.value))
        for name in ("batch_size_per_device", "learning_rate")
        for weaker in _contradictions(claims.get(name, ()))
    ]
    return Resolved(facts=Facts(**found), warnings=(*disagreeing, *contradicted))


def _show(value: Any) -> str:
    return plain(value)[:80]


def _of_log(claims: Mapping[str, Sequence[Claim]], dialect: Dialect | None) -> dict[str, Any]:
    log = {name: found[0].value for name, found in claims.items() if found}
    if dialect is not None and dialect.framework is not None:
        log["framework"] = dialect.framework
    if "model" in log and "workload" not in log:
        log["workload"] = facts_of_name(str(log["model"])).get("workload")
    if "devices" not in log and "nodes" in log and "devices_per_node" in log:
        log["devices"] = log["nodes"] * log["devices_per_node"]
    devices = log.get("devices")
    if "global_batch_size" not in log and "num_train_samples" in log and "steps_per_epoch" in log:
        log["global_batch_size"] = _batch_of_epoch(log["num_train_samples"], log["steps_per_epoch"])
    if "batch_size_per_device" not in log and devices and log.get("global_batch_size"):
        log["batch_size_per_device"] = _share(log["global_batch_size"], devices)
    return {name: value for name, value in log.items() if value is not None}


def _is_counted(claims: Sequence[Claim]) -> bool:
    """By the program that ran: it knows its processes and its gradient accumulation."""
    return bool(claims) and claims[0].strength >= _COUNTED


def _complete(
    found: dict[str, Any], log: Mapping[str, Any], path: Facts, given: Facts, *, is_total_counted: bool
) -> None:
    """Derive what follows from the rest: devices from nodes, batch size per device, global batch size."""
    if "devices" not in found and found.get("devices_per_node"):
        found["devices"] = found["devices_per_node"] * found.get("nodes", 1)
    devices, nodes = found.get("devices"), found.get("nodes")
    if devices and nodes and devices % nodes:
        found["nodes"] = nodes = None
    if devices and not nodes and found.get("devices_per_node") == devices:
        found["nodes"] = 1
    if devices == 1:
        found["nodes"] = 1
    if "batch_size_per_device" not in log and given.batch_size_per_device is None and devices:
        share = _share(found.get("global_batch_size"), devices)
        # A global batch size in the log, divided by the devices, counts before the path.
        if share is not None and path.batch_size_per_device in (None, share):
            found["batch_size_per_device"] = share
    batch = found.get("batch_size_per_device")
    if batch and devices and not is_total_counted:
        found["global_batch_size"] = batch * devices  # otherwise the one in the log, if any
    found["devices_per_node"] = None


def _batch_of_epoch(num_samples: int, num_steps: int) -> int | None:
    """The batch size that gives `num_steps` steps for `num_samples` samples, with or without a dropped last batch.

    None if several do: 1000 samples in 16 steps may be batches of 60, 64 or 66.
    """
    if num_steps < 2:
        return None
    smallest, largest = num_samples // (num_steps + 1) + 1, -(-num_samples // (num_steps - 1)) - 1
    return smallest if smallest == largest else None


def _share(total: int | None, devices: int) -> int | None:
    return total // devices if total and total % devices == 0 else None


def _precision(log: str | None, path: str | None, dialect: Dialect | None) -> str | None:
    """What the log tells counts, and the path where the log does not tell which kind of 16-bit training it was.

    A path that says only `fp16` keeps that name, although it is often AMP.
    """
    of_path = "fp16" if path == PURE_FP16 else path
    if log is None:
        return of_path or (dialect.default_precision if dialect is not None else None)
    if log == SIXTEEN_BITS:
        return of_path if path in _FP16 else "amp"
    return "fp16" if log == "amp" and path == PURE_FP16 else log  # Paddle's switch `use_amp` is on for both kinds


def _agree(name: str, log: Any, path: Any) -> bool:
    if log is None or path is None or log == path:
        return True
    return name == "precision" and log in _FP16 and path in _FP16


def _contradictions(claims: Sequence[Claim]) -> list[Claim]:
    """Weaker claims that differ from the strongest one."""
    return [claim for claim in claims[1:2] if claim.strength < claims[0].strength and claim.value != claims[0].value]
