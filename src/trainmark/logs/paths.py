"""Read facts from the path of a log: `4n8g/r50_b128_fp32_3.log`, `.._bs256_fp32_DP_N1C8_log`, `GPUx32_..-bs4.log`.

The file name counts first, then its folders, nearest first.
"""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Any

from trainmark.logs.record import Facts

_MAX_FOLDERS = 8

_EDGE = r"(?<![A-Za-z0-9])"
_END = r"(?![A-Za-z0-9])"

_PATTERNS = tuple(
    re.compile(text, re.IGNORECASE)
    for text in (
        _EDGE + r"(?P<nodes>\d{1,5})n(?P<devices_per_node>\d{1,4})g" + _END,  # DLPerf
        _EDGE + r"N(?P<nodes>\d{1,5})C(?P<devices_per_node>\d{1,4})" + _END,  # Paddle's test bench
        r"BS\d{1,6}-N(?P<devices>\d{1,6})" + _END,
        _EDGE + r"GPUx(?P<devices>\d{1,6})" + _END,
        _EDGE + r"(?P<devices>\d{1,6})gpus?" + _END,
        _EDGE + r"gpus?(?P<devices>\d{1,6})" + _END,
        _EDGE + r"\d{1,4}Thread_(?P<nodes>\d{1,6})Node" + _END,
        _EDGE + r"bs(?P<batch_size_per_device>\d{1,7})" + _END,
        # A single b is often the size of a model instead of a batch: efficientnet_b7, vit_b16, segformer_b5.
        _EDGE + r"b(?P<batch_size_per_device>\d{1,7})_(?:fp\d\d|amp|tf32|bf16)" + _END,
        _EDGE + r"b\d{1,7}_(?:fp\d\d|amp|tf32|bf16)_(?P<repeat>\d{1,4})" + _END,
    )
)
_FILE_PATTERN = re.compile(
    _EDGE + r"(?:N(?P<nodes>\d{1,5})[_-]C(?P<devices_per_node>\d{1,4})"
    r"|(?!(?<=50[_-])c4|(?<=101[_-])c4)c(?P<devices>\d{1,6}))" + _END,
    re.IGNORECASE,
)
"""Too short to trust in a folder name: `/home/c3` does not mean 3 devices, nor does `mask_rcnn_R_50_C4_1x` mean 4."""
_CPU_NODES = re.compile(_EDGE + r"\d{1,4}Thread_\d{1,6}Node" + _END, re.IGNORECASE)
_MACHINE = re.compile(_EDGE + r"(?P<machine>[AVHBPT]100|A800|H800|H200|H20|A40|A30|A10|L40S?|L4|T4)" + _END)
_PRECISION = re.compile(_EDGE + r"(?P<precision>pure_fp16|fp32|tf32|fp16|bf16|amp)" + _END, re.IGNORECASE)

_FRAMEWORKS = (
    ("torch", r"pytorch|torch|pyt"),
    ("paddle", r"paddle\w{0,10}"),
    ("tensorflow", r"tensorflow|tf"),
    ("mxnet", r"mxnet|gluon"),
    ("oneflow", r"oneflow"),
)
_FRAMEWORK = tuple(
    (name, re.compile(rf"(?<![A-Za-z0-9])(?:{text})(?![A-Za-z0-9])", re.IGNORECASE)) for name, text in _FRAMEWORKS
)

_MODELS = (
    (None, "Cascade Mask R-CNN", r"cascade[ _-]?mask[ _-]?r-?cnn"),
    (None, "Cascade R-CNN", r"cascade[ _-]?r-?cnn"),
    (None, "Faster R-CNN", r"faster[ _-]?r-?cnn"),
    (None, "RetinaNet", r"retinanet"),
    ("mask_rcnn", "Mask R-CNN", r"mask[ _-]?r-?cnn"),
    ("hrnet_w18", "HRNet-W18", r"hrnet|hr18"),
    ("psenet", "PSENet", r"psenet"),
    ("tsm", "TSM", r"(?<![a-z])tsm(?![a-z])"),
    (None, "DeepLabV3+", r"deeplab"),
    (None, "BERT-base", r"bert[ _-]?base|(?<![a-z])base_bs|bert.{0,40}_base"),
    (None, "BERT", r"bert"),
    (None, "Swin Transformer", r"(?<![a-z])swin[ _-]?transformer"),
    (None, "Transformer-big", r"transformer[ _-]?big"),
    (None, "Transformer-base", r"transformer[ _-]?base"),
    (None, "Transformer", r"transformer"),
    (None, "YOLOv3", r"yolo[ _-]?v?3"),
    (None, "Word2Vec", r"word2vec|(?<![a-z])w2v"),
    (None, "CTR-DNN", r"ctr[ _-]?dnn"),
    (None, "Wide&Deep", r"wide[ _-]?(?:and[ _-]?)?deep"),
    # Last: other models may contain a ResNet-50 and say so in their name.
    ("resnet50", "ResNet-50", r"resnet[ _-]?50(?!\d)|resnetv15|(?<![a-z0-9])(?:r50|rn50)(?![a-z0-9-])"),
    (None, None, r"resnet\d|resnet[ _-]\d{2,4}(?![a-z0-9])|(?<![a-z])hr\d\d(?!\d)|r-?cnn|(?<![a-z])swin(?![a-z])"),
)
"""Our workload, the usual name, and how it is spelled. An entry without a name is only known not to be a workload."""
_MODEL = tuple((workload, title, re.compile(text, re.IGNORECASE)) for workload, title, text in _MODELS)

