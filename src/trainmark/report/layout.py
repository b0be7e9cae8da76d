"""A table of text that fits a width. rich can do this too, but needs half a second for a few hundred rows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from rich import cells
from rich.cells import chop_cells
from rich.console import Console
from rich.style import Style
from rich.text import Text

_GAP = "  "
_BOLD = Style(bold=True)
_INSIDE_WORD = re.compile(r"(?<=[^\W\d][/-])(?=[^\W\d]{2})")
_UNLIMITED = 10_000
_LONG_WORD = 10
"""A longer word, such as a path or an argument, may be cut."""
_LONGER_WORD = 12
"""Where there is room: `inconclusive`, `accelerator`."""


def print_rows(
    headings: Sequence[str], rows: Sequence[Sequence[str]], console: Console, *, is_right: Sequence[bool]
) -> None:
    print_texts(table_texts(headings, rows, console, is_right=is_right), console)


def table_texts(
    headings: Sequence[str], rows: Sequence[Sequence[str]], console: Console, *, is_right: Sequence[bool]
) -> list[str]:
    """The lines of a table, for `print_texts`."""
    heading, *body = lay_out([headings, *rows], width=room_for_table(console), is_right=is_right)
    has_styles = console.color_system is not None
    return [
        *((_BOLD.render(text) if has_styles else text) for text in heading),
        *(text for row in body for text in row),
    ]


def print_texts(texts: Sequence[str], console: Console) -> None:
    """Lines that fit already, all at once: rich needs 0.1 ms for each."""
    if texts:
        console.file.write("\n".join(texts) + "\n")


def room_for_table(console: Console) -> int:
    """Columns of a terminal; in a file or a pipe a row stays one line, for grep and awk."""
    return _UNLIMITED if console.soft_wrap else console.width


def fold(text: str, console: Console, *, indent: int) -> str:
    """Wrap to the width of a terminal, with further lines indented; in a file or a pipe it stays one line."""
    if console.soft_wrap or cell_len(text) <= console.width:
        return text
    lines = Text(text[indent:]).wrap(console, max(1, console.width - indent))
    return text[:indent] + f"\n{' ' * indent}".join(line.plain.rstrip() for line in lines)


def cell_len(text: str) -> int:
    """Width in terminal columns."""
    return len(text) if text.isascii() else cells.cell_len(text)


def lay_out(rows: Sequence[Sequence[str]], *, width: int, is_right: Sequence[bool]) -> list[list[str]]:
    """The lines of each row, headings first, without trailing spaces; `is_right`: which columns are right-aligned."""
    widest = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    available = width - len(_GAP) * (len(widest) - 1)
    if sum(widest) <= available:
        return [[_join(row, widest, is_right)] for row in rows]
    floors = least_widths(rows, is_right=is_right, long_word=_LONGER_WORD)
    if sum(floors) > available:
        floors = least_widths(rows, is_right=is_right)
    widths = _shrink(widest, floors, available)
    return [_lay_out_row(row, widths, is_right) for row in rows]


def total_width(widths: Sequence[int]) -> int:
    """Width of a table whose columns have these widths."""
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def least_widths(rows: Sequence[Sequence[str]], *, is_right: Sequence[bool], long_word: int = _LONG_WORD) -> list[int]:
    """The smallest widths of columns at which no word but a long one is cut and no number is folded."""
    columns = zip(*rows, strict=True)
    return [_floor(column, long_word, is_number=right) for column, right in zip(columns, is_right, strict=True)]


def unfolded_widths(rows: Sequence[Sequence[str]]) -> list[int]:
    """The smallest widths of columns at which only headings are folded."""
    heading, *body = rows
    return [
        max(_longest_word([name]), *map(cell_len, column))
        for name, column in zip(heading, zip(*body, strict=True), strict=True)
    ]


def _floor(column: Sequence[str], long_word: int, *, is_number: bool) -> int:
    heading, *body = column
    if is_number and body:
        return max(_longest_word([heading], long_word), max(map(_without_unit, body)))
    return _longest_word(column, long_word)


def _without_unit(text: str) -> int:
    """Width of a number whose unit may be on the next line."""
    number, _, unit = text.rpartition(" ")
    return max(cell_len(number), cell_len(unit)) if unit.endswith("/s") else cell_len(text)


def _longest_word(texts: Sequence[str], long_word: int = _LONG_WORD) -> int:
    return min(long_word, max(cell_len(word) for text in texts for word, _ in _split(text)))


def _shrink(widths: Sequence[int], floors: Sequence[int], available: int) -> list[int]:
    """Shrink the widest columns first, all to the same width, but none below its floor if possible."""
    if sum(floors) > available:
        floors = [1] * len(widths)
    cap = max(widths)
    while cap > 1 and sum(_between(width, floor, cap) for width, floor in zip(widths, floors, strict=True)) > available:
        cap -= 1
    shrunk = [_between(width, floor, cap) for width, floor in zip(widths, floors, strict=True)]
    spare = available - sum(shrunk)
    for place, width in enumerate(widths):
        if spare > 0 and shrunk[place] == cap < width:
            shrunk[place] += 1
            spare -= 1
    return shrunk


def _between(width: int, floor: int, cap: int) -> int:
    return min(width, max(floor, cap))


def _lay_out_row(row: Sequence[str], widths: Sequence[int], is_right: Sequence[bool]) -> list[str]:
    folded = [_fold(text, width) for text, width in zip(row, widths, strict=True)]
    return [_join(parts, widths, is_right) for parts in zip_longest(*folded, fillvalue="")]


def _join(texts: Sequence[str], widths: Sequence[int], is_right: Sequence[bool]) -> str:
    """A line of a table. Widths are in terminal columns, of which a Chinese character takes two."""
    padded = []
    for text, width, right in zip(texts, widths, is_right, strict=True):
        blank = " " * (width - cell_len(text))
        padded.append(blank + text if right else text + blank)
    return _GAP.join(padded).rstrip()


def _fold(text: str, width: int) -> list[str]:
    """Fold between words if possible; a word that is too long is cut."""
    if cell_len(text) <= width:
        return [text]
    lines = [""]
    for word, gap in _split(text):
        joined = f"{lines[-1]}{gap}{word}" if lines[-1] else word
        if cell_len(joined) <= width:
            lines[-1] = joined
            continue
        pieces = chop_cells(word, width)
        lines[len(lines) if lines[-1] else 0 :] = pieces or [""]
    return lines


def _split(text: str) -> Iterator[tuple[str, str]]:
    """The words, each with the gap before it; batch/device and speed-up are two words."""
    for word in text.split(" "):
        first, *rest = _INSIDE_WORD.split(word)
        yield first, " "
        for part in rest:
            yield part, ""
