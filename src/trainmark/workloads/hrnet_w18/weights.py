"""HRNet-W18's tensors, and the names of the official code (timm has the same), PaddleSeg and PaddleClas.

The public recipe starts from ImageNet, whose networks pad their halvings evenly; PaddleSeg loads them into `same`
padding too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainmark.workloads.layout import Layout, Rules, Shapes, convolution, pair, rewrite, together

CLASS_LAYERS = ("classify.",)
_CHANNELS = (18, 36, 72, 144)
_MODULES = {2: 1, 3: 4, 4: 3}
_HEAD = ("mix.", "classify.")


def tensor_shapes(num_classes: int) -> Shapes:
    parts = [pair("stem.0", 3, 64, 3), pair("stem.1", 64, 64, 3)]
    for block in range(4):
        name, inputs = f"stage1.{block}", 256 if block else 64
        sizes = ((inputs, 64, 1), (64, 64, 3), (64, 256, 1))
        parts += [pair(f"{name}.body.{number}", *size) for number, size in enumerate(sizes)]
        parts += [] if block else [pair(f"{name}.shortcut", 64, 256, 1)]
    parts += [pair("enter.0", 256, 18, 3), pair("enter.1", 256, 36, 3)]
    for num_branches, num_modules in _MODULES.items():
        if num_branches > 2:
            parts.append(pair(f"down{num_branches}", _CHANNELS[num_branches - 2], _CHANNELS[num_branches - 1], 3))
        parts += [_module(f"stage{num_branches}.{number}", num_branches) for number in range(num_modules)]
    width = sum(_CHANNELS)
    return together([*parts, pair("mix", width, width, 1), convolution("classify", width, num_classes, 1)])


def _module(name: str, num_branches: int) -> Shapes:
    blocks = (
        pair(f"{name}.branches.{branch}.{block}.body.{half}", width, width, 3)
        for branch, width in enumerate(_CHANNELS[:num_branches])
        for block in range(4)
        for half in range(2)
    )
    return together([*blocks, *(pair(f"{name}.paths.{path}", *size) for path, size in _paths(num_branches))])


def _paths(num_branches: int) -> Iterator[tuple[str, tuple[int, int, int]]]:
    """Place inside a module, inputs, outputs and kernel, in the order in which all public code has them."""
    for target in range(num_branches):
        for source in range(num_branches):
            inputs, outputs = _CHANNELS[source], _CHANNELS[target]
            if source > target:
                yield f"{target}.{source}", (inputs, outputs, 1)
            for step in range(target - source):
                is_last = step == target - source - 1
                yield f"{target}.{source}.{step}", (inputs, outputs if is_last else inputs, 3)


# -- the official code and timm ----------------------------------------------------------------------------------------

_CLASSIFIERS = ("incre_modules.", "downsamp_modules.", "final_layer.", "classifier.", "last_layer.")


def _part(kind: str) -> str:
    return "0" if kind in ("conv", "_conv") else "1"


_OFFICIAL: Rules = [
    (r"(conv|bn)([12])\.", lambda m: f"stem.{int(m[2]) - 1}.{_part(m[1])}."),
    (r"layer1\.(\d)\.(conv|bn)([123])\.", lambda m: f"stage1.{m[1]}.body.{int(m[3]) - 1}.{_part(m[2])}."),
    (r"layer1\.0\.downsample\.([01])\.", r"stage1.0.shortcut.\1."),
    (r"transition1\.0\.([01])\.", r"enter.0.\1."),
    (r"transition1\.1\.0\.([01])\.", r"enter.1.\1."),
    (r"transition2\.2\.0\.([01])\.", r"down3.\1."),
    (r"transition3\.3\.0\.([01])\.", r"down4.\1."),
    (
        r"(stage[234]\.\d\.branches\.\d\.\d)\.(conv|bn)([12])\.",
        lambda m: f"{m[1]}.body.{int(m[3]) - 1}.{_part(m[2])}.",
    ),
    (r"(stage[234]\.\d)\.fuse_layers\.", r"\1.paths."),
]


def _rename_official(name: str) -> str | None:
    return None if name.startswith(_CLASSIFIERS) else rewrite(name, _OFFICIAL)


# -- PaddleSeg and PaddleClas ------------------------------------------------------------------------------------------

_PAIR = r"\.(_?conv|_batch_norm|bn)\."
"""PaddleSeg and the older PaddleClas have the names that begin with an underscore."""
_PADDLE_CLASSIFIERS = ("last_cls.", "cls_head_conv_list.", "conv_last.", "out.", "fc.", "cls_head")


def _bottleneck(block: int, part: str, kind: str) -> str:
    place = "shortcut" if part == "_down" else f"body.{int(part) - 1}"
    return f"stage1.{block}.{place}.{_part(kind)}."


def _less(*numbers: str) -> str:
    """Paddle's names count from 1."""
    return ".".join(str(int(number) - 1) for number in numbers if number)


