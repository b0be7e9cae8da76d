"""What launchers, loggers and terminals put around a line changes neither the dialect nor the number of records."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from newer_samples import NEWER_SAMPLES
from samples import SAMPLES, Sample

from trainmark.logs.record import LogRecord
from trainmark.logs.registry import load_dialects
from trainmark.logs.stream import LogStream

ALL = (*SAMPLES, *NEWER_SAMPLES)
GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "import.md"


def read(text: str) -> tuple[str | None, int]:
    stream = LogStream(load_dialects())
    records: list[LogRecord] = stream.feed(text.encode()) + stream.close()
    name = stream.dialect.name if stream.dialect is not None else None
    return name, sum(record.kind == "step" for record in records)


def each_line(prefix: str) -> Callable[[str], str]:
    return lambda text: "".join(prefix + line for line in text.splitlines(keepends=True) if line.strip())


def of_two_ranks(text: str) -> str:
    """Both print everything, one after the other, as with `torchrun --tee` or `mpirun -tag-output`."""
    lines = [line for line in text.split("\n") if line.strip()]
    return "".join(f"[rank{rank}]:{line}\n" for line in lines for rank in (0, 1))


WAYS: dict[str, Callable[[str], str]] = {
    "torchrun": each_line("[rank0]:"),
    "torchrun --tee": each_line("[default0]:"),
    "mpirun": each_line("[1,0]<stdout>:"),
    "srun -l": each_line("0: "),
    "two ranks": of_two_ranks,
    "Windows": lambda text: text.replace("\n", "\r\n"),
    "colours": each_line("\x1b[32m\x1b[0m"),
    "cut": lambda text: text + "Traceback (most recent call last):\n  File",
}
NO_RANK = {"ai-rank"}
"""Their records are not steps."""


@pytest.mark.parametrize("way", WAYS)
def test_a_prefix_changes_nothing(way: str) -> None:
    plain = [(sample.dialect, read(sample.text)) for sample in ALL]
    found = [(sample.dialect, read(WAYS[way](sample.text))) for sample in ALL]
    assert found == plain


LOGGED = ("2024-01-01 10:00:00,123 - root - INFO - ", "INFO:root:", "[2024-01-01 10:00:00,123][main][INFO] - ")
BARS = {"keras", "paddle-hapi", "lightning", "ultralytics", "tqdm"}
"""Nobody logs a bar line by line."""


@pytest.mark.parametrize("prefix", LOGGED)
def test_a_logger_in_front_changes_nothing(prefix: str) -> None:
    samples = [sample for sample in ALL if sample.dialect not in BARS]
    found = [(sample.dialect, read(each_line(prefix)(sample.text))[0]) for sample in samples]
    assert found == [(sample.dialect, sample.dialect) for sample in samples]


@pytest.mark.parametrize("sample", NEWER_SAMPLES, ids=lambda sample: sample.dialect)
def test_a_log_in_small_pieces_gives_the_same(sample: Sample) -> None:
    (dialect,) = (dialect for dialect in load_dialects() if dialect.name == sample.dialect)
    data = sample.text.encode()
    whole, pieces = LogStream((dialect,)), LogStream((dialect,))
    first = whole.feed(data) + whole.close()
    second = [record for start in range(0, len(data), 13) for record in pieces.feed(data[start : start + 13])]
    assert second + pieces.close() == first


def test_the_guide_has_every_dialect() -> None:
    page = GUIDE.read_text()
    table = "\n".join(line.split("|")[1] for line in page.splitlines() if line.startswith("| `"))
    assert {dialect.name for dialect in load_dialects() if f"`{dialect.name}`" not in table} == set()
