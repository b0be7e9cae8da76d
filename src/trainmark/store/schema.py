"""The tables of the index. It is derived from the run folders, so a new version rebuilds it instead of altering it."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, LargeBinary, MetaData, String, Table, Text

from trainmark.store import columns

METADATA = MetaData()
META = Table("meta", METADATA, Column("key", String(32), primary_key=True), Column("value", String(64)))
RUNS = Table(
    columns.RUNS,
    METADATA,
    Column("id", String(128), primary_key=True),
    *(Column(name, Text) for name in columns.TEXT),
    *(Column(name, BigInteger) for name in columns.WHOLE),
    *(Column(name, Float) for name in columns.NUMBERS),
    *(Column(name, Text) for name in columns.JSON),
)
STEPS = Table(
    columns.STEPS,
    METADATA,
    Column("id", String(128), primary_key=True),
    Column("document", Text),
    *(Column(name, LargeBinary) for name in columns.ARRAYS),
)
OF_A_RUN = (RUNS, STEPS)
