"""Measures the ceilings of this machine in a process of its own and keeps them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping

from trainmark.errors import RunError
from trainmark.measured_peaks import Peak, keep_peaks
from trainmark.plan.feasible import require
from trainmark.plan.machine import Machine

_MAX_SECONDS = 300
_MAX_TAIL = 600


def measure_peaks(device: str | None, environment: Mapping[str, str], machine: Machine) -> list[Peak]:
    device = device or machine.best_device
    require("torch", machine, device=device)
    argv = [sys.executable, "-m", "trainmark.worker.torch.ceilings", device]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=_MAX_SECONDS, check=False)
    if done.returncode != 0:
        raise RunError("the ceilings could not be measured", why=done.stderr.strip()[-_MAX_TAIL:])
    return keep_peaks(json.loads(done.stdout.splitlines()[-1]), environment)
