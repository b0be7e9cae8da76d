"""mmseg, mmdet and their siblings: `Iter [50/80000] ... time: 0.53, data_time: ...`, seconds of an iteration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainmark.logs.dialect import Dialect, Groups, Probe, read_eval, read_step, read_wholes
from trainmark.logs.printed import NUMBER, number, patterns, whole
from trainmark.logs.record import SIXTEEN_BITS

_TIME = (
    rb"\btime: (?P<seconds>" + NUMBER + rb")",
    rb"\bmemory: (?P<memory_mb>\d{1,9})",
    rb"\b(?:lr|LR): {1,4}(?P<lr>" + NUMBER + rb")",
    rb"(?<![\w.])loss: (?P<loss>" + NUMBER + rb")",
)
_ITER = patterns(rb"\bIter ?(?:\(train\) )?\[ {0,8}(?P<step>\d{1,12})/ {0,8}\d{1,12}\]", *_TIME)
_EPOCH = patterns(rb"\bEpoch ?(?:\(train\) )? {0,4}\[(?P<epoch>\d{1,9})\]\[ {0,8}(?P<step>\d{1,12})/\d{1,12}\]", *_TIME)


def _devices(groups: Groups) -> Mapping[str, Any]:
    """`gpu_ids = range(0, 1)` is what any distributed run of the older versions prints, so one device says nothing."""
    devices = whole(groups.get("devices"))
    return {"devices": devices} if devices is not None and devices > 1 else {}


DIALECT = Dialect(
    name="openmmlab",
    summary="mmseg, mmdet and siblings: seconds of an iteration, mean since the last print",
    framework="torch",
    unit="images",
    steps=(
        Probe(anchor=b"Iter [", patterns=_ITER, read=read_step),
        Probe(anchor=b"Iter(train) [", patterns=_ITER, read=read_step),
        Probe(anchor=b"Epoch [", patterns=_EPOCH, read=read_step),
        Probe(anchor=b"Epoch(train) ", patterns=_EPOCH, read=read_step),
    ),
    others=(
        Probe(
            anchor=b"(val) [",
            patterns=patterns(
                rb"\b(?:Iter\(val\) \[(?:(?P<step>\d{1,12})|\d{1,12}/\d{1,12})\]|Epoch\(val\) \[(?P<epoch>\d{1,9})\])"
                rb".{0,80}?mIoU: (?P<value>" + NUMBER + rb")"
            ),
            read=read_eval("mIoU"),
        ),
        Probe(
            anchor=b"(val) [",
            patterns=patterns(
                rb"\b(?:Iter\(val\) \[\d{1,12}/\d{1,12}\]|Epoch\(val\) \[(?P<epoch>\d{1,9})\])"
                rb".{0,80}?\b(?:accuracy(?:/top1|_top-1)?|acc/top1|top1_acc): (?P<value>" + NUMBER + rb")"
            ),
            read=read_eval("accuracy"),
        ),
        Probe(
            anchor=b"bbox_mAP: ",
            patterns=patterns(rb"\bbbox_mAP: (?P<value>" + NUMBER + rb")", rb"\bEpoch\(val\) \[(?P<epoch>\d{1,9})\]"),
            read=read_eval("bbox_mAP"),
        ),
        Probe(
            anchor=b"samples_per_gpu",
            patterns=patterns(rb"\bsamples_per_gpu ?= ?(?P<batch_size_per_device>\d{1,9})"),
            read=read_wholes,
            where="ends",
        ),
        Probe(
            anchor=b"train_dataloader = dict(",
            patterns=patterns(
                rb"train_dataloader = dict\((?:\s{0,12}batch_sampler=[^\n]{0,120})?"
                rb"\s{0,12}batch_size=(?P<batch_size_per_device>\d{1,9})"
            ),
            read=read_wholes,
            where="ends",
            num_lines=3,
        ),
        Probe(
            anchor=b"GPU number: ",
            patterns=patterns(rb"\bGPU number: (?P<devices>\d{1,6})"),
            read=read_wholes,
            where="ends",
            strength=3,
        ),
        Probe(
            anchor=b"gpu_ids",
            patterns=patterns(rb"\bgpu_ids = range\(0, (?P<devices>\d{1,6})\)"),
            read=_devices,
            where="ends",
        ),
        Probe(
            anchor=b"Distributed training: False",
            patterns=patterns(rb"Distributed training: False"),
            read=lambda _: {"devices": 1},
            where="ends",
            strength=3,
        ),
        Probe(
            anchor=b"Fp16OptimizerHook",
            patterns=patterns(rb"Fp16OptimizerHook"),
            read=lambda _: {"precision": SIXTEEN_BITS},  # a name of theirs for mixed precision, which says only fp16
            where="ends",
            strength=3,
        ),
        Probe(
            anchor=b"AmpOptimWrapper",
            patterns=patterns(rb"AmpOptimWrapper"),
            read=lambda _: {"precision": "amp"},
            where="ends",
            strength=3,
        ),
        Probe(
            anchor=b"optimizer_config = dict(",
            patterns=patterns(rb"optimizer_config = dict\((?:\)|grad_clip)"),
            read=lambda _: {"precision": "fp32"},
            where="ends",
        ),
        Probe(
            anchor=b"Exp name: ",
            patterns=patterns(rb"Exp name: (?P<model>[\w.+-]{1,120})"),
            read=lambda groups: {"model": groups["model"].decode().removesuffix(".py")},
            where="ends",
        ),
        Probe(
            anchor=b"optimizer = dict(",
            patterns=patterns(rb"\boptimizer = dict\(.{0,60}?\blr=(?P<rate>" + NUMBER + rb")"),
            read=lambda groups: {"learning_rate": number(groups["rate"])},
            where="ends",
            strength=1,
        ),
    ),
)
