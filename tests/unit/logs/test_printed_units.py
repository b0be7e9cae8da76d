"""Units of printed numbers: a factor of 1000 must not pass silently."""

from __future__ import annotations

from pathlib import Path

import pytest
from samples import import_text

from trainmark.errors import SpecError
from trainmark.logs.live import LiveLog
from trainmark.logs.pattern import load_pattern
from trainmark.logs.printed import half_digit, seconds_of_clock
from trainmark.logs.record import Facts
from trainmark.logs.registry import load_dialects
from trainmark.report.document import describe_runs
from trainmark.store.rows import RunRow


def own(tmp_path: Path, record: str, line: str, **given: int) -> RunRow:
    """200 lines, one per step and per second by their time stamps."""
    pattern = tmp_path / "ours.toml"
    pattern.write_text(f'name = "ours"\nanchor = "it "\nrecord = \'{record}\'\n')
    text = "".join(f"2024-01-01 10:{n // 60:02d}:{n % 60:02d} it {n} {line}\n" for n in range(1, 201))
    return import_text(tmp_path, text, pattern=pattern, devices=1, **given)


STEP = r"it (?P<step>[0-9]+) "


@pytest.mark.parametrize(
    ("record", "line", "seconds"),
    [
        (STEP + r"(?P<seconds>[0-9.]+) s/it", "1.002 s/it", 1.002),
        (STEP + r"(?P<ms>[0-9.]+) ?ms", "1002.0ms", 1.002),
        (STEP + r"(?P<us>[0-9.]+) us", "1002000 us", 1.002),
        (STEP + r"(?P<its>[0-9.]+) it/s", "0.998 it/s", 1 / 0.998),
        (STEP + r"(?P<rate>[0-9.]+)(?P<suffix>[kM]?) (?P<unit>[a-z]+)/s", "0.998 steps/s", 1 / 0.998),
    ],
)
def test_times_of_an_iteration(tmp_path: Path, record: str, line: str, seconds: float) -> None:
    row = own(tmp_path, record, line)
    assert row.seconds == pytest.approx(seconds)
    assert [warning["code"] for warning in row.warnings] == ["batch-unknown"]


@pytest.mark.parametrize(
    ("line", "rate", "unit"),
    [("1.5k tok/s", 1500.0, "tokens"), ("2.5M tokens/s", 2.5e6, "tokens"), ("812.5 img/s", 812.5, "images")],
)
def test_rates_with_a_suffix(tmp_path: Path, line: str, rate: float, unit: str) -> None:
    row = own(tmp_path, STEP + r"(?P<rate>[0-9.]+)(?P<suffix>[kM]?) (?P<unit>[a-z]+)/s", line)
    assert (describe_runs([row])[0]["last"], row.unit) == (rate, unit)


@pytest.mark.parametrize("line", ["1000.5 x", "0.001 x"])
def test_a_wrong_unit_is_found_by_the_clock(tmp_path: Path, line: str) -> None:
    row = own(tmp_path, STEP + r"(?P<seconds>[0-9.]+) x", line, batch_size_per_device=8)
    assert "clock-disagrees" in [warning["code"] for warning in row.warnings]


@pytest.mark.parametrize(
    "record",
    [
        r"it (?P<seconds>[0-9.]+)ms",
        r"it (?P<seconds>[0-9.]+)\s*ms",
        r"it (?P<total>[0-9.]+) ms",
        r"it (?P<rate>[0-9.]+) it/s",
        r"it (?P<rate>[0-9.]+)k tok/s",
    ],
)
def test_a_group_whose_name_contradicts_the_unit_is_refused(tmp_path: Path, record: str) -> None:
    pattern = tmp_path / "ours.toml"
    pattern.write_text(f'name = "ours"\nanchor = "it "\nrecord = \'{record}\'\n')
    with pytest.raises(SpecError, match="followed by"):
        load_pattern(pattern)


@pytest.mark.parametrize(("key", "value"), [("meaning", '"mean"'), ("first_step", "2"), ("covers", '"all"')])
def test_unknown_meanings_are_refused(tmp_path: Path, key: str, value: str) -> None:
    pattern = tmp_path / "ours.toml"
    pattern.write_text(f'name = "o"\nanchor = "it "\nrecord = \'it (?P<ms>[0-9.]+)\'\n{key} = {value}\n')
    with pytest.raises(SpecError, match=key):
        load_pattern(pattern)


