"""The records of our worker while it runs: of all its ranks, with what they say about a hang and about the end."""

from __future__ import annotations

import os
import statistics
import time
from collections import deque
from collections.abc import Iterable
from pathlib import Path

from trainmark.launch import hang
from trainmark.launch.endings import infer_ends, is_failure
from trainmark.launch.hang import Silent
from trainmark.launch.processes import read_oom_kills
from trainmark.launch.registry import is_direct
from trainmark.messages.message import Message
from trainmark.messages.ranks import no_step, processes_hang
from trainmark.runfolder.document import RunDocument
from trainmark.runfolder.files import (
    COMMAND_FILE,
    OUTPUT_FILE,
    Json,
    rank_file,
    read_end,
    read_json,
    stacks_file,
)
from trainmark.runfolder.records import Kind, Outcome, RecordTail
from trainmark.silence_limit import NUM_RECENT, SilenceLimit

_OTHERS_EVERY_S = 1.0
"""Only rank 0 is polled at full rate: on a network drive every look at a file is a request to its server."""
_LAST_BYTES = 1 << 16
_TEARDOWN_S = 120.0
"""After the `run_end` of all ranks: communication is measured, process groups and loaders are shut down."""


class WorkerSource:
    """Follows the files of all ranks that are visible here. A record of any rank counts: they step together."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._silence_limit = SilenceLimit.of(RunDocument.read(folder))
        self._ranks = {0: _Rank(folder / rank_file(0))}
        self._others_at = self._last_sign = time.monotonic()
        self._num_oom_kills = read_oom_kills()
        self._stuck: list[int] = []
        self._failed: dict[int, Json] = {}
        """Ends that ranks recorded before the others fell silent."""

    def begin(self) -> None:
        self._last_sign = time.monotonic()

    def read_new(self) -> list[Json]:
        """The records of rank 0, each of which stands for all ranks."""
        new = self._ranks[0].read_new()
        now = time.monotonic()
        if now - self._others_at >= _OTHERS_EVERY_S:
            self._others_at = now
            self._read_others()
        self._last_sign = max(self._last_sign, *(rank.last_sign for rank in self._ranks.values()))
        return new

    def quiet_s(self) -> tuple[float, float]:
        """While one rank evaluates or writes a checkpoint, the others wait for it."""
        silence = time.monotonic() - self._last_sign
        if self._have_all_ended():
            return silence, max(_TEARDOWN_S, self._silence_limit.after(self._ranks[0].seconds))
        if any(rank.in_phase for rank in self._ranks.values()):
            return silence, self._silence_limit.setup_s
        return silence, self._silence_limit.after(self._ranks[0].seconds)

    def explain_silence(self, silence_s: float) -> Message:
        self._read_others()
        if self._have_all_ended():
            return processes_hang(seconds=silence_s)
        self._failed = {number: rank.end for number, rank in self._ranks.items() if rank.end and is_failure(rank.end)}
        ranks = [rank.describe(number) for number, rank in sorted(self._ranks.items())]
        states = hang.read_states(self._folder.name)
        host = os.uname().nodename
        culprits = hang.find_culprits(ranks, states, host=host)
        self._stuck = [*culprits, *(number for number in self._ranks if number not in culprits)]
        here = {
            rank.pid: self._folder / stacks_file(rank.rank) for rank in ranks if rank.pid and rank.host in (None, host)
        }
        hang.gather_stacks(states, here)
        seconds = self._ranks[0].seconds
        usual_s = statistics.median(seconds) if seconds else None
        return no_step(seconds=silence_s, usual_s=usual_s, causes=hang.describe(ranks, culprits, states))

    def close(self, returncode: int | None) -> dict[int, Json]:
        self._read_others()
        self._ranks[0].read_new()
        ends = {number: rank.end for number, rank in self._ranks.items() if rank.end is not None}
        if self._failed:
            return ends | {number: {**end, "is_cause": True} for number, end in self._failed.items()}
        if self._stuck:
            return ends | self._stuck_ends()
        inferred = infer_ends(
            ends,
            started={number: rank.describe(number).name for number, rank in self._ranks.items() if rank.has_started},
            has_launcher=not is_direct((read_json(self._folder / COMMAND_FILE) or {}).get("launcher")),
            output=self._read_output(),
            returncode=returncode,
            was_oom_killed=(read_oom_kills() or 0) > (self._num_oom_kills or 0),
        )
        return ends | inferred

    def _read_output(self) -> str:
        """Paddle's launcher prints what rank 0 printed only; the other ranks have files of their own."""
        others = sorted((self._folder / "paddle").glob("workerlog.*"))
        return "\n".join(read_end(path, _LAST_BYTES) for path in (self._folder / OUTPUT_FILE, *others))

    def _have_all_ended(self) -> bool:
        return all(rank.end is not None for rank in self._ranks.values())

    def _stuck_ends(self) -> dict[int, Json]:
        """One record that names the file to look at: the stacks of the rank to blame, else of any rank."""
        files = [stacks_file(number) for number in self._stuck]
        written = (name for name in files if hang.is_written(self._folder / name))
        return {self._stuck[0]: {"kind": Kind.RUN_END, "outcome": Outcome.HANG, "look_at": next(written, None)}}

    def _read_others(self) -> None:
        for number in _rank_numbers(self._folder.glob("rank*.jsonl")):
            if number not in self._ranks:
                self._ranks[number] = _Rank(self._folder / rank_file(number))
        for number, rank in self._ranks.items():
            if number != 0:
                rank.read_new()


class _Rank:
    """What the file of one rank says so far."""

    def __init__(self, path: Path) -> None:
        self._tail = RecordTail(path)
        self._start: Json = {}
        self._last_step: int | None = None
        self.last_sign = -float("inf")
        self.seconds: deque[float] = deque(maxlen=NUM_RECENT)
        self.in_phase = False
        self.end: Json | None = None

    @property
    def has_started(self) -> bool:
        return bool(self._start)

    def read_new(self) -> list[Json]:
        new = self._tail.read_new()
        for record in new:
            self._note(record)
        return new

    def _note(self, record: Json) -> None:
        kind = record["kind"]
        if kind == Kind.TELEMETRY:  # from a thread of its own, which continues while the loop hangs
            return
        self.last_sign = time.monotonic()
        if kind == Kind.STEP:
            self.seconds.append(float(record["seconds"]))
            self._last_step = record.get("step")
            self.in_phase = False
        elif kind == Kind.PHASE:
            self.in_phase = record.get("edge") in ("begin", "progress")
        elif kind == Kind.RUN_START:
            self._start = record
        elif kind == Kind.RUN_END:
            self.in_phase, self.end = False, record

    def describe(self, number: int) -> Silent:
        pid, host = self._start.get("pid"), self._start.get("host")
        return Silent(
            rank=number,
            pid=pid if isinstance(pid, int) else None,
            host=host if isinstance(host, str) else None,
            last_step=self._last_step,
        )


def _rank_numbers(paths: Iterable[Path]) -> list[int]:
    texts = (path.stem.removeprefix("rank") for path in paths)
    return sorted(int(text) for text in texts if text.isdecimal())
