from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from trainmark.cli.main import main
from trainmark.controller.workload import SpecOptions, cell_commands, make_plan, read_catalog
from trainmark.plan.command import run_command
from trainmark.plan.expand import expand
from trainmark.spec.parse import parse_suite


def cells_of(text: str) -> list[str]:
    """The cells that a printed command asks for, as JSON."""
    argv = shlex.split(text)[3:]
    keys = [word[2:].replace("-", "_") for word in argv[::2] if word != "--until-target"]
    raw = dict(zip(keys, argv[1::2], strict=False))
    numbers = {key: int(value) for key, value in raw.items() if value.isdigit()}
    raw = {**raw, **numbers} | ({"lr": float(raw["lr"])} if "lr" in raw else {})
    raw.pop("hosts", None)
    until = {"until_target": True} if text.endswith("--until-target") else {}
    suite = parse_suite(
        {"cells": [{"workload": shlex.split(text)[2], **raw, **until}]}, origin="text", catalog=read_catalog()
    )
    return [str(cell) for cell in expand(suite, catalog=read_catalog(), device="cpu", installed=("torch",))]


@pytest.mark.parametrize("name", ["hrnet_w18", "mask_rcnn", "resnet50", "tsm", "psenet"])
def test_the_command_of_a_cell_asks_for_this_cell(name: str) -> None:
    plan = make_plan(SpecOptions(what=f"report-{name}", overrides={"data": ".", "lr": 0.5}))
    commands = {shlex.join(argv) for argv in cell_commands(plan).values()}
    asked = [cell for command in commands for cell in cells_of(command)]
    assert sorted(asked) == sorted(map(str, plan.cells))


def test_what_is_not_known_here_is_left_for_the_reader() -> None:
    plan = make_plan(SpecOptions(what="report-tsm", overrides={}))
    cell = next(cell for cell in plan.cells if cell.nodes == 4 and cell.is_training)
    argv = run_command(cell, offer=read_catalog()["tsm"], has_data=False)
    text = shlex.join(argv)
    assert "--data DIR --epochs 50" in text
    assert text.endswith("--hosts NODE1,NODE2,NODE3,NODE4")


def test_plan_prints_the_commands_for_what_it_skips(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "report-resnet50", "--store", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    wanted = "trainmark run resnet50 --recipe reference --precision fp32 --device cuda --nodes 4 --devices 8 "
    assert f"{wanted}--batch-size 128 --repeat 6 --hosts NODE1,NODE2,NODE3,NODE4" in out
    assert main(["plan", "report-resnet50", "--device", "cpu", "--nodes", "1", "--devices", "1", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    (command,) = {cell["command"] for cell in document["cells"]}
    assert command.startswith("trainmark run resnet50 --recipe reference --precision fp32 --device cpu --devices 1 ")


def test_plan_prints_no_command_that_no_machine_can_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Paddle has no bf16 on any CPU: more cores would not change that."""
    words = ["--framework", "paddle", "--device", "cpu", "--precision", "bf16,fp32", "--devices", "1,4096"]
    assert main(["plan", "resnet50", *words, "--store", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "--precision fp32 --device cpu --devices 4096" in out
    assert "--precision bf16 --" not in out
    assert "paddle trains in bf16 on a GPU only" in out


def test_a_dry_run_prints_the_processes_of_every_row(capsys: pytest.CaptureFixture[str]) -> None:
    """8 rows to measure and 2 to train, of which 2 have two machines and 3 have four."""
    assert main(["run", "report-hrnet_w18", "--launcher", "dry"]) == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 5 + 2 * 2 + 3 * 4
    assert out.count("NODE4 ") == 3
    assert "nothing was started" in err
