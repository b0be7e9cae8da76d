"""Sweeps on disk: who may continue which, whatever state the files are in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from trainmark.errors import StoreError
from trainmark.messages.skips import too_few_nodes
from trainmark.store.sweeps import HeldSweep, Sweeps


def begin(root: Path, content: str = "c0ffee") -> HeldSweep:
    return Sweeps(root).begin(content, planned=[{"title": "x"}], skipped=[], settings={})


def the_file(root: Path) -> Path:
    (path,) = root.glob(".sweep-*.json")
    return path


def test_only_an_unfinished_sweep_that_nobody_holds_is_taken_up(tmp_path: Path) -> None:
    sweeps, held = Sweeps(tmp_path), begin(tmp_path)
    assert sweeps.take_up("c0ffee") is None, "its controller lives"
    held.release()
    assert sweeps.take_up("decade") is None, "another content"
    assert sweeps.find("c0ffee") == held.record
    again = sweeps.take_up("c0ffee")
    assert again is not None
    assert again.record == held.record
    assert sweeps.find("c0ffee") is None
    again.finish()
    again.release()
    assert sweeps.take_up("c0ffee") is None
    assert list(tmp_path.glob("*.lock")) == []
    assert json.loads(the_file(tmp_path).read_text())["planned"] == [{"title": "x"}]


def test_the_newest_goes_first_and_fresh_leaves_all_but_living_ones(tmp_path: Path) -> None:
    sweeps, old, new, living = Sweeps(tmp_path), begin(tmp_path), begin(tmp_path), begin(tmp_path)
    old.release()
    new.release()
    assert sweeps.find("c0ffee") == new.record
    sweeps.abandon("c0ffee")
    assert sweeps.find("c0ffee") is None
    living.release()
    assert sweeps.find("c0ffee") == living.record


def test_a_controller_that_dies_lets_go(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom trainmark.store.sweeps import Sweeps\n"
        "held = Sweeps(Path(sys.argv[1])).begin('c0ffee', planned=[], skipped=[], settings={})\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert done.returncode == -9
    assert Sweeps(tmp_path).find("c0ffee") is not None


def test_a_file_cut_at_any_byte_is_no_sweep(tmp_path: Path) -> None:
    begin(tmp_path).release()
    path = the_file(tmp_path)
    whole = path.read_bytes()
    for size in range(0, len(whole) - 2, 7):
        path.write_bytes(whole[:size])
        assert Sweeps(tmp_path).find("c0ffee") is None
    for strange in ({"started_unix_s": "now"}, {"started_unix_s": 1e300}, {"state": 5}, {"content": None}):
        path.write_text(json.dumps({**json.loads(whole), **strange}))
        assert Sweeps(tmp_path).find("c0ffee") is None


def test_a_sweep_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot write"):
        begin(tmp_path / "nowhere")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_store_that_can_only_be_read_has_nothing_to_go_on_with(tmp_path: Path) -> None:
    begin(tmp_path).release()
    next(tmp_path.glob("*.lock")).chmod(0o400)
    assert Sweeps(tmp_path).find("c0ffee") is None


def test_the_cells_of_a_sweep_are_read_back(tmp_path: Path) -> None:
    one, eight = (
        {"cell": {"nodes": 1}, "title": "x"},
        {"cell": {"nodes": 8}, **too_few_nodes(wanted=8, known=1).to_reason()},
    )
    held = Sweeps(tmp_path).begin("c0ffee", planned=[one, {"title": "of before"}], skipped=[eight], settings={})
    held.finish()
    assert Sweeps(tmp_path).read_cells(held.record.id) == [
        ({"nodes": 1}, None),
        ({"nodes": 8}, too_few_nodes(wanted=8, known=1)),
    ]
    held.release()


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"planned": 5, "skipped": [null, {"cell": 3}, {}]}', "[" * 100_000, '{"planned": {"a": 1}}'],
)
def test_the_sweep_of_a_stranger_asks_for_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / ".sweep-s1.json").write_text(text)
    (tmp_path / ".sweep-s2.json").mkdir()
    os.mkfifo(tmp_path / ".sweep-s3.json")
    for name in ("s1", "s2", "s3", "s4", "../x", "a\0b", "x" * 5000):
        assert Sweeps(tmp_path).read_cells(name) == []
