"""A checksum that a publisher states, and whether a file has it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from trainmark.errors import DataError
from trainmark.units import format_count

Algorithm = Literal["sha256", "md5"]
OnBytes = Callable[[int, int | None], None]
"""Called with the bytes done so far and, if known, of how many."""

_NUM_DIGITS: dict[Algorithm, int] = {"sha256": 64, "md5": 32}
_BLOCK_BYTES = 2**20


@dataclass(frozen=True, kw_only=True)
class Checksum:
    algorithm: Algorithm
    digits: str
    """Lower case."""


def parse_checksum(algorithm: Algorithm, text: str) -> Checksum:
    num_digits = _NUM_DIGITS[algorithm]
    if not re.fullmatch(rf"[0-9a-fA-F]{{{num_digits}}}", text):
        raise DataError(
            f"{text!r} is no {algorithm} checksum",
            why=f"one has {num_digits} hexadecimal digits; this has {format_count(len(text), 'characters')}",
            hint="copy it again from where the data set is published",
        )
    return Checksum(algorithm=algorithm, digits=text.lower())


def hash_file(path: Path, algorithms: set[Algorithm], on_bytes: OnBytes) -> dict[Algorithm, str]:
    """All in one pass over the file."""
    # MD5 finds damage, which is all that is asked of it; whoever fears forgery gives SHA-256.
    hashes = {name: hashlib.new(name, usedforsecurity=False) for name in algorithms}
    total, done = path.stat().st_size, 0
    buffer = memoryview(bytearray(_BLOCK_BYTES))
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(buffer):
            for hash_ in hashes.values():
                hash_.update(buffer[:count])
            done += count
            on_bytes(done, total)
    return {name: hash_.hexdigest() for name, hash_ in hashes.items()}
