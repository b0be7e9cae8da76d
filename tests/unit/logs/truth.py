"""The real logs of other people and what is known of them; where they are not, tests skip."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

LOGS = Path(__file__).parents[4] / "shared" / "logs"

FRAMEWORKS = {"PyTorch": "torch", "Paddle": "paddle", "TensorFlow": "tensorflow", "MXNet": "mxnet"}

PROTOCOLS = {
    "tf_gpu1_amp_bs2.txt": "last",
    "tf_gpu1_amp_bs4.txt": "last",
    "tf_gpu1_fp32_bs2.txt": "last",
    "tf_gpu8_fp32_bs4.txt": "last",
    "MaskRCNN/OtherReports/PyTorch/logs/pytorch_gpu1_amp_bs4.txt": "stated:name=Training perf",
    "MaskRCNN/OtherReports/PyTorch/logs/pytorch_gpu1_fp32_bs2.txt": "stated:name=Training perf",
    "resnet50/log/GPUx8_time2train_ips.log": "stated:name=train.total_ips",
    "resnet50/log/GPUx1_time2train_ips.log": "stated:name=train.compute_ips",
    "mask_rcnn/log/GPUx8_time2train_ips.log": "last-cumulative",
    "transformer_big_gpu1_fp32.log": "last",
    "phase1_fp16_bs96_gpu1.log.gz": "last",
    "Deeplabv3_FP32_BS4-N8.log": "paddle-benchmark:mode=-1,skip=5",
    "tf_gpu32_fp32_bs256.txt": "stated:name=train_throughput",
    "tf_gpu1_amp_bs256.txt": "mean-after:skip=5",
    "tf_gpu8_fp32_bs256.txt": "mean-after:skip=5",
    "A100-LOG/pytorch_gpu1_amp_bs256.txt": "mean-after:skip=9",
    "V100-LOG/pytorch_gpu8_amp_bs256.txt": "mean-after:skip=8",
    "V100-LOG/pytorch_gpu8_fp32_bs256.txt": "mean-after:skip=8",
    "V100-LOG/pytorch_gpu32_amp_bs256.txt": "stated:name=train.total_ips",
    "V100-LOG/paddle_gpu32_fp32_bs256.txt": "paddle-benchmark:mode=-1,skip=10",
    "hrnet_torch_bs8_fp16_gpu8": "paddle-benchmark:mode=0,skip=5",
    "tf_bert_pretraining_lamb_base_fp16_bs96_gpu8.log": "mean-after:skip=0",
    "tf_bert_pretraining_lamb_base_fp32_bs96_gpu32.log": "mean-after:skip=9",
    "phase1_fp32_bs96_gpu8.log": "last",
    "pyt_bert_pretraining_phase1_fp16_bs96_gpu1.log": "last",
    "PaddleNLP_bert_base_seqlen128_bs96_fp32_DP_N1C1_log": "paddle-benchmark:mode=-1,skip=9",
    "Bert/logs/V100_LOG/base_bs96_fp32_gpu32.log": "paddle-benchmark:mode=-1,skip=10",
}
"""The named protocol that reproduces the published value, by the end of the file's name."""

DIFFERENT = {
    "transformer_base_gpu8_amp.log": ("devices",),
    "transformer_big_gpu1_fp32.log": ("batch_per_device",),
    "deeplabv3p_c32_fp32.log": ("batch_per_device", "median", "last"),
}
"""Where the log itself contradicts what is said of it; docs/concepts/imported-logs.md proves each."""


def read_truth() -> list[dict[str, Any]]:
    path = LOGS / "TRUTH.json"
    if not path.is_file():
        return []
    rows: list[dict[str, Any]] = json.loads(path.read_text())
    return rows


def needs_logs() -> pytest.MarkDecorator:
    return pytest.mark.skipif(not (LOGS / "TRUTH.json").is_file(), reason="other people's logs are not on this machine")


def entry_for(table: dict[str, Any], file: str) -> Any:
    """The value of the longest key that the file's path ends with."""
    keys = [key for key in table if file.endswith(key)]
    return table[max(keys, key=len)] if keys else None


def expected(row: dict[str, Any]) -> dict[str, Any]:
    """The truth in our words: `fp32+xla` and `pure_fp16(O2)` name more than a precision, a batch of 0 is unknown."""
    precision = row["precision"].split("+")[0].split("(")[0]
    return {
        "framework": FRAMEWORKS[row["framework"].split()[0]],
        "devices": row["devices"],
        "batch_per_device": row["batch_per_device"] or None,
        "precision": {"pure_fp16": "fp16"}.get(precision, precision),
        "records": row["records"],
        "median": row["median"],
        "last": row["last"],
    }
