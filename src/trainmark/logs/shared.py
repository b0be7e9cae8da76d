"""Probes for every dialect: what launchers, drivers, argument parsers and AI-Rank's protocol print."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from trainmark.logs.dialect import Found, Groups, Probe, read_wholes
from trainmark.logs.noise import decode
from trainmark.logs.printed import NUMBER, number, patterns, whole
from trainmark.logs.record import SIXTEEN_BITS, LogRecord


def _read_ai_rank(groups: Groups) -> Found:
    time_s = number(groups["unix_s"])
    what, value = groups["what"], number(groups.get("value"))
    if what in (b"test_begin", b"test_finish"):
        return LogRecord(kind="moment", name=what.decode(), time_s=time_s)
    if value is None or value < 0:
        return None
    if what == b"eval_accuracy":
        epoch = number(groups.get("epoch"))
        return LogRecord(kind="eval", metric="eval_accuracy", value=value, epoch=epoch, time_s=time_s)
    if what == b"total_use_time":
        return {"wall_s": value}
    if what == b"avg_ips":
        return LogRecord(kind="stated", name="avg_ips", rate=value, time_s=time_s) if value else None
    return LogRecord(kind="moment", name="target_quality_time", value=value, time_s=time_s)


_AI_RANK = patterns(
    rb"AI-Rank-log (?P<unix_s>\d{9,11}(?:\.\d{1,9})?) (?P<what>test_begin|test_finish|eval_accuracy|total_use_time|"
    rb"avg_ips|target_quality_time)(?:: ?(?P<value>" + NUMBER + rb"))?",
    rb"total_epoch_cnt: ?(?P<epoch>" + NUMBER + rb")",
)

EVERYWHERE = (Probe(anchor=b"AI-Rank-log ", patterns=_AI_RANK, read=_read_ai_rank, strength=3),)


def _precision(groups: Groups) -> Mapping[str, Any]:
    """One line may have several switches: `fp16=True, amp=False` is still 16-bit."""
    is_on = {name for name, text in groups.items() if text.lower() in (b"true", b"1", b"float16", b"o1", b"o2")}
    if "pure" in is_on:
        return {"precision": "fp16"}
    if "amp" in is_on:
        return {"precision": "amp"}
    if is_on:
        return {"precision": SIXTEEN_BITS}
    return {"precision": "fp32"}


_SWITCHES = patterns(
    rb"(?:amp|fp16|16-bits training|dtype|opt_level)",
    rb"(?<![\w])(?:use_)?amp(?: : |=|': )(?P<amp>True|False|0|1)\b",
    rb"(?<![\w])fp16(?: : |=|': )(?P<fp16>True|False|0|1)\b",
    rb"\buse_pure_fp16(?:=|': )(?P<pure>True|False)\b",
    rb"\b16-bits training: (?P<bits>True|False)\b",
    rb"\bdtype : (?P<dtype>float16|float32)\b",
    rb"\bopt_level {1,20}: (?P<level>O\d)\b",
)


def _switches(anchor: bytes, *, strength: int = 2) -> Probe:
    def read(groups: Groups) -> Found:
        return _precision(groups) if groups else None

    return Probe(anchor=anchor, patterns=_SWITCHES, read=read, where="ends", strength=strength)


def _count(anchor: bytes, pattern: bytes, *, strength: int = 2) -> Probe:
    return Probe(anchor=anchor, patterns=patterns(pattern), read=read_wholes, where="ends", strength=strength)


def _says(anchor: bytes, pattern: bytes, facts: Mapping[str, Any], *, strength: int = 2) -> Probe:
    return Probe(anchor=anchor, patterns=patterns(pattern), read=lambda _: facts, where="ends", strength=strength)


def _learning_rate(flag: bytes) -> Probe:
    """From the command line; the records may contradict it."""
    pattern = flag + rb"(?:'?, '|[= ])(?P<lr>" + NUMBER + rb")"
    read = _read_learning_rate
    return Probe(anchor=flag, patterns=patterns(pattern), read=read, where="ends", strength=1)


def _read_learning_rate(groups: Groups) -> Mapping[str, Any]:
    return {"learning_rate": number(groups["lr"])}


def _number_of_gpus(groups: Groups) -> Mapping[str, Any]:
    return {"devices_per_node": groups["gpus"].count(b",") + 1}


def _dllogger_batch(groups: Groups) -> Mapping[str, Any]:
    """NGC's scripts print the batch size of one device; MXNet's, which have a kv_store, the global one."""
    return {"global_batch_size" if "total" in groups else "batch_size_per_device": whole(groups["batch"])}


def _machine(groups: Groups) -> Mapping[str, Any]:
    return {"machine": decode(groups["machine"]).strip()}


def _text(name: str) -> Callable[[Groups], Mapping[str, Any]]:
    return lambda groups: {name: decode(groups["text"])}


ENDS = (
    _count(b"PADDLE_TRAINERS_NUM", rb"PADDLE_TRAINERS_NUM[\s|=:]{1,60}(?P<devices>\d{1,6})", strength=3),
    _count(b"nranks", rb"\bnranks:? (?P<devices>\d{1,6})\b"),
    _count(b"world_size", rb"(?<![\w])(?:distributed_)?world_size(?: : |=)(?P<devices>\d{1,6})\b"),
    _count(b"num_gpus", rb"^\+ num_gpus=(?P<devices>\d{1,6})$", strength=3),
    _count(b"Num GPUs ", rb"\bNum GPUs (?P<devices>\d{1,6})", strength=3),
    _count(b"run -np ", rb"\b(?:mpi|horovod)run -np (?P<devices>\d{1,6})\b", strength=3),
    _count(b"nproc_per_node", rb"--nproc[_-]per[_-]node[= ](?P<devices_per_node>\d{1,6})\b"),
    _count(b"nnodes", rb"\bnnodes(?:: |=| )(?P<nodes>\d{1,6})\b"),
    Probe(
        anchor=b"gpus : [", patterns=patterns(rb"\bgpus : \[(?P<gpus>[\d, ]{1,80})\]"), read=_number_of_gpus,
        where="ends",
    ),
    Probe(
        anchor=b"--gpus=", patterns=patterns(rb"--gpus=(?P<gpus>\d{1,3}(?:,\d{1,3}){0,40})\b"), read=_number_of_gpus,
        where="ends",
    ),
    Probe(
        anchor=b"--devices=", patterns=patterns(rb"--devices=(?P<gpus>\d{1,3}(?:,\d{1,3}){0,40})\b"),
        read=_number_of_gpus, where="ends",
    ),
    _count(b"batch_size_per_gpu", rb"\bbatch_size_per_gpu : (?P<batch_size_per_device>\d{1,9})", strength=3),
    _count(b"Per-GPU Batch Size", rb"Per-GPU Batch Size (?P<batch_size_per_device>\d{1,9})", strength=3),
    Probe(
        anchor=b"PARAMETER",
        patterns=patterns(rb"(?<![\w])batch_size : (?P<batch>\d{1,9})\b", rb"(?P<total>\bkv_store : )"),
        read=_dllogger_batch, where="ends",
    ),
    _count(b"--train_batch_size", rb"--train_batch_size (?P<batch_size_per_device>\d{1,9})\b"),
    _count(b"Batch size = ", rb"\bBatch size = (?P<batch_size_per_device>\d{1,9})\b"),
    _count(b"+ batch_size=", rb"^\+ batch_size=(?P<batch_size_per_device>\d{1,9})$"),
    _learning_rate(b"--lr"),
    _learning_rate(b"--learning_rate"),
    _learning_rate(b"--learning-rate"),
    _switches(b"amp : "),
    _switches(b"amp="),
    _switches(b"'use_amp'", strength=1),
    _switches(b"use_pure_fp16"),
    _switches(b"16-bits training", strength=3),
    _switches(b"opt_level "),
    _says(b"AMP is activated", rb"AMP is activated", {"precision": "amp"}, strength=3),
    _says(b"+ precision=fp16", rb"^\+ precision=fp16", {"precision": SIXTEEN_BITS}),
    _says(b"+ precision=fp32", rb"^\+ precision=fp32", {"precision": "fp32"}),
    _says(b"--precision=fp16", rb"--precision=fp16\b", {"precision": SIXTEEN_BITS}),
    _says(b"--precision=fp32", rb"--precision=fp32\b", {"precision": "fp32"}),
    _says(b"allow_tf32", rb"allow_tf32['\"]?\s?[:=]\s?True", {"precision": "tf32"}, strength=3),
    _says(b"allow_tf32", rb"allow_tf32['\"]?\s?[:=]\s?False", {"is_tf32_off": True}, strength=3),
    _says(b"NVIDIA_TF32_OVERRIDE", rb"NVIDIA_TF32_OVERRIDE['\"]?\s?[:=]\s?['\"]?0\b", {"is_tf32_off": True}),
    _says(b"TF32", rb"TF32 (?:is )?(?:disabled|off)\b", {"is_tf32_off": True}, strength=3),
    _says(b"TF32", rb"TF32 (?:is )?(?:enabled|on)\b", {"precision": "tf32"}, strength=3),
    Probe(
        anchor=b"GPU 0", patterns=patterns(rb"GPU 0[\d,]{0,60}[:\s]{1,8}(?P<machine>[A-Z][\w .-]{3,40})"),
        read=_machine, where="ends",
    ),
    Probe(
        anchor=b"arch : ", patterns=patterns(rb"\barch : (?P<text>[\w.+-]{1,60})"), read=_text("model"), where="ends",
    ),
    Probe(
        anchor=b"model '", patterns=patterns(rb"=> (?:creating|using pre-trained) model '(?P<text>[\w.+-]{1,60})'"),
        read=_text("model"), where="ends",
    ),
    Probe(
        anchor=b"arch='", patterns=patterns(rb"\barch='(?P<text>[\w.+-]{1,60})'"), read=_text("model"), where="ends",
    ),
)  # fmt: skip