_STEM = (rf"conv_layer1_([12]){_PAIR}", lambda m: f"stem.{_less(m[1])}.{_part(m[2])}.")
_PADDLESEG: Rules = [
    _STEM,
    (rf"la1\.bb_layer2_(\d)\.conv([123]|_down){_PAIR}", lambda m: _bottleneck(int(m[1]) - 1, m[2], m[3])),
    (rf"tr1\.transition_tr1_layer_([12]){_PAIR}", lambda m: f"enter.{_less(m[1])}.{_part(m[2])}."),
    (rf"tr[23]\.transition_tr[23]_layer_([34]){_PAIR}", lambda m: f"down{m[1]}.{_part(m[2])}."),
    (
        rf"st([234])\.stage_st\d_(\d)\.branches_func\.bb_st\d_\d_branch_layer_(\d)_(\d)\.conv([12]){_PAIR}",
        lambda m: f"stage{m[1]}.{_less(m[2])}.branches.{_less(m[3], m[4])}.body.{_less(m[5])}.{_part(m[6])}.",
    ),
    (
        rf"st([234])\.stage_st\d_(\d)\.fuse_func\.residual_st\d_\d_layer_(\d)_(\d)(?:_(\d))?{_PAIR}",
        lambda m: f"stage{m[1]}.{_less(m[2])}.paths.{_less(m[3], m[4], m[5])}.{_part(m[6])}.",
    ),
    (rf"head\.conv_1{_PAIR}", lambda m: f"mix.{_part(m[1])}."),
    (r"head\.cls\.", "classify."),
]


def _rename_paddleseg(name: str) -> str | None:
    inner = name.removeprefix("backbone.")
    return None if inner.startswith(_PADDLE_CLASSIFIERS) else rewrite(inner, _PADDLESEG)


def _flat_path(match: re.Match[str]) -> str:
    """PaddleClas has the paths of a module in one list."""
    places = [place for place, _ in _paths(int(match[1]))]
    number = int(match[3])
    place = places[number] if number < len(places) else f"unknown{number}"
    return f"stage{match[1]}.{match[2]}.paths.{place}.{_part(match[4])}."


_PADDLECLAS: Rules = [
    _STEM,
    (rf"layer1\.(\d)\.conv([123]|_down){_PAIR}", lambda m: _bottleneck(int(m[1]), m[2], m[3])),
    (rf"(?:conv_)?tr1_([12]){_PAIR}", lambda m: f"enter.{_less(m[1])}.{_part(m[2])}."),
    (rf"(?:conv_)?tr([23]){_PAIR}", lambda m: f"down{int(m[1]) + 1}.{_part(m[2])}."),
    (
        rf"st([234])\.stage_func_list\.(\d)\.basic_block_list\.(\d)\.(\d)\.conv([12]){_PAIR}",
        lambda m: f"stage{m[1]}.{m[2]}.branches.{m[3]}.{m[4]}.body.{_less(m[5])}.{_part(m[6])}.",
    ),
    (rf"st([234])\.stage_func_list\.(\d)\.fuse_func\.residual_func_list\.(\d{{1,3}}){_PAIR}", _flat_path),
]


def _rename_paddleclas(name: str) -> str | None:
    return None if name.startswith(_PADDLE_CLASSIFIERS) else rewrite(name, _PADDLECLAS)


def _is_body(name: str) -> bool:
    return not name.startswith(_HEAD)


LAYOUTS = (
    Layout(name="trainmark", rename=lambda name: name),
    Layout(name="HRNet of its authors or timm", rename=_rename_official, covers=_is_body),
    Layout(name="HRNet of PaddleSeg", rename=_rename_paddleseg, covers=_is_body),
    Layout(name="HRNet of PaddleClas", rename=_rename_paddleclas, covers=_is_body),
)
