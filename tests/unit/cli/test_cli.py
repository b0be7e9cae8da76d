"""The command line without a framework: what it prints, where, and with which exit code."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image
from rich.console import Console

from making import heed_interrupts, make_images, make_machine, make_run
from schema_checking import check_document
from trainmark.cli import doctor
from trainmark.cli.main import VERBS, build_parser, main
from trainmark.cli.progress import RunProgress
from trainmark.controller.listener import PreflightReport
from trainmark.launch.preflight import Finding
from trainmark.launch.processes import find
from trainmark.plan.machine import read_machine
from waiting import wait_until


def run(*argv: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = main(list(argv))
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ("run resnet5", "did you mean resnet50?"),
        ("run resnet50 --cluster nowhere.toml", "cannot read the cluster file"),
        ("run resnet50 --precison fp32", "did you mean --precision? see trainmark run --help"),
        ("run resnet50 --sise=small", "unknown option --sise"),
        ("show --zzz", "see trainmark show --help"),
        ("plan resnet50 tsm", "unexpected argument 'tsm'"),
        ("data check imagenet DIR --quik", "did you mean --quick? see trainmark data check --help"),
        ("data make imagenet DIR --clases 3", "unknown option --clases"),
        ("--zzz show", "unknown option --zzz\n"),
        ("rn", "unknown command 'rn'\n  hint: did you mean run? known: list, doctor"),
        ("data mak imagenet DIR", "unknown action 'mak'"),
        ("list wrkloads", "did you mean workloads?"),
        ("run resnet50 --launcher foo", "--launcher: unknown value 'foo'"),
        ("run resnet50 --launcher torchrn", "did you mean torchrun?"),
        ("run resnet50 --retries -1", "--retries: must be an integer from 0 to 100, got '-1'"),
        ("import x --precision fp8", "known: fp32, tf32"),
        ("data make imagenet DIR --images many", "--images: must be an integer >= 1, got 'many'"),
        ("data make imagenet DIR --val-fraction half", "--val-fraction: must be a number, got 'half'"),
        ("data make", "missing arguments: FORMAT, DIR"),
        ("export", "missing option: --format"),
        ("export --fromat csv", "did you mean --format?"),
        ("run resnet50 --max 3", "--max could match --max-steps, --max-seconds"),
        ("report --lang", "--lang: expected one argument"),
        ("run resnet50 --batch-size 0", "--batch-size: must be an integer >= 1, got 0"),
        ("run resnet50 --batch-size many", "--batch-size: must be an integer >= 1, got 'many'"),
        ("run resnet50 --precision fp33", "did you mean fp32"),
        ("run resnet50 --device cpu --devices 4096", "4096 devices requested"),
        ("run resnet50 --device cpu --nodes 2", "--hosts A,B"),
        ("run resnet50 --hosts a,b", "pass --device cuda or --device cpu"),
        ("run --nodes 2 -- echo {devices}", "leave {devices} out"),
        ("run --launcher local --hosts a -- echo", "leave out --hosts"),
        ("doctor --network --device cpu --launcher kubernetes", "use another --launcher"),
        ("run resnet50 --device cpu --hosts a,a", "list each host once"),
        ("run resnet50 --device cpu --precision tf32", "use --precision fp32"),
        ("run resnet50 --device cpu --data /no/such/folder", "/no/such/folder"),
        ("plan resnet50 --device cpu --data /no/such/folder", "/no/such/folder"),
        ("run resnet50 --device cpu --resume", "pass the same --epochs or --until-target"),
        ("run nowhere.toml", "cannot read the suite"),
        ("run resnet50 --device cpu --epochs 2", "needs a data set"),
        ("run resnet50 --device cpu --devices 2 --launcher local", "use --launcher torchrun"),
        ("run", "trainmark run -- python train.py"),
        ("run resnet50 resnet50", "put -- before a command"),
        ("run resnet50 -- echo", "got 'resnet50' before --"),
        ("run --", "no command"),
        ("run -- no-such-program", "program not found: no-such-program"),
        ("run -- --store X", "put options of trainmark before --"),
        ("run --pattern x.toml resnet50", "--pattern needs a command"),
        ("run quick --min-seconds 60", "lower min_seconds or raise max_seconds"),
        ("plan resnet50 --min-seconds 60 --max-seconds 5", "--min-seconds: must be <= max_seconds (5), got 60"),
        ("run resnet50 --hang-factor 1", "--hang-factor: must be a finite number >= 2, got 1"),
        ("run --hang-factor 1 -- echo", "--hang-factor: must be a finite number >= 2, got 1"),
        ("run --hang-least-s 0 -- echo", "--hang-least-s: must be a finite number > 0, got 0"),
        (
            "run resnet50 --device cpu --find-batch --launcher dry",
            "--find-batch cannot be combined with --launcher dry",
        ),
        ("run --find-batch -- echo", "--find-batch cannot be combined with a command"),
        ("run --resume -- echo", "--resume cannot be combined with a command"),
        ("run --batch-size 1,2 -- echo", "all runs would be the same"),
        ("run --devices 2 --launcher local -- echo", "use --launcher torchrun"),
        ("show --store /no/such/store", "trainmark run quick"),
        ("export --format csv --store /no/such/store", "trainmark run quick"),
        ("report --store /no/such/store", "trainmark run quick"),
        ("doctor --network --devices 1", "use --devices 2"),
        ("doctor --network --devices many", "--devices: must be an integer >= 1, got 'many'"),
        ("doctor --network --device cpu --devices 4096", "4096 devices requested"),
        ("doctor --network --device gpu", "use cpu or cuda"),
        ("doctor --devices 2", "--devices needs --network"),
        ("data make nothing DIR", "unknown dataset format"),
        ("data check imagenet /no/such/folder", "/no/such/folder"),
    ],
)
def test_bad_input_is_one_message_and_exit_code_2(argv: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(*argv.split(), capsys=capsys)
    assert code == 2
    assert out == ""
    assert err.count("error:") == 1
    assert says in err
    assert "hint:" in err
    assert "Traceback" not in err
    assert "usage:" not in err


def test_no_verb_is_one_message(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys=capsys) == (2, "", "error: missing argument: COMMAND\n  hint: see trainmark --help\n")


@pytest.mark.parametrize(("what", "last"), [("resnet50 --device cpu", "/RUN"), ("-- echo", "echo")])
def test_a_dry_run_is_one_document_too(what: str, last: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run("run", "--json", "--launcher", "dry", *what.split(), capsys=capsys)
    assert code == 0
    (command,) = json.loads(out)["commands"]
    assert command["argv"][-1].endswith(last)
    assert command["environment"]["PYTHONUNBUFFERED"] == "1"
    assert "nothing was started" in err


def test_a_suite_with_three_faults_names_all_three(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.toml"
    path.write_text('[[cells]]\nworkload = "resnet50"\nbatch_size = 0\nprecison = "fp32"\nrecipe = "fastest"\n')
    code, _, err = run("run", str(path), capsys=capsys)
    assert code == 2
    assert "has 3 errors" in err
    assert err.count("hint:") == 3


def test_an_empty_class_is_refused_before_anything_starts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = make_images(tmp_path / "data")
    (root / "train" / "class9").mkdir()
    code, _, err = run(
        "run", "resnet50", "--device", "cpu", "--data", str(root), "--store", str(tmp_path / "s"), capsys=capsys
    )
    assert code == 2
    assert "class9" in err
    assert not (tmp_path / "s").exists()


def test_fewer_images_than_a_batch_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = make_images(tmp_path / "data")
    argv = [
        "run",
        "resnet50",
        "--device",
        "cpu",
        "--data",
        str(root),
        "--batch-size",
        "64",
        "--store",
        str(tmp_path / "s"),
    ]
    code, _, err = run(*argv, capsys=capsys)
    assert code == 2
    assert "8 training images, a global batch of 64" in err


@pytest.mark.parametrize(
    "argv",
    [
        "run quick --device cpu",
        "run quick --device cpu --launcher dry",
        "run -- true",
        "show",
        "accept RUN --law superlinear --withdraw",
        "report",
        "export --format csv",
        "import LOG",
        "plan quick --device cpu",
        "plan quick --device cpu --json",
        "doctor",
        "doctor --network --device cpu",
        "doctor --network --device cpu --launcher dry",
    ],
)
def test_a_store_that_is_a_file(argv: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file"
    file.write_text("")
    verb, *words = argv.replace("LOG", str(file)).split()
    code, out, err = run(verb, "--store", str(file), *words, capsys=capsys)
    assert (code, out) == (2, "")
    assert f"--store {file}: is a file, expected a folder\n  hint: use --store DIR" in err
    assert file.read_text() == ""


def test_a_store_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    argv = ["run", "quick", "--device", "cpu", "--store", str(tmp_path / "file" / "store")]
    code, _, err = run(*argv, capsys=capsys)
    assert code == 2
    assert "cannot write to the store" in err


@pytest.mark.parametrize("argv", ["show", "report", "export --format csv"])
def test_an_empty_name_is_no_run(argv: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(tmp_path, "run-a")
    code, out, err = run(*argv.split(), "run-a", "", "--store", str(tmp_path), capsys=capsys)
    assert (code, out) == (2, "")
    assert "a run id must not be empty" in err


def test_plan_prints_cells_and_runs_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = [
        "plan",
        "resnet50",
        "--device",
        "cpu",
        "--precision",
        "fp32,tf32",
        "--repeat",
        "2",
        "--size",
        "small",
        "--json",
    ]
    code, out, _ = run(*argv, "--store", str(tmp_path / "s"), capsys=capsys)
    plan = json.loads(out)
    assert code == 0
    assert [cell["skip"] is None for cell in plan["cells"]] == [True, False, True, False]
    low_s, high_s = plan["total_range_s"]
    assert 2 * 60 < low_s < plan["total_s"] < high_s < 3 * low_s
    assert not (tmp_path / "s").exists()


def test_plan_offers_nothing_where_nothing_can_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", "resnet50", "--device", "cpu", "--precision", "tf32", "--store", str(tmp_path / "s")]
    code, out, err = run(*words, capsys=capsys)
    assert (code, err) == (0, "nothing can run on this machine\n")
    assert "skipped" in out


def test_no_line_of_a_table_ends_in_spaces(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--device", "cpu", "--precision", "fp32,tf32", "--repeat", "10", "--store", str(tmp_path / "s")]
    code, out, _ = run("plan", "resnet50", *words, capsys=capsys)
    assert code == 0
    assert "\ncell    workload" in out
    assert not [line for line in out.splitlines() if line != line.rstrip()]


def test_no_line_of_the_preflight_ends_in_spaces(capsys: pytest.CaptureFixture[str]) -> None:
    fatal = Finding(where="b (rank 1)", what="has no framework", hint="install the same one as here", is_fatal=True)
    note = replace(fatal, what="at most 9 open files", hint="ulimit -n 65536", is_fatal=False)
    RunProgress().show_preflight(PreflightReport(findings=[note, fatal], num_answers=2, num_expected=2))
    heading, *lines = capsys.readouterr().err.splitlines()
    assert heading.split("  ")[0] == "where"
    assert [line.split("  ")[1] for line in lines] == ["has no framework", "(note) at most 9 open files"]
    assert not [line for line in (heading, *lines) if line != line.rstrip()]


def test_dry_prints_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["run", "resnet50", "--device", "cpu", "--launcher", "dry", "--store", str(tmp_path / "s")]
    code, out, err = run(*argv, capsys=capsys)
    assert code == 0
    assert "-m trainmark.worker.main" in out
    assert "nothing was started" in err
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("verb", ["list", "doctor"])
def test_json_of_the_verbs_that_look(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(verb, "--json", capsys=capsys)
    assert code == 0
    assert json.loads(out)["schema"] == 2


def test_a_note_of_doctor_is_folded_under_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(doctor, "stdout_console", lambda: Console(file=out, width=40))
    doctor._print(read_machine(), [{"problem": "no NVIDIA GPU is visible", "hint": "CPU runs work"}])
    assert out.getvalue().endswith("note       no NVIDIA GPU is visible: CPU\n           runs work\n")


def test_doctor_offers_the_store_it_looked_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, _, err = run("doctor", "--store", str(tmp_path), capsys=capsys)
    assert err.endswith(f"next: trainmark run quick --store {tmp_path}\n")


@pytest.mark.parametrize(
    ("output", "options", "problem"),
    [
        ("x.pdf", "", "must not end in .pdf\n  why: Markdown is written to it\n  hint: use a name that ends in .md"),
        ("x.html", "--format md", "must not end in .html\n  why: Markdown"),
        ("x.md", "--format html", "must not end in .md\n  why: an HTML page is written to it\n  hint: use a name"),
        ("x.docx", "--format html", "must not end in .docx\n  why: an HTML page"),
    ],
)
def test_a_report_is_what_its_name_says(
    output: str, options: str, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_run(tmp_path / "s", "run-a")
    words = ["report", "--store", str(tmp_path / "s"), *options.split(), "--output"]
    code, _, err = run(*words, str(tmp_path / output), capsys=capsys)
    assert (code, problem in err, (tmp_path / output).exists()) == (2, True, False)


@pytest.mark.parametrize(
    ("output", "options", "beginning"),
    [
        ("x", "", "# "),
        ("v1.2", "--format html", "<!"),
        ("x.MD", "", "# "),
        ("x.HTML", "", "<!"),
        ("a.b/x", "", "# "),
        ("x.pdf/", "", ""),
    ],
)
def test_names_that_a_report_may_have(
    output: str, options: str, beginning: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_run(tmp_path / "s", "run-a")
    (tmp_path / "a.b").mkdir()
    words = ["report", "--store", str(tmp_path / "s"), *options.split(), "--output", f"{tmp_path}/{output}"]
    assert run(*words, capsys=capsys)[0] == 0
    path = tmp_path / output
    assert (path / "report.md" if path.is_dir() else path).read_text().startswith(beginning)


def test_show_and_report_read_a_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(tmp_path, "run-a")
    make_run(tmp_path, "run-b", outcome=None)
    code, out, _ = run("show", "--json", "--store", str(tmp_path), capsys=capsys)
    results = json.loads(out)["results"]
    assert code == 0
    assert {result["id"]: result["outcome"] for result in results} == {"run-a": "ok", "run-b": "killed"}
    code, out, _ = run("show", "run-a", "--store", str(tmp_path), capsys=capsys)
    assert "40.00 images/s" in out
    code, _, err = run("show", "nonsense", "--store", str(tmp_path), capsys=capsys)
    assert (code, "no run id in" in err) == (2, True)
    report = tmp_path / "out.md"
    code, out, err = run("report", "--lang", "zh", "-o", str(report), "--store", str(tmp_path), capsys=capsys)
    assert (code, out) == (0, "")
    assert "# 训练速度" in report.read_text()
    code, _, err = run("report", "-o", str(tmp_path / "no" / "out.md"), "--store", str(tmp_path), capsys=capsys)
    assert (code, "cannot write the report" in err) == (2, True)


def test_what_show_offers_next(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A report only where a run went well, else the output of the latest that has some."""
    store = ["--store", str(tmp_path)]
    make_run(tmp_path, "run-a", outcome="failed")
    assert "next:" not in run("show", *store, capsys=capsys)[2], "its output is empty"
    for name in ("run-b", "run-c"):
        (make_run(tmp_path, name, outcome="failed") / "output.log").write_text("why\n")
    assert run("show", *store, capsys=capsys)[2] == f"next: look at {tmp_path / 'run-c' / 'output.log'}\n"
    assert "run-b" in run("show", "run-b", *store, capsys=capsys)[2]
    make_run(tmp_path, "run-d")
    assert run("show", "run-b", *store, capsys=capsys)[2] == f"next: trainmark report --store {tmp_path}\n"


