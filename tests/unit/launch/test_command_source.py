from __future__ import annotations

import json
import math
import subprocess
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from trainmark.errors import InputError
from trainmark.launch import command_source
from trainmark.launch.command_source import CommandSource
from trainmark.launch.processes import find
from trainmark.runfolder.files import EXIT_FILE, LOG_FILE, OUTPUT_FILE, RUN_FILE, Json, write_json
from trainmark.store.folder import read_run
from trainmark.store.rows import RunRow


class Words:
    """Every line `step N` is a record of N samples in one second."""

    def feed(self, chunk: bytes, written_s: float | None) -> list[Json]:
        numbers = [int(line.split()[1]) for line in chunk.splitlines() if line.startswith(b"step")]
        return [{"kind": "step", "step": n, "seconds": 1.0, "samples": float(n)} for n in numbers]

    def close(self) -> list[Json]:
        return []

    def reread(self, output: Path, looks: Iterable[tuple[int, float | None]]) -> Iterator[Json] | None:
        return None


def write(folder: Path, name: str, *lines: Json | str) -> None:
    with (folder / name).open("a") as file:
        file.writelines(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines)


def step(number: int, samples: float = 4.0) -> Json:
    return {"kind": "step", "step": number, "seconds": 0.5, "samples": samples}


def finish(folder: Path, source: CommandSource, returncode: int = 0) -> str:
    (end,) = source.close(returncode).values()
    cell = {"nodes": 1, "devices_per_node": 2}
    write_json(folder / RUN_FILE, {"cell": cell, "source": "command"})
    write_json(folder / EXIT_FILE, {"outcome": end["outcome"], "reason": end["reason"]})
    return str(end["outcome"])


def test_printed_records_are_kept_as_they_come(tmp_path: Path) -> None:
    source = CommandSource(tmp_path, Words())
    assert source.read_new() == []
    write(tmp_path, OUTPUT_FILE, "hello\nstep 5\n")
    assert [record["step"] for record in source.read_new()] == [5]
    assert source.read_new() == []
    write(tmp_path, OUTPUT_FILE, "step 6\n")
    assert finish(tmp_path, source) == "ok"
    row = read_run(tmp_path)
    assert row is not None
    assert (row.source, list(row.samples), row.warnings) == ("command", [5.0, 6.0], ())


def test_marks_win_and_processes_add_up(tmp_path: Path) -> None:
    source = CommandSource(tmp_path, Words())
    write(tmp_path, OUTPUT_FILE, "step 5\n")
    write(tmp_path, "rank0.jsonl", step(1), step(2), step(3))
    write(tmp_path, "rank1.jsonl", step(1, 6.0), step(2, 6.0))
    shown = source.read_new()
    assert [(record["step"], record["samples"]) for record in shown] == [(1, 8.0), (2, 8.0), (3, 8.0)]
    assert finish(tmp_path, source) == "ok"
    row = read_run(tmp_path)
    assert row is not None
    assert list(row.samples) == [10.0, 10.0], "only steps that both have done"
    assert len(row.seconds) == len(row.steps) == 2


def read_marks(folder: Path, *ranks: list[Json]) -> RunRow:
    source = CommandSource(folder, Words())
    for number, steps in enumerate(ranks):
        write(folder, f"rank{number}.jsonl", *steps)
    finish(folder, source)
    row = read_run(folder)
    assert row is not None
    return row


def test_a_process_with_few_marks_is_a_warning(tmp_path: Path) -> None:
    row = read_marks(tmp_path, [step(n) for n in range(100)], [step(n) for n in range(3)])
    assert list(row.samples) == [8.0] * 3
    assert [warning["code"] for warning in row.warnings] == ["uneven-marks"]
    assert "between 3 and 100 steps" in row.warnings[0]["message"]


def test_one_mark_more_is_no_warning(tmp_path: Path) -> None:
    assert read_marks(tmp_path, [step(n) for n in range(4)], [step(n) for n in range(3)]).warnings == ()


def test_the_time_of_steps_without_samples_counts(tmp_path: Path) -> None:
    """Accumulated gradients: a script may give the samples of four batches with the last of them."""
    row = read_marks(tmp_path, [step(n, 16.0 if n % 4 == 0 else 0.0) for n in range(1, 11)])
    assert (list(row.samples), list(row.steps)) == ([16.0, 16.0], [4.0, 8.0])
    assert list(row.seconds) == [2.0, 2.0], "what follows the last samples has none yet"


def test_a_step_without_samples_of_one_process_keeps_its_place(tmp_path: Path) -> None:
    one = [step(1, 4.0), step(2, 0.0), step(3, 4.0), {**step(4), "samples": None}, step(5, 1.0)]
    row = read_marks(tmp_path, one, [step(n, 2.0 * n) for n in range(1, 6)])
    assert list(row.samples) == [6.0, 4.0, 10.0, 11.0], "the fourth is unknown"
    assert list(row.seconds) == [0.5] * 4


