"""SVG as text. Charts are drawn with classes and without colours: the page, or the file, brings the style."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from html import escape
from importlib import resources

from trainmark.units import plain

Attributes = Mapping[str, object]


@dataclass(frozen=True, kw_only=True)
class Chart:
    name: str
    """Of its file, and part of ids: letters, digits and hyphens."""
    title: str
    description: str
    """What the picture shows, for a reader who does not see it."""
    width: int
    height: int
    body: str
    """The elements inside."""
    caption: str = ""
    """Instead of the title, where a heading above says the rest of it."""
    is_labelled: bool = False
    """The picture itself names its quantity, so that a caption would say it twice."""
    header: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    """The same numbers as a table."""
    zoom: Mapping[str, float | str] = field(default_factory=dict)
    """For the page's script: the range and the place of the horizontal axis. Empty for a chart that does not zoom."""


def tag(name: str, attributes: Attributes, *children: str) -> str:
    """None leaves an attribute out; a trailing or inner underscore becomes a hyphen."""
    words = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{attribute(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{words}>{''.join(children)}</{name}>" if children else f"<{name}{words}/>"


def attribute(value: object) -> str:
    return number(value) if isinstance(value, float) else escape(plain(value), quote=True)


def number(value: float) -> str:
    """At most one decimal: a tenth of a pixel is not seen."""
    text = f"{value:.1f}"
    return text.removesuffix(".0")


def text(words: str, x: float, y: float, kind: str = "", *, anchor: str = "start") -> str:
    attributes = {"x": float(x), "y": float(y), "class": f"t {kind}".strip()}
    return tag("text", {**attributes, "text_anchor": anchor if anchor != "start" else None}, escape(plain(words)))


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return tag("line", {"x1": float(x1), "y1": float(y1), "x2": float(x2), "y2": float(y2), "class": kind})


def rect(x: float, y: float, width: float, height: float, kind: str, *, tip: str = "", radius: float = 0) -> str:
    box: dict[str, object] = {"x": float(x), "y": float(y), "width": float(width), "height": float(height)}
    rounded = {"rx": float(radius)} if radius else {}
    return tag("rect", {**box, **rounded, "class": kind}, *hint(tip))


def path(points: str, kind: str, *, tip: str = "") -> str:
    return tag("path", {"d": points, "class": kind}, *hint(tip))


def circle(x: float, y: float, radius: float, kind: str, *, tip: str = "") -> str:
    return tag("circle", {"cx": float(x), "cy": float(y), "r": float(radius), "class": kind}, *hint(tip))


def hint(words: str) -> tuple[str, ...]:
    """Shown by a browser without any script."""
    return (f"<title>{escape(plain(words))}</title>",) if words else ()


def group(children: Iterable[str], kind: str = "") -> str:
    return tag("g", {"class": kind or None}, "".join(children))


def inline(chart: Chart, *, prefix: str = "") -> str:
    """For a page, which has the style. The title and the description are read aloud."""
    ids = {part: f"{prefix}{chart.name}-{part}" for part in ("title", "desc")}
    zoom = {f"data-{key}": value if isinstance(value, str) else f"{value:.9g}" for key, value in chart.zoom.items()}
    attributes = {
        "class": "chart", "role": "img", "viewBox": f"0 0 {chart.width} {chart.height}",
        "aria-labelledby": f"{ids['title']} {ids['desc']}", **zoom,
    }  # fmt: skip
    words = (
        f'<title id="{ids["title"]}">{escape(plain(chart.title))}</title>'
        f'<desc id="{ids["desc"]}">{escape(plain(chart.description))}</desc>'
    )
    return tag("svg", attributes, words, chart.body)


def standalone(chart: Chart) -> str:
    """A file of its own, with the style inside; it follows the reader's choice of light or dark."""
    size = {"xmlns": "http://www.w3.org/2000/svg", "width": chart.width, "height": chart.height}
    attributes = {**size, "viewBox": f"0 0 {chart.width} {chart.height}", "role": "img", "class": "chart"}
    words = f"<title>{escape(plain(chart.title))}</title><desc>{escape(plain(chart.description))}</desc>"
    back = rect(0, 0, chart.width, chart.height, "paper")
    return tag("svg", attributes, words, f"<style>{style()}</style>", back, chart.body) + "\n"


def style() -> str:
    """The colours and lines of charts, for a page and for a file."""
    return resources.files(__package__).joinpath("chart.css").read_text(encoding="utf-8").strip()
