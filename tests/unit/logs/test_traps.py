"""Each trap raises its own warning and no other; docs/concepts/warnings.md knows every code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from samples import SAMPLES, import_text

from trainmark.messages.message import warning_titles
from trainmark.report.document import describe_runs
from trainmark.store.rows import RunRow

ROOT = Path(__file__).parents[3]


def codes(*rows: RunRow) -> list[str]:
    """Without `too-noisy`: a short log with one trap in it may be that as well."""
    found = [warning["code"] for result in describe_runs(rows) for warning in result["warnings"]]
    return [code for code in found if code != "too-noisy"]


def ngc(rates: list[float], *, devices: int = 8, batch: int = 256, amp: bool = True, head: str = "") -> str:
    """A log of NVIDIA's ResNet-50, one record an iteration."""
    text = f"DLL 2024-01-01 10:00:00.1 - PARAMETER arch : resnet50  batch_size : {batch}  amp : {amp}  "
    text += f"world_size : {devices}\n{head}"
    elapsed_s = 0.0
    for step, rate in enumerate(rates, start=1):
        elapsed_s += batch * devices / rate
        time = f"10:{int(elapsed_s // 60):02d}:{elapsed_s % 60:06.3f}"
        text += f"DLL 2024-01-01 {time} - Epoch: 0 Iteration: {step}  train.loss : 7.0  "
        text += f"train.total_ips : {rate} img/s\n"
    return text


def paddle(rate: float, *, devices: int, batch: int, head: str = "", tail: str = "", lr: str = "0.1") -> str:
    text = f"GPUs used: {devices}\n{head}"
    for step in range(1, 21):
        text += f"2024-01-01 10:00:{step:02d} [INFO]\t[TRAIN] epoch: 1, iter: {step}/100, loss: 0.5, lr: {lr}, "
        text += f"batch_cost: {batch * devices / rate:.6f}, ips: {rate / devices:.6f} samples/sec\n"
    return text + tail


STEADY = [6000.0 + (step % 3) for step in range(40)]


def test_a_plain_log_raises_nothing(tmp_path: Path) -> None:
    assert codes(import_text(tmp_path, ngc(STEADY))) == []


def test_a_mean_of_rates_is_not_samples_over_time(tmp_path: Path) -> None:
    assert codes(import_text(tmp_path, ngc([100.0, 100.0, 30.0, 100.0] * 10))) == ["mean-of-rates"]


def test_its_own_total_counts_one_node_of_four(tmp_path: Path) -> None:
    tail = "AI-Rank-log 1704103200.1 test_begin\nAI-Rank-log 1704103300.1 test_finish\n"
    tail += "AI-Rank-log 1704103300.1 avg_ips:107.5images/sec\n"
    assert codes(import_text(tmp_path, paddle(430.0, devices=32, batch=8, tail=tail))) == ["stated-scope"]


def test_a_last_record_that_collapsed(tmp_path: Path) -> None:
    assert codes(import_text(tmp_path, ngc([*STEADY, 178.99]))) == ["collapsed-record"]


def test_evaluation_inside_a_window(tmp_path: Path) -> None:
    text = "samples_per_gpu=4,\nDistributed training: False\noptimizer_config = dict()\n"
    for step in range(50, 2050, 50):
        time_s = 5.0 if step % 500 == 50 and step > 50 else 1.0
        text += f"2024-01-01 10:{step // 60:02d}:{step % 60:02d},1 - mmseg - INFO - Iter [{step}/2000]\tlr: 1e-2, "
        text += f"time: {time_s:.3f}, data_time: 0.01, memory: 1024, loss: 1.0\n"
        if step % 500 == 0:
            text += f"2024-01-01 10:{step // 60:02d}:{step % 60:02d},9 - mmseg - INFO - Iter(val) [{step}]\tmIoU: 0.5\n"
    assert codes(import_text(tmp_path, text)) == ["evaluation-inside"]


def test_the_index_of_an_epoch_as_a_count(tmp_path: Path) -> None:
    head = "AI-Rank-log 1704103200.1 test_begin\n"
    tail = "AI-Rank-log 1704103250.1 eval_accuracy:44.08, total_epoch_cnt:0\nAI-Rank-log 1704103300.1 test_finish\n"
    assert codes(import_text(tmp_path, ngc(STEADY, head=head) + tail)) == ["epoch-index"]


def test_different_batches_in_one_column(tmp_path: Path) -> None:
    one = import_text(tmp_path, paddle(17.0, devices=1, batch=8), name="hrnet_one.log")
    many = import_text(tmp_path, paddle(430.0, devices=32, batch=4), name="hrnet_many.log")
    assert codes(one) == codes(many) == []
    assert codes(one, many) == ["mixed-batch"]


def test_a_speedup_above_the_number_of_devices(tmp_path: Path) -> None:
    one = import_text(tmp_path, ngc([rate / 8.24 for rate in STEADY], devices=1))
    many = import_text(tmp_path, ngc(STEADY))
    assert codes(one, many) == ["superlinear"]
    honest = import_text(tmp_path, ngc([rate / 7.5 for rate in STEADY], devices=1))
    assert codes(honest, many) == []


