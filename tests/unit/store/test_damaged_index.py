"""The index is derived: however it is damaged, the next look gives the same rows, from a new file, and says so."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from making import make_cell, make_run
from trainmark.cli.main import main
from trainmark.errors import StoreError
from trainmark.store.columns import to_records
from trainmark.store.index import INDEX_FILE, Store

NUM_RUNS = 4
NUM_DAMAGES = int(os.environ.get("TRAINMARK_DAMAGES", "30"))
"""120 and more outside of CI; `scripts/adversary` makes 1,000 of these and of others."""


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sound")
    for number in range(NUM_RUNS):
        seconds = [0.1 + 0.001 * number + 0.0001 * (step % 7) for step in range(50)]
        make_run(root, f"run{number}", cell=make_cell(repeat=number + 1), seconds=seconds)
    Store(root).reindex()  # leaves everything in the file itself, none of it in a log beside it
    return root


@pytest.fixture
def store(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "s", copy_function=shutil.copy2))


def read(root: Path) -> list[dict[str, dict[str, object]]]:
    opened = Store(root)
    opened.sync()
    return [without_place(to_records(row)) for row in opened.rows()]


def without_place(records: dict[str, dict[str, object]]) -> dict[str, dict[str, object]]:
    """A copied store has another name and other times, and so another digest."""
    own = {name: value for name, value in records["runs"].items() if name not in ("store", "folder_stamp", "digest")}
    return {**records, "runs": own}


def by_sql(*statements: str) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        with sqlite3.connect(path) as connection:
            connection.execute("PRAGMA writable_schema = ON")
            for statement in statements:
                connection.execute(statement)
        connection.close()

    return damage


def to_folder(path: Path) -> None:
    path.unlink()
    (path / "inside").mkdir(parents=True)


def to_folder_after_another(path: Path) -> None:
    path.with_suffix(".damaged").write_text("of an earlier damage")
    to_folder(path)


def to_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def to_loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "no table of runs": by_sql("DROP TABLE runs"),
    "no table of steps": by_sql("DROP TABLE steps"),
    "no table of versions": by_sql("DROP TABLE meta"),
    "no column": by_sql("ALTER TABLE runs DROP COLUMN outcome"),
    "another column": by_sql("ALTER TABLE runs RENAME COLUMN outcome TO result"),
    "a view": by_sql("ALTER TABLE runs RENAME TO old", "CREATE VIEW runs AS SELECT * FROM old"),
    "a trigger that loses runs": by_sql("CREATE TRIGGER t AFTER INSERT ON runs BEGIN DELETE FROM runs; END"),
    "a trigger that refuses": by_sql(
        "CREATE TRIGGER t BEFORE INSERT ON runs BEGIN SELECT RAISE(ABORT, 'no'); END", "DELETE FROM runs"
    ),
    "a changed number": by_sql("UPDATE runs SET wall_s = 1 + wall_s"),
    "a changed outcome": by_sql("UPDATE runs SET outcome = 'failed' WHERE id = 'run2'"),
    "no JSON": by_sql("UPDATE runs SET environment = '{', warnings = 'x' WHERE id = 'run2'"),
    "no text as id": by_sql("UPDATE runs SET id = x'ff00' WHERE id = 'run2'"),
    "damaged steps": by_sql("UPDATE steps SET seconds = x'00ff'"),
    "no steps": by_sql("DELETE FROM steps WHERE id = 'run2'"),
    "a schema that is none": by_sql("UPDATE sqlite_master SET sql = 'nonsense' WHERE name = 'runs'"),
    "another version": by_sql("UPDATE meta SET value = 'x'"),
    "empty": lambda path: path.write_bytes(b""),
    "garbage": lambda path: path.write_bytes(b"x" * 10_000),
    "a header alone": lambda path: path.write_bytes(path.read_bytes()[:100]),
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "a foreign log of writes": lambda path: path.with_name(f"{INDEX_FILE}-wal").write_bytes(b"\x37\x7f\x06\x82" * 99),
    "a folder": to_folder,
    "a folder, and an earlier damage": to_folder_after_another,
    "a pipe": to_pipe,
    "a link to itself": to_loop,
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_index_is_rebuilt(name: str, store: Path) -> None:
    before = read(store)
    DAMAGES[name](store / INDEX_FILE)
    assert read(store) == before
    assert read(store) == before
    assert (store / INDEX_FILE).is_file()
    assert [path.name for path in store.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("name", ["no table of runs", "no column", "a view", "a trigger that refuses", "garbage"])
def test_reindex_rebuilds_it_too(name: str, store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    DAMAGES[name](store / INDEX_FILE)
    assert main(["show", "--reindex", "--json", "--store", str(store)]) == 0
    assert len(json.loads(capsys.readouterr().out)["results"]) == NUM_RUNS


def test_it_says_so_once_and_keeps_the_old_file(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    DAMAGES["no table of runs"](store / INDEX_FILE)
    read(store)
    told = capsys.readouterr().err
    assert "is damaged (" in told
    assert told.count("rebuilding it from the run folders") == 1
    assert (store / "index.damaged").exists()
    read(store)
    assert capsys.readouterr().err == ""


def damage_at_random(path: Path, chance: random.Random) -> None:
    content = bytearray(path.read_bytes())
    kind = chance.choice(("flip", "zeros", "cut", "page", "swap"))
    page = 4096 * chance.randrange(max(1, len(content) // 4096))
    if kind == "flip":
        for _ in range(chance.choice((1, 1, 3, 50))):
            content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    elif kind == "zeros":
        begin = chance.randrange(len(content))
        length = chance.choice((1, 8, 100, 4096))
        content[begin : begin + length] = bytes(len(content[begin : begin + length]))
    elif kind == "cut":
        del content[chance.randrange(len(content)) :]
    elif kind == "page":
        content[page : page + 4096] = chance.randbytes(len(content[page : page + 4096]))
    else:
        other = 4096 * chance.randrange(max(1, len(content) // 4096))
        content[page : page + 4096], content[other : other + 4096] = (
            content[other : other + 4096],
            content[page : page + 4096],
        )
    path.write_bytes(content)


def test_no_random_damage_changes_a_row(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, whole = read(store), (store / INDEX_FILE).read_bytes()
    num_noticed = 0
    for seed in range(NUM_DAMAGES):
        for path in store.glob("index*"):
            path.unlink()
        (store / INDEX_FILE).write_bytes(whole)
        damage_at_random(store / INDEX_FILE, random.Random(seed))
        assert read(store) == before, seed
        num_noticed += "damaged" in capsys.readouterr().err
    assert num_noticed > NUM_DAMAGES / 10


def test_json_is_valid_whatever_the_index_holds(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "--json", "--store", str(store)]) == 0
    before = capsys.readouterr().out
    by_sql("UPDATE steps SET document = '{\"id\": ' || id")(store / INDEX_FILE)
    assert main(["show", "--json", "--store", str(store)]) == 0
    assert capsys.readouterr().out == before


# -- folders that go or are renamed ------------------------------------------------------------------------------------


def test_a_deleted_folder_is_no_result(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    read(store)
    shutil.rmtree(store / "run1")
    assert main(["show", "--json", "--store", str(store)]) == 0
    shown = [result["id"] for result in json.loads(capsys.readouterr().out)["results"]]
    assert shown == [f"run{number}" for number in range(NUM_RUNS) if number != 1]


def test_an_emptied_folder_is_no_result(store: Path) -> None:
    read(store)
    for path in (store / "run1").iterdir():
        path.unlink()
    assert [row["runs"]["id"] for row in read(store)] == [f"run{number}" for number in range(NUM_RUNS) if number != 1]


def test_a_renamed_folder_counts_once(store: Path) -> None:
    read(store)
    (store / "run1").rename(store / "renamed")
    assert sorted(str(row["runs"]["id"]) for row in read(store)) == ["renamed", "run0", "run2", "run3"]


def test_a_shared_index_forgets_only_runs_of_the_store(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'shared.sqlite'}"
    for name in "ab":
        Store(tmp_path / name, url=url).index(make_run(tmp_path / name, f"run-{name}"))
    shutil.rmtree(tmp_path / "a" / "run-a")
    Store(tmp_path / "b", url=url).sync()
    assert {row.id for row in Store(tmp_path / "b", url=url).rows()} == {"run-a", "run-b"}
    Store(tmp_path / "a", url=url).sync()
    assert {row.id for row in Store(tmp_path / "b", url=url).rows()} == {"run-b"}


def test_a_damaged_row_of_another_store_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "shared.sqlite"
    for name in "ab":
        Store(tmp_path / name, url=f"sqlite:///{path}").index(make_run(tmp_path / name, f"run-{name}"))
    by_sql("UPDATE runs SET wall_s = 99")(path)
    assert [row.id for row in Store(tmp_path / "b", url=f"sqlite:///{path}").rows()] == ["run-b"]
    assert "run-a: left out" in capsys.readouterr().err


def test_a_shared_index_without_its_tables_is_an_error(tmp_path: Path) -> None:
    """Only its owner may rebuild it: the folders of others are not here."""
    path = tmp_path / "shared.sqlite"
    Store(tmp_path / "a", url=f"sqlite:///{path}").index(make_run(tmp_path / "a", "run"))
    by_sql("DROP TABLE runs")(path)
    with pytest.raises(StoreError, match="cannot read the index"):
        Store(tmp_path / "a", url=f"sqlite:///{path}").sync()
