from __future__ import annotations

from pathlib import Path

import pytest

from trainmark.runfolder.files import read_json, write_json
from trainmark.runfolder.records import RecordTail, encode_record, read_records


def test_a_torn_last_line_loses_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "rank0.jsonl"
    whole = b"".join(encode_record({"kind": "step", "step": n}) for n in range(5))
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        steps = [record["step"] for record in read_records(path)]
        assert steps == list(range(len(steps)))
        assert len(steps) >= whole[:cut].count(b"\n")


def test_foreign_and_binary_lines_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "rank0.jsonl"
    path.write_bytes(b'[1]\n{"no": "kind"}\n\xff\xfe\x00\n{"kind": "step"}\n"text"\n')
    assert [record["kind"] for record in read_records(path)] == ["step"]


def test_the_tail_waits_for_the_end_of_a_line(tmp_path: Path) -> None:
    path = tmp_path / "rank0.jsonl"
    tail = RecordTail(path)
    assert tail.read_new() == []
    path.write_bytes(b'{"kind": "step", "step": 1}\n{"kind": "st')
    assert [record["step"] for record in tail.read_new()] == [1]
    with path.open("ab") as file:
        file.write(b'ep", "step": 2}\n')
    assert [record["step"] for record in tail.read_new()] == [2]
    assert tail.read_new() == []


def test_json_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    write_json(path, {"a": 1})
    with pytest.raises(TypeError):
        write_json(path, {"a": object()})
    assert read_json(path) == {"a": 1}


def test_unreadable_json_is_none(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("[1, 2]")
    (tmp_path / "b.json").write_text('{"torn')
    assert read_json(tmp_path / "a.json") is None
    assert read_json(tmp_path / "b.json") is None
    assert read_json(tmp_path / "absent.json") is None
