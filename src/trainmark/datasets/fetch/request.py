"""URLs and a checksum as the user gave them: validated, with secrets kept out of all that is shown or stored."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Literal
from urllib.parse import SplitResult, quote, unquote, urlsplit

from trainmark.errors import DataError
from trainmark.units import format_count

_PART_SUFFIX = re.compile(r"[._-](?:part[._-]?)?(?:\d+|[a-z]{2})$", re.IGNORECASE)
_SECRETS = re.compile(r"(?i)(https?://)(?:[^\s/@]*@)?([^\s?#'\"]*)(?:[?#][^\s'\"]*)?")


@dataclass(frozen=True, kw_only=True)
class Address:
    url: str = field(repr=False)
    """Sent to the server. Never shown, because the query may be a signature."""

    shown: str
    """Without user, password and query: for messages and for the saved state."""

    authorization: str | None = field(repr=False)


def parse_address(text: str) -> Address:
    hint = "give a URL that starts with https:// or http://"
    try:
        split = urlsplit(text.strip())
        host, port = split.hostname, split.port
    except ValueError as error:
        raise DataError(f"invalid URL {hide_secrets(text)!r}", why=hide_secrets(str(error)), hint=hint) from None
    if split.scheme not in ("http", "https"):
        why = f"{split.scheme}:// is not supported" if split.scheme else "it does not start with https://"
        raise DataError(f"cannot fetch {hide_secrets(text)!r}", why=why, hint=hint)
    if not host:
        raise DataError(f"invalid URL {hide_secrets(text)!r}", why="no host name", hint=hint)
    try:
        place = host if ":" in host else host.encode("idna").decode()
    except UnicodeError:
        raise DataError(f"invalid URL {hide_secrets(text)!r}", why="invalid host name", hint=hint) from None
    place = (f"[{place}]" if ":" in place else place) + (f":{port}" if port is not None else "")
    shown = f"{split.scheme}://{place}{quote(split.path, safe='/%:@!$&()*+,;=~-._')}"
    query = f"?{quote(split.query, safe='/%:@!$&()*+,;=~-._?')}" if split.query else ""
    return Address(url=shown + query, shown=shown, authorization=_authorization(split))


def _authorization(split: SplitResult) -> str | None:
    if split.username is None:
        return None
    pair = f"{unquote(split.username)}:{unquote(split.password or '')}"
    return "Basic " + base64.b64encode(pair.encode()).decode()


def hide_secrets(text: str) -> str:
    """Removes user, password and query from all URLs in a text."""
    return _SECRETS.sub(r"\1\2", text)


def name_file(addresses: Sequence[Address]) -> str:
    """The file name if the user gave only a folder; parts must have the same name apart from a number."""
    names = [PurePosixPath(unquote(urlsplit(address.shown).path)).name for address in addresses]
    stems = set(names) if len(names) == 1 else {_PART_SUFFIX.sub("", name) for name in names}
    name = stems.pop()
    if stems or not name or name.startswith(".") or "/" in name or not name.isprintable():
        raise DataError(
            "cannot choose a name for the file",
            why="the URL does not end in a file name" if len(names) == 1 else "the names of the parts differ",
            hint="pass --output with a file name",
        )
    return name


Algorithm = Literal["sha256", "md5"]
OnBytes = Callable[[int, int | None], None]
"""Called with the number of bytes done so far and, if known, the total."""

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
            f"invalid {algorithm} checksum {text!r}",
            why=f"expected {num_digits} hexadecimal digits, got {format_count(len(text), 'characters')}",
            hint="copy it again from where the data set is published",
        )
    return Checksum(algorithm=algorithm, digits=text.lower())


def hash_file(path: Path, algorithms: set[Algorithm], on_bytes: OnBytes) -> dict[Algorithm, str]:
    """Computes all checksums in one pass."""
    # MD5 is good enough to find damage; use SHA-256 against forgery.
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