def test_no_records_is_a_warning_with_the_next_action(tmp_path: Path) -> None:
    source = CommandSource(tmp_path, Words())
    write(tmp_path, OUTPUT_FILE, "all well\n")
    assert finish(tmp_path, source) == "ok"
    row = read_run(tmp_path)
    assert row is not None
    assert [warning["code"] for warning in row.warnings] == ["no-records"]
    assert "--pattern" in row.warnings[0]["message"]


def test_a_failure_needs_no_such_warning(tmp_path: Path) -> None:
    source = CommandSource(tmp_path, Words())
    write(tmp_path, OUTPUT_FILE, "KeyError: 1\n")
    assert finish(tmp_path, source, returncode=1) == "failed"
    assert not (tmp_path / LOG_FILE).exists()


def test_marked_loss_that_is_no_number(tmp_path: Path) -> None:
    source = CommandSource(tmp_path, Words())
    write(tmp_path, OUTPUT_FILE, "")
    write(tmp_path, "rank0.jsonl", {**step(1), "loss": 0.5}, {**step(2), "loss": None})
    assert finish(tmp_path, source) == "nan"


def test_marks_without_samples_are_no_steps(tmp_path: Path) -> None:
    source = CommandSource(tmp_path, Words())
    write(tmp_path, "rank0.jsonl", step(1), step(2, 0.0), step(3, math.nan), {"kind": "step"}, step(4))
    assert [record["step"] for record in source.read_new()] == [1, 4]


def test_a_reader_that_fails_does_not_take_the_end_with_it(tmp_path: Path) -> None:
    class Failing(Words):
        def feed(self, chunk: bytes, written_s: float | None) -> list[Json]:
            raise InputError("the pattern takes too long on a line")

    source = CommandSource(tmp_path, Failing())
    write(tmp_path, OUTPUT_FILE, "step 5\n")
    with pytest.raises(InputError):
        source.read_new()
    assert finish(tmp_path, source) == "ok"


def test_only_what_has_a_usual_gap_can_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(command_source.time, "monotonic", lambda: clock[0])
    source = CommandSource(tmp_path, Words())
    clock[0] = 5000.0
    assert source.quiet_s() == (5000.0, math.inf)
    for number in range(6):
        clock[0] += 20
        write(tmp_path, OUTPUT_FILE, f"step {number}\n")
        source.read_new()
    clock[0] += 30
    assert source.quiet_s() == (30.0, 600.0), "20 gaps of 20 s, but ten minutes at least"
    write(tmp_path, OUTPUT_FILE, "evaluating\n")
    source.read_new()
    assert source.quiet_s()[0] == 0.0, "any word is a sign of life"


def test_the_silence_of_a_command_says_how_to_get_stacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_json(tmp_path / RUN_FILE, {"cell": {}, "measure": {"hang_least_s": 2.0}})
    monkeypatch.setenv("PATH", str(tmp_path))
    source = CommandSource(tmp_path, Words())
    assert "pip install py-spy" in source.explain_silence(7.0).english
    spy = tmp_path / "py-spy"
    spy.write_text("#!/bin/sh\necho Thread 1 in train_step\n")
    spy.chmod(0o755)
    with subprocess.Popen(["/bin/sleep", "20"], env={"TRAINMARK_RUN": tmp_path.name}) as process:
        while not find(tmp_path.name):
            time.sleep(0.02)
        reason = source.explain_silence(7.0)
        process.kill()
    assert reason.english == "no step and no output for 7 s"
    assert "train_step" in (tmp_path / "stacks.txt").read_text()
    (end,) = source.close(-9).values()
    assert (end["outcome"], end["look_at"]) == ("hang", "stacks.txt")


class Doubling(Words):
    """At the end every step is known to have had twice the samples."""

    def reread(self, output: Path, looks: Iterable[tuple[int, float | None]]) -> Iterator[Json]:
        with output.open("rb") as file:
            for num_bytes, written_s in looks:
                for record in self.feed(file.read(num_bytes), written_s):
                    yield {**record, "samples": 2 * record["samples"]}


def test_what_is_known_at_the_end_replaces_all_records(tmp_path: Path) -> None:
    source = CommandSource(tmp_path, Doubling())
    for number in (5, 6):
        write(tmp_path, OUTPUT_FILE, f"step {number}\n")
        assert [record["samples"] for record in source.read_new()] == [number]
    write(tmp_path, OUTPUT_FILE, "step 7\n")
    assert finish(tmp_path, source) == "ok"
    row = read_run(tmp_path)
    assert row is not None
    assert (list(row.samples), row.warnings) == ([10.0, 12.0, 14.0], ())
    assert not list(tmp_path.glob(".*"))


def test_a_second_reading_that_fails_leaves_the_first(tmp_path: Path) -> None:
    class Failing(Doubling):
        def reread(self, output: Path, looks: Iterable[tuple[int, float | None]]) -> Iterator[Json]:
            yield {**step(1), "loss": None}
            raise InputError("the pattern takes too long on a line")

    source = CommandSource(tmp_path, Failing())
    write(tmp_path, OUTPUT_FILE, "step 5\nstep 6\n")
    assert finish(tmp_path, source) == "ok"
    row = read_run(tmp_path)
    assert row is not None
    assert list(row.samples) == [5.0, 6.0]
    assert not list(tmp_path.glob(".*"))
