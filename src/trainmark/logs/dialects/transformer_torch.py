"""NGC's PyTorch Transformer: `Transformer | epoch 0 | step 10 |avg loss 16.0 |avg tokens 4746.0 |tokens/s 9679.9 |..`.

Tokens are those of all devices.
"""

from __future__ import annotations

from trainmark.logs.dialect import Dialect, Probe, read_step, read_wholes
from trainmark.logs.printed import NUMBER, patterns

DIALECT = Dialect(
    name="transformer-torch",
    summary="NGC PyTorch Transformer: global tokens/s of the last iterations",
    framework="torch",
    unit="tokens",
    steps=(
        Probe(
            anchor=b"|tokens/s ",
            patterns=patterns(
                rb"\|tokens/s (?P<rate>" + NUMBER + rb") ",
                rb"\bepoch (?P<epoch>\d{1,9}) \| step (?P<step>\d{1,12}) ",
                rb"\|avg loss (?P<loss>" + NUMBER + rb") ",
                rb"\|avg tokens (?P<samples>" + NUMBER + rb") ",
            ),
            read=read_step,
        ),
    ),
    others=(
        Probe(
            anchor=b"| training on ",
            patterns=patterns(rb"\| training on (?P<devices>\d{1,6}) GPUs"),
            read=read_wholes,
            where="ends",
            strength=3,
        ),
        Probe(
            anchor=b"max_tokens=",
            patterns=patterns(rb"\bmax_tokens=(?P<batch_size_per_device>\d{1,9})"),
            read=read_wholes,
            where="ends",
        ),
    ),
)
