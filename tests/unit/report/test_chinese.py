"""A Chinese report is Chinese: what the code really writes has its template, and each template matches some of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from real_reasons import all_reasons
from real_warnings import all_warnings

from making import warning_codes
from trainmark.report.chinese_reasons import REASONS
from trainmark.report.chinese_warnings import SENTENCES, TITLES
from trainmark.report.recorded import RUNNING, say_reason, say_warning
from trainmark.report.translation import Template, find_translation, translate
from trainmark.report.words import OUTCOMES
from trainmark.runfolder.records import Outcome

ENGLISH = re.compile(r"[a-z]{2,}(?: [a-z]{2,}){2,}", re.IGNORECASE)
QUOTED = re.compile(
    r"No space left on device|CUDA out of memory|Tried to allocate|No such file or directory|no such file; try again"
    r"|from trainmark import mark|pip install|not supported between instances of"
)
"""Of others, or to be typed."""
NO_SENTENCE_OF_OURS = {"bad-sample"}
"""Its sentence is a path and what a decoder says of it."""


def is_chinese(text: str) -> bool:
    left = QUOTED.sub("", text)
    return re.search(r"[\u4e00-\u9fff]", left) is not None and ENGLISH.search(left) is None


def check(texts: list[str], templates: tuple[Template, ...]) -> None:
    found = {text: find_translation(text, templates) for text in texts}
    assert [text for text, known in found.items() if known is None] == [], "no template knows them"
    assert [known.text for known in found.values() if known is not None and not is_chinese(known.text)] == []
    used = {template for known in found.values() if known is not None for template in known.used}
    assert [template.english for template in templates if template not in used] == [], "nothing is written like this"


def test_every_reason_is_known_and_every_template_is_of_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(all_reasons(tmp_path, monkeypatch), REASONS)


def test_every_warning_is_known_and_every_template_is_of_a_warning(tmp_path: Path) -> None:
    found = all_warnings(tmp_path)
    assert {warning["code"] for warning in found} == warning_codes() - NO_SENTENCE_OF_OURS
    check([warning["message"] for warning in found], SENTENCES)


def test_every_code_and_every_outcome_has_a_name() -> None:
    assert set(TITLES) == warning_codes()
    assert all(is_chinese(title) for title in TITLES.values())
    for names in OUTCOMES.values():
        assert set(names) == {*Outcome, RUNNING}


@pytest.mark.parametrize("template", [*REASONS, *SENTENCES], ids=lambda template: template.english[:40])
def test_no_fact_is_lost(template: Template) -> None:
    assert set(re.findall(r"\{(\w+)\}", template.translated)) == set(template.kinds)


def test_numbers_and_names_are_carried_over() -> None:
    assert say_reason("no step for 60 s (usual step 0.5 s)", "zh") == "已有 60 s 没有完成任何一步（通常一步用时 0.5 s）"
    told = "rank 1 (pid 9 on gpu2) was ended by SIGTERM"
    assert say_reason(told, "zh") == "rank 1（gpu2 上的 pid 9）被终止：SIGTERM"
    assert say_reason(told, "en") == told


def test_what_no_template_knows_stays_as_it_was_recorded() -> None:
    for told in ("ValueError: rank 1 was ended by something", "", "x" * 100_000, "rank 1 went home"):
        assert say_reason(told, "zh") == told
    assert say_warning({"code": "throttled", "message": "hot"}, "zh") == "GPU 降频（throttled）：hot"
    assert say_warning({"code": "of-a-stranger", "message": "hot"}, "zh") == "of-a-stranger：hot"


def test_what_stands_in_a_place_is_no_template() -> None:
    templates = (Template("a {one}« b {two}» c", "甲 {one}« 乙 {two}» 丙"),)
    assert translate("a {two}«{one}» b {x} c", templates) == "甲 {two}«{one}» 乙 {x} 丙"
    assert translate("a 1 c", templates) == "甲 1 丙"


def test_a_long_hostile_text_takes_no_time() -> None:
    for text in (
        "rank 1 (" * 500,
        ", ".join(["is stopped"] * 300),
        "no step for 1 s: " + "rank 1 (a) is stopped, " * 170,
    ):
        assert translate(text, REASONS)
