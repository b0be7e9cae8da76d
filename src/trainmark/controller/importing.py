"""Imports logs of other training programs: finds them, skips known content, reads the rest, indexes the runs."""

from __future__ import annotations

import contextlib
import multiprocessing
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from trainmark.errors import InputError
from trainmark.host import num_cores
from trainmark.logs.finding import FoundFile, Skipped, find_files
from trainmark.logs.importing import NO_DIALECT, Imported, KnownLogs, Task, import_file
from trainmark.logs.opening import digest_of
from trainmark.logs.record import Facts
from trainmark.store.index import Store, Tell
from trainmark.store.rows import RunRow
from trainmark.units import format_count
from trainmark.workloads.registry import load_cards

Advance = Callable[[], object]
ShowProgress = Callable[[int, int], AbstractContextManager[Advance]]
"""From the number of files to read and of those already imported; the function it yields is called for each file."""
_SMALL_BYTES = 32 << 20
"""Less than this is read in this process: starting others would take longer."""
_KNOWN = "known"


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    paths: Sequence[Path]
    given: Facts
    """Facts that the logs lack or have wrong."""
    pattern: Path | None = None
    """TOML file that describes a log format; None: all known ones."""
    workers: int | None = None
    """Number of processes; None: as many as there are cores, if there is enough to read."""


@dataclass(frozen=True, kw_only=True)
class ImportResult:
    rows: list[RunRow]
    """In the order of the files."""
    num_new: int
    num_known: int
    skipped: list[Skipped]
    has_failures: bool
    """A file could not be read."""


def import_logs(options: ImportOptions, store: Store, *, show_progress: ShowProgress, tell: Tell) -> ImportResult:
    files, skipped = find_files(options.paths)
    if not files:
        raise _nothing_found(skipped)
    store.check_writable()
    imported = _import_all(files, options, store, show_progress)
    skipped += [Skipped(path=item.path, reason=item.reason or "") for item in imported if item.run_id is None]
    order = {item.run_id: place for place, item in enumerate(imported) if item.run_id is not None}
    if not order:
        raise _nothing_found(skipped)
    store.sync(tell=tell)
    num_known = sum(item.reason == _KNOWN for item in imported)
    return ImportResult(
        rows=sorted(store.rows(wanted=order.__contains__), key=lambda row: order[row.id]),
        num_new=sum(item.run_id is not None for item in imported) - num_known,
        num_known=num_known,
        skipped=skipped,
        has_failures=any(item.is_failure for item in imported),
    )


def _nothing_found(skipped: Sequence[Skipped]) -> InputError:
    hint = "pass log files, or folders of them"
    if not skipped:
        return InputError("no file to import", hint=hint)
    if any(item.reason == NO_DIALECT for item in skipped):
        hint = "`trainmark list dialects` shows the known log formats; --pattern FILE describes one of your own"
    named = "; ".join(f"{item.path}: {item.reason}" for item in skipped[:3])
    return InputError(f"no log found in {format_count(len(skipped), 'files')}", why=named, hint=hint)


def _import_all(
    files: Sequence[FoundFile], options: ImportOptions, store: Store, show_progress: ShowProgress
) -> list[Imported]:
    """Each run is indexed as soon as its log is read."""
    known = KnownLogs(store.root)
    firsts = {name: card.targets[0] for name, card in load_cards().items()}
    targets = {name: {"metric": target.metric, "value": target.value} for name, target in firsts.items()}
    done: dict[str, Imported] = {}
    todo: list[tuple[Task, int]] = []
    for file, twin in _with_twins(files):
        path = str(file.path)
        task = Task(path=file.path, store=store.root, given=options.given, pattern=options.pattern, targets=targets)
        if twin is not None:
            done[path] = Imported(path=path, run_id=None, reason=f"the same content as {twin}")
        elif (run_id := known.find(task, file.num_bytes)) is not None:
            done[path] = Imported(path=path, run_id=run_id, reason=_KNOWN)
        else:
            todo.append((task, file.num_bytes))
    with show_progress(len(todo), len(done)) as advance:
        for result in _read(todo, options.workers):
            done[result.path] = result
            if result.run_id is not None:
                store.index(store.root / result.run_id)
                if older := known.drop_older(result):
                    store.forget(older)
            advance()
    return [done[str(file.path)] for file in files]


def _with_twins(files: Sequence[FoundFile]) -> Iterator[tuple[FoundFile, Path | None]]:
    """Each file, and an earlier one with the same content; only files of the same size are compared."""
    num_of_size = Counter(file.num_bytes for file in files)
    seen: dict[str, Path] = {}
    for file in files:
        digest = None
        if num_of_size[file.num_bytes] > 1:
            with contextlib.suppress(OSError):  # the reader will say what is wrong
                digest = digest_of(file.path)
        yield file, seen.get(digest) if digest else None
        if digest:
            seen.setdefault(digest, file.path)


def _read(todo: Sequence[tuple[Task, int]], workers: int | None) -> Iterator[Imported]:
    """In several processes if that is faster; large files first, so that none is left for the end."""
    num_workers = min(workers or num_cores(), len(todo))
    if num_workers <= 1 or (workers is None and sum(num_bytes for _, num_bytes in todo) < _SMALL_BYTES):
        yield from (import_file(task) for task, _ in todo)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(num_workers, mp_context=context) as pool:
        ordered = sorted(todo, key=lambda item: -item[1])
        try:
            for future in as_completed([pool.submit(import_file, task) for task, _ in ordered]):
                yield future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
