"""The reports' own commands, with a program in place of trainmark that notes what it is asked for.

`test_reports_for_real.py` runs them with trainmark; most of that takes minutes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import pytest
from report_commands import COMMANDS, SEEDS, sit_in

PROGRAM = r"""#!/usr/bin/env bash
echo "$*" >> "$NOTES"
store=$(sed -n 's/.*--store \([^ ]*\).*/\1/p' <<< "$*")
case $1 in
    run)
        repeat=$(sed -n 's/.*--repeat \([0-9]*\).*/\1/p' <<< "$*")
        for number in $(seq "${repeat:-1}"); do
            mkdir -p "$store/run$number"
            printf '  "id": "%s",\n' "run$number"
        done
        exit "${STATUS:-0}" ;;
    export)
        if [[ $* == *ai-rank* ]]; then
            mkdir -p ai-rank/hrnet_w18/log && echo "- AI-Rank-log 1 test_begin" > ai-rank/hrnet_w18/log/GPUx8.log
        elif [[ $* == *paddle-benchmark*1n* ]]; then
            folder=$(sed -n 's/.*--output \([^ ]*\).*/\1/p' <<< "$*")
            mkdir -p "$folder" && echo "log ${*: -1}" > "$folder/case" && echo "{}" > "$folder/case_speed"
        elif [[ $* == *paddle-benchmark* && -n ${INDEX:-} ]]; then
            mkdir -p "$(dirname "$INDEX")" && echo "{\"JOB_FAIL_FLAG\": ${FAILED:-0}}" > "$INDEX"
        elif [[ $* == *dlperf* ]]; then
            echo '{"resnet50": {}}' > "${*: -1}"
        fi ;;
