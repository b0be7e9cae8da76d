"""Any tqdm bar that counts training steps: `Steps:  50%|#####     | 100/200 [00:10<00:10,  9.87it/s, loss=2.3]`.

Scripts with `accelerate` and many of one's own have nothing else. The rate is a moving average; the seconds since the
bar began are beside it. Bars of downloads, of data preparation and of evaluations are left out by their names, and so
are bars that count to another total than the first.
"""

from __future__ import annotations

from dataclasses import replace

from trainmark.logs.dialect import Dialect, Groups, Meaning, Probe, read_eval, read_step
from trainmark.logs.dialects.huggingface import FACTS
from trainmark.logs.printed import CLOCK, NUMBER, patterns, whole
from trainmark.logs.record import LogRecord

_OTHER = (
    rb"(?i:eval|valid|\bval\b|test|predict|infer|sanity|download|load|fetch|generat|map|token|group|filter|cast|sav|"
    rb"cach|scan|extract|copy|prepar|process|index|shard|warm)"
)
_BAR = patterns(
    rb"(?P<name>[^|\r\n%]{0,120}?)\s{0,4}\d{1,3}%\|[^|]{0,400}\| {0,8}(?P<step>\d{1,12})/(?P<of>\d{1,12}) \[(?P<clock>"
    + CLOCK
    + rb")<[\d:? days,]{1,24}, {1,4}(?:(?P<its>"
    + NUMBER
    + rb")(?:it|step|batch)/s|(?P<seconds>"
    + NUMBER
    + rb")s/(?:it|step|batch))",
    rb"(?P<other>^[^|%]{0,120}?" + _OTHER + rb"[^|%]{0,120}%\|)",
    rb"\b(?:train_|step_)?loss(?:_step)?[=:] ?(?P<loss>" + NUMBER + rb")",
)


def _read(groups: Groups) -> LogRecord | None:
    record = read_step(groups) if "other" not in groups else None
    return None if record is None or not record.step else replace(record, of=whole(groups["of"]))


DIALECT = Dialect(
    name="tqdm",
    summary="tqdm bars of training steps (accelerate and others): smoothed rate, seconds since the bar began",
    framework=None,
    meaning=Meaning.SMOOTHED,
    repeats_lines=True,
    priority=-2,
    steps=(Probe(anchor=b"it/s", patterns=_BAR, read=_read), Probe(anchor=b"s/it", patterns=_BAR, read=_read)),
    others=(
        *FACTS,
        Probe(
            anchor=b"epoch ",
            patterns=patterns(rb"\bepoch (?P<epoch>\d{1,9}): \{'accuracy': (?P<value>" + NUMBER + rb")"),
            read=read_eval("accuracy", is_index=True),
        ),
        Probe(
            anchor=b"eval_loss: ",
            patterns=patterns(rb"\bepoch (?P<epoch>\d{1,9}): .{0,60}?eval_loss: (?P<value>" + NUMBER + rb")"),
            read=read_eval("val_loss", is_index=True),
        ),
    ),
)
