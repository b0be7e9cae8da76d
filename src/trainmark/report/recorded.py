"""What run folders hold in English, for a reader of another language: outcomes, reasons and warnings.

The folders stay as they were recorded, and so does the English report. A warning in Chinese has a title of its own
before its sentence, so that one that no template knows still says what it is about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trainmark.report.chinese_reasons import REASONS
from trainmark.report.chinese_warnings import SENTENCES, TITLES
from trainmark.report.translation import translate
from trainmark.report.words import OUTCOMES, WORDS
from trainmark.store.rows import RunRow

RUNNING = "running"
"""Stands for the outcome of a run that has none yet."""


def say_outcome(run: RunRow, lang: str, *, with_code: bool = False) -> str:
    """hang; in Chinese 卡死, `with_code` 卡死 (hang), the name in files and `--json`."""
    return _name_outcome(run.outcome or RUNNING, lang, with_code=with_code)


def say_reason(reason: str, lang: str) -> str:
    return translate(reason, REASONS) if lang == "zh" else reason


def say_failure(detail: str, lang: str) -> str:
    """Outcome and reason in one text, as `Missing.detail` has them."""
    outcome, colon, reason = detail.partition(": ")
    if not colon or outcome not in OUTCOMES[lang]:
        return say_reason(detail, lang)
    return f"{_name_outcome(outcome, lang)}{WORDS[lang]['colon']}{say_reason(reason, lang)}"


def say_warning(warning: Mapping[str, str], lang: str) -> str:
    """The sentence; in Chinese after its title and its code, by which the docs explain it."""
    code, message = warning["code"], warning["message"]
    if lang != "zh":
        return message
    return f"{_title(code)}：{translate(message, SENTENCES)}"


def say_coded_warning(warning: Mapping[str, str], lang: str, *, num: int) -> str:
    """Of a code that came `num` times."""
    text = say_warning(warning, lang) if lang == "zh" else f"{warning['code']}: {warning['message']}"
    return text if num == 1 else f"{text}{WORDS[lang]['and_more'].format(num=num - 1)}"


def say_first_warning(warnings: Sequence[Mapping[str, str]], lang: str) -> str:
    """How many there are, and the first of them."""
    form = WORDS[lang]["one_warning" if len(warnings) == 1 else "several_warnings"]
    return form.format(num=len(warnings), first=say_warning(warnings[0], lang))


def _title(code: str) -> str:
    return f"{TITLES[code]}（{code}）" if code in TITLES else code


def _name_outcome(outcome: str, lang: str, *, with_code: bool = False) -> str:
    name = OUTCOMES[lang].get(outcome, outcome)
    return f"{name} ({outcome})" if with_code and outcome not in ("ok", name) else name