_BACKBONE = (
    r"(?:resnet|resnext)[ _-]?(?!50(?!\d))\d{2,4}(?![a-z0-9])"
    r"|(?<![a-z0-9])(?:r|rn|x)(?:18|34|101|152|200)(?![0-9])|(?<![a-z])(?:swin|cascade)|mobilenet"
)
_OTHER_HEAD = r"fpn|r-?cnn|retinanet|(?<![a-z])(?:fcn|pspnet|unet|upernet|fcos|detr)(?![a-z])"
_VARIANTS = {
    "mask_rcnn": rf"{_BACKBONE}|hrnet",
    "hrnet_w18": (
        r"(?:(?<![a-z0-9])|hrnet(?:v2p?)?)w(?!18(?!\d))\d\d|hrnet[ _-]?(?!18)\d\d(?![a-z0-9])"
        r"|(?<![a-z])hr(?!18(?!\d))\d\d|hr18s|small|(?<![a-z])ocr(?:net)?(?![a-z])|fpn|r-?cnn|retinanet|cascade"
    ),
    "psenet": _BACKBONE,
    "tsm": _BACKBONE,
    "resnet50": (
        rf"{_BACKBONE}|{_OTHER_HEAD}|(?<![a-z])(?:wide|se)[ _-]?resnet|resnet[ _-]?50[ _-]?(?:v2|vd|d(?![a-z]))"
    ),
}
"""Suffixes that make it another model: a width, a depth, a head."""
_VARIANT = {workload: re.compile(text, re.IGNORECASE) for workload, text in _VARIANTS.items()}


def facts_of_path(path: PurePath) -> Facts:
    found: dict[str, Any] = {}
    patterns = (*_PATTERNS, _FILE_PATTERN)
    for part in (path.name, *reversed(path.parts[:-1][-_MAX_FOLDERS:])):
        for name, value in _facts_of_part(part, patterns).items():
            found.setdefault(name, value)
        patterns = _PATTERNS
    nodes, per_node = found.get("nodes"), found.get("devices_per_node")
    if nodes and per_node:
        found.setdefault("devices", nodes * per_node)
    return Facts(**found)


def _facts_of_part(part: str, patterns: tuple[re.Pattern[str], ...]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for pattern in patterns:
        match = pattern.search(part)
        for name, text in (match.groupdict() if match else {}).items():
            if text is not None and int(text) > 0:
                found.setdefault(name, int(text))
    if _CPU_NODES.search(part) and "nodes" in found:
        found.setdefault("devices", found["nodes"])  # a node of a parameter-server job counts as one device (its CPUs)
    precision = _PRECISION.search(part)
    if precision:
        found["precision"] = precision["precision"].lower()
    machine = _MACHINE.search(part)
    if machine:
        found["machine"] = machine["machine"]
    framework = next((name for name, pattern in _FRAMEWORK if pattern.search(part)), None)
    if framework:
        found["framework"] = framework
    return {**found, **facts_of_name(part)}


def facts_of_name(text: str) -> dict[str, Any]:
    """Workload and usual model name for a name such as `fcn_hr18_512x1024_80k_cityscapes`.

    Both or neither, so that they refer to one model. A known model that is not a workload has the workload None.
    """
    for workload, title, pattern in _MODEL:
        if pattern.search(text):
            is_other = workload is not None and _VARIANT[workload].search(text) is not None
            return {"model": None, "workload": None} if is_other else {"model": title, "workload": workload}
    return {}
