"""PyTorch's word_language_model: `| epoch   1 |   200/ 2983 batches | lr 20.00 | ms/batch 12.34 | loss  7.62 |`."""

from __future__ import annotations

from trainmark.logs.dialect import Dialect, Probe, read_eval, read_step
from trainmark.logs.printed import NUMBER, patterns

DIALECT = Dialect(
    name="word-language-model",
    summary="PyTorch's word_language_model and tutorials like it: milliseconds of a batch, mean since the last print",
    framework="torch",
    steps=(
        Probe(
            anchor=b"ms/batch ",
            patterns=patterns(
                rb"\| epoch {1,6}(?P<epoch>\d{1,9}) \| {0,12}(?P<step>\d{1,12})/ {0,12}\d{1,12} batches \|",
                rb"\| ms/batch {1,8}(?P<ms>" + NUMBER + rb")",
                rb"\| loss {1,8}(?P<loss>" + NUMBER + rb")",
                rb"\| lr {1,8}(?P<lr>" + NUMBER + rb")",
            ),
            read=read_step,
        ),
    ),
    others=(
        Probe(
            anchor=b"| end of epoch ",
            patterns=patterns(
                rb"\| end of epoch {1,6}(?P<epoch>\d{1,9}) \| time: {1,8}[\d.]{1,12}s \| "
                rb"valid loss {1,8}(?P<value>" + NUMBER + rb")"
            ),
            read=read_eval("val_loss"),
        ),
    ),
)
