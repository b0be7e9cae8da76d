"""Reading by columns is a faster way to the same records, never to others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from trainmark.logs import reading
from trainmark.logs.columns import ColumnReader
from trainmark.logs.opening import LogFile
from trainmark.logs.record import Facts
from trainmark.logs.registry import load_dialects

SHARED = Path(__file__).parents[4] / "shared" / "logs"
LINE = (
    "2021-05-11 07:{m:02d}:{s:02d}{fraction} [INFO]\t[TRAIN] epoch: {epoch}, iter: {n}/160000, loss: {loss}, lr: 0.01, "
    "batch_cost: 0.{cost:04d}, reader_cost: 0.00136, ips: {ips:.4f} samples/sec | ETA 07:41:26\n"
)


def make_log(path: Path, *, num: int = 400, odd: dict[int, str] | None = None, fraction: str = "") -> Path:
    lines = ["GPUs used: 8\nbatch_size: 8\n"]
    for n in range(1, num + 1):
        line = LINE.format(m=n // 60 % 60, s=n % 60, epoch=n // 100, n=10 * n, loss=f"0.{n:04d}", cost=3000 + n,
                           ips=80000 / (3000 + n), fraction=fraction)  # fmt: skip
        lines += [(odd or {}).get(n, line), "chatter between them\n"]
    path.write_text("".join(lines))
    return path


def read(path: Path, monkeypatch: pytest.MonkeyPatch, *, by_columns: bool) -> tuple[list[tuple[float, ...]], object]:
    with monkeypatch.context() as patch:
        if not by_columns:
            patch.setattr(ColumnReader, "read", lambda *_: None)
        log = reading.read_log(LogFile(path), load_dialects(), given=Facts())
    assert log is not None
    rows = [tuple(row) for part in log.gathered.spool.parts() for row in part.tolist()]
    log.gathered.spool.close()
    return rows, (log.facts, log.gathered.evals, log.gathered.first_time_s, log.gathered.last_time_s, log.warnings)


def both(path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> list[tuple[float, ...]]:
    monkeypatch.setattr("trainmark.logs.opening.BLOCK_BYTES", block)
    (fast, known), (slow, expected) = (read(path, monkeypatch, by_columns=flag) for flag in (True, False))
    np.testing.assert_array_equal(np.array(fast), np.array(slow))
    assert known == expected
    return fast


def num_rows_by_columns(path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    taken = []
    with monkeypatch.context() as patch:
        add_rows = reading.Gathered.add_rows
        patch.setattr(
            reading.Gathered, "add_rows", lambda self, rows, peak: (taken.append(len(rows)), add_rows(self, rows, peak))
        )
        read(path, monkeypatch, by_columns=True)
    return sum(taken)


@pytest.mark.parametrize("fraction", ["", ".123", ",5"])
def test_the_usual_log_is_read_by_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fraction: str) -> None:
    path = make_log(tmp_path / "log", fraction=fraction)
    assert len(both(path, monkeypatch, 4096)) == 400
    assert num_rows_by_columns(path, monkeypatch) > 250


ODD = {
    "another layout": "[TRAIN] iter: 3000 ips: 12.5 samples/sec\n",
    "a decoy": "LAUNCH INFO ips: None\n",
    "colours": "\x1b[32m" + LINE.format(m=1, s=1, epoch=3, n=3001, loss="1", cost=1, ips=7, fraction="") + "\x1b[0m",
    "a bar": "50%\r60%\r" + LINE.format(m=1, s=1, epoch=3, n=3001, loss="1", cost=1, ips=7, fraction=""),
    "the same step again": LINE.format(m=4, s=59, epoch=2, n=2990, loss="0.1", cost=1, ips=7, fraction=""),
    "a step back": LINE.format(m=5, s=0, epoch=1, n=50, loss="0.1", cost=1, ips=7, fraction=""),
    "no speed": LINE.format(m=5, s=0, epoch=3, n=3000, loss="0.1", cost=0, ips=0, fraction=""),
    "no day": LINE.replace("05-11", "99-99").format(m=5, s=0, epoch=3, n=3000, loss=1, cost=1, ips=7, fraction=""),
    "dots": LINE.format(m=5, s=0, epoch=3, n=3000, loss="1.2.3", cost=1, ips=7, fraction=""),
    "a long number": LINE.format(m=5, s=0, epoch=3, n=3000, loss="0." + "1" * 20, cost=1, ips=7, fraction=""),
    "an evaluation": "[EVAL] #Images: 500 mIoU: 0.7012 Acc: 0.9\n",
}  # fmt: skip


@pytest.mark.parametrize("what", ODD)
@pytest.mark.parametrize("block", [2048, 8192])
def test_anything_odd_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, block: int) -> None:
    both(make_log(tmp_path / "log", odd={300: ODD[what]}), monkeypatch, block)


PADDED = (
    "Train: {epoch} [{n:>4d}/1251 ({n:>3d}%)]  Loss: {loss} (6.950)  Time: 0.{cost:03d}s, {rate:>8.2f}/s  "
    "(0.245s, 1044.90/s)  LR: 1.000e-05  Data: 0.012 (0.067)\n"
)
ODD_PADDING = {
    "": ("", ""),
    "a space in a number": ("6.5300", "6. 5300"),
    "a space between digits": ("6.5300", "6.53 00"),
    "no space": ("Loss: ", "Loss:"),
    "one more space": ("/s  (", "/s   ("),
    "many spaces": ("Loss: ", "Loss: " + 12 * " "),
    "a space elsewhere": ("Train: ", "Tra in: "),
    "aligned to the left": (" 950.00/s", "950.00 /s"),
    "another word": ("Data:", "Date:"),
    "a long number": ("6.5300", "123456789012.5300"),
    "nine digits": ("6.5300", "123456789.5300"),
}


@pytest.mark.parametrize("what", ODD_PADDING)
def test_numbers_that_are_aligned_to_the_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    lines = ["Training with a single process on 1 device (cuda:0).\n"]
    lines += [PADDED.format(epoch=0, n=n, loss=f"6.{n:04d}", cost=200 + n, rate=8 * n) for n in range(1, 401)]
    lines[300] = PADDED.format(epoch=0, n=300, loss="6.5300", cost=500, rate=950).replace(*ODD_PADDING[what])
    path = tmp_path / "log"
    path.write_text("".join(lines))
    both(path, monkeypatch, 1 << 14)
    if not what:
        assert num_rows_by_columns(path, monkeypatch) > 200


@pytest.mark.skipif(not SHARED.is_dir(), reason="the real logs are not here (../shared/logs)")
def test_real_logs_are_read_the_same_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    by_columns = 0
    for path in sorted(path for path in SHARED.rglob("*") if path.is_file() and path.name != "TRUTH.json"):
        both(path, monkeypatch, 1 << 16)
        by_columns += num_rows_by_columns(path, monkeypatch)
    assert by_columns > 1000
