"""Downloads parts in parallel, each in ranges if the server supports them, with retries; resumes earlier downloads."""

from __future__ import annotations

import copy
import http.client
import os
import queue
import random
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial as partial_
from pathlib import Path
from typing import TypeVar

from trainmark.datasets.fetch.partial import (
    Part,
    State,
    begin_part,
    can_resume,
    is_unchanged,
    load_state,
    part_file,
    save_state,
    state_file,
)
from trainmark.datasets.fetch.request import Address, OnBytes
from trainmark.datasets.fetch.server import ChangedError, Server, TransientError, judge_failure
from trainmark.errors import DataError
from trainmark.units import format_bytes

_READ_BYTES = 2**18
_LOOK_S = 0.1
_SAVE_S = 1.0
_MAX_RESTARTS = 3
_MAX_PAUSE_S = 30.0

Answer = TypeVar("Answer")


@dataclass(frozen=True, kw_only=True)
class Effort:
    """Connections, retries and time-outs."""

    num_connections: int = 4
    num_tries: int = 6
    """Attempts in a row without receiving a byte."""

    pause_s: float = 1.0
    """Before the second attempt; doubled before each further one."""

    timeout_s: float = 30.0
    """Without receiving anything."""

    chunk_bytes: int | None = None
    """None: depends on the size."""


def download(
    addresses: Sequence[Address],
    partial: Path,
    *,
    effort: Effort,
    has_checksum: bool,
    on_bytes: OnBytes,
    say: Callable[[str], None],
) -> State:
    """Leaves complete parts and their state on disk; after a failure, what was received so far."""
    server = Server(timeout_s=effort.timeout_s)
    state = load_state(state_file(partial), [address.shown for address in addresses])
    for _ in range(_MAX_RESTARTS):
        # Complete parts are verified by the checksum, without asking the server.
        if state is None or not has_checksum or not _is_all_there(partial, state):
            state = _plan(server, addresses, partial, state, effort=effort, has_checksum=has_checksum, say=say)
            _refuse_no_space(partial, state)
        try:
            _Crew(server, addresses, partial, state, effort).work(on_bytes)
        except ChangedError:
            state = copy.deepcopy(state)  # threads of the previous crew may still hold theirs
            continue
        return state
    raise DataError(
        f"cannot fetch {addresses[0].shown}",
        why=f"it changed on the server during each of {_MAX_RESTARTS} downloads",
        hint="try again later, or with --connections 1",
    )


def _is_all_there(partial: Path, state: State) -> bool:
    """Whether everything is downloaded, so that only joining is left."""
    files = {partial: state.joined_bytes}
    files |= {part_file(partial, i): state.parts[i].num_done for i in range(state.num_joined, len(state.parts))}
    is_there = all(file.is_file() and file.stat().st_size >= size for file, size in files.items())
    return is_there and all(part.is_done for part in state.parts)


def _plan(
    server: Server,
    addresses: Sequence[Address],
    partial: Path,
    before: State | None,
    *,
    effort: Effort,
    has_checksum: bool,
    say: Callable[[str], None],
) -> State:
    resources = [_with_retries(partial_(server.probe, address), address, effort) for address in addresses]
    if before is not None and _is_all_there(partial, before):
        pairs = zip(before.parts, resources, strict=True)
        if all(is_unchanged(part, now, has_checksum=has_checksum) for part, now in pairs):
            return before
    parts = []
    for index, (address, now) in enumerate(zip(addresses, resources, strict=True)):
        old = before.parts[index] if before is not None else None
        if old is not None and can_resume(old, now, part_file(partial, index), has_checksum=has_checksum):
            parts.append(old)
            continue
        if old is not None and old.num_done:
            say(f"{address.shown}: cannot resume (the file changed, or the server does not support ranges); restarting")
        parts.append(
            begin_part(address.shown, now, num_connections=effort.num_connections, chunk_bytes=effort.chunk_bytes)
        )
        _create_empty(part_file(partial, index))
    state = State(parts=parts)
    save_state(state_file(partial), state)
    return state


def _create_empty(file: Path) -> None:
    """Creates a new file instead of truncating: threads of a previous crew may still have the old one open."""
    file.unlink(missing_ok=True)
    file.open("xb").close()


def _refuse_no_space(partial: Path, state: State) -> None:
    missing = sum((part.resource.num_bytes or 0) - part.num_done for part in state.parts if not part.is_done)
    # While parts are joined, one of them needs its space twice.
    twice = max((part.resource.num_bytes or 0 for part in state.parts[state.num_joined :]), default=0)
    free = shutil.disk_usage(partial.parent).free
    if missing + twice > free:
        raise DataError(
            f"not enough space in {partial.parent}",
            why=f"{format_bytes(missing + twice)} needed, {format_bytes(free)} free",
            hint="free some space, or pass --output on another disk",
        )


def _with_retries(ask: Callable[[], Answer], address: Address, effort: Effort) -> Answer:
    """Retries temporary errors; a refused connection is reported at once, because no server is running."""
    for failures in range(1, effort.num_tries + 1):
        try:
            return ask()
        except TransientError as error:
            if error.is_refused or failures == effort.num_tries:
                raise _gave_up(address, error, failures) from error
            time.sleep(_pause(effort, failures, error))
    raise AssertionError("the loop returns or raises")


