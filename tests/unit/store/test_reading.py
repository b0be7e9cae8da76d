"""Many folders are read in several processes, with the same result as in one."""

from __future__ import annotations

from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest

from making import make_cell, make_run
from trainmark.cli.output import open_store
from trainmark.runfolder.records import encode_record, read_records
from trainmark.store import reading
from trainmark.store.columns import to_records
from trainmark.store.reading import read_many


def test_several_processes_read_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(6):
        make_run(tmp_path, f"run{number}", cell=make_cell(repeat=number + 1))
    (tmp_path / "run6").mkdir()  # not a run
    open_store(tmp_path).reindex()
    alone = [to_records(row) for row in open_store(tmp_path).rows()]
    monkeypatch.setattr(reading, "_FEW", 4)
    monkeypatch.setattr(reading, "_CHUNK", 2)
    monkeypatch.setattr(reading, "num_cores", lambda: 2)
    assert open_store(tmp_path).reindex() == 6
    assert [to_records(row) for row in open_store(tmp_path).rows()] == alone


def test_what_a_broken_pool_left_is_read_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def break_down(read: reading.Read, names: list[str], _: int) -> object:
        yield read(names[0])
        raise BrokenProcessPool

    monkeypatch.setattr(reading, "_read_in_parallel", break_down)
    monkeypatch.setattr(reading, "num_cores", lambda: 2)
    monkeypatch.setattr(reading, "_FEW", 2)
    names = [str(number) for number in range(5)]
    assert list(read_many(lambda name: {"runs": {"id": name}}, names)) == [{"runs": {"id": name}} for name in names]


TORN = (
    b'{"kind":"step"', b'{"kind":"step"}{"kind":"step"}', b"", b"{}", b'{"kind":3}', b"[1]", b'{"kind":"a","b":[{}',
    b"[" * 100_000, b'{"kind":"\xff"}', b'{"kind":"' + b"9" * 5000 + b'"}', b'{"kind":"eval"},', b"null", b'{"n":NaN}',
)  # fmt: skip


@pytest.mark.parametrize("torn", TORN, ids=[str(number) for number in range(len(TORN))])
@pytest.mark.parametrize("place", [0, 3, 5])
def test_a_bad_line_costs_only_itself(tmp_path: Path, torn: bytes, place: int) -> None:
    sound = [encode_record({"kind": "step", "step": number}).rstrip() for number in range(5)]
    path = tmp_path / "rank0.jsonl"
    path.write_bytes(b"\n".join([*sound[:place], torn, *sound[place:]]) + b"\n")
    found = [record["step"] for record in read_records(path) if record["kind"] == "step" and "step" in record]
    assert found == [0, 1, 2, 3, 4]
