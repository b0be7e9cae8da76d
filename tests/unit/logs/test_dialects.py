"""Each dialect on a log of its own, and the noise that real logs have."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from newer_samples import NEWER_SAMPLES
from samples import GIVEN, SAMPLES, Sample, import_text

from trainmark.logs.opening import LogFile
from trainmark.logs.registry import load_dialects
from trainmark.logs.stream import LogStream
from trainmark.report.document import describe_runs

PADDLE = SAMPLES[0]


ALL = (*SAMPLES, *NEWER_SAMPLES)


@pytest.mark.parametrize("sample", ALL, ids=lambda sample: sample.dialect)
def test_a_log_of_each_dialect(sample: Sample, tmp_path: Path) -> None:
    row = import_text(tmp_path, sample.text, **GIVEN.get(sample.dialect, {}))
    result = describe_runs([row])[0]
    assert row.dialect == sample.dialect
    assert result["records"] == sample.records
    assert result["last"] == (None if sample.last is None else pytest.approx(sample.last, rel=1e-9))
    assert row.framework == sample.framework
    assert {name: getattr(row, name) for name in sample.facts} == sample.facts


def test_every_dialect_has_a_sample() -> None:
    assert {dialect.name for dialect in load_dialects()} == {sample.dialect for sample in ALL}


def test_evaluations_keep_their_step_and_value(tmp_path: Path) -> None:
    row = import_text(tmp_path, PADDLE.text)
    assert [(e["step"], e["metric"], e["value"]) for e in row.evals] == [(30, "mIoU", 0.4321)]
    assert list(zip(row.loss_steps, row.losses, strict=True)) == [(10, 0.51), (20, 0.52), (30, 0.53)]


def mpirun(text: str) -> str:
    return "".join(f"Wed Jun  1 10:54:47 2022[1,0]<stdout>:{line}\n" for line in text.splitlines())


NOISE = {
    "mpirun": mpirun(PADDLE.text).encode(),
    "tags": "".join(f"[1,0]<stdout>:{line}\n" for line in PADDLE.text.splitlines()).encode(),
    "torchrun": "".join(f"[rank0]:{line}\n" for line in PADDLE.text.splitlines()).encode(),
    "colours": "".join(f"\x1b[32m{line}\x1b[0m\n" for line in PADDLE.text.splitlines()).encode(),
    "bars": b"10%|#  | 1/10\r20%|## | 2/10\r" + PADDLE.text.encode().replace(b"\n", b"\r\n", 2),
    "decoys": b"LAUNCH INFO 2024-01-01 10:00:00,000 ips: None\nips: 127.0.0.1\n" + PADDLE.text.encode(),
    "gzip": gzip.compress(PADDLE.text.encode()),
    "two-gzips": gzip.compress(PADDLE.text.encode()[:300]) + gzip.compress(PADDLE.text.encode()[300:]),
    "truncated": PADDLE.text.encode() + b"2024 [TRAIN] epoch: 1, iter: 40/100, batch_cost: 0.5, ips: 16.",
    "long-line": b"x" * (8 << 20) + b"\n" + PADDLE.text.encode() + b"ips: " * 500_000,
    "nuls": PADDLE.text.encode().replace(b"ips", b"\x00ips").replace(b"\n", b"\n\x00\x00", 3),
    "crlf": PADDLE.text.encode().replace(b"\n", b"\r\n"),
    "gbk": "训练开始\n".encode("gbk") + PADDLE.text.encode() + "评估\n".encode("gbk"),
    "utf-16": PADDLE.text.encode("utf-16"),
    "bom": b"\xef\xbb\xbf" + PADDLE.text.encode(),
}


@pytest.mark.parametrize("kind", NOISE)
def test_noise_is_survived(kind: str, tmp_path: Path) -> None:
    row = import_text(tmp_path, NOISE[kind])
    result = describe_runs([row])[0]
    assert (row.dialect, result["records"], result["last"], row.devices) == ("paddle", 3, 64.0, 4)
    assert row.warnings == ()


def test_several_ranks_in_one_file_count_once(tmp_path: Path) -> None:
    lines = [f"[1,{rank}]<stdout>:{line}" for line in PADDLE.text.splitlines() for rank in (0, 1, 2, 3)]
    row = import_text(tmp_path, "\n".join(lines) + "\n")
    assert row.num_records == 3
    assert [warning["code"] for warning in row.warnings] == ["several-ranks"]


def test_several_ranks_without_tags_count_once(tmp_path: Path) -> None:
    lines = [line for line in PADDLE.text.splitlines() for _ in range(4)]
    row = import_text(tmp_path, "\n".join(lines) + "\n")
    assert row.num_records == 3


def test_an_iteration_that_is_repeated_later_is_a_record(tmp_path: Path) -> None:
    """A loss scaler that overflows prints iteration 1 again, minutes later."""
    text = "".join(
        f"DLL 2024-01-01 10:0{minute}:00.1 - Iteration: 1  throughput_train : 530.5 seq/s total_loss : 11.0\n"
        for minute in (1, 3, 5)
    )
    assert import_text(tmp_path, text).num_records == 3


def test_a_gzip_that_ends_too_early_is_read_up_to_there(tmp_path: Path) -> None:
    packed = gzip.compress(PADDLE.text.encode() * 200)
    row = import_text(tmp_path, packed[: len(packed) // 2])
    assert row.num_records
    assert "damaged" in [warning["code"] for warning in row.warnings]


def test_an_empty_file_and_a_binary_one_give_nothing(tmp_path: Path) -> None:
    for name, content in (("empty", b""), ("binary", bytes(range(256)) * 100), ("text", b"hello\n")):
        path = tmp_path / name
        path.write_bytes(content)
        stream = LogStream(load_dialects())
        assert [record for block in LogFile(path).blocks() for record in stream.feed(block)] == []
        assert (stream.close(), stream.dialect, stream.confidence) == ([], None, 0.0)


def test_confidence_grows_with_the_lines() -> None:
    one, many = LogStream(load_dialects()), LogStream(load_dialects())
    lines = PADDLE.text.splitlines(keepends=True)
    one.feed("".join(lines[:3]).encode())
    many.feed(PADDLE.text.encode())
    assert 0 < one.confidence < many.confidence < 1


def test_a_record_covers_its_interval(tmp_path: Path) -> None:
    """Two prints 10 and 30 iterations apart: the second weighs three times as much."""
    line = (
        "2024-01-01 10:00:0{n} - mmseg - INFO - Iter [{step}/800]\tlr: 1e-2, time: {time}, data_time: 0.1, loss: 1.0\n"
    )
    text = "samples_per_gpu=1,\nDistributed training: False\n"
    text += "".join(line.format(n=n, step=s, time=t) for n, s, t in ((1, 10, "1.000"), (2, 40, "0.500")))
    row = import_text(tmp_path, text)
    assert row.seconds.tolist() == [10.0, 15.0]
    assert row.samples.tolist() == [10.0, 30.0]


def test_a_line_that_resembles_a_record_does_not_shape_how_records_are_read(tmp_path: Path) -> None:
    """The mean of an epoch stands before its iterations: what was learnt from it must not swallow their numbers."""
    mean = "DLL 2024-01-01 10:00:00.1 - Epoch: 0  train.loss : 7.0  train.total_ips : 9.00 img/s\n"
    steps = "".join(
        f"DLL 2024-01-01 10:00:0{n}.1 - Epoch: 0 Iteration: {n}  train.loss : 7.{n}  train.total_ips : 60{n}.50 img/s\n"
        for n in range(1, 6)
    )
    row = import_text(tmp_path, mean + steps + mean)
    assert (row.num_records, row.steps.tolist()) == (5, [1, 2, 3, 4, 5])
    assert row.losses.tolist() == [7.1, 7.2, 7.3, 7.4, 7.5]
