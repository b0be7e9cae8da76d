"""What `trainmark parity` refuses before it starts anything, and the commands that it names."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest

from making import make_machine
from trainmark.cli.main import main
from trainmark.controller import parity_options
from trainmark.controller.parity_lock import hold
from trainmark.controller.parity_options import ParityOptions, check_options, usable_frameworks, usable_precisions
from trainmark.errors import InputError, StoreError
from trainmark.frameworks import Framework
from trainmark.plan import machine

TWO = ParityOptions(workload="resnet50", frameworks=("torch", "jax"))


@pytest.fixture(autouse=True)
def all_installed_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Framework, "installed_version", lambda self: "1.0")
    monkeypatch.setattr(machine, "read_gpus", lambda: ((), None))


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"frameworks": ("torch", "mxnet")}, "mxnet"),
        ({"frameworks": ("torch",)}, "two sides"),
        ({"recipe": "slow"}, "recipe 'slow'"),
        ({"size": "huge"}, "size 'huge'"),
        ({"precisions": ("fp8",)}, "no 'fp8' on cpu"),
        ({"precisions": ("tf32",)}, "no 'tf32' on cpu"),
        ({"precisions": ()}, "names no precision"),
        ({"frameworks": ("torch", "paddle"), "precisions": ("bf16",)}, "nothing can be compared in 'bf16' on cpu"),
        (
            {"frameworks": ("torch", "paddle", "jax"), "precisions": ("bf16",), "stages": ("rounding",)},
            "nothing of paddle can be compared on cpu",
        ),
        (
            {"frameworks": ("torch", "paddle"), "recipe": "fast"},
            "cannot check paddle fast on cpu: paddle has no recipe",
        ),
        ({"device": "cuda"}, "cannot check torch reference on cuda: no NVIDIA GPU is visible here"),
    ],
)
def test_what_cannot_be_checked_is_refused_with_what_to_do(change: dict[str, object], what: str) -> None:
    with pytest.raises(InputError, match=what) as error:
        check_options(replace(TWO, **change))  # type: ignore[arg-type]
    assert error.value.hint


def test_what_can_be_checked_is_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    check_options(TWO)
    check_options(replace(TWO, recipe="fast"))
    check_options(replace(TWO, frameworks=("torch", "paddle"), stages=("work",), precisions=()))
    check_options(replace(TWO, frameworks=("torch", "paddle", "jax"), precisions=("bf16",)))
    here = make_machine(1, frameworks=("torch", "paddle"))
    monkeypatch.setattr(parity_options, "read_machine", lambda: here)
    check_options(replace(TWO, frameworks=("torch", "paddle"), device="cuda"))


def test_defaults_leave_out_what_a_framework_does_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    assert usable_frameworks("resnet50") == ("torch", "paddle", "jax")
    assert usable_frameworks("resnet50", "fast") == ("torch", "jax")
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    monkeypatch.setattr(metadata, "entry_points", lambda group: [])  # so that JAX is for CPUs, the others unknown
    assert usable_frameworks("resnet50", device="cuda") == ("torch", "paddle")
    assert usable_precisions(("torch", "paddle"), "reference", "cpu") == ("fp32",)
    assert usable_precisions(("torch", "paddle"), "reference", "cuda") == ("fp32", "bf16")
    assert usable_precisions(("torch", "paddle", "jax"), "reference", "cpu") == ("fp32", "bf16")
    assert usable_precisions(("torch",), "fast", "cpu") == ("fp32", "bf16")


def test_the_command_has_all_options_but_the_usual_ones() -> None:
    assert TWO.command == "trainmark parity resnet50 --frameworks torch,jax"
    options = replace(TWO, recipe="fast", precisions=("amp",), size="full", device="cuda", steps=300)
    words = "--frameworks torch,jax --recipe fast --precision amp --device cuda --size full"
    assert options.command == f"trainmark parity resnet50 {words} --steps 300"
    assert replace(TWO, seed=2).command == f"{TWO.command} --seed 2"
    rounding = replace(options, stages=("rounding",)).command
    assert "--stages rounding --precision amp" in rounding
    assert "--steps" not in rounding


# -- on the command line -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--frameworks torch,paddle --stages rounding --precision bf16", "paddle cannot train in it"),
        ("--frameworks torch,jax --precision ,", "--precision: names no precision"),
        ("--frameworks torch,jax --device cuda", "use --device cpu"),
        ("--frameworks torch,paddle --recipe fast", "use --recipe reference"),
    ],
)
def test_a_check_that_compares_nothing_ends_with_exit_code_2(
    words: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["parity", "resnet50", *words.split(), "--store", str(tmp_path)]) == 2
    assert says in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_is_a_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "store").touch()
    assert main(["parity", "resnet50", "--frameworks", "torch,jax", "--store", str(tmp_path / "store")]) == 2
    assert "is a file, expected a folder" in capsys.readouterr().err


# -- one check at a time -----------------------------------------------------------------------------------------------


def test_a_second_check_with_the_same_options_is_refused_and_names_the_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = replace(TWO, stages=("work",))
    words = ["parity", "resnet50", "--frameworks", "torch,jax", "--stages", "work", "--store", str(tmp_path)]
    folder = tmp_path / "parity" / f"unfinished-{options.name}"
    with hold(folder):
        (folder / "kept").touch()
        assert main(words) == 2
    printed = capsys.readouterr().err
    assert "another parity check with the same options is running" in printed
    assert f"process {os.getpid()} on " in printed
    assert [path.name for path in folder.iterdir()] == ["kept"]
    with hold(folder):
        pass


def test_the_lock_of_a_process_that_was_killed_is_free(tmp_path: Path) -> None:
    code = f"""
