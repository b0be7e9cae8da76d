"""A command of the user's own as something to measure: what is known of it becomes a cell, what is not stays None."""

from __future__ import annotations

import difflib
import itertools
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from trainmark.errors import Fault, SpecError
from trainmark.runfolder.document import CellRecord
from trainmark.spec.cell import DEVICES, PRECISIONS, Cell
from trainmark.spec.cluster import CLUSTER_KEYS, Cluster, parse_cluster
from trainmark.spec.parse import Checker
from trainmark.units import format_count

PLACEHOLDERS = ("devices", "batch_size", "precision", "seed")
_AXES = ("nodes", *PLACEHOLDERS)
_PLACEHOLDER = re.compile(r"\{([A-Za-z_-]+)\}")
_HANG = ("hang_least_s", "hang_factor")
_FLAGS = (*PLACEHOLDERS, "nodes", "device", "repeat", "timeout_s", *_HANG, *CLUSTER_KEYS)


@dataclass(frozen=True, kw_only=True)
class CommandCell:
    template: tuple[str, ...]
    """The words as typed, placeholders included."""
    device: str | None
    """`cpu` on a machine without another; None where the script may use either."""
    nodes: int
    devices_per_node: int
    batch_size_per_device: int | None
    precision: str | None
    seed: int | None
    repeat: int

    @property
    def argv(self) -> tuple[str, ...]:
        """The words to run. Each stays one word whatever it holds: no shell ever sees them."""
        values = {"devices": self.devices_per_node, "batch_size": self.batch_size_per_device}
        known = {**values, "precision": self.precision, "seed": self.seed}

        def fill(match: re.Match[str]) -> str:
            return str(known[match[1]]) if match[1] in known else match[0]

        return tuple(_PLACEHOLDER.sub(fill, word) for word in self.template)

    @property
    def starts_its_own_processes(self) -> bool:
        """A command that is told the number of devices has a launcher of its own in it."""
        return "devices" in placeholders(self.template)

    @property
    def text(self) -> str:
        return shlex.join(self.template)

    @property
    def label(self) -> str:
        """The script's name, for the run's."""
        scripts = (word for word in self.template if word.endswith((".py", ".sh")))
        name = PurePath(next(scripts, self.template[0])).stem
        return re.sub(r"[^A-Za-z0-9_]+", "-", name)[:32].strip("-") or "command"

    @property
    def title(self) -> str:
        parts = [shlex.join(self.argv)[:80], f"{self.nodes} × {self.devices_per_node}"]
        return ", ".join([*parts, f"repeat {self.repeat}"])

    @classmethod
    def from_json(cls, value: Any) -> CommandCell:
        """The inverse of `to_json`; a ValueError says what is missing or invalid."""
        record = CellRecord.from_json(value)
        if not record.command or record.nodes is None or record.devices_per_node is None or record.repeat is None:
            raise ValueError("not a command: it needs command, nodes, devices_per_node and repeat")
        return cls(
            template=record.command,
            device=record.device,
            nodes=record.nodes,
            devices_per_node=record.devices_per_node,
            batch_size_per_device=record.batch_size_per_device,
            precision=record.precision,
            seed=record.seed,
            repeat=record.repeat,
        )

    def to_json(self) -> dict[str, Any]:
        """The keys of a built-in cell, null where nobody said; and the command."""
        known: dict[str, Any] = {
            "nodes": self.nodes,
            "devices_per_node": self.devices_per_node,
            "precision": self.precision,
        }
        known |= {"batch_size_per_device": self.batch_size_per_device, "seed": self.seed, "repeat": self.repeat}
        known |= {"device": self.device, "command": list(self.template)}
        return {**dict.fromkeys(Cell.__dataclass_fields__), **known}


@dataclass(frozen=True, kw_only=True)
class CommandSuite:
    cells: tuple[CommandCell, ...]
    timeout_s: float | None
    """None: a command takes as long as it takes."""
    hang: Mapping[str, float]
    """When silence is a hang, where somebody said: the keys of `Measure`."""
    cluster: Cluster


def placeholders(template: Sequence[str]) -> set[str]:
    return {name for word in template for name in _PLACEHOLDER.findall(word)} & set(PLACEHOLDERS)


