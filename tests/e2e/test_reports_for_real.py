"""The reports' own commands with trainmark, at `--size small` on the CPU, on generated data in the real layouts.

ResNet-50's run with the other tests. Those of the four other networks take minutes and run on request:

    TRAINMARK_LONG_TESTS=1 python -m pytest tests/e2e/test_reports_for_real.py

Lines with 8 cards are typed as printed where there are 8 cores, with 2 cards elsewhere. Lines for several machines are
in `test_reports.py`. On a busy machine a speed may be too noisy to be given; then its files say so.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from report_commands import COMMANDS, Type, sit_in

from making import make_images

SMALL = "--device cpu --size small"
SPEED = f"{SMALL} --max-steps 2 --min-seconds 0.1"
IS_LONG = bool(os.environ.get("TRAINMARK_LONG_TESTS"))
NUM_CARDS = 8 if len(os.sched_getaffinity(0)) >= 8 else 2
takes_minutes = [
    pytest.mark.skipif(not IS_LONG, reason="takes minutes: set TRAINMARK_LONG_TESTS=1"),
    pytest.mark.timeout(3600),
]


def fewer(line: str) -> str:
    """As printed, or with 2 cards instead of 8."""
    return line if NUM_CARDS == 8 else line.replace("=0,1,2,3,4,5,6,7 ", "=0,1 ").replace(" 1 8", " 1 2")


def sit(report: str, folder: Path) -> tuple[Path, Type]:
    here, type_line = sit_in(
        report, folder, program=f"{sys.executable} -m trainmark.cli.main", timeout_s=3600 if IS_LONG else 300
    )

    def checked(line: str, **variables: str) -> Any:
        done = type_line(line, **{"TRAINMARK_ARGS": SPEED, **variables})
        is_noisy = done.returncode == 1 and "too noisy to be given" in done.stderr  # and "ok" otherwise
        written = [path.read_text()[-2000:] for path in sorted(here.glob("*.txt"))]  # what Mask R-CNN's scripts print
        assert done.returncode == 0 or is_noisy, "\n".join([line, done.stdout, done.stderr, *written])
        return done

    return here, checked


def outcomes(document: str) -> list[str]:
    """Of the results in a document of `trainmark run`, whatever was printed before and after it."""
    found, _ = json.JSONDecoder().raw_decode(document, document.index("{"))
    return [result["outcome"] for result in found["results"]]


def index_of(path: Path) -> dict[str, Any]:
    """The last line of a `_speed` file, which PaddlePaddle's benchmark reads."""
    found: dict[str, Any] = json.loads(path.read_text().splitlines()[-1])
    return found


def test_resnet50_on_list_files(tmp_path: Path) -> None:
    """128 images per card are too many here, and six runs too long."""
    single, _, _, extract = COMMANDS["resnet50"]
    here, type_line = sit("resnet50", tmp_path)
    data = make_images(tmp_path / "ILSVRC2012")
    for split in ("train", "val"):
        images = sorted(path.relative_to(data) for path in (data / split).rglob("*.jpg"))
        lines = [f"{path} {path.parent.name.removeprefix('class')}" for path in images]
        (data / f"{split}_list.txt").write_text("\n".join(lines) + "\n")
    cards, repeat = ("1 2", 2) if IS_LONG else ("1", 1)
    type_line(single, DATA_DIR=str(data), CARDS=cards, REPEAT=str(repeat), BATCH_SIZE="4")
    logs = here / "logs/paddle/resnet50"
    names = {f"{case}/r50_b4_fp32_{n}.log" for case in (f"1n{n}g" for n in cards.split()) for n in range(1, repeat + 1)}
    assert {str(path.relative_to(logs)) for path in logs.glob("1n*/*")} == names
    assert all("batch_cost" in (logs / name).read_text() for name in names)
    assert type_line(extract).stdout.splitlines()[-1] == "Saving result to ./result/resnet50_result.json"
    speeds = json.loads((here / "result/resnet50_result.json").read_text()).get("r50", {})
    assert all(case["batch_size_per_device"] == 4 and case["average_speed"] > 0 for case in speeds.values())


