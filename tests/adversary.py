"""Random damage to a store, reproducible from its seed: what a broken disk, a careless person or an attacker may do."""

from __future__ import annotations

import os
import random
import re
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

_SPARSE_BYTES = 1 << 40


def damage(store: Path, chance: random.Random) -> str:
    """Damage one file or folder somehow; returns what was done, for the message of a failure."""
    whole = (path for path in store.rglob("*") if path.is_file() and not path.is_symlink())
    files = sorted(path for path in whole if path.stat().st_size < _SPARSE_BYTES)
    path = chance.choice(files)
    done = chance.choice(_KINDS)
    done(path, files, chance)
    return f"{done.__name__.strip('_')} {path.relative_to(store)}"


def _flip_bits(path: Path, files: list[Path], chance: random.Random) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(min(len(content), chance.choice((1, 1, 2, 8, 64)))):
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)


def _change_digits(path: Path, files: list[Path], chance: random.Random) -> None:
    """Of the same size, and often still valid."""
    content = bytearray(path.read_bytes())
    digits = [place for place, byte in enumerate(content) if chr(byte) in "123456789"]
    for place in chance.sample(digits, min(len(digits), 3)):
        content[place] = ord("1") + (content[place] - ord("1") + 1) % 9
    path.write_bytes(content)


def _cut(path: Path, files: list[Path], chance: random.Random) -> None:
    os.truncate(path, chance.randrange(path.stat().st_size + 1))


def _empty(path: Path, files: list[Path], chance: random.Random) -> None:
    os.truncate(path, 0)


def _append(path: Path, files: list[Path], chance: random.Random) -> None:
    with path.open("ab") as file:
        file.write(chance.choice((b"\0" * 4096, b"{}\n", b'{"kind": "step", "seconds": 1e-9, "samples": 1e9}\n', b"x")))


def _overwrite(path: Path, files: list[Path], chance: random.Random) -> None:
    content = bytearray(path.read_bytes())
    begin, length = chance.randrange(len(content) + 1), chance.choice((1, 16, 512, 4096))
    content[begin : begin + length] = chance.choice((bytes(length), chance.randbytes(length)))
    path.write_bytes(content)


def _shuffle_lines(path: Path, files: list[Path], chance: random.Random) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    chance.shuffle(lines)
    path.write_bytes(b"".join(lines[: chance.randrange(len(lines) + 1)]))


def _delete(path: Path, files: list[Path], chance: random.Random) -> None:
    path.unlink()


def _replace_by_another(path: Path, files: list[Path], chance: random.Random) -> None:
    alike = [other for other in files if other.suffix == path.suffix] if chance.random() < 0.7 else files
    content = chance.choice(alike).read_bytes()
    path.write_bytes(content)


def _make_sparse(path: Path, files: list[Path], chance: random.Random) -> None:
    os.truncate(path, _SPARSE_BYTES)


def _make_special(path: Path, files: list[Path], chance: random.Random) -> None:
    path.unlink()
    chance.choice(_SPECIAL)(path)


def _nest(path: Path, files: list[Path], chance: random.Random) -> None:
    """Deep, huge or repeated values where JSON is expected."""
    deep, huge = (b"[" * 100_000, b'{"a":' * 50_000), b'{"cell": ' + b"9" * 5000 + b"}"
    path.write_bytes(chance.choice((*deep, huge, b'{"a": 1e999999, "a": -0, "b": NaN}')))


def _change_a_value(path: Path, files: list[Path], chance: random.Random) -> None:
    """Of a JSON text: another type where a reader expects one."""
    text = path.read_bytes().decode("latin-1")
    places = list(re.finditer(r'(?<=: )("[^"\n]*"|-?[0-9.]+|null|true|false)', text))
    if places:
        place = chance.choice(places)
        new = chance.choice(('"x"', "-1", "1e308", "[]", "{}", "null", "true", '"\\ud800"', "0", "9" * 400))
        path.write_bytes((text[: place.start()] + new + text[place.end() :]).encode("latin-1"))


def _change_mode(path: Path, files: list[Path], chance: random.Random) -> None:
    path.chmod(chance.choice((0o000, 0o200, 0o444, 0o111)))


def _move_folder(path: Path, files: list[Path], chance: random.Random) -> None:
    folder = path.parent
    if chance.random() < 0.5:
        folder.rename(folder.with_name(f"moved-{folder.name}"))
    else:
        shutil.rmtree(folder)


def _bind_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        here = os.open(".", os.O_RDONLY)
        try:
            os.chdir(path.parent)  # a socket's path may have 107 bytes only
            server.bind(path.name)
        finally:
            os.fchdir(here)
            os.close(here)


_SPECIAL: tuple[Callable[[Path], None], ...] = (
    os.mkfifo,
    Path.mkdir,
    _bind_socket,
    lambda path: path.symlink_to("/dev/zero"),
    lambda path: path.symlink_to("/dev/full"),
    lambda path: path.symlink_to(path.name),
    lambda path: path.symlink_to("gone"),
    lambda path: path.symlink_to("."),
)
_KINDS: tuple[Callable[[Path, list[Path], random.Random], None], ...] = (
    _flip_bits, _flip_bits, _change_digits, _change_digits, _cut, _empty, _append, _overwrite, _shuffle_lines, _delete,
    _replace_by_another, _make_sparse, _make_special, _nest, _change_a_value, _change_a_value, _change_mode,
)  # fmt: skip
