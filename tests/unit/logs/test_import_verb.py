"""`trainmark import` as a user meets it: folders, second imports, other files, patterns, hostile text."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest
from samples import SAMPLES

from trainmark.cli.main import main

PADDLE, NGC = SAMPLES[0].text, next(sample.text for sample in SAMPLES if sample.dialect == "dllogger")


def run(*argv: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = main([str(word) for word in argv])
    out, err = capsys.readouterr()
    return code, out, err


def import_json(root: Path, *flags: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    code, out, err = run("import", str(root / "logs"), "--json", "--store", str(root / "store"), *flags, capsys=capsys)
    assert code == 0, err
    document: dict[str, Any] = json.loads(out)
    return document


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "deep" / "er" / "one").write_text(PADDLE)
    (folder / "two.txt").write_text(NGC)
    (folder / "notes.md").write_text("no log\n")
    (folder / "model.bin").write_bytes(bytes(range(256)) * 50)
    (folder / "empty.log").write_text("")
    return tmp_path


def test_a_folder_becomes_results(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = import_json(root, capsys=capsys)
    assert [result["dialect"] for result in document["results"]] == ["dllogger", "paddle"]
    assert {Path(item["path"]).name for item in document["skipped"]} == {"notes.md", "model.bin", "empty.log"}
    needed = (
        "id source dialect workload model framework recipe precision nodes devices batch_size_per_device data repeat "
    )
    needed += "outcome records throughput median mean_of_rates last evals time_to_train_s peak_memory_bytes warnings"
    assert set(needed.split()) <= set(document["results"][0])
    folder = root / "store" / document["results"][1]["id"]
    assert {path.name for path in folder.iterdir()} == {"run.json", "env.json", "rank0.jsonl", "steps.npy", "exit.json"}
    meta = json.loads((folder / "run.json").read_text())
    assert (meta["source"], meta["dialect"]) == (str(root / "logs" / "deep" / "er" / "one"), "paddle")
    assert len(meta["sha256"]) == 64


def test_show_and_report_print_them(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import_json(root, capsys=capsys)
    code, out, _ = run("show", "--store", str(root / "store"), "--protocol", "last", capsys=capsys)
    assert (code, "64.00 samples/s" in out, "last: 6,003.500" in out) == (0, True, True)
    code, out, _ = run("report", "--store", str(root / "store"), capsys=capsys)
    assert (code, "trainmark import" in out) == (0, True)


def test_a_second_import_reads_only_what_is_new(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = import_json(root, capsys=capsys)
    folder = root / "store" / first["results"][0]["id"]
    before = folder.stat().st_mtime_ns
    (root / "logs" / "two.txt").rename(root / "logs" / "moved.txt")
    (root / "logs" / "copy.txt").write_text(PADDLE)
    (root / "logs" / "new.txt").write_text(PADDLE.replace("0.5000", "0.2500").replace("16.0000", "32.0000"))
    second = import_json(root, capsys=capsys)
    assert folder.stat().st_mtime_ns == before
    assert {result["id"] for result in first["results"]} < {result["id"] for result in second["results"]}
    assert len(second["results"]) == 3
    assert any("the same content as" in item["reason"] for item in second["skipped"])


def test_other_flags_read_again(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import_json(root, capsys=capsys)
    document = import_json(root, "--devices", "2", "--precision", "bf16", capsys=capsys)
    assert {(result["devices"], result["precision"]) for result in document["results"]} == {(2, "bf16")}
    assert document["results"][1]["last"] == 32.0


def test_the_same_content_under_another_name_and_flag_is_one_run(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = import_json(root, capsys=capsys)["results"][0]["id"]
    (root / "logs" / "two.txt").rename(root / "logs" / "renamed.txt")
    new = import_json(root, "--devices", "2", capsys=capsys)["results"][0]["id"]
    assert old != new
    assert sorted(path.name.split("-")[1] for path in (root / "store").glob("log-*")) == ["one", "renamed"]
    code, out, _ = run("show", "--json", "--store", str(root / "store"), capsys=capsys)
    assert (code, old in out, new in out) == (0, False, True)


def test_a_name_that_tells_other_facts_is_read_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "logs").mkdir()
    path = tmp_path / "logs" / "hrnet_gpu4.log"
    path.write_text(PADDLE.replace("GPUs used: 4\n", "\n"))
    assert [result["devices"] for result in import_json(tmp_path, capsys=capsys)["results"]] == [4]
    path.rename(path.with_name("hrnet_gpu8.log"))
    assert [result["devices"] for result in import_json(tmp_path, capsys=capsys)["results"]] == [8]
    assert len(list((tmp_path / "store").glob("log-*"))) == 1


def test_an_import_that_fails_leaves_the_older_run(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    old = import_json(root, capsys=capsys)["results"][0]["id"]
    (root / "logs" / "two.txt").rename(root / "logs" / "renamed.txt")

    def fail(*_: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr("trainmark.logs.folder.write_json", fail)
    run("import", str(root / "logs"), "--devices", "2", "--store", str(root / "store"), capsys=capsys)
    monkeypatch.undo()
    assert (root / "store" / old / "exit.json").is_file()
    code, out, _ = run("show", "--json", "--store", str(root / "store"), capsys=capsys)
    assert (code, old in out) == (0, True)


def test_processes_give_the_same(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here = import_json(root, "--workers", "1", capsys=capsys)
    for path in (root / "store").glob("log-*"):
        path.rename(path.with_name(f".old-{path.name}"))
    there = import_json(root, "--workers", "2", capsys=capsys)
    assert here["results"] == there["results"]


def test_links_are_not_followed_out(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outside = root / "outside"
    outside.mkdir()
    (outside / "secret.log").write_text(PADDLE.replace("16.0000", "99.0000"))
    (root / "logs" / "link.log").symlink_to(outside / "secret.log")
    (root / "logs" / "folder").symlink_to(outside)
    (root / "logs" / "loop").symlink_to(root / "logs")
    document = import_json(root, capsys=capsys)
    assert len(document["results"]) == 2
    assert [item["reason"] for item in document["skipped"] if "link.log" in item["path"]] == [
        "a link that leads out of the folder"
    ]


def test_one_log_is_no_logs(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [str(root / "logs" / name) for name in ("two.txt", "notes.md")]
    _, _, err = run("import", *words, "--store", str(root / "store"), capsys=capsys)
    assert "1 log imported, 0 already imported, 1 skipped\n" in err
    code, _, err = run("import", words[1], "--store", str(root / "store"), capsys=capsys)
    assert (code, "reading 1 file\n" in err, "no log found in 1 file\n" in err) == (2, True, True)


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (("import", "/no/such/file"), "not found: /no/such/file"),
        (("import", "EMPTY"), "no file to import"),
        (("import", "NOTES"), "no line in a known log format"),
        (("import", "BLANK"), "blank.log: the file is empty"),
        (("import", "CUT"), "cut.gz: the file is cut short in its compressed data"),
        (("import", "PIPE"), "pipe: not a regular file"),
        (("import", "LOGS", "--framework", "foo"), "--framework: unknown value 'foo'"),
        (("import", "LOGS", "--framework", "tensorflw"), "did you mean tensorflow?"),
        (("import", "LOGS", "--devices", "0"), "--devices: must be an integer >= 1, got '0'"),
        (("import", "LOGS", "--devices", "3", "--nodes", "2"), "--devices: must be a multiple of --nodes (2), got 3"),
        (("import", "LOGS", "--protocol", "magic"), "unknown protocol 'magic'"),
        (("import", "LOGS", "--protocol", "paddle-benchmark:mode=7"), "unknown mode 7"),
        (("import", "LOGS", "--protocol", "dlperf:skip=x"), "skip must be an integer >= 0, got x"),
        (("import", "LOGS", "--workload", "resnet51"), "unknown workload 'resnet51'"),
        (("import", "LOGS", "--pattern", "/no/such.toml"), "why: No such file or directory"),
        (("import", "LOGS", "--pattern", "DEEP"), "too deep"),
    ],
)
def test_bad_input(argv: tuple[str, ...], says: str, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "nothing").mkdir()
    deep = root / "deep.toml"
    deep.write_text("a = " + "[" * 9000 + "]" * 9000)
    (root / "blank.log").touch()
    (root / "cut.gz").write_bytes(gzip.compress(b"no log\n" * 100)[:-12])
    os.mkfifo(root / "pipe")
    places = {"LOGS": root / "logs", "EMPTY": root / "nothing", "NOTES": root / "logs" / "notes.md", "DEEP": deep}
    places |= {"BLANK": root / "blank.log", "CUT": root / "cut.gz", "PIPE": root / "pipe"}
    words = [str(places.get(word, word)) for word in argv]
    code, out, err = run(*words, "--store", str(root / "store"), capsys=capsys)
    assert (code, out, err.count("error:")) == (2, "", 1)
    assert says in err
    assert "hint:" in err


def test_hostile_text_reaches_neither_terminal_nor_report(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evil = "\x1b]0;owned\x07<script>alert(1)</script>|\u202e"
    name = "evil\x1b[31m<img src=x>.log"
    (root / "logs" / name).write_text(
        PADDLE.replace("samples/sec", "samples/sec " + evil) + f"GPU 0: Tesla {evil}\nExp name: {evil}\n"
    )
    store = str(root / "store")
    texts = list(run("import", str(root / "logs"), "--store", store, capsys=capsys)[1:])
    texts += run("show", "--store", store, capsys=capsys)[1:]
    report = run("report", "--store", store, capsys=capsys)[1]
    for text in (*texts, report):
        assert "\x1b" not in text
        assert "\x07" not in text
        assert "\u202e" not in text
    assert "<script>" not in report
    assert "<img" not in report.replace("\\<img", "")  # a backslash makes it text


PATTERN = """name = "ours"
anchor = "img/s"
record = '''it (?P<step>\\d+) loss (?P<loss>[\\d.]+) (?P<rate>[\\d.]+) img/s'''
scope = "device"
unit = "images"
eval_anchor = "acc="
eval = '''acc=(?P<value>[\\d.]+)'''
metric = "top1"
"""


def test_a_pattern_of_the_users(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "logs").mkdir()
    lines = "".join(f"it {n} loss 0.{n} {100 + n}.5 img/s\n" for n in range(1, 6))
    (tmp_path / "logs" / "own.log").write_text(lines + "acc=0.7\n")
    (tmp_path / "ours.toml").write_text(PATTERN)
    document = import_json(tmp_path, "--pattern", str(tmp_path / "ours.toml"), "--devices", "4", capsys=capsys)
    result = document["results"][0]
    assert (result["dialect"], result["records"]) == ("ours", 5)
    assert result["last"] == pytest.approx(4 * 105.5, rel=1e-12)
    assert (result["throughput"]["unit"], result["evals"][0]["value"]) == ("images/s", 0.7)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("(?P<rate>[\\d.]+)", "(?P<rate>([\\d.]+)+)"), "repeats a repetition"),
        (("(?P<rate>[\\d.]+)", ".*.*(?P<rate>\\d)"), "repeats a repetition"),
        (("(?P<rate>[\\d.]+)", "(?P<rate>[\\d.]+"), "not a valid regular expression"),
        (("(?P<rate>[\\d.]+)", "(?P<speed>[\\d.]+)"), "unknown groups: speed"),
        (('anchor = "img/s"\n', ""), "anchor"),
        (('scope = "device"', 'scope = "node"'), "must be global or device"),
        (('unit = "images"', "unit = 3"), "must be a string"),
    ],
)
def test_a_bad_pattern_is_refused(
    change: tuple[str, str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own.log").write_text("x\n")
    (tmp_path / "bad.toml").write_text(PATTERN.replace(*change))
    argv = (
        "import",
        str(tmp_path / "own.log"),
        "--pattern",
        str(tmp_path / "bad.toml"),
        "--store",
        str(tmp_path / "s"),
    )
    code, _, err = run(*argv, capsys=capsys)
    assert (code, says in err) == (2, True)


def test_a_slow_pattern_is_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One that the eye of the guard misses: four wildcards on a line of 2000 bytes."""
    slow = "record = '''(?P<rate>\\d).*a.*b.*c.*d.*e img/s'''"
    lines = PATTERN.splitlines()
    lines[2] = slow
    (tmp_path / "slow.toml").write_text("\n".join(lines))
    (tmp_path / "own.log").write_text("1" + "abcd" * 450 + " img/s\n")
    argv = (
        "import",
        str(tmp_path / "own.log"),
        "--pattern",
        str(tmp_path / "slow.toml"),
        "--store",
        str(tmp_path / "s"),
    )
    code, _, err = run(*argv, capsys=capsys)
    assert (code, "takes too long" in err) == (2, True)


