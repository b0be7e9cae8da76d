from __future__ import annotations

import argparse
import re
from typing import Any

import pytest

from trainmark.cli.parser import add_spec_options
from trainmark.errors import SpecError
from trainmark.plan.identity import cell_id, new_run_id
from trainmark.spec.cell import Cell
from trainmark.spec.command import CommandCell, parse_command


def cells(words: str, **values: Any) -> tuple[CommandCell, ...]:
    return parse_command(words.split(), values, device="cpu").cells


def test_one_command_is_one_cell_with_nulls() -> None:
    (cell,) = cells("python train.py")
    assert cell.argv == ("python", "train.py")
    document = cell.to_json()
    assert document["command"] == ["python", "train.py"]
    assert set(document) == {*Cell.__dataclass_fields__, "command"} - {"weights"}
    assert document["workload"] is None
    assert document["batch_size_per_device"] is None


def test_placeholders_are_filled_anywhere_in_a_word() -> None:
    (cell,) = cells("t --bs={batch_size}x{devices} {precision} {seed} {json}", batch_size=8, devices=2, precision="amp")
    assert cell.argv == ("t", "--bs=8x2", "amp", "0", "{json}")
    assert cell.starts_its_own_processes


def test_repeats_are_outermost_and_share_an_identity() -> None:
    found = cells("t {batch_size}", batch_size=[1, 2], repeat=2)
    assert [(cell.repeat, cell.batch_size_per_device) for cell in found] == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert cell_id(found[0]) == cell_id(found[2]) != cell_id(found[1])


def test_another_command_is_another_cell() -> None:
    assert cell_id(cells("python train.py --depth 18")[0]) != cell_id(cells("python train.py --depth 50")[0])


@pytest.mark.parametrize(
    ("words", "label"),
    [("python a/train-net.py --x", "train-net"), ("./run", "run"), ("sh -c x;y", "sh"), ("../..", "command")],
)
def test_the_run_is_named_by_the_script(words: str, label: str) -> None:
    (cell,) = cells(words)
    assert cell.label == label
    assert f"-{label}-" in new_run_id(cell)
    assert "/" not in new_run_id(cell)


@pytest.mark.parametrize(
    ("words", "values", "says"),
    [
        ("t {batch_size}", {}, "has no value"),
        ("t", {"batch_size": [1, 2]}, "all runs would be the same"),
        ("t {batchsize}", {"batch_size": 1}, "did you mean {batch_size}"),
        ("t", {"epochs": 3}, "cannot be used with a command"),
        ("t", {"devices": 0}, "must be an integer >= 1, got 0"),
        ("t", {"precision": "fp33"}, "did you mean fp32"),
        ("t", {"timeout_s": -1}, "must be a finite number > 0, got -1"),
        ("", {}, "no command"),
        ("--store X", {}, "put options of trainmark before --"),
    ],
)
def test_faults_are_found_before_anything_starts(words: str, values: dict[str, Any], says: str) -> None:
    with pytest.raises(SpecError) as caught:
        cells(words, **values)
    assert says in str(caught.value)


def test_the_flags_that_a_hint_names_are_flags() -> None:
    parser = argparse.ArgumentParser()
    add_spec_options(parser)
    with pytest.raises(SpecError) as caught:
        cells("t", epochs=1)
    (fault,) = caught.value.faults
    named = re.findall(r"--[a-z-]+", fault.hint)
    assert "--cluster" in named
    assert set(named) <= {flag for action in parser._actions for flag in action.option_strings}


def test_all_faults_at_once() -> None:
    with pytest.raises(SpecError) as caught:
        cells("t {devcies}", epochs=1, repeat=0)
    assert len(caught.value.faults) == 3


def test_one_value_needs_no_placeholder_and_devices_never_do() -> None:
    found = cells("t", batch_size=32, precision="bf16", devices=[1, 2])
    assert [(cell.devices_per_node, cell.batch_size_per_device) for cell in found] == [(1, 32), (2, 32)]
