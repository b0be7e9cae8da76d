"""Read similar lines faster: the first is read pattern by pattern, the next ones with a template made from it.

A template is a whole line with its numbers replaced by groups. It matches only lines with the same words from end to
end, so it finds the same numbers in a fifth of the time. A line that does not match is read pattern by pattern.
"""

from __future__ import annotations

import re
from itertools import pairwise

from trainmark.logs.dialect import Groups, Probe
from trainmark.logs.printed import NUMBER

_MAX_TEMPLATES = 4
_MAX_ATTEMPTS = 24
"""Making a template costs as much as reading hundreds of lines, so give up if lines keep changing."""

_MAX_LINE_BYTES = 600
_VARIABLE = re.compile(rb"(\d+| +)")
_IS_NUMBER = re.compile(NUMBER)


class LineReader:
    """Reads the lines of one probe and remembers templates for them."""

    def __init__(self, probe: Probe) -> None:
        self.probe = probe
        self._templates: list[re.Pattern[bytes]] = []
        self._num_attempts = 0

    def search(self, line: bytes) -> Groups | None:
        for place, template in enumerate(self._templates):
            match = template.fullmatch(line)
            if match is not None:
                if place:
                    self._templates.insert(0, self._templates.pop(place))
                return match.groupdict()
        groups = self.probe.search(line)
        if groups is not None and self._num_attempts < _MAX_ATTEMPTS:
            self._num_attempts += 1
            made = derive_template(line, self.probe)
            if made is not None:
                self._templates = [made, *self._templates[: _MAX_TEMPLATES - 1]]
        return groups


def derive_template(line: bytes, probe: Probe) -> re.Pattern[bytes] | None:
    """None if groups overlap or the template would not give the same groups as the patterns."""
    spans = find_spans(line, probe)
    template = make_template(line, spans) if spans else None
    match = template.fullmatch(line) if template is not None else None
    return template if match is not None and match.groupdict() == probe.search(line) else None


def find_spans(line: bytes, probe: Probe) -> dict[str, tuple[int, int]] | None:
    """Where the patterns find each group; None if the line is unusually long."""
    if len(line) > _MAX_LINE_BYTES:
        return None
    spans: dict[str, tuple[int, int]] = {}
    for pattern in probe.patterns:
        match = pattern.search(line)
        if match is not None:
            spans |= {name: match.span(name) for name, text in match.groupdict().items() if text is not None}
    return spans


def make_template(line: bytes, spans: dict[str, tuple[int, int]], *, end: bytes = b"") -> re.Pattern[bytes] | None:
    """The line with its numbers replaced by patterns, those of `spans` named; None if spans overlap."""
    ordered = sorted((start, stop, name) for name, (start, stop) in spans.items())
    if not ordered or any(before[1] > after[0] for before, after in pairwise(ordered)):
        return None
    parts = []
    position = 0
    for start, stop, name in ordered:
        text = line[start:stop]
        inside = NUMBER if _IS_NUMBER.fullmatch(text) else _generalise(text)
        parts += [_generalise(line[position:start]), b"(?P<", name.encode(), b">", inside, b")"]
        position = stop
    return re.compile(b"".join([*parts, _generalise(line[position:]), end]))


def _generalise(text: bytes) -> bytes:
    """Replace digits by any digits and spaces by any spaces; keep everything else."""
    made = []
    for part in _VARIABLE.split(text):
        if part.isdigit():
            made.append(rb"\d{1,20}")
        elif part.startswith(b" "):
            made.append(rb" {1,20}")
        else:
            made.append(re.escape(part))
    return b"".join(made)
