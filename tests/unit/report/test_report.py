from __future__ import annotations

import dataclasses
import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from making import make_cell, make_run
from reporting import markdown_of
from trainmark.analyse.table import Line, build_lines
from trainmark.logs.printed import UNITS as LOG_UNITS
from trainmark.messages.message import fields_of
from trainmark.report.columns import describe_line, heading
from trainmark.report.console import print_lines, say, say_lines
from trainmark.report.document import describe_runs
from trainmark.report.layout import print_texts
from trainmark.report.page_words import PAGE_WORDS
from trainmark.report.words import UNITS, WORDS
from trainmark.spec.cell import DataSource
from trainmark.store.folder import read_run


def lines_of(*folders: Path) -> tuple[Line, ...]:
    rows = [row for folder in folders if (row := read_run(folder)) is not None]
    return build_lines(rows)


def test_repeats_are_one_line_and_devices_are_compared(tmp_path: Path) -> None:
    one = [make_run(tmp_path, f"a{n}", cell=make_cell(repeat=n), seconds=[0.1] * 60) for n in (1, 2)]
    two = make_run(tmp_path, "b", cell=make_cell(devices_per_node=2), seconds=[0.125] * 60)
    base, double = lines_of(*one, two)
    assert base.estimate is not None
    assert double.estimate is not None
    assert base.estimate.value == pytest.approx(40)
    assert double.estimate.value == pytest.approx(64)
    assert base.speedup is None
    assert double.speedup is not None
    assert double.speedup.value == pytest.approx(1.6)
    assert double.efficiency is not None
    assert double.efficiency.value == pytest.approx(0.8)


def test_another_framework_is_another_line(tmp_path: Path) -> None:
    """Averaging two versions would hide a regression. A failed run joins the latest line."""
    folders = []
    for number, (version, seconds) in enumerate([("torch 2.10", 0.1), ("torch 2.11", 0.2)]):
        folders.append(make_run(tmp_path, f"r{number}", seconds=[seconds] * 50))
        (folders[-1] / "env.json").write_text(json.dumps({"framework": version, "cpu": "x", "hostname": "h"}))
    folders.append(make_run(tmp_path, "r2", outcome="oom"))
    old, new = lines_of(*folders)
    assert (say(old).split(",")[0], say(new).split(",")[0]) == (
        "resnet50 (small) @ torch 2.10 reference fp32", "resnet50 (small) @ torch 2.11 reference fp32",
    )  # fmt: skip
    assert [run.outcome for run in new.runs] == ["ok", "oom"]


def test_lines_are_named_by_what_differs_between_them(tmp_path: Path) -> None:
    """Two edits of one commit get different names. A cell with one environment has none."""
    git = [{"commit": "d3297f1498d7ac05", "diff_sha256": changes} for changes in (None, "ebaf66a29726", "00ee59bc89f1")]
    facts = {"framework": "torch 2.11", "trainmark": "0.1.0", "cpu": "x", "num_cores": 16}
    for number, host in enumerate(("a", "a", "b")):
        folder = make_run(tmp_path, f"r{number}")
        (folder / "env.json").write_text(json.dumps({**facts, "git": git[number], "hostname": host}))
    alone = make_run(tmp_path, "r3", cell=make_cell(batch_size_per_device=8))
    (alone / "env.json").write_text(json.dumps({**facts, "git": git[1], "hostname": "a"}))
    lines = lines_of(*(tmp_path / f"r{number}" for number in range(4)))
    assert [line.variant for line in lines] == ["d3297f14 a", "d3297f14+ebaf66a2 a", "d3297f14+00ee59bc b", ""]


