"""What is done of a sweep, told from run folders; `plan` on an unfinished one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from listening import KeepingListener
from making import make_cell, make_run
from trainmark.analyse.table import build_lines
from trainmark.cli.main import main
from trainmark.controller.command import CommandOptions, command_request
from trainmark.controller.sweep import SweepRuns
from trainmark.controller.workload import SpecOptions, make_plan, workload_request
from trainmark.errors import StoreError
from trainmark.runfolder.document import RunDocument
from trainmark.runfolder.files import CHECKPOINT_FILE, EXIT_FILE, RUN_FILE, write_json
from trainmark.spec.cell import Cell
from trainmark.store.index import Store
from trainmark.store.sweeps import SweepRecord, Sweeps

RECORD = SweepRecord(id="s1", content="c", started_unix_s=0.0, host="h")
TRAINING = {"epochs": 2}


def make_attempt(root: Path, run_id: str, *, sweep: str = "s1", checkpoint: bool = False, **facts: Any) -> Path:
    cell = facts.pop("cell", make_cell())
    numbers = {"attempt": facts.pop("attempt", 1), "retry_of": facts.pop("retry_of", None), "sweep": sweep}
    folder: Path = make_run(root, run_id, cell=cell, **facts)
    run = json.loads((folder / RUN_FILE).read_text())
    write_json(folder / RUN_FILE, {**run, **numbers})
    if checkpoint:
        (folder / CHECKPOINT_FILE).touch()
    return folder


def read(root: Path, *, resumes: bool = False) -> SweepRuns:
    sweep = SweepRuns(RECORD, Store(root), resumes=resumes)
    sweep.read_done()
    return sweep


def attempt(sweep: SweepRuns, cell: Cell) -> tuple[int | None, str | None, str | None]:
    """Number, predecessor and checkpoint of the next attempt."""
    document = sweep.next_attempt(cell, RunDocument(cell=cell.record), KeepingListener())
    assert document.sweep == "s1"
    return document.attempt, document.retry_of, document.resumed_from


def test_the_last_attempt_counts(tmp_path: Path) -> None:
    cell, other = make_cell(), make_cell(repeat=2)
    make_attempt(tmp_path, "z-first", outcome="failed")
    make_attempt(tmp_path, "a-second", attempt=2, retry_of="z-first")
    make_attempt(tmp_path, "b-other", cell=other, outcome=None)
    make_attempt(tmp_path, "elsewhere", cell=other, sweep="s2")
    sweep = read(tmp_path)
    answer = sweep.answer(cell)
    assert answer is not None
    assert (answer.id, sweep.answer(other), sweep.cut_short()) == ("a-second", None, ["b-other"])
    assert [row.id for row in sweep.results([cell, other])] == ["a-second", "b-other"]
    assert attempt(sweep, other) == (2, "b-other", None)
    assert attempt(sweep, make_cell(seed=9)) == (1, None, None)


def test_an_index_that_was_read_too_early_is_put_right(tmp_path: Path) -> None:
    folder = make_attempt(tmp_path, "run", outcome=None)
    Store(tmp_path).sync()  # as `show` does it: the run is taken for killed
    write_json(folder / EXIT_FILE, {"outcome": "ok", "reason": "", "wall_s": 1.0})
    answer = read(tmp_path).answer(make_cell())
    assert answer is not None
    assert answer.outcome == "ok"


def test_a_training_goes_on_from_its_latest_checkpoint(tmp_path: Path) -> None:
    cell = make_cell(**TRAINING)
    make_attempt(tmp_path, "one", cell=cell, outcome=None, checkpoint=True)
    make_attempt(tmp_path, "two", cell=cell, outcome="killed", attempt=2, retry_of="one")
    assert attempt(read(tmp_path), cell) == (3, "two", "one")


def test_resume_takes_any_training_that_was_cut_short(tmp_path: Path) -> None:
    cell = make_cell(**TRAINING)
    make_attempt(tmp_path, "late", cell=cell, outcome="timeout", checkpoint=True)
    make_attempt(tmp_path, "earlier", cell=make_cell(**TRAINING, seed=1), sweep="s0", outcome=None, checkpoint=True)
    assert read(tmp_path).answer(cell) is not None
    sweep = read(tmp_path, resumes=True)
    assert (sweep.answer(cell), attempt(sweep, cell)[2]) == (None, "late")
    assert attempt(sweep, make_cell(**TRAINING, seed=1))[2] == "earlier"
    other, listener = make_cell(**TRAINING, seed=2), KeepingListener()
    assert sweep.next_attempt(other, RunDocument(cell=other.record), listener).resumed_from is None
    assert "no checkpoint found" in listener.said[0]


def test_an_attempt_that_was_made_again_is_in_no_line(tmp_path: Path) -> None:
    make_attempt(tmp_path, "first", outcome="killed")
    make_attempt(tmp_path, "second", attempt=2, retry_of="first")
    make_attempt(tmp_path, "third", cell=make_cell(repeat=2), outcome="hang")
    store = Store(tmp_path)
    store.sync()
    (line,) = build_lines(store.rows())
    assert [run.id for run in line.runs] == ["second", "third"]
    assert (line.num_ok, [run.id for run in line.problems]) == (1, ["third"])


def test_plan_says_what_an_unfinished_sweep_has_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", "resnet50", "--device", "cpu", "--size", "small", "--repeat", "3", "--store", str(tmp_path)]
    plan = make_plan(SpecOptions(what="resnet50", overrides={"device": "cpu", "size": "small", "repeat": 3}))
    content = workload_request(plan).content
    held = Sweeps(tmp_path).begin(content, planned=[], skipped=[], settings={})
    make_attempt(tmp_path, "done", cell=plan.cells[1], sweep=held.record.id)
    assert main(words) == 0
    assert "unfinished" not in capsys.readouterr().err, "its controller lives: run would begin another"
    held.release()
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert "has done 1 of them" in err
    assert "2 runs, 0 skipped" in err
    assert "  2 of 3  " in out
    assert main([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [cell["done"] for cell in document["cells"]] == [False, True, False]
    assert document["total_s"] == 2 * document["cells"][0]["estimate_s"]


def test_an_index_that_cannot_be_written_ends_no_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise StoreError("cannot write the index", why="no such column", hint="")

    monkeypatch.setattr(Store, "index", refuse)
    words = ["run", "--repeat", "2", "--store", str(tmp_path), "--no-preflight", "--", "sh", "-c", "sleep 0.1"]
    assert main(words) in (0, 1)
    assert len(list(tmp_path.glob("*/exit.json"))) == 2
    assert "no such column" in capsys.readouterr().err


def test_sweeps_of_the_first_versions_keep_their_identity() -> None:
    """Computed by commit 7cd78e8: a sweep that it left unfinished is continued."""
    overrides = {"device": "cpu", "size": "small", "repeat": 2}
    workload = workload_request(make_plan(SpecOptions(what="resnet50", overrides=overrides)))
    assert replace(workload, settings={}).content == "2620fce557a7f73b"
    command = command_request(CommandOptions(words=("sh", "-c", "x"), overrides={"device": "cpu", "timeout_s": 5}))
    assert replace(command, settings={}).content == "e2880adee5ed4891"


def test_the_same_word_in_another_folder_is_another_data_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shared store would otherwise let a training go on from the checkpoint of the other one."""
    contents = set()
    for name in ("a", "b"):
        folder = tmp_path / name
        folder.mkdir()
        monkeypatch.chdir(folder)
        plan = make_plan(SpecOptions(what="resnet50", overrides={"data": "set", "epochs": 1}))
        assert plan.cells[0].data.path == str(folder / "set")
        contents.add(workload_request(plan).content)
    assert len(contents) == 2
