from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from trainmark.cli.main import build_parser
from trainmark.cli.parser import read_overrides
from trainmark.controller.workload import SpecOptions, make_plan, read_catalog
from trainmark.errors import SpecError
from trainmark.spec.files import read_cluster_file, read_toml, shipped_suites
from trainmark.spec.parse import parse_suite

CATALOG = read_catalog()


def test_toml_and_flags_give_the_same_cells(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        '[measure]\nmax_seconds = 9.5\n[[cells]]\nworkload = "resnet50"\nrecipe = ["reference", "fast"]\n'
        'precision = ["fp32", "bf16"]\nbatch_size = [8, 16]\ndevices = 1\nrepeat = 2\nsize = "small"\ndevice = "cpu"\n'
    )
    flags = "plan resnet50 --recipe reference,fast --precision fp32,bf16 --batch-size 8,16 --devices 1 --repeat 2"
    args = build_parser().parse_args([*flags.split(), "--size", "small", "--device", "cpu", "--max-seconds", "9.5"])
    by_flags = make_plan(SpecOptions(what=args.what, overrides=read_overrides(args)))
    by_file = make_plan(SpecOptions(what=str(path), overrides={}))
    assert by_flags.cells == by_file.cells
    assert len(by_flags.cells) == 2 * 2 * 2 * 2
    assert by_flags.suite.measure == by_file.suite.measure


