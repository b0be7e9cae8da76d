"""What a run measured: the work (what was trained, and how), the code that did it, and the machine it ran on.

Two runs may be averaged only if all three are equal. A comparison varies one of them and lists what else differs, so
each comes as a short hash and as the named facts behind it. Some facts are listed but not part of the hash: a branch or
a host can be renamed without changing the speed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePath
from typing import Any

from trainmark.errors import InputError
from trainmark.store.rows import RunRow

AXES = ("work", "code", "machine")
_NOT_IN_HASH = frozenset({"branch", "host", "system", "script"})
"""Names of a thing, not the thing: the commit, the hardware and the content of the script are in the hash."""
_TOOLS = frozenset({"nvidia-ml-py", "psutil"})
"""Packages that only measure."""
_PLACES = frozenset({"CUDA_VISIBLE_DEVICES", "TORCHINDUCTOR_CACHE_DIR"})
"""Variables that say where, not how: the devices themselves are in the identity of the machine."""
_FRAMEWORKS = (
    ("torch", "torch"), ("paddle", "paddlepaddle"), ("paddle", "paddlepaddle-gpu"), ("tensorflow", "tensorflow"),
    ("jax", "jax"), ("oneflow", "oneflow"), ("mindspore", "mindspore"), ("mxnet", "mxnet"),
)  # fmt: skip
"""Names of frameworks and the packages that hold their versions."""
_SHORT = 12
_LEAST_PREFIX = 4


@dataclass(frozen=True, kw_only=True)
class Identity:
    work: str | None
    code: str | None
    machine: str | None
    """Short hashes; None if unknown. Equal hashes mean equal facts, on any machine and in any store."""
    facts: Mapping[str, Mapping[str, str]]
    """By axis and name; what is not known is left out."""
    not_counted: frozenset[str] = frozenset()
    """Names of facts that are listed, but not part of the hash for this kind of run."""
    place: str | None = None
    """If something is unknown: the folder of the log, or the sweep, within which runs may still be averaged."""

    @property
    def is_known(self) -> bool:
        return None not in (self.work, self.code, self.machine)

    def fact(self, name: str) -> str | None:
        """By name alone. `framework` is the version in the code, where that is known, before the name in the work."""
        axes = (self.facts[axis] for axis in ("code", "machine", "work"))
        return next((facts[name] for facts in axes if name in facts), None)


@dataclass(frozen=True, kw_only=True)
class Difference:
    axis: str
    name: str
    one: str | None
    other: str | None
    """None where the run does not tell."""
    is_identifying: bool
    """Whether the fact is part of the hash; a host name, for example, is not."""


def identity_of(row: RunRow) -> Identity:
    found: Identity | None = row.found.get("identity")
    if found is None:
        found = row.found["identity"] = _identify(row)
    return found


def differences(one: Identity, other: Identity) -> tuple[Difference, ...]:
    """What differs between two runs, in the order work, code, machine.

    A run states the version of its own framework once, and those of other installed ones as packages: between two
    frameworks these would look as if each run had used the other's.
    """
    not_counted = one.not_counted | other.not_counted
    own = {str(side.facts["code"].get("framework", "")).partition(" ")[0] for side in (one, other)}
    return tuple(
        Difference(
            axis=axis,
            name=name,
            one=first.get(name),
            other=second.get(name),
            is_identifying=is_identifying(name) and name not in not_counted,
        )
        for axis in AXES
        for first, second in [(one.facts[axis], other.facts[axis])]
        for name in dict.fromkeys((*first, *second))
        if first.get(name) != second.get(name) and not (axis == "code" and name in own)
    )


def is_identifying(name: str) -> bool:
    """Whether a fact of this name is part of a hash."""
    return name not in _NOT_IN_HASH


def framework_version(row: RunRow) -> str | None:
    """torch 2.15.0: as the framework itself said it, or from the packages of the interpreter that ran a command."""
    stated = row.environment.get("framework")
    if _is_imported(row) or stated:
        return str(stated) if stated and not _is_imported(row) else None
    packages = _object(row.environment.get("packages"))
    found = {name: packages[package] for name, package in _FRAMEWORKS if package in packages}
    name = row.framework if row.framework in found else next(iter(found), None) if len(found) == 1 else None
    return f"{name} {found[name]}" if name is not None else None


def rows_of_commit(rows: Sequence[RunRow], wanted: str) -> list[RunRow]:
    """The runs of a commit, given by the beginning of its hash, or of a branch, given by its name."""
    commits = {row.id: identity_of(row).facts["code"].get("commit", "") for row in rows}
    of_branch = [row for row in rows if identity_of(row).facts["code"].get("branch") == wanted]
    if of_branch:
        return of_branch
    found = [row for row in rows if len(wanted) >= _LEAST_PREFIX and commits[row.id].startswith(wanted.lower())]
    several = sorted({commits[row.id] for row in found})
    if len(several) > 1:
        named = ", ".join(commit[:_SHORT] for commit in several[:4])
        raise InputError(f"{wanted!r} is the beginning of {len(several)} commits: {named}", hint="pass more digits")
    if not found:
        known = ", ".join(dict.fromkeys(commit[:_SHORT] for commit in commits.values() if commit)) or "none recorded"
        hint = f"pass a branch or at least {_LEAST_PREFIX} digits of a commit; commits of these runs: {known}"
        raise InputError(f"no run of commit or branch {wanted!r}", hint=hint)
    return found


# -- the three parts ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Axis:
    facts: Mapping[str, str]
    is_known: bool = True
    not_counted: frozenset[str] = frozenset()

    @property
    def digest(self) -> str | None:
        if not self.is_known:
            return None
        uncounted = _NOT_IN_HASH | self.not_counted
        return digest_of(frozenset(fact for fact in self.facts.items() if fact[0] not in uncounted))


@lru_cache(maxsize=4096)
def digest_of(facts: frozenset[tuple[str, str]]) -> str:
    """Kept, since most runs of a store have the same code and machine as others."""
    return hashlib.sha256(json.dumps(dict(facts), sort_keys=True).encode(errors="replace")).hexdigest()[:_SHORT]


def _identify(row: RunRow) -> Identity:
    found = {"work": _work(row), "code": _code(row), "machine": _machine(row)}
    is_known = all(axis.is_known for axis in found.values())
    return Identity(
        **{name: axis.digest for name, axis in found.items()},
        facts={name: axis.facts for name, axis in found.items()},
        not_counted=found["code"].not_counted,
        place=None if is_known else _place(row),
    )


def _is_imported(row: RunRow) -> bool:
    return row.source not in ("trainmark", "command")


def _place(row: RunRow) -> str:
    return str(PurePath(row.source).parent) if _is_imported(row) else row.sweep or ""


def _work(row: RunRow) -> _Axis:
    shared = {
        "precision": row.precision,
        "device": row.device,
        "nodes": row.nodes,
        "devices": row.devices,
        "batch size per device": row.batch_size_per_device,
        "seed": row.seed,
        "unit": row.unit,
    }
    if row.source == "command":
        return _Axis(facts=_known({"command": _command(row), **shared}))
    facts = {
        "workload": row.workload,
        "version": (row.workload_version or 1) if row.source == "trainmark" else None,
        "model": row.model if row.workload is None or _is_imported(row) else None,
        "log format": row.dialect,
        "framework": row.framework,
        "recipe": row.recipe,
        "size": row.size,
        "data": row.data,
        "epochs": row.epochs,
        "learning rate": row.lr,
        "weights": _object(row.environment.get("weights")).get("sha256"),
        "target": json.dumps(row.until_target, sort_keys=True) if row.until_target else None,
        **shared,
    }
    if _is_imported(row) and None in (row.model, row.devices, row.precision, row.batch_size_per_device):
        facts["log"] = str(row.log.get("sha256") or row.id)[:_SHORT]  # does not tell enough to be equal to another
    return _Axis(facts=_known(facts))


def _command(row: RunRow) -> object:
    """With the script as its repository names it, so that two checkouts in two folders run the same command."""
    return _object(row.environment.get("script")).get("command") or row.model


def _code(row: RunRow) -> _Axis:
    environment = row.environment
    git, script = (_object(environment.get(name)) for name in ("git", "script"))
    is_command = row.source == "command"
    framework = "" if _is_imported(row) else str(environment.get("framework") or "")
    # A framework that we started has said its own version already. That of a command may not be known.
    hidden = _TOOLS if is_command else {*_TOOLS, framework.partition(" ")[0]}
    packages = {name: value for name, value in _object(environment.get("packages")).items() if name not in hidden}
    variables = _object(environment.get("variables"))
    facts = _known({
        "commit": git.get("commit"),
        "branch": git.get("branch"),
        "changes": git.get("diff_sha256"),
        "script": script.get("path"),
        "script content": script.get("sha256"),
        "modules": script.get("modules_sha256"),
        "trainmark": environment.get("trainmark"),
        "framework": framework,
        "python": environment.get("python"),
        **packages,
        **{name: environment.get(name) for name in ("cuda", "cudnn", "nccl", "driver")},
        "image": _object(environment.get("image")).get("digest") or _object(environment.get("image")).get("name"),
        **{name: value for name, value in variables.items() if name not in _PLACES},
    })  # fmt: skip
    # trainmark is the code under test only where it trains: of a command, it is the instrument.
    not_counted = frozenset({"trainmark", "framework"} if is_command else ())
    return _Axis(facts=facts, is_known=_is_code_known(row), not_counted=not_counted)


def _is_code_known(row: RunRow) -> bool:
    """A command of older versions recorded the commit of the folder it was started in, which may be none."""
    if _is_imported(row):
        return False
    git, script = (_object(row.environment.get(name)) for name in ("git", "script"))
    if git.get("is_diff_known") is False:
        return False
    if row.source == "command":
        return bool(script.get("sha256") or git.get("commit"))
    return bool(row.environment.get("framework") or row.environment.get("trainmark"))


def _machine(row: RunRow) -> _Axis:
    environment = row.environment
    cores, memory = environment.get("num_cores"), environment.get("memory_bytes")
    facts = _known({
        "gpus": _gpus(environment.get("gpus")),
        "accelerator": environment.get("device_name"),
        "cpu": environment.get("cpu"),
        "cores": cores,
        # The kernel keeps some megabytes for itself, and not always the same number.
        "memory": f"{round(memory / 2**30)} GiB" if isinstance(memory, int | float) else None,
        "host": environment.get("hostname"),
        "system": environment.get("system"),
    })  # fmt: skip
    has_host = bool(environment.get("cpu") or environment.get("hostname"))
    return _Axis(facts=facts, is_known=has_host and not _is_imported(row))


def _gpus(value: Any) -> str | None:
    """Sorted, since the order in which a container sees them may change."""
    listed = [_object(gpu) for gpu in value] if isinstance(value, list) else []
    ids = sorted(str(gpu.get("uuid")) for gpu in listed if gpu.get("uuid"))
    return ", ".join(ids) if ids and len(ids) == len(listed) else None


def _object(value: Any) -> Mapping[str, Any]:
    """env.json may be damaged or from a stranger."""
    return value if isinstance(value, dict) else {}


def _known(facts: Mapping[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in facts.items() if value is not None and value != ""}
