"""nanoGPT: `iter 100: loss 2.1234, time 45.12ms, mfu 3.45%`, milliseconds of one step in `log_interval`."""

from __future__ import annotations

from trainmark.logs.dialect import Dialect, Groups, Meaning, Probe, read_eval, read_step
from trainmark.logs.printed import NUMBER, patterns, whole


def _read_tokens(groups: Groups) -> dict[str, object]:
    return {"samples_per_step": whole(groups["tokens"].replace(b",", b"")), "unit": "tokens"}


DIALECT = Dialect(
    name="nanogpt",
    summary="nanoGPT: milliseconds of one iteration; tokens per iteration at the start",
    framework="torch",
    unit="tokens",
    meaning=Meaning.STEP,
    first_step=0,
    steps=(
        Probe(
            anchor=b", time ",
            patterns=patterns(
                rb"\biter (?P<step>\d{1,12}): loss (?P<loss>"
                + NUMBER
                + rb"|nan|inf), time (?P<ms>"
                + NUMBER
                + rb") ?ms(?:,|\s|$)"
            ),
            read=read_step,
        ),
    ),
    others=(
        Probe(
            anchor=b", val loss ",
            patterns=patterns(
                rb"\bstep (?P<step>\d{1,12}): train loss [\d.]{1,12}, val loss (?P<value>" + NUMBER + rb")"
            ),
            read=read_eval("val_loss"),
        ),
        Probe(
            anchor=b"tokens per iteration will be: ",
            patterns=patterns(rb"tokens per iteration will be: (?P<tokens>[\d,]{1,15})"),
            read=_read_tokens,
            where="ends",
            strength=3,
        ),
    ),
)
