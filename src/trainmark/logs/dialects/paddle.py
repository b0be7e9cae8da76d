"""PaddleClas, PaddleSeg, PaddleNLP, PaddleVideo, PaddleOCR: `ips: X samples/sec`, of one device, since the last print."""

from __future__ import annotations

import re

from trainmark.logs.dialect import Dialect, Probe, read_step

_NUMBER = rb"[\d.]+(?:e[+-]?\d+)?"

_STEP = re.compile(
    rb"(?:epoch[:\s]*\[?(?P<epoch>\d+)[^,\]]{0,12}\]?[,\s]*)?"
    rb"(?:\b(?:train step|global_step|step_idx|iter|step|tobal step|total step)[:\s]+(?P<step>\d+)\b)"
    rb"(?:.*?\bepoch: (?P<later_epoch>\d+))?"
    rb"(?:.*?\bloss:\s+(?P<loss>" + _NUMBER + rb"))?"
    rb".*?\b(?:avg_)?batch_cost: (?P<seconds>" + _NUMBER + rb")"
    rb".*?\bips: (?P<rate>" + _NUMBER + rb") (?P<unit>\w+)/s"
)

DIALECT = Dialect(
    name="paddle",
    summary="PaddleClas, PaddleSeg, PaddleNLP, PaddleVideo, PaddleOCR: ips of one device",
    framework="paddle",
    scope="device",
    steps=(Probe(anchor=b"ips: ", pattern=_STEP, read=read_step),),
)
