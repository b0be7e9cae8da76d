"""Which proofs and runs are of what is installed here."""

from __future__ import annotations

import runpy
from dataclasses import replace
from pathlib import Path

import pytest

from comparing import make_runs
from making import make_cell
from trainmark.controller.parity_code import check_code
from trainmark.controller.parity_proofs import is_installed, keep_proof, read_proofs
from trainmark.frameworks import Framework
from trainmark.runfolder.parity import Contestant, PairRecord, ParityRecord, StageRecord, read_parity, write_parity
from trainmark.store.folder import read_run
from trainmark.worker.training_code import training_code

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def two_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"torch": "2.15.0", "jax": "0.11.2"}
    monkeypatch.setattr(Framework, "installed_version", lambda self: versions.get(self.name))


def side(framework: str, version: str) -> Contestant:
    code = training_code("resnet50", framework)
    return Contestant(framework=framework, recipe="reference", version=f"{framework} {version}", code=code)


TORCH, JAX = ("torch", "2.15.0+cu128"), ("jax", "0.11.2")


def record(one: Contestant, other: Contestant, *, steps: int = 200) -> ParityRecord:
    stage = StageRecord(
        stage="trajectory", precision="fp32", measured=0.1, limit=1, holds=True, worst="w", steps=steps, repeats=8
    )
    return ParityRecord(
        workload="resnet50",
        card_version=1,
        size="small",
        device="cpu",
        code=check_code(["torch", "jax"]),
        unix_s=1.0,
        pairs=(PairRecord(one=one, other=other, stages=(stage,)),),
    )


def test_a_proof_has_the_variables_of_the_check_without_their_secrets(tmp_path: Path) -> None:
    variables = {"XLA_FLAGS": "--xla_a=1", "JAX_TOKEN": "hunter2"}
    _, path = keep_proof(tmp_path, replace(record(side(*TORCH), side(*JAX)), variables=variables))
    [kept] = read_parity(tmp_path)
    assert kept.variables["XLA_FLAGS"] == "--xla_a=1"
    assert kept.variables["JAX_TOKEN"].startswith("REDACTED-")
    assert "hunter2" not in path.read_text()


def test_a_side_is_installed_if_version_and_code_are() -> None:
    assert is_installed("resnet50", side(*TORCH))
    assert not is_installed("resnet50", side("torch", "2.14.0"))
    assert not is_installed("resnet50", replace(side(*TORCH), code="other"))


def test_a_run_of_other_code_or_another_framework_cannot_be_proven_here(tmp_path: Path) -> None:
    is_other = read_proofs([tmp_path]).is_other

    def judge(**environment: object) -> bool:
        folder = tmp_path / f"store{len(list(tmp_path.iterdir()))}"
        [name] = make_runs(folder, [100.0], cell=make_cell(workload="resnet50", framework="torch"), **environment)
        row = read_run(folder / name)
        assert row is not None
        return is_other(row)

    code = training_code("resnet50", "torch")
    assert not judge(training_code=code, framework="torch 2.15.0")
    assert judge(training_code=code, framework="torch 2.14.0")
    assert judge(training_code="other", framework="torch 2.15.0")


def test_the_table_repeats_what_is_of_other_versions_or_too_short(tmp_path: Path) -> None:
    is_done = runpy.run_path(str(ROOT / "benchmarks" / "parity_table.py"))["is_done"]

    def has(found: ParityRecord) -> bool:
        path = write_parity(tmp_path, found)
        try:
            return bool(is_done(tmp_path, "resnet50", "trajectory"))
        finally:
            path.unlink()

    assert has(record(side(*TORCH), side(*JAX)))
    assert not has(record(side(*TORCH), side("jax", "0.10.2")))
    assert not has(record(side(*TORCH), side(*JAX), steps=1))
    for other in ({"device": "cuda"}, {"size": "medium"}, {"seed": 2}):
        assert not has(replace(record(side(*TORCH), side(*JAX)), **other)), other
    assert not has(record(side(*TORCH), replace(side(*JAX), recipe="fast")))
