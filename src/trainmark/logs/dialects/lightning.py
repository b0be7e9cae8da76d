"""PyTorch Lightning's bars: `Epoch 0:  50%|#####     | 100/200 [00:10<00:10,  9.87it/s, v_num=3, loss=2.31]`.

tqdm's rate is a mean since the epoch began. The rich bar, `Epoch 0/9 ━━━ 100/200 0:00:10 • 0:00:10 9.87it/s`, has one
of the last 30 s, so its seconds since the epoch began count.

It counts batches of one process, so samples a second need the batch size, which the log seldom tells.
"""

from __future__ import annotations

from trainmark.logs.dialect import Dialect, Meaning, Probe, read_eval, read_step, read_wholes
from trainmark.logs.printed import CLOCK, NUMBER, patterns


def _metric(name: bytes, metric: str) -> Probe:
    """A bar repeats a metric until the next evaluation."""
    pattern = rb"\bEpoch \d{1,9}.{0,1500}?\b" + name + rb"(?:=|: )(?P<value>" + NUMBER + rb")"
    return Probe(anchor=name, patterns=patterns(pattern), read=read_eval(metric))


DIALECT = Dialect(
    name="lightning",
    summary="PyTorch Lightning progress bars: iterations per second",
    framework="torch",
    meaning=Meaning.EPOCH,
    repeats_lines=True,
    steps=(
        Probe(
            anchor=b"it/s",
            patterns=patterns(
                rb"\bEpoch (?P<epoch>\d{1,9})(?:/\d{1,9})?\s{1,8}(?:[\xe2\x94\x80-\xbf\x95]|[-=> ]){1,800} "
                rb"(?P<step>\d{1,12})/\d{1,12} (?P<clock>" + CLOCK + rb") \xe2\x80\xa2 [-:\d]{1,12} "
                rb"(?P<its>" + NUMBER + rb") ?it/s",
                rb"\b(?:train_)?loss(?:_step)?: (?P<loss>" + NUMBER + rb")",
            ),
            read=read_step,
        ),
        Probe(
            anchor=b"Epoch ",
            patterns=patterns(
                rb"\bEpoch (?P<epoch>\d{1,9}): {1,4}\d{1,3}%\|[^|]{0,200}\| (?P<step>\d{1,12})/\d{1,12} ",
                rb"[,<] {1,3}(?P<its>" + NUMBER + rb") ?it/s",
                rb"[,<] {1,3}(?P<seconds>" + NUMBER + rb") ?s/it",
                rb"\b(?:train_)?loss(?:_step)?=(?P<loss>" + NUMBER + rb")",
            ),
            read=read_step,
        ),
    ),
    others=(
        _metric(b"val_loss", "val_loss"),
        _metric(b"val_acc", "accuracy"),
        _metric(b"val_accuracy", "accuracy"),
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
