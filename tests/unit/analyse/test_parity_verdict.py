"""What a proof of parity is worth: for which runs it counts, and which command makes the one that is missing."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from comparing import make_runs, scaled
from making import make_cell
from trainmark.analyse.parity_verdict import Proofs, needs_not_met, why_not_equal
from trainmark.messages.message import Message
from trainmark.runfolder.parity import Contestant, PairRecord, ParityRecord, StageRecord
from trainmark.store.folder import read_run
from trainmark.store.rows import RunRow

STAGES = [("mathematics", "fp64"), ("rounding", "fp32"), ("trajectory", "fp32"), ("work", "fp32")]
VERSIONS = {"torch": "torch 2.15.0", "paddle": "paddle 3.3", "jax": "jax 0.11"}


def proof(**change: Any) -> ParityRecord:
    """That torch 2.15.0 and paddle 3.3 train the workload of `make_cell` equally; `change` replaces facts."""
    given: dict[str, Any] = {
        "stages": STAGES,
        "failed": "",
        "device": "cpu",
        "steps": 200,
        "repeats": 8,
        "code": "c0de",
        "seed": 1,
        "size": "small",
        "variables": {},
    }
    given |= {"measured": 0.0, "recipes": {"torch": "reference", "paddle": "reference"}, "parts": {}, "versions": {}}
    given |= change
    records = tuple(
        StageRecord(
            stage=stage,
            precision=precision,
            measured=given["measured"],
            limit=1.0,
            holds=stage != given["failed"],
            worst="w",
            steps=given["steps"] if stage == "trajectory" else None,
            repeats=given["repeats"] if stage == "trajectory" else None,
        )
        for stage, precision in given["stages"]
    )
    versions = {**VERSIONS, **given["versions"]}
    one, other = (
        Contestant(framework=name, recipe=recipe, version=versions[name], code=given["code"], parts=given["parts"])
        for name, recipe in given["recipes"].items()
    )
    return ParityRecord(
        workload=make_cell().workload,
        card_version=given.get("card_version", 1),
        size=given["size"],
        variables=given["variables"],
        device=given["device"],
        seed=given["seed"],
        code="x",
        unix_s=0.0,
        pairs=(PairRecord(one=one, other=other, stages=records),),
    )


def only(*names: str) -> list[tuple[str, str]]:
    return [pair for pair in STAGES if pair[0] in names]


def without(name: str) -> list[tuple[str, str]]:
    return [pair for pair in STAGES if pair[0] != name]


def rows_of(folder: Path, *, framework: str, environment: dict[str, Any] | None = None, **cell: Any) -> list[RunRow]:
    made = make_cell(**{"framework": framework, "precision": "fp32", **cell})
    make_runs(folder, scaled(1.0)[:2], cell=made, framework=VERSIONS[framework], **(environment or {}))
    return [row for path in sorted(folder.iterdir()) if (row := read_run(path)) is not None]


def ask(tmp_path: Path, proofs: Proofs, *, other: str = "paddle", both: dict[str, Any] | None = None) -> Message | None:
    sides = [rows_of(tmp_path / name, framework=name, **(both or {})) for name in ("torch", other)]
    straight, reverse = why_not_equal(sides[0], sides[1], proofs), why_not_equal(sides[1], sides[0], proofs)
    assert (straight is None) == (reverse is None)
    return straight


def test_all_stages_prove_two_runs_equal_also_from_several_records(tmp_path: Path) -> None:
    assert ask(tmp_path, Proofs(current=[proof()])) is None
    parts = [proof(stages=only("rounding", "work")), proof(stages=only("mathematics", "trajectory"))]
    assert ask(tmp_path, Proofs(current=parts)) is None


@pytest.mark.parametrize(
    ("proofs", "code"),
    [
        (Proofs(), "parity-not-checked"),
        (Proofs(outdated=[proof()]), "parity-outdated"),
        (Proofs(current=[proof(versions={"torch": "torch 2.16.0"})]), "parity-outdated"),
        (Proofs(current=[proof(parts={"jaxlib": "0.1"})]), "parity-outdated"),
        (Proofs(current=[proof(code="0ther")]), "parity-outdated"),
        (Proofs(current=[proof(card_version=9)]), "parity-not-checked"),
        (Proofs(current=[proof(stages=without("trajectory"))]), "parity-stage-missing"),
        (Proofs(current=[proof(failed="work")]), "parity-stage-failed"),
        (Proofs(current=[proof(stages=only("work"), failed="work")]), "parity-stage-failed"),
        (Proofs(current=[proof(failed="work"), proof()]), "parity-stage-failed"),
        (Proofs(current=[proof(stages=without("trajectory")), proof()]), None),
        (Proofs(current=[proof(steps=1)]), "parity-stage-short"),
        (Proofs(current=[proof(repeats=2)]), "parity-stage-short"),
        (Proofs(current=[proof(steps=None, repeats=None)]), "parity-stage-short"),
        (Proofs(current=[proof(steps=1), proof()]), None),
        (Proofs(current=[proof(steps=1, failed="trajectory"), proof()]), "parity-stage-failed"),
        (Proofs(current=[proof(measured=0.5)]), "parity-stage-failed"),
        (Proofs(current=[proof(measured=None)]), "parity-stage-failed"),
        (Proofs(current=[proof()], is_other=lambda _: True), None),
        (Proofs(current=[proof(stages=without("work"))], is_other=lambda _: True), "parity-runs-outdated"),
    ],
)
def test_a_proof_counts_for_its_versions_and_needs_all_stages(proofs: Proofs, code: str | None, tmp_path: Path) -> None:
    found = ask(tmp_path, proofs)
    assert (None if found is None else found.code) == code
    if found is not None:
        workload = make_cell().workload
        assert f"trainmark parity {workload} --frameworks torch,paddle" in str(found)


def test_a_stage_must_hold_for_every_seed_that_was_tried(tmp_path: Path) -> None:
    """Else a check that fails could be repeated until chance lets it pass."""
    found = ask(tmp_path, Proofs(current=[proof(), proof(failed="rounding", seed=7)]))
    assert found is not None
    assert found.code == "parity-stage-failed"
    assert "--stages rounding --precision fp32 --seed 7" in str(found)
    later = [proof(seed=7), proof(failed="rounding", seed=7), proof()]
    assert ask(tmp_path / "later", Proofs(current=later)) is None


def test_a_stage_must_hold_for_every_size_that_was_tried(tmp_path: Path) -> None:
    found = ask(tmp_path, Proofs(current=[proof(), proof(failed="work", size="full")]))
    assert found is not None
    assert str(found).endswith("--stages work --size full")
    later = [proof(size="full"), proof(failed="work", size="full"), proof()]
    assert ask(tmp_path / "later", Proofs(current=later)) is None


def test_a_failure_after_many_steps_is_not_undone_by_fewer(tmp_path: Path) -> None:
    longer = proof(failed="trajectory", steps=400)
    found = ask(tmp_path, Proofs(current=[proof(), longer]))
    assert found is not None
    assert str(found).endswith("--stages trajectory --steps 400")
    assert ask(tmp_path / "later", Proofs(current=[proof(steps=400), longer])) is None
    assert ask(tmp_path / "longer", Proofs(current=[proof(steps=400), proof(failed="trajectory")])) is None
    assert ask(tmp_path / "three", Proofs(current=[proof(), proof(steps=800), longer])) is None


FAST_MATH = "--xla_cpu_enable_fast_math=true"
WITH_JAX: dict[str, Any] = {"recipes": {"torch": "reference", "jax": "reference"}}


def ask_jax(folder: Path, checked: dict[str, str], *, torch: dict[str, str], jax: dict[str, str]) -> Message | None:
    """`checked`: the variables of the check, the others those of the runs."""
    sides = [
        rows_of(folder / name, framework=name, environment={"variables": variables})
        for name, variables in {"torch": torch, "jax": jax}.items()
    ]
    return why_not_equal(sides[0], sides[1], Proofs(current=[proof(**WITH_JAX, variables=checked)]))


def test_a_check_counts_only_for_runs_with_its_settings_of_the_environment(tmp_path: Path) -> None:
    flags = {"XLA_FLAGS": FAST_MATH, "OMP_NUM_THREADS": "1"}
    found = ask_jax(tmp_path, {}, torch={}, jax=flags)
    assert found is not None
    assert found.code == "parity-other-settings"
    assert "set XLA_FLAGS as in the env.json of the runs" in str(found)
    assert ask_jax(tmp_path / "same", {"XLA_FLAGS": FAST_MATH}, torch=flags, jax=flags) is None
    assert ask_jax(tmp_path / "plain", {"XLA_FLAGS": FAST_MATH}, torch={}, jax={}) is not None
    harmless = {"OMP_NUM_THREADS": "2", "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.5", "FLAGS_gpu_memory_limit_mb": "1"}
    assert ask_jax(tmp_path / "harmless", {}, torch=harmless, jax=harmless) is None


def test_a_setting_of_one_framework_does_not_matter_to_another(tmp_path: Path) -> None:
    assert ask_jax(tmp_path / "a", {"XLA_FLAGS": FAST_MATH}, torch={}, jax={"XLA_FLAGS": FAST_MATH}) is None
    assert ask_jax(tmp_path / "b", {}, torch={"FLAGS_use_fast_math": "1"}, jax={}) is None
    found = ask_jax(tmp_path / "c", {}, torch={"ONEDNN_DEFAULT_FPMATH_MODE": "BF16"}, jax={})
    assert found is not None
    assert found.params["names"] == ["ONEDNN_DEFAULT_FPMATH_MODE"]
    assert found.code == "parity-settings-disagree"
    assert "measure both again with the same value" in str(found)
    other = rows_of(tmp_path / "d", framework="jax")
    set_up = rows_of(tmp_path / "e", framework="torch", environment={"variables": {"NVIDIA_TF32_OVERRIDE": "1"}})
    unchecked = why_not_equal(set_up, other, Proofs())
    assert unchecked is not None
    assert unchecked.code == "parity-settings-disagree", "a check would not count"


def test_what_was_checked_with_other_settings_is_not_asked_for_as_if_it_had_not_run(tmp_path: Path) -> None:
    """The same command with the same settings as then would change nothing."""
    flags = {"XLA_FLAGS": FAST_MATH}
    sides = [
        rows_of(tmp_path / name, framework=name, environment={"variables": variables})
        for name, variables in {"torch": {}, "jax": flags}.items()
    ]
    as_in_runs = proof(**WITH_JAX, variables=flags, stages=only("mathematics", "rounding"))
    without_flags = proof(**WITH_JAX, stages=only("trajectory", "work"))
    found = why_not_equal(sides[0], sides[1], Proofs(current=[without_flags, as_in_runs]))
    assert found is not None
    assert found.code == "parity-other-settings"
    assert found.params["names"] == ["XLA_FLAGS"]
    assert str(found).endswith("--stages trajectory,work")
    missing = why_not_equal(sides[0], sides[1], Proofs(current=[as_in_runs]))
    assert missing is not None
    assert missing.code == "parity-stage-missing"
    failed = proof(**WITH_JAX, variables=flags, stages=only("mathematics"), failed="mathematics")
    found = why_not_equal(sides[0], sides[1], Proofs(current=[proof(**WITH_JAX), failed]))
    assert found is not None
    assert found.code == "parity-stage-failed", "hours of the other stages would not help"


def test_what_is_left_to_check_is_what_no_check_has_found_that_counts_with_this_one() -> None:
    def missing(*records: ParityRecord) -> list[str]:
        return [need.name for need in needs_not_met(records[0], Proofs(current=records))]

    part = proof(stages=only("rounding"), device="cuda")
    assert missing(proof()) == []
    assert missing(part, proof()) == ["rounding in bf16", "trajectory", "work"]
    assert missing(proof(stages=only("mathematics")), proof(stages=without("work"))) == ["work"]
    assert missing(proof(stages=only("work")), proof(stages=without("work"), steps=20)) == ["trajectory"]
    assert missing(part, proof(code="0ther")) == ["mathematics", "rounding in bf16", "trajectory", "work"]
    reverse = {"recipes": {"paddle": "reference", "torch": "reference"}}
    assert missing(proof(stages=only("work")), proof(stages=without("work"), **reverse)) == []
    flags = {"FLAGS_use_fast_math": "1"}
    assert missing(proof(stages=only("work"), variables=flags), proof()) == [
        "mathematics", "rounding in fp32", "trajectory",
    ]  # fmt: skip
    assert missing(proof(stages=only("work"), variables={"XLA_FLAGS": FAST_MATH}), proof()) == []


def test_all_runs_of_a_side_must_be_of_the_code_of_the_proof(tmp_path: Path) -> None:
    sides = [rows_of(tmp_path / name, framework=name) for name in ("torch", "paddle")]
    later = rows_of(tmp_path / "later", framework="paddle", environment={"training_code": "1ater"})
    proofs = Proofs(current=[proof()])
    assert why_not_equal(sides[0], sides[1], proofs) is None
    found = why_not_equal(sides[0], [*sides[1], *later], proofs)
    assert found is not None
    assert found.params["what"] == "version of trainmark's code"
    assert "trainmark 代码" in found.in_language("zh")


def test_runs_that_do_not_tell_their_code_must_be_measured_again(tmp_path: Path) -> None:
    found = ask(tmp_path, Proofs(current=[proof()]), both={"environment": {"training_code": None}})
    assert found is not None
    assert found.code == "parity-runs-outdated"
    assert "measure both again" in str(found)
    assert "command" not in found.params  # which would be the next thing to type


# -- devices -----------------------------------------------------------------------------------------------------------


def test_mathematics_counts_for_every_device_and_the_rest_for_its_own(tmp_path: Path) -> None:
    on_gpu = {"device": "cuda"}
    found = ask(tmp_path, Proofs(current=[proof()]), both=on_gpu)
    assert found is not None
    assert found.code == "parity-stage-missing"
    assert "have not run on cuda: rounding in fp32, trajectory, work; run: " in str(found)
    command = "--frameworks torch,paddle --stages rounding,trajectory,work --precision fp32 --device cuda"
    assert str(found).endswith(f"trainmark parity {make_cell().workload} {command}")
    both = [proof(stages=without("mathematics"), device="cuda"), proof()]
    assert ask(tmp_path, Proofs(current=both), both=on_gpu) is None


def test_a_failure_on_the_gpu_is_not_overridden_by_a_later_check_on_the_cpu(tmp_path: Path) -> None:
    records = [proof(), proof(device="cuda", failed="rounding")]
    found = ask(tmp_path, Proofs(current=records), both={"device": "cuda"})
    assert found is not None
    assert found.code == "parity-stage-failed"
    assert str(found).endswith("--stages rounding --precision fp32 --device cuda")
    assert ask(tmp_path / "cpu", Proofs(current=records)) is None


# -- the command -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        (
            {"framework": "torch", "precision": "bf16", "device": "cuda"},
            {"framework": "paddle", "precision": "bf16", "device": "cuda"},
            "--frameworks torch,paddle --precision bf16 --device cuda",
        ),
        (
            {"framework": "torch", "recipe": "reference"},
            {"framework": "jax", "recipe": "fast"},
            "--frameworks jax --recipe fast --precision fp32",
        ),
        (
            {"framework": "torch", "recipe": "fast"},
            {"framework": "jax", "recipe": "fast"},
            "--frameworks torch,jax --recipe fast --precision fp32",
        ),
        ({"framework": "paddle"}, {"framework": "jax"}, "--frameworks torch,paddle,jax --precision fp32"),
        (
            {"framework": "torch", "precision": "fp32"},
            {"framework": "jax", "precision": "bf16"},
            "--frameworks torch,jax",
        ),
    ],
)
def test_the_command_makes_the_proof_that_is_missing(
    one: dict[str, Any], other: dict[str, Any], words: str, tmp_path: Path
) -> None:
    found = why_not_equal(rows_of(tmp_path / "a", **one), rows_of(tmp_path / "b", **other), Proofs())
    assert found is not None
    assert found.params["command"] == f"trainmark parity {make_cell().workload} {words}"


def test_what_a_run_folder_says_is_no_command_of_the_shell(tmp_path: Path) -> None:
    sides = rows_of(tmp_path / "a", framework="torch"), rows_of(tmp_path / "b", framework="paddle")
    hostile = [replace(row, framework="x;touch pwned;") for row in sides[1]]
    found = why_not_equal(sides[0], hostile, Proofs())
    assert found is not None
    assert shlex.split(found.params["command"])[4] == "torch,x;touch pwned;"


@pytest.mark.parametrize(
    ("one", "other", "why"),
    [
        ({"precision": "fp16", "device": "cuda"}, {"precision": "fp16", "device": "cuda"}, "torch has no fp16 on cuda"),
        ({"precision": "bf16"}, {"precision": "bf16"}, "paddle has no bf16 on cpu"),
        ({"precision": "tf32"}, {"precision": "tf32"}, "torch has no tf32 on cpu"),
        ({"recipe": "fast"}, {"recipe": "reference"}, "these runs use fast and reference"),
    ],
)
def test_where_no_check_can_prove_a_pair_the_message_says_so(
    one: dict[str, Any], other: dict[str, Any], why: str, tmp_path: Path
) -> None:
    sides = rows_of(tmp_path / "a", framework="torch", **one), rows_of(tmp_path / "b", framework="paddle", **other)
    found = why_not_equal(*sides, Proofs())
    assert found is not None
    assert found.code == "parity-impossible"
    assert str(found).endswith(f"no parity check can prove it: {why}" if "has no" in why else why)
    assert "trainmark parity" not in str(found)
