from __future__ import annotations

import errno
import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from making import make_cell, make_run
from trainmark.errors import StoreError
from trainmark.runfolder.files import EXIT_FILE, RUN_FILE, SCHEMA, read_json, write_json
from trainmark.store.columns import to_records
from trainmark.store.database import Database
from trainmark.store.folder import read_run
from trainmark.store.index import INDEX_FILE, Store


def test_reindexing_gives_the_same_rows(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for number in range(3):
        extra = [{"kind": "warning", "code": "bad-sample", "message": "x.jpg: 坏"}] if number else []
        store.index(make_run(tmp_path, f"run{number}", cell=make_cell(repeat=number + 1), extra=extra))
    before = [to_records(row) for row in store.rows()]
    assert store.reindex() == 3
    assert [to_records(row) for row in store.rows()] == before
    (tmp_path / INDEX_FILE).unlink()
    fresh = Store(tmp_path)
    fresh.sync()
    assert [to_records(row) for row in fresh.rows()] == before


def test_steps_come_back_exactly(tmp_path: Path) -> None:
    seconds = np.random.default_rng(0).random(500).tolist()
    Store(tmp_path).index(make_run(tmp_path, "run", seconds=seconds))
    (row,) = Store(tmp_path).rows()
    assert row.seconds.tolist() == seconds
    assert (row.samples == 4).all()
    assert row.outcome == "ok"


def test_a_signal_while_a_folder_is_made_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    folder = store.new_folder("whole", {"schema": SCHEMA})
    assert read_json(folder / RUN_FILE) == {"schema": SCHEMA}

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("trainmark.store.index.write_json", interrupt)
    with pytest.raises(KeyboardInterrupt):
        store.new_folder("half", {})
    assert [path.name for path in tmp_path.iterdir()] == ["whole"]


def test_a_run_without_an_end_is_killed_not_lost(tmp_path: Path) -> None:
    make_run(tmp_path, "run", outcome=None)
    store = Store(tmp_path)
    store.sync()
    (row,) = store.rows()
    assert row.outcome == "killed"
    assert len(row.seconds) == 50


def test_a_live_run_is_neither_ok_nor_killed(tmp_path: Path) -> None:
    folder = make_run(tmp_path, "run", outcome=None)
    with (folder / "output.log").open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        code = (
            "import sys; from pathlib import Path; from trainmark.store.folder import read_run\n"
            f"sys.exit(0 if read_run(Path({str(folder)!r})).outcome is None else 1)"
        )
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    row = read_run(folder)
    assert row is not None
    assert row.outcome == "killed"


@pytest.mark.parametrize("file", ["run.json", "rank0.jsonl", "exit.json", "env.json"])
def test_any_file_cut_at_any_byte_can_be_read(tmp_path: Path, file: str) -> None:
    folder = make_run(tmp_path, "run", seconds=[0.1] * 3)
    (folder / "env.json").write_text('{"cpu": "x"}')
    whole = (folder / file).read_bytes()
    for cut in range(len(whole)):
        (folder / file).write_bytes(whole[:cut])
        row = read_run(folder)
        assert row is None or row.id == "run"
        assert (row is None) == (file == "run.json" and cut < len(whole) - 1)


def test_who_read_a_run_too_early_does_not_overwrite_its_end(tmp_path: Path) -> None:
    """`show` reads a folder, the run ends and is indexed, and only then `show` writes what it read before."""
    folder = make_run(tmp_path, "run", outcome=None)
    early = read_run(folder)
    assert early is not None
    assert early.outcome == "killed"
    write_json(folder / EXIT_FILE, {"outcome": "ok", "reason": "done", "wall_s": 1.0})
    store = Store(tmp_path)
    store.index(folder)
    Database(tmp_path, url=None, index=tmp_path / INDEX_FILE).write([to_records(early)], only_unsettled=True)
    assert [row.outcome for row in store.rows()] == ["ok"]


def test_rows_by_id_and_by_fact(tmp_path: Path) -> None:
    for number in (1, 2):
        make_run(tmp_path, f"run{number}", cell=make_cell(repeat=number))
    store = Store(tmp_path)
    store.sync()
    assert [row.id for row in store.rows(wanted="run2".__eq__)] == ["run2"]
    assert [row.id for row in store.rows(repeat=1, workload="resnet50")] == ["run1"]


def test_foreign_folders_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "run.json").write_text("[]")
    store = Store(tmp_path)
    store.sync()
    assert store.rows() == []