def test_lists(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run("list", "dialects", "--json", capsys=capsys)
    assert (code, "openmmlab" in {item["name"] for item in json.loads(out)["dialects"]}) == (0, True)
    code, out, _ = run("list", "protocols", capsys=capsys)
    assert (code, "dlperf" in out) == (0, True)


def test_time_to_train(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first evaluation at or above the target of the workload, since test_begin; percent or fraction."""
    begin = "AI-Rank-log 1704103200.0 test_begin\n"
    evals = "".join(
        f"AI-Rank-log {1704103200 + 100 * n}.0 eval_accuracy:{value}, total_epoch_cnt:{n}\n"
        for n, value in ((1, 70.1), (2, 75.9), (3, 76.2))
    )
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "r50.log").write_text(begin + NGC + evals + "AI-Rank-log 1704103600.0 test_finish\n")
    result = import_json(tmp_path, capsys=capsys)["results"][0]
    assert (result["workload"], result["wall_s"]) == ("resnet50", 400.0)
    assert [e["value"] for e in result["evals"] if e["metric"] == "eval_accuracy"] == [70.1, 75.9, 76.2]
    assert result["time_to_train_s"] is not None


def test_a_log_of_always_the_same_digits_is_known_to_its_digits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """128.0 may have been 127.95 or 128.05: as if it were known for certain, it would be the surest number of all."""
    lines = [f"it {n} loss 1.{n} 128.0 img/s" for n in range(40)]
    (tmp_path / "ours.toml").write_text(
        'name = "ours"\nanchor = "img/s"\nscope = "global"\nunit = "images"\n'
        "record = 'it (?P<step>\\d+) loss (?P<loss>[\\d.]+) (?P<rate>[\\d.]+) img/s'\n"
    )
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.log").write_text("\n".join(lines) + "\n")
    result = import_json(tmp_path, "--pattern", tmp_path / "ours.toml", capsys=capsys)["results"][0]
    assert result["throughput"]["value"] == 128.0
    assert result["throughput"]["ci95"] == pytest.approx([127.95, 128.05], rel=1e-5)


def test_a_stated_time_to_the_target_is_no_pause(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "logs").mkdir()
    begin, end = "AI-Rank-log 1704103200.0 test_begin\n", "AI-Rank-log 1704106800.0 target_quality_time:3500.00sec\n"
    (tmp_path / "logs" / "own.log").write_text(begin + PADDLE.replace("ResNet50", "OwnNet") + end)
    result = import_json(tmp_path, capsys=capsys)["results"][0]
    assert (result["time_to_train_s"], result["pauses"], result["speeds"]) == (3500.0, {}, None)


# -- pages and reports quote speeds, but are no logs -------------------------------------------------------------------

PAGE = "<!DOCTYPE html>\n<p>step 1 89.8 images/s\n<p>step 2 89.9 images/s\n"
GOLDEN = Path(__file__).parents[2] / "golden"


@pytest.mark.parametrize(
    "content",
    [
        PAGE.encode(),
        PAGE.replace("<!DOCTYPE html>", "\n \t<HTML lang='en'>").encode(),
        b"\xef\xbb\xbf" + PAGE.lower().encode(),
        PAGE.encode("utf-16"),
        gzip.compress(PAGE.encode()),
    ],
    ids=["plain", "white-space", "bom", "utf-16", "gzip"],
)
def test_an_html_page_is_no_log(content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "q.html"
    page.write_bytes(content)
    code, out, err = run("import", str(page), "--store", str(tmp_path / "store"), capsys=capsys)
    says = f"{page}: an HTML page, not a log; import the logs that it was made from"
    assert (code, out, says in " ".join(err.split())) == (2, "", True), err


def test_a_page_in_a_folder_is_skipped(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "logs" / "report.html").write_text(PAGE)
    document = import_json(root, capsys=capsys)
    assert [result["dialect"] for result in document["results"]] == ["dllogger", "paddle"]
    reasons = {Path(item["path"]).name: item["reason"] for item in document["skipped"]}
    assert reasons["report.html"].startswith("an HTML page, not a log")


@pytest.mark.parametrize(
    "start", ["<html5lib> loaded\n", "starting\n<!doctype html>\n", "# Training speed\n\nmade by me\n"]
)
def test_a_log_that_mentions_a_page_is_read(start: str, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "logs" / "three.log").write_text(start + PADDLE)
    results = import_json(root, capsys=capsys)["results"]
    assert sorted(result["dialect"] for result in results) == ["dllogger", "paddle", "paddle"]


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("form", ["html", "md"])
def test_our_own_reports_are_no_logs(form: str, lang: str, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import_json(root, capsys=capsys)
    report, store = root / "mine" / f"report.{form}", str(root / "store")
    report.parent.mkdir()
    argv = ("report", "--store", store, "--format", form, "--lang", lang, "--output", str(report))
    assert run(*argv, capsys=capsys)[0] == 0
    code, _, err = run("import", str(report.parent), "--store", str(root / "other"), capsys=capsys)
    assert (code, "not a log; import the logs that it was made from" in " ".join(err.split())) == (2, True), err


@pytest.mark.parametrize("name", ["report.en.md", "report.zh.md"])
def test_a_full_report_is_no_log(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run("import", str(GOLDEN / name), "--store", str(tmp_path / "store"), capsys=capsys)
    assert (code, "a Markdown report of trainmark, not a log" in " ".join(err.split())) == (2, True), err
