"""Every declaration is complete, and can be said in both languages."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from trainmark import messages
from trainmark.messages import message
from trainmark.messages.endings import sigkill
from trainmark.messages.message import SUBJECTS, Declaration, Message, all_declarations, fields_of, warning_titles

DECLARED = all_declarations()
CHINESE = re.compile(r"[\u4e00-\u9fff]")
ENGLISH = re.compile(r"[a-z]{2,}(?: [a-z]{2,}){2,}", re.IGNORECASE)
TO_BE_TYPED = re.compile(r"pip install|from trainmark import mark")
CARRIED = {"raised", "signal", "rank", "gpu", "rank-reason", "bad-sample", "not-compiled", "noisy-neighbour",
    "reference-note"}  # fmt: skip
"""Their sentences consist of parameters and names only."""


def test_every_module_is_listed() -> None:
    found = {path.stem for path in Path(str(messages.__file__)).parent.glob("*.py")} - {"__init__", "message"}
    assert found == set(SUBJECTS)


def sample(kind: Any, *, other: bool = False) -> Any:
    """A value for a parameter, by the first of its types; `other` is another one."""
    text = str(kind)
    if text.startswith("collections.abc.Sequence"):
        inside = sigkill() if "Message" in text else "text"
        return [inside, *(["more"] if other else [])]
    if kind is Message or "Message" in text:
        return sigkill() if other else Message(code="", recorded="told")
    if "int" in text:
        return 7 if other else 5
    if "float" in text:
        return 0.75 if other else 0.25
    return "others" if other else "text"


def kinds_of(declaration: Declaration[...]) -> Mapping[str, Any]:
    hints = get_type_hints(declaration.signature)
    return {name: kind for name, kind in hints.items() if name != "return"}


def test_each_sentence_uses_all_parameters() -> None:
    for declaration in DECLARED.values():
        for text in (declaration.en, declaration.zh):
            assert fields_of(text) == set(declaration.names), declaration.code


def test_each_can_be_said_with_and_without_its_optional_parts() -> None:
    for declaration in DECLARED.values():
        kinds = kinds_of(declaration)
        full = {name: sample(kind) for name, kind in kinds.items()}
        least = {name: None if "None" in str(kind) else sample(kind) for name, kind in kinds.items()}
        for said in (declaration(**full), declaration(**least)):
            for text in (said.english, said.chinese):
                assert text.strip(), declaration.code
                assert not re.search(r"[«»|{}]|None", text), text
            again = Message.from_json(json.loads(json.dumps(said.to_json(), allow_nan=False)))
            assert (again.code, again.english, again.chinese) == (declaration.code, said.english, said.chinese)


def test_each_parameter_is_said_in_both_languages() -> None:
    for declaration in DECLARED.values():
        kinds = kinds_of(declaration)
        full = {name: sample(kind) for name, kind in kinds.items()}
        for name, kind in kinds.items():
            said, changed = declaration(**full), declaration(**{**full, name: sample(kind, other=True)})
            assert changed.english != said.english, f"{declaration.code}: {name}"
            assert changed.chinese != said.chinese, f"{declaration.code}: {name}"


def test_chinese_is_chinese() -> None:
    for declaration in DECLARED.values():
        assert declaration.code in CARRIED or CHINESE.search(declaration.zh), declaration.code
        assert CHINESE.search(declaration.en) is None, declaration.code
        for text in (declaration.zh, *declaration.words.values(), declaration.title or ""):
            assert ENGLISH.search(TO_BE_TYPED.sub("", re.sub(r"\{.*?\}", "", text))) is None, text


def test_codes_are_kebab_case_and_titles_are_chinese() -> None:
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", code) for code in DECLARED)
    assert all(CHINESE.search(title) for title in warning_titles().values())


def test_a_code_is_declared_once() -> None:
    def again() -> None: ...

    with pytest.raises(AssertionError, match="sigkill is declared twice"):
        message.declare(sigkill.code, en="", zh="")(again)


def test_parameters_are_given_by_name() -> None:
    """A positional one would not be recorded."""
    for declaration in DECLARED.values():
        kinds = inspect.signature(declaration.signature).parameters.values()
        assert all(parameter.kind is inspect.Parameter.KEYWORD_ONLY for parameter in kinds), declaration.code
