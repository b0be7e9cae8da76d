"""Mutated logs: no crash, no hang, no result of a wrong type. TRAINMARK_FUZZ=20000 runs more of them."""

from __future__ import annotations

import gzip
import json
import math
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest
from samples import SAMPLES, TARGETS

from trainmark.logs.facts import resolve
from trainmark.logs.importing import Task, import_file
from trainmark.logs.paths import facts_of_path
from trainmark.logs.record import Facts, LogRecord, RecordKind
from trainmark.logs.registry import load_dialects
from trainmark.logs.scale import find_scale
from trainmark.logs.spool import to_row
from trainmark.logs.stream import LogStream
from trainmark.logs.timing import Basis, Printed, printed_values
from trainmark.report.document import describe_runs
from trainmark.store.folder import read_run

NUM_LOGS = int(os.environ.get("TRAINMARK_FUZZ", "1000"))
FULL_EVERY = 25
MAX_CPU_S = 5.0
WORDS = [b"nan", b"inf", b"-1", b"1e999", b"9" * 400, b"0", b"", b"\xff\xfe", b"\x00" * 9, b"\x1b[31m", b"<script>",
         b"ips: ", b"Epoch: [", b"AI-Rank-log ", b":::MLLOG {", b"DLLL {", b"{" * 2000, b"\r", b"\xd1\xb5"]  # fmt: skip
HINTS = get_type_hints(LogRecord)
ALLOWED = {
    name: tuple(part for part in get_args(hint) or (hint,) if isinstance(part, type)) for name, hint in HINTS.items()
}


def truncated(text: bytes, dice: random.Random) -> bytes:
    return text[: dice.randrange(len(text) + 1)]


def spliced(text: bytes, dice: random.Random) -> bytes:
    other = dice.choice(SAMPLES).text.encode()
    return text[: dice.randrange(len(text) + 1)] + other[dice.randrange(len(other)) :]


def flipped(text: bytes, dice: random.Random) -> bytes:
    data = bytearray(text)
    for _ in range(dice.randrange(1, 40)):
        if data:
            data[dice.randrange(len(data))] = dice.randrange(256)
    return bytes(data)


def peppered(text: bytes, dice: random.Random) -> bytes:
    for _ in range(dice.randrange(1, 8)):
        place = dice.randrange(len(text) + 1)
        text = text[:place] + dice.choice(WORDS) + text[place + dice.randrange(6) :]
    return text


def huge(text: bytes, dice: random.Random) -> bytes:
    place, piece = dice.randrange(len(text) + 1), text[:: dice.choice((1, -1))][: dice.randrange(1, 60)] or b"x"
    return text[:place] + piece.replace(b"\n", b" ") * (dice.choice((2_000, 60_000)) // len(piece) + 1) + text[place:]


def binary(text: bytes, dice: random.Random) -> bytes:
    return dice.randbytes(dice.randrange(2000)) + text + dice.randbytes(200)


def encoded(text: bytes, dice: random.Random) -> bytes:
    return text.decode(errors="replace").encode(
        dice.choice(("utf-16", "utf-16-be", "gbk", "utf-7", "utf-32")), "replace"
    )


def zipped(text: bytes, dice: random.Random) -> bytes:
    packed = bytearray(gzip.compress(text))
    if dice.random() < 0.5:
        packed[dice.randrange(len(packed))] ^= 1 << dice.randrange(8)
    return bytes(packed[: dice.randrange(len(packed) + 1)])


MUTATIONS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    truncated,
    spliced,
    flipped,
    peppered,
    huge,
    binary,
    encoded,
    zipped,
)


def mutated(seed: int) -> bytes:
    dice = random.Random(seed)
    text = dice.choice(SAMPLES).text.encode()
    for mutate in dice.choices(MUTATIONS, k=dice.randrange(1, 4)):
        text = mutate(text, dice)
    return text


def check_record(record: LogRecord) -> None:
    assert record.kind in get_args(RecordKind)
    for name, allowed in ALLOWED.items():
        value = getattr(record, name)
        if name in ("kind", "scope"):
            assert isinstance(value, str) or value is None
        else:
            assert isinstance(value, (*allowed, int) if float in allowed else allowed), (name, value)
        assert not isinstance(value, float) or math.isfinite(value), (name, value)


def read_as_stream(text: bytes, seed: int) -> None:
    dice = random.Random(-seed)
    stream = LogStream(load_dialects())
    records = []
    while text:
        size = dice.choice((1, 7, 100, 5000, len(text)))
        records += stream.feed(text[:size])
        text = text[size:]
    records += stream.close()
    for record in records:
        check_record(record)
    if stream.dialect is None:
        return
    facts = resolve(stream.claims, facts_of_path(Path("gpu8_fp32_bs4.log")), Facts(), stream.dialect).facts
    scale = find_scale(stream.dialect, facts, stream.dialect.scope, has_rates=True, has_seconds=True)
    for record in records:
        if record.kind == "step":
            row = to_row(record)
            timed = Printed(covers_interval=True).read(row)
            made = scale.convert(timed=timed, basis=Basis.PRINTED, **printed_values(row))
            assert not any(np.isinf(values).any() for values in (made.seconds, made.samples, made.rates))


def import_whole(text: bytes, folder: Path) -> None:
    path = folder / "mutated.log"
    path.write_bytes(text)
    result = import_file(Task(path=path, store=folder / "store", given=Facts(), pattern=None, targets=TARGETS))
    if result.run_id is None:
        assert result.reason
        return
    row = read_run(folder / "store" / result.run_id)
    assert row is not None
    for protocol in ("paddle-benchmark:mode=0,skip=1", "dlperf", "mean-after:skip=1", "last"):
        described: Any = describe_runs([row], protocol=protocol)
        json.dumps(described, allow_nan=False)


@pytest.mark.parametrize("part", range(4))
def test_mutated_logs(part: int, tmp_path: Path) -> None:
    for seed in range(part, NUM_LOGS, 4):
        text = mutated(seed)
        begin = time.process_time()
        try:
            read_as_stream(text, seed)
            if seed % FULL_EVERY == part:
                import_whole(text, tmp_path)
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error
        assert time.process_time() - begin < MAX_CPU_S, f"seed {seed} takes too long"
