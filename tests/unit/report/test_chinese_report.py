"""A Chinese report says in Chinese what run folders hold in English, and escapes it as ever."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
from rich.console import Console

from making import make_cell, make_run
from reporting import markdown_of
from trainmark.analyse.scaling import build_studies
from trainmark.analyse.table import Line, build_lines
from trainmark.cli.main import main
from trainmark.messages.commands import command_exited
from trainmark.messages.endings import interrupted, running
from trainmark.messages.logs import no_end
from trainmark.messages.ranks import no_step, none_behind
from trainmark.messages.training import bad_sample
from trainmark.report.console import print_lines
from trainmark.report.scaling import explain
from trainmark.report.words import OUTCOMES, RUNNING
from trainmark.runfolder.records import Outcome
from trainmark.store.folder import read_run

ENGLISH = re.compile(r"[a-z]{2,}(?: [a-z]{2,}){2,}", re.IGNORECASE)


def lines_of(*folders: Path) -> tuple[Line, ...]:
    return build_lines([row for folder in folders if (row := read_run(folder)) is not None])


def test_markdown_in_chinese_has_no_english_sentence(tmp_path: Path) -> None:
    warning = {"kind": "warning", **no_end().to_json()}
    folders = [
        make_run(tmp_path, "a", extra=[warning, {"kind": "warning", "code": "damaged", "message": "<b>*x*</b>"}]),
        make_run(
            tmp_path,
            "b",
            cell=make_cell(seed=1),
            outcome="hang",
            reason=no_step(seconds=60.0, usual_s=None, causes=[none_behind()]),
        ),
        make_run(
            tmp_path,
            "c",
            cell=make_cell(seed=2),
            outcome="failed",
            reason=command_exited(exit_code=1, last_line="<i>|_x_"),
        ),
    ]
    (folders[0] / "env.json").write_text(json.dumps({"num_cores": 16, "cpu": "c"}))
    text = markdown_of(lines_of(*folders), lang="zh")
    assert "| 日志没有结束标记（no-end）：日志有 test\\_begin 而没有 test\\_finish；日志可能不完整; " in text
    assert "| 卡死 (hang) | – | 12 s | 已有 60 s 没有完成任何一步：没有 rank 落后于其他 rank |" in text
    assert "命令以退出码 1 结束：\\<i\\>\\|\\_x\\_ |" in text, "escaped as ever"
    assert "| 核数 | 16 |" in text or "核数: 16" in text
    assert ENGLISH.search(re.sub(r"(?m)^    .*$|torch reference fp32", "", text)) is None


def test_console_in_chinese(tmp_path: Path) -> None:
    warnings = [{"kind": "warning", **bad_sample(path=f"{n}.jpg", problem="broken").to_json()} for n in range(3)]
    folders = [
        make_run(tmp_path, "a", extra=warnings),
        make_run(tmp_path, "b", cell=make_cell(repeat=2), outcome="killed", reason=interrupted(signal="SIGTERM")),
    ]
    console = Console(file=io.StringIO(), width=200)
    print_lines(lines_of(*folders), console, lang="zh")
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "  b: 被终止：被 SIGTERM 中断\n" in text
    assert "  警告：样本损坏（bad-sample）：0.jpg：broken（另有 2 条）\n" in text


def test_counts_that_are_missing_say_why_in_chinese(tmp_path: Path) -> None:
    folders = [
        make_run(tmp_path, "a"),
        make_run(tmp_path, "b", cell=make_cell(devices_per_node=2)),
        make_run(tmp_path, "c", cell=make_cell(devices_per_node=4), outcome="failed", reason=running()),
    ]
    (study,) = build_studies(lines_of(*folders))
    assert explain(study.cases[-1], "zh") == "缺失：失败：仍在运行"
    assert explain(study.cases[-1], "en") == "missing: failed: still running"


def test_folders_of_older_versions_are_shown_in_english(tmp_path: Path) -> None:
    """They have only English sentences."""
    old = {"kind": "warning", "code": "throttled", "message": "the GPU was hot"}
    folders = [
        make_run(tmp_path, "a", extra=[old]),
        make_run(tmp_path, "b", cell=make_cell(seed=1), outcome="hang", reason="no step for 60 s"),
    ]
    text = markdown_of(lines_of(*folders), lang="zh")
    assert "| GPU 降频（throttled）：the GPU was hot |" in text
    assert "| 卡死 (hang) | – | 12 s | no step for 60 s |" in text


def test_every_outcome_has_a_name() -> None:
    for names in OUTCOMES.values():
        assert set(names) == {*Outcome, RUNNING}


@pytest.mark.parametrize(
    ("script", "english", "chinese"),
    [
        ("echo 'KeyError: labels'; exit 3", "the command ended with exit code 3: KeyError: labels",
         "命令以退出码 3 结束：KeyError: labels"),
        ("kill -TERM $$", "the command was killed by SIGTERM", "命令被终止：SIGTERM"),
        ("echo 'loss: nan'", "the last loss that the command printed was nan", "命令最后打印的损失值为 nan"),
    ],
)  # fmt: skip
def test_a_real_run_that_failed(
    tmp_path: Path, script: str, english: str, chinese: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "--store", str(tmp_path), "--retries", "0", "--", "sh", "-c", script]) == 1
    (folder,) = (path for path in tmp_path.iterdir() if path.is_dir() and not path.name.startswith("."))
    assert json.loads((folder / "exit.json").read_text())["reason"] == english
    capsys.readouterr()
    for lang, sentence in (("en", english), ("zh", chinese)):
        main(["report", "--store", str(tmp_path), "--lang", lang])
        assert sentence in capsys.readouterr().out
