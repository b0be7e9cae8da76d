"""The index as a database: opened, created or rebuilt, and written in transactions.

It is derived from the run folders, so another version is rebuilt, not migrated.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy
from sqlalchemy import (
    BigInteger,
    Column,
    Engine,
    Float,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    bindparam,
    delete,
    event,
    insert,
    select,
    update,
)

from trainmark.errors import StoreError
from trainmark.store import columns
from trainmark.store.columns import VERSION, Kind, to_derived_record, to_record
from trainmark.store.index_file import BUSY_S
from trainmark.store.rows import RunRow
from trainmark.store.state import reading_version

_WRITES = {"writes": True}
_NEXT = "pass another folder with --store DIR, or fix its permissions"

_TYPES = {Kind.TEXT: Text, Kind.INTEGER: BigInteger, Kind.NUMBER: Float, Kind.OBJECT: Text, Kind.LIST: Text}
_METADATA = MetaData()
_META = Table("meta", _METADATA, Column("key", String(32), primary_key=True), Column("value", String(64)))
_RUNS = Table(
    columns.RUNS,
    _METADATA,
    Column("id", String(128), primary_key=True),
    *(Column(name, _TYPES[kind]) for name, kind in columns.KINDS.items() if name != "id"),
)
_STEPS = Table(
    columns.STEPS,
    _METADATA,
    Column("id", String(128), primary_key=True),
    Column("document", Text),
    *(Column(name, LargeBinary) for name in columns.ARRAYS),
)
_OF_A_RUN = (_RUNS, _STEPS)


class Database:
    def __init__(self, root: Path, *, url: str | None, index: Path | None) -> None:
        """`index` is the file. Without it and without a URL it is in memory, so that a read-only store can be shown."""
        self._root, self._url, self._index = root, url, index
        try:
            self._engine = self._open_or_rebuild()
        except (sqlalchemy.exc.SQLAlchemyError, ImportError, OSError) as error:
            why = str(getattr(error, "orig", error)).splitlines()[0]
            raise StoreError(f"cannot open the index of {root}", why=why, hint=_NEXT) from error

    # -- reading -------------------------------------------------------------------------------------------------------

    def read(self, table: str, names: Sequence[str], *, run_id: str | None) -> Sequence[Sequence[Any]]:
        found = _METADATA.tables[table]
        query = select(*(found.c[name] for name in names))
        try:
            with self._engine.connect() as connection:
                return connection.execute(query if run_id is None else query.where(found.c.id == run_id)).all()
        except sqlalchemy.exc.DBAPIError as error:
            hint = f"remove {self._index}: it is rebuilt from the run folders" if self._index else _NEXT
            raise StoreError(f"cannot read the index of {self._root}", why=str(error.orig), hint=hint) from error

    # -- writing -------------------------------------------------------------------------------------------------------

    def write(self, rows: Sequence[RunRow], *, replace_all: bool = False, only_unsettled: bool = False) -> None:
        """In one transaction: another process sees all of it or nothing.

        `only_unsettled` keeps runs that ended and were indexed by their own controller since these rows were read. An
        outcome that was derived from the state of a folder does not count as an end.
        """
        with self._begin() as connection:
            if only_unsettled:
                runs = _RUNS.c
                ended = select(runs.id).where(runs.outcome.is_not(None), runs.folder_state.is_(None))
                settled = set(connection.scalars(ended.where(runs.reading_version == reading_version())))
                rows = [row for row in rows if row.id not in settled]
            written = [to_record(row) for row in rows]
            for table in _OF_A_RUN:
                if replace_all:
                    connection.execute(delete(table))
                elif rows:
                    connection.execute(delete(table).where(table.c.id == bindparam("stale")), _stale(rows))
                if rows:
                    names = table.columns.keys()
                    connection.execute(insert(table), [{name: record[name] for name in names} for record in written])

    def write_analyses(self, rows: Sequence[RunRow]) -> None:
        """Only the derived columns, and only of runs for which no other process has just written the same."""
        if not rows:
            return
        runs, steps = _OF_A_RUN
        with self._begin() as connection:
            current = select(runs.c.id).where(runs.c.analysis_version == rows[0].analysis_version)
            done = set(connection.scalars(current))
            found = [{"stale": row.id, **to_derived_record(row)} for row in rows if row.id not in done]
            for table, names in ((runs, ("analysis", "analysis_version")), (steps, ("document",))):
                change = update(table).where(table.c.id == bindparam("stale")).values({n: bindparam(n) for n in names})
                if found:
                    connection.execute(change, [{name: one[name] for name in ("stale", *names)} for one in found])

    def forget(self, run_ids: Sequence[str]) -> None:
        with self._begin() as connection:
            for table in _OF_A_RUN:
                connection.execute(delete(table).where(table.c.id.in_(run_ids)))

    # -- inside --------------------------------------------------------------------------------------------------------

    @contextmanager
    def _begin(self) -> Iterator[sqlalchemy.Connection]:
        try:
            with self._engine.execution_options(**_WRITES).begin() as connection:
                yield connection
        except sqlalchemy.exc.DBAPIError as error:
            raise StoreError(f"cannot write the index of {self._root}", why=str(error.orig), hint=_NEXT) from error

    def _open_or_rebuild(self) -> Engine:
        """Move a damaged index of our own aside: the run folders have everything that it had."""
        try:
            return self._open_engine()
        except sqlalchemy.exc.DatabaseError as error:
            damaged = ("not a database", "malformed")
            if self._url is not None or self._index is None or not any(text in str(error.orig) for text in damaged):
                raise
            self._index.replace(self._index.with_suffix(".damaged"))
            return self._open_engine()

    def _open_engine(self) -> Engine:
        if self._url is not None:
            engine = sqlalchemy.create_engine(self._url)
        elif self._index is not None:
            self._index.parent.mkdir(parents=True, exist_ok=True)
            engine = sqlalchemy.create_engine(f"sqlite:///{self._index}", connect_args={"timeout": BUSY_S})
            event.listen(engine, "connect", _set_pragmas)
            event.listen(engine, "begin", _begin)
        else:
            engine = sqlalchemy.create_engine("sqlite://", poolclass=sqlalchemy.StaticPool)
        _create(engine, is_shared=self._url is not None)
        return engine


def _stale(rows: Sequence[RunRow]) -> list[dict[str, str]]:
    return [{"stale": row.id} for row in rows]


def _create(engine: Engine, *, is_shared: bool) -> None:
    """Create tables of this version. An index of another version is dropped: `sync` rebuilds it from the folders."""
    with engine.execution_options(**_WRITES).begin() as connection:
        _META.create(connection, checkfirst=True)
        version = connection.scalar(select(_META.c.value).where(_META.c.key == "version"))
        if version == VERSION:
            return
        if version is not None and is_shared:
            raise StoreError(
                "the shared index has another version",
                why=f"it has version {version}, this program writes {VERSION}",
                hint="use the same version of trainmark everywhere, or another TRAINMARK_DB",
            )
        _METADATA.drop_all(connection)
        _METADATA.create_all(connection)
        connection.execute(insert(_META), [{"key": "version", "value": VERSION}])


def _set_pragmas(connection: sqlite3.Connection, _: Any) -> None:
    """WAL lets others read while one process writes. `_begin` starts transactions, not the driver."""
    connection.isolation_level = None
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")


def _begin(connection: sqlalchemy.Connection) -> None:
    """A writer takes the lock first: if it read before it writes, it could fail instead of waiting."""
    is_writer = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if is_writer else "BEGIN")
