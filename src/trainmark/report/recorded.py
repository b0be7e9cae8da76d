"""Outcomes, failures and warnings of runs in the language of a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trainmark.messages.message import Message, warning_titles
from trainmark.report.words import OUTCOMES, WORDS
from trainmark.store.rows import RunRow

RUNNING = "running"
"""Stands for the outcome of a run that has none yet."""


def say_outcome(run: RunRow, lang: str, *, with_code: bool = False) -> str:
    """hang; in Chinese 卡死, `with_code` 卡死 (hang), the name in files and `--json`."""
    outcome = run.outcome or RUNNING
    name = name_outcome(outcome, lang)
    return f"{name} ({outcome})" if with_code and outcome not in ("ok", name) else name


def name_outcome(outcome: str, lang: str) -> str:
    return OUTCOMES[lang].get(outcome, outcome)


def say_warning(warning: Mapping[str, Any], lang: str) -> str:
    """The sentence; in Chinese after its title and its code, by which the docs explain it."""
    text = Message.from_json(warning).in_language(lang)
    if lang != "zh":
        return text
    code, titles = warning["code"], warning_titles()
    return f"{titles[code]}（{code}）：{text}" if code in titles else f"{code}：{text}"


def say_coded_warning(warning: Mapping[str, Any], lang: str, *, num: int) -> str:
    """Of a code that came `num` times."""
    text = say_warning(warning, lang)
    text = text if lang == "zh" else f"{warning['code']}: {text}"
    return text if num == 1 else f"{text}{WORDS[lang]['and_more'].format(num=num - 1)}"


def say_first_warning(warnings: Sequence[Mapping[str, Any]], lang: str) -> str:
    """How many there are, and the first of them."""
    form = WORDS[lang]["one_warning" if len(warnings) == 1 else "several_warnings"]
    return form.format(num=len(warnings), first=say_warning(warnings[0], lang))
