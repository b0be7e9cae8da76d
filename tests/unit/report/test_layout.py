from __future__ import annotations

from rich.cells import cell_len
from rich.console import Console

from trainmark.report.layout import fold, lay_out, least_widths, total_width


def test_columns_stand_side_by_side() -> None:
    rows = [["name", "number"], ["a", "1"], ["long name", "12,345"]]
    assert lay_out(rows, width=80, is_right=[False, True]) == [
        ["name       number"],
        ["a               1"],
        ["long name  12,345"],
    ]


def test_the_widest_columns_are_folded_between_words_where_they_can_be() -> None:
    rows = [["a few words and averylongword", "1,234 images/s", "x"]]
    assert lay_out(rows, width=21, is_right=[False, True, False]) == [
        ["a few        1,234  x", "words     images/s", "and", "averylon", "gword"]
    ]


def test_a_sign_of_two_columns_counts_two() -> None:
    ((first, second),) = lay_out([["训练速度很快", "1"]], width=11, is_right=[False, True])
    assert (first, second) == ("训练速度  1", "很快")
    assert cell_len(first) == 11


def test_no_width_is_too_small() -> None:
    assert lay_out([["abc", "de"]], width=1, is_right=[False, False]) == [["a  d", "b  e", "c"]]


def test_a_heading_is_folded_where_its_words_end() -> None:
    rows = [["workload", "batch/device", "speed-up"], ["resnet50", "16", "1.00"]]
    assert lay_out(rows, width=25, is_right=[False, True, True]) == [
        ["workload   batch/  speed-", "           device      up"],
        ["resnet50       16    1.00"],
    ]


def test_the_least_width_cuts_no_word_and_folds_no_number() -> None:
    rows = [["name of it", "95% interval"], ["mask_rcnn @ other", "1.234 … 1.345"]]
    assert total_width(least_widths(rows, is_right=[False, True])) == len("mask_rcnn") + 2 + len("1.234 … 1.345")
    assert least_widths([["name", "speed"], ["a", "1,234 images/s"]], is_right=[False, True]) == [4, 8]
    assert total_width(least_widths([["name", "speed"]], is_right=[False, True])) == 11


def test_a_note_is_indented_in_a_terminal_and_whole_in_a_pipe() -> None:
    note = "  warning: it tells seconds, 但没有批大小, and no batch"
    terminal, pipe = Console(width=24), Console(width=24, soft_wrap=True)
    folded = fold(note, terminal, indent=2).split("\n")
    assert len(folded) > 2
    assert all(line.startswith("  ") and cell_len(line) <= 24 for line in folded)
    assert " ".join(line.strip() for line in folded) == note.strip()
    assert fold(note, pipe, indent=2) == note


def test_a_word_of_twelve_letters_is_cut_only_where_there_is_no_room() -> None:
    rows = [("cell", "verdict"), ("resnet50 torch fp32 batch 256", "inconclusive")]
    at_24 = [line for row in lay_out(rows, width=24, is_right=[False, False]) for line in row]
    assert any(line.endswith("inconclusive") for line in at_24)
    assert max(map(len, at_24)) <= 24
    at_20 = [line for row in lay_out(rows, width=20, is_right=[False, False]) for line in row]
    assert max(map(len, at_20)) <= 20