@pytest.mark.parametrize(
    ("facts", "begins"),
    [
        ({}, "resnet50 (small) reference fp32, 1 × 1 CPU, batch/device 4, synthetic: 40.00 images/s"),
        ({"recipe": None, "precision": None, "batch_size_per_device": None, "data": None},
         "resnet50 (small), 1 × 1 CPU"),
        ({"nodes": None, "devices": 64, "device": None}, "resnet50 (small) reference fp32, devices 64, batch/device 4"),
        ({"devices": None, "device": None}, "resnet50 (small) reference fp32, batch/device 4, synthetic: "),
    ],
)  # fmt: skip
def test_a_sentence_leaves_out_what_is_unknown(facts: dict[str, Any], begins: str, tmp_path: Path) -> None:
    row = read_run(make_run(tmp_path, "run-a"))
    assert row is not None
    (line,) = build_lines([dataclasses.replace(row, **facts)])
    assert say(line).startswith(begins)


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("/usr/bin/python3 /home/me/t.py --lr 1", "t.py --lr 1"),
        ("python3 -c 'print(1)'", "python3 -c 'print(1)'"),
        ("/usr/bin/python3 -m my.train", "python3 -m my.train"),
        ("/opt/train.sh 8", "train.sh 8"),
    ],
)
def test_the_name_of_a_command(model: str, name: str, tmp_path: Path) -> None:
    row = read_run(make_run(tmp_path, "run-a"))
    assert row is not None
    (line,) = build_lines([dataclasses.replace(row, workload=None, size=None, source="command", model=model)])
    assert describe_line(line, "en")["workload"] == name


def test_a_run_that_failed_first_stands_with_those_that_came_after(tmp_path: Path) -> None:
    """Like a run that failed later; it does not know its environment, so the other run represents both."""
    folders = [make_run(tmp_path, "r0", outcome="failed"), make_run(tmp_path, "r1")]
    (folders[0] / "env.json").unlink(missing_ok=True)
    (folders[1] / "env.json").write_text(json.dumps({"framework": "torch 2.11", "cpu": "x", "hostname": "h"}))
    (line,) = lines_of(*folders)
    assert (line.first.id, line.num_ok, len(line.problems), line.variant) == ("r1", 1, 1, "")


def test_another_unit_is_another_line(tmp_path: Path) -> None:
    """A script that printed iterations and now marks samples is the same cell, but a mean of both means nothing."""
    folders = [make_run(tmp_path, name) for name in ("r0", "r1", "r2")]
    for folder, unit in zip(folders, ("iterations", "samples", "samples"), strict=True):
        facts = json.loads((folder / "run.json").read_text())
        (folder / "run.json").write_text(json.dumps({**facts, "unit": unit}))
    before, after = lines_of(*folders)
    assert (len(before.runs), len(after.runs)) == (1, 2)
    assert "iterations/s" in say(before)
    assert "samples/s" in say(after)
    assert not before.variant  # the unit tells them apart


def test_the_command_of_a_command_has_its_nodes_and_its_seed(tmp_path: Path) -> None:
    folder = make_run(tmp_path, "a", cell=make_cell(nodes=2, devices_per_node=4, seed=7))
    facts = json.loads((folder / "run.json").read_text())
    cell = {**facts["cell"], "workload": None, "command": ["python", "t.py", "{seed}"]}
    facts = {**facts, "cell": cell, "source": "command", "model": "python t.py '{seed}'"}
    (folder / "run.json").write_text(json.dumps(facts))
    text = markdown_of(lines_of(folder), lang="en")
    given = "--nodes 2 --devices 4 --batch-size 4 --precision fp32 --seed 7"
    assert f"    trainmark run {given} -- python t.py '{{seed}}'\n" in text


