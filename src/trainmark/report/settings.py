"""Environment and settings of the results: what all share, once, and only the differences beside the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trainmark.analyse.identity import framework_version, identity_of
from trainmark.analyse.table import Line
from trainmark.report.cells import say_data, say_workload
from trainmark.report.columns import heading
from trainmark.report.contents import Table
from trainmark.report.page_words import PAGE_WORDS
from trainmark.store.rows import RunRow
from trainmark.units import ABSENT, format_bytes, plain

_MOST_ROWS = 60


def environment_tables(lines: Sequence[Line], lang: str) -> list[Table]:
    """What is the same everywhere, and where there are several environments, what differs between them."""
    words = PAGE_WORDS[lang]
    found: dict[tuple[tuple[str, str], ...], int] = {}
    for line in lines:
        if line.first.outcome == "ok" or not found:
            facts = tuple(_environment(line.first, words).items())
            found[facts] = found.get(facts, 0) + 1
    if len(found) > 1:
        found.pop((), None)
    shared, differing = split([dict(facts) for facts in found])
    tables = []
    if shared:
        tables.append(
            Table(header=(words["fact"], words["value"]), rows=list(shared.items()), title=words["same_everywhere"])
        )
    if differing:
        rows = [
            [str(found[facts]), "; ".join(f"{name}: {dict(facts).get(name, ABSENT)}" for name in differing)]
            for facts in list(found)[:_MOST_ROWS]
        ]
        title = words["only_differences"]
        tables.append(Table(header=(words["num_results"], words["differs"]), rows=rows, title=title))
    return tables


def split(known: Sequence[Mapping[str, str]]) -> tuple[dict[str, str], list[str]]:
    """Facts that all have with one value, and the names of the others."""
    names = list(dict.fromkeys(name for facts in known for name in facts))
    values = {name: {facts.get(name) for facts in known} for name in names}
    shared = {name: next(iter(found)) for name, found in values.items() if len(found) == 1}
    return {name: value for name, value in shared.items() if value is not None}, [
        name for name in names if len(values[name]) > 1
    ]


def _environment(row: RunRow, words: Mapping[str, str]) -> dict[str, str]:
    environment = row.environment
    code, machine = identity_of(row).facts["code"], identity_of(row).facts["machine"]
    memory = environment.get("memory_bytes")
    facts: dict[str, Any] = {
        words["machine"]: row.machine,
        words["cpu"]: environment.get("cpu"),
        words["num_cores"]: environment.get("num_cores"),
        words["host_memory"]: format_bytes(memory) if isinstance(memory, (int, float)) else None,
        words["system"]: environment.get("system"),
        words["host"]: machine.get("host"),
        words["framework"]: framework_version(row),
        "Python": environment.get("python"),
        "CUDA": environment.get("cuda"),
        "cuDNN": environment.get("cudnn"),
        "NCCL": environment.get("nccl"),
        "driver": code.get("driver"),
        "trainmark": environment.get("trainmark"),
        words["commit"]: (code.get("commit") or "")[:12] or None,
        words["image"]: _image(environment.get("image")),
    }
    return {plain(name): plain(value) for name, value in facts.items() if value not in (None, "")}


def _image(image: object) -> str | None:
    """With its digest, if it is known: a name may be given to another image later."""
    if not isinstance(image, dict) or not image.get("name"):
        return None
    return "@".join(str(part) for part in (image["name"], image.get("digest")) if part)


def setup_tables(lines: Sequence[Line], lang: str) -> list[Table]:
    """What all share, once; a row for each set-up, without the number of devices, which the results have.

    Of the framework's settings, a row has those that are not the same for all that recorded some.
    """
    words = PAGE_WORDS[lang]
    flags = {line.first.id: _flags(line) for line in lines}
    shared_flags, own_flags = split([found for found in flags.values() if found])
    setups = list(
        dict.fromkeys(
            (tuple(_setup(line, lang).items()), _own_settings(flags[line.first.id], own_flags, words)) for line in lines
        )
    )
    shared, differing = split([dict(facts) for facts, _ in setups])
    if shared_flags:
        shared[words["settings"]] = _say_settings(shared_flags)
    tables = []
    if shared:
        tables.append(
            Table(header=(words["fact"], words["value"]), rows=list(shared.items()), title=words["same_everywhere"])
        )
    has_own = any(flags.values()) and any(own != ABSENT for _, own in setups)
    if differing or has_own:
        rows = [
            [*(dict(facts).get(name, ABSENT) for name in differing), *([own] if has_own else [])]
            for facts, own in setups[:_MOST_ROWS]
        ]
        header = [*differing, *([words["settings"]] if has_own else [])]
        tables.append(Table(header=header, rows=rows, title=words["only_differences"]))
    return tables


def _setup(line: Line, lang: str) -> dict[str, str]:
    words, row, data = PAGE_WORDS[lang], line.first, say_data(line, "en")
    facts = {
        heading("workload", lang): say_workload(line, "en").split(" @ ")[0],
        words["framework"]: row.framework,
        heading("recipe", lang): row.recipe,
        heading("precision", lang): row.precision,
        heading("batch_size_per_device", lang): row.batch_size_per_device,
        words["data"]: data if data != ABSENT else None,
        words["optimisations"]: say_optimisations(row),
        "epochs": row.epochs,
    }
    return {name: plain(value) for name, value in facts.items() if value is not None}


def say_optimisations(row: RunRow) -> str | None:
    """By name, as the training recorded which of the recipe `fast` it used on its device."""
    found = row.environment.get("optimisations")
    return ", ".join(map(str, found)) or None if isinstance(found, list) else None


def _flags(line: Line) -> dict[str, str]:
    flags = line.first.environment.get("flags")
    known = flags if isinstance(flags, dict) else {}
    return {plain(key): ABSENT if value is None else plain(value) for key, value in known.items()}


def _own_settings(known: Mapping[str, str], names: Sequence[str], words: Mapping[str, str]) -> str:
    if not known:
        return words["unknown"]
    return _say_settings({name: known[name] for name in names if name in known}) or ABSENT


def _say_settings(settings: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings.items())
