"""Lines of one program look alike: the first one is read pattern by pattern, the next ones by a mould made of it.

A mould is the line itself with its numbers made variable and the wanted ones named. It matches only lines of the same
words, so it finds the same numbers at a fifth of the time; a line that does not fit is read the slow way.
"""

from __future__ import annotations

import re
from itertools import pairwise

from trainmark.logs.dialect import NUMBER, Groups, Probe

_MAX_MOULDS = 4
_MAX_CASTS = 24
"""Making one costs as much as reading some hundred lines; a log whose every line is different is not worth more."""

_LEAD_BYTES = 16
_VARIABLE = re.compile(rb"(\d+| +)")
_IS_NUMBER = re.compile(NUMBER)


class LineReader:
    """Reads the lines of one probe; remembers what they look like."""

    def __init__(self, probe: Probe) -> None:
        self.probe = probe
        self._moulds: list[re.Pattern[bytes]] = []
        self._num_casts = 0

    def search(self, line: bytes) -> Groups | None:
        for place, mould in enumerate(self._moulds):
            match = mould.search(line)
            if match is not None:
                if place:
                    self._moulds.insert(0, self._moulds.pop(place))
                return match.groupdict()
        groups = self.probe.search(line)
        if groups is not None and self._num_casts < _MAX_CASTS:
            self._num_casts += 1
            made = cast(line, self.probe)
            if made is not None:
                self._moulds = [made, *self._moulds[: _MAX_MOULDS - 1]]
        return groups


def cast(line: bytes, probe: Probe) -> re.Pattern[bytes] | None:
    """None where the groups overlap or the mould would not give what the patterns gave."""
    spans: dict[str, tuple[int, int]] = {}
    for pattern in probe.patterns:
        match = pattern.search(line)
        if match is not None:
            spans |= {name: match.span(name) for name, text in match.groupdict().items() if text is not None}
    ordered = sorted((start, end, name) for name, (start, end) in spans.items())
    if not ordered or any(before[1] > after[0] for before, after in pairwise(ordered)):
        return None
    parts = []
    position = max(0, ordered[0][0] - _LEAD_BYTES)
    for start, end, name in ordered:
        text = line[start:end]
        inside = NUMBER if _IS_NUMBER.fullmatch(text) else re.escape(text)
        parts += [_soften(line[position:start]), b"(?P<", name.encode(), b">", inside, b")"]
        position = end
    parts.append(_soften(line[position : position + 2]) or b"$")
    mould = re.compile(b"".join(parts))
    match = mould.search(line)
    return mould if match is not None and match.groupdict() == probe.search(line) else None


def _soften(text: bytes) -> bytes:
    """Digits become any digits and spaces any spaces; everything else stays as it is."""
    made = []
    for part in _VARIABLE.split(text):
        if part.isdigit():
            made.append(rb"\d{1,20}")
        elif part.startswith(b" "):
            made.append(rb" {1,20}")
        else:
            made.append(re.escape(part))
    return b"".join(made)
