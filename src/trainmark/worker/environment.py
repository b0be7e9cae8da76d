"""env.json: the machine and the software that a number comes from."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import trainmark
from trainmark import host
from trainmark.frameworks import setting_prefixes
from trainmark.gpus import read_gpus
from trainmark.redaction import Redactor
from trainmark.runfolder.files import ENVIRONMENT_FILE, write_json
from trainmark.worker.container import describe_container, describe_image
from trainmark.worker.repository import describe_repository, find_repository
from trainmark.worker.telemetry.sensors import GpuSensor

PACKAGES = (
    "torch", "torchvision", "torchaudio", "triton", "paddlepaddle", "paddlepaddle-gpu", "tensorflow", "keras", "jax",
    "jaxlib", "optax", "flax", "oneflow", "mindspore", "mxnet", "transformers", "accelerate", "deepspeed", "lightning",
    "pytorch-lightning", "timm", "datasets", "peft", "trl", "torchtitan", "torchao", "mmcv", "mmengine",
    "megatron-core", "transformer-engine", "flash-attn", "xformers", "bitsandbytes", "apex", "nvidia-dali-cuda120",
    "nvidia-cudnn-cu12", "nvidia-cudnn-cu13", "nvidia-nccl-cu12", "nvidia-nccl-cu13", "nvidia-cublas-cu12",
    "nvidia-cublas", "numpy", "opencv-python", "opencv-python-headless", "simplejpeg", "isal", "pillow",
    "pillow-simd", "nvidia-ml-py", "psutil",
)  # fmt: skip
"""Packages that decide how fast a training is, and the two that we measure with."""
_VARIABLES = ("CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF",
              "TORCHINDUCTOR_CACHE_DIR", "LD_PRELOAD", "NPROC")  # fmt: skip
"""NPROC: the threads of XLA on a CPU."""
_VARIABLE_PREFIXES = ("NCCL_", "GLOO_", "MKL_", "CUDNN_", "ONEDNN_", "DNNL_", "NVIDIA_TF32", "XLA_")
"""Besides those that a framework declares as its settings."""
_IS_PLACE = r"(?i:_(?:TO|DIR|PATH|FILE|ADDRESS|ADDRESSES|PORT))"
_NOT_SPEED = re.compile(
    rf"(?:XLA|JAX|FLAGS)_.*{_IS_PLACE}"
    r"|FLAGS_selected_.*"
    r"|JAX_(?:PROCESS_ID|NUM_PROCESSES|LOCAL_DEVICE_IDS|PARTITION_INDEX|SLICE_INDEX|COORDINATOR_.*)"
    r"|JAX_(?:.*_CACHE_.*|.*_COMPILATION_CACHE|LOG_.*|LOGGING_.*|DEBUG_.*|TRACEBACK_.*|DUMP_.*|TEST_.*)"
)
"""Variables that differ between ranks or between equal runs, or say only where files are kept and what is logged."""
_XLA_FILE = re.compile(rf"\s*--\w+{_IS_PLACE}=\S*")


def describe_environment(
    framework_facts: dict[str, Any],
    *,
    gpu_index: int | None,
    frameworks: Collection[str] = (),
    image: str | None = None,
) -> dict[str, Any]:
    """`frameworks` are those that train; `image` is the container's image as the user named it."""
    sensor = GpuSensor(gpu_index) if gpu_index is not None else None
    gpus, driver = read_gpus()
    return {
        "schema": 2,
        "trainmark": trainmark.__version__,
        "hostname": platform.node(),
        "system": platform.platform(),
        "python": sys.version.split()[0],
        "cpu": host.cpu_name(),
        "num_cores": host.num_cores(),
        "num_processors": host.num_processors(),
        "memory_bytes": host.memory_bytes(),
        "gpus": [{"name": gpu.name, "uuid": gpu.uuid} for gpu in gpus],
        "driver": driver,
        "packages": installed_versions(PACKAGES),
        "variables": recorded_variables(os.environ, frameworks),
        "container": describe_container(),
        "image": describe_image(image),
        "git": own_git(),
        "gpu_at_start": sensor.read() if sensor is not None else None,
        "device_memory_bytes": sensor.memory_bytes() if sensor is not None else None,
        **framework_facts,
    }


def write_environment(folder: Path, document: Mapping[str, Any]) -> None:
    """Without the secrets that variables may hold, and for its owner only."""
    found = {name: str(value) for name, value in document.get("variables", {}).items()}
    variables = Redactor(folder.parent).variables(found)
    write_json(folder / ENVIRONMENT_FILE, {**document, "variables": variables}, is_private=True)


def recorded_variables(environment: Mapping[str, str], frameworks: Collection[str] = ()) -> dict[str, str]:
    """With the settings of these frameworks and of the built-in ones."""
    prefixes = (*_VARIABLE_PREFIXES, *setting_prefixes(frameworks))
    found = {
        key: value
        for key, value in environment.items()
        if (key in _VARIABLES or key.startswith(prefixes)) and _NOT_SPEED.fullmatch(key) is None
    }
    if "XLA_FLAGS" in found:
        found["XLA_FLAGS"] = _XLA_FILE.sub("", found["XLA_FLAGS"]).strip()
    return found


def installed_versions(packages: Iterable[str]) -> dict[str, str]:
    """From their metadata: nothing is imported."""
    found = {}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


@cache
def own_git() -> dict[str, Any] | None:
    """Of trainmark itself; None outside a checkout of it. Only the sources count: docs and tests change no speed.

    Cached: the environment is written twice, the second time when a training may have little memory left.
    """
    package = Path(trainmark.__file__).resolve().parent
    found = find_repository(package)
    is_ours = found is not None and found.top / "src" / "trainmark" == package
    return describe_repository(found, under=["src"]) if found is not None and is_ours else None
