"""`ablate`: each optimisation is left out alone, and a variant that fails is a row, not an end."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial

import pytest

from making import make_machine
from schema_checking import check_document
from trainmark.cli import ablate as ablate_verb
from trainmark.cli.main import main
from trainmark.controller import ablation
from trainmark.controller.ablation import ablate, read_options
from trainmark.controller.peaks import measure_peaks
from trainmark.controller.turns import Prepared, Variant
from trainmark.errors import InputError, RunError

OPTIONS = {
    "workload": "tsm", "device": "cuda", "precision": None, "size": None, "batch_size": None, "rounds": 2,
    "seconds": 0.1, "machine": make_machine(num_gpus=1),
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

    def kill(self) -> None:
        pass


class Ending(Imagined):
    """What happens in the 4th measurement of `fast`: after its warm-up that is the third round."""

    cause: BaseException

    def measure(self, seconds: float) -> float:
        if not self.variant.without:
            self.number = getattr(self, "number", 0) + 1
            if self.number == 4:
                raise self.cause
        return super().measure(seconds)


class Interrupted(Ending):
    cause = KeyboardInterrupt("SIGTERM")


class Failing(Ending):
    cause = RunError("fast: the process ended", why="CUDA out of memory")


class DyingLater(Imagined):
    """Without fused_optimizer it ends in the second round."""

    def measure(self, seconds: float) -> float:
        if "fused_optimizer" in self.variant.without and self.rates:
            raise RunError("it ended", why="out of memory")
        return super().measure(seconds)


def test_the_worth_of_each_is_the_ratio_to_all() -> None:
    options = read_options(**OPTIONS, only=["compile", "channels_last", "fused_optimizer"])  # type: ignore[arg-type]
    said: list[str] = []
    found, cause = ablate(options, say=said.append, prepare=Imagined)
    assert (cause, found.not_measured) == (None, ())
    assert (options.precision, options.size, options.batch_size) == ("bf16", "full", 16)
    assert [row.optimisation.name for row in found.rows] == ["compile", "fused_optimizer", "channels_last"]
    compiled, fused, failed = found.rows
    assert compiled.worth is not None
    assert compiled.rate is not None
    assert (compiled.worth.value, compiled.rate.value, found.rate.value) == pytest.approx((2.0, 50.0, 100.0))
    assert "shared_blocks" in compiled.also_without
    assert fused.also_without == ("whole_step_graph",)
    assert (failed.worth, failed.failure) == (None, "out of memory")
    assert said[1:] == [
        "without channels_last: out of memory",
        "without compile: fast is 2.000 (2.000 to 2.000) times as fast",
        "without fused_optimizer: fast is 1.000 (1.000 to 1.000) times as fast, not distinguishable from 1",
    ]


@pytest.mark.parametrize(
    ("options", "num_gpus", "proposed"),
    [
        ("", 1, "--precision bf16"),
        ("", 0, "--size small"),
        ("--device cpu --size full --batch-size 16", 1, "--device cpu"),
        ("--size medium --precision fp32 --batch-size 3", 1, "--size medium --batch-size 3"),
    ],
)
def test_the_proposed_run_is_what_was_ablated(
    options: str, num_gpus: int, proposed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The defaults of `run` are others: fp32, full size."""
    monkeypatch.setattr(ablate_verb, "read_machine", lambda: make_machine(num_gpus=num_gpus))
    monkeypatch.setattr(ablation, "ablate", partial(ablate, prepare=Imagined))
    assert (
        main(["ablate", "tsm", "--only", "fused_optimizer", "--rounds", "1", "--seconds", "0.1", *options.split()]) == 0
    )
    assert capsys.readouterr().err.endswith(f"next: trainmark run tsm --recipe reference,fast {proposed}\n")


def test_a_variant_that_ends_while_it_is_measured_does_not_spoil_the_others() -> None:
    options = read_options(**OPTIONS, only=["compile", "fused_optimizer"])  # type: ignore[arg-type]
    found, _ = ablate(options, say=lambda _: None, prepare=DyingLater)
    assert [(row.optimisation.name, row.failure) for row in found.rows] == [
        ("compile", None),
        ("fused_optimizer", "it ended: out of memory"),
    ]


