"""The first sentences of a report: what they state, and what nobody has shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from making import make_cell, make_run
from reporting import markdown_of
from trainmark.analyse.scaling import build_studies
from trainmark.analyse.table import build_lines
from trainmark.report.story import tell
from trainmark.store.folder import read_run


def test_no_framework_is_called_the_fastest_of_all(tmp_path: Path) -> None:
    seconds = {("torch", "fp32"): 0.1, ("torch", "bf16"): 0.05, ("paddle", "fp32"): 0.02}
    folders = [
        make_run(tmp_path, f"{name}-{precision}", cell=make_cell(framework=name, precision=precision), seconds=[s] * 60)
        for (name, precision), s in seconds.items()
    ]
    rows = [row for folder in folders if (row := read_run(folder)) is not None]
    told = [sentence.in_language("en") for sentence in tell(build_lines(rows), [])]
    speeds = [text for text in told if "trains at" in text]
    assert len(speeds) == 2, "one for each framework"
    assert "with torch reference bf16" in speeds[0]
    assert "with paddle reference fp32" in speeds[1]
    [between] = [text for text in told if "names no winner" in text]
    assert between == (
        "this page names no winner among torch, paddle; trainmark compare framework=torch framework=paddle says "
        "whether two of them are proven to train the same thing, and which is faster."
    )
    conclusion = markdown_of(build_lines(rows), lang="en").partition("## Conclusion")[2]
    assert all(text in conclusion for text in speeds), "a reader of the last paragraph alone sees both"
    alone = [sentence.in_language("en") for sentence in tell(build_lines(rows[:2]), [])]
    assert not any("winner" in text for text in alone)


def test_a_speed_up_names_the_framework_where_there_are_several(tmp_path: Path) -> None:
    lines = []
    for framework in ("torch", "jax"):
        for devices in (1, 2):
            cell = make_cell(framework=framework, devices_per_node=devices)
            folder = make_run(tmp_path, f"{framework}-{devices}", cell=cell, seconds=[0.1] * 60)
            lines += build_lines([row for row in [read_run(folder)] if row is not None])
    told = [sentence.in_language("en") for sentence in tell(lines, build_studies(lines))]
    for framework in ("torch", "jax"):
        assert any(f"resnet50 (small) {framework} reference fp32 batch 4: 2 devices are" in text for text in told)
    alone = [sentence.in_language("en") for sentence in tell(lines[:2], build_studies(lines[:2]))]
    assert any("resnet50 (small) reference fp32 batch 4: 2 devices are" in text for text in alone)


NOISY_S = [[0.1] * 60, [0.2] * 60]
NO_STEPS: list[list[float]] = [[], []]


@pytest.mark.parametrize(
    ("seconds", "outcome", "english", "chinese"),
    [
        (
            NOISY_S,
            "ok",
            ["2 runs finished, but no speed can be told: too noisy, 20.00 … 40.00 images/s were seen."],
            ["2 次运行已成功结束，但无法给出速度：噪声过大，所见 20.00 … 40.00 图像/秒。"],
        ),
        (
            NO_STEPS,
            "ok",
            ["2 runs finished without a measured speed."],
            ["2 次运行已成功结束，但未测得速度。"],
        ),
        (
            NOISY_S,
            "oom",
            [
                "No run has finished successfully yet, so there is no speed to report.",
                "No result from 2 of 2 runs: 2 oom.",
            ],
            ["还没有成功结束的运行，因此没有可报告的速度。", "2 次运行中有 2 次没有结果：内存/显存不足 2 次。"],
        ),
    ],
)  # fmt: skip
def test_why_there_is_no_speed(
    seconds: list[list[float]], outcome: str, english: list[str], chinese: list[str], tmp_path: Path
) -> None:
    """Runs that finished are not said to have failed, and none of them is said to have a result."""
    folders = [make_run(tmp_path, f"r{n}", seconds=own, outcome=outcome) for n, own in enumerate(seconds)]
    lines = build_lines([row for folder in folders if (row := read_run(folder)) is not None])
    for lang, expected in (("en", english), ("zh", chinese)):
        assert [sentence.in_language(lang) for sentence in tell(lines, [])] == expected
        text = markdown_of(lines, lang=lang)
        assert ("No run has finished" in text or "还没有成功结束" in text) == (outcome != "ok")
        assert "all with a result" not in text
        assert "全部有结果" not in text


def test_only_runs_with_a_speed_count_as_a_result(tmp_path: Path) -> None:
    calm, noisy, silent = make_cell(), make_cell(batch_size_per_device=8), make_cell(batch_size_per_device=16)
    made = [(calm, [0.1] * 60), (noisy, NOISY_S[0]), (noisy, NOISY_S[1]), (silent, [])]
    folders = [make_run(tmp_path, f"r{n}", cell=cell, seconds=own) for n, (cell, own) in enumerate(made)]
    rows = [row for folder in folders if (row := read_run(folder)) is not None]
    told = tell(build_lines(rows), [])
    assert told[-1].in_language("en") == "No result from 3 of 4 runs: 2 too noisy, 1 without a measured speed."
    assert told[-1].in_language("zh") == "4 次运行中有 3 次没有结果：噪声过大 2 次，未测得速度 1 次。"
    assert told[-1].kind == "doubt"
    assert tell(build_lines(rows[:1]), [])[-1].in_language("en") == "1 run, all with a result."
    name = "resnet50 torch reference fp32, 1 × 1 CPU, batch 8"
    several = [sentence.in_language("en") for sentence in tell(build_lines(rows[1:]), [])]
    assert several == [
        f"{name}: 2 runs finished, but no speed can be told: too noisy, 40.00 … 80.00 images/s were seen.",
        "1 run finished without a measured speed.",
    ]