def test_import_offers_no_report_of_runs_that_cannot_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, store = tmp_path / "train.log", tmp_path / "s"
    log.write_text("".join(f"train: epoch 0, iter {n}, loss: 1.0, samples/s: 100.0 {n}.5\n" for n in range(1, 60)))
    words = ["import", str(log), "--store", str(store)]
    code, _, err = run(*words, capsys=capsys)
    assert (code, err.splitlines()[-1]) == (0, f"next: trainmark report --store {store}")
    (folder,) = (path for path in store.iterdir() if path.is_dir())
    (folder / "exit.json").write_text('{"outcome": "failed", "reason": "by hand"}')
    _, _, err = run("show", "--reindex", "--store", str(store), capsys=capsys)
    assert "next:" not in err
    _, _, err = run(*words, capsys=capsys)
    assert "1 already imported" in err
    assert "next:" not in err


@pytest.mark.parametrize("verb", ["show", "import"])
def test_an_unknown_protocol_is_refused_before_anything_is_printed(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_run(tmp_path, "run-a")
    words = [str(tmp_path)] if verb == "import" else []
    code, out, err = run(verb, *words, "--protocol", "foo", "--store", str(tmp_path), capsys=capsys)
    assert (code, out) == (2, "")
    assert "unknown protocol 'foo'" in err


def test_json_drives_no_terminal_and_loses_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reason = "速度 \x9b31m \x7f \u202e \u2066 \u200f"
    make_run(tmp_path, "run-a", outcome="failed", reason=reason)
    for words in (["show", "--json"], ["export", "--format", "json"]):
        code, out, _ = run(*words, "--store", str(tmp_path), capsys=capsys)
        assert code == 0
        assert not set(out) & set("\x9b\x7f\u202e\u2066\u200f")
        assert "速度 \\u009b31m" in out
        assert json.loads(out)["results"][0]["reason"] == reason


def test_data_make_and_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "d")
    code, out, _ = run("data", "make", "imagenet", folder, "--images", "20", "--classes", "2", capsys=capsys)
    assert code == 0
    assert "16 training and 4 validation images" in out
    code, out, _ = run("data", "check", "imagenet", folder, capsys=capsys)
    assert (code, "no faults" in out) == (0, True)
    victim = next(path for path in (tmp_path / "d" / "train").rglob("*") if path.is_file())
    victim.write_bytes(victim.read_bytes()[:1000])
    code, out, _ = run("data", "check", "imagenet", folder, "--json", capsys=capsys)
    document = json.loads(out)
    check_document("data-check", document)
    assert (code, document["ok"], len(document["faults"])) == (2, False, 1)
    assert victim.name in document["faults"][0]["path"]
    code, out, _ = run("data", "check", "imagenet", folder, capsys=capsys)
    assert (code, out.endswith("; 1 fault\n")) == (2, True)


