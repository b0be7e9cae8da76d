"""HuggingFace Trainer: `{'train_runtime': 123.4, 'train_samples_per_second': 8.1, ..}` is the measurement, global.

Its progress bars (`50/500 [00:25<03:45,  2.00it/s]`) are smoothed and count optimiser steps: kept as `trace`.
"""

from __future__ import annotations

from dataclasses import replace

from trainmark.logs.dialect import Dialect, Groups, Meaning, Probe, read_eval, read_stated, read_step
from trainmark.logs.printed import NUMBER, number, patterns, whole
from trainmark.logs.record import LogRecord


def _read_bar(groups: Groups) -> LogRecord | None:
    record = read_step(groups)
    return None if record is None else replace(record, kind="trace", unit="steps")


def _count(groups: Groups) -> dict[str, int | None]:
    return {name: whole(text.replace(b",", b"")) for name, text in groups.items()}


def _read_loss(groups: Groups) -> LogRecord:
    """`{'loss': 2.1, 'learning_rate': 5e-05, 'epoch': 0.5}` has no time and no step."""
    return LogRecord(kind="trace", loss=number(groups["loss"]), epoch=number(groups.get("epoch")))


FACTS = (
    Probe(
        anchor=b"nstantaneous batch size per device",
        patterns=patterns(rb"nstantaneous batch size per device = (?P<batch_size_per_device>[\d,]{1,12})"),
        read=_count,
        where="ends",
    ),
    Probe(
        anchor=b"Num examples = ",
        patterns=patterns(rb"Num examples = (?P<num_train_samples>[\d,]{1,15})"),
        read=_count,
        where="ends",
    ),
    Probe(
        anchor=b"Total train batch size",
        patterns=patterns(rb"Total train batch size \(.{0,80}?\) = (?P<global_batch_size>[\d,]{1,12})"),
        read=_count,
        where="ends",
        strength=3,
    ),
)
"""What the examples of transformers print before they train, with `Trainer` or without."""

DIALECT = Dialect(
    name="huggingface",
    summary="HuggingFace Trainer: samples per second of the run",
    framework="torch",
    meaning=Meaning.WHOLE,
    steps=(
        Probe(
            anchor=b"train_samples_per_second",
            patterns=patterns(
                rb"\btrain_samples_per_second['\"]?\s{0,4}:\s{0,4}['\"]?(?P<rate>" + NUMBER + rb")",
                rb"\btrain_loss['\"]?\s{0,4}:\s{0,4}['\"]?(?P<loss>" + NUMBER + rb")",
                rb"['\"]epoch['\"]: ['\"]?(?P<epoch>" + NUMBER + rb")",
            ),
            read=read_step,
        ),
        # The table at the end says it once more.
        Probe(
            anchor=b"train_samples_per_second",
            patterns=patterns(rb"\btrain_samples_per_second\s{0,40}=\s{0,40}(?P<rate>" + NUMBER + rb")"),
            read=read_stated("train_samples_per_second"),
        ),
    ),
    others=(
        Probe(
            anchor=b"'loss'",
            patterns=patterns(
                rb"\{['\"]loss['\"]: ['\"]?(?P<loss>" + NUMBER + rb")",
                rb"['\"]epoch['\"]: ['\"]?(?P<epoch>" + NUMBER + rb")",
            ),
            read=_read_loss,
        ),
        Probe(
            anchor=b"it/s",
            patterns=patterns(
                rb"\| (?P<step>\d{1,12})/\d{1,12} \[[\d:]{1,12}<[\d:?]{1,12}, {1,3}(?P<rate>" + NUMBER + rb")it/s"
            ),
            read=_read_bar,
        ),
        Probe(
            anchor=b"train_runtime",
            patterns=patterns(rb"\btrain_runtime['\"]?\s{0,4}:\s{0,4}['\"]?(?P<seconds>" + NUMBER + rb")"),
            read=lambda groups: {"wall_s": number(groups["seconds"])},
            where="ends",
            strength=3,
        ),
        *FACTS,
        Probe(
            anchor=b"eval_loss",
            patterns=patterns(
                rb"['\"]eval_loss['\"]: ['\"]?(?P<value>" + NUMBER + rb")",
                rb"['\"]epoch['\"]: ['\"]?(?P<epoch>" + NUMBER + rb")",
            ),
            read=read_eval("val_loss"),
        ),
        Probe(
            anchor=b"eval_accuracy",
            patterns=patterns(
                rb"['\"]eval_accuracy['\"]: ['\"]?(?P<value>" + NUMBER + rb")",
                rb"['\"]epoch['\"]: ['\"]?(?P<epoch>" + NUMBER + rb")",
            ),
            read=lambda groups: LogRecord(
                kind="eval", metric="accuracy", value=number(groups["value"]), epoch=number(groups.get("epoch"))
            ),
        ),
    ),
)