def test_settings_that_all_have_stand_once(tmp_path: Path) -> None:
    usual = {"layout": "contiguous", "compiled": False}
    flags = (usual, usual, {**usual, "compiled": True}, {"layout": "contiguous"}, None)
    for number, switched in enumerate(flags):
        folder = make_run(tmp_path, f"r{number}", cell=make_cell(batch_size_per_device=number + 1))
        (folder / "env.json").write_text(json.dumps({"flags": switched, "cpu": "x"}))
    text = markdown_of(lines_of(*sorted(tmp_path.iterdir())), lang="en")
    setup = text[text.index("## Set-up") : text.index("## Steps")]
    told = [line.split(" | ") for line in setup.splitlines() if line[2:3].isdigit()]
    differing = [["| 1", "compiled=False |"], ["| 2", "compiled=False |"], ["| 3", "compiled=True |"], ["| 4", "– |"]]
    assert told == [*differing, ["| 5", "not known |"]]
    assert "| settings | layout=contiguous |" in setup, "the same for all is what all have"
    alike = markdown_of(lines_of(tmp_path / "r0", tmp_path / "r1"), lang="en")
    assert "| settings |\n" not in alike
    assert "settings" not in markdown_of(lines_of(tmp_path / "r4"), lang="en")


@pytest.mark.parametrize(("digest", "shown"), [(None, "lab/tm"), ("sha256:ab", "lab/tm@sha256:ab")])
def test_the_report_names_the_container_image_with_its_digest(tmp_path: Path, digest: str | None, shown: str) -> None:
    folder = make_run(tmp_path, "r")
    image = {"name": "lab/tm", "digest": digest, "is_given": True}
    (folder / "env.json").write_text(json.dumps({"cpu": "x", "image": image}))
    assert f"| container image | {shown} |" in markdown_of(lines_of(folder), lang="en")


def test_a_report_of_failures_says_what_they_were(tmp_path: Path) -> None:
    folders = [make_run(tmp_path, "a", outcome="oom", reason="no memory"), make_run(tmp_path, "b", outcome="nan")]
    text = markdown_of(lines_of(*folders), lang="en")
    assert "so there is no speed to report" in text
    assert "| a | 1970-01-01 00:00 | oom | – | 12 s | no memory |" in text
    assert "| b | 1970-01-01 00:00 | nan |" in text


def test_a_different_batch_is_never_the_base(tmp_path: Path) -> None:
    one = make_run(tmp_path, "a", cell=make_cell(batch_size_per_device=8))
    two = make_run(tmp_path, "b", cell=make_cell(devices_per_node=2))
    assert [line.speedup for line in lines_of(one, two)] == [None, None]


def test_the_steps_are_the_commands_as_they_were_typed(tmp_path: Path) -> None:
    folders = [make_run(tmp_path, f"r{n}", cell=make_cell(devices_per_node=n)) for n in (1, 2, 4)]
    for folder, asked in zip(folders, ("trainmark run s.toml", "trainmark run s.toml", None), strict=True):
        run = json.loads((folder / "run.json").read_text())
        (folder / "run.json").write_text(json.dumps({**run, "asked": asked and f"{asked} --max-seconds 9 '<b>'"}))
    text = markdown_of(lines_of(*folders), lang="en")
    assert text.count("    trainmark run s.toml --max-seconds 9 '?b?'\n") == 1
    assert text.count("    trainmark run resnet50 --framework torch") == 1, "one that does not say, by what is known"


def test_a_run_that_failed_has_no_speed(tmp_path: Path) -> None:
    (line,) = lines_of(make_run(tmp_path, "a", outcome="nan", reason="the loss was nan"))
    assert line.estimate is None
    assert describe_runs([line.first])[0]["throughput"] is None
    assert describe_runs([line.first])[0]["median"] is None
    assert "no result" in say(line)


def test_warm_up_is_found_and_left_out(tmp_path: Path) -> None:
    (line,) = lines_of(make_run(tmp_path, "a", seconds=[60.0] + [0.1] * 99))
    assert line.estimate is not None
    assert line.estimate.num_warmup_steps == 1
    assert line.estimate.value == pytest.approx(40)


