"""Recorded English sentences in another language, by templates: what no template knows stays as it was recorded.

A template is an English sentence and its translation, with named places. In the English one

    {name}    is any text: a name, a path, an error of somebody else's; it is carried over as it is
    {name:n}  is a number, {name:w} one word
    {name:t}  is a phrase with a template of its own; carried over where none is known
    {name:l}  is a list of such phrases, the same
    {name:s}  is such a phrase too, but the template does not match where none is known
    «...»     may be missing; in the translation it is left out where one of its places is
    (s)       is the ending of a plural that may be missing

Places carry a stranger's text: whoever prints a translation makes it fit for the medium, as with any recorded text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

_LONGEST = 4000
"""A folder may come from a stranger, and a template with two free places takes time with the square of the length."""
_DEEPEST = 4
_MOST_ITEMS = 16
_PLACE = re.compile(r"\{(?P<name>\w+)(?::(?P<kind>[nwtls]))?\}|(?P<open>«)|(?P<close>»)|(?P<plural>\(s\))")
_KINDS = {
    None: r".+?",
    "n": r"[-+]?(?:\d+(?:[.,]\d+)*(?:e[-+]?\d+)?|nan|inf)",
    "w": r"\S+?",
    "t": r".+?",
    "l": r".+?",
    "s": r".+?",
}
_FILLED = re.compile(r"«(?P<optional>[^»]*)»|\{(?P<name>\w+)\}")
_SEPARATORS = {", ": "，", "; ": "；", " and ": "，"}
_SEPARATOR = re.compile("|".join(_SEPARATORS))


@dataclass(frozen=True)
class Template:
    english: str
    translated: str

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        parts, end = [], 0
        for match in _PLACE.finditer(self.english):
            parts += [re.escape(self.english[end : match.start()]), _compile(match)]
            end = match.end()
        return re.compile("".join([*parts, re.escape(self.english[end:])]), re.DOTALL)

    @cached_property
    def kinds(self) -> dict[str, str | None]:
        return {match["name"]: match["kind"] for match in _PLACE.finditer(self.english) if match["name"]}

    def fill(self, places: dict[str, str | None]) -> str:
        """In one pass: what stands in a place is never read as a template itself."""

        def put(match: re.Match[str]) -> str:
            if match["name"] is not None:
                return places[match["name"]] or ""
            inside = match["optional"]
            is_there = all(places[found["name"]] is not None for found in _FILLED.finditer(inside))
            return _FILLED.sub(put, inside) if is_there else ""

        return _FILLED.sub(put, self.translated)


def _compile(match: re.Match[str]) -> str:
    if match["name"] is not None:
        return f"(?P<{match['name']}>{_KINDS[match['kind']]})"
    return {"open": "(?:", "close": ")?", "plural": "s?"}[str(match.lastgroup)]


@dataclass(frozen=True, kw_only=True)
class Translation:
    text: str
    used: frozenset[Template]
    """Those of the sentence and of the phrases in it."""


def translate(text: str, templates: Sequence[Template]) -> str:
    found = find_translation(text, templates)
    return text if found is None else found.text


def find_translation(text: str, templates: Sequence[Template]) -> Translation | None:
    """By the first template that matches the whole text."""
    return _find(text, templates, 0) if len(text) <= _LONGEST else None


def _find(text: str, templates: Sequence[Template], depth: int) -> Translation | None:
    for template in templates if depth <= _DEEPEST else ():
        match = template.pattern.fullmatch(text)
        found = _translate_places(template, match.groupdict(), templates, depth) if match is not None else None
        if found is not None:
            return found
    return None


def _translate_places(
    template: Template, places: dict[str, str | None], templates: Sequence[Template], depth: int
) -> Translation | None:
    used = {template}
    for name, kind in template.kinds.items():
        recorded = places[name]
        if recorded is None or kind not in ("t", "l", "s"):
            continue
        found = (_find_list if kind == "l" else _find)(recorded, templates, depth + 1)
        if found is not None:
            places[name] = found.text
            used |= found.used
        elif kind == "s":
            return None
    return Translation(text=template.fill(places), used=frozenset(used))


def _find_list(text: str, templates: Sequence[Template], depth: int) -> Translation | None:
    """Of one phrase or several, all of them known; a phrase may hold a comma itself."""
    joined, used = "", frozenset[Template]()
    for _ in range(_MOST_ITEMS):
        last = _find(text, templates, depth)
        if last is not None:
            return Translation(text=joined + last.text, used=used | last.used)
        heads = ((_find(head, templates, depth), separator, rest) for head, separator, rest in _splits(text))
        first, separator, text = next((split for split in heads if split[0] is not None), (None, "", ""))
        if first is None:
            return None
        joined, used = f"{joined}{first.text}{_SEPARATORS[separator]}", used | first.used
    return None


def _splits(text: str) -> Iterator[tuple[str, str, str]]:
    for number, match in enumerate(_SEPARATOR.finditer(text)):
        if number < _MOST_ITEMS:
            yield text[: match.start()], match[0], text[match.end() :]
