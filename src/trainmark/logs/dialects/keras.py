"""Keras: ` 10/469 [=>....] - ETA: 12s - 5ms/step - loss: 2.1`; since version 3 `10/469 ━━━━ 2s 5ms/step - loss: 2.1`.

Milliseconds are a mean since the second step of the epoch. `Epoch 3/10` stands before each epoch of several; a bar
without it is `evaluate` or `predict`. The last line of an epoch includes its validation, so that it is used only if an
epoch has no other (verbose=2, and the bars of TensorFlow 2, which tell no time before); the result then warns.
"""

from __future__ import annotations

from dataclasses import replace

from trainmark.logs.dialect import Dialect, Found, Groups, Meaning, Probe, read_eval, read_step
from trainmark.logs.printed import NUMBER, number, patterns
from trainmark.logs.record import LogRecord

_TIME = rb"(?:(?P<mean_us>\d{1,9})us|(?P<mean_ms>\d{1,9})ms|(?P<mean>\d{1,9})s)/(?:step|sample)\b"
_COUNT = rb"(?:^|[\s\x08])(?P<step>\d{1,9})/(?P<of>\d{1,9}) "
_STEP = patterns(
    _COUNT
    + rb"(?:\[[=>.]{3,80}\] - (?:ETA: [\d:s]{2,12} - )?|(?P<bar>(?:\xe2\x94\x81){1,80} ))(?:(?P<total>\d{1,9})s )?"
    + _TIME,
    rb"(?P<val>\bval_\w{1,40}: )",
    rb"\bloss: (?P<loss>" + NUMBER + rb")",
)
_EPOCH = patterns(
    _COUNT + rb"- (?P<total>\d{1,9})s(?: - | )(?:(?!\d{1,9}[mu]?s/(?:step|sample)).){0,600}?" + _TIME,
    rb"(?P<val>\bval_\w{1,40}: )",
    rb"(?<!_)\bloss: (?P<loss>" + NUMBER + rb")",
)


def _read_bar(groups: Groups) -> LogRecord | None:
    """The number before the milliseconds is the time that is left, until the last step."""
    is_last = groups["step"] == groups["of"]
    groups = {name: text for name, text in groups.items() if name != "total"}
    if is_last and "val" in groups and "bar" in groups:
        return LogRecord(kind="section", name="eval")
    record = read_step(groups)
    return None if record is None else replace(record, is_last=is_last, includes_eval="val" in groups)


def _read_epoch(groups: Groups) -> LogRecord | None:
    """One line per epoch (verbose=2): the more exact of its two times."""
    mean = next((number(groups[name]) for name in ("mean_us", "mean_ms", "mean") if name in groups), None)
    total = number(groups["total"])
    use_total = total is not None and mean is not None and total > mean
    dropped = ("mean", "mean_ms", "mean_us") if use_total else ("total",)
    record = read_step({name: text for name, text in groups.items() if name not in dropped})
    return None if record is None else replace(record, is_last=True, includes_eval="val" in groups)


def _read_heading(groups: Groups) -> Found:
    return LogRecord(kind="section", name="train", epoch=number(groups["epoch"]))


def _metric(name: bytes, metric: str) -> Probe:
    pattern = rb"(?P<step>\d{1,9})/(?:\d{1,9}) .{0,800}?\b" + name + rb": (?P<value>" + NUMBER + rb")"
    return Probe(anchor=name + b": ", patterns=patterns(pattern), read=read_eval(metric))


DIALECT = Dialect(
    name="keras",
    summary="Keras fit, verbose 1 and 2: time of a step, mean since the epoch began",
    framework=None,
    meaning=Meaning.EPOCH,
    repeats_lines=True,
    steps=(
        Probe(anchor=b"/step", patterns=_STEP, read=_read_bar),
        Probe(anchor=b"/step", patterns=_EPOCH, read=_read_epoch),
        Probe(anchor=b"/sample", patterns=_STEP, read=_read_bar),
    ),
    others=(
        Probe(
            anchor=b"Epoch ",
            patterns=patterns(rb"^\s{0,8}Epoch (?P<epoch>\d{1,9})/\d{1,9}\s{0,8}$"),
            read=_read_heading,
        ),
        _metric(b"val_loss", "val_loss"),
        _metric(b"val_accuracy", "accuracy"),
        _metric(b"val_acc", "accuracy"),
    ),
)