@pytest.mark.parametrize(("prepare", "code"), [(Interrupted, 143), (Failing, 1)])
def test_an_early_end_prints_what_was_measured_and_names_the_rest(
    prepare: type[Ending], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ablate_verb, "read_machine", lambda: make_machine(num_gpus=1))
    monkeypatch.setattr(ablation, "ablate", partial(ablate, prepare=prepare))
    monkeypatch.setattr(ablation, "num_cores", lambda: 4)  # two at the same time
    words = "ablate tsm --device cuda --only compile,fused_optimizer,sum_norms --rounds 5 --seconds 0.1"
    assert main(words.split()) == code
    printed = capsys.readouterr()
    assert "+100.0%" in printed.out
    assert "not measured: sum_norms" in printed.err
    assert "next:" not in printed.err


def test_an_early_end_with_nothing_measured_is_an_error() -> None:
    class Dead(Imagined):
        def wait_for_first_step(self) -> Prepared:
            raise RunError("fast: the process ended")

    options = read_options(**OPTIONS, only=["compile"])  # type: ignore[arg-type]
    with pytest.raises(RunError, match="fast: the process ended"):
        ablate(options, say=lambda _: None, prepare=Dead)


def test_variants_that_are_prepared_together_share_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ablation, "num_cores", lambda: 16)
    seen: dict[str, Variant] = {}

    class Seen(Imagined):
        def __init__(self, variant: Variant) -> None:
            super().__init__(variant)
            seen[variant.name] = variant

    options = read_options(**OPTIONS, only=["compile", "fused_optimizer"])  # type: ignore[arg-type]
    found, _ = ablate(options, say=lambda _: None, prepare=Seen)
    shared = {"LOCAL_WORLD_SIZE": "2", "TORCHINDUCTOR_COMPILE_THREADS": "8"}
    assert seen["fast"].environment == {}
    assert seen["fast without compile"].environment == shared
    # Their first steps took longer than those of one alone, so they are not compared.
    assert {row.first_step_s for row in found.rows} == {None}
    alone, _ = ablate(replace(options, only=("compile",)), say=lambda _: None, prepare=Seen)
    assert [row.first_step_s for row in alone.rows] == [5.0]


def test_one_round_prints_no_interval(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(ablate_verb, "read_machine", lambda: make_machine(num_gpus=1))
    monkeypatch.setattr(ablation, "ablate", partial(ablate, prepare=Imagined))
    words = "ablate tsm --device cuda --only compile --rounds 1 --seconds 0.1"
    assert main(words.split()) == 0
    printed = capsys.readouterr().out
    assert "+100.0%" in printed
    assert "+100.0% to" not in printed
    assert main([*words.split(), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    check_document("ablate", document)
    assert document["ablation"]["rows"][0]["worth"]["low"] is None


def test_nothing_is_cut_in_80_columns(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(ablate_verb, "read_machine", lambda: make_machine(num_gpus=1))
    monkeypatch.setattr(ablation, "ablate", partial(ablate, prepare=Imagined))
    monkeypatch.setattr(ablation, "num_cores", lambda: 2)
    words = "ablate tsm --device cuda --only compile,fused_optimizer --rounds 5 --seconds 0.1"
    assert main(words.split()) == 0
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 80
    one_line = " ".join(printed.split())
    assert "fused_optimizer 100.0 +0.0% +0.0% to +0.0% 5 s" in one_line
    meaning = "one kernel for all parameters' updates; also without whole_step_graph, which needs it"
    assert f"fused_optimizer {meaning}" in one_line


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
    monkeypatch.setattr(ablate_verb, "read_machine", lambda: make_machine(num_gpus=1))
    monkeypatch.setattr(ablation, "ablate", partial(ablate, prepare=Imagined))
    words = "ablate tsm --device cuda --only compile,channels_last --rounds 2 --seconds 0.1 --json"
    assert main(words.split()) == 0
    document = json.loads(capsys.readouterr().out)
    check_document("ablate", document)
    assert [row["failure"] for row in document["ablation"]["rows"]] == [None, "out of memory"]


def test_what_this_machine_lacks_is_said_before_anything_starts() -> None:
    for machine, lacking in ((make_machine(), "no NVIDIA GPU"), (make_machine(1, frameworks=()), "torch is not")):
        with pytest.raises(InputError, match=lacking):
            read_options(**{**OPTIONS, "machine": machine}, only=["compile"])  # type: ignore[arg-type]
        with pytest.raises(InputError, match=lacking):
            measure_peaks("cuda", {}, machine)
