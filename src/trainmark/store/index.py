"""Run folders indexed in SQL: SQLite beside them by default, any SQLAlchemy URL for a team.

The run folders are the source of truth. A run is indexed when it ends; `sync` adds what is missing (the controller was
killed, a folder was copied in), so losing the index loses nothing. SQLAlchemy is imported only to write.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import shutil
import sqlite3
import sys
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainmark.errors import StoreError
from trainmark.runfolder.files import RUN_FILE, folder_mode, write_json
from trainmark.store import columns
from trainmark.store.columns import DIGEST, RUNS, STEPS, TABLES, Records
from trainmark.store.index_file import DamagedIndexError, FileReader, beside, discard, swap_in
from trainmark.store.rows import Analyser, RunRow, Steps
from trainmark.store.state import read_stamp, read_state, reading_version
from trainmark.units import plain

if TYPE_CHECKING:
    from trainmark.store.database import Database

INDEX_FILE = "index.sqlite"
_UNBORN_S = 3600.0
_BATCH = 100
"""Runs in one transaction of `sync`: an interrupt loses no more than these."""

Tell = Callable[[int, int], None]
"""Called with the number of runs done and the total."""


class Store:
    def __init__(self, root: Path, *, url: str | None = None, analyser: Analyser | None = None) -> None:
        self.root = root
        self._url = url or os.environ.get("TRAINMARK_DB")
        self._analyser = analyser
        self._database: Database | None = None
        self._reader: FileReader | None = None
        self._digests: list[tuple[str, str]] = []

    # -- writing -------------------------------------------------------------------------------------------------------

    def check_writable(self) -> None:
        """Called before the first run: fail now, not after an hour of training."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            probe = self.root / f".probe.{os.getpid()}"
            probe.write_bytes(b"x" * 4096)
            probe.unlink()
        except OSError as error:
            why = error.strerror or str(error)
            hint = "pass another folder with --store DIR, or fix its permissions"
            raise StoreError(f"cannot write to the store {self.root}", why=why, hint=hint) from error
        _remove_unborn(self.root)
        self._open()

    def new_folder(self, run_id: str, facts: Mapping[str, Any]) -> Path:
        """Create a run folder together with its run.json, so that a signal in between leaves no incomplete folder."""
        unseen, folder = self.root / f".{run_id}", self.root / run_id
        try:
            unseen.mkdir(parents=True, mode=folder_mode(self.root))
            write_json(unseen / RUN_FILE, facts, is_private=True)
            if folder.exists():  # rename would silently replace an empty one
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(folder))
            return unseen.rename(folder)
        except BaseException as error:
            is_others = isinstance(error, FileExistsError) and error.filename == str(unseen)
            if not is_others:
                shutil.rmtree(unseen, ignore_errors=True)
            raise

    def index(self, folder: Path) -> RunRow | None:
        row = self.read(folder)
        if row is not None:
            self._write([columns.to_records(row)])
        return row

    def read(self, folder: Path) -> RunRow | None:
        """Read the folder itself, not the index."""
        from trainmark.store.folder import read_any_run

        row = read_any_run(folder)
        return self._analyse(replace(row, store=self._name)) if row is not None else None

    def forget(self, run_ids: Sequence[str]) -> None:
        """Remove runs whose folders were deleted."""
        self._change(lambda database: database.forget(run_ids))

    def reindex(self, *, tell: Tell = lambda _, __: None) -> int:
        """Read every folder again. Our own index is replaced by a new file; a shared one keeps the runs of others."""
        num_rows = self._rebuild(tell) if self._url is None else self._index_all(self._open(), tell)
        self.sync()  # runs that started or ended while the folders were read
        return num_rows

    def sync(self, *, tell: Tell = lambda _, __: None) -> None:
        """Index folders that are not indexed, were still running, or were read by another version; analyse the rest.

        An outcome that is not from exit.json is derived again if the folder has changed. Runs whose folder was deleted
        are forgotten.
        """
        names = ("id", "outcome", "purpose", "folder_state", "folder_stamp", "store", "reading_version",
                 "analysis_version")  # fmt: skip
        states = [dict(zip(names, state, strict=True)) for state in self._read(RUNS, names)]
        present = set(self._folders())
        self._forget_gone(states, present)
        ended = {state["id"]: state for state in states if state["outcome"] is not None}
        fresh = sorted(name for name in present if name not in ended or self._has_changed(ended[name]))
        no_runs = {state["id"] for state in states} & set(fresh)  # any more, unless they can be read
        for batch in _in_batches(self._read_folders(fresh, tell)):
            self._write(batch, only_unsettled=True)
            no_runs -= {records[RUNS]["id"] for records in batch}
        if no_runs:
            self.forget(sorted(no_runs))
        if self._analyser is not None:
            version, just_read = self._analyser.version, set(fresh)
            measured = [name for name, state in ended.items() if state["purpose"] is None and name not in just_read]
            self._analyse_again([name for name in measured if ended[name]["analysis_version"] != version], tell)

    # -- reading -------------------------------------------------------------------------------------------------------

    def rows(self, *, wanted: Callable[[str], bool] = lambda _: True, **facts: str | int | None) -> list[RunRow]:
        """Rows whose id is wanted and whose columns have the given values, by start time; without batch size probes."""
        names = TABLES[RUNS]
        facts = {"purpose": None, **facts}
        start, asked = names.index("started_unix_s"), [(names.index(name), value) for name, value in facts.items()]
        read = self._read_sound()
        found = [row for row in read if wanted(row[0]) and all(row[place] == value for place, value in asked)]
        found.sort(key=lambda row: (row[start] is not None, row[start], row[0]))
        version = self._analyser.version if self._analyser else None
        return [
            columns.from_record(
                row, load_steps=self._load_steps, load_document=self._load_document, analysis_version=version
            )
            for row in found
        ]

    def read_digests(self) -> list[tuple[Any, ...]]:
        """Of every run and of every plan of a sweep: they change with anything that a table of results shows.

        Of the runs as `rows` has read them, if it has.
        """
        found = [tuple(row) for row in self._digests or self._read(RUNS, ("id", DIGEST))]
        with os.scandir(self.root) as entries:
            plans = [entry for entry in entries if entry.name.startswith(".sweep-") and entry.name.endswith(".json")]
            found += [(entry.name, entry.stat().st_size, entry.stat().st_mtime_ns) for entry in plans]
        return sorted(found, key=repr)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _folders(self) -> Iterator[str]:
        """Names only: a folder that is known already is not opened."""
        if not self.root.is_dir():
            return
        with os.scandir(self.root) as entries:
            names = [entry.name for entry in entries if not entry.name.startswith(".") and _is_folder(entry)]
        for name in names:
            if _is_text(name):
                yield name
            elif (self.root / name / RUN_FILE).exists():
                _say(f"{name}: skipped, its name is not valid UTF-8")

    @cached_property
    def _name(self) -> str:
        return f"{os.uname().nodename}:{self.root.resolve()}"

    def _has_changed(self, state: dict[str, Any]) -> bool:
        """Does not open a folder whose outcome is from exit.json."""
        if state["reading_version"] != reading_version():
            return True
        if state["folder_state"] is not None:
            return bool(state["folder_state"] != read_state(self.root / state["id"]))
        return bool(state["folder_stamp"] != read_stamp(f"{self.root}/{state['id']}"))

    def _forget_gone(self, states: Sequence[dict[str, Any]], present: Collection[str]) -> None:
        """In a shared index only runs of this store."""
        own = [state for state in states if self._url is None or state["store"] == self._name]
        gone = [state["id"] for state in own if state["id"] not in present]
        if gone and self.root.is_dir():
            self.forget(gone)

    def _read_folders(self, names: Sequence[str], tell: Tell) -> Iterator[Records]:
        """Those of runs; many of them in several processes."""
        if not names:
            return
        from trainmark.store.reading import read_many

        reader = Store(self.root, url=self._url, analyser=self._analyser)  # without open files, for other processes
        for done, records in enumerate(read_many(reader.read_records, names), start=1):
            if records is not None:
                yield records
            tell(done, len(names))

    def read_records(self, name: str) -> Records | None:
        row = self.read(self.root / name)
        return columns.to_records(row) if row is not None else None

    def _analyse(self, row: RunRow) -> RunRow:
        """A run that cannot be analysed is kept, and tried again only by another version of the analyser."""
        if self._analyser is None:
            return row
        try:
            derived = self._analyser.analyse(row)
        except StoreError:
            return row  # its steps cannot be read right now
        except Exception:
            return replace(row, analysis=None, analysis_version=self._analyser.version)
        return replace(
            row,
            analysis=derived.analysis,
            powers=derived.powers,
            origin=derived.origin,
            analysis_version=self._analyser.version,
            load_document=lambda: derived.document,
        )

    def _analyse_again(self, run_ids: Sequence[str], tell: Tell) -> None:
        """Analyse what another version left, from the steps in the index: a shared index has runs of others."""
        stale = set(run_ids)
        rows = self.rows(wanted=stale.__contains__) if stale else []
        for begin in range(0, len(rows), _BATCH):
            batch = []
            for done, row in enumerate(rows[begin : begin + _BATCH], start=begin + 1):
                batch.append(self._analyse(row))
                tell(done, len(rows))
            self._write_analyses([row for row in batch if row.analysis_version is not None])

    def _load_steps(self, run_id: str) -> Steps:
        """From the index, or from the folder if the index has lost or damaged them."""
        for values in self._read(STEPS, columns.ARRAYS, run_id=run_id):
            with contextlib.suppress(zlib.error, TypeError, ValueError):
                return columns.read_arrays(dict(zip(columns.ARRAYS, values, strict=True)))
        row = self.index(self.root / run_id) if (self.root / run_id).is_dir() else None
        if row is not None:
            return row.load_steps()
        hint = "another process replaced it: try again, or run trainmark show --reindex"
        raise StoreError(f"the steps of {run_id} are not in the index of {self.root}", hint=hint)

    def _load_document(self, run_id: str) -> str | None:
        """None for one that is not as it was written: it is made again from the row."""
        for document, digest in self._read(STEPS, ("document", DIGEST), run_id=run_id):
            if document is not None and digest == columns.digest_of((run_id, document)):
                return str(document)
        return None

    # -- the index itself ----------------------------------------------------------------------------------------------

    def _read_sound(self) -> Sequence[Sequence[Any]]:
        """The whole table of runs. Damaged rows are read again from their folders; what that cannot repair is named."""
        for _ in range(2):
            read = self._read(RUNS, TABLES[RUNS])
            damaged = [row for row in read if not columns.is_sound(row)]
            if not damaged and len({row[0] for row in read}) == len(read):
                self._digests = [(row[0], row[-1]) for row in read]
                return read
            self._repair([row[0] for row in damaged])
        for row in damaged:
            _say(f"{row[0]}: left out, its row in the index is damaged and its folder is not here")
        return [row for row in read if columns.is_sound(row)]

    def _repair(self, run_ids: Sequence[Any]) -> None:
        """One by one if the rows say which they are, else all of them."""
        known = [run_id for run_id in run_ids if isinstance(run_id, str) and (self.root / run_id / RUN_FILE).exists()]
        if self._url is None and (not known or len(known) < len(run_ids)):
            self._heal(DamagedIndexError("", why="rows that cannot be read"))
            return
        for run_id in known:
            self.index(self.root / run_id)

    def _read(self, table: str, names: Sequence[str], *, run_id: str | None = None) -> Sequence[Sequence[Any]]:
        if self._database is None and self._url is None and not os.path.lexists(self.root / INDEX_FILE):
            return []  # `sync` can start to read folders before SQLAlchemy is imported
        if self._database is None:
            try:
                self._reader = self._reader or self._open_file()
                if self._reader is not None:
                    return self._reader.read(table, names, run_id=run_id)
            except (sqlite3.Error, UnicodeError):
                self._reader = None  # missing, of another version, or damaged: Database says which
        try:
            return self._open().read(table, names, run_id=run_id)
        except DamagedIndexError as damage:
            self._heal(damage)
            return self._open().read(table, names, run_id=run_id)

    def _write(self, records: Sequence[Records], *, only_unsettled: bool = False) -> None:
        self._change(lambda database: database.write(records, only_unsettled=only_unsettled))

    def _write_analyses(self, rows: Sequence[RunRow]) -> None:
        self._change(lambda database: database.write_analyses(rows))

    def _change(self, change: Callable[[Database], None]) -> None:
        self._digests = []
        try:
            change(self._open())
        except DamagedIndexError as damage:
            self._heal(damage)
            change(self._open())

    def _heal(self, damage: DamagedIndexError) -> None:
        _say(f"the index of {self.root} is damaged ({damage.why}); rebuilding it from the run folders")
        self._rebuild()

    def _rebuild(self, tell: Tell = lambda _, __: None) -> int:
        """A new file is built beside the old one and then swapped in, so that an interrupt leaves the old one."""
        from trainmark.store.database import Database

        self._database, self._reader = None, None
        if not self._can_write_index():
            return 0  # in memory: the next one is new
        new = beside(self.root / INDEX_FILE)
        try:
            database = Database(self.root, url=None, index=new)
            num_rows = self._index_all(database, tell)
            database.close()
            swap_in(new, self.root / INDEX_FILE)
        except OSError as error:
            why = error.strerror or str(error)
            hint = f"remove {self.root / INDEX_FILE}: the run folders have everything that it had"
            raise StoreError(f"cannot replace the index of {self.root}", why=why, hint=hint) from error
        finally:
            discard(new)
        return num_rows

    def _index_all(self, database: Database, tell: Tell) -> int:
        num_rows = 0
        for batch in _in_batches(self._read_folders(sorted(self._folders()), tell)):
            database.write(batch)
            num_rows += len(batch)
        return num_rows

    def _open_file(self) -> FileReader | None:
        return FileReader(self.root / INDEX_FILE) if self._url is None and self._can_write_index() else None

    def _open(self) -> Database:
        if self._database is None:
            from trainmark.store.database import Database

            index = self.root / INDEX_FILE if self._can_write_index() else None
            try:
                self._database = Database(self.root, url=self._url, index=index)
            except DamagedIndexError as damage:
                self._heal(damage)
                self._database = Database(self.root, url=self._url, index=index)
        return self._database

    def _can_write_index(self) -> bool:
        index = self.root / INDEX_FILE
        existing = next(path for path in (index, self.root, *self.root.parents) if path.exists())
        folder = existing.parent if existing == index else existing
        return all(os.access(path, os.W_OK) and not _is_frozen(path) for path in (existing, folder))