REPLACE = "next: remove or replace the faulty files named above"


def encoded(mode: str, file_format: str) -> bytes:
    buffer = io.BytesIO()
    Image.new(mode, (40, 30)).save(buffer, format=file_format)
    return buffer.getvalue()


def test_what_a_run_converts_is_a_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As the public ImageNet has them: CMYK, and a PNG under a JPEG's name."""
    folder = tmp_path / "train/a"
    folder.mkdir(parents=True)
    files = {"cmyk": encoded("CMYK", "JPEG"), "good": encoded("RGB", "JPEG"), "picture": encoded("RGB", "PNG")}
    for name, data in files.items():
        (folder / f"{name}.JPEG").write_bytes(data)
    code, out, err = run("data", "check", "imagenet", str(tmp_path), capsys=capsys)
    assert code == 0
    assert "train/a/cmyk.JPEG: note: CMYK instead of colour or grey; converted\n" in out
    assert out.endswith("train 3 images; no faults, 2 notes\n")
    assert "next: trainmark run" in err
    assert REPLACE not in err
    code, out, _ = run("data", "check", "imagenet", str(tmp_path), "--json", capsys=capsys)
    document = json.loads(out)
    assert (code, document["ok"], document["faults"]) == (0, True, [])
    assert [(note["kind"], note["usable"]) for note in document["notes"]] == [("mode", True), ("not_jpeg", True)]

    (folder / "void.JPEG").write_bytes(b"")
    code, out, err = run("data", "check", "imagenet", str(tmp_path), capsys=capsys)
    assert (code, REPLACE in err) == (2, True)
    assert out.startswith("train/a/void.JPEG: zero bytes\n")
    assert out.endswith("train 4 images; 1 fault, 2 notes\n")
    code, out, _ = run("data", "check", "imagenet", str(tmp_path), "--json", capsys=capsys)
    document = json.loads(out)
    assert (code, document["ok"], len(document["faults"]), len(document["notes"])) == (2, False, 1, 2)


