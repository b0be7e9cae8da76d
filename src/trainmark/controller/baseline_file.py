"""The baseline file of `check`: TOML in the user's repository, in two parts.

Above a marked line stand the tolerances, which belong to the user and are never changed, comments included. Below it
`check --update` writes one block per cell and machine, sorted, so that a review shows exactly what changed.
"""

from __future__ import annotations

import datetime
import json
import math
import re
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trainmark.analyse.accepted import Accepted, Baseline
from trainmark.analyse.tolerance import DEFAULTS, Metric, ToleranceRule, unused_rules
from trainmark.errors import Fault, InputError, SpecError
from trainmark.runfolder.files import write_text
from trainmark.spec.checking import Checker, Table, is_word
from trainmark.spec.files import read_toml
from trainmark.units import plain

DEFAULT = "trainmark-baseline.toml"
SCHEMA = 1
_LINE_START = "# ---- measured"
_LINE = f"{_LINE_START}: written by `trainmark check --update`; to drop a cell, delete its block ----"
_NEW = f"""\
# The baseline of `trainmark check`: accepted results, and how much worse a new one may be.
schema = {SCHEMA}

# Tolerances are fractions of the baseline. The defaults are:
#   throughput = {DEFAULTS[Metric.THROUGHPUT]}, memory = {DEFAULTS[Metric.MEMORY]}, \
first_step = {DEFAULTS[Metric.FIRST_STEP]}, accuracy = {DEFAULTS[Metric.ACCURACY]}
# `cell` is a pattern for the names below; without it an entry is for all cells. A later entry overrides an earlier one.
# `false` turns a metric off.
#
# [[tolerance]]
# cell = "resnet50 * amp, *"
# throughput = 0.01
# first_step = false

"""
"""The user's part of a new file."""

_VALUES = {
    Metric.THROUGHPUT: "throughput",
    Metric.MEMORY: "peak_memory_bytes",
    Metric.FIRST_STEP: "first_step_s",
    Metric.ACCURACY: "accuracy",
}
"""The keys that hold one value per run."""
_FACTS = ("commit", "framework", "host", "measured")
_TEXTS = ("name", "work", "machine", "unit", "suite", "metric", "last_run")
_KEYS = (*_TEXTS, *_FACTS, "machine_facts", *_VALUES.values())
_MAX_RUNS = 10_000


def read_baseline(path: Path) -> Baseline:
    """All faults of the file at once, as an InputError."""
    if not path.exists():
        option = "" if str(path) == DEFAULT else f" --baseline {shlex.quote(str(path))}"
        raise InputError(
            f"baseline not found: {path}", hint=f"make it from the latest runs: trainmark check --update{option}"
        )
    raw = read_toml(path, what="baseline")
    faults: list[Fault] = []
    check = Checker(raw, "", faults)
    check.refuse_unknown(("schema", "tolerance", "cell"))
    if raw.get("schema") != SCHEMA:
        check.fault(
            "schema", f"must be {SCHEMA}, got {raw.get('schema')!r}", "written by another version of trainmark?"
        )
    cells = [_read_cell(table, f"cell {number}", faults) for number, table in _tables(raw, "cell", check)]
    rules = [_read_rule(table, f"tolerance {number}", faults) for number, table in _tables(raw, "tolerance", check)]
    found = tuple(cell for cell in cells if cell is not None)
    _refuse_twice(found, faults)
    if found:
        for rule in unused_rules(rules, (cell.name for cell in found)):
            names = "; ".join(sorted({cell.name for cell in found})[:3])
            fault = Fault(where="tolerance.cell", problem=f"matches no cell: {rule.cell!r}", hint=f"names: {names}")
            faults.append(fault)
    if faults:
        raise SpecError(f"{path} is not a valid baseline", faults)
    return Baseline(cells=found, rules=tuple(rules))


def write_baseline(path: Path, cells: Sequence[Accepted]) -> None:
    """Replaces the measured part at once or not at all; the user's part stays as it is."""
    text = f"{_own_part(path)}{_LINE}\n" + "".join(f"\n{_render(cell)}" for cell in cells)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)
    except OSError as error:
        why = error.strerror or str(error)
        raise InputError(f"cannot write the baseline {path}", why=why, hint="use another --baseline FILE") from error


def _own_part(path: Path) -> str:
    if not path.exists():
        return _NEW
    lines = path.read_bytes().decode("utf-8-sig").splitlines(keepends=True)
    for number, line in enumerate(lines):
        if line.startswith(_LINE_START):
            own = "".join(lines[:number])
            if "cell" in tomllib.loads(own):
                raise InputError(f"{path} has a [[cell]] above the line", hint=f"move it below: {_LINE}")
            return own
    why = "without it nobody can tell your part from the measured one"
    raise InputError(f"{path} has no line that begins with `{_LINE_START}`", why=why, hint=f"put it back: {_LINE}")


