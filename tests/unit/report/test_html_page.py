"""The report as one HTML file: what is on it, that nothing of a stranger is alive in it, and that it stays small."""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import io
import json
import re
from base64 import b64encode
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from making import make_cell, make_run
from reporting import contents_of, html_of, markdown_of
from trainmark.analyse.scaling import build_studies
from trainmark.analyse.table import Line, build_lines
from trainmark.report.bundle import render_folder
from trainmark.report.exporting import exports
from trainmark.report.page_words import PAGE_WORDS
from trainmark.store.folder import read_run
from trainmark.store.rows import RunRow

EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'>|`x`\x1b[31m\u202e=1+1"
VOID = {"meta", "br", "img", "link", "input", "hr"}


class Page(HTMLParser):
    """The elements of a page, with attributes; fails on a tag that is not closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] not in ("style", "script"):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def rows_of(root: Path) -> list[RunRow]:
    return [row for folder in sorted(root.iterdir()) if (row := read_run(folder)) is not None]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    noise = np.random.default_rng(3)
    root = tmp_path / "runs"
    for devices, seconds in ((1, 0.1), (2, 0.11), (4, 0.15)):
        for repeat in (1, 2):
            cell = make_cell(devices_per_node=devices, repeat=repeat)
            steps = [5.0, *(seconds * (1 + 0.01 * noise.standard_normal(80))).tolist()]
            make_run(root, f"run-{devices}-{repeat}", cell=cell, seconds=steps)
    make_run(root, "bad", cell=make_cell(precision="bf16"), outcome="oom", reason="no memory")
    training = make_cell(epochs=3, until_target=(("top1", 0.5),))
    evals = [{"kind": "eval", "step": 20 * n, "epoch": n, "time_s": 3.0 * n, "metric": "top1", "value": 0.2 * n}
             for n in (1, 2, 3)]  # fmt: skip
    losses = [{"kind": "step", "step": 50 + n, "seconds": 0.1, "samples": 4, "time_s": 5 + 0.1 * n, "loss": 7 - n / 9}
              for n in range(1, 10)]  # fmt: skip
    pause = [{"kind": "phase", "phase": "eval", "edge": "end", "step": 20, "seconds": 1.5, "unix_s": 100.0}]
    make_run(root, "training", cell=training, extra=[*losses, *pause, *evals])
    return root


def lines_of(root: Path) -> tuple[Line, ...]:
    return build_lines(rows_of(root))


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_answer_comes_first_and_all_parts_are_there(store: Path, lang: str) -> None:
    text = html_of(lines_of(store), lang=lang, root=store)
    page, words = Page(text), PAGE_WORDS[lang]
    ids = [attrs["id"] for tag, attrs in page.found if tag in ("section", "aside")]
    assert ids == ["answer", "results", "environment", "setup", "steps", "method", "logs"]
    for column in ("devices", "time_to_train", "accuracy", "speedup"):
        assert words[column] in page.text
    assert "9.00" in page.text, "Time2Train of the training that reached its target"
    assert "60.0 (top1)" in page.text
    assert words["target"].format(value="0.5") in page.text
    assert words["warmup"].format(num=1) in page.text
    assert words["pause"].format(seconds="1.5 s") in page.text
    assert page.text.index(words["answer"]) < page.text.index(words["results"] + " ")
    assert ("1 oom" if lang == "en" else "内存/显存不足 1 次") in page.text
    charts = [attrs for tag, attrs in page.found if tag == "svg" and attrs.get("role") == "img"]
    assert len(charts) >= 5
    assert all(attrs["aria-labelledby"] for attrs in charts)


def test_the_policy_allows_the_own_style_and_script_and_nothing_else(store: Path) -> None:
    text = html_of(lines_of(store))
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    rules = dict(rule.split(" ", 1) for rule in policy.replace("&#39;", "'").split("; "))
    for kind in ("style", "script"):
        (inside,) = re.findall(rf"<{kind}>(.*?)</{kind}>", text, re.DOTALL)
        digest = b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert rules[f"{kind}-src"] == f"'sha256-{digest}'"
    assert rules["default-src"] == "'none'"
    page = Page(text)
    assert not [tag for tag, attrs in page.found if "style" in attrs], "the policy would block it"
    loads = [value for _, attrs in page.found for name, value in attrs.items() if name in ("src", "srcset", "data")]
    assert loads == []
    assert not any(name.startswith("on") for _, attrs in page.found for name in attrs)
    assert not re.search(r"https?://|//[a-z]+\.", re.sub(r"<cite>.*?</cite>|http://www.w3.org/2000/svg", "", text))


def make_evil(root: Path) -> list[RunRow]:
    """Every text that a stranger can choose."""
    folder = make_run(root, "a", extra=[{"kind": "warning", "code": EVIL, "message": EVIL}])
    make_run(root, "b", cell=make_cell(seed=1), outcome="failed", reason=EVIL)
    facts = ("cpu", "system", "python", "framework", "hostname", "device_name", "trainmark")
    (folder / "env.json").write_text(json.dumps(dict.fromkeys(facts, EVIL) | {"flags": {EVIL: EVIL}}))
    first, second = rows_of(root)
    evals = ({"step": 1, "epoch": 1.0, "time_s": 1.0, "value": 0.1, "metric": EVIL},
             {"step": 2, "epoch": 2.0, "time_s": 2.0, "value": 0.2, "metric": EVIL})  # fmt: skip
    changes = dict.fromkeys(("workload", "model", "framework", "recipe", "precision", "data", "asked", "unit"), EVIL)
    evil = dataclasses.replace(first, evals=evals, epochs=1, machine=EVIL, **changes)
    many = dataclasses.replace(evil, id="e2", cell_id="e2", devices=2)
    log = dataclasses.replace(evil, id="log", cell_id="log", source=f"/x/{EVIL}", dialect=EVIL, workload=None)
    return [evil, many, log, dataclasses.replace(second, id="f")]


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_hostile_names_stay_inert(tmp_path: Path, lang: str) -> None:
    rows = make_evil(tmp_path / "runs")
    lines = build_lines(rows)
    links = {row.id: "logs/a.log" for row in rows}
    page = Page(html_of(lines, lang=lang, root=tmp_path / "runs", links=links))
    assert [tag for tag, _ in page.found].count("script") == 1
    assert not [tag for tag, _ in page.found if tag == "img"]
    assert "<script>alert(1)</script>" in page.text, "shown as it is, as text"
    assert "\x1b" not in page.text
    assert "\u202e" not in page.text
    markdown = markdown_of(lines, lang=lang, root=tmp_path / "runs", links=links)
    assert not re.search(r"(?<!\\)<(?!logs/)", re.sub(r"(?m)^    .*$", "", markdown))
    assert not {"\x1b", "\u202e"} & set(markdown)
    assert all(line.count("|") - line.count("\\|") <= 9 for line in markdown.splitlines() if line.startswith("|"))


def test_hostile_names_stay_inert_in_files_of_charts(tmp_path: Path) -> None:
    lines = build_lines(make_evil(tmp_path / "runs"))
    contents = contents_of(lines, root=tmp_path / "runs", studies=build_studies(lines))
    files = render_folder(contents, "html", tmp_path / "out")
    charts = [text for path, text in files.items() if path.suffix == ".svg"]
    assert charts
    for text in charts:
        assert isinstance(text, str)
        tags = [tag for tag, _ in Page(text).found]
        assert "script" not in tags
        assert "img" not in tags
    assert all(path.is_relative_to(tmp_path / "out") for path in files)


@pytest.mark.parametrize("sign", ["=", "+", "-", "@", "\t=", "\r=", "\n@"])
def test_a_spreadsheet_takes_no_text_for_a_formula(tmp_path: Path, sign: str) -> None:
    row = read_run(make_run(tmp_path, "a"))
    assert row is not None
    evil = f"{sign}HYPERLINK(1)"
    exported = exports().load("csv").export([dataclasses.replace(row, model=evil, source=evil)]).stream
    header, cells = csv.reader(io.StringIO(exported or ""))
    found = dict(zip(header, cells, strict=True))
    assert found["model"][0] in "'\ufffd"
    assert found["source"][0] in "'\ufffd"


def test_links_lead_to_logs_with_their_digest(store: Path) -> None:
    (store / "run-1-1" / "output.log").write_text("hello\n")
    lines = lines_of(store)
    links = {run.id: f"runs/{run.id}/output.log" for line in lines for run in line.runs}
    page = Page(html_of(lines, root=store, links=links))
    assert {"href": "runs/run-1-1/output.log"} in [attrs for tag, attrs in page.found if tag == "a"]
    digest = hashlib.sha256(b"hello\n").hexdigest()
    assert any(attrs.get("title") == digest for tag, attrs in page.found if tag == "code")


def test_fifty_runs_are_a_small_page(tmp_path: Path) -> None:
    noise = np.random.default_rng(1)
    for number in range(50):
        cell = make_cell(batch_size_per_device=1 + number // 2, repeat=1 + number % 2)
        make_run(tmp_path, f"r{number:02}", cell=cell, seconds=(0.1 + 0.01 * noise.standard_normal(500)).tolist())
    assert len(html_of(lines_of(tmp_path), root=tmp_path).encode()) <= 400_000


def test_no_result_is_said_plainly(tmp_path: Path) -> None:
    make_run(tmp_path, "a", outcome="oom", reason="no memory")
    page = Page(html_of(lines_of(tmp_path), root=tmp_path))
    assert "No run has finished successfully yet" in page.text
    assert "no memory" in page.text
