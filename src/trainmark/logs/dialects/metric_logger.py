"""torchvision's references, DETR, DeiT, MAE: `Epoch: [0]  [  10/3750]  eta: 0:20:01  ..  time: 0.3206  data: 0.0010`.

The time is the mean of the last 20 steps. `img/s` leaves out the wait for data, so it is not used. Lines of `Test:` are
evaluations.
"""

from __future__ import annotations

from trainmark.logs.dialect import Dialect, Probe, read_eval, read_step, read_wholes
from trainmark.logs.noise import decode
from trainmark.logs.printed import NUMBER, patterns

DIALECT = Dialect(
    name="metric-logger",
    summary="torchvision references, DETR, DeiT, MAE: seconds of an iteration, mean of the last 20",
    framework="torch",
    unit="images",
    first_step=0,
    steps=(
        Probe(
            anchor=b"]  eta: ",
            patterns=patterns(
                rb"\bEpoch: \[(?P<epoch>\d{1,9})\]\s{1,4}\[ {0,9}(?P<step>\d{1,12})/\d{1,12}\]\s{1,4}eta: ",
                rb"\s{2}time: (?P<seconds>" + NUMBER + rb")(?!\s?\()",
                rb"\s{2}loss: (?P<loss>" + NUMBER + rb")",
                rb"\s{2}lr: (?P<lr>" + NUMBER + rb")",
                rb"\smax mem: (?P<memory_mb>\d{1,9})",
            ),
            read=read_step,
        ),
    ),
    others=(
        Probe(
            anchor=b" Acc@1 ",
            patterns=patterns(rb"(?:^|\]\s|Test: {1,4}|\* {1,4})(?:EMA )?Acc@1 {1,4}(?P<value>" + NUMBER + rb")"),
            read=read_eval("top1"),
        ),
        Probe(
            anchor=b"(AP) @[ IoU=0.50:0.95 | area=   all |",
            patterns=patterns(rb"\(AP\) @\[ IoU=0\.50:0\.95 \| area= {1,4}all .{1,30}\] = (?P<value>" + NUMBER + rb")"),
            read=read_eval("bbox_mAP"),
        ),
        Probe(
            anchor=b"batch_size=",
            patterns=patterns(rb"(?:^|[(,\s])batch_size=(?P<batch_size_per_device>\d{1,9})\b"),
            read=read_wholes,
            where="ends",
        ),
        Probe(
            anchor=b"model='",
            patterns=patterns(rb"(?:^|[(,\s])model='(?P<model>[\w.+-]{1,60})'"),
            read=lambda groups: {"model": decode(groups["model"])},
            where="ends",
        ),
        Probe(
            anchor=b"Not using distributed mode",
            patterns=patterns(rb"Not using distributed mode"),
            read=lambda _: {"devices": 1},
            where="ends",
            strength=3,
        ),
    ),
)
