"""Draws one street from (seed, split, index): sky, houses, a road in perspective, and objects along it."""

from __future__ import annotations

import numpy as np

from trainmark.datasets.cityscapes.canvas import Canvas, Paint, Pixels
from trainmark.datasets.cityscapes.objects import OBJECTS

# Minimum and maximum number of each kind; the kinds of large vehicles alternate, so each is in every third image.
_COUNTS = {
    "tree": (2, 4), "wall": (1, 2), "fence": (1, 2), "pole": (2, 4), "light": (2, 3), "sign": (2, 4), "person": (2, 4),
    "cyclist": (1, 2), "motorcyclist": (0, 1), "bicycle": (0, 1), "motorcycle": (1, 2), "car": (2, 4),
}  # fmt: skip
_LARGE = ("truck", "bus", "train")
_ON_THE_ROAD = frozenset({"car", "truck", "bus", "motorcyclist", "cyclist"})
_BEHIND = frozenset({"tree", "wall", "fence", "train"})
_BORDER = 3
"""Pixels at the edges that are outside the region of interest, as in the real labels."""


def draw_street(*, seed: int, split: int, index: int, size: tuple[int, int]) -> tuple[Pixels, Pixels]:
    """The picture and its label ids; `size` is (height, width)."""
    rng = np.random.default_rng([seed, split, index])
    canvas = Canvas(*size, rng)
    horizon = rng.uniform(0.36, 0.46) * canvas.height
    vanishing = rng.uniform(0.35, 0.65) * canvas.width
    _draw_background(canvas, horizon)
    _draw_ground(canvas, horizon, vanishing)
    _draw_objects(canvas, horizon, vanishing, index)
    _draw_own_car(canvas)
    return canvas.develop(seed)


def _draw_background(canvas: Canvas, horizon: float) -> None:
    rng, unit = canvas.rng, canvas.unit
    canvas.box(0, 0, canvas.width, canvas.height, canvas.mix("sky", Paint(colour=(148, 190, 232))))
    left = -rng.uniform(0, 60) * unit
    while left < canvas.width:
        right = left + rng.uniform(90, 210) * unit
        if rng.random() < 0.8:
            house = Paint(colour=(176, 146, 104), texture="mosaic", contrast=34)
            canvas.box(left, horizon * rng.uniform(0.1, 0.6), right, horizon + 30 * unit, canvas.mix("building", house))
        left = right + rng.uniform(0, 25) * unit


def _draw_ground(canvas: Canvas, horizon: float, vanishing: float) -> None:
    rng, unit, bottom, width = canvas.rng, canvas.unit, canvas.height, canvas.width
    grass = canvas.mix("terrain", Paint(colour=(150, 176, 66), texture="zigzag", contrast=16))
    canvas.box(0, horizon, width, bottom, grass)
    pavement = canvas.mix("sidewalk", Paint(colour=(196, 160, 176), texture="checks", contrast=20))
    asphalt = canvas.mix("road", Paint(colour=(96, 92, 98)))
    half, kerb = rng.uniform(0.34, 0.46) * width, rng.uniform(0.16, 0.26) * width
    for reach, narrow, fill in ((half + kerb, 60, pavement), (half, 26, asphalt)):
        top = [(vanishing - narrow * unit, horizon), (vanishing + narrow * unit, horizon)]
        canvas.polygon([*top, (width / 2 + reach, bottom), (width / 2 - reach, bottom)], fill)
    marking = canvas.mix("road", Paint(colour=(214, 212, 206)))
    for near, far in ((0.05, 0.2), (0.35, 0.47), (0.6, 0.68)):
        _draw_dash(canvas, horizon, vanishing, near, far, marking)


def _draw_dash(canvas: Canvas, horizon: float, vanishing: float, near: float, far: float, fill: int) -> None:
    """A segment of the centre line; 0 is the lower edge of the image and 1 the horizon."""
    points = []
    for part, side in ((near, -1), (far, -1), (far, 1), (near, 1)):
        x = canvas.width / 2 + (vanishing - canvas.width / 2) * part
        points.append((x + side * 7 * canvas.unit * (1 - part), canvas.height + (horizon - canvas.height) * part))
    canvas.polygon(points, fill)


def _draw_objects(canvas: Canvas, horizon: float, vanishing: float, index: int) -> None:
    """Draws far objects first, so that near ones cover them."""
    rng = canvas.rng
    kinds = [kind for kind, (least, most) in _COUNTS.items() for _ in range(int(rng.integers(least, most + 1)))]
    kinds += [kind for turn, kind in enumerate(_LARGE) if index % len(_LARGE) == turn or rng.random() < 0.3]
    depths = [rng.uniform(0.06, 0.24) if kind in _BEHIND else rng.uniform(0.12, 0.75) for kind in kinds]
    for depth, kind in sorted(zip(depths, kinds, strict=True)):
        base = horizon + depth * (canvas.height - horizon)
        OBJECTS[kind](canvas, _choose_x(canvas, kind, depth, vanishing), base, canvas.unit * (0.7 + 0.55 * depth))


def _choose_x(canvas: Canvas, kind: str, depth: float, vanishing: float) -> float:
    """On the road or beside it."""
    middle = vanishing + (canvas.width / 2 - vanishing) * depth
    reach = canvas.width * (0.05 + 0.4 * depth)
    if kind in _ON_THE_ROAD:
        return middle + float(canvas.rng.uniform(-1, 1)) * reach
    beside = [x for x in canvas.rng.uniform(0, canvas.width, 4).tolist() if abs(x - middle) > reach]
    return beside[0] if beside else float(canvas.rng.uniform(0, canvas.width))


def _draw_own_car(canvas: Canvas) -> None:
    """The bonnet of the camera car and the edges of the lens: labelled, but not trained."""
    rng, width, height = canvas.rng, canvas.width, canvas.height
    bonnet = canvas.mix("ego vehicle", Paint(colour=(40, 40, 46)))
    rise = rng.uniform(0.06, 0.11) * height
    canvas.oval(-0.1 * width, height - rise, 1.1 * width, height + 3 * rise, bonnet)
    edge, border = canvas.mix("out of roi", Paint(colour=(12, 12, 12))), max(1, round(_BORDER * canvas.unit))
    canvas.box(0, 0, border - 1, height, edge)
    canvas.box(width - border, 0, width, height, edge)
    canvas.box(0, 0, width, border - 1, edge)
    canvas.box(0, height - border, width, height, edge)
