"""A comparison as text and as JSON: the answer in one sentence, a table of cells, and what differs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from trainmark.analyse.comparison import CellComparison, Comparison, Side
from trainmark.analyse.estimate import Ratio
from trainmark.analyse.identity import AXES, Difference
from trainmark.analyse.naming import cell_name
from trainmark.analyse.pairing import Group
from trainmark.analyse.verdict import Verdict
from trainmark.messages import comparison as messages
from trainmark.messages.message import Message
from trainmark.report.cells import say_unit
from trainmark.report.layout import fold, print_rows
from trainmark.report.words import WORDS
from trainmark.units import ABSENT, format_number, plain

VERDICTS: tuple[Verdict, ...] = ("slower", "faster", "same", "inconclusive", "not_comparable")
"""In the order in which an answer counts them: what needs attention first."""
_TIMES = 2.0
"""From this ratio on, "2.3 times as fast" is clearer than "130% faster"."""
_MOST_NOTES = 12
_LONG_HASH = 12
_LONG_NAME = 28
_CELL = ("workload", "model", "framework", "recipe", "precision", "size", "device", "nodes", "devices",
         "batch_size_per_device", "data", "epochs", "unit")  # fmt: skip
_HEADINGS = {
    "en": {"cell": "cell", "runs": "runs", "interval": "95% interval", "verdict": "verdict", "differs": "what differs"},
    "zh": {"cell": "配置", "runs": "运行次数", "interval": "95% 区间", "verdict": "结论", "differs": "差异"},
}
_AXES = {
    "en": {"work": "work", "code": "code", "machine": "machine", "settings": "settings"},
    "zh": {"work": "工作", "code": "代码", "machine": "机器", "settings": "设置项"},
}


# -- text --------------------------------------------------------------------------------------------------------------


def print_comparison(found: Comparison, console: Console, *, lang: str = "en") -> None:
    colon = WORDS[lang]["colon"]
    console.print(Text(fold(plain(find_answer(found).in_language(lang)), console, indent=0)))
    if _has_legend(found):
        for letter, side in (("A", found.a), ("B", found.b)):
            console.print(Text(f"  {letter}{colon}{plain(side.word)}"), soft_wrap=True)
    if found.cells:
        _print_table(found, console, lang)
    only = found.cells[0].name if len(found.cells) == 1 else None
    notes = [
        note.in_language(lang) if name == only else f"{name}{colon}{note.in_language(lang)}"
        for name, note in _find_notes(found)
    ]
    for note in notes[:_MOST_NOTES]:
        console.print(Text(fold(f"  {plain(note)}", console, indent=2)))
    if len(notes) > _MOST_NOTES:
        more = messages.more_notes(num=len(notes) - _MOST_NOTES).in_language(lang)
        console.print(Text(f"  {more}"))
    _print_differences(found, console, lang)


def find_answer(found: Comparison) -> Message:
    """The whole result in one sentence."""
    names = {"a": "A", "b": "B"}
    if not _has_legend(found):
        names = {"a": f"A ({plain(found.a.word)})", "b": f"B ({plain(found.b.word)})"}
    if not found.cells:
        return messages.answer_nothing_shared(**names)
    if len(found.cells) > 1:
        counts = Counter(cell.verdict for cell in found.cells)
        counted = [_count_verdict(verdict, counts[verdict]) for verdict in VERDICTS if counts[verdict]]
        change = found.geomean.value - 1 if found.geomean is not None else None
        return messages.answer_many(**names, cells=len(found.cells), counts=counted, change=change)
    judged = found.cells[0].judgement
    ratio = judged.ratio.value if judged.ratio is not None else 1.0
    if judged.verdict == "faster" and ratio >= _TIMES:
        return messages.answer_times(**names, times=ratio)
    if judged.verdict == "faster":
        return messages.answer_faster(**names, percent=100 * (ratio - 1))
    if judged.verdict == "slower":
        return messages.answer_slower(**names, percent=100 * (1 - ratio))
    if judged.verdict == "same":
        return messages.answer_same(**names, tolerance=100 * found.tolerance)
    if judged.verdict == "not_comparable":
        return messages.answer_not_comparable(**names, why=judged.why)
    return messages.answer_inconclusive(**names, why=judged.why)


def _has_legend(found: Comparison) -> bool:
    """Names that are too long for the sentence have lines of their own."""
    return max(len(found.a.word), len(found.b.word)) > _LONG_NAME


def _count_verdict(verdict: str, num: int) -> Message:
    return messages.verdict_count(num=num, verdict=_say_verdict(verdict))


def _say_verdict(verdict: str) -> str:
    return verdict.replace("_", " ")


def _print_table(found: Comparison, console: Console, lang: str) -> None:
    words = _HEADINGS[lang]
    units = {cell.unit for cell in found.cells}
    unit = units.pop() if len(units) == 1 else None
    shared = f" ({say_unit(unit, lang)})" if unit is not None else ""
    headings = [f"{words['cell']}{shared}", "A", "B", "B/A", words["interval"], words["runs"], words["verdict"]]
    names, common = _shorten_names(found.cells)
    if common:
        console.print(Text(fold(f"  {messages.all_cells(name=plain(common)).in_language(lang)}", console, indent=2)))
    rows = [_lay_out(cell, name, lang, has_unit=unit is None) for cell, name in zip(found.cells, names, strict=True)]
    if found.geomean is not None:
        name = messages.geometric_mean(cells=found.num_averaged).in_language(lang)
        rows.append([name, "", "", *_say_ratio(found.geomean), "", ""])
    print_rows(headings, rows, console, is_right=[False, True, True, True, False, False, False])


def _shorten_names(cells: Sequence[CellComparison]) -> tuple[list[str], str]:
    """The names without what is the same in all of them, and what that is; at least the first part of each stays."""
    parts = [_split_name(cell) for cell in cells]
    common = [part for part in parts[0] if all(part in others for others in parts[1:])] if len(cells) > 1 else []
    own = [[part for part in one if part not in common] or one[:1] for one in parts]
    return [", ".join(one) for one in own], ", ".join(common)


def _split_name(cell: CellComparison) -> list[str]:
    """A command is one part, the name of a workload has several."""
    first, *rest = cell.name.split(", ")
    workload, *how = first.replace(" (", "\0(").split(" ") if cell.a.first.workload is not None else [first]
    return [workload.replace("\0", " "), *how, *rest]


def _lay_out(cell: CellComparison, name: str, lang: str, *, has_unit: bool) -> list[str]:
    unit = f" {say_unit(cell.unit, lang)}" if has_unit and cell.unit is not None else ""
    speeds = [ABSENT if value is None else f"{format_number(value)}{unit}" for value in cell.values]
    runs = ", ".join(map(str, cell.judgement.runs))
    verdict = _say_verdict(cell.verdict)
    verdict = messages.VERDICTS[verdict] if lang == "zh" else verdict
    return [plain(name), *speeds, *_say_ratio(cell.judgement.ratio), runs, verdict]


def _say_ratio(ratio: Ratio | None) -> list[str]:
    if ratio is None:
        return [ABSENT, ABSENT]
    interval = ABSENT if ratio.ci95 is None else f"{ratio.ci95[0]:.3f} … {ratio.ci95[1]:.3f}"
    return [f"{ratio.value:.3f}", interval]


def _find_notes(found: Comparison) -> Iterator[tuple[str, Message]]:
    """What is about one cell or one run, each with its name; what changes a verdict first."""
    for cell in found.cells:
        if len(found.cells) > 1 and cell.verdict in ("inconclusive", "not_comparable"):
            yield cell.name, cell.judgement.why
        yield from ((left.run_id, messages.left_out(side=left.side, why=left.why)) for left in cell.left_out)
    yield from ((cell_name(group.first), messages.only_in(side="A")) for group in found.only_a)
    yield from ((cell_name(group.first), messages.only_in(side="B")) for group in found.only_b)
    for cell in found.cells:
        yield from ((cell.name, note) for note in _find_details(cell))


def _find_details(cell: CellComparison) -> Iterator[Message]:
    if any(cell.epochs):
        yield _say_epochs(cell)
    if cell.num_history:
        yield messages.history_used(runs=cell.num_history)
    for side, group, doubts in zip("AB", (cell.a, cell.b), cell.doubts, strict=True):
        unknown = [axis for axis in AXES if getattr(group.identity, axis) is None]
        if unknown and len(group.runs) > 1:
            yield messages.counted_as_repeats(axes=unknown, side=side, runs=len(group.runs))
        yield from (messages.doubtful(side=side, why=doubt) for doubt in doubts)


def _say_epochs(cell: CellComparison) -> Message:
    one, other = ([f"{epochs:g}" for epochs in side] for side in cell.epochs)
    interval = cell.epochs_ratio.ci95 if cell.epochs_ratio is not None else None
    return messages.epochs_apart(
        one=one,
        other=other,
        ratio=cell.epochs_ratio.value if cell.epochs_ratio is not None else None,
        low=interval[0] if interval else None,
        high=interval[1] if interval else None,
    )


def _print_differences(found: Comparison, console: Console, lang: str) -> None:
    """Only what differs; what is the same in all cells once, the rest with its cell."""
    own: dict[Difference, list[str]] = {}
    for cell in found.cells:
        for item in cell.differences:
            if item not in found.differences:
                own.setdefault(item, []).append(cell.name)
    rows = [_lay_out_difference(item, lang) for item in found.differences]
    for item, names in own.items():
        what, *values = _lay_out_difference(item, lang)
        several = messages.some_cells(num=len(names), cells=len(found.cells)).in_language(lang)
        rows.append([f"{what} [{plain(names[0]) if len(names) == 1 else several}]", *values])
    if rows:
        console.print()
        print_rows([_HEADINGS[lang]["differs"], "A", "B"], rows[: _MOST_NOTES * 2], console, is_right=[False] * 3)
    axes = [axis for axis in _AXES[lang] if any(_is_cause(item, axis) for item in found.differences)]
    if len(axes) > 1:
        several = messages.several_axes(axes=[_AXES[lang][axis] for axis in axes]).in_language(lang)
        console.print(Text(fold(several, console, indent=0)))


def _is_cause(difference: Difference, axis: str) -> bool:
    return difference.axis == axis and difference.is_identifying


def _lay_out_difference(item: Difference, lang: str) -> list[str]:
    return [f"{_AXES[lang][item.axis]}: {plain(item.name)}", *(_shorten(value) for value in (item.one, item.other))]


def _shorten(value: str | None) -> str:
    if value is None:
        return ABSENT
    is_hash = len(value) in (40, 64) and all(letter in "0123456789abcdef" for letter in value)
    return value[:_LONG_HASH] if is_hash else plain(value)


# -- JSON --------------------------------------------------------------------------------------------------------------


def describe_comparison(found: Comparison) -> dict[str, Any]:
    return {
        "answer": plain(find_answer(found).english),
        "a": _describe_side(found.a),
        "b": _describe_side(found.b),
        "tolerance": found.tolerance,
        "comparisons": [_describe_cell(cell) for cell in found.cells],
        "geomean": {**_describe_ratio(found.geomean), "cells": found.num_averaged} if found.geomean else None,
        "missing": [
            {"cell": _describe_work([group]), "only_in": side}
            for side, groups in (("a", found.only_a), ("b", found.only_b))
            for group in groups
        ],
        "differences": [_describe_difference(item) for item in found.differences],
    }


def _describe_side(side: Side) -> dict[str, Any]:
    return {"given": side.word, "runs": [row.id for row in side.rows]}


def _describe_cell(cell: CellComparison) -> dict[str, Any]:
    judged = cell.judgement
    return {
        "cell": {"name": cell.name, **_describe_work([cell.a, cell.b])},
        "ratio": _describe_ratio(judged.ratio),
        "verdict": judged.verdict,
        "why": judged.why.english,
        "why_code": judged.why.code,
        "runs": list(judged.runs),
        "more_runs": judged.more_runs,
        "unit": cell.unit,
        "a": {"value": cell.values[0], "runs": list(cell.counted[0])},
        "b": {"value": cell.values[1], "runs": list(cell.counted[1])},
        "spread_between_runs": judged.spread,
        "history_runs": cell.num_history,
        "left_out": [
            {"run": left.run_id, "side": left.side.lower(), "why": left.why.english, "why_code": left.why.code}
            for left in cell.left_out
        ],
        "doubts": [
            {"side": side, **doubt.to_json()}
            for side, doubts in zip("ab", cell.doubts, strict=True)
            for doubt in doubts
        ],
        "epochs_to_target": _describe_epochs(cell),
        "differences": [_describe_difference(item) for item in cell.differences],
    }


def _describe_ratio(ratio: Ratio | None) -> dict[str, Any]:
    if ratio is None:
        return {"value": None, "ci95": None}
    return {"value": ratio.value, "ci95": None if ratio.ci95 is None else list(ratio.ci95)}


def _describe_work(groups: Sequence[Group]) -> dict[str, Any]:
    """As `--json` of other verbs names the facts of a cell; null where they are unknown or the sides differ."""
    found = [[getattr(group.first, name) for group in groups] for name in _CELL]
    return {name: values[0] if len(set(values)) == 1 else None for name, values in zip(_CELL, found, strict=True)}


def _describe_epochs(cell: CellComparison) -> dict[str, Any] | None:
    if not any(cell.epochs):
        return None
    return {"a": list(cell.epochs[0]), "b": list(cell.epochs[1]), "ratio": _describe_ratio(cell.epochs_ratio)}


def _describe_difference(item: Difference) -> dict[str, Any]:
    return {"axis": item.axis, "name": item.name, "a": item.one, "b": item.other}
