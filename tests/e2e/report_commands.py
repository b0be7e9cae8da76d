"""The commands that the five reports tell their readers to type, word for word, and a folder to type them in."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
SEEDS = ROOT.parent / "shared" / "seeds"
COMMANDS = {
    "hrnet_w18": (
        "./run_single_card.sh > GPUx1-bs8.log 2>&1",
        "./run_multi_card.sh 1 8 > GPUx8_time2train_ips-bs8.log 2>&1",
        "./run_multi_card.sh 4 8 > GPUx32_time2train_ips-bs4.log 2>&1",
    ),
    "mask_rcnn": ("bash pytorch_test_all.sh",),
    "resnet50": (
        "bash run_single_node.sh",
        "bash run_two_node.sh",
        "bash run_multi_node.sh",
        "python extract_paddle_logs_time.py  --log_dir=logs/paddle/resnet50",
    ),
    "tsm": (
        "bash run_single.sh 1 1 True",
        "bash run_single.sh 1 1 False",
        "bash run_single.sh 1 8 True",
        "bash run_single.sh 1 8 False",
        "$mpirun bash run_benchmark.sh 4 8 True",
        "$mpirun bash run_benchmark.sh 4 8 False",
    ),
    "psenet": (
        "bash preData.sh",
        "CUDA_VISIBLE_DEVICES=0 bash run_benchmark.sh sp 8 fp32 2 ${log_path}",
        "CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 bash run_benchmark.sh mp 64 fp32 2",
        "CUDA_VISIBLE_DEVICES=0 bash run_benchmark.sh sp 16 fp32 600",
    ),
}
"""By the folder of `scripts/reports`. A `&` at the end of a line is left out: the tests wait."""
_DROPPED = ("CUDA_VISIBLE_DEVICES", "MODEL", "DATA_DIR", "HOSTS", "CARDS", "REPEAT", "TRAINMARK_ARGS")

Type = Callable[..., "subprocess.CompletedProcess[str]"]


def sit_in(report: str, folder: Path, *, program: str, timeout_s: float) -> tuple[Path, Type]:
    """A copy of the report's scripts below `folder`, and a function that types a line there."""
    shutil.copytree(ROOT / "scripts", folder / "scripts", dirs_exist_ok=True)
    here = folder / "scripts" / "reports" / report
    kept = {key: value for key, value in os.environ.items() if key not in _DROPPED}
    paths = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # the reports say `python`

    def type_line(line: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {**kept, "PATH": paths, "TRAINMARK": program, **variables}
        return subprocess.run(
            ["bash", "-c", line], cwd=here, env=environment, capture_output=True, text=True, check=False,
            timeout=timeout_s,
        )  # fmt: skip

    return here, type_line