def _remove_unborn(root: Path) -> None:
    """Folders of `new_folder` whose maker was killed before it could rename them; never shown, and long abandoned."""
    with contextlib.suppress(OSError):
        for folder in root.glob(".[0-9]*T[0-9]*-*"):
            is_old = time.time() - folder.lstat().st_mtime > _UNBORN_S
            if is_old and folder.is_dir() and all(RUN_FILE in path.name for path in folder.iterdir()):
                shutil.rmtree(folder, ignore_errors=True)


def _is_frozen(path: Path) -> bool:
    """After an error of the disk a kernel refuses every write, though the disk still counts as writable.

    So it is tried: a file is opened, and in a folder a file without a name is made, which leaves no trace.
    """
    flags = os.O_RDWR if path.is_file() else getattr(os, "O_TMPFILE", os.O_RDONLY) | os.O_RDWR
    try:
        os.close(os.open(path, flags | os.O_CLOEXEC, 0o600))
    except OSError as error:
        return error.errno == errno.EROFS
    return False


def _in_batches(records: Iterable[Records]) -> Iterator[list[Records]]:
    found = iter(records)
    while batch := list(itertools.islice(found, _BATCH)):
        yield batch


def _say(text: str) -> None:
    """The results are right without it, so nobody may fail because nobody listens."""
    with contextlib.suppress(OSError, ValueError):
        print(plain(text), file=sys.stderr)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """A link to itself is none; the operating system calls it an error."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def _is_text(name: str) -> bool:
    """A name on disk may be any bytes; Python turns invalid UTF-8 into lone surrogates."""
    return name.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in name)
