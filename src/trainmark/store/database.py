"""The index as a database: opened, created or rebuilt, and written in transactions.

It is derived from the run folders, so another version is rebuilt, not migrated.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
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
from trainmark.runfolder.files import make_private
from trainmark.store import columns
from trainmark.store.columns import VERSION, Kind, Records, to_derived_records
from trainmark.store.index_file import BUSY_S, SCHEMA_QUERY, DamagedIndexError, fingerprint, is_damage, is_special
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
    Column(columns.DIGEST, String(16)),
)
_STEPS = Table(
    columns.STEPS,
    _METADATA,
    Column("id", String(128), primary_key=True),
    Column("document", Text),
    Column(columns.DIGEST, String(16)),
    *(Column(name, LargeBinary) for name in columns.ARRAYS),
)
_OF_A_RUN = (_RUNS, _STEPS)


class Database:
    """A damaged index of our own is a DamagedIndexError, wherever it is noticed."""

    def __init__(self, root: Path, *, url: str | None, index: Path | None) -> None:
        """`index` is the file. Without it and without a URL it is in memory, so that a read-only store can be shown."""
        self._root, self._url, self._index = root, url, index
        with self._explaining("open"):
            self._engine = self._open_engine()

    def close(self) -> None:
        """Everything is in the file itself afterwards, so that it can be renamed."""
        self._engine.dispose()
        if self._index is not None:
            with self._explaining("write"), closing(sqlite3.connect(self._index)) as connection:
                connection.execute("PRAGMA journal_mode=DELETE")

    # -- reading -------------------------------------------------------------------------------------------------------

    def read(self, table: str, names: Sequence[str], *, run_id: str | None) -> Sequence[Sequence[Any]]:
        found = _METADATA.tables[table]
        query = select(*(found.c[name] for name in names))
        with self._explaining("read"), self._engine.connect() as connection:
            return connection.execute(query if run_id is None else query.where(found.c.id == run_id)).all()

    # -- writing -------------------------------------------------------------------------------------------------------

    def write(self, records: Sequence[Records], *, only_unsettled: bool = False) -> None:
        """In one transaction: another process sees all of it or nothing.

        `only_unsettled` keeps runs that ended and were indexed by their own controller since these rows were read, as
        the later time of their folder shows. An outcome that was derived from the state of a folder is no such end.
        """
        with self._begin() as connection:
            if only_unsettled:
                settled = _find_settled(connection, [record[columns.RUNS]["id"] for record in records])
                records = [record for record in records if _is_newer(record[columns.RUNS], settled)]
            for table in _OF_A_RUN if records else ():
                stale = [{"stale": record[table.name]["id"]} for record in records]
                connection.execute(delete(table).where(table.c.id == bindparam("stale")), stale)
                connection.execute(insert(table), [record[table.name] for record in records])

    def write_analyses(self, rows: Sequence[RunRow]) -> None:
        """Only the derived columns, and only of runs for which no other process has just written the same."""
        if not rows:
            return
        with self._begin() as connection:
            current = select(_RUNS.c.id).where(_RUNS.c.analysis_version == rows[0].analysis_version)
            done = set(connection.scalars(current))
            found = [(row.id, to_derived_records(row)) for row in rows if row.id not in done]
            for table in _OF_A_RUN if found else ():
                values = [{"stale": run_id, **records[table.name]} for run_id, records in found]
                names = [name for name in values[0] if name != "stale"]
                change = update(table).where(table.c.id == bindparam("stale"))
                connection.execute(change.values({name: bindparam(name) for name in names}), values)

    def forget(self, run_ids: Sequence[str]) -> None:
        with self._begin() as connection:
            for table in _OF_A_RUN if run_ids else ():
                gone = delete(table).where(table.c.id == bindparam("stale"))
                connection.execute(gone, [{"stale": run_id} for run_id in run_ids])

    # -- inside --------------------------------------------------------------------------------------------------------

    @contextmanager
    def _begin(self) -> Iterator[sqlalchemy.Connection]:
        with self._explaining("write"), self._engine.execution_options(**_WRITES).begin() as connection:
            yield connection

    @contextmanager
    def _explaining(self, what: str) -> Iterator[None]:
        try:
            yield
        except (sqlalchemy.exc.SQLAlchemyError, sqlite3.Error, ImportError, OSError) as error:
            cause = getattr(error, "orig", error)
            kind = DamagedIndexError if self._url is None and is_damage(cause) else StoreError
            why = next(iter(str(cause).splitlines()), "")
            raise kind(f"cannot {what} the index of {self._root}", why=why, hint=_NEXT) from error

    def _open_engine(self) -> Engine:
        if self._url is not None:
            engine = sqlalchemy.create_engine(self._url)
        elif self._index is not None:
            if is_special(self._index):
                raise sqlite3.DatabaseError("it is not a regular file")
            self._index.parent.mkdir(parents=True, exist_ok=True)
            make_private(self._index)  # it holds environments, as the run folders do
            engine = sqlalchemy.create_engine(f"sqlite:///{self._index}", connect_args={"timeout": BUSY_S})
            event.listen(engine, "connect", _set_pragmas)
            event.listen(engine, "begin", _begin)
        else:
            engine = sqlalchemy.create_engine("sqlite://", poolclass=sqlalchemy.StaticPool)
        _create(engine, is_shared=self._url is not None)
        return engine


def _find_settled(connection: sqlalchemy.Connection, run_ids: Sequence[str]) -> dict[str, int]:
    """Those of the runs that ended and were read by this version, with the time of their folder."""
    runs = _RUNS.c
    ended = select(runs.id, runs.folder_stamp).where(runs.outcome.is_not(None), runs.folder_state.is_(None))
    found = connection.execute(ended.where(runs.reading_version == reading_version(), runs.id.in_(run_ids)))
    return {run_id: stamp or 0 for run_id, stamp in found}


def _is_newer(run: Mapping[str, Any], settled: Mapping[str, int]) -> bool:
    return settled.get(run["id"], -1) < (run["folder_stamp"] or 0)


def _create(engine: Engine, *, is_shared: bool) -> None:
    """Create tables of this version. An index of another version is dropped: `sync` rebuilds it from the folders."""
    with engine.execution_options(**_WRITES).begin() as connection:
        _META.create(connection, checkfirst=True)
        facts = {row.key: row.value for row in connection.execute(select(_META))}
        version = facts.get("version")
        if version == VERSION:
            if not is_shared and facts.get("schema") != _read_schema(connection):
                raise sqlite3.DatabaseError("its tables are not as they were made")
            return
        if version is not None and is_shared:
            raise StoreError(
                "the shared index has another version",
                why=f"it has version {version}, this program writes {VERSION}",
                hint="use the same version of trainmark everywhere, or another TRAINMARK_DB",
            )
        _METADATA.drop_all(connection)
        _METADATA.create_all(connection)
        made = {"version": VERSION} if is_shared else {"version": VERSION, "schema": _read_schema(connection)}
        connection.execute(insert(_META), [{"key": key, "value": value} for key, value in made.items()])


def _read_schema(connection: sqlalchemy.Connection) -> str:
    return fingerprint(connection.exec_driver_sql(SCHEMA_QUERY).all())


def _set_pragmas(connection: sqlite3.Connection, _: Any) -> None:
    """WAL lets others read while one process writes. `_begin` starts transactions, not the driver."""
    connection.isolation_level = None
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")


def _begin(connection: sqlalchemy.Connection) -> None:
    """A writer takes the lock first: if it read before it writes, it could fail instead of waiting."""
    is_writer = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if is_writer else "BEGIN")