@pytest.mark.parametrize(
    ("text", "half"), [(b"12.3", 0.05), (b"1,234", 0.5), (b"0.4000", 0.00005), (b"1.20e-3", 5e-6), (b"7", 0.5)]
)
def test_half_of_the_last_digit(text: bytes, half: float) -> None:
    assert half_digit(text) == pytest.approx(half)


@pytest.mark.parametrize(
    ("text", "seconds"), [(b"02:03", 123.5), (b"1:02:03", 3723.5), (b"1 day, 0:00:10", 86410.5), (b"0:01.25", 1.25)]
)
def test_clocks_cut_seconds_off(text: bytes, seconds: float) -> None:
    found = seconds_of_clock(text)
    assert found is not None
    assert found[0] == seconds


# -- a batch size counts sequences, never tokens -----------------------------------------------------------------------

NANO = "".join(f"iter {10 * n}: loss 6.9, time 250.00ms, mfu 20.00%\n" for n in range(1, 10))
MODDED = "".join(f"step:{n}/100 train_time:{n}00ms step_avg:100.00ms\n" for n in range(2, 12))
OURS = "".join(f"it {n} took 250.0 ms\n" for n in range(1, 10))
PATTERN = "name = 'ours'\nanchor = 'took'\nrecord = 'it (?P<step>\\d+) took (?P<ms>[\\d.]+) ms'\nunit = '{unit}'\n"


def _speed(row: RunRow) -> tuple[str, float]:
    return row.unit, describe_runs([row])[0]["throughput"]["value"]


@pytest.mark.parametrize(("text", "rate"), [(NANO, 48.0), (MODDED, 120.0)])
def test_a_batch_size_counts_sequences(text: str, rate: float, tmp_path: Path) -> None:
    row = import_text(tmp_path, text, devices=1, batch_size_per_device=12)
    assert _speed(row) == ("sequences", pytest.approx(rate))


def test_a_batch_size_in_the_path_counts_sequences(tmp_path: Path) -> None:
    row = import_text(tmp_path, NANO, name="4n8g/r50_b128_fp32_3.log")
    assert _speed(row) == ("sequences", pytest.approx(4 * 8 * 128 * 4))


def test_a_batch_size_changes_no_number_of_tokens_in_the_log(tmp_path: Path) -> None:
    row = import_text(tmp_path, "tokens per iteration will be: 12,288\n" + NANO, devices=1, batch_size_per_device=12)
    assert _speed(row) == ("tokens", pytest.approx(12288 * 4))


@pytest.mark.parametrize("unit", ["tokens", "words"])
def test_a_batch_size_counts_sequences_in_a_format_of_the_users(unit: str, tmp_path: Path) -> None:
    pattern = tmp_path / "ours.toml"
    pattern.write_text(PATTERN.format(unit=unit))
    row = import_text(tmp_path, OURS, pattern=pattern, devices=1, batch_size_per_device=12)
    assert _speed(row) == ("sequences", pytest.approx(48.0))


@pytest.mark.parametrize("more", ["", " 250 ms/step"])
def test_a_rate_in_tokens_is_not_replaced_by_clock_and_batch_size(more: str, tmp_path: Path) -> None:
    """Time stamps and a batch size give sequences, which must not be called tokens."""
    lines = (f"2024-01-01 00:00:0{n} step {n}0 loss 1.0 4915{n} tok/s{more}\n" for n in range(1, 10))
    row = import_text(tmp_path, "".join(lines), devices=1, batch_size_per_device=12)
    assert _speed(row) == ("tokens", pytest.approx(49155, rel=1e-3))


@pytest.mark.parametrize(("head", "unit"), [("", "sequences"), ("tokens per iteration will be: 12,288\n", "tokens")])
def test_a_batch_size_counts_sequences_while_a_command_runs(head: str, unit: str) -> None:
    live = LiveLog(load_dialects(), Facts(devices=1, batch_size_per_device=12))
    live.feed((head + NANO).encode(), None)
    assert live.unit == unit
