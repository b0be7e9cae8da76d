"""A parity check as text and as JSON: one sentence, and a line for each pair and stage."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from trainmark.messages import parity as messages
from trainmark.messages.message import Message
from trainmark.report.layout import fold, print_rows
from trainmark.runfolder.parity import PairRecord, ParityRecord, StageRecord
from trainmark.units import ABSENT, plain

_HEADINGS = {
    "en": ("pair", "stage", "precision", "measured", "limit", "result", "largest at"),
    "zh": ("对比", "阶段", "精度", "测得", "限值", "结果", "最大处"),
}
_RESULTS = {"en": {True: "holds", False: "FAILS"}, "zh": {True: "成立", False: "不成立"}}
_IS_RIGHT = (False, False, False, True, True, False, False)


def print_parity(record: ParityRecord, console: Console, *, lang: str = "en") -> None:
    console.print(Text(fold(plain(find_answer(record).in_language(lang)), console, indent=0)))
    rows = [_lay_out(pair, stage, lang) for pair in record.pairs for stage in pair.stages]
    print_rows(_HEADINGS[lang], rows, console, is_right=_IS_RIGHT)
    for pair in record.pairs:
        for stage in (stage for stage in pair.stages if len(stage.failed) > 1):
            others = ", ".join(stage.failed)
            console.print(Text(fold(f"  {_name(pair)}, {stage.stage}: {plain(others)}", console, indent=2)))


def find_answer(record: ParityRecord) -> Message:
    for pair in record.pairs:
        if not pair.stages:
            return messages.parity_nothing(workload=record.workload, one=pair.one.name, other=pair.other.name)
        for stage in pair.stages:
            if not stage.holds:
                return messages.parity_fails(
                    workload=record.workload,
                    one=pair.one.name,
                    other=pair.other.name,
                    stage=stage.stage,
                    worst=stage.worst,
                )
    sides = dict.fromkeys(side.name for pair in record.pairs for side in (pair.one, pair.other))
    return messages.parity_holds(workload=record.workload, sides=list(sides))


def describe_parity(record: ParityRecord) -> dict[str, Any]:
    """One entry per pair and stage."""
    return {
        "workload": record.workload,
        "card_version": record.card_version,
        "size": record.size,
        "device": record.device,
        "seed": record.seed,
        "code": record.code,
        "answer": find_answer(record).english,
        "holds": record.holds,
        "entries": [
            {
                "one": {**vars(pair.one), "name": pair.one.name},
                "other": {**vars(pair.other), "name": pair.other.name},
                **{name: list(value) if name == "failed" else value for name, value in vars(stage).items()},
            }
            for pair in record.pairs
            for stage in pair.stages
        ],
    }


def _lay_out(pair: PairRecord, stage: StageRecord, lang: str) -> list[str]:
    return [
        _name(pair),
        stage.stage,
        stage.precision,
        "∞" if stage.measured is None else f"{stage.measured:.2g}",
        f"{stage.limit:g}",
        _RESULTS[lang][stage.holds],
        plain(stage.worst) if stage.measured != 0 else ABSENT,
    ]


def _name(pair: PairRecord) -> str:
    return f"{pair.one.name} / {pair.other.name}"
