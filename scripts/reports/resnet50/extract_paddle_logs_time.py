#!/usr/bin/env python3
"""The ResNet-50 report: python extract_paddle_logs_time.py --log_dir=logs/paddle/resnet50

Speeds and speed-ups of the cases, in DLPerf's own document: result/resnet50_result.json.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--log_dir", type=Path, required=True)
    store = parser.parse_args().log_dir / "runs"
    result = Path("result/resnet50_result.json")
    result.parent.mkdir(exist_ok=True)
    argv = shlex.split(os.environ.get("TRAINMARK", "trainmark"))
    done = subprocess.run([*argv, "export", "--format", "dlperf", "--store", store, "--output", result], check=False)
    if done.returncode == 0:
        cases = json.loads(result.read_text(encoding="utf-8"))
        named = {name.replace("resnet50", "r50", 1): value for name, value in cases.items()}  # as the logs are named
        result.write_text(json.dumps(named, indent=2) + "\n", encoding="utf-8")
        print(json.dumps(named, indent=2))
        print(f"Saving result to ./{result}")
    return done.returncode


if __name__ == "__main__":
    raise SystemExit(main())