# -- reading -----------------------------------------------------------------------------------------------------------


def _tables(raw: Table, key: str, check: Checker) -> list[tuple[int, Table]]:
    value = raw.get(key, [])
    if isinstance(value, list) and all(isinstance(item, dict) for item in value):
        return list(enumerate(value, start=1))
    check.fault(key, "must be a list of tables", f"write [[{key}]] and its keys below")
    return []


def _read_rule(raw: Table, where: str, faults: list[Fault]) -> ToleranceRule:
    check = Checker(raw, where, faults)
    check.refuse_unknown(("cell", *Metric))
    values: dict[Metric, float | None] = {}
    for metric in Metric:
        if raw.get(metric) is False:
            values[metric] = None
        elif (value := check.number(metric, below=1.0 if metric.is_better_higher else math.inf)) is not None:
            values[metric] = value
    return ToleranceRule(cell=check.word("cell"), values=values)


def _read_cell(raw: Table, where: str, faults: list[Fault]) -> Accepted | None:
    before = len(faults)
    check = Checker(raw, where, faults)
    check.refuse_unknown(_KEYS)
    texts = {key: check.word(key) for key in _TEXTS}
    values = {metric: found for metric, key in _VALUES.items() if (found := _numbers(raw, key, check))}
    for key in ("name", "work", "unit"):
        if texts[key] is None and raw.get(key) is None:
            check.fault(key, "is missing", "delete the block and run trainmark check --update")
    if Metric.THROUGHPUT not in values and "throughput" not in raw:
        check.fault("throughput", "is missing", "delete the block and run trainmark check --update")
    machine_facts = check.texts("machine_facts", is_word, '{ cpu = "..." }') or {}
    if len(faults) > before:
        return None
    return Accepted(
        name=texts["name"] or "",
        work=texts["work"] or "",
        machine=texts["machine"],
        machine_facts=machine_facts,
        unit=texts["unit"] or "",
        values=values,
        metric_name=texts["metric"],
        suite=texts["suite"],
        last_run=texts["last_run"] or "",
        facts={key: _say_fact(raw[key]) for key in _FACTS if key in raw},
    )


def _numbers(raw: Table, key: str, check: Checker) -> tuple[float, ...]:
    value = raw.get(key, [])
    if isinstance(value, list) and len(value) <= _MAX_RUNS and all(_is_positive(item) for item in value):
        return tuple(float(item) for item in value)
    check.fault(key, f"must be a list of finite numbers > 0, got {value!r:.80}", "one number per run")
    return ()


def _is_positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf


def _say_fact(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime.datetime) else str(value)


def _refuse_twice(cells: Sequence[Accepted], faults: list[Fault]) -> None:
    seen: set[tuple[str, str | None]] = set()
    for cell in cells:
        if cell.key in seen:
            hint = "a merge may have kept both: delete one of the blocks"
            faults.append(Fault(where="cell", problem=f"{cell.name!r} is there twice for one machine", hint=hint))
        seen.add(cell.key)


# -- writing -----------------------------------------------------------------------------------------------------------


def _render(cell: Accepted) -> str:
    texts = {
        "name": cell.name,
        "work": cell.work,
        "machine": cell.machine,
        "unit": cell.unit,
        "suite": cell.suite,
        "metric": cell.metric_name,
        "last_run": cell.last_run,
        **{key: cell.facts.get(key) for key in _FACTS},
    }
    lines = ["[[cell]]", *(f"{key} = {_quote(text)}" for key, text in texts.items() if text)]
    if cell.machine_facts:
        lines.append(f"machine_facts = {_inline(cell.machine_facts)}")
    for metric, key in _VALUES.items():
        if metric in cell.values:
            lines.append(f"{key} = [{', '.join(f'{value:.9g}' for value in cell.values[metric])}]")
    return "\n".join(lines) + "\n"


def _inline(table: Mapping[str, str]) -> str:
    return "{ " + ", ".join(f"{_key(name)} = {_quote(text)}" for name, text in sorted(table.items())) + " }"


def _key(name: str) -> str:
    return name if re.fullmatch("[A-Za-z0-9_-]+", name) else _quote(name)


def _quote(text: str) -> str:
    """A JSON string is a TOML string once the control characters are gone."""
    return json.dumps(plain(text), ensure_ascii=False)
