"""The first sentences of a report: what they state, and what nobody has shown."""

from __future__ import annotations

from pathlib import Path

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