def _pause(effort: Effort, failures: int, error: TransientError) -> float:
    if error.retry_after_s is not None:
        return error.retry_after_s
    doubled: float = effort.pause_s * 2.0 ** (failures - 1)
    return min(doubled, _MAX_PAUSE_S) * random.uniform(0.75, 1.25)


def _gave_up(address: Address, error: TransientError, failures: int) -> DataError:
    tries = "" if failures == 1 else f", {failures} attempts"
    hint = "check the URL and the network, then run the same command again to resume"
    return DataError(f"cannot fetch {address.shown}", why=f"{error}{tries}", hint=hint)


class _StoppedError(Exception):
    """The crew was stopped; data that its threads still receive is discarded."""


class _Crew:
    """Threads that take chunks from one queue. They are daemons, so that Ctrl-C does not wait for a silent server.

    A thread may block in a read long after its crew was stopped, so each write first checks that it is still allowed.
    """

    def __init__(
        self, server: Server, addresses: Sequence[Address], partial: Path, state: State, effort: Effort
    ) -> None:
        self._server, self._addresses, self._partial = server, addresses, partial
        self._state, self._effort = state, effort
        self._stop = threading.Event()
        self._writing = threading.Lock()
        self._failure: Exception | None = None
        self._todo: queue.SimpleQueue[tuple[int, int]] = queue.SimpleQueue()

    def work(self, on_bytes: OnBytes) -> None:
        chunks = [(i, chunk) for i, part in enumerate(self._state.parts) for chunk in range(len(part.done))]
        for i, chunk in chunks:
            if not self._state.parts[i].is_chunk_done(chunk):
                self._todo.put((i, chunk))
        sizes = [part.resource.num_bytes for part in self._state.parts]
        total = None if None in sizes else sum(size or 0 for size in sizes)
        num_threads = min(self._effort.num_connections, self._todo.qsize())
        threads = [threading.Thread(target=self._run, daemon=True) for _ in range(num_threads)]
        saved = 0.0
        try:
            for thread in threads:
                thread.start()
            while any(thread.is_alive() for thread in threads) and self._failure is None:
                self._stop.wait(_LOOK_S)
                on_bytes(sum(part.num_done for part in self._state.parts), total)
                if time.monotonic() - saved > _SAVE_S:
                    save_state(state_file(self._partial), self._state)
                    saved = time.monotonic()
        finally:
            with self._writing:  # from now on no thread changes the files or the state
                self._stop.set()
            for thread in threads:
                thread.join(timeout=1.0)
            save_state(state_file(self._partial), self._state)
        if self._failure is not None:
            raise self._failure
        on_bytes(sum(part.num_done for part in self._state.parts), total)

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                i, chunk = self._todo.get_nowait()
                self._fill(self._addresses[i], self._state.parts[i], chunk, part_file(self._partial, i))
        except (queue.Empty, _StoppedError):
            return
        except OSError as error:
            why = error.strerror or str(error)
            hint = "free some space or fix this, then run the same command again to resume"
            self._fail(DataError(f"{self._partial} cannot be written", why=why, hint=hint))
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self._failure = self._failure or error
        self._stop.set()

    @contextmanager
    def _may_write(self) -> Iterator[None]:
        with self._writing:
            if self._stop.is_set():
                raise _StoppedError
            yield

    def _fill(self, address: Address, part: Part, chunk: int, file: Path) -> None:
        failures = 0
        descriptor = os.open(file, os.O_RDWR)
        try:
            while not part.is_chunk_done(chunk) and not self._stop.is_set():
                before = part.done[chunk]
                try:
                    self._receive(address, part, chunk, descriptor)
                except TransientError as error:
                    # Without ranges each attempt starts from zero, so received bytes are not progress.
                    is_further = part.chunk_bytes is not None and part.done[chunk] > before
                    failures = 1 if is_further else failures + 1
                    if failures >= self._effort.num_tries:
                        raise _gave_up(address, error, failures) from error
                    self._stop.wait(_pause(self._effort, failures, error))
        finally:
            os.close(descriptor)

    def _receive(self, address: Address, part: Part, chunk: int, descriptor: int) -> None:
        first, end = part.span(chunk)
        if part.chunk_bytes is None or end is None:
            with self._may_write():
                part.done[chunk] = 0
                os.truncate(descriptor, 0)
            response = self._server.ask_whole(address, part.resource)
        else:
            start = first + part.done[chunk]
            response = self._server.ask_range(address, part.resource, start=start, end=end)
        with response:
            while block := self._read(address, response):
                room = None if end is None else end - first - part.done[chunk]
                if room is not None and len(block) > room:
                    raise ChangedError
                with self._may_write():
                    _write_all(descriptor, block, first + part.done[chunk])
                    part.done[chunk] += len(block)
        if end is None:
            with self._may_write():
                part.is_ended = True
        elif not part.is_chunk_done(chunk):
            raise TransientError("the server closed the connection early")

    def _read(self, address: Address, response: http.client.HTTPResponse) -> bytes:
        try:
            return response.read1(_READ_BYTES)
        except (OSError, http.client.HTTPException) as error:
            raise judge_failure(address, error) from None


def _write_all(descriptor: int, block: bytes, offset: int) -> None:
    rest = memoryview(block)
    while rest:
        written = os.pwrite(descriptor, rest, offset)
        rest, offset = rest[written:], offset + written