def test_json_has_every_field_of_the_contract(tmp_path: Path) -> None:
    (line,) = lines_of(make_run(tmp_path, "a"))
    result = describe_runs([line.first])[0]
    fields = (
        "id source dialect workload model framework recipe precision nodes devices batch_size_per_device data repeat"
    )
    fields += " outcome records throughput median mean_of_rates last evals time_to_train_s peak_memory_bytes warnings"
    assert set(fields.split()) <= set(result)
    names = {"value", "unit", "scope", "ci95", "steps", "warmup_steps", "method", "spread", "doubts"}
    assert set(result["throughput"]) == names
    assert result["throughput"]["unit"] == "images/s"
    assert result["throughput"]["scope"] == "global"
    assert result["dialect"] is None


def test_both_languages_have_the_same_words() -> None:
    for known in (WORDS, PAGE_WORDS):
        assert set(known["en"]) == set(known["zh"])
        assert all(text for words in known.values() for text in words.values())
        for name, text in known["en"].items():
            assert fields_of(text) == fields_of(known["zh"][name]), name


def test_every_unit_of_a_log_is_translated() -> None:
    assert {*LOG_UNITS.values(), "iterations"} == set(UNITS["zh"])


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_markdown_has_the_five_parts(tmp_path: Path, lang: str) -> None:
    folders = [make_run(tmp_path, "a"), make_run(tmp_path, "b", cell=make_cell(precision="bf16"), outcome="oom")]
    text = markdown_of(lines_of(*folders), lang=lang)
    words = PAGE_WORDS[lang]
    for part in ("environment", "setup", "steps_to_repeat", "results", "logs"):
        assert f"## {words[part]}\n" in text
    assert "40.00" in text
    assert "oom" in text
    widths = {
        line.count("|") for line in text.splitlines() if line.startswith("|") and heading("throughput", lang) in line
    }
    assert len(widths) == 1