@pytest.mark.parametrize(
    ("num_images", "num_gpus", "options"),
    [(24, 0, " --size small"), (8, 0, " --size small --batch-size 6"), (24, 1, " --batch-size 19"), (200, 1, "")],
)
def test_the_proposed_run_of_a_data_set_works_here(
    num_images: int,
    num_gpus: int,
    options: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The full size is for GPUs, and a batch of more images than there are is refused."""
    monkeypatch.setattr("trainmark.plan.machine.read_machine", lambda: make_machine(num_gpus))
    folder = tmp_path / "shapes"
    make = ["data", "make", "imagenet", str(folder), "--images", str(num_images), "--classes", "2", "--workers", "1"]
    for words in (make, ["data", "check", "imagenet", str(folder), "--quick"]):
        code, _, err = run(*words, capsys=capsys)
        assert code == 0
        assert err.endswith(f"next: trainmark run resnet50 --data {folder}{options}\n")


def test_notes_do_not_push_a_fault_out_of_sight(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "train/a"
    folder.mkdir(parents=True)
    for number in range(60):
        (folder / f"{number:02}.JPEG").write_bytes(encoded("CMYK", "JPEG"))
    (folder / "z.JPEG").write_bytes(b"")
    code, out, _ = run("data", "check", "imagenet", str(tmp_path), capsys=capsys)
    assert (code, "z.JPEG: zero bytes" in out, "... and 11 more" in out) == (2, True, True)


@pytest.mark.parametrize(
    ("categories", "next_", "verdict"),
    [
        ([1], "next: trainmark run mask_rcnn", "no faults, 1 note"),
        ([1, 1], "next: fix the entries named above; the file itself is usable\n", "1 fault, 1 note"),
    ],
)
def test_annotations_are_not_thrown_away_for_some_entries(
    categories: list[int], next_: str, verdict: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the public COCO has it: a box of zero height among good ones."""
    good = {"id": 1, "image_id": 7, "category_id": 1, "bbox": [5, 5, 9, 9], "segmentation": [[5, 5, 14, 5, 14, 14]]}
    content = {
        "images": [{"id": 7, "file_name": "a.jpg", "height": 30, "width": 40}],
        "annotations": [good, {**good, "id": 2, "bbox": [5, 5, 9, 0]}],
        "categories": [{"id": id_, "name": "cat"} for id_ in categories],
    }
    for folder in ("annotations", "train2017"):
        (tmp_path / folder).mkdir()
    (tmp_path / "annotations/instances_train2017.json").write_text(json.dumps(content))
    (tmp_path / "train2017/a.jpg").write_bytes(encoded("RGB", "JPEG"))
    code, out, err = run("data", "check", "coco", str(tmp_path), capsys=capsys)
    assert code == (0 if len(categories) == 1 else 2)
    assert "note: annotation 2 has a bbox of zero size; skipped" in out
    assert out.endswith(f"{verdict}\n")
    assert "skips such entries" in err
    assert next_ in err
    assert REPLACE not in err


def test_a_file_that_the_manifest_does_not_list_need_not_be_bad(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "train/a"
    folder.mkdir(parents=True)
    (folder / "good.JPEG").write_bytes(encoded("RGB", "JPEG"))
    assert run("data", "check", "imagenet", str(tmp_path), "--write-manifest", capsys=capsys)[0] == 0
    (folder / "more.JPEG").write_bytes(encoded("RGB", "JPEG"))
    code, _, err = run("data", "check", "imagenet", str(tmp_path), capsys=capsys)
    assert (code, REPLACE in err) == (2, False)
    assert "next: remove files that manifest.sha256 does not list, or write it again" in err
    (folder / "good.JPEG").write_bytes(encoded("L", "JPEG"))
    code, _, err = run("data", "check", "imagenet", str(tmp_path), capsys=capsys)
    assert (code, REPLACE in err) == (2, True)


@pytest.mark.parametrize(
    "argv",
    ["show --store=", "plan quick --store=", "doctor --store=", "report --output=", "export --format csv -o="],
)
def test_an_empty_path_is_refused(argv: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(*argv.replace("-o=", "-o ").split(" "), capsys=capsys)
    assert (code, out) == (2, "")
    assert "must not be empty" in err


@pytest.mark.parametrize("kind", ["md", "html"])
def test_a_folder_gets_the_report_with_charts_and_logs(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, out = tmp_path / "store", tmp_path / "out"
    folder = make_run(store, "run-a")
    (folder / "output.log").write_text("epoch 1\n")
    code, _, err = run("report", "--format", kind, "-o", f"{out}/", "--store", str(store), capsys=capsys)
    assert code == 0, err
    assert f"report written to {out}/report.{kind}, with its charts and logs beside it" in err
    assert (out / "logs" / "run-a.log").read_text() == "epoch 1\n"
    assert {"throughput-1.svg", "steps-1.svg"} <= {path.name for path in (out / "charts").iterdir()}
    text = (out / f"report.{kind}").read_text()
    assert "logs/run-a.log" in text, "links survive sending"
    assert hashlib.sha256(b"epoch 1\n").hexdigest()[:12] in text
    again = run("report", "--format", kind, "-o", str(out), "--store", str(store), capsys=capsys)
    assert again[0] == 0, "an existing folder"


def test_the_ending_of_the_file_tells_the_format(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(tmp_path, "run-a")
    for name, begin in (("r.html", "<!doctype html>"), ("r.md", "# Training speed")):
        assert run("report", "-o", str(tmp_path / name), "--store", str(tmp_path), capsys=capsys)[0] == 0
        assert (tmp_path / name).read_text().startswith(begin)


@pytest.mark.parametrize(("more", "flag"), [("-o x.json", "--output"), ("--format console", "--format console")])
def test_a_report_as_json_goes_to_stdout_only(
    more: str, flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_run(tmp_path, "run-a")
    code, out, err = run("report", "--json", *more.split(), "--store", str(tmp_path), capsys=capsys)
    assert (code, out) == (2, "")
    assert f"--json cannot be combined with {flag}" in err


def test_one_run_is_no_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--device", "cpu", "--store", str(tmp_path)]
    _, _, err = run("plan", "resnet50", "--precision", "fp32", *words, capsys=capsys)
    assert "1 run, 0 skipped, 1.1 to 2.4 min\n" in err
    make_run(tmp_path, "run-a")
    target = str(tmp_path / "out.csv")
    _, _, err = run("export", "--format", "csv", "-o", target, "--store", str(tmp_path), capsys=capsys)
    assert f"1 run written to {target} (1 file)\n" in err
    make_run(tmp_path, "run-b", outcome="failed")
    _, _, err = run("export", "--format", "csv", "-o", target, "--store", str(tmp_path), capsys=capsys)
    assert f"2 runs (1 failed or unfinished) written to {target} (1 file)\n" in err


def test_a_closed_pipe_is_no_error(tmp_path: Path) -> None:
    make_run(tmp_path, "run-a")
    command = f"{sys.executable} -m trainmark.cli.main show --json --store {tmp_path} | head -c 1"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr


def test_the_set_of_flags_is_pinned() -> None:
    """A new flag is a decision: variation belongs into suite files."""
    found = {}
    actions = next(a for a in build_parser()._actions if a.dest == "verb")
    for name, parser in actions.choices.items():  # type: ignore[union-attr]
        found[name] = sorted(
            o for a in parser._actions for o in a.option_strings if o.startswith("--") and o != "--help"
        )
    axes = "batch-size data device devices epochs framework json lr max-seconds max-steps min-seconds nodes precision"
    axes += " weights"
    axes += " recipe repeat seed size store target-ci timeout-s until-target hang-factor hang-least-s"
    axes += " allow-env cluster hosts image launcher"
    doctor = "cluster device devices hosts json launcher network nodes peaks store"
    ablate = "batch-size device json only precision rounds seconds size"
    own = "find-batch fresh no-observe no-preflight pattern resume retries"
    show = "columns commit failed json protocol reindex reverse since sort store workload"
    facts = "batch-size devices framework json model nodes pattern precision protocol store workers workload"
    assert found == {
        "list": ["--json"],
        "doctor": sorted(f"--{name}" for name in doctor.split()),
        "data": [],
        "plan": sorted(f"--{name}" for name in axes.split()),
        "run": sorted(f"--{name}" for name in [*axes.split(), *own.split()]),
        "mark": ["--print"],
        "import": sorted(f"--{name}" for name in facts.split()),
        "show": sorted(f"--{name}" for name in show.split()),
        "compare": ["--json", "--lang", "--store", "--tolerance", "--vary"],
        "check": ["--baseline", "--json", "--junit", "--replay", "--since", "--store", "--update"],
        "accept": ["--because", "--json", "--law", "--store", "--withdraw"],
        "parity": [
            "--device",
            "--frameworks",
            "--jobs",
            "--json",
            "--lang",
            "--precision",
            "--recipe",
            "--seed",
            "--size",
            "--stages",
            "--steps",
            "--store",
        ],
        "ablate": sorted(f"--{name}" for name in ablate.split()),
        "report": ["--format", "--json", "--lang", "--output", "--store"],
        "export": ["--format", "--output", "--store"],
        "weights": ["--output", "--store"],
    }
    order = "list doctor data plan run mark import show compare accept check parity ablate report export weights"
    assert " ".join(VERBS) == order


@pytest.mark.parametrize("words", [[], ["data"]])
def test_a_summary_is_one_plain_line_of_80_columns(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    def print_help(*more: str) -> str:
        assert main([*words, *more, "--help"]) == 0
        return capsys.readouterr().out

    rows = re.findall(r"^    (\w+) +(.*)\n", print_help(), flags=re.MULTILINE)
    assert [name for name, _ in rows] == (["make", "check", "fetch"] if words else list(VERBS))
    for name, summary in rows:
        assert re.fullmatch(r"[a-z][a-zABCI ,;]+", summary)
        assert f"\n\n{summary}\n\n" in print_help(name), "its own help begins with the same"


def test_no_colour_when_piped(tmp_path: Path) -> None:
    make_run(tmp_path, "run-a")
    environment = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
    argv = [sys.executable, "-m", "trainmark.cli.main", "show", "--store", str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, env=environment, check=True)
    assert "\x1b" not in done.stdout + done.stderr


def test_talk_that_nobody_hears_ends_nothing(tmp_path: Path) -> None:
    """A terminal that went away, or a full disk behind `2> log`."""
    argv = [sys.executable, "-m", "trainmark.cli.main", "run", "--repeat", "2", "--store", str(tmp_path)]
    with Path("/dev/full").open("w") as full:
        subprocess.run([*argv, "--", "sh", "-c", "sleep 0.1"], stderr=full, check=False, timeout=100)
    assert len(list(tmp_path.glob("*/exit.json"))) == 2


def test_a_terminal_that_goes_away_ends_a_run_in_order(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "trainmark.cli.main", "run", "--store", str(tmp_path), "--", "sleep", "60"]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(argv, stderr=quiet, stdout=quiet, preexec_fn=heed_interrupts) as controller:
        wait_until(lambda: any(find(path.name) for path in tmp_path.glob("*/")), what="the command is running")
        controller.send_signal(signal.SIGHUP)
        assert controller.wait(timeout=60) == 129
    (ending,) = tmp_path.glob("*/exit.json")
    assert "interrupted by SIGHUP" in ending.read_text()


@pytest.mark.parametrize(("what", "hint"), [("train.py", "trainmark run -- python train.py"), ("resnet5", "resnet50")])
def test_an_unknown_workload_is_named_with_a_hint(what: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run("run", what, capsys=capsys)
    assert code == 2
    assert f"unknown workload or suite '{what}'" in err
    assert hint in err
