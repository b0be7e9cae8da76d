"""Many runs in one store: what was analysed once is never analysed, nor its steps read, again."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from making import make_cell, make_run
from many_runs import make_store
from trainmark.analyse import identity
from trainmark.analyse.origin import origin_of, pooling_key
from trainmark.analyse.scaling import build_studies
from trainmark.analyse.table import build_lines
from trainmark.cli import output
from trainmark.cli.main import main
from trainmark.cli.output import open_store
from trainmark.errors import InputError
from trainmark.report import console
from trainmark.report.document import describe_lines, describe_runs, render_document, render_runs
from trainmark.report.scaling import describe_studies
from trainmark.runfolder.files import ENVIRONMENT_FILE, write_json
from trainmark.store import columns, kept_answer
from trainmark.store.index import INDEX_FILE, Store
from trainmark.store.rows import Analyser, Derived, RunRow
from trainmark.units import to_json

NUM_RUNS = 150
Say = Callable[..., str]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("many") / "runs"
    make_store(root, NUM_RUNS)
    open_store(root).sync()
    return root


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Say:
    """What a command prints on stdout."""

    def run(*words: object) -> str:
        assert main([str(word) for word in words]) == 0
        return capsys.readouterr().out

    return run


@pytest.mark.parametrize("words", ["show", "show --json", "report --output OUT", "plan quick"])
def test_a_reader_loads_no_steps_and_nothing_heavy(root: Path, tmp_path: Path, words: str) -> None:
    """Without numpy no array of steps can be read; to load these takes longer than the answer may."""
    code = (
        "import sys\nfor name in ('numpy', 'scipy', 'sqlalchemy', 'torch'): sys.modules[name] = None\n"
        "from trainmark.cli.main import main\nsys.exit(main(sys.argv[1:]))"
    )
    argv = [*words.replace("OUT", str(tmp_path / "x.md")).split(), "--store", str(root)]
    done = subprocess.run([sys.executable, "-c", code, *argv], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    if words == "show --json":
        assert len(json.loads(done.stdout)["results"]) == NUM_RUNS


def test_kept_and_new_analyses_give_the_same_document(root: Path, say: Say) -> None:
    kept = say("show", "--json", "--store", root)
    fresh = Store(root).rows()
    assert not any(row.analysis for row in fresh)
    assert all(row.analysis for row in open_store(root).rows())
    results = describe_runs(fresh)  # first: it finds out which laws they break, and the studies say so
    studies = describe_studies(build_studies(build_lines(fresh)))
    more = {"pooled": describe_lines(fresh), "scaling": studies}
    assert kept == to_json({"schema": 2, "results": results, **more}, indent=1) + "\n"
    assert kept == render_document(render_runs(fresh), **more)


def test_a_lost_analysis_comes_back_the_same(tmp_path: Path, say: Say) -> None:
    """Removed, of another version of the program, or with the whole index: the same rows and the same document."""
    root = tmp_path / "runs"
    make_store(root, 20)
    before = say("show", "--json", "--store", root)
    rows = [columns.to_records(row) for row in open_store(root).rows()]
    for change in ("analysis = 'null', analysis_version = NULL", "analysis_version = 'older'"):
        with sqlite3.connect(root / INDEX_FILE) as connection:
            connection.execute(f"UPDATE runs SET {change}")
            connection.execute("UPDATE steps SET document = 'wrong'")
        assert say("show", "--json", "--store", root) == before
        assert [columns.to_records(row) for row in open_store(root).rows()] == rows
    assert say("show", "--json", "--reindex", "--store", root) == before
    for path in root.glob(f"{INDEX_FILE}*"):
        path.unlink()
    assert say("show", "--json", "--store", root) == before
    assert [columns.to_records(row) for row in open_store(root).rows()] == rows


def test_an_index_of_an_older_program_is_rebuilt(tmp_path: Path, say: Say) -> None:
    make_run(tmp_path, "run")
    with sqlite3.connect(tmp_path / INDEX_FILE) as connection:
        connection.execute("CREATE TABLE meta (key VARCHAR(32) PRIMARY KEY, value VARCHAR(64))")
        connection.execute("INSERT INTO meta VALUES ('version', '4f0c11d00b3a')")
        connection.execute("CREATE TABLE runs (id VARCHAR(128) PRIMARY KEY, cell_id TEXT, seconds BLOB)")
        connection.execute("INSERT INTO runs VALUES ('gone', 'x', NULL)")
    assert [result["id"] for result in json.loads(say("show", "--json", "--store", tmp_path))["results"]] == ["run"]


def test_a_run_that_cannot_be_analysed_is_kept(tmp_path: Path) -> None:
    def fail(row: RunRow) -> Derived:
        raise InputError("no", hint="none")

    make_run(tmp_path, "run")
    store = Store(tmp_path, analyser=Analyser(version="1", analyse=fail))
    store.sync()
    (row,) = store.rows()
    assert (row.analysis, len(row.seconds)) == (None, 50)


def test_a_known_folder_is_not_looked_into(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is its analysis made again, nor anything written."""
    store = open_store(root)
    before = store.rows()
    monkeypatch.setattr("trainmark.store.folder.read_run", lambda folder: pytest.fail(f"{folder} was read"))
    monkeypatch.setattr(Store, "_analyse", lambda _, row: pytest.fail(f"{row.id} was analysed"))
    monkeypatch.setattr(Store, "_open", lambda _: pytest.fail("the database was opened"))
    store.sync()
    assert len(before) == len(list(store._folders())) == NUM_RUNS


