"""The page of one run in a terminal."""

from __future__ import annotations

import io
import os
from pathlib import Path

from rich.console import Console

from making import make_run
from trainmark.report.run_page import print_run
from trainmark.report.sparkline import draw
from trainmark.runfolder.files import write_json
from trainmark.store.folder import read_run


def page(folder: Path, *, width: int = 80) -> str:
    row = read_run(folder)
    assert row is not None
    out = io.StringIO()
    print_run(row, folder, Console(file=out, width=width, highlight=False))
    return out.getvalue()


def test_a_page_has_everything_that_is_known_of_a_run(tmp_path: Path) -> None:
    extra = [
        {"kind": "eval", "step": 50, "epoch": 1, "metric": "top1", "value": 0.625},
        {"kind": "warning", "code": "throttled", "message": "the GPU was hot"},
    ]
    seconds = [0.1 + 0.01 * (number % 3) for number in range(59)] + [0.9]
    text = page(make_run(tmp_path, "a", seconds=seconds, extra=extra))
    for part in (
        "workload      resnet50", "identity      work ", "outcome       ok: done", "throughput    ", "steady steps",
        "median 110 ms", "longest 900 ms", "█", "evaluation    top1 0.625 after epoch 1",
        "throttled: the GPU was hot", "rank0.jsonl",
    ):  # fmt: skip
        assert part in text, part
    assert "\ntraining\n" in text


def test_a_page_names_the_optimisations_that_a_run_used(tmp_path: Path) -> None:
    folder = make_run(tmp_path, "a")
    assert "optimisations" not in page(folder)
    for recorded, said in ((["channels_last", "compile\x1b[31m"], "channels_last, compile"), ([], ""), ("compile", "")):
        write_json(folder / "env.json", {"optimisations": recorded})
        text = page(folder)
        assert (f"optimisations {said}" in text) == bool(said), recorded
        assert "\x1b" not in text


def test_a_run_without_steps_has_a_page_too(tmp_path: Path) -> None:
    text = page(make_run(tmp_path, "a", seconds=[], outcome="failed", reason="no luck"))
    assert "outcome       failed: no luck" in text
    assert "\nsteps\n" not in text


def test_strange_files_and_names_are_only_named(tmp_path: Path) -> None:
    folder = make_run(tmp_path, "a", reason="\x1b[31mred\u202e")
    os.mkfifo(folder / "pipe")
    (folder / "link").symlink_to("/dev/zero")
    text = page(folder)
    assert "pipe  not a plain file" in text
    assert "link  not a plain file" in text
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_a_sparkline_shows_the_one_slow_step_of_many() -> None:
    values = [1.0] * 10_000
    values[5_000] = 9.0
    line = draw(values, width=40)
    assert (len(line), line.count("█")) == (40, 1)
    assert draw([3.0, 3.0], width=10) == "▁▁"
    assert draw([float("nan")], width=10) == ""
