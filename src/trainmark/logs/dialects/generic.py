"""Lines of a program that no dialect knows: a number with a unit such as 812.4 images/s, 9.8 it/s or 45.1 ms/step.

Used only if nothing else fits. What such a number covers, and whether it is that of one device, is a guess.
"""

from __future__ import annotations

from trainmark.logs.dialect import Dialect, Groups, Meaning, Probe, read_step
from trainmark.logs.printed import NUMBER, patterns
from trainmark.logs.record import LogRecord

_UNIT = (
    rb"(?P<unit>(?:img|image|sample|seq|sequence|token|tok|word|example|clip|frame|sentence|it|iter|iteration|step|batch)"
    rb"(?:e?s)?)"
)
_WHERE = (
    rb"(?P<other>(?i:\beval|\bvalid|\bval\b|\bval[_:]|\btest|predict|infer|download|AI-Rank-log|preproc|tokeniz))",
    rb"(?i:\b(?:global_step|step|iter|iteration|it|batch)\b)[\s:=#\[(]{1,6}(?P<step>\d{1,12})\b(?!\.\d|\s?m?s\b)",
    rb"(?i:\bepoch\b)[\s:=#\[(]{1,6}(?P<epoch>\d{1,9})\b",
    rb"(?i:\b(?:train[_ ])?loss\b)[\s:=(]{1,6}(?P<loss>" + NUMBER + rb")",
)
_RATE = patterns(
    rb"(?<![\w.])(?P<rate>" + NUMBER + rb") ?(?P<suffix>[kKM]?) ?" + _UNIT + rb"/ ?s(?:ec(?:ond)?)?\b", *_WHERE
)
_NAMED = patterns(
    rb"\b"
    + _UNIT
    + rb"(?:/| per |_per_)s(?:ec(?:ond)?)?\b['\"]?[\s:=]{1,6}(?P<rate>"
    + NUMBER
    + rb") ?(?P<suffix>[kKM]?)",
    *_WHERE,
)
_TIME = patterns(
    rb"(?<![\w.])(?:(?P<ms>" + NUMBER + rb") ?ms|(?P<us>" + NUMBER + rb") ?us|(?P<seconds>" + NUMBER + rb") ?s(?:ec)?)"
    rb" ?/ ?(?:it|iter|iteration|step|batch)\b",
    *_WHERE,
)


def _read(groups: Groups) -> LogRecord | None:
    return None if "other" in groups else read_step(groups)


DIALECT = Dialect(
    name="generic",
    summary="any line with a number such as 812.4 images/s, 9.8 it/s or 45.1 ms/step, if no other dialect fits",
    framework=None,
    meaning=Meaning.SMOOTHED,
    priority=-3,
    is_generic=True,
    repeats_lines=True,
    steps=(
        Probe(anchor=b"/s", patterns=_RATE, read=_read),
        Probe(anchor=b"/s", patterns=_TIME, read=_read),
        Probe(anchor=b"s/it", patterns=_TIME, read=_read),
        Probe(anchor=b"s/b", patterns=_TIME, read=_read),
        Probe(anchor=b"/s", patterns=_NAMED, read=_read),
        Probe(anchor=b"per_sec", patterns=_NAMED, read=_read),
    ),
)