class TestLong:
    pytestmark = takes_minutes

    def test_psenet_on_icdar_2015(self, tmp_path: Path) -> None:
        """The last command is the convergence run: here two epochs; docs/guides/reports.md has a longer one."""
        make, one, eight, converge = COMMANDS["psenet"]
        here, type_line = sit("psenet", tmp_path)
        type_line(make, IMAGES="80")
        assert len(list((here / "train_data/icdar2015").glob("ch4_training_images/*.jpg"))) == 64
        data = {"DATA_DIR": "train_data/icdar2015", "TRAINMARK_ARGS": SMALL}
        type_line(one, log_path="logs", **data)
        type_line(fewer(eight), **data)
        type_line(converge, DATA_DIR="train_data/icdar2015", TRAINMARK_ARGS=f"{SMALL} --epochs 2")
        for folder, batch, mode, num in (("logs", 8, "sp", 1), (".", 64, "mp", NUM_CARDS), (".", 16, "sp", 1)):
            name = f"psenet_bs{batch}_fp32_{mode}_bs{batch}_fp32_{num}"
            assert (here / folder / name).stat().st_size > 0
            found = index_of(here / folder / f"{name}_speed")
            print(json.dumps(found))
            assert (found["gpu_num"], found["UNIT"]) == (num, "images/s")
            assert (found["JOB_FAIL_FLAG"], found["FINAL_RESULT"] > 0) == (
                (1, False) if "spread" in found else (0, True)
            )
            assert 0 < found["LOSS_RESULT"] < 1, "a Dice loss"

    def test_hrnet_w18_on_cityscapes(self, tmp_path: Path) -> None:
        one, eight, _ = COMMANDS["hrnet_w18"]
        here, type_line = sit("hrnet_w18", tmp_path)
        short = f"{SPEED} --batch-size 2"
        type_line(one, TRAINMARK_ARGS=short)
        type_line(fewer(eight), TRAINMARK_ARGS=short)
        assert "AI-Rank-log" in (here / "GPUx8_time2train_ips-bs8.log").read_text()
        type_line("$TRAINMARK data make cityscapes cityscapes --images 20 --val-fraction 0.1")
        training = f"{SMALL} --batch-size 2 --epochs 1 --until-target 0.0001"
        type_line(fewer(eight), DATA_DIR="cityscapes", TRAINMARK_ARGS=training)
        lines = (here / "GPUx8_time2train_ips-bs8.log").read_text().splitlines()
        print("\n".join(line for line in lines if "AI-Rank-log" in line))
        assert any("eval_accuracy" in line for line in lines)
        assert any("target_quality_time" in line for line in lines)
        for name in ("summary_metrics.json", "system_information.json"):
            assert json.loads((here / "ai-rank" / name).read_text())

    def test_mask_rcnn_on_coco_2014(self, tmp_path: Path) -> None:
        """With joined splits, on one card; the other four files need 8."""
        (line,) = COMMANDS["mask_rcnn"]
        here, type_line = sit("mask_rcnn", tmp_path)
        type_line("$TRAINMARK data make coco coco --images 16 --val-fraction 0.25")
        for part in ("train", "val"):
            for old in (f"{part}2017", f"annotations/instances_{part}2017.json"):
                (here / "coco" / old).rename(here / "coco" / old.replace("2017", "2014"))
        type_line(line, DATA_DIR="coco", CARDS="1")
        names = {f"pytorch_gpu1_{precision}_bs{batch}.txt" for precision in ("fp32", "amp") for batch in (2, 4)}
        assert {path.name for path in here.glob("*.txt")} == names
        for name in sorted(names):
            found = outcomes((here / name).read_text())
            print(name, found)
            assert found == ["ok"]

    def test_tsm_on_kinetics(self, tmp_path: Path) -> None:
        """Two clips instead of 16: half precision is very slow on a CPU."""
        amp, fp32, _, eight, _, _ = COMMANDS["tsm"]
        _, type_line = sit("tsm", tmp_path)
        for line in (amp, fp32, fewer(eight)):
            found = outcomes(type_line(line, TRAINMARK_ARGS=f"{SPEED} --batch-size 2").stdout)
            print(line, found)
            assert found == ["ok"]
        type_line("$TRAINMARK data make kinetics kinetics --images 24 --classes 2 --val-fraction 0.25")
        done = type_line(fp32, DATA_DIR="kinetics", TRAINMARK_ARGS=f"{SMALL} --batch-size 2 --epochs 1")
        (result,) = json.loads(done.stdout)["results"]
        print(result["outcome"], result["evals"])
        assert result["outcome"] == "ok"
        assert [found["metric"] for found in result["evals"]] == ["top1", "top5"]
