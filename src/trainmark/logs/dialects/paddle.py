"""PaddleClas, PaddleSeg, PaddleNLP, PaddleVideo, PaddleOCR: `ips: X samples/sec` of one device since the last print."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainmark.logs.dialect import Dialect, Groups, Probe, read_eval, read_step, read_wholes
from trainmark.logs.printed import NUMBER, patterns

_STEP = patterns(
    # The decoys `ips: None` and `ips: 127.0.0.1` have no unit.
    # Examples a second are those of one thread of a parameter-server job, which `paddle-rec` reads by the epoch.
    rb"\bips: (?P<rate>" + NUMBER + rb") (?P<unit>(?!example)\w{1,20})/s",
    rb"\bbatch_cost: (?P<seconds>" + NUMBER + rb")",
    rb"\bavg_batch_cost: (?P<seconds>" + NUMBER + rb")",
    rb"\b(?:train step|global_step|step_idx|[iI]ter|global step|total step|tobal step|batch):[ ]{0,4}"
    rb"(?P<step>\d{1,15})",
    rb"\]\s{0,4}\[\s{0,8}(?P<step>\d{1,12})/\d{1,12}\]",  # PaddleDetection: Epoch: [0] [ 20/7329]
    rb"\b[eE]poch:\s{0,4}\[?\s{0,8}(?P<epoch>\d{1,9})",
    rb"\[Epoch (?P<epoch>\d{1,9})/\d",  # PaddleClas: [Train][Epoch 1/120][Iter: 0/626]
    rb"\bloss:\s{0,8}(?P<loss>" + NUMBER + rb")",
    rb"\b(?:lr|LR): {1,4}(?P<lr>" + NUMBER + rb")",
    rb"\bavg_samples: (?P<device_samples>" + NUMBER + rb")",
    rb"\bmax_mem_allocated: (?P<memory_mb>\d{1,9}) MB",
)


def _precision(groups: Groups) -> Mapping[str, Any]:
    level = groups.get("level", b"")
    return {"precision": "fp16" if level == b"O2" else "amp"}


DIALECT = Dialect(
    name="paddle",
    summary="PaddleClas, PaddleSeg, PaddleNLP, PaddleVideo, PaddleOCR, PaddleDetection: ips of one device",
    framework="paddle",
    scope="device",
    default_precision="fp32",
    steps=(Probe(anchor=b"ips: ", patterns=_STEP, read=read_step),),
    others=(
        Probe(
            anchor=b"[E",  # one search for both kinds of evaluation
            patterns=patterns(rb"\[EVAL\] #Images[:=] ?\d{1,12}[, ]{1,2}mIoU[:=] ?(?P<value>" + NUMBER + rb")"),
            read=read_eval("mIoU"),
        ),
        Probe(
            anchor=b"[E",
            patterns=patterns(
                rb"\[Eval\]\[Epoch (?P<epoch>\d{1,9})\]\[Avg\].{0,200}?\btop1: (?P<value>" + NUMBER + rb")"
            ),
            read=read_eval("top1"),
        ),
        Probe(
            anchor=b"GPUs used",
            patterns=patterns(rb"GPUs used: (?P<devices>\d{1,6})"),
            read=read_wholes,
            where="ends",
            strength=3,
        ),
        Probe(
            anchor=b"num_gpus:",
            patterns=patterns(rb"num_shards: (?P<devices>\d{1,6}), num_gpus:"),
            read=read_wholes,
            where="ends",
            strength=3,
        ),
        Probe(
            anchor=b"batch_size",
            patterns=patterns(rb"\bbatch_size['\"]?\s{0,4}[:=]\s{0,4}(?P<batch_size_per_device>\d{1,9})"),
            read=read_wholes,
            where="ends",
            strength=1,
        ),
        Probe(
            anchor=b"AMP to train",
            patterns=patterns(rb"use AMP to train(?:\. AMP level = (?P<level>O\d))?"),
            read=_precision,
            where="ends",
            strength=3,
        ),
        Probe(
            anchor=b"use amp to train",
            patterns=patterns(rb"use amp to train"),
            read=lambda _: {"precision": "amp"},
            where="ends",
            strength=3,
        ),
    ),
)