def parse_command(template: Sequence[str], values: Mapping[str, Any], *, device: str | None) -> CommandSuite:
    """`values` are the flags beside the command, as the raw values that TOML would hold; `device` is what is known."""
    faults: list[Fault] = []
    _refuse_flags(values, faults)
    _refuse_misspelt(template, faults)
    check = Checker(values, "command", faults)
    axes: dict[str, tuple[Any, ...]] = {
        "nodes": check.counts("nodes") or (1,),
        "devices": check.counts("devices") or (1,),
        "batch_size": check.counts("batch_size") or (None,),
        "precision": check.words("precision", PRECISIONS) or (None,),
        "seed": (check.count("seed", least=0),),
    }
    device = check.word("device", DEVICES) or device
    repeat = check.count("repeat") or 1
    timeout_s = check.positive("timeout_s")
    cluster = parse_cluster({key: value for key, value in values.items() if key in CLUSTER_KEYS}, faults)
    hang = {name: value for name in _HANG if (value := check.positive(name)) is not None}
    if hang.get("hang_factor", 2) < 2:
        hint = "it is how many usual gaps without a word are a hang: give 2 or more"
        faults.append(Fault(where="--hang-factor", problem="would end healthy runs", hint=hint))
    if not template:
        faults.append(Fault(where="--", problem="no command", hint="trainmark run -- python train.py"))
    elif template[0].startswith("-"):
        hint = "trainmark's own flags go before --, as in: trainmark run --store DIR -- python train.py"
        faults.append(Fault(where=template[0], problem="is no program, and the command begins after --", hint=hint))
    if not faults:
        axes = _match_placeholders(template, axes, faults)
    if faults:
        raise SpecError(f"the command has {format_count(len(faults), 'faults')}", faults)
    cells = _expand(tuple(template), device, axes, repeat)
    return CommandSuite(cells=cells, timeout_s=timeout_s, hang=hang, cluster=cluster)


def _expand(
    template: tuple[str, ...], device: str | None, axes: Mapping[str, tuple[Any, ...]], repeat: int
) -> tuple[CommandCell, ...]:
    """Repeats outermost, as for built-in cells: a machine that drifts touches all cells alike."""
    return tuple(
        CommandCell(
            template=template,
            device=device,
            nodes=nodes,
            devices_per_node=devices,
            batch_size_per_device=batch_size,
            precision=precision,
            seed=seed,
            repeat=number,
        )
        for number in range(1, repeat + 1)
        for nodes, devices, batch_size, precision, seed in itertools.product(*(axes[name] for name in _AXES))
    )


def _match_placeholders(
    template: Sequence[str], axes: dict[str, tuple[Any, ...]], faults: list[Fault]
) -> dict[str, tuple[Any, ...]]:
    """A placeholder needs a value, and several values need a placeholder: else all cells would be the same run."""
    used = placeholders(template)
    if "seed" in used and axes["seed"] == (None,):
        axes = {**axes, "seed": (0,)}
    for name, values in axes.items():
        flag = f"--{name.replace('_', '-')}"
        if name in used and values == (None,):
            faults.append(Fault(where=f"{{{name}}}", problem="has no value", hint=f"give {flag}"))
        elif name not in used and name not in ("nodes", "devices") and len(values) > 1:
            problem = f"{len(values)} values, and the command has no {{{name}}}: they would be the same run"
            faults.append(Fault(where=flag, problem=problem, hint=f"put {{{name}}} where the script takes it"))
    return axes


def _refuse_flags(values: Mapping[str, Any], faults: list[Fault]) -> None:
    for name in values:
        if name not in _FLAGS:
            flags = [flag for flag in _FLAGS if flag not in CLUSTER_KEYS]  # of those only --hosts is a flag of its own
            known = ", ".join(f"--{flag.replace('_', '-')}" for flag in (*flags, "hosts", "cluster"))
            problem = "means nothing for a command"
            hint = f"leave it out, or give it to the script itself; for commands there are {known}"
            faults.append(Fault(where=f"--{name.replace('_', '-')}", problem=problem, hint=hint))


def _refuse_misspelt(template: Sequence[str], faults: list[Fault]) -> None:
    """Other braces are the script's own and stay as they are."""
    for name in (name for word in template for name in _PLACEHOLDER.findall(word)):
        close = difflib.get_close_matches(name.lower(), PLACEHOLDERS, n=1, cutoff=0.8)
        if close and name not in PLACEHOLDERS:
            hint = f"did you mean {{{close[0]}}}?"
            faults.append(Fault(where=f"{{{name}}}", problem="is no placeholder", hint=hint))
