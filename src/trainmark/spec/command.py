"""The user's own command as something to measure: a cell of what is known about it, None for the rest."""

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
from trainmark.spec.cell import DEVICES, PRECISIONS
from trainmark.spec.checking import Checker, describe_faults
from trainmark.spec.cluster import CLUSTER_KEYS, Cluster, parse_cluster
from trainmark.spec.parse import parse_hang_limits

PLACEHOLDERS = ("devices", "batch_size", "precision", "seed")
_AXES = ("nodes", *PLACEHOLDERS)
_PLACEHOLDER = re.compile(r"\{([A-Za-z_-]+)\}")
_OPTIONS = (
    *PLACEHOLDERS, "nodes", "device", "repeat", "timeout_s", "hang_least_s", "hang_factor", *CLUSTER_KEYS
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class CommandCell:
    template: tuple[str, ...]
    """The words as typed, with placeholders."""
    device: str | None
    """`cpu` on a machine without a GPU; None where the script may use either."""
    nodes: int
    devices_per_node: int
    batch_size_per_device: int | None
    precision: str | None
    seed: int | None
    repeat: int
    shown: tuple[str, ...] | None = None
    """The template without secrets, for everything that is written or printed; None: it has none."""

    @property
    def argv(self) -> tuple[str, ...]:
        """The words to run. Each stays one word whatever it contains: no shell is involved."""
        return self._fill(self.template)

    def _fill(self, template: Sequence[str]) -> tuple[str, ...]:
        values = {"devices": self.devices_per_node, "batch_size": self.batch_size_per_device}
        known = {**values, "precision": self.precision, "seed": self.seed}

        def fill(match: re.Match[str]) -> str:
            return str(known[match[1]]) if match[1] in known else match[0]

        return tuple(_PLACEHOLDER.sub(fill, word) for word in template)

    @property
    def public_template(self) -> tuple[str, ...]:
        return self.template if self.shown is None else self.shown

    @property
    def starts_its_own_processes(self) -> bool:
        """A command that takes the number of devices contains its own launcher."""
        return "devices" in placeholders(self.template)

    @property
    def text(self) -> str:
        return shlex.join(self.public_template)

    @property
    def label(self) -> str:
        """The name of the script, for the run id."""
        scripts = (word for word in self.template if word.endswith((".py", ".sh")))
        name = PurePath(next(scripts, self.template[0])).stem
        return re.sub(r"[^A-Za-z0-9_]+", "-", name)[:32].strip("-") or "command"

    @property
    def title(self) -> str:
        parts = [shlex.join(self._fill(self.public_template))[:80], f"{self.nodes} × {self.devices_per_node}"]
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

    @property
    def record(self) -> CellRecord:
        """As run.json holds it: the fields of a workload's cell, null where unknown, and the command."""
        return CellRecord(
            device=self.device,
            nodes=self.nodes,
            devices_per_node=self.devices_per_node,
            batch_size_per_device=self.batch_size_per_device,
            precision=self.precision,
            seed=self.seed,
            repeat=self.repeat,
            command=self.public_template,
        )

    def to_json(self) -> dict[str, Any]:
        return self.record.to_json()


@dataclass(frozen=True, kw_only=True)
class CommandSuite:
    cells: tuple[CommandCell, ...]
    timeout_s: float | None
    """None: no limit."""
    hang_least_s: float | None
    hang_factor: float | None
    """When silence counts as a hang; None: the default. See `Measure`."""
    cluster: Cluster


def placeholders(template: Sequence[str]) -> set[str]:
    return {name for word in template for name in _PLACEHOLDER.findall(word)} & set(PLACEHOLDERS)


def parse_command(template: Sequence[str], values: Mapping[str, Any], *, device: str | None) -> CommandSuite:
    """`values` are the options beside the command, as raw values; `device` is used where they name none."""
    faults: list[Fault] = []
    _refuse_options(values, faults)
    _refuse_misspelt(template, faults)
    check = Checker(values, "", faults, options=values)
    axes: dict[str, tuple[Any, ...]] = {
        "nodes": check.integers("nodes") or (1,),
        "devices": check.integers("devices") or (1,),
        "batch_size": check.integers("batch_size") or (None,),
        "precision": check.choices("precision", PRECISIONS) or (None,),
        "seed": (check.integer("seed", least=0),),
    }
    device = check.choice("device", DEVICES) or device
    repeat = check.integer("repeat") or 1
    check.refuse_many_runs(axes.values(), repeat)
    timeout_s = check.number("timeout_s")
    cluster = parse_cluster({key: value for key, value in values.items() if key in CLUSTER_KEYS}, faults)
    hang: dict[str, Any] = parse_hang_limits(check)
    if not template:
        faults.append(Fault(where="--", problem="no command", hint="trainmark run -- python train.py"))
    elif template[0].startswith("-"):
        hint = "put options of trainmark before --, as in: trainmark run --store DIR -- python train.py"
        faults.append(Fault(where=template[0], problem="expected a program after --", hint=hint))
    if not faults:
        axes = _match_placeholders(template, axes, faults)
    if faults:
        raise SpecError(describe_faults("the command", faults), faults)
    cells = _expand(tuple(template), device, axes, repeat)
    return CommandSuite(cells=cells, timeout_s=timeout_s, cluster=cluster, **hang)


def _expand(
    template: tuple[str, ...], device: str | None, axes: Mapping[str, tuple[Any, ...]], repeat: int
) -> tuple[CommandCell, ...]:
    """Repeats are outermost, as for workloads: a machine that drifts then affects all cells alike."""
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
        option = f"--{name.replace('_', '-')}"
        if name in used and values == (None,):
            faults.append(Fault(where=f"{{{name}}}", problem="has no value", hint=f"pass {option}"))
        elif name not in used and name not in ("nodes", "devices") and len(values) > 1:
            problem = f"got {len(values)} values, but the command has no {{{name}}}: all runs would be the same"
            faults.append(Fault(where=option, problem=problem, hint=f"put {{{name}}} where the script takes it"))
    return axes


def _refuse_options(values: Mapping[str, Any], faults: list[Fault]) -> None:
    own = [name for name in _OPTIONS if name not in CLUSTER_KEYS]  # of the cluster's keys only --hosts is an option
    known = ", ".join(f"--{name.replace('_', '-')}" for name in (*own, "hosts", "cluster"))
    hint = f"leave it out, or pass it to the script itself; options for commands: {known}"
    for name in values:
        if name not in _OPTIONS:
            option = f"--{name.replace('_', '-')}"
            faults.append(Fault(where=option, problem="cannot be used with a command", hint=hint))


def _refuse_misspelt(template: Sequence[str], faults: list[Fault]) -> None:
    """Other braces are the script's own and are left as they are."""
    for name in (name for word in template for name in _PLACEHOLDER.findall(word)):
        close = difflib.get_close_matches(name.lower(), PLACEHOLDERS, n=1, cutoff=0.8)
        if close and name not in PLACEHOLDERS:
            hint = f"did you mean {{{close[0]}}}?"
            faults.append(Fault(where=f"{{{name}}}", problem="unknown placeholder", hint=hint))
