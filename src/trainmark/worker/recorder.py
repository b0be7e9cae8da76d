"""Append records to rank<k>.jsonl in a separate thread, so that the loop never waits for the disk."""

from __future__ import annotations

import contextlib
import math
import os
import queue
import threading
import time
from pathlib import Path
from typing import Any, BinaryIO

from trainmark.runfolder.records import Kind, encode_record

_FLUSH_EVERY_S = 2.0


class Recorder:
    def __init__(self, path: Path, *, is_read_from_afar: bool = False) -> None:
        """`is_read_from_afar`: by another machine, which sees what was written only after a flush or half a minute."""
        self.failure: str | None = None
        """Why writing failed (a full disk); the loop then ends the run with this reason."""
        self.is_stepping = False
        """Whether steps are being timed now, as opposed to set-up or a pause. Read by telemetry."""
        self._queue: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._file = path.open("ab", buffering=0)
        self._flush_every_s = _FLUSH_EVERY_S if is_read_from_afar else math.inf
        self._flushed_s = time.monotonic()
        self._thread = threading.Thread(target=self._work, name="recorder", daemon=True)
        self._thread.start()

    def write(self, record: dict[str, Any]) -> None:
        record["unix_s"] = time.time()
        if record["kind"] in (Kind.STEP, Kind.PHASE):
            self.is_stepping = record["kind"] == Kind.STEP
        self._queue.put(record)

    def close(self) -> None:
        self._queue.put(None)
        self._thread.join(timeout=30)
        self._file.close()

    def _work(self) -> None:
        while True:
            batch = [self._queue.get()]
            while not self._queue.empty():
                batch.append(self._queue.get())
            self._write_lines([record for record in batch if record is not None])
            if None in batch:
                return
            # Steps come in bursts at the ends of blocks: one write per burst instead of one per record.
            time.sleep(0.02)

    def _write_lines(self, batch: list[dict[str, Any]]) -> None:
        """Any error becomes `failure`: a thread that died would look like a hang of the run."""
        lines = []
        problem = None
        for record in batch:
            try:
                lines.append(encode_record(record))
            except (TypeError, ValueError) as error:
                problem = f"{type(error).__name__}: {error}"
        if lines and self.failure is None:
            self.failure = _append(self._file, b"".join(lines))
            if time.monotonic() - self._flushed_s > self._flush_every_s:
                self._flushed_s = time.monotonic()
                with contextlib.suppress(OSError):
                    os.fdatasync(self._file.fileno())
        self.failure = self.failure or problem


def _append(file: BinaryIO, lines: bytes) -> str | None:
    """Why not everything was written, or None. A raw file may take only a part when the disk fills up."""
    try:
        view = memoryview(lines)
        while view:
            view = view[file.write(view) :]
    except OSError as error:
        return error.strerror or str(error)
    return None
