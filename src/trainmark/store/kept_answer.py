"""The last answer of a command, kept for the user: the same question about an unchanged store is answered at once.

The file has one line with the digest of the question and that of the answer, and then the answer. Whatever is wrong
with it, the answer is made again. It is in the user's cache and not in the store, which may come from a stranger.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

import trainmark
from trainmark.cache_folder import own_cache_folder
from trainmark.runfolder.files import read_bounded, write_text
from trainmark.store.index import Store

_MAX_BYTES = 64 << 20
MANY_RUNS = 500
"""Fewer are answered as fast without it."""


def answer_file(environment: Mapping[str, str] = os.environ) -> Path:
    return own_cache_folder(environment) / "answer"


class KeptAnswer:
    def __init__(self, store: Store, question: object) -> None:
        """`question`: all that the answer depends on, beside the store and the program. The store is in sync."""
        self._store, self._question = store, question
        self._key = self._find_key()

    def read(self) -> str | None:
        if self._key is None:
            return None
        with contextlib.suppress(OSError, UnicodeError, RuntimeError):  # RuntimeError: nobody has a home
            head, _, answer = read_bounded(answer_file(), _MAX_BYTES).decode().partition("\n")
            if head == f"{self._key} {_digest(answer)}":
                return answer
        return None

    def write(self, answer: str) -> None:
        """Nothing if the store had changed before its rows were read, or is small, or the cache cannot be written."""
        if self._key is not None and self._key == self._find_key():
            with contextlib.suppress(OSError, RuntimeError):
                answer_file().parent.mkdir(parents=True, exist_ok=True)
                write_text(answer_file(), f"{self._key} {_digest(answer)}\n{answer}", is_private=True)

    def _find_key(self) -> str | None:
        runs = self._store.read_digests()
        if len(runs) < MANY_RUNS:
            return None
        return _digest(repr((_program(), str(self._store.root.resolve()), self._question, runs)))


@functools.cache
def _program() -> list[tuple[str, int, int]]:
    """Every file of it, by size and time of change: any edit may change the answer."""
    found = []
    for folder, _, names in os.walk(Path(trainmark.__file__).parent):
        for name in names:
            if name.endswith(".py"):
                stat = Path(folder, name).stat()
                found.append((f"{folder}/{name}", stat.st_size, stat.st_mtime_ns))
    return sorted(found)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
