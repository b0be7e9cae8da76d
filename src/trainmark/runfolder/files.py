"""The run folder: the names of its files, and how they are written and read safely.

    run.json      the cell, resolved              rank<k>.jsonl  append-only records, one JSON object a line
    command.json  argv, environment, launcher     output.log     what the processes printed
    env.json      machine and software            exit.json      outcome, with the reason and where to look
    log.jsonl     records read from the output of a command that writes none itself
    rank<k>.observed.jsonl  steps of a command's process, seen from inside; observer.jsonl: which processes were seen
    checkpoint    where a training can resume, replaced from time to time, in the framework's own format
    stop          asks the worker to end at the next block of steps; written by the controller
    lease         rewritten every second while the controller lives, for processes that its signals do not reach
    rank<k>.stacks  what each thread was doing when a step took far too long; stacks.txt for a command

Every file but the append-only ones is written with `replacing`, and every file is read with `open_regular`.

Standard library only: the worker writes these inside any vendor container, and everything else reads them.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import re
import shutil
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

SCHEMA = 1
RUN_FILE = "run.json"
COMMAND_FILE = "command.json"
ENVIRONMENT_FILE = "env.json"
EXIT_FILE = "exit.json"
ACCEPTED_FILE = "accepted.json"
"""Written after the end, by `trainmark accept`; not sealed."""
OUTPUT_FILE = "output.log"
LOG_FILE = "log.jsonl"
CHECKPOINT_FILE = "checkpoint"
_OLDER_CHECKPOINT_FILE = "checkpoint.pt"
"""Up to commit 7cd78e8."""
STOP_FILE = "stop"
LEASE_FILE = "lease"
NETWORK_REQUEST_FILE = "network-request.json"
NETWORK_FILE = "network.json"
"""Of `doctor --network`: what to measure, and what was measured. Not part of a run."""
STACKS_FILE = "stacks.txt"
STEPS_FILE = "steps.npy"
"""The steps of an imported log; see `step_table.py`."""
OBSERVER_FILE = "observer.jsonl"
"""A line for each process of a command that the observer saw, each framework that it imported, and each failure."""

Json = dict[str, Any]

_RANK = re.compile(r"rank(0|[1-9][0-9]{0,8})\.jsonl")
_OBSERVED = re.compile(r"rank(0|[1-9][0-9]{0,8})\.observed\.jsonl")
_MAX_JSON_BYTES = 16 << 20
"""Our own documents have some kilobytes; the plan of a large sweep has a few megabytes."""
_FEW_BYTES = 1 << 20
_MAX_ITEMS = 500_000
"""Of a larger JSON document; a plan of 10,000 runs has 200,000."""
_CHUNK_BYTES = 1 << 18
MAX_LINE_BYTES = 16 << 20
"""A record has some hundred bytes; what is longer is not one."""


def rank_file(rank: int) -> str:
    return f"rank{rank}.jsonl"


def rank_of(name: str) -> int | None:
    """The rank whose file has this name; None for another file."""
    match = _RANK.fullmatch(name)
    return int(match[1]) if match is not None else None


def rank_files(folder: Path) -> list[Path]:
    """All that are there, by rank."""
    with os.scandir(folder) as entries:
        ranks = [rank for entry in entries if (rank := rank_of(entry.name)) is not None]
    return [folder / rank_file(rank) for rank in sorted(ranks)]


def observed_files(folder: Path) -> list[Path]:
    """The steps that were seen inside the processes of a command, by rank."""
    with os.scandir(folder) as entries:
        found = [match for entry in entries if (match := _OBSERVED.fullmatch(entry.name))]
    return [folder / match[0] for match in sorted(found, key=lambda match: int(match[1]))]


def is_observed_file(name: str) -> bool:
    return _OBSERVED.fullmatch(name) is not None


def stacks_file(rank: int) -> str:
    return f"rank{rank}.stacks"


def is_run(folder: Path) -> bool:
    """Whether a folder is that of a run: programs of others write files of the same name."""
    return "cell" in (read_json(folder / RUN_FILE) or {})


def find_checkpoint(folder: Path) -> Path | None:
    """Of this version or an older one; None where the training cannot be resumed."""
    paths = (folder / name for name in (CHECKPOINT_FILE, _OLDER_CHECKPOINT_FILE))
    return next((path for path in paths if path.is_file()), None)


# -- writing -----------------------------------------------------------------------------------------------------------


class _Draft:
    """A file that is written beside its target and then renamed over it.

    Links are followed, and an existing file keeps its mode and owner. A device, a pipe or an open descriptor
    (/dev/stdout, /dev/fd/3) is written into, never replaced.
    """

    def __init__(self, path: Path, *, is_private: bool = False) -> None:
        """`is_private`: a new file is for its owner only."""
        self._is_stream = _is_stream(path)
        self._mode = _private_mode(path.parent) if is_private else 0o666
        self._target = path if self._is_stream else Path(os.path.realpath(path))
        self._beside = self._target.with_name(f".{self._target.name}.{os.getpid()}-{os.urandom(4).hex()}")

    @contextlib.contextmanager
    def open(self, *, is_forced: bool) -> Iterator[BinaryIO]:
        """`is_forced`: to disk, so that a power failure cannot leave an empty file under the final name."""
        path, flags = self._beside, os.O_CREAT | os.O_EXCL
        if self._is_stream:
            path, flags = self._target, os.O_APPEND | os.O_NOCTTY
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CLOEXEC | flags, self._mode), "wb") as file:
            if not self._is_stream:
                _keep_mode(self._target, file.fileno())
            elif stat.S_ISREG(os.fstat(file.fileno()).st_mode) and not _names_descriptor(self._target):
                raise OSError(errno.EAGAIN, "it was replaced while it was opened", str(self._target))
            yield file
            file.flush()
            if is_forced and not self._is_stream:
                os.fsync(file.fileno())

    def publish(self) -> None:
        if not self._is_stream:
            self._beside.replace(self._target)

    def discard(self) -> None:
        with contextlib.suppress(OSError):
            self._beside.unlink()


@contextlib.contextmanager
def replacing(path: Path, *, is_private: bool = False) -> Iterator[BinaryIO]:
    """A file to write, which appears at `path` whole when the block ends, or not at all when it raises."""
    draft = _Draft(path, is_private=is_private)
    try:
        with draft.open(is_forced=True) as file:
            yield file
        draft.publish()
    except BaseException:
        draft.discard()
        raise


def write_all(contents: Mapping[Path, str | bytes | Path]) -> None:
    """Texts, bytes, and copies of regular files: all of them or none. An OSError names the file it is about."""
    drafts = {path: _Draft(path) for path in contents}
    try:
        for path, content in contents.items():
            with _naming(path), drafts[path].open(is_forced=False) as file:
                if isinstance(content, str):
                    file.write(content.encode(errors="backslashreplace"))
                elif isinstance(content, bytes):
                    file.write(content)
                else:
                    with open_regular(content) as source:
                        shutil.copyfileobj(source, file)
        for path, draft in drafts.items():
            with _naming(path):
                draft.publish()
    finally:
        for draft in drafts.values():
            draft.discard()


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise


def write_text(path: Path, text: str, *, is_private: bool = False) -> None:
    with replacing(path, is_private=is_private) as file:
        file.write(text.encode(errors="backslashreplace"))


def write_json(path: Path, value: Mapping[str, Any], *, is_private: bool = False) -> None:
    """A lone surrogate in a string becomes its JSON escape."""
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n", is_private=is_private)


def folder_mode(store: Path) -> int:
    """Of a new run folder, which holds environments: for its owner only, unless the store is set up for a group."""
    return _private_mode(store) | (0o110 if _is_for_group(store) else 0o100)


def make_private(path: Path) -> None:
    """An empty file for its owner only, unless there is one."""
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _private_mode(path.parent)))


def _private_mode(folder: Path) -> int:
    return 0o660 if _is_for_group(folder) else 0o600


def _is_for_group(folder: Path) -> bool:
    """The set-group-id bit: what is made inside belongs to the group of the folder."""
    try:
        return bool(folder.stat().st_mode & stat.S_ISGID)
    except OSError:
        return False


def _is_stream(path: Path) -> bool:
    """Exists, but is neither a regular file nor a folder; or names a descriptor of a process."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        if error.errno == errno.ELOOP:  # a link to itself leads to no file that could be written
            raise
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)) or _names_descriptor(path)


def _names_descriptor(path: Path) -> bool:
    """Replacing the file behind /dev/stdout would lose what a shell has appended to it, and appends later."""
    for _ in range(40):
        if not path.is_symlink():
            return False
        if re.fullmatch(r"/proc/[^/]+(/task/[^/]+)?/fd", os.path.realpath(path.parent)):
            return True
        path = path.parent / path.readlink()
    return False


def _keep_mode(target: Path, descriptor: int) -> None:
    with contextlib.suppress(OSError):
        before = target.stat()
        os.fchmod(descriptor, stat.S_IMODE(before.st_mode))
        if (before.st_uid, before.st_gid) != (os.geteuid(), os.getegid()):
            os.fchown(descriptor, before.st_uid, before.st_gid)


# -- reading -----------------------------------------------------------------------------------------------------------


class NotRegularError(OSError):
    """A folder, pipe, socket or device where a file was expected."""


def open_regular(path: Path) -> io.BufferedReader:
    """Any other kind of file is a NotRegularError: a pipe would block the reader, and a device may never end."""
    _refuse_special(path, path.stat().st_mode)  # before it is opened: opening a device can have effects
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        _refuse_special(path, os.fstat(descriptor).st_mode)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def _refuse_special(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise NotRegularError(errno.EINVAL, "not a regular file", str(path))


def read_bounded(path: Path, max_bytes: int) -> bytes:
    """The content of a regular file; a larger one is an OSError."""
    with open_regular(path) as file:
        num_bytes = os.fstat(file.fileno()).st_size
        if num_bytes > max_bytes:
            raise OSError(errno.EFBIG, f"larger than {max_bytes} bytes", str(path))
        return file.read(num_bytes)  # without a size that is far too large, which would be allocated first


def can_decode(data: bytes) -> bool:
    """Whether its JSON needs little memory: 16 MB of `{},{},...` would need 900 MB."""
    return len(data) <= _FEW_BYTES or sum(map(data.count, (b",", b"{", b"["))) <= _MAX_ITEMS


def read_json(path: Path) -> Json | None:
    """None if there is no regular file of a reasonable size with a JSON object in it."""
    try:
        data = read_bounded(path, _MAX_JSON_BYTES)
        value = json.loads(data.decode("utf-8", errors="replace")) if can_decode(data) else None
    except (OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def read_blocks(path: Path) -> Iterator[bytes]:
    """The lines of a regular file, of which another kind has none: many at a time, without the last line end.

    Ends at a line that is too long for a record.
    """
    if not path.is_file():
        return
    with open_regular(path) as file:
        rest = b""
        while (chunk := file.read(_CHUNK_BYTES)) and len(rest) < MAX_LINE_BYTES:
            end = chunk.rfind(b"\n")
            if end < 0:
                rest += chunk
                continue
            yield rest + chunk[:end]
            rest = chunk[end + 1 :]
    if rest and len(rest) < MAX_LINE_BYTES:
        yield rest


def read_lines(path: Path, *, containing: bytes = b"") -> Iterator[bytes]:
    """As `read_blocks`, one by one: only those that contain something."""
    for block in read_blocks(path):
        if containing in block:
            yield from (line for line in block.split(b"\n") if containing in line)


def read_end(path: Path, num_bytes: int) -> str:
    """The end of a text file; empty if it cannot be read."""
    try:
        with open_regular(path) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - num_bytes))
            return file.read(num_bytes).decode("utf-8", errors="replace")
    except OSError:
        return ""
