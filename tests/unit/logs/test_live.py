"""Lines of a running command to records: the printed numbers, or the clock where it knows better."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trainmark.logs.live import LiveLog
from trainmark.logs.opening import LogFile
from trainmark.logs.reading import read_log
from trainmark.logs.record import Facts
from trainmark.logs.registry import load_dialects

EXAMPLE = "Epoch: [{epoch}][{step:>3}/99]\tTime  0.012 ( 0.013)\tLoss 2.3 (2.4)\n"
PADDLE = (
    "[2021/05/11 07:05:24] epoch: [1/9], iter: {step}/99 loss: 0.5, avg_batch_cost: 0.50000 sec, ips: 16.00 images/s\n"
)


def log(**given: Any) -> LiveLog:
    return LiveLog(load_dialects(), Facts(**given))


def feed(live: LiveLog, *lines: tuple[str, float | None]) -> list[tuple[int, float, float]]:
    records = [record for text, came_s in lines for record in live.feed(text.encode(), came_s)]
    return [(r["step"], round(r["seconds"], 6), r["samples"]) for r in records if r["kind"] == "step"]


def test_the_clock_covers_all_iterations_between_two_lines() -> None:
    live = log(devices=1, batch_size_per_device=32)
    lines = [(EXAMPLE.format(epoch=0, step=step), 100 + step * 0.0125) for step in (0, 10, 20)]
    assert feed(live, *lines) == [(0, 0.012, 32), (10, 0.125, 320), (20, 0.125, 320)]
    assert (live.dialect, live.unit) == ("torch-example", "images")


def test_between_two_epochs_there_may_be_an_evaluation() -> None:
    live = log(devices=1, batch_size_per_device=32)
    lines = [(EXAMPLE.format(epoch=0, step=90), 100.0), (EXAMPLE.format(epoch=1, step=0), 900.0)]
    assert feed(live, *lines, (EXAMPLE.format(epoch=1, step=10), 900.2)) == [
        (90, 0.012, 32), (0, 0.012, 32), (10, 0.2, 320),
    ]  # fmt: skip


def test_lines_that_came_at_once_share_the_clock() -> None:
    """A look that came late sees several lines; the time of all of them is known, and no three digits replace it."""
    live = log(devices=1, batch_size_per_device=32)
    first, late = ("".join(EXAMPLE.format(epoch=0, step=step) for step in steps) for steps in ((0, 10), (20, 30, 50)))
    assert feed(live, (first, 100.0), (late, 100.8), (EXAMPLE.format(epoch=0, step=60), 101.0)) == [
        (0, 0.012, 32), (10, 0.012, 32), (20, 0.2, 320), (30, 0.2, 320), (50, 0.4, 640), (60, 0.2, 320),
    ]  # fmt: skip


def test_steps_that_came_at_once_keep_their_proportions() -> None:
    live = log(devices=1, batch_size_per_device=32)
    line = "Epoch: [0][{step:>3}/99]\tTime  {seconds:.3f} ( 0.013)\tLoss 2.3 (2.4)\n"
    late = line.format(step=2, seconds=0.01) + line.format(step=3, seconds=0.03)
    assert feed(live, (line.format(step=1, seconds=0.01), 100.0), (late, 100.06)) == [
        (1, 0.01, 32), (2, 0.015, 32), (3, 0.045, 32),
    ]  # fmt: skip


def test_a_look_without_a_clock_is_not_bridged() -> None:
    live = log(devices=1, batch_size_per_device=32)
    lines = [(EXAMPLE.format(epoch=0, step=step), came_s) for step, came_s in ((0, 100.0), (10, None), (20, 103.0))]
    assert feed(live, *lines, (EXAMPLE.format(epoch=0, step=30), 103.5)) == [
        (0, 0.012, 32), (10, 0.012, 32), (20, 0.012, 32), (30, 0.5, 320),
    ]  # fmt: skip


def test_of_lines_that_came_at_once_an_epoch_or_an_evaluation_between_is_no_training() -> None:
    for between in (" * Acc@1 70.1 Acc@5 90.2\n", ""):
        live = log(devices=1, batch_size_per_device=32)
        after = EXAMPLE.format(epoch=0 if between else 1, step=20)
        late = EXAMPLE.format(epoch=0, step=10) + between + after
        assert feed(live, (EXAMPLE.format(epoch=0, step=0), 100.0), (late, 160.0))[1:] == [
            (10, 0.012, 32), (20, 0.012, 32),
        ]  # fmt: skip


def test_a_line_may_come_in_pieces() -> None:
    live = log(devices=1, batch_size_per_device=32)
    text = EXAMPLE.format(epoch=0, step=0)
    assert feed(live, (text[:20], 100.0), (text[20:], 100.1)) == [(0, 0.012, 32)]


def test_what_is_printed_as_a_mean_since_the_last_line_is_believed() -> None:
    live = log(devices=8, nodes=1)
    found = feed(live, (PADDLE.format(step=10), 100.0), (PADDLE.format(step=20), 700.0))
    assert found[1] == (20, 5.0, 640.0), "ten iterations of half a second at 16 images/s on each of 8 devices"


def test_without_a_batch_the_speed_is_in_iterations_and_a_warning_says_so() -> None:
    live = log(devices=1)
    lines = [(EXAMPLE.format(epoch=0, step=step), 100 + step * 0.01) for step in (0, 10)]
    assert feed(live, *lines)[1] == (10, 0.1, 10)
    assert live.unit == "iterations"
    assert [record["code"] for record in live.close() if record["kind"] == "warning"] == ["batch-unknown"]


def reread(live: LiveLog, path: Path, *lines: tuple[str, float | None]) -> list[tuple[int, float, float]] | None:
    """After the end of a command that printed `lines`."""
    feed(live, *lines)
    live.close()
    path.write_text("".join(text for text, _ in lines))
    anew = live.reread(path, [(len(text.encode()), came_s) for text, came_s in lines])
    if anew is None:
        return None
    return [(r["step"], round(r["seconds"], 6), r["samples"]) for r in anew if r["kind"] == "step"]


def test_a_batch_that_is_told_late_counts_for_all_records(tmp_path: Path) -> None:
    live = log(devices=1)
    lines = [(EXAMPLE.format(epoch=0, step=step), 100 + step * 0.01) for step in (0, 10, 20, 30)]
    found = reread(live, tmp_path / "log", *lines[:2], ("Batch size = 32\n", 100.15), *lines[2:])
    assert found == [(0, 0.012, 32), (10, 0.1, 320), (20, 0.1, 320), (30, 0.1, 320)], "by the clock, as before"
    assert (live.unit, live.facts.batch_size_per_device) == ("images", 32)
    assert live.reread(tmp_path / "log", []) is None, "nothing new is known"


def test_a_decoy_does_not_choose_the_dialect(tmp_path: Path) -> None:
    """The choice is that of `import`, which sees most lines of the other kind."""
    live = log(devices=1, batch_size_per_device=32)
    decoy = PADDLE.format(step=1)
    lines = [(EXAMPLE.format(epoch=0, step=step), 100 + step * 0.01) for step in range(0, 400, 10)]
    found = reread(live, tmp_path / "log", (decoy, 99.0), *lines)
    assert found is not None
    assert found[:2] == [(0, 0.012, 32), (10, 0.1, 320)]
    assert len(found) == 40
    imported = read_log(LogFile(tmp_path / "log"), load_dialects(), given=Facts())
    assert imported is not None
    imported.gathered.spool.close()
    assert live.dialect == imported.dialect.name == "torch-example"


def test_what_was_known_from_the_beginning_is_not_read_again(tmp_path: Path) -> None:
    lines = [(EXAMPLE.format(epoch=0, step=step), 100 + step * 0.01) for step in (0, 10)]
    assert reread(log(devices=1, batch_size_per_device=32), tmp_path / "log", *lines) is None


def test_an_evaluation_inside_an_epoch_is_no_training() -> None:
    live = log(devices=1, batch_size_per_device=32)
    lines = [(EXAMPLE.format(epoch=0, step=step), 100 + step * 0.0125) for step in (0, 10)]
    after = [(EXAMPLE.format(epoch=0, step=20), 160.0), (EXAMPLE.format(epoch=0, step=30), 160.2)]
    found = feed(live, *lines, (" * Acc@1 70.1 Acc@5 90.2\n", 159.0), *after)
    assert found[2:] == [(20, 0.012, 32), (30, 0.2, 320)]


def test_a_program_that_starts_its_own_processes_knows_how_many_samples_a_step_has() -> None:
    """Two processes of torchrun look like one to the launcher; the Trainer prints the batch of all of them."""
    live = log(devices=1, batch_size_per_device=4)
    total = "  Instantaneous batch size per device = 4\n  Total train batch size (w. parallel) = 8\n"
    bars = [(f" 10%|#  | {step}/250 [00:12<00:28,  5.87it/s]\n", 100.0 + step) for step in range(1, 6)]
    done = ("{'train_runtime': 42.03, 'train_samples_per_second': 47.59, 'epoch': 1.0}\n", 110.0)
    found = feed(live, (total, 100.0), *bars, done)
    assert {samples for _, _, samples in found} == {8}


def test_the_word_of_the_user_counts_before_the_log_s() -> None:
    live = log(devices=2, batch_size_per_device=4)
    lines = [("Namespace(batch_size=64)\n", 99.0), *((EXAMPLE.format(epoch=0, step=s), 100.0 + s) for s in (0, 1))]
    assert feed(live, *lines)[1] == (1, 1.0, 8)


@pytest.mark.parametrize("junk", [b"\x00\xff" * 4000, b"loss: nan\n" * 50, b"", b"\x1b[31mEpoch: [\n"])
def test_junk_is_no_record(junk: bytes) -> None:
    live = log(devices=1)
    assert live.feed(junk, 1.0) == []
    assert live.close() == []
    assert live.dialect is None
