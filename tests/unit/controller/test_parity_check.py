"""The order of a parity check, with frameworks that are a few lines of numpy; and what a comparison makes of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest

from making import make_probe_request
from schema_checking import check_document
from trainmark.cli.main import main
from trainmark.controller import parity, parity_code, parity_options, parity_probes
from trainmark.controller.parity import run_parity
from trainmark.controller.parity_code import CodeChangedError
from trainmark.controller.parity_inputs import nudge_weights, settle_weights, shuffled_orders
from trainmark.controller.parity_options import ParityOptions
from trainmark.controller.parity_proofs import read_proofs
from trainmark.frameworks import Framework, required_extra
from trainmark.runfolder.parity import STAGES, read_parity, write_parity
from trainmark.worker import probe
from trainmark.worker.probe import (
    EpochRequest,
    EpochResult,
    ProbeRequest,
    ProbeResult,
    batches_of_steps,
    digest,
    leaves,
    permute_samples,
    spread_arrays,
)
from trainmark.workloads.registry import load_card

TYPES = {"fp64": np.float64, "fp32": np.float32, "bf16": np.float16}


class NumpyProber:
    """Linear regression by gradient descent. `fault` names what the framework `paddle` does wrong."""

    def __init__(self, fault: str = "") -> None:
        self.fault = fault
        self.asked: list[tuple[str, str, int]] = []

    def run_steps(self, requests: Sequence[ProbeRequest]) -> list[ProbeResult]:
        with mock.patch.object(probe, "_probe_package", return_value=SimpleNamespace(run_probe=self._run)):
            return [probe.run_steps(request) for request in requests]

    def _run(self, request: ProbeRequest) -> ProbeResult:
        self.asked.append((request.framework, request.precision, len(request.rates)))
        fault = self.fault if request.framework == "paddle" else ""
        dtype = TYPES[request.precision]
        weights = {"w": np.linspace(0, 1, 192), "bn.running_mean": np.zeros(192)} if request.weights is None else {}
        w = np.asarray((request.weights or weights)["w"], dtype)
        results = []
        mean = np.asarray((request.weights or weights)["bn.running_mean"], dtype)
        for rate, (images, labels) in zip(request.rates, batches_of_steps(request, lambda batch: batch), strict=True):
            x = images.reshape(len(images), -1)[:, :192].astype(dtype)
            if fault == "float16 inside" and request.precision == "fp32":
                x = x.astype(np.float16).astype(dtype)
            if fault == "statistics in fp32" and request.precision == "fp32":
                x_mean = np.zeros(192, dtype)
            else:
                x_mean = x.mean(axis=0, dtype=dtype)
            mean = (mean * dtype(0.9) + x_mean * dtype(0.1)).astype(dtype)
            apart = x @ w - labels.astype(dtype) / dtype(1000)
            gradient = (2 * x.T @ apart / dtype(len(x)) / dtype(192)).astype(dtype)
            results.append((x @ w, np.square(apart).mean(), gradient))
            has_decay = fault not in ("weight decay", f"weight decay in {request.precision}")
            w = (w - dtype(rate) * (gradient + dtype(1e-4 if has_decay else 0) * w)).astype(dtype)
        if not results:
            return ProbeResult(weights={0: {name: array.astype(np.float32) for name, array in weights.items()}})
        outputs, loss, gradient = results[0]
        return ProbeResult(
            outputs={"logits": outputs},
            terms={"loss": np.asarray(loss)},
            gradients={"w": gradient},
            losses=np.array([float(loss) + 1.0 for _, loss, _ in results]),
            weights={step: {"w": w, "bn.running_mean": mean} for step in request.keep_weights_after},
            facts={
                "framework": f"{request.framework} 1.0",
                "num_parameters": 192,
                "gradient_bytes": 768,
                "optimizer_steps": len(request.rates),
                "tf32": fault == "tf32",
                "forward_flops": 1000 if request.counts_work else None,
                "layout": "NCHW",
            },
        )

    def run_epochs(self, requests: Sequence[EpochRequest]) -> list[EpochResult]:
        return [self._run_epoch(request) for request in requests]

    def _run_epoch(self, request: EpochRequest) -> EpochResult:
        is_late = self.fault == "late" and request.cell.framework == "paddle"
        batches = [(np.full((2, 3), number, np.uint8), np.arange(2)) for number in range(request.num_steps)]
        return EpochResult(
            rates=np.arange(request.num_steps) + (0.0 if is_late else 1.0),
            batches=batches,
            facts={"steps_per_epoch": 2, "samples_per_step": 2},
        )

    def forget(self) -> None:
        self.asked.clear()


@pytest.fixture(autouse=True)
def no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parity, "_make_data", lambda card, root: None)
    for module in (parity, parity_options):
        monkeypatch.setattr(module, "check_options", lambda options: load_card(options.workload))


OPTIONS = ParityOptions(workload="resnet50", frameworks=("torch", "paddle"), steps=20)


def test_equal_frameworks_pass_all_stages() -> None:
    prober = NumpyProber()
    record = run_parity(OPTIONS, prober)
    [pair] = record.pairs
    assert {stage.stage for stage in pair.stages} == set(STAGES)
    assert record.holds, pair.stages
    assert [stage.precision for stage in pair.stages] == ["fp64", "fp32", "fp32", "fp32"]  # no bf16 in Paddle on a CPU
    assert (pair.one.version, pair.other.version) == ("torch 1.0", "paddle 1.0")
    assert prober.asked.count(("torch", "fp32", 20)) == 8
    assert prober.asked.count(("paddle", "fp32", 20)) == 3


@pytest.mark.parametrize(
    ("fault", "caught", "worst"),
    [
        ("weight decay", ["mathematics", "rounding"], "weights: w"),
        ("weight decay in fp32", ["rounding"], "all weights"),
        ("statistics in fp32", ["rounding"], "all statistics"),
        ("float16 inside", ["rounding"], "all "),
        ("tf32", ["work"], "tf32"),
        ("late", ["work"], "learning rates"),
    ],
)
def test_a_fault_is_caught_by_its_stage(fault: str, caught: list[str], worst: str) -> None:
    stages = tuple(name for name in STAGES if name != "trajectory")
    [pair] = run_parity(replace(OPTIONS, stages=stages), NumpyProber(fault)).pairs
    failed = [record for record in pair.stages if not record.holds]
    assert [record.stage for record in failed] == caught
    assert failed[0].worst.startswith(worst)


def test_three_frameworks_are_three_pairs_and_two_others_share_the_reference() -> None:
    options = replace(OPTIONS, frameworks=("torch", "paddle", "jax"), stages=("mathematics", "work"))
    record = run_parity(options, NumpyProber("weight decay"))
    assert [(pair.one.name, pair.other.name, pair.holds) for pair in record.pairs] == [
        ("torch", "paddle", False),
        ("torch", "jax", True),
        ("paddle", "jax", False),
    ]


def test_a_record_comes_back_and_other_code_makes_it_outdated(tmp_path: Path) -> None:
    record = run_parity(replace(OPTIONS, stages=("mathematics",)), NumpyProber())
    write_parity(tmp_path, record)
    write_parity(tmp_path, replace(record, code="other", unix_s=record.unix_s - 1))
    (tmp_path / "parity" / "damaged.json").write_text('{"workload": 3')
    assert read_parity(tmp_path)[0] == record
    proofs = read_proofs([tmp_path])
    assert (list(proofs.current), [found.code for found in proofs.outdated]) == ([record], ["other"])


def test_samples_are_permuted_in_any_nesting() -> None:
    batch = {"images": [np.array([0]), np.array([1]), np.array([2])], "x": np.arange(3), "pair": (np.arange(3),)}
    found = permute_samples(batch, [2, 0, 1])
    assert [array.tolist() for _, array in leaves(found)] == [[2], [0], [1], [2, 0, 1], [2, 0, 1]]


def test_steps_take_the_batches_in_turn_and_their_samples_in_the_given_order() -> None:
    plain, shuffled = (shuffled_orders(batch_size=3, num_steps=20, seed=seed) for seed in (0, 1))
    assert set(plain) == {(0, 1, 2)}
    assert len(set(shuffled)) > 3
    request = make_probe_request(batches=[np.arange(3), np.arange(3) + 10], rates=(0.1,) * 3)
    assert [step.tolist() for step in batches_of_steps(request, np.array)] == [[0, 1, 2], [10, 11, 12], [0, 1, 2]]
    request = replace(request, orders=[(2, 1, 0), (0, 1, 2), (1, 0, 2)])
    assert [step.tolist() for step in batches_of_steps(request, np.array)] == [[2, 1, 0], [10, 11, 12], [1, 0, 2]]


def test_nudged_weights_move_by_two_last_digits_at_most() -> None:
    weights = {"w": np.array([[1.0, -2.0, 0.0, 1e-30]] * 100, np.float32)}
    one, two = (nudge_weights(weights, seed)["w"] for seed in (1, 2))
    assert one.dtype == np.float32
    assert set(np.unique((one - weights["w"]) / np.abs(np.spacing(weights["w"])))) == {-2, -1, 0, 1, 2}
    assert (one != two).any()


def test_values_are_spread_over_a_tensor_and_all_places_of_its_kernels() -> None:
    tensor = np.arange(512 * 512 * 9).reshape(512, 512, 3, 3)
    found = spread_arrays({"w": tensor}, 4096)["w"]
    assert len(set(found.tolist())) == 4096
    assert np.bincount(found % 9, minlength=9).min() > 300
    assert np.bincount(found // (512 * 9), minlength=512).min() >= 4
    assert spread_arrays({"w": tensor[0, 0]}, 9)["w"].shape == (3, 3)


def test_rounding_asks_each_side_for_a_step_on_each_batch_and_for_no_more_values_than_it_needs() -> None:
    prober = NumpyProber()
    given: list[ProbeRequest] = []
    run = prober._run
    prober._run = lambda request: given.append(request) or run(request)  # type: ignore[func-returns-value,method-assign]
    run_parity(replace(OPTIONS, stages=("rounding",)), prober)
    for framework in ("torch", "paddle"):
        runs = [request for request in given if request.framework == framework and request.precision == "fp32"][-16:]
        assert {request.most_values for request in runs} == {4096}
        assert len({digest(list(request.batches)) for request in runs}) == 16


def test_settled_weights_keep_shapes_types_and_positive_variances() -> None:
    weights = {
        "layer1.0.bn3.weight": np.ones(5, np.float32),
        "layer1.0.bn3.running_var": np.full(5, 0.01, np.float32),
        "fc.bias": np.zeros(5, np.float32),
        "fc.weight": np.ones((5, 2), np.float32),
    }
    settled = settle_weights(weights, np.random.default_rng(0))
    assert {name: (array.shape, array.dtype) for name, array in settled.items()} == {
        name: (array.shape, array.dtype) for name, array in weights.items()
    }
    assert (settled["layer1.0.bn3.running_var"] > 0).all()
    assert 0 < settled["layer1.0.bn3.weight"].max() < 0.2
    assert (settled["fc.bias"] != 0).all()


# -- the command -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("fault", "code"), [("", 0), ("weight decay", 1)])
def test_the_command_prints_an_entry_for_each_stage_stores_it_and_says_what_is_next(
    fault: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(parity_probes, "ProcessProber", lambda folder, tell, jobs: NumpyProber(fault))
    words = ["parity", "resnet50", "--frameworks", "torch,paddle", "--stages", "mathematics,work"]
    assert main([*words, "--json", "--store", str(tmp_path)]) == code
    printed = capsys.readouterr()
    document = json.loads(printed.out)
    check_document("parity", document)
    assert document["holds"] is (code == 0)
    assert [(entry["one"]["name"], entry["other"]["name"], entry["stage"]) for entry in document["entries"]] == [
        ("torch", "paddle", "mathematics"),
        ("torch", "paddle", "work"),
    ]
    for entry in document["entries"]:
        assert entry["holds"] is (entry["measured"] is not None and entry["measured"] <= entry["limit"])
    [stored] = read_parity(tmp_path)
    assert document["stored"].startswith(str(tmp_path / "parity" / "resnet50-"))
    assert stored.holds is document["holds"]
    again = "parity resnet50 --frameworks torch,paddle --stages mathematics --json"
    rest = "parity resnet50 --frameworks torch,paddle --stages rounding,trajectory --precision fp32"
    assert f"next: trainmark {rest if code == 0 else again} --store {tmp_path}\n" in printed.err
    assert [path.name for path in (tmp_path / "parity").iterdir()] == [Path(document["stored"]).name]
    if code == 0:
        main([*words[:-1], "rounding,trajectory", "--store", str(tmp_path)])
        compared = "compare framework=torch framework=paddle"
        assert f"next: trainmark {compared} --store {tmp_path}\n" in capsys.readouterr().err


def test_the_next_check_leaves_out_a_framework_that_has_not_the_missing_precision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(parity_probes, "ProcessProber", lambda folder, tell, jobs: NumpyProber())
    words = ["parity", "resnet50", "--frameworks", "torch,paddle,jax", "--precision", "fp32"]
    assert main([*words, "--store", str(tmp_path)]) == 0
    [printed] = [line for line in capsys.readouterr().err.splitlines() if line.startswith("next: trainmark ")]
    following = printed.removeprefix("next: trainmark ").split()
    assert following[:6] == ["parity", "resnet50", "--frameworks", "torch,jax", "--stages", "rounding"]
    assert main(following) == 0
    assert "next: trainmark compare" in capsys.readouterr().err


def test_a_secret_in_a_setting_is_no_reason_to_check_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JAX_DEFAULT_MATMUL_PRECISION_TOKEN", "3x4mple-v4lue-0f-4-secret")
    monkeypatch.setattr(parity_probes, "ProcessProber", lambda folder, tell, jobs: NumpyProber())
    assert main(["parity", "resnet50", "--frameworks", "torch,jax", "--store", str(tmp_path)]) == 0
    assert "next: trainmark compare" in capsys.readouterr().err


def test_the_table_names_the_fault_in_both_languages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(parity_probes, "ProcessProber", lambda folder, tell, jobs: NumpyProber("weight decay"))
    words = ["parity", "resnet50", "--frameworks", "paddle", "--stages", "mathematics", "--store", str(tmp_path)]
    assert main(words) == 1
    english = capsys.readouterr().out
    assert english.startswith("resnet50: torch and paddle do not train the same thing: stage mathematics fails at w")
    assert main([*words, "--lang", "zh"]) == 1
    assert "阶段 mathematics 在 weights: w 处不成立" in capsys.readouterr().out


@pytest.mark.parametrize("words", ["parity resnet50 --stages fast", "parity nothing", "parity resnet50 --steps 0"])
def test_bad_words_are_refused(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words.split()) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_a_framework_that_is_not_installed_comes_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.undo()  # the real check of the options
    monkeypatch.setattr(Framework, "installed_version", lambda self: None if self.name == "paddle" else "1.0")
    assert main(["parity", "resnet50", "--frameworks", "torch,paddle"]) == 2
    hint = f"pip install {required_extra('paddle')}"
    assert capsys.readouterr().err == f"error: paddle is not installed\n  hint: {hint}\n"


@pytest.mark.parametrize("gone", ["read_training_code", "read_check_code"])
def test_code_is_the_same_from_the_start_of_a_check_to_its_record(gone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where all results are kept and no process runs, and where a file is gone."""

    class Updating(NumpyProber):
        def run_steps(self, requests: Sequence[ProbeRequest]) -> list[ProbeResult]:
            for module in (parity_code, parity):
                monkeypatch.setattr(module, gone, read)
            return super().run_steps(requests)

    def read(*_: object) -> str:
        raise FileNotFoundError

    with pytest.raises(CodeChangedError):
        run_parity(replace(OPTIONS, stages=("mathematics",)), Updating())
