from __future__ import annotations

from rich.cells import cell_len

from trainmark.report.layout import lay_out


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
