"""env.json: the machine and the software that a number comes from."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import trainmark
from trainmark import host
from trainmark.worker.telemetry.sensors import GpuSensor

PACKAGES = (
    "torch", "torchvision", "triton", "paddlepaddle", "numpy", "simplejpeg", "pillow", "nvidia-ml-py", "psutil",
)  # fmt: skip
_VARIABLES = ("CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF",
              "TORCHINDUCTOR_CACHE_DIR", "LD_PRELOAD")  # fmt: skip
_VARIABLE_PREFIXES = ("NCCL_", "GLOO_", "MKL_", "CUDNN_", "NVIDIA_TF32")


def describe_environment(framework_facts: dict[str, Any], *, gpu_index: int | None) -> dict[str, Any]:
    sensor = GpuSensor(gpu_index) if gpu_index is not None else None
    return {
        "schema": 1,
        "trainmark": trainmark.__version__,
        "hostname": platform.node(),
        "system": platform.platform(),
        "python": sys.version.split()[0],
        "cpu": host.cpu_name(),
        "num_cores": host.num_cores(),
        "num_processors": host.num_processors(),
        "memory_bytes": host.memory_bytes(),
        "packages": _versions(),
        "variables": {key: value for key, value in os.environ.items() if _matters(key)},
        "container": _container(),
        "git": _own_git(Path(trainmark.__file__).resolve().parent),
        "gpu_at_start": sensor.read() if sensor is not None else None,
        "device_memory_bytes": sensor.memory_bytes() if sensor is not None else None,
        **framework_facts,
    }


def _matters(key: str) -> bool:
    return key in _VARIABLES or key.startswith(_VARIABLE_PREFIXES)


def _versions() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def _container() -> str | None:
    for variable in ("NVIDIA_PRODUCT_NAME", "NVIDIA_PYTORCH_VERSION", "SINGULARITY_CONTAINER", "APPTAINER_CONTAINER"):
        if variable in os.environ:
            return f"{variable}={os.environ[variable]}"
    return "docker" if Path("/.dockerenv").exists() else None


@cache
def _own_git(folder: Path) -> dict[str, Any] | None:
    """None outside a checkout of trainmark: a virtual environment in another repository does not count.

    Cached: the environment is written twice, the second time when a training may have little memory left.
    """
    top = _run_git(folder, "rev-parse", "--show-toplevel")
    is_ours = top is not None and Path(os.fsdecode(top).strip()) / "src" / "trainmark" == folder
    return describe_git(folder) if is_ours else None


def describe_git(folder: Path) -> dict[str, Any] | None:
    """The commit of the code that ran, and a hash of local changes; None outside a repository."""
    commit = _run_git(folder, "rev-parse", "HEAD")
    if commit is None:
        return None
    diff = _run_git(folder, "diff", "HEAD") or b""
    digest = hashlib.sha256(diff).hexdigest()[:12] if diff else None
    return {"commit": commit.decode().strip(), "diff_sha256": digest}


def _run_git(folder: Path, *arguments: str) -> bytes | None:
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, timeout=10, check=True)  # noqa: S607
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout
