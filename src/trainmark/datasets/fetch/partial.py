"""What has come of a file so far. The state is kept beside it as JSON, so that an interrupted download can resume."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from trainmark.datasets.fetch.request import OnBytes
from trainmark.datasets.fetch.server import Resource
from trainmark.errors import DataError
from trainmark.runfolder.files import write_json

_SCHEMA = 1
_MIN_CHUNK_BYTES, _MAX_CHUNK_BYTES = 2**20, 2**26
_MAX_NUM_CHUNKS = 10_000  # a server may state any size
_CHUNKS_PER_CONNECTION = 4  # so that the connections finish at about the same time


@dataclass(kw_only=True)
class Part:
    """The file of one URL. Threads fill its chunks in parallel, each chunk from its start."""

    shown: str
    resource: Resource
    chunk_bytes: int | None
    """None if the server does not support ranges or does not state the size; then there is one chunk."""

    done: list[int] = field(default_factory=lambda: [0])
    """Bytes received of each chunk."""

    is_ended: bool = False
    """For a part of unknown size: whether it is complete."""

    def span(self, chunk: int) -> tuple[int, int | None]:
        """Offset of the first byte, and of the end if it is known."""
        if self.chunk_bytes is None:
            return 0, self.resource.num_bytes
        start = chunk * self.chunk_bytes
        return start, min(start + self.chunk_bytes, self.resource.num_bytes or 0)

    def is_chunk_done(self, chunk: int) -> bool:
        start, end = self.span(chunk)
        return self.is_ended if end is None else self.done[chunk] == end - start

    @property
    def is_done(self) -> bool:
        return all(self.is_chunk_done(chunk) for chunk in range(len(self.done)))

    @property
    def num_done(self) -> int:
        return sum(self.done)


@dataclass(kw_only=True)
class State:
    parts: list[Part]
    num_joined: int = 1
    """Number of parts in the partial file; the first is downloaded into it."""

    @property
    def joined_bytes(self) -> int:
        return sum(part.num_done for part in self.parts[: self.num_joined])


def part_file(partial: Path, index: int) -> Path:
    """The first part is downloaded into the partial file itself, the others into files beside it."""
    return partial if index == 0 else partial.with_name(f"{partial.name}.{index}")


def state_file(partial: Path) -> Path:
    return partial.with_name(partial.name + ".json")


def begin_part(shown: str, resource: Resource, *, num_connections: int, chunk_bytes: int | None = None) -> Part:
    size = resource.num_bytes
    if not resource.has_ranges or not size:
        return Part(shown=shown, resource=resource, chunk_bytes=None)
    if chunk_bytes is None:
        even = -(-size // (num_connections * _CHUNKS_PER_CONNECTION))
        chunk_bytes = max(min(max(even, _MIN_CHUNK_BYTES), _MAX_CHUNK_BYTES), size // _MAX_NUM_CHUNKS)
    return Part(shown=shown, resource=resource, chunk_bytes=chunk_bytes, done=[0] * -(-size // chunk_bytes))


def is_unchanged(part: Part, now: Resource, *, has_checksum: bool) -> bool:
    """Without ETag and Last-Modified another file could have the same size: then only a checksum can tell."""
    return part.resource.is_same(now) and (now.has_version or has_checksum)


def can_resume(part: Part, now: Resource, file: Path, *, has_checksum: bool) -> bool:
    """Whether the bytes on disk belong to the file that the server has now, so that the download can resume."""
    if not is_unchanged(part, now, has_checksum=has_checksum):
        return False
    return file.is_file() and file.stat().st_size >= _needed_bytes(part) and (part.is_done or now.has_ranges)


def _needed_bytes(part: Part) -> int:
    return max((part.span(chunk)[0] + done for chunk, done in enumerate(part.done) if done), default=0)


def save_state(path: Path, state: State) -> None:
    write_json(path, {"schema": _SCHEMA, **asdict(state)})


def load_state(path: Path, urls_shown: list[str]) -> State | None:
    """None if there is no valid state for these URLs: then the download restarts."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        parts = [_parse_part(item) for item in document["parts"]]
        state = State(parts=parts, num_joined=int(document["num_joined"]))
        is_ours = document["schema"] == _SCHEMA and [part.shown for part in parts] == urls_shown
    except (OSError, ValueError, KeyError, TypeError, ZeroDivisionError):
        return None
    is_joining_all = state.num_joined == 1 or all(part.is_done for part in parts)
    return state if is_ours and 1 <= state.num_joined <= len(parts) and is_joining_all else None


def _parse_part(item: dict[str, Any]) -> Part:
    part = Part(**{**item, "resource": Resource(**item["resource"])})
    expected = begin_part(part.shown, part.resource, num_connections=1, chunk_bytes=part.chunk_bytes)
    spans = [part.span(chunk) for chunk in range(len(part.done))]
    fits = [
        done >= 0 and (end is None or done <= end - start) for done, (start, end) in zip(part.done, spans, strict=True)
    ]
    if len(part.done) != len(expected.done) or not all(fits):
        raise ValueError("not a state that this program wrote")
    return part


_COPY_BYTES = 2**23


def join_parts(partial: Path, state: State, on_bytes: OnBytes) -> None:
    """Appends the parts in order. Resumes an interrupted join at the same part.

    Each part is removed after it was appended, so that only one part at a time needs its space twice.
    """
    total = sum(part.num_done for part in state.parts)
    try:
        with partial.open("r+b") as joined:
            while state.num_joined < len(state.parts):
                joined.truncate(state.joined_bytes)
                joined.seek(0, os.SEEK_END)
                source = part_file(partial, state.num_joined)
                with source.open("rb") as part:
                    shutil.copyfileobj(part, joined, _COPY_BYTES)
                joined.flush()
                state.num_joined += 1
                save_state(state_file(partial), state)
                source.unlink()
                on_bytes(state.joined_bytes, total)
            joined.truncate(state.joined_bytes)
            os.fsync(joined.fileno())
    except OSError as error:
        raise DataError(
            f"cannot join the parts of {partial}",
            why=error.strerror or str(error),
            hint="free some space or fix this, then run the same command again to resume",
        ) from error
