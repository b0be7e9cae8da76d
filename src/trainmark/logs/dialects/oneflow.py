"""OneFlow: `num_nodes = 2` and so on, then `train: epoch 0, iter 20, loss: .., samples/s: 3988.891 1597933942.98`."""

from __future__ import annotations

from trainmark.logs.dialect import Dialect, Probe, read_eval, read_step, read_wholes
from trainmark.logs.printed import NUMBER, patterns


def _header(name: bytes, fact: bytes) -> Probe:
    pattern = rb"^\s{0,8}" + name + rb" = (?P<" + fact + rb">\d{1,9})\s{0,8}$"
    return Probe(anchor=name + b" = ", patterns=patterns(pattern), read=read_wholes, where="ends")


DIALECT = Dialect(
    name="oneflow",
    summary="OneFlow benchmark: global samples/s of the last iterations",
    framework="oneflow",
    unit="images",
    steps=(
        Probe(
            anchor=b"samples/s: ",
            patterns=patterns(
                rb"train: epoch (?P<epoch>\d{1,9}), iter (?P<step>\d{1,12})",
                rb"\bsamples/s: (?P<rate>" + NUMBER + rb")(?: (?P<unix_s>\d{9,11}(?:\.\d{1,9})?))?",
                rb"\bloss: (?P<loss>" + NUMBER + rb")",
            ),
            read=read_step,
        ),
    ),
    others=(
        Probe(
            anchor=b"validation: epoch ",
            patterns=patterns(
                rb"validation: epoch (?P<epoch>\d{1,9}), iter \d{1,12}, top_1: (?P<value>" + NUMBER + rb")",
                rb"\bsamples/s: " + NUMBER + rb" (?P<unix_s>\d{9,11}(?:\.\d{1,9})?)",
            ),
            read=read_eval("top1", is_index=True),
        ),
        _header(b"batch_size_per_device", b"batch_size_per_device"),
        _header(b"gpu_num_per_node", b"devices_per_node"),
        _header(b"num_nodes", b"nodes"),
        Probe(
            anchor=b"model = ",
            patterns=patterns(rb"^\s{0,8}model = (?P<model>[\w.+-]{1,60})"),
            read=lambda groups: {"model": groups["model"].decode()},
            where="ends",
        ),
    ),
)