import os, signal
from pathlib import Path
from trainmark.controller.parity_lock import hold
with hold(Path({str(tmp_path / "folder")!r})):
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    assert (tmp_path / "folder" / "lock").exists()
    with hold(tmp_path / "folder"):
        assert (tmp_path / "folder" / "lock").read_text().startswith(f"process {os.getpid()} on ")
    assert not (tmp_path / "folder").exists()


def test_a_link_in_a_strangers_store_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("keep")
    (tmp_path / "folder").mkdir()
    for make in (Path.symlink_to, Path.hardlink_to):
        make(tmp_path / "folder" / "lock", tmp_path / "precious")
        with pytest.raises(InputError, match="lock") as error, hold(tmp_path / "folder"):
            pass
        assert "it is a link" in str(error.value.why)
        (tmp_path / "folder" / "lock").unlink()
    assert (tmp_path / "precious").read_text() == "keep"


@pytest.mark.parametrize("linked", ["parity", "parity/unfinished-x"])
def test_unfinished_results_are_not_kept_where_a_link_leads(linked: str, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / linked).parent.mkdir(exist_ok=True)
    (tmp_path / linked).symlink_to(tmp_path / "precious")
    with pytest.raises(InputError, match="it is a link"), hold(tmp_path / "parity" / "unfinished-x"):
        pass
    assert not list((tmp_path / "precious").iterdir())


@pytest.mark.parametrize("inside", ["weights-0.npz", "key/result.json"])
def test_links_and_pipes_among_unfinished_results_are_refused(inside: str, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("keep")
    path = tmp_path / "folder" / inside
    path.parent.mkdir(parents=True)
    path.symlink_to(tmp_path / "precious")
    with pytest.raises(InputError, match=path.name), hold(tmp_path / "folder"):
        pass
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(InputError, match="a special file"), hold(tmp_path / "folder"):
        pass
    path.unlink()
    with hold(tmp_path / "folder"):
        pass
    assert (tmp_path / "precious").read_text() == "keep"


def test_a_check_that_is_done_leaves_the_lock_of_the_next_one(tmp_path: Path) -> None:
    with ExitStack() as later:
        with hold(tmp_path / "folder"):
            shutil.rmtree(tmp_path / "folder")
            later.enter_context(hold(tmp_path / "folder"))
        with pytest.raises(InputError, match="is running"), hold(tmp_path / "folder"):
            pass


def test_a_folder_that_cannot_be_made_is_an_error_of_the_store(tmp_path: Path) -> None:
    (tmp_path / "parity").touch()
    with pytest.raises(StoreError, match="cannot write to"), hold(tmp_path / "parity" / "unfinished"):
        pass
