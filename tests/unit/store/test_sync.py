"""What `sync` reads and analyses again, and what it does not."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from making import make_cell, make_run
from trainmark import runfolder
from trainmark.plan.identity import cell_id
from trainmark.runfolder.files import EXIT_FILE, OUTPUT_FILE, RUN_FILE, rank_file, write_json
from trainmark.store import folder as reading
from trainmark.store import state
from trainmark.store.index import Store
from trainmark.store.rows import Analyser, Derived, RunRow

_END = {"outcome": "ok", "reason": "done", "wall_s": 1.0}


class Counting:
    """An analyser that records its calls."""

    def __init__(self, *, error: Exception | None = None) -> None:
        self.seen: list[str] = []
        self._error = error

    def analyse(self, row: RunRow) -> Derived:
        self.seen.append(row.id)
        if self._error is not None:
            raise self._error
        return Derived(analysis={"num": len(row.seconds)}, document="{}")


def sync(root: Path, analyser: Counting, *, is_version: str) -> list[RunRow]:
    store = Store(root, analyser=Analyser(version=is_version, analyse=analyser.analyse))
    store.sync()
    return store.rows()


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the folders that were read."""
    names: list[str] = []
    real = reading.read_run

    def count(folder: Path) -> Any:
        names.append(folder.name)
        return real(folder)

    monkeypatch.setattr(reading, "read_run", count)
    return names


def make_young_run(root: Path) -> Path:
    """The state before the controller creates output.log."""
    folder = root / "run"
    folder.mkdir()
    cell = make_cell()
    run = {"cell": cell.to_json(), "cell_id": cell_id(cell), "unit": "images"}
    write_json(folder / RUN_FILE, run)
    return folder


def add_steps(folder: Path) -> None:
    lines = (json.dumps({"kind": "step", "step": n, "seconds": 0.1, "samples": 4}) for n in range(3))
    (folder / rank_file(0)).write_text("\n".join(lines) + "\n")


def test_a_new_analyser_is_asked_once_also_beside_probes(tmp_path: Path) -> None:
    for name in ("a", "b", "probe"):
        make_run(tmp_path, name)
    path = tmp_path / "probe" / RUN_FILE
    path.write_text(json.dumps({**json.loads(path.read_text()), "purpose": "find-batch"}))
    assert len(sync(tmp_path, Counting(), is_version="1")) == 2
    second = Counting()
    for _ in range(3):
        rows = sync(tmp_path, second, is_version="2")
    assert second.seen == ["a", "b"]
    assert [row.analysis for row in rows] == [{"num": 50}, {"num": 50}]


@pytest.mark.parametrize("error", [ValueError("no"), ZeroDivisionError("no"), KeyError("no")])
def test_a_run_that_cannot_be_analysed_is_not_tried_at_every_call(tmp_path: Path, error: Exception) -> None:
    make_run(tmp_path, "run")
    first, second = Counting(error=error), Counting(error=error)
    for _ in range(3):
        sync(tmp_path, first, is_version="1")
    for _ in range(3):
        rows = sync(tmp_path, second, is_version="2")
    assert first.seen == second.seen == ["run"]
    assert (rows[0].analysis, len(rows[0].seconds)) == (None, 50)
    assert sync(tmp_path, Counting(), is_version="3")[0].analysis == {"num": 50}


def test_a_run_that_is_just_starting_is_not_killed(tmp_path: Path) -> None:
    folder = make_young_run(tmp_path)
    store = Store(tmp_path)
    store.sync()
    assert [(row.outcome, row.reason) for row in store.rows()] == [(None, "starting")]
    os.utime(folder / RUN_FILE, (1.0, 1.0))
    store.sync()
    assert [row.outcome for row in store.rows()] == ["killed"]


@pytest.mark.parametrize("end", [None, _END])
def test_an_outcome_judged_too_early_is_judged_again(tmp_path: Path, end: dict[str, Any] | None) -> None:
    """Seen between creating and locking output.log; then it continued, and its controller could not index it."""
    folder = make_young_run(tmp_path)
    (folder / OUTPUT_FILE).touch()
    Store(tmp_path).sync()
    assert [row.outcome for row in Store(tmp_path).rows()] == ["killed"]
    add_steps(folder)
    if end is not None:
        write_json(folder / EXIT_FILE, end)
    Store(tmp_path).sync()
    assert [(row.outcome, len(row.seconds)) for row in Store(tmp_path).rows()] == [("ok" if end else "killed", 3)]


def test_a_killed_run_is_read_once(tmp_path: Path, read: list[str]) -> None:
    make_run(tmp_path, "killed", outcome=None)
    make_run(tmp_path, "ok")
    for _ in range(3):
        Store(tmp_path).sync()
    assert read == ["killed", "ok"]


def test_a_run_that_ends_while_all_is_read_again(tmp_path: Path) -> None:
    folder = make_run(tmp_path, "run", outcome=None)

    def end(*_: int) -> None:
        write_json(folder / EXIT_FILE, _END)
        Store(tmp_path).index(folder)

    store = Store(tmp_path)
    store.reindex(tell=end)
    assert [row.outcome for row in store.rows()] == ["ok"]


def test_another_reader_reads_again_once(tmp_path: Path, read: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    make_run(tmp_path, "run")
    Store(tmp_path).sync()
    for module in ("index", "folder", "database"):
        monkeypatch.setattr(f"trainmark.store.{module}.reading_version", lambda: "another")
    for _ in range(3):
        Store(tmp_path).sync()
    assert read == ["run", "run"]


_RUNFOLDER = Path(str(runfolder.__file__)).parent
_READERS = [path.name for path in _RUNFOLDER.glob("*.py") if path.stem != "__init__"]
_READERS += ["folder.py", "rank_records.py", "marked_steps.py", "imported_steps.py", "state.py"]


@pytest.mark.parametrize("name", _READERS)
def test_the_version_of_reading_follows_from_its_code(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before, real = state.reading_version(), Path.read_bytes

    def change(path: Path) -> bytes:
        return real(path) + (b"#" if path.name == name else b"")

    monkeypatch.setattr(Path, "read_bytes", change)
    assert state.reading_version.__wrapped__() != before
