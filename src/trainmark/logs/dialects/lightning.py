"""PyTorch Lightning's bar: `Epoch 0:  50%|#####     | 100/200 [00:10<00:10,  9.87it/s, v_num=3, loss=2.31]`.

It counts batches of one process, so samples a second need the batch size, which the log seldom tells.
"""

from __future__ import annotations

from dataclasses import replace

from trainmark.logs.dialect import NUMBER, Dialect, Groups, Probe, number, patterns, read_step, read_wholes
from trainmark.logs.record import LogRecord


def _read(groups: Groups) -> LogRecord | None:
    """Batches a second become seconds of an iteration."""
    rate = number(groups.pop("rate", None))
    if rate and rate > 0:
        groups["seconds"] = repr(1 / rate).encode()
    record = read_step(groups)
    return None if record is None else replace(record, unit=None)


DIALECT = Dialect(
    name="lightning",
    summary="PyTorch Lightning progress bars: iterations per second",
    framework="torch",
    repeats_lines=True,
    steps=(
        Probe(
            anchor=b"Epoch ",
            patterns=patterns(
                rb"\bEpoch (?P<epoch>\d{1,9}): {1,4}\d{1,3}%\|[^|]{0,200}\| (?P<step>\d{1,12})/\d{1,12} ",
                rb"[,<] {1,3}(?P<rate>" + NUMBER + rb") ?it/s",
                rb"[,<] {1,3}(?P<seconds>" + NUMBER + rb") ?s/it",
                rb"\b(?:train_)?loss(?:_step)?=(?P<loss>" + NUMBER + rb")",
            ),
            read=_read,
        ),
    ),
    others=(
        Probe(
            anchor=b"Starting with ",
            patterns=patterns(rb"Starting with (?P<devices>\d{1,6}) processes"),
            read=read_wholes,
            where="ends",
            strength=3,
        ),
        Probe(
            anchor=b"Automatic Mixed Precision",
            patterns=patterns(rb"Using (?P<kind>b?float16|bf16|16bit|bfloat16)"),
            read=lambda groups: {"precision": "bf16" if groups["kind"].startswith(b"b") else "amp"},
            where="ends",
            strength=3,
        ),
    ),
)