esac
"""


class Done(NamedTuple):
    code: int
    out: str
    err: str
    asked: list[str]
    """What the program was asked for, call by call."""


@pytest.fixture
def call(tmp_path: Path):  # type: ignore[no-untyped-def]
    """Types a line in a copy of the scripts of a report; files land in `tmp_path / "scripts/reports" / REPORT`."""
    program = tmp_path / "noting"
    program.write_text(PROGRAM)
    program.chmod(0o755)

    def run(report: str, line: str, **variables: str) -> Done:
        notes = tmp_path / "notes"
        notes.unlink(missing_ok=True)
        _, type_line = sit_in(report, tmp_path, program=str(program), timeout_s=60)
        done = type_line(line, NOTES=str(notes), **variables)
        return Done(done.returncode, done.stdout, done.stderr, notes.read_text().splitlines() if notes.exists() else [])

    return run


@pytest.mark.skipif(not SEEDS.is_dir(), reason="the reports are not here (../shared/seeds)")
def test_the_commands_are_those_of_the_reports() -> None:
    texts = [path.read_text() for path in SEEDS.glob("*.txt")]
    for lines in COMMANDS.values():
        assert any(all(line in text for line in lines) for text in texts), lines


def test_psenets_commands(call, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """The fifth word is the log folder, 64 the total batch, and the fourth word epochs."""
    make, one, eight, converge = COMMANDS["psenet"]
    data = tmp_path / "icdar2015"
    data.mkdir()
    assert call("psenet", make).asked == ["data make icdar2015 train_data/icdar2015 --images 40 --val-fraction 0.2"]
    done = call("psenet", one, log_path="logs/a", INDEX="logs/a/psenet_bs8_fp32_sp_bs8_fp32_1_speed")
    assert done.code == 0, done.err
    assert done.asked[0].startswith("run psenet --store logs/a/runs --devices 1 --batch-size 8 --precision fp32")
    assert "--data synthetic --max-steps 250 " in done.asked[0], "2 epochs of 125 steps"
    assert done.asked[1] == "export --format paddle-benchmark --store logs/a/runs --output logs/a/ run1"
    done = call("psenet", eight, DATA_DIR=str(data))
    assert f"--devices 8 --batch-size 8 --precision fp32 --data {data} --epochs 2 --json" in done.asked[0]
    done = call("psenet", converge, DATA_DIR=str(data))
    assert "--devices 1 --batch-size 16" in done.asked[0]
    assert "--epochs 600 --json" in done.asked[0]
    assert "--max-steps" not in done.asked[0]


@pytest.mark.parametrize("model", ["resnet50", "hrnet_w18", "mask_rcnn", "tsm"])
def test_the_contract_for_the_other_four(call, tmp_path: Path, model: str) -> None:  # type: ignore[no-untyped-def]
    """Batch per device, iterations; data from DATA_DIR."""
    data = tmp_path / "set"
    data.mkdir()
    index = f"logs/{model}_bs4_fp16_mp_bs4_fp16_2_speed"
    line = "CUDA_VISIBLE_DEVICES=0,1 bash ../../run_benchmark.sh mp 4 fp16 30 logs"
    done = call(model, line, DATA_DIR=str(data), INDEX=index)
    assert done.code == 0, done.err
    expected = f"run {model} --store logs/runs --devices 2 --batch-size 4 --precision amp --data {data} --max-steps 30 "
    assert done.asked[0].startswith(expected)


def test_a_run_that_is_too_noisy_leaves_a_new_index_and_says_so(call, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    index = tmp_path / "scripts/reports/psenet/psenet_bs8_fp32_sp_bs8_fp32_1_speed"
    index.parent.mkdir(parents=True)
    index.write_text("of an earlier run")
    done = call("psenet", "bash run_benchmark.sh sp 8 fp32 2", INDEX=index.name, FAILED="1")
    assert done.code == 1
    assert "too noisy" in done.err
    assert index.read_text() == '{"JOB_FAIL_FLAG": 1}\n'


def test_a_data_folder_that_is_not_there_is_refused(call) -> None:  # type: ignore[no-untyped-def]
    done = call("psenet", "bash run_benchmark.sh sp 8 fp32 2", DATA_DIR="nowhere")
    assert (done.code, done.asked) == (2, [])
    assert "DATA_DIR nowhere is not a folder" in done.err


def test_hrnets_commands(call, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    one, eight, many = COMMANDS["hrnet_w18"]
    log = tmp_path / "scripts/reports/hrnet_w18/GPUx8_time2train_ips-bs8.log"
    done = call("hrnet_w18", eight, DATA_DIR="cityscapes")
    assert done.code == 0
    asked = "--devices 8 --batch-size 8 --precision fp32 --data cityscapes --json --until-target"
    assert done.asked[0] == f"run hrnet_w18 --store runs {asked}"
    assert "- AI-Rank-log 1 test_begin" in log.read_text()
    assert "--until-target" not in call("hrnet_w18", eight).asked[0], "without data there is no target"
    done = call("hrnet_w18", many, HOSTS="a,b,c,d")
    several = "--devices 8 --batch-size 4 --precision fp32 --data synthetic --json --nodes 4 --hosts a,b,c,d"
    assert several in done.asked[0]
    done = call("hrnet_w18", one, DATA_DIR="cityscapes")
    expected = "run hrnet_w18 --store runs --devices 1 --batch-size 8 --precision fp32 --data cityscapes --json"
    assert done.asked[0] == expected


def test_mask_rcnn_leaves_its_eight_files(call, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (line,) = COMMANDS["mask_rcnn"]
    done = call("mask_rcnn", line)
    assert done.code == 0
    names = {
        f"pytorch_gpu{cards}_{kind}_bs{batch}.txt" for cards in (1, 8) for kind in ("fp32", "amp") for batch in (2, 4)
    }
    assert {path.name for path in (tmp_path / "scripts/reports/mask_rcnn").glob("*.txt")} == names
    assert len(done.asked) == 8
    assert "run mask_rcnn --store runs --devices 8 --batch-size 4 --precision amp --data synthetic --json" in done.asked
    assert call("mask_rcnn", line, STATUS="1").code == 1
    assert call("mask_rcnn", line, STATUS="2").code == 0, "this machine cannot run a row"


def test_resnets_commands_and_logs(call, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    single, two, many, extract = COMMANDS["resnet50"]
    done = call("resnet50", single)
    assert done.code == 0, done.err
    runs = [line for line in done.asked if line.startswith("run ")]
    assert [line.split("--devices ")[1].split()[0] for line in runs] == ["1", "2", "4", "8"]
    assert all("--batch-size 128 --precision fp32" in line and line.endswith("--repeat 6") for line in runs)
    here = tmp_path / "scripts/reports/resnet50"
    for case in ("1n1g", "1n2g", "1n4g", "1n8g"):
        folder = here / "logs/paddle/resnet50" / case
        texts = [(folder / f"r50_b128_fp32_{number}.log").read_text() for number in range(1, 7)]
        assert texts == [f"log run{number}\n" for number in range(1, 7)]
        assert len(list(folder.iterdir())) == 6
    assert "--nodes 2 --hosts a,b --repeat 6" in call("resnet50", two, HOSTS="a,b").asked[0]
    assert "--nodes 4 --hosts a,b,c,d" in call("resnet50", many, HOSTS="a,b,c,d").asked[0]
    done = call("resnet50", extract)
    assert done.out.splitlines()[-1] == "Saving result to ./result/resnet50_result.json"
    assert json.loads((here / "result/resnet50_result.json").read_text()) == {"r50": {}}
    assert "--store logs/paddle/resnet50/runs" in done.asked[0]


def test_tsms_commands(call) -> None:  # type: ignore[no-untyped-def]
    amp, _, _, eight, many, _ = COMMANDS["tsm"]
    asked = "--batch-size 16 --precision"
    assert f"--devices 1 {asked} amp" in call("tsm", amp).asked[0]
    done = call("tsm", eight, DATA_DIR="kinetics")
    assert f"--devices 8 {asked} fp32 --data kinetics --json --epochs 50" in done.asked[0]
    done = call("tsm", many, HOSTS="a,b,c,d")
    assert f"--devices 8 {asked} amp --data synthetic --json --nodes 4 --hosts a,b,c,d" in done.asked[0]
    assert call("tsm", "bash run_single.sh 1 8 maybe").code == 2