def test_three_faults_are_reported_at_once() -> None:
    raw = tomllib.loads('[[cells]]\nworkload = "resnet5"\nbatch_size = 0\nprecison = "fp32"\n')
    with pytest.raises(SpecError) as caught:
        parse_suite(raw, origin="bad.toml", catalog=CATALOG)
    found = {fault.where: fault for fault in caught.value.faults}
    assert set(found) == {"cells[0].workload", "cells[0].batch_size", "cells[0].precison"}
    assert "did you mean resnet50" in found["cells[0].workload"].hint
    assert "did you mean precision" in found["cells[0].precison"].hint


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("schema = 2\n[[cells]]\nworkload='resnet50'", "schema"),
        ("name = 'x'", "cells"),
        ("cells = 3", "cells"),
        ("measure = 3\n[[cells]]\nworkload='resnet50'", "measure"),
        ("[measure]\ntarget_ci = 5\n[[cells]]\nworkload='resnet50'", "measure.target_ci"),
        ("[measure]\nmax_seconds = -1\n[[cells]]\nworkload='resnet50'", "measure.max_seconds"),
        ("[measure]\nmax_steps = 1.5\n[[cells]]\nworkload='resnet50'", "measure.max_steps"),
        ("[measure]\nmin_seconds = 9\nmax_seconds = 8\n[[cells]]\nworkload='resnet50'", "measure.min_seconds"),
        ("[[cells]]\nworkload='resnet50'\ndevices = true", "cells[0].devices"),
        ("[[cells]]\nworkload='resnet50'\nrecipe = []", "cells[0].recipe"),
        ("[[cells]]\nworkload='resnet50'\nrecipe = 'quick'", "cells[0].recipe"),
        ("[[cells]]\nworkload='resnet50'\ndata = ''", "cells[0].data"),
        ("[[cells]]\nworkload='resnet50'\ndevice = 'tpu'", "cells[0].device"),
        ("[[cells]]\nworkload='resnet50'\nrepeat = '3'", "cells[0].repeat"),
        ("[[cells]]\nworkload='resnet50'\nbatch_size = [1, 2]\nrepeat = 5001", "cells[0].repeat"),
        ("[[cells]]\nworkload='resnet50'\nepochs = 3", "cells[0].epochs"),
        ("[[cells]]\nworkload='resnet50'\nseed = 99999999999", "cells[0].seed"),
    ],
)
def test_each_fault_names_its_place(text: str, where: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_suite(tomllib.loads(text), origin="bad.toml", catalog=CATALOG)
    assert [fault.where for fault in caught.value.faults] == [where]


@pytest.mark.parametrize(
    ("table", "flags", "problems"),
    [
        ({"max_seconds": 8}, {"min_seconds": 9}, ["must be <= max_seconds (8), got 9"]),
        ({}, {"min_seconds": 121}, ["must be <= max_seconds (120.0), got 121"]),
        ({}, {"max_seconds": 61, "timeout_s": 60}, ["must be < timeout_s (60), got 61"]),
        ({}, {"max_seconds": 4000}, []),
        ({}, {"min_seconds": 61, "timeout_s": 60}, ["must be < timeout_s (60), got 61"]),
        ({}, {"min_seconds": 8, "max_seconds": -1}, ["must be a finite number > 0, got -1"]),
        ({"min_seconds": 9}, {"max_seconds": 8}, []),
        ({}, {"max_seconds": 1}, []),
        ({"min_seconds": 9, "max_seconds": 20}, {"timeout_s": 3}, []),
        ({}, {"min_seconds": 8, "max_seconds": 8}, []),
    ],
)
def test_an_upper_limit_is_not_below_a_lower_one(
    table: dict[str, int], flags: dict[str, int], problems: list[str]
) -> None:
    """What is said nearer to the run may lower a limit that was said farther off; it is no contradiction."""
    faults = []
    try:
        parse_suite(
            {"measure": table, "cells": [{"workload": "resnet50"}]}, origin="x", catalog=CATALOG, overrides=flags
        )
    except SpecError as error:
        faults = error.faults
    assert [fault.problem for fault in faults] == problems


def test_values_of_any_type_are_faults_too() -> None:
    """Of an unknown workload nobody can say which frameworks it supports."""
    raw = {"cells": [{"workload": "resnet5", "framework": [{}], "recipe": [["x"]], "batch_size": [{}], "device": []}]}
    with pytest.raises(SpecError) as caught:
        parse_suite(raw, origin="x", catalog=CATALOG)
    found = [fault.where for fault in caught.value.faults]
    assert found == ["cells[0].workload", "cells[0].batch_size", "cells[0].device"]


def test_an_unknown_key_of_a_cluster_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "cluster.toml"
    path.write_text('[cluster]\nhots = ["a"]\n')
    with pytest.raises(SpecError) as caught:
        read_cluster_file(path)
    (fault,) = caught.value.faults
    assert (fault.where, fault.problem) == ("hots", "unknown key")
    assert "did you mean hosts?" in fault.hint


def test_text_that_is_no_toml_is_a_spec_error(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_bytes(b"a = = 1")
    with pytest.raises(SpecError, match="is not valid TOML"):
        read_toml(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(SpecError, match="is not valid TOML"):
        read_toml(path)
    path.write_bytes(b"a = " + b"[" * 9000 + b"]" * 9000)
    with pytest.raises(SpecError, match="too deeply"):
        read_toml(path)


def test_the_mark_that_editors_of_windows_write_is_no_fault(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_bytes(b"\xef\xbb\xbfname = 'x'\r\n")
    assert read_toml(path) == {"name": "x"}


def test_the_message_states_the_real_bound() -> None:
    with pytest.raises(SpecError) as caught:
        parse_suite({"cells": [{"workload": "resnet50", "seed": -1}]}, origin="x", catalog=CATALOG)
    assert caught.value.faults[0].problem == "must be an integer >= 0, got -1"


def test_every_shipped_suite_is_valid() -> None:
    assert set(shipped_suites()) >= {"quick", "seeds", "scaling"}
    for name, path in shipped_suites().items():
        suite = parse_suite(read_toml(path), origin=name, catalog=CATALOG)
        assert suite.name == name
        assert suite.summary


def test_a_framework_that_a_workload_lacks_is_not_called_unknown() -> None:
    raw = {"cells": [{"workload": "mask_rcnn", "framework": ["jax", "jaxx"]}]}
    with pytest.raises(SpecError) as caught:
        parse_suite(raw, origin="bad.toml", catalog=CATALOG)
    assert [(fault.problem, fault.hint) for fault in caught.value.faults] == [
        ("mask_rcnn has no jax", "it has: torch, paddle"),
        ("unknown value 'jaxx'", "known: torch, paddle"),
    ]