def test_nothing_from_a_stranger_reaches_markdown_or_terminal_alive(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>|\x1b[31m\u202e`x`"
    folder = make_run(tmp_path, "a", extra=[{"kind": "warning", "code": "bad-sample", "message": evil}])
    bad = make_run(tmp_path, "b", outcome="failed", reason=evil)
    lines = lines_of(folder, bad)
    text = markdown_of(lines, lang="en")
    assert "<script" not in text.replace("\\<", "")
    assert "\x1b" not in text
    out = io.StringIO()
    print_lines(lines, Console(file=out, width=80, highlight=False))
    assert "\x1b" not in out.getvalue()
    assert "\u202e" not in out.getvalue()


def test_the_table_fits_80_columns(tmp_path: Path) -> None:
    folders = [
        make_run(tmp_path, f"r{n}", cell=make_cell(devices_per_node=n), seconds=[0.1 + n / 1000] * 50)
        for n in (1, 2, 4)
    ]
    out = io.StringIO()
    print_lines(lines_of(*folders), Console(file=out, width=80, highlight=False))
    assert max(len(line.rstrip()) for line in out.getvalue().splitlines()) <= 80


def test_words_stay_whole_in_80_columns_and_the_interval_is_never_what_is_left_out(tmp_path: Path) -> None:
    folders = [
        make_run(
            tmp_path,
            f"{recipe}{n}",
            cell=make_cell(workload="mask_rcnn", recipe=recipe, devices_per_node=n),
            seconds=[0.1 + n / 1000 + 0.001 * (k % 2) for k in range(50)],
            extra=[{"kind": "eval", "step": 9, "metric": "box_ap", "value": 0.5}],
        )
        for n in (1, 2)
        for recipe in ("reference", "fast")
    ]
    out = io.StringIO()
    print_lines(lines_of(*folders), Console(file=out, width=80, highlight=False))
    shared, *table = out.getvalue().splitlines()
    assert all(len(line) <= 80 for line in table)
    words = {word for line in table for word in line.split()}
    assert {"reference", "images/s", "±", "speed-up"} <= words, table
    assert shared == "all: mask_rcnn (small), fp32, batch/device 4, synthetic", "the same in all, so it is said once"
    assert "left out for lack of room: 95% interval" in out.getvalue()


def test_what_differs_between_lines_is_not_what_is_left_out(tmp_path: Path) -> None:
    """A narrow table drops what all lines share (fp32) before what tells them apart (the data)."""
    folders = []
    for number, data in enumerate(("synthetic", "/data/jpegs")):
        cell = make_cell(data=DataSource.parse(data), batch_size_per_device=128)
        folders.append(make_run(tmp_path, f"r{number}", cell=cell, seconds=[0.1, 0.11] * 30))
    out = io.StringIO()
    print_lines(lines_of(*folders), Console(file=out, width=60, highlight=False))
    shared, *table = out.getvalue().splitlines()
    assert "synthetic" in "".join(table)
    assert "jpegs" in "".join(table)
    assert "fp32" in shared
    assert "fp32" not in "".join(table), "it is the same in both"


def test_nothing_is_said_twice_and_notes_name_their_row(tmp_path: Path) -> None:
    failed = make_run(tmp_path, "f", cell=make_cell(precision="bf16"), outcome="failed", reason="no luck")
    lines = lines_of(make_run(tmp_path, "a"), make_run(tmp_path, "b", cell=make_cell(recipe="fast")), failed)
    for width, is_pipe in ((160, False), (100, False), (60, False), (160, True), (20, True)):
        out = io.StringIO()
        print_lines(lines, Console(file=out, width=width, highlight=False, soft_wrap=is_pipe))
        text = out.getvalue()
        assert text.count("resnet50") == 1, "above the table"
        assert "#3  f: failed: no luck\n" in text
        assert text.count("\n#2 ") == 1
        if is_pipe:
            assert len([line for line in text.splitlines() if line.startswith("#")]) == 4, "a row is one line"


def test_asked_columns_are_all_there_however_wide(tmp_path: Path) -> None:
    lines = lines_of(make_run(tmp_path, "a"))
    out = io.StringIO()
    console = Console(file=out, width=200, highlight=False)
    print_texts(say_lines(lines, console, columns=["steady_steps", "throughput"]), console)
    assert out.getvalue().split("\n")[0].split("  ") == ["steady steps", "throughput (all devices)"]


def test_framework_and_machine_are_told_where_lines_differ_in_them(tmp_path: Path) -> None:
    """The column tells logs of two frameworks apart; with one framework it would say nothing."""
    (row,) = lines_of(make_run(tmp_path, "a"))
    torch = dataclasses.replace(
        row.first, id="t", cell_id="t", framework="torch", machine="V100", recipe=None, data=None
    )
    paddle = dataclasses.replace(torch, id="p", cell_id="p", framework="paddle")
    for rows, is_told in (([torch, paddle], True), ([torch, dataclasses.replace(torch, id="u", cell_id="u")], False)):
        lines, out = build_lines(rows), io.StringIO()
        print_lines(lines, Console(file=out, width=120, highlight=False))
        results, _, rest = markdown_of(lines, lang="en").partition("## Environment")
        for text in (out.getvalue(), results):
            assert ("paddle" in text) is is_told
            assert "V100" not in text
        assert ("framework" in out.getvalue()) is is_told
        assert ("| framework |\n" in rest) is is_told, "a column only where they differ"


def test_a_run_that_ended_before_it_saw_its_gpu_is_not_of_another_machine(tmp_path: Path) -> None:
    """Otherwise it would name the processor of the host, and every table would have a column for it."""
    killed = make_run(tmp_path, "k", cell=make_cell(device="cuda", precision="bf16"))
    seen = make_run(tmp_path, "s", cell=make_cell(device="cuda"))
    (killed / "env.json").write_text(json.dumps({"cpu": "EPYC"}))
    (killed / "exit.json").write_text(json.dumps({"outcome": "killed", "reason": "by somebody", "signal": None}))
    (seen / "env.json").write_text(json.dumps({"cpu": "EPYC", "device_name": "H200"}))
    lines = lines_of(killed, seen)
    assert [line.first.machine for line in lines] == [None, "H200"]
    results, _, rest = markdown_of(lines, lang="en").split("## Results")[1].partition("## Environment")
    assert "killed" in results
    assert "machine" not in results
    assert "H200" in rest


def test_lines_of_two_units_each_say_theirs(tmp_path: Path) -> None:
    clips = make_run(tmp_path, "c", cell=make_cell(workload="tsm"))
    (clips / "run.json").write_text((clips / "run.json").read_text().replace('"images"', '"clips"'))
    out = io.StringIO()
    print_lines(lines_of(make_run(tmp_path, "i"), clips), Console(file=out, width=80, highlight=False))
    _, _, table = out.getvalue().partition("\nworkload")
    assert "images/s" in table
    assert "clips/s" in table


def test_absent_is_a_dash(tmp_path: Path) -> None:
    (line,) = lines_of(make_run(tmp_path, "a", seconds=[0.1]))
    cells = describe_line(line, "en")
    assert cells["interval"] == "–"
    assert cells["speedup"] == "–"


@pytest.mark.parametrize("environment", [{}, {"cpu": None, "system": None, "framework": None, "flags": {"tf32": None}}])
def test_no_report_says_none(tmp_path: Path, environment: dict[str, object]) -> None:
    """An imported log does not know its machine."""
    row = read_run(make_run(tmp_path, "a"))
    assert row is not None
    imported = dataclasses.replace(row, dialect="dlperf", source="x.log", device=None, machine=None, seed=None)
    other = dataclasses.replace(imported, id="b", machine="H100", environment={"git": {"commit": None}})
    lines = build_lines([dataclasses.replace(imported, environment=environment), other])
    assert len(lines) == 2
    text = markdown_of(lines, lang="en")
    assert "None" not in text
    assert "| – |" in text


def test_the_base_is_stated_and_does_not_depend_on_the_order(tmp_path: Path) -> None:
    """Of two lines with one device, the one with the same version is the baseline, whichever comes first."""
    folders = []
    shapes = [("a", "torch 2.10", 1, 0.1), ("b", "torch 2.11", 1, 0.2), ("c", "torch 2.11", 4, 0.1)]
    for name, version, devices, seconds in shapes:
        folders.append(make_run(tmp_path, name, cell=make_cell(devices_per_node=devices), seconds=[seconds] * 50))
        (folders[-1] / "env.json").write_text(json.dumps({"framework": version}))
    for order in (folders, folders[::-1], [folders[1], folders[0], folders[2]]):
        (four,) = (line for line in lines_of(*order) if line.first.devices == 4)
        assert four.speedup is not None
        assert four.speedup.value == pytest.approx(8)
        assert four.baseline is not None
        assert (four.baseline.id, four.baseline.devices, four.has_other_baseline) == ("b", 1, False)


def test_the_command_of_a_training_is_the_whole_command(tmp_path: Path) -> None:
    cell = make_cell(epochs=5, lr=0.02, until_target=(("top1", 0.7),))
    text = markdown_of(lines_of(make_run(tmp_path, "a", cell=cell)), lang="en")
    assert "--epochs 5 --lr 0.02 --until-target 0.7" in text


def test_a_report_names_the_optimisations_of_each_recipe(tmp_path: Path) -> None:
    folders = [make_run(tmp_path, name, cell=make_cell(recipe=name)) for name in ("reference", "fast")]
    for folder, used in zip(folders, ([], ["compile", "block_stem"]), strict=True):
        (folder / "env.json").write_text(json.dumps({"framework": "torch 2.11", "optimisations": used}))
    text = markdown_of(lines_of(*folders))
    assert "| recipe | optimisations |" in text
    assert "| fast | compile, block\\_stem |" in text
