"""`ablate`: each optimisation is left out alone, and a variant that fails is a row, not an end."""

from __future__ import annotations

import json
from functools import partial

import pytest

from schema_checking import check_document
from trainmark.cli.main import main
from trainmark.controller import ablation
from trainmark.controller.ablation import ablate, read_options
from trainmark.controller.turns import Prepared, Variant
from trainmark.errors import InputError, RunError

OPTIONS = {
    "workload": "tsm", "device": "cuda", "precision": None, "size": None, "batch_size": None, "rounds": 2,
    "seconds": 0.1,
}  # fmt: skip


class Imagined(Prepared):
    """100 clips/s, half of it without the compiler; without channels_last it fails."""

    def __init__(self, variant: Variant) -> None:
        self.variant, self.rates, self.first = variant, [], {"first_step_s": 5.0}

    def wait_for_first_step(self) -> Prepared:
        if "channels_last" in self.variant.without:
            raise RunError("it ended", why="first line\nout of memory")
        return self

    def measure(self, seconds: float) -> float:
        self.rates.append(50.0 if "compile" in self.variant.without else 100.0)
        return self.rates[-1]

    def end(self) -> None:
        pass


def test_the_worth_of_each_is_the_ratio_to_all() -> None:
    options = read_options(**OPTIONS, only=["compile", "channels_last", "fused_optimizer"])  # type: ignore[arg-type]
    said: list[str] = []
    found = ablate(options, say=said.append, prepare=Imagined)
    assert (options.precision, options.size, options.batch_size) == ("bf16", "full", 16)
    assert [row.optimisation.name for row in found.rows] == ["compile", "fused_optimizer", "channels_last"]
    compiled, fused, failed = found.rows
    assert compiled.worth is not None
    assert compiled.rate is not None
    assert (compiled.worth.value, compiled.rate.value, found.rate.value) == pytest.approx((2.0, 50.0, 100.0))
    assert "shared_blocks" in compiled.also_without
    assert fused.also_without == ("whole_step_graph",)
    assert (failed.worth, failed.failure) == (None, "out of memory")
    assert said[1] == "without channels_last: out of memory"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"only": ["parallel_branches"]}, "fast does not use parallel_branches for tsm on cuda"),
        ({"size": "huge"}, "tsm has no size 'huge'"),
        ({"precision": "fp8"}, "unknown precision 'fp8'"),
    ],
)
def test_faults_are_found_before_anything_starts(changes: dict[str, object], text: str) -> None:
    with pytest.raises(InputError, match=text):
        read_options(**{**OPTIONS, "only": (), **changes})  # type: ignore[arg-type]


def test_the_command_prints_the_document_of_its_schema(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ablation, "ablate", partial(ablate, prepare=Imagined))
    words = "ablate tsm --device cuda --only compile,channels_last --rounds 2 --seconds 0.1 --json"
    assert main(words.split()) == 0
    document = json.loads(capsys.readouterr().out)
    check_document("ablate", document)
    assert [row["failure"] for row in document["ablation"]["rows"]] == [None, "out of memory"]
