"""Columns of text side by side, folded to a width. rich can do it too, at half a second for a few hundred rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import zip_longest

from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.text import Text

_GAP = "  "


def print_rows(
    headings: Sequence[str], rows: Sequence[Sequence[str]], console: Console, *, is_right: Sequence[bool]
) -> None:
    heading, *body = lay_out([headings, *rows], width=console.width, is_right=is_right)
    console.print(Text("\n".join(heading), style="bold"), soft_wrap=True)
    console.out("\n".join(text for row in body for text in row), highlight=False)


def lay_out(rows: Sequence[Sequence[str]], *, width: int, is_right: Sequence[bool]) -> list[list[str]]:
    """The lines of each row, padded but at the right end; `is_right` says which columns are numbers."""
    widest = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    widths = _shrink(widest, width - len(_GAP) * (len(widest) - 1))
    return [_lay_out_row(row, widths, is_right) for row in rows]


def _shrink(widths: Sequence[int], available: int) -> list[int]:
    """The widest columns give way first, all to the same width."""
    cap = max(widths)
    while cap > 1 and sum(min(width, cap) for width in widths) > available:
        cap -= 1
    spare = available - sum(min(width, cap) for width in widths)
    shrunk = []
    for width in widths:
        extra = 1 if width > cap and spare > 0 else 0
        spare -= extra
        shrunk.append(min(width, cap + extra))
    return shrunk


def _lay_out_row(row: Sequence[str], widths: Sequence[int], is_right: Sequence[bool]) -> list[str]:
    folded = [_fold(text, width) for text, width in zip(row, widths, strict=True)]
    pads = [partial(_pad, width=width, is_right=right) for width, right in zip(widths, is_right, strict=True)]
    return [
        _GAP.join(pad(part) for pad, part in zip(pads, parts, strict=True)).rstrip()
        for parts in zip_longest(*folded, fillvalue="")
    ]


def _pad(text: str, *, width: int, is_right: bool) -> str:
    """By the columns that a terminal gives it: a Chinese sign takes two."""
    blank = " " * (width - cell_len(text))
    return blank + text if is_right else text + blank


def _fold(text: str, width: int) -> list[str]:
    """Between words where it can be; a word that is longer is cut."""
    if cell_len(text) <= width:
        return [text]
    lines = [""]
    for word in text.split(" "):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if cell_len(joined) <= width:
            lines[-1] = joined
            continue
        pieces = chop_cells(word, width)
        lines[len(lines) if lines[-1] else 0 :] = pieces or [""]
    return lines
