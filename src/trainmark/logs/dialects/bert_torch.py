"""NGC's PyTorch BERT: only the end tells the speed, `training_sequences_per_second : 543.77`, global."""

from __future__ import annotations

from trainmark.logs.dialect import Dialect, Meaning, Probe, read_step
from trainmark.logs.printed import NUMBER, number, patterns

DIALECT = Dialect(
    name="bert-torch",
    summary="NGC PyTorch BERT: global sequences/s of the run",
    framework="torch",
    unit="sequences",
    meaning=Meaning.WHOLE,
    steps=(
        Probe(
            anchor=b"training_sequences_per_second : ",
            patterns=patterns(
                rb"\btraining_sequences_per_second : (?P<rate>" + NUMBER + rb")",
                rb"\bfinal_loss : (?P<loss>" + NUMBER + rb")",
            ),
            read=read_step,
        ),
    ),
    others=(
        Probe(
            anchor=b"e2e_train_time : ",
            patterns=patterns(rb"\be2e_train_time : (?P<seconds>" + NUMBER + rb")"),
            read=lambda groups: {"wall_s": number(groups["seconds"])},
            where="ends",
        ),
    ),
)
