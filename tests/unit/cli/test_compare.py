"""`trainmark compare`: what can be named, what is printed where, and the exit codes."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from comparing import make_runs, scaled
from making import make_cell
from measured import change_run
from schema_checking import check_document
from trainmark.cli.main import main
from trainmark.cli.repeating import repeat_command
from trainmark.report import comparison as report

FIELDS = {"cell", "ratio", "verdict", "why", "runs"}


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRAINMARK_DB", raising=False)


def run(*argv: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = main(["compare", *argv])
    out, err = capsys.readouterr()
    return code, out, err


def run_json(*argv: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    code, out, _ = run(*argv, "--json", capsys=capsys)
    assert code == 0
    document: dict[str, Any] = json.loads(out)
    check_document("compare", document)
    return document


def make_pair(factor: float = 0.95) -> None:
    make_runs(Path("old"), commit="a1")
    make_runs(Path("new"), scaled(factor), commit="b2", branch="feature")


# -- what is printed ---------------------------------------------------------------------------------------------------


def test_the_first_line_is_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    make_pair()
    code, out, err = run("old", "new", capsys=capsys)
    lines = out.splitlines()
    assert (code, lines[0]) == (0, "B (new) is 5.0% slower than A (old)")
    assert re.search(r"0\.950 +0\.9\d\d … 0\.9\d\d +3, 3 +slower", out)
    assert re.search(r"code: commit +a1a1a1a1a1a1 +b2b2b2b2b2b2", out)
    assert "cpu" not in out.split("what differs")[1]  # only differences
    assert err.splitlines()[-1] == "next: trainmark report --store new"


@pytest.mark.parametrize(
    ("factor", "answer"),
    [
        (1.0, "A (old) and B (new) are equally fast, within ±1%"),
        (1.3, "B (new) is 30.0% faster than A (old)"),
        (2.5, "B (new) is 2.50 times as fast as A (old)"),
    ],
)
def test_other_answers(factor: float, answer: str, capsys: pytest.CaptureFixture[str]) -> None:
    make_pair(factor)
    assert run("old", "new", capsys=capsys)[1].splitlines()[0] == answer


def test_an_answer_in_chinese(capsys: pytest.CaptureFixture[str]) -> None:
    make_pair()
    _, out, _ = run("old", "new", "--lang", "zh", capsys=capsys)
    assert out.splitlines()[0] == "B (new) 比 A (old) 慢 5.0%"
    assert "更慢" in out
    assert "代码: commit" in out


def test_inconclusive_is_an_answer_with_the_next_command(capsys: pytest.CaptureFixture[str]) -> None:
    make_runs(Path("old"), [100.0])
    make_runs(Path("new"), [95.0], commit="b2")
    code, out, _ = run("old", "new", capsys=capsys)
    assert code == 0
    assert out.startswith("no verdict on A (old) and B (new): one run on each side and no history")


def test_not_comparable_names_the_option_that_admits_it(capsys: pytest.CaptureFixture[str]) -> None:
    make_runs(Path("old"))
    make_runs(Path("new"), cell=make_cell(batch_size_per_device=8))
    code, out, err = run("old", "new", capsys=capsys)
    assert code == 0
    assert out.splitlines()[0].endswith("are not comparable: the work differs: batch size per device (4, 8)")
    assert err.splitlines()[-1] == "next: trainmark compare old new --vary batch-size-per-device"
    assert run("old", "new", "--vary", "batch-size", capsys=capsys)[1].startswith(
        "A (old) and B (new) are equally fast"
    )


def test_many_cells_are_counted_with_their_geometric_mean(capsys: pytest.CaptureFixture[str]) -> None:
    for precision, factor in (("fp32", 0.9), ("amp", 1.0), ("bf16", 1.1)):
        make_runs(Path("old"), cell=make_cell(precision=precision))
        make_runs(Path("new"), scaled(factor), cell=make_cell(precision=precision))
    make_runs(Path("old"), cell=make_cell(workload="tsm"))
    _, out, _ = run("old", "new", capsys=capsys)
    assert out.splitlines()[0] == ("B (new) against A (old), 3 cells: 1 slower, 1 faster, 1 same; geometric mean -0.3%")
    assert "  all cells: resnet50 (small), torch, reference, 1 x 1 cpu, batch 4, synthetic\n" in out
    assert re.search(r"^amp +100\.0 +100\.0 +1\.000 .* same$", out, re.MULTILINE)
    assert "geometric mean of 3" in out
    assert "tsm (small) torch reference fp32, 1 x 1 cpu, batch 4, synthetic: only in A" in out


@pytest.mark.parametrize("width", [80, 140])
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_terminal_of_any_width_is_enough(
    width: int, lang: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for precision in ("fp32", "amp"):
        make_runs(Path("old"), cell=make_cell(precision=precision))
        make_runs(Path("new"), [60.0, 100.0, 140.0], cell=make_cell(precision=precision), cpu="Xeon " * 9, driver="580")
    text = io.StringIO()
    console = Console(file=text, width=width, highlight=False, force_terminal=True, no_color=True)
    monkeypatch.setattr("trainmark.cli.compare.stdout_console", lambda: console)
    run("old", "new", "--lang", lang, capsys=capsys)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", text.getvalue()).splitlines()
    assert max(map(cell_len, lines)) <= width, max(lines, key=cell_len)


def test_a_long_name_has_a_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    make_runs(Path("old"))
    make_runs(Path("a-store-with-a-very-long-name"), scaled(0.9))
    out = run("old", "a-store-with-a-very-long-name", capsys=capsys)[1].splitlines()
    assert out[:3] == ["B is 10.0% slower than A", "  A: old", "  B: a-store-with-a-very-long-name"]


# -- JSON --------------------------------------------------------------------------------------------------------------


def test_the_json_contract(capsys: pytest.CaptureFixture[str]) -> None:
    make_pair()
    document = run_json("old", "new", capsys=capsys)
    assert document["schema"] == 2
    (cell,) = document["comparisons"]
    assert cell.keys() >= FIELDS
    assert cell["ratio"]["value"] == pytest.approx(0.95, rel=0.002)
    low, high = cell["ratio"]["ci95"]
    assert low < 0.95 < high < 1
    assert (cell["verdict"], cell["runs"]) == ("slower", [3, 3])
    assert cell["cell"]["workload"] == "resnet50"
    assert cell["cell"]["batch_size_per_device"] == 4
    assert document["differences"][0] == {"axis": "code", "name": "commit", "a": "a1" * 20, "b": "b2" * 20}
    assert document["geomean"] is None
    assert document["missing"] == []


def test_json_of_cells_that_cannot_be_compared(capsys: pytest.CaptureFixture[str]) -> None:
    make_runs(Path("old"))
    make_runs(Path("new"), cell=make_cell(batch_size_per_device=8))
    (cell,) = run_json("old", "new", capsys=capsys)["comparisons"]
    assert (cell["verdict"], cell["ratio"]) == ("not_comparable", {"value": None, "ci95": None})
    assert cell["cell"]["batch_size_per_device"] is None


def test_every_verdict_is_in_the_answer_of_many_cells() -> None:
    assert set(report.VERDICTS) == {"faster", "slower", "same", "inconclusive", "not_comparable"}


# -- what can be named -------------------------------------------------------------------------------------------------


def make_store(store: str = "runs") -> dict[str, list[str]]:
    root = Path(store)
    return {
        "main": make_runs(root, commit="a1"),
        "feature": make_runs(root, scaled(0.95), commit="b2", branch="feature"),
        "amp": make_runs(root, scaled(1.5), commit="a1", cell=make_cell(precision="amp")),
        "other": make_runs(root, scaled(0.8), commit="a1", hostname="node9", cpu="Xeon Gold"),
    }


@pytest.mark.parametrize(
    ("a", "b", "names"),
    [
        ("runs@a1a1:precision=fp32,cpu=AMD-EPYC", "runs@feature", ("main", "feature")),
        ("commit=a1a1,precision=fp32,host=node0", "b2b2b2", ("main", "feature")),
        ("@a1a1:host=node0,precision=fp32", "@b2b2", ("main", "feature")),
        ("branch=main,precision=fp32,host=node0", "feature", ("main", "feature")),
        ("branch=main,precision=fp32,machine=epyc", "precision=amp", ("main", "amp")),
        ("branch=main,precision=fp32,machine=epyc", "machine=xeon", ("main", "other")),
        ("branch=main,precision=fp32,machine=epyc", "amp", ("main", "amp")),
        ("branch=main,precision=fp32,machine=epyc", "Xeon", ("main", "other")),
        ("branch=main,precision=fp32,machine=epyc", "node9", ("main", "other")),
    ],
)
def test_selections_inside_one_store(
    a: str, b: str, names: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    ids = make_store()
    document = run_json(a.replace("cpu=AMD-EPYC", "cpu=AMD EPYC"), b, capsys=capsys)
    assert (document["a"]["runs"], document["b"]["runs"]) == (ids[names[0]], ids[names[1]])


def test_run_ids_and_run_folders(capsys: pytest.CaptureFixture[str]) -> None:
    ids = make_store()
    document = run_json(ids["main"][0], f"runs/{ids['feature'][0]}", capsys=capsys)
    assert (document["a"]["runs"], document["b"]["runs"]) == (ids["main"][:1], ids["feature"][:1])
    assert document["comparisons"][0]["verdict"] == "slower"  # the other runs of both commits are its history


@pytest.mark.parametrize(
    ("words", "says", "hint"),
    [
        (("runs", "nowhere"), "not found: nowhere", "found: commit=a1a1"),
        (("runs", "epy"), "not found: epy", "found: commit=a1a1"),  # a part of the machine's name
        (("amp", "2026"), "3 runs in both", "narrow one of them"),
        (("runs@ffff", "runs@b2b2"), "no run of commit or branch 'ffff'", "a1a1a1a1a1a1"),
        (("nowhere@a1a1", "runs"), "store not found: nowhere", "runs@COMMIT"),
        (("precision=bf16", "precision=amp"), "no run has precision=bf16", "found: precision=fp32 (9 runs)"),
        (("precison=amp", "precision=amp"), "no run has the fact 'precison'", "did you mean precision?"),
        (("precision=", "precision=amp"), "expected NAME=VALUE", "precision=amp"),
        (("runs", "runs"), "12 runs in both A (runs) and B (runs)", "narrow one of them"),
        (
            ("precision=fp32", "precision=amp"),
            "A has 3 measurements of resnet50",
            "choose one, such as: precision=fp32,",
        ),
        (("", "runs"), "must not be empty", "--help"),
        (("run=2026", "2026", "--vary", "speed"), "--vary: unknown value 'speed'", "known: batch size per device"),
        (("runs", "runs", "--tolerance", "1"), "--tolerance: must be > 0 and <= 0.5, got 1", "0.01 is 1%"),
    ],
)
def test_bad_selections_are_exit_code_2(
    words: tuple[str, ...], says: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    make_store()
    code, out, err = run(*words, capsys=capsys)
    assert (code, out) == (2, "")
    assert says in err
    assert hint in err


def test_a_word_with_two_meanings_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    make_runs(Path("runs"), branch="amp")
    make_runs(Path("runs"), cell=make_cell(precision="amp"))
    code, _, err = run("amp", "fp32", capsys=capsys)
    assert code == 2
    assert "'amp' is ambiguous" in err
    assert "pass one of: commit=amp, precision=amp" in err


def test_without_a_store(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run("2026", "2027", capsys=capsys)
    assert code == 2
    assert "not found: 2026" in err
    assert "the store runs does not exist" in err


LINE = "Epoch: [0][{step}/60]\tTime  {time:.4f} ( 0.1000)\tData  0.000 ( 0.000)\tLoss 6.9 (6.9)\tAcc@1   0.0 (  0.0)\n"


def write_logs(folder: Path, times: list[float]) -> None:
    """As the ImageNet example of PyTorch prints them."""
    folder.mkdir()
    for number, time in enumerate(times):
        lines = [LINE.format(step=step, time=time * (1 + 0.01 * (-1) ** (step + number // 2))) for step in range(60)]
        (folder / f"{number}.log").write_text("".join(lines))


def test_folders_of_logs_are_read_and_leave_no_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    monkeypatch.setenv("TRAINMARK_DB", f"sqlite:///{tmp_path / 'team.sqlite'}")
    write_logs(Path("before"), [0.1, 0.1003, 0.0998])
    write_logs(Path("after"), [0.11, 0.1104, 0.1099])
    code, out, err = run("before", "after", capsys=capsys)
    assert (code, out.splitlines()[0]) == (0, "B (after) is 9.1% slower than A (before)")
    assert "its 3 runs count as repeats" in out
    assert err.splitlines()[-1] == "next: trainmark import after"
    assert [path.name for path in (tmp_path / "temporary").iterdir()] == []
    assert not (tmp_path / "team.sqlite").exists()
    assert not Path("runs").exists()


def test_folders_of_imported_logs_in_one_store(capsys: pytest.CaptureFixture[str]) -> None:
    write_logs(Path("before"), [0.1, 0.1003, 0.0998])
    write_logs(Path("after"), [0.11, 0.1104, 0.1099])
    assert main(["import", "before", "after"]) == 0
    code, out, _ = run("folder=before", "folder=after", capsys=capsys)
    assert code == 0
    assert "B (folder=after) is 9.1% slower than A (folder=before)\n" in out
    assert "work: log" not in out


def test_one_log_on_both_sides_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    write_logs(Path("logs"), [0.1])
    code, _, err = run("logs", "logs/0.log", capsys=capsys)
    assert code == 2
    assert "1 run in both A (logs) and B (logs/0.log)" in err


# -- the next command --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "again"),
    [
        ("trainmark run quick", "trainmark run quick --repeat 4"),
        ("trainmark run quick --repeat 3 --store x", "trainmark run quick --store x --repeat 4"),
        ("trainmark run --repeat=3 -- python t.py --repeat 7", "trainmark run --repeat 4 -- python t.py --repeat 7"),
        ("trainmark run -- python 'my train.py'", "trainmark run --repeat 4 -- python 'my train.py'"),
        ("trainmark import logs", None),
        ("broken 'quote", None),
        (None, None),
    ],
)
def test_the_command_that_adds_runs(asked: str | None, again: str | None) -> None:
    assert repeat_command(asked, 4) == again


@pytest.mark.parametrize(
    ("asked", "store", "again"),
    [
        ("trainmark run quick --store old --repeat 3", "q", "trainmark run quick --store q --repeat 4"),
        ("trainmark run --store=old -- t.py --store x", "q", "trainmark run --store q --repeat 4 -- t.py --store x"),
        ("trainmark run quick", "q", "trainmark run quick --store q --repeat 4"),
        ("trainmark run quick --store q", "runs", "trainmark run quick --repeat 4"),
    ],
)
def test_runs_are_added_to_the_store_that_was_compared(asked: str, store: str, again: str) -> None:
    assert repeat_command(asked, 4, store=store) == again


def make_asked(store: str, speeds: list[float], asked: str) -> None:
    for run_id in make_runs(Path(store), speeds):
        change_run(Path(store), run_id, asked=asked)


NOISY = [60.0, 100.0, 140.0]


@pytest.mark.parametrize(
    ("a", "b", "names", "store"),
    [
        (NOISY, [100.0, 100.2, 99.9], "A is too noisy", "runs"),
        ([100.0, 100.2, 99.9], NOISY, "B is too noisy", "q"),
        ([100.0, 101.0], [98.6, 99.2, 99.8], "each side", "runs"),
        ([98.6, 99.2, 99.8], [100.0, 101.0], "each side", "q"),
        ([100.0, 100.1, 140.0, 100.2], [100.0, 100.1, 100.2], "run A again", "runs"),
    ],
)
def test_the_side_that_needs_runs_gets_them(
    a: list[float], b: list[float], names: str, store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    make_asked("runs", a, "trainmark run quick --repeat 3")
    make_asked("q", b, "trainmark run quick --store elsewhere --repeat 3")
    _, out, err = run("runs", "q", capsys=capsys)
    assert names in out.splitlines()[0]
    named = "" if store == "runs" else " --store q"
    assert re.fullmatch(rf"next: (about \d+ more runs: )?trainmark run quick{named} --repeat \d+", err.splitlines()[-1])


def test_a_large_number_of_runs_is_said_before_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    make_asked("runs", [100.0, 103.0, 97.0], "trainmark run quick")
    make_asked("q", [101.0, 98.0, 104.0], "trainmark run quick --store q")
    num = run_json("runs", "q", capsys=capsys)["comparisons"][0]["more_runs"]
    assert num > 10
    _, out, err = run("runs", "q", capsys=capsys)
    assert f"about {num} more runs on each side would decide" in out
    assert err.splitlines()[-1] == f"next: about {num} more runs: trainmark run quick --store q --repeat {num}"
