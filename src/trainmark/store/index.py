"""Run folders indexed in SQL: SQLite beside them by default, any SQLAlchemy URL for a team.

The folders are the truth. A run is indexed when it ends; `sync` picks up what was not (a killed controller, a folder
copied in), so losing the index loses nothing.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sqlalchemy
from sqlalchemy import Engine, bindparam, delete, event, insert, select

from trainmark.errors import StoreError
from trainmark.store import schema
from trainmark.store.folder import read_run
from trainmark.store.rows import RunRow

INDEX_FILE = "index.sqlite"
_BUSY_S = 30
_WRITES = {"writes": True}
_NEXT = "give another folder with --store DIR, or mend its permissions"


class Store:
    def __init__(self, root: Path, *, url: str | None = None) -> None:
        self.root = root
        self._url = url or os.environ.get("TRAINMARK_DB")
        self._engine: Engine | None = None

    # -- writing -------------------------------------------------------------------------------------------------------

    def check_writable(self) -> None:
        """Before the first run: a folder that cannot be written is found now, not after an hour of training."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            probe = self.root / f".probe.{os.getpid()}"
            probe.write_bytes(b"x" * 4096)
            probe.unlink()
        except OSError as error:
            raise StoreError(f"cannot write to the store {self.root}", why=_reason(error), hint=_NEXT) from error
        self._open()

    def new_folder(self, run_id: str) -> Path:
        folder = self.root / run_id
        folder.mkdir(parents=True)
        return folder

    def index(self, folder: Path) -> RunRow | None:
        row = read_run(folder)
        if row is not None:
            self._write([row])
        return row

    def forget(self, run_ids: Sequence[str]) -> None:
        """Runs whose folders are gone for good."""
        table = schema.RUNS
        try:
            with self._open().execution_options(**_WRITES).begin() as connection:
                connection.execute(delete(table).where(table.c.id.in_(run_ids)))
        except sqlalchemy.exc.DBAPIError as error:
            raise StoreError(f"cannot write the index of {self.root}", why=str(error.orig), hint=_NEXT) from error

    def reindex(self) -> int:
        """Read every folder again. Our own index is thrown away first; a shared one keeps what others put there."""
        rows = [row for folder in self._folders() if (row := read_run(folder)) is not None]
        self._write(rows, replace_all=self._url is None)
        return len(rows)

    def sync(self) -> None:
        """Index the folders that are not indexed or were still running when they were."""
        with self._connect() as connection:
            settled = set(connection.scalars(select(schema.RUNS.c.id).where(schema.RUNS.c.outcome.is_not(None))))
        fresh = (folder for folder in self._folders() if folder.name not in settled)
        rows = [row for folder in fresh if (row := read_run(folder)) is not None]
        if rows:
            self._write(rows)

    # -- reading -------------------------------------------------------------------------------------------------------

    def rows(self) -> list[RunRow]:
        """By time of start; probes are no measurements and are left out."""
        table = schema.RUNS.c
        query = select(schema.RUNS).where(table.purpose.is_(None)).order_by(table.started_unix_s, table.id)
        with self._connect() as connection:
            return [schema.from_record(dict(record)) for record in connection.execute(query).mappings()]

    def wall_seconds(self) -> dict[str, list[float]]:
        """How long the finished runs of each cell took, by cell id."""
        table = schema.RUNS.c
        query = select(table.cell_id, table.wall_s).where(
            table.outcome == "ok", table.wall_s.is_not(None), table.purpose.is_(None)
        )
        found: dict[str, list[float]] = {}
        with self._connect() as connection:
            for cell_id, wall_s in connection.execute(query):
                found.setdefault(cell_id, []).append(wall_s)
        return found

    # -- inside --------------------------------------------------------------------------------------------------------

    def _folders(self) -> list[Path]:
        if not self.root.is_dir():
            return []
        return sorted(path for path in self.root.iterdir() if path.is_dir() and not path.name.startswith("."))

    def _write(self, rows: list[RunRow], *, replace_all: bool = False) -> None:
        """One transaction: another process sees all of it or nothing."""
        table = schema.RUNS
        try:
            with self._open().execution_options(**_WRITES).begin() as connection:
                if replace_all:
                    connection.execute(delete(table))
                elif rows:
                    stale = delete(table).where(table.c.id == bindparam("stale"))
                    connection.execute(stale, [{"stale": row.id} for row in rows])
                if rows:
                    connection.execute(insert(table), [schema.to_record(row) for row in rows])
        except sqlalchemy.exc.DBAPIError as error:
            raise StoreError(f"cannot write the index of {self.root}", why=str(error.orig), hint=_NEXT) from error

    def _connect(self) -> sqlalchemy.Connection:
        return self._open().connect()

    def _open(self) -> Engine:
        if self._engine is None:
            try:
                self._engine = self._open_or_rebuild()
            except (sqlalchemy.exc.SQLAlchemyError, ImportError, OSError) as error:
                why = str(getattr(error, "orig", error)).splitlines()[0]
                raise StoreError(f"cannot open the index of {self.root}", why=why, hint=_NEXT) from error
        return self._engine

    def _open_or_rebuild(self) -> Engine:
        """A damaged index of our own is put aside: the folders hold everything it held."""
        try:
            return self._open_index()
        except sqlalchemy.exc.DatabaseError as error:
            index = self.root / INDEX_FILE
            damaged = ("not a database", "malformed")
            if self._url is not None or not any(text in str(error.orig) for text in damaged):
                raise
            index.replace(index.with_suffix(".damaged"))
            return self._open_index()

    def _open_index(self) -> Engine:
        if self._url is not None:
            engine = sqlalchemy.create_engine(self._url)
        elif self._can_write_index():
            self.root.mkdir(parents=True, exist_ok=True)
            engine = sqlalchemy.create_engine(f"sqlite:///{self.root / INDEX_FILE}", connect_args={"timeout": _BUSY_S})
            event.listen(engine, "connect", _set_pragmas)
            event.listen(engine, "begin", _begin)
        else:
            # A read-only store can still be shown: its folders are indexed in memory.
            engine = sqlalchemy.create_engine("sqlite://", poolclass=sqlalchemy.StaticPool)
        _create(engine, is_shared=self._url is not None)
        return engine

    def _can_write_index(self) -> bool:
        index = self.root / INDEX_FILE
        existing = next(path for path in (index, self.root, *self.root.parents) if path.exists())
        return os.access(existing, os.W_OK) and os.access(existing.parent if existing == index else existing, os.W_OK)


def _create(engine: Engine, *, is_shared: bool) -> None:
    """Tables of this version; an index of another version is dropped, since `sync` rebuilds it from the folders."""
    with engine.execution_options(**_WRITES).begin() as connection:
        schema.META.create(connection, checkfirst=True)
        version = connection.scalar(select(schema.META.c.value).where(schema.META.c.key == "version"))
        if version == schema.VERSION:
            return
        if version is not None and is_shared:
            why = f"it is of version {version}, this program writes {schema.VERSION}"
            raise StoreError(
                "the shared index is of another version",
                why=why,
                hint="use one version for all, or another TRAINMARK_DB",
            )
        schema.METADATA.drop_all(connection)
        schema.METADATA.create_all(connection)
        connection.execute(insert(schema.META), [{"key": "version", "value": schema.VERSION}])


def _set_pragmas(connection: sqlite3.Connection, _: Any) -> None:
    """WAL lets readers go on while one writes. Transactions are begun by `_begin`, not by the driver."""
    connection.isolation_level = None
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")


def _begin(connection: sqlalchemy.Connection) -> None:
    """A writer takes the lock first: one that reads before it writes can lose its turn and fail instead of waiting."""
    is_writer = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if is_writer else "BEGIN")


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
