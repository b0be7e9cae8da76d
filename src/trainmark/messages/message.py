"""Declarations of messages, and the messages made from them.

A declaration is a typed function without a body, decorated with its code and its two sentences:

    @declare("rank-behind", en="{who} stopped after step {step}«: {why}»", zh="{who}停在第 {step} 步«：{why}»")
    def rank_behind(*, who: Message, step: int, why: str | None) -> None: ...

Calling it gives a `Message`. The sentences are format strings with these additions:

    «...»            is left out where one of its parameters is None or empty
    «...|...»        is the first alternative that has all its parameters
    {size:bytes}     and {usual:seconds} are printed with a fitting unit
    {num:# steps}    is "1 step" or "2 steps"
    {parts}          of a list is joined by commas, {parts:and} by "and"

A parameter that is a message itself is printed in the same language.
"""

from __future__ import annotations

import importlib
import math
import re
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Generic, Literal, ParamSpec

from trainmark.units import format_bytes, format_count, format_number, format_seconds

Language = Literal["en", "zh"]
P = ParamSpec("P")

SUBJECTS = (
    "answers",
    "commands",
    "comparison",
    "doubts",
    "endings",
    "energy",
    "gate",
    "identity",
    "laws",
    "logs",
    "machine",
    "numbers",
    "parity",
    "ranks",
    "references",
    "scaling",
    "skips",
    "training",
)
"""The modules of this package that hold declarations."""
_MAX_DEPTH = 4
"""Of messages inside messages in a file: nothing of ours goes deeper."""
_OPTIONAL = re.compile("«(.*?)»")
_SEPARATORS = {"en": {"": ", ", "and": " and "}, "zh": {"": "，", "and": "，"}}


@dataclass(frozen=True, kw_only=True, eq=False)
class Message:
    """One sentence that was said: which one, and with what values. Equal to another with the same code and words."""

    code: str
    """Empty for a sentence of an older version, of which only the English text is known."""
    params: Mapping[str, Any] = field(default_factory=dict)
    """Numbers, texts, messages, or lists of them."""
    recorded: str | None = None
    """The English sentence as a file holds it; None for a message made by this process."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and (self.code, self.english) == (other.code, other.english)

    def __hash__(self) -> int:
        return hash((self.code, self.english))

    def __str__(self) -> str:
        return self.english

    @property
    def english(self) -> str:
        return self._render("en") if self.recorded is None else self.recorded

    @property
    def chinese(self) -> str:
        """English where a file has no code, or one that this version does not know."""
        if self.recorded is None:
            return self._render("zh")
        try:
            return self._render("zh")
        except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError):  # the file may hold anything
            return self.recorded

    def in_language(self, lang: str) -> str:
        return self.chinese if lang == "zh" else self.english

    def to_json(self) -> dict[str, Any]:
        """As a warning is recorded."""
        params = {name: _encode(value) for name, value in self.params.items()}
        return {"code": self.code, "message": self.english, "params": params}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Message:
        """From any file: what is absent or of another type is left out."""
        return cls._read(value.get("code"), value.get("params"), value.get("message"))

    def to_reason(self) -> dict[str, Any]:
        """As the reason of an ending, a skip or a missing measurement is recorded, among other facts."""
        encoded = self.to_json()
        return {"reason": encoded["message"], "reason_code": encoded["code"], "reason_params": encoded["params"]}

    @classmethod
    def from_reason(cls, record: Mapping[str, Any]) -> Message:
        return cls._read(record.get("reason_code"), record.get("reason_params"), record.get("reason"))

    @classmethod
    def _read(cls, code: Any, params: Any, recorded: Any, depth: int = 0) -> Message:
        known = params if isinstance(params, Mapping) and depth < _MAX_DEPTH else {}
        if not known and isinstance(code, str) and isinstance(recorded, str):
            return _without_params(code, recorded)
        return cls(
            code=code if isinstance(code, str) else "",
            params={str(name): _decode(value, depth + 1) for name, value in known.items()},
            recorded=recorded if isinstance(recorded, str) else "",
        )

    def _render(self, lang: Language) -> str:
        declaration = find_declaration(self.code)
        values = {name: _say(value, lang, declaration) for name, value in self.params.items()}
        # A process that ends a run must be able to say so, whatever it was told; a file's English is the better text.
        template = declaration.zh if lang == "zh" else declaration.en
        return _fill(template, values, lang, is_strict=self.recorded is not None)


@lru_cache(maxsize=256)
def _without_params(code: str, recorded: str) -> Message:
    """Kept: most runs of a store say the same."""
    return Message(code=code, recorded=recorded)


@dataclass(frozen=True, kw_only=True)
class Declaration(Generic[P]):
    code: str
    en: str
    zh: str
    title: str | None
    """Short, in Chinese, for a warning; None for a reason or a part of one."""
    words: Mapping[str, str]
    """Values of parameters that are English words of ours, with their Chinese."""
    signature: Callable[P, None]

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters."""
        return tuple(name for name in self.signature.__annotations__ if name != "return")

    def __call__(self, *_: P.args, **params: P.kwargs) -> Message:
        return Message(code=self.code, params=params)