def test_a_store_that_cannot_be_written_is_said_before_the_first_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError) as caught:
        Store(tmp_path / "file" / "store").check_writable()
    assert "--store" in caught.value.hint


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_store_can_be_shown(tmp_path: Path) -> None:
    make_run(tmp_path, "run")
    tmp_path.chmod(0o555)
    try:
        store = Store(tmp_path)
        store.sync()
        assert [row.id for row in store.rows()] == ["run"]
        with pytest.raises(StoreError):
            store.check_writable()
    finally:
        tmp_path.chmod(0o755)


def test_a_store_on_a_disk_that_failed_can_be_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It refuses every write since its error, but `os.access` says that it is writable (ext4, errors=remount-ro)."""
    make_run(tmp_path, "run")
    Store(tmp_path).reindex()  # leaves everything in the file itself, none of it in a log beside it
    real = os.open

    def refuse(path: str, flags: int, *more: int, **named: int) -> int:
        if flags & os.O_RDWR:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        return real(path, flags, *more, **named)

    before = (tmp_path / INDEX_FILE).read_bytes()
    monkeypatch.setattr(os, "open", refuse)
    make_run(tmp_path, "later")
    store = Store(tmp_path)
    store.sync()
    assert {row.id for row in store.rows()} == {"run", "later"}
    assert (tmp_path / INDEX_FILE).read_bytes() == before


def test_a_folder_whose_maker_was_killed_is_removed_later(tmp_path: Path) -> None:
    for name in ("old", "new", "full"):
        folder = tmp_path / f".20261116T110149-{name}-r1-2928"
        folder.mkdir()
        (folder / "run.json").write_text("{}")
        (folder / "output.log").touch() if name == "full" else None
        os.utime(folder, None if name == "new" else (0, 0))
    Store(tmp_path).check_writable()
    assert sorted(path.name[17:-8] for path in tmp_path.glob(".2*")) == ["full", "new"]


def test_a_damaged_index_is_put_aside_and_rebuilt(tmp_path: Path) -> None:
    make_run(tmp_path, "run")
    (tmp_path / INDEX_FILE).write_bytes(b"not a database, but long enough to be looked at as one" * 10)
    store = Store(tmp_path)
    store.sync()
    assert [row.id for row in store.rows()] == ["run"]
    assert (tmp_path / "index.damaged").exists()


@pytest.mark.parametrize("url", ["nonsense", "postgresql+nodriver://x/y", "sqlite:////no/such/folder/x.sqlite"])
def test_a_database_that_cannot_be_opened(tmp_path: Path, url: str) -> None:
    with pytest.raises(StoreError, match="cannot open the index"):
        Store(tmp_path, url=url).rows()


def test_a_shared_index_keeps_the_rows_of_others(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'shared.sqlite'}"
    Store(tmp_path / "a", url=url).index(make_run(tmp_path / "a", "run-a"))
    mine = Store(tmp_path / "b", url=url)
    mine.index(make_run(tmp_path / "b", "run-b"))
    mine.reindex()
    assert {row.id for row in mine.rows()} == {"run-a", "run-b"}


def test_a_strangers_folder_cannot_break_the_store(tmp_path: Path) -> None:
    make_run(tmp_path, "good")
    evil = make_run(tmp_path, "evil", extra=[
        {"kind": "warning", "code": ["x"], "message": "\ud800"}, {"kind": "eval", "value": "high", "metric": 3},
        {"kind": "step", "seconds": float("nan"), "samples": 1}, {"kind": "step", "seconds": "1", "samples": None},
        {"kind": "phase", "peak_memory_bytes": "much"},
    ])  # fmt: skip
    run = json.loads((evil / "run.json").read_text())
    run["cell"] |= {"recipe": ["a"], "nodes": "two", "epochs": 10**30, "data": {"x": 1}, "precision": "\ud800"}
    (evil / "run.json").write_text(json.dumps(run))
    (evil / "exit.json").write_text('{"outcome": "\\u001b[31mok", "reason": 5, "wall_s": Infinity}')
    (evil / "env.json").write_text("[" * 100_000)
    store = Store(tmp_path)
    store.sync()
    row = next(row for row in store.rows() if row.id == "evil")
    assert (row.recipe, row.nodes, row.epochs, row.data, row.wall_s) == (None, None, None, None, None)
    assert (row.outcome, len(row.seconds)) == ("failed", 50)