def test_strict_precision_on_ampere(tmp_path: Path) -> None:
    head = "GPU 0: NVIDIA A100-SXM4-80GB\n"
    slower = [rate / 3 for rate in STEADY]  # within the peak of a V100
    assert codes(import_text(tmp_path, ngc(slower, amp=False, head=head))) == ["tf32-as-fp32"]
    assert codes(import_text(tmp_path, ngc(slower, amp=False, head="GPU 0: Tesla V100-SXM2-32GB\n"))) == []


@pytest.mark.parametrize(
    ("head", "lr"),
    [("  batch_size: 64\n", "0.1"), ("python train.py --learning_rate 0.01\n", "0.001")],
    ids=["batch", "learning-rate"],
)
def test_a_configuration_that_the_log_contradicts(head: str, lr: str, tmp_path: Path) -> None:
    row = import_text(tmp_path, paddle(2000.0, devices=8, batch=256, head=head, lr=lr))
    assert codes(row) == ["config-contradicted"]
    assert row.batch_size_per_device == 256


def test_the_path_says_otherwise_and_the_log_counts(tmp_path: Path) -> None:
    row = import_text(tmp_path, ngc(STEADY), name="pytorch_gpu4_amp_bs256.log")
    assert (codes(row), row.devices) == (["path-disagrees"], 8)


def test_a_flag_counts_before_both(tmp_path: Path) -> None:
    row = import_text(tmp_path, ngc(STEADY), name="pytorch_gpu4_amp_bs256.log", devices=16)
    assert (codes(row), row.devices) == (["clock-disagrees"], 16), "the log itself says that there were 8"


def test_per_device_or_global_is_never_guessed(tmp_path: Path) -> None:
    lines = "".join(f"({n}/62) LR: 0.001 | ips: 45.5 | Loss: 0.6\n" for n in range(1, 9))
    row = import_text(tmp_path, lines, devices=8, batch_size_per_device=8)
    result = describe_runs([row])[0]
    assert codes(row) == ["scope-ambiguous"]
    assert (result["records"], result["median"], result["throughput"]) == (8, None, None)


def test_one_device_leaves_nothing_to_guess(tmp_path: Path) -> None:
    lines = "".join(f"({n}/62) LR: 0.001 | ips: 45.5 | Loss: 0.6\n" for n in range(1, 9))
    row = import_text(tmp_path, lines, devices=1, batch_size_per_device=8)
    assert (codes(row), describe_runs([row])[0]["last"]) == ([], 45.5)


def test_rates_of_one_device_and_no_number_of_devices(tmp_path: Path) -> None:
    text = paddle(100.0, devices=1, batch=8).removeprefix("GPUs used: 1\n")
    row = import_text(tmp_path, text)
    assert (codes(row), describe_runs([row])[0]["median"]) == (["devices-unknown"], None)


def test_seconds_without_a_batch_count_iterations(tmp_path: Path) -> None:
    text = "".join(f"Epoch: [0][{10 * n}/100]\tTime 0.500 (0.5)\tLoss 5.9 (5.9)\n" for n in range(1, 10))
    row = import_text(tmp_path, text)
    assert (codes(row), row.unit, describe_runs([row])[0]["last"]) == (["batch-unknown"], "iterations", 2.0)


def test_one_node_of_many(tmp_path: Path) -> None:
    sample = next(sample for sample in SAMPLES if sample.dialect == "paddle-rec")
    assert codes(import_text(tmp_path, sample.text)) == ["one-node-of-many"]


def test_times_that_were_edited(tmp_path: Path) -> None:
    head = "AI-Rank-log 1558631910.424 test_begin\nAI-Rank-log 1558631990.424 test_finish\n"
    assert codes(import_text(tmp_path, ngc(STEADY, head=head))) == ["edited-times"]


def test_a_protocol_without_an_end(tmp_path: Path) -> None:
    assert codes(import_text(tmp_path, ngc(STEADY, head="AI-Rank-log 1704103200.1 test_begin\n"))) == ["no-end"]


def test_the_docs_explain_every_code_and_no_other() -> None:
    page = (ROOT / "docs" / "concepts" / "warnings.md").read_text()
    assert set(re.findall(r"^### `([\w-]+)`$", page, re.MULTILINE)) == set(warning_titles())


def test_codes_stand_in_the_messages_only() -> None:
    """No record is made from a literal code: each comes from its declaration."""
    sources = (path for path in (ROOT / "src" / "trainmark").rglob("*.py") if path.parent.name != "messages")
    found = {code: path.name for path in sources for code in literal_codes(ast.parse(path.read_text()))}
    assert found == {}


def literal_codes(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            names = [key.value if isinstance(key, ast.Constant) else None for key in node.keys]
            if "machine" in names:  # the names of work, code and machine, in which two runs may differ
                continue
            values = [value for name, value in zip(names, node.values, strict=True) if name in ("code", "reason_code")]
            yield from (str(value.value) for value in values if isinstance(value, ast.Constant))
