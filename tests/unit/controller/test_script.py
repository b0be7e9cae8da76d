"""Which file of a command line is the code under test."""

from __future__ import annotations

import shlex
import stat
import sys
from pathlib import Path

import pytest

from trainmark.controller.script import find_script, program_name


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A repository of scripts, and a folder of programs that is all of PATH."""
    for name in ("repo/train.py", "repo/pkg/__main__.py", "repo/config.py", "bin/plain.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    names = "python python3.12 sh bash env nice numactl mpirun srun timeout uv docker binary ../repo/train.sh"
    programs = dict.fromkeys(names.split(), "")
    programs |= dict.fromkeys(("torchrun", "accelerate"), f"#!{tmp_path}/bin/python3.12\nimport sys\n")
    programs["our-train"] = f"#!{tmp_path}/bin/python\nimport sys\nfrom pkg.cli import main\nsys.exit(main())\n"
    programs["../repo/run.py"] = "#!/usr/bin/env python3.12\n"
    for name, text in programs.items():
        path = tmp_path / "bin" / name
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return tmp_path


@pytest.mark.parametrize(
    ("command", "script", "interpreter"),
    [
        ("python repo/train.py --lr 1", "repo/train.py", "python"),
        ("python -u -W ignore -X dev repo/train.py -m x", "repo/train.py", "python"),
        ("python3.12 -Wignore -B -- repo/train.py", "repo/train.py", "python3.12"),
        ("python repo/pkg", "repo/pkg/__main__.py", "python"),
        ("python -m pkg.train --lr 1", "-m pkg.train", "python"),
        ("python -um pkg.train", "-m pkg.train", "python"),
        ("python -mpkg.train", "-m pkg.train", "python"),
        ("python -m torch.distributed.run --nproc-per-node 2 repo/train.py", "repo/train.py", "python"),
        ("python -m accelerate.commands.launch -m pkg.train", "-m pkg.train", "python"),
        ("env A=1 B=2 python repo/train.py", "repo/train.py", "python"),
        ("A=1 python repo/train.py", "repo/train.py", "python"),
        ("nice -n 5 numactl -N 0 timeout 60 python repo/train.py", "repo/train.py", "python"),
        ("mpirun -np 2 --hostfile bin/plain.txt -x A=1 python repo/train.py", "repo/train.py", "python"),
        ("srun -n 2 python -u -m pkg.train", "-m pkg.train", "python"),
        ("torchrun --nproc-per-node=2 --rdzv-id x repo/train.py a=b.py", "repo/train.py", "python3.12"),
        ("torchrun --nproc-per-node 2 -m pkg.train", "-m pkg.train", "python3.12"),
        ("accelerate launch --config_file bin/plain.txt repo/train.py", "repo/train.py", "python3.12"),
        ("repo/train.sh repo/config.py 8", "repo/train.sh", "python"),
        ("bash -ex repo/train.sh", "repo/train.sh", "python"),
        ("./repo/run.py repo/config.py", "repo/run.py", "python3.12"),
        ("sh -c 'cd repo && A=1 python train.py --lr 1 | tee log'", "repo/train.py", "python"),
        ("sh -c 'for i in 1 2; do python repo/train.py; done'", "repo/train.py", "python"),
        ("our-train --config repo/config.py", "bin/our-train", "python"),
        ("uv run repo/train.py", "repo/train.py", None),
        ("uv run python repo/train.py", "repo/train.py", None),
        ("docker run --gpus all image python repo/train.py", "repo/train.py", None),
        ("binary --config repo/config.py", "bin/binary", None),
        ("nice -n 5 binary repo/missing.py", "bin/binary", None),
        ("python repo/missing.py", None, "python"),
        ("python", None, "python"),
        ("missing repo/train.py", None, None),
    ],
)
def test_commands(command: str, script: str | None, interpreter: str | None, place: Path) -> None:
    found = find_script(shlex.split(command), cwd=place, environment={"PATH": f"{place}/bin"})
    path = found.path.resolve().relative_to(place).as_posix() if found.path is not None else None
    assert (path or (f"-m {found.module}" if found.module else None)) == script
    assert found.interpreter == (None if interpreter is None else f"{place}/bin/{interpreter}")


def test_code_in_the_command_itself(place: Path) -> None:
    for command, text in ((["python", "-c", "x = 1"], "x = 1"), (["sh", "-c", "sleep 1"], "sleep 1")):
        assert find_script(command, cwd=place, environment={"PATH": f"{place}/bin"}).text == text


def test_the_module_behind_an_installed_command(place: Path) -> None:
    assert find_script(["our-train"], cwd=place, environment={"PATH": f"{place}/bin"}).module == "pkg.cli"


@pytest.mark.parametrize("word", ["x" * 5000, "a/" * 3000, "'", "\udcff", "=", "-", "--", ""])
def test_strange_words_are_no_script(word: str, tmp_path: Path) -> None:
    for command in ([word], ["python", word], ["sh", "-c", word], ["torchrun", word], ["env", word, "python"]):
        assert find_script(command, cwd=tmp_path, environment={"PATH": str(tmp_path)}).path is None


def test_names_of_programs() -> None:
    assert program_name(sys.executable) == "python"
    assert [program_name(word) for word in ("/opt/bin/torchrun", "python3.11", "train.py")] == [
        "torchrun", "python", None,
    ]  # fmt: skip