_declared: dict[str, Declaration[...]] = {}


def declare(
    code: str, *, en: str, zh: str, title: str | None = None, words: Mapping[str, str] | None = None
) -> Callable[[Callable[P, None]], Declaration[P]]:
    def decorate(signature: Callable[P, None]) -> Declaration[P]:
        assert code not in _declared, f"{code} is declared twice"
        declaration = Declaration[P](code=code, en=en, zh=zh, title=title, words=words or {}, signature=signature)
        _declared[code] = declaration
        return declaration

    return decorate


def find_declaration(code: str) -> Declaration[...]:
    """KeyError for a code that this version does not know."""
    return _declared[code] if code in _declared else all_declarations()[code]


def all_declarations() -> Mapping[str, Declaration[...]]:
    for subject in SUBJECTS:
        importlib.import_module(f"trainmark.messages.{subject}")
    return _declared


def warning_titles() -> dict[str, str]:
    """The codes of all warnings, each with its Chinese title."""
    return {code: found.title for code, found in all_declarations().items() if found.title is not None}


def _encode(value: Any) -> Any:
    if isinstance(value, Message):
        return value.to_json()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no such number
    return [_encode(item) for item in value] if isinstance(value, list | tuple) else value


def _decode(value: Any, depth: int) -> Any:
    if isinstance(value, Mapping):
        return Message._read(value.get("code"), value.get("params"), value.get("message"), depth)
    return [_decode(item, depth) for item in value] if isinstance(value, list) else value


def _say(value: Any, lang: Language, declaration: Declaration[...]) -> Any:
    """Messages and our own words in one language; numbers stay for the format string."""
    if isinstance(value, Message):
        return value.in_language(lang)
    if isinstance(value, list | tuple):
        return [_say(item, lang, declaration) for item in value]
    return declaration.words.get(value, value) if lang == "zh" and isinstance(value, str) else value


def _format(value: Any, spec: str, lang: Language) -> str:
    if is_absent(value):
        return ""
    if isinstance(value, list):
        return _SEPARATORS[lang][spec].join(str(item) for item in value)
    if spec == "bytes":
        return format_bytes(value)
    if spec == "seconds":
        return format_seconds(value)
    if spec == "number":
        return format_number(value)
    if spec.startswith("# "):
        return format_count(value, spec[2:])
    return format(value, spec)


def is_absent(value: Any) -> bool:
    return value is None or value == "" or value == []


def fields_of(template: str) -> set[str]:
    """The names of the parameters in a sentence."""
    return {name for _, name, _ in _parse(template) if name is not None}


@lru_cache(maxsize=1024)
def _parse(template: str) -> tuple[tuple[str, str | None, str], ...]:
    """Pieces of text, each with the parameter that follows it and how that is printed."""
    return tuple((text, name, spec or "") for text, name, spec, _ in string.Formatter().parse(template))


def _fill(template: str, values: Mapping[str, Any], lang: Language, *, is_strict: bool) -> str:
    def choose(match: re.Match[str]) -> str:
        alternatives = match[1].split("|")
        whole = (text for text in alternatives if not any(is_absent(values.get(name)) for name in fields_of(text)))
        return next(whole, "")

    # Chosen before anything is filled in: the text of a parameter is never used as a format string.
    parts: list[str] = []
    for text, name, spec in _parse(_OPTIONAL.sub(choose, template)):
        parts.append(text)
        if name is None:
            continue
        if is_strict and is_absent(values[name]):
            raise ValueError(f"{name} is missing")
        parts.append(_format(values[name], spec, lang))
    return "".join(parts)
