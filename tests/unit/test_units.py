from __future__ import annotations

import json
import math

import numpy as np
import pytest

from trainmark import units
from trainmark.runfolder.records import Outcome
from trainmark.units import to_json


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (6953.87, "6,954"),
        (3.06512, "3.065"),
        (0.001234, "0.001234"),
        (25.1, "25.10"),
        (0, "0"),
        (None, "–"),
        (1234567.0, "1,234,567"),
        (float("nan"), "–"),
    ],
)
def test_numbers_have_four_digits_and_no_exponent(value: float | None, text: str) -> None:
    assert units.format_number(value) == text


@pytest.mark.parametrize(
    ("value", "plural", "text"),
    [
        (1, "runs", "1 run"),
        (0, "runs", "0 runs"),
        (1000000, "images", "1000000 images"),
        (1, "classes", "1 class"),
        (1, "other processes", "1 other process"),
        (1, "GPUs", "1 GPU"),
        (1.0, "epochs", "1 epoch"),
        (0.5, "epochs", "0.5 epochs"),
    ],
)
def test_one_thing_is_no_plural(value: float, plural: str, text: str) -> None:
    assert units.format_count(value, plural) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.0123, "12.3 ms"), (5.04, "5.04 s"), (125, "2 min 05 s"), (3720, "1 h 02 min"), (None, "–")]
)
def test_seconds(value: float | None, text: str) -> None:
    assert units.format_seconds(value) == text


def test_absent_is_never_zero() -> None:
    assert units.format_rate(None, "images") == "–"
    assert units.format_interval(None) == "–"
    assert units.format_plus_minus(None) == "–"
    assert units.format_bytes(None) == "–"


def test_plus_minus_and_bytes() -> None:
    assert units.format_plus_minus(0.0042) == "±0.42%"
    assert units.format_plus_minus(0.5) == "±50%"
    assert units.format_bytes(1536) == "1.5 KiB"
    assert units.format_interval((6900.4, 7010.6)) == "6,900 … 7,011"


def test_json_escapes_what_drives_a_terminal() -> None:
    unsafe = [0x7F, 0x80, 0x9F, 0x200E, 0x200F, 0x202A, 0x202E, 0x2066, 0x2069, 0xD800]
    value = {"图像": "".join(map(chr, unsafe)) + "\\é"}
    for is_ascii in (False, True):
        text = units.to_json(value, is_ascii=is_ascii)
        assert not set(text) & set(map(chr, unsafe))
        assert json.loads(text) == value
    assert units.to_json({"图像": "\x9b"}) == '{"图像": "\\u009b"}'


@pytest.mark.parametrize(
    ("text", "num_bytes"),
    [
        ("8000000000", 8_000_000_000),
        ("8GB", 8_000_000_000),
        ("1.5 GiB", 3 << 29),
        ("512m", 512_000_000),
        ("10B", 10),
        ("8XB", None),
        ("-1", None),
        ("", None),
    ],
)
def test_bytes_are_read(text: str, num_bytes: int | None) -> None:
    assert units.parse_bytes(text) == num_bytes


@pytest.mark.parametrize(
    "value",
    [{}, [], {"a": {}, "b": [], "c": [[], {}]}, {"中\u2028": "\x1b\"\\\n", "n": [1, -2.5e-7, True, None, 1e22]},
     [[1, [2]], ()], {1: 2, None: 3}, "x", 3, Outcome.OK, {"o": Outcome.OK}],
)  # fmt: skip
def test_indented_json_is_as_python_writes_it(value: object) -> None:
    assert to_json(value, indent=1) == json.dumps(value, indent=1, ensure_ascii=False)


@pytest.mark.parametrize("number", [math.nan, math.inf, np.float64(math.nan)])
def test_indented_json_has_only_finite_numbers(number: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        to_json([number], indent=1)
    assert to_json({"a": [number, 1.5]}, indent=1, is_finite=False) == to_json({"a": [None, 1.5]}, indent=1)