def test_the_same_question_is_answered_from_the_last_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, say: Say
) -> None:
    """Until a run is added, changed or removed, or the question is another one; a damaged answer is made again."""
    monkeypatch.setattr(kept_answer, "MANY_RUNS", 2)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ".cache"))
    made: list[int] = []
    monkeypatch.setattr(
        console, "say_lines", lambda lines, *_, **__: made.append(len(lines)) or [f"{len(lines)} lines"]
    )
    for number in range(3):
        make_run(tmp_path, f"run{number}", cell=make_cell(batch_size_per_device=2 << number))
    assert [say("show", "--store", tmp_path) for _ in range(3)] == ["3 lines\n"] * 3
    assert made == [3]
    say("show", "--sort", "memory", "--store", tmp_path)
    assert made == [3, 3]
    make_run(tmp_path, "run3", cell=make_cell(batch_size_per_device=32))
    assert say("show", "--store", tmp_path) == "4 lines\n"
    shutil.rmtree(tmp_path / "run1")
    assert say("show", "--store", tmp_path) == "3 lines\n"
    answer = kept_answer.answer_file()
    answer.write_bytes(answer.read_bytes().replace(b"3 lines", b"7 lines"))
    assert [say("show", "--store", tmp_path) for _ in range(2)] == ["3 lines\n"] * 2
    assert made == [3, 3, 4, 3, 3]


def test_an_answer_after_a_change_is_the_one_from_scratch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, say: Say
) -> None:
    """Only the runs that changed are read again; what the index keeps of the others is what their folders say."""
    monkeypatch.setattr(kept_answer, "MANY_RUNS", 2)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ".cache"))
    root = tmp_path / "runs"
    make_store(root, 40)
    before = say("show", "--store", root)
    first, second, third, *_ = sorted(path for path in root.iterdir() if "resnet50" in path.name)
    shutil.copytree(first, root / f"{first.name}-again")
    shutil.rmtree(second)
    environment = json.loads((third / ENVIRONMENT_FILE).read_text())
    write_json(third / ENVIRONMENT_FILE, {**environment, "git": {"commit": "abc"}, "hostname": "elsewhere"})
    words = [("show",), ("show", "--columns", "workload,machine,throughput"), ("show", "--json")]
    changed = [say(*verb, "--store", root) for verb in words]
    for path in root.glob(f"{INDEX_FILE}*"):
        path.unlink()
    kept_answer.answer_file().unlink()
    assert [say(*verb, "--store", root) for verb in words] == changed
    assert changed[0] != before
    assert "elsewhere" in changed[0]


def test_the_index_keeps_what_a_table_asks_of_every_run(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, read = open_store(root).rows(), Store(root).rows()
    assert all(row.origin for row in kept)
    assert not any(row.origin for row in read)
    assert [origin_of(row) for row in kept] == [origin_of(row) for row in read]
    assert [pooling_key(row) for row in kept] == [pooling_key(row) for row in read]
    expected = [(line.variant, [run.id for run in line.runs]) for line in build_lines(read)]
    monkeypatch.setattr(identity, "_identify", lambda row: pytest.fail(f"the environment of {row.id} was read"))
    assert [(line.variant, [run.id for run in line.runs]) for line in build_lines(kept)] == expected


def test_long_indexing_is_said_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, say: Say) -> None:
    talked: list[str] = []
    monkeypatch.setattr(output, "talk", talked.append)
    for number in range(3):
        make_run(tmp_path, f"run{number}")
    monkeypatch.setattr(output, "_LONG_S", -1.0)
    say("show", "--store", tmp_path)
    say("show", "--store", tmp_path)
    assert [text for text in talked if "next:" not in text] == ["indexing 3 runs (only once), 1 done"]


def test_loading_the_analysis_is_not_called_indexing(monkeypatch: pytest.MonkeyPatch) -> None:
    talked: list[str] = []
    monkeypatch.setattr(output, "talk", talked.append)
    moments = iter([100.0, 102.0, 104.0, 106.0])
    monkeypatch.setattr("time.monotonic", lambda: next(moments))
    note = output.IndexingNote()  # the first run is done at 100.0, however long that took
    for done in range(1, 4):
        note(done, 4)
    assert talked == ["indexing 4 runs (only once), 3 done"]
