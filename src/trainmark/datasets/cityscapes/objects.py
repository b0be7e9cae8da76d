"""Objects of a generated street. Each is drawn at (x, base), the middle of its lower edge.

`size` is a scale: 1 for an object near the middle of an image of 1024 x 512. Classes differ in colour, texture and
shape; everything is at least ten pixels wide at scale 1, because the network works at a quarter of the resolution.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trainmark.datasets.cityscapes.canvas import Canvas, Paint

Draw = Callable[[Canvas, float, float, float], None]

_GLASS = Paint(colour=(45, 60, 80))
_RUBBER = Paint(colour=(28, 26, 30))
_SKIN = Paint(colour=(205, 160, 130))
_POLE = Paint(colour=(68, 74, 72))


def draw_tree(canvas: Canvas, x: float, base: float, size: float) -> None:
    leaves = canvas.mix("vegetation", Paint(colour=(52, 104, 44), texture="blobs", contrast=26))
    trunk = canvas.mix("vegetation", Paint(colour=(82, 66, 44)))
    rng, height, width = canvas.rng, size * canvas.rng.uniform(110, 190), size * canvas.rng.uniform(45, 85)
    canvas.box(x - 8 * size, base - height * 0.5, x + 8 * size, base, trunk)
    for _ in range(5):
        cx, cy = x + rng.uniform(-0.6, 0.6) * width, base - height * rng.uniform(0.45, 0.95)
        canvas.oval(cx - 0.7 * width, cy - 0.55 * width, cx + 0.7 * width, cy + 0.55 * width, leaves)


def draw_wall(canvas: Canvas, x: float, base: float, size: float) -> None:
    fill = canvas.mix("wall", Paint(colour=(150, 92, 78), texture="bricks", contrast=24))
    _draw_barrier(canvas, x, base, size, fill)


def draw_fence(canvas: Canvas, x: float, base: float, size: float) -> None:
    fill = canvas.mix("fence", Paint(colour=(128, 118, 74), texture="stripes", contrast=48))
    _draw_barrier(canvas, x, base, size, fill)


def _draw_barrier(canvas: Canvas, x: float, base: float, size: float, fill: int) -> None:
    length, height = size * canvas.rng.uniform(110, 210), size * canvas.rng.uniform(48, 74)
    slant = size * canvas.rng.uniform(-12, 12)
    bottom = [(x + length, base + slant), (x - length, base - slant)]
    canvas.polygon([(x - length, base - height - slant), (x + length, base - height + slant), *bottom], fill)


def draw_pole(canvas: Canvas, x: float, base: float, size: float) -> None:
    fill = canvas.mix("pole", _POLE)
    height, half = size * canvas.rng.uniform(150, 230), size * canvas.rng.uniform(6, 8.5)
    canvas.box(x - half, base - height, x + half, base, fill)


def draw_light(canvas: Canvas, x: float, base: float, size: float) -> None:
    """On a pole of its own."""
    pole = canvas.mix("pole", _POLE)
    housing = canvas.mix("traffic light", Paint(colour=(22, 24, 22)))
    lamps = ((235, 60, 40), (240, 190, 50), (60, 220, 110))
    height, half = size * canvas.rng.uniform(110, 170), 6.5 * size
    canvas.box(x - half, base - height, x + half, base, pole)
    top, width = base - height - 66 * size, 17 * size
    canvas.box(x - width, top, x + width, top + 84 * size, housing)
    for row, colour in enumerate(lamps):
        lamp = canvas.mix("traffic light", Paint(colour=colour))
        cy = top + (15 + 27 * row) * size
        canvas.oval(x - 10 * size, cy - 10 * size, x + 10 * size, cy + 10 * size, lamp)


def draw_sign(canvas: Canvas, x: float, base: float, size: float) -> None:
    """On a pole of its own: a disc, a square or a triangle, blue or yellow, with a light middle."""
    rng = canvas.rng
    pole = canvas.mix("pole", _POLE)
    rim = canvas.mix("traffic sign", Paint(colour=(28, 62, 200) if rng.random() < 0.5 else (235, 196, 32)))
    face = canvas.mix("traffic sign", Paint(colour=(238, 238, 236)))
    height, radius = size * rng.uniform(110, 160), size * rng.uniform(24, 34)
    canvas.box(x - 6.5 * size, base - height, x + 6.5 * size, base, pole)
    y, kind = base - height, rng.integers(3)
    for scale, fill in ((1.0, rim), (0.5, face)):
        r = radius * scale
        if kind == 0:
            canvas.oval(x - r, y - r, x + r, y + r, fill)
        elif kind == 1:
            canvas.box(x - r, y - r, x + r, y + r, fill)
        else:
            canvas.polygon([(x, y - 1.2 * r), (x + 1.2 * r, y + 0.9 * r), (x - 1.2 * r, y + 0.9 * r)], fill)


def draw_person(canvas: Canvas, x: float, base: float, size: float) -> None:
    coat = canvas.mix("person", Paint(colour=(196, 42, 66), texture="checks", contrast=30))
    legs = canvas.mix("person", Paint(colour=(52, 42, 74)))
    head = canvas.mix("person", _SKIN)
    height, half = size * canvas.rng.uniform(110, 150), size * canvas.rng.uniform(17, 23)
    canvas.box(x - 0.8 * half, base - 0.5 * height, x + 0.8 * half, base, legs)
    canvas.box(x - half, base - 0.86 * height, x + half, base - 0.4 * height, coat)
    canvas.oval(x - 0.62 * half, base - 1.06 * height, x + 0.62 * half, base - 0.84 * height, head)


def draw_cyclist(canvas: Canvas, x: float, base: float, size: float) -> None:
    draw_bicycle(canvas, x, base, size)
    _draw_rider(canvas, x, base - 42 * size, size)


def draw_motorcyclist(canvas: Canvas, x: float, base: float, size: float) -> None:
    draw_motorcycle(canvas, x, base, size)
    _draw_rider(canvas, x, base - 50 * size, size)


def _draw_rider(canvas: Canvas, x: float, seat: float, size: float) -> None:
    jacket = canvas.mix("rider", Paint(colour=(240, 132, 24), texture="zigzag", contrast=34))
    helmet = canvas.mix("rider", Paint(colour=(238, 224, 90)))
    half, lean = size * canvas.rng.uniform(20, 26), size * canvas.rng.uniform(-12, 12)
    height = size * canvas.rng.uniform(72, 92)
    hips, shoulders = (x - half, x + half), (x + lean - 0.9 * half, x + lean + 0.9 * half)
    torso = [(hips[0], seat), (shoulders[0], seat - height), (shoulders[1], seat - height), (hips[1], seat)]
    canvas.polygon(torso, jacket)
    x += lean
    canvas.oval(x - 0.66 * half, seat - height - 1.1 * half, x + 0.66 * half, seat - height + 0.25 * half, helmet)


def draw_bicycle(canvas: Canvas, x: float, base: float, size: float) -> None:
    wheel = canvas.mix("bicycle", Paint(colour=(36, 178, 178), texture="spokes", contrast=44))
    frame = canvas.mix("bicycle", Paint(colour=(150, 226, 222)))
    radius, reach = size * canvas.rng.uniform(27, 32), 40 * size
    for side in (-1, 1):
        cx = x + side * reach
        canvas.oval(cx - radius, base - 2 * radius, cx + radius, base, wheel)
    top = base - 2.1 * radius
    canvas.polygon(
        [(x - reach, base - radius), (x - 0.4 * reach, top), (x + 0.8 * reach, top), (x, base - 8 * size)], frame
    )


def draw_motorcycle(canvas: Canvas, x: float, base: float, size: float) -> None:
    body = canvas.mix("motorcycle", Paint(colour=(122, 34, 146), texture="rings", contrast=28))
    wheel = canvas.mix("motorcycle", Paint(colour=(48, 22, 56)))
    radius, reach = size * canvas.rng.uniform(22, 26), 44 * size
    for side in (-1, 1):
        cx = x + side * reach
        canvas.oval(cx - radius, base - 2 * radius, cx + radius, base, wheel)
    top, bottom = base - size * canvas.rng.uniform(62, 74), base - 0.5 * radius
    canvas.polygon([(x - 1.3 * reach, top), (x + reach, top), (x + 1.2 * reach, bottom), (x - reach, bottom)], body)


def draw_car(canvas: Canvas, x: float, base: float, size: float) -> None:
    body = canvas.mix("car", Paint(colour=(44, 52, 148)))
    glass, tyre = canvas.mix("car", _GLASS), canvas.mix("car", _RUBBER)
    half, height = size * canvas.rng.uniform(78, 108), size * canvas.rng.uniform(72, 92)
    roof, belt = base - height, base - 0.58 * height
    canvas.polygon(
        [(x - 0.72 * half, belt), (x - 0.48 * half, roof), (x + 0.5 * half, roof), (x + 0.78 * half, belt)], body
    )
    canvas.box(x - 0.44 * half, roof + 6 * size, x + 0.46 * half, belt, glass)
    canvas.box(x - half, belt, x + half, base - 10 * size, body)
    _draw_wheels(canvas, x, base, half, 17 * size, tyre)


def draw_truck(canvas: Canvas, x: float, base: float, size: float) -> None:
    cargo = canvas.mix("truck", Paint(colour=(214, 208, 200), texture="weave", contrast=34))
    cab, tyre = canvas.mix("truck", Paint(colour=(30, 112, 96))), canvas.mix("truck", _RUBBER)
    glass = canvas.mix("truck", _GLASS)
    half, height = size * canvas.rng.uniform(110, 150), size * canvas.rng.uniform(125, 160)
    canvas.box(x - half, base - height, x + 0.5 * half, base - 14 * size, cargo)
    canvas.box(x + 0.5 * half, base - 0.75 * height, x + half, base - 14 * size, cab)
    canvas.box(x + 0.62 * half, base - 0.68 * height, x + 0.96 * half, base - 0.45 * height, glass)
    _draw_wheels(canvas, x, base, half, 20 * size, tyre)


def draw_bus(canvas: Canvas, x: float, base: float, size: float) -> None:
    body = canvas.mix("bus", Paint(colour=(226, 178, 26), texture="dots", contrast=26))
    half, height = size * canvas.rng.uniform(120, 165), size * canvas.rng.uniform(115, 145)
    canvas.box(x - half, base - height, x + half, base - 12 * size, body)
    _draw_windows(canvas, "bus", x, base - 0.84 * height, half, 0.3 * height)
    _draw_wheels(canvas, x, base, half, 18 * size, canvas.mix("bus", _RUBBER))


def draw_train(canvas: Canvas, x: float, base: float, size: float) -> None:
    """On a piece of rail, which is not a trained class."""
    rail = canvas.mix("rail track", Paint(colour=(86, 76, 66), texture="stripes", contrast=20))
    body = canvas.mix("train", Paint(colour=(186, 92, 160), texture="mosaic", contrast=24))
    half, height = size * canvas.rng.uniform(170, 230), size * canvas.rng.uniform(105, 130)
    canvas.box(x - 1.15 * half, base - 8 * size, x + 1.15 * half, base + 10 * size, rail)
    canvas.box(x - half, base - height, x + half, base, body)
    _draw_windows(canvas, "train", x, base - 0.82 * height, half, 0.34 * height)


def _draw_windows(canvas: Canvas, label: str, x: float, top: float, half: float, height: float) -> None:
    glass = canvas.mix(label, _GLASS)
    step = half / 3.5
    for number in range(-3, 4):
        cx = x + number * step
        canvas.box(cx - 0.4 * step, top, cx + 0.4 * step, top + height, glass)


def _draw_wheels(canvas: Canvas, x: float, base: float, half: float, radius: float, fill: int) -> None:
    for side in (-0.62, 0.62):
        cx = x + side * half
        canvas.oval(cx - radius, base - 2 * radius, cx + radius, base, fill)


OBJECTS: Mapping[str, Draw] = {
    "tree": draw_tree,
    "wall": draw_wall,
    "fence": draw_fence,
    "pole": draw_pole,
    "light": draw_light,
    "sign": draw_sign,
    "person": draw_person,
    "cyclist": draw_cyclist,
    "motorcyclist": draw_motorcyclist,
    "bicycle": draw_bicycle,
    "motorcycle": draw_motorcycle,
    "car": draw_car,
    "truck": draw_truck,
    "bus": draw_bus,
    "train": draw_train,
}
