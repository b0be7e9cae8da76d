"""torchtitan: `step: 10  loss:  8.0232  memory: 25.3GiB(32.0%)  tps: 6,543  mfu: 14.5%`; tokens of one device."""

from __future__ import annotations

import math
import re
from dataclasses import replace

from trainmark.logs.dialect import Dialect, Groups, Probe, read_eval, read_step
from trainmark.logs.printed import NUMBER, number, patterns
from trainmark.logs.record import LogRecord

_STEP = patterns(
    rb"\b(?:tps|wps): {1,4}(?P<rate>\d[\d,.]{0,20})",
    rb"(?P<validate>\bvalidate )?\bstep: {1,8}(?P<step>\d{1,12})",
    rb"\bloss: {1,4}(?P<loss>" + NUMBER + rb")",
    rb"\bmemory: {1,4}(?P<gib>" + NUMBER + rb")GiB",
)


def _read(groups: Groups) -> LogRecord | None:
    record = read_step(groups) if "step" in groups and "validate" not in groups else None
    if record is None:
        return None
    gib = number(groups.get("gib"))
    memory = int(gib * 2**30) if gib and 0 < gib < 1e6 else None
    return replace(record, unit="tokens", memory_bytes=memory)


def _mesh(groups: Groups) -> dict[str, int]:
    """The sizes of a mesh multiply to the number of devices. Expert parallelism reuses the others."""
    if "sizes" in groups:
        sizes = [int(size) for size in groups["sizes"].split(b",")]
    else:
        named = dict(_AXIS.findall(groups["axes"]))
        sizes = [int(size) for name, size in named.items() if name not in (b"ep", b"etp")]
    return {"devices": math.prod(sizes)}


_AXIS = re.compile(rb"(\w{1,20})=(\d{1,6})")

DIALECT = Dialect(
    name="torchtitan",
    summary="torchtitan: tokens per second of one device",
    framework="torch",
    scope="device",
    unit="tokens",
    steps=(
        Probe(anchor=b"tps: ", patterns=_STEP, read=_read),
        Probe(anchor=b"wps: ", patterns=_STEP, read=_read),
    ),
    others=(
        Probe(
            anchor=b"validate step: ",
            patterns=patterns(rb"validate step: {1,8}(?P<step>\d{1,12}) {1,4}loss: {1,4}(?P<value>" + NUMBER + rb")"),
            read=read_eval("val_loss"),
        ),
        Probe(
            anchor=b"device mesh with ",
            patterns=patterns(
                rb"device mesh with (?:\[[^\]]{1,200}\], \[(?P<sizes>\d{1,5}(?:, ?\d{1,5}){0,5})\]"
                rb"|parallelism: (?P<axes>\w{1,20}=\d{1,6}(?:, \w{1,20}=\d{1,6}){0,11}))"
            ),
            read=_mesh,
            where="ends",
            strength=3,
        ),
    ),
)
