"""env.json: variables and packages that decide how fast a framework is, and nothing that equal runs differ in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trainmark.frameworks import frameworks
from trainmark.runfolder.files import ENVIRONMENT_FILE, read_json
from trainmark.worker.environment import PACKAGES, describe_environment, write_environment

FAST = {
    "XLA_FLAGS": "--xla_gpu_autotune_level=4",
    "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.95",
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    "JAX_DEFAULT_MATMUL_PRECISION": "highest",
    "FLAGS_cudnn_exhaustive_search": "1",
    "FLAGS_allocator_strategy": "auto_growth",
}
OF_ONE_RANK = {
    "JAX_COMPILATION_CACHE_DIR": "/home/a/cache",
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "1",
    "JAX_ENABLE_COMPILATION_CACHE": "true",
    "JAX_COORDINATOR_ADDRESS": "127.0.0.1:4242",
    "JAX_PROCESS_ID": "1",
    "JAX_LOCAL_DEVICE_IDS": "1",
    "JAX_DUMP_IR_TO": "/tmp/ir",
    "FLAGS_selected_gpus": "1",
    "FLAGS_cudnn_dir": "/opt/cudnn",
}


def variables() -> Any:
    return describe_environment({}, gpu_index=None)["variables"]


def test_what_decides_the_speed_is_recorded_and_what_one_rank_is_told_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in FAST.items():
        monkeypatch.setenv(name, value)
    first = variables()
    assert FAST.items() <= first.items()
    for name, value in OF_ONE_RANK.items():
        monkeypatch.setenv(name, value)
    assert variables() == first, "another rank, folder and port: equal runs"
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=/tmp/x --xla_gpu_autotune_level=4 --xla_gpu_cuda_data_dir=/opt/cuda")
    assert variables() == first, "paths are left out"
    monkeypatch.setenv("XLA_FLAGS", "--xla_gpu_autotune_level=2 --xla_gpu_dump_to_all")
    assert variables()["XLA_FLAGS"] == "--xla_gpu_autotune_level=2 --xla_gpu_dump_to_all"


def test_secrets_among_them_are_not_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FLAGS_api_token", "hush-hush")
    (tmp_path / "run").mkdir()
    write_environment(tmp_path / "run", describe_environment({}, gpu_index=None))
    written = (read_json(tmp_path / "run" / ENVIRONMENT_FILE) or {})["variables"]
    assert written["FLAGS_api_token"].startswith("REDACTED")


def test_the_parts_of_a_framework_are_recorded_with_a_run() -> None:
    """A parity proof holds for their versions, and is compared with what the run recorded."""
    for name in frameworks().names():
        assert set(frameworks().load(name).parts) <= set(PACKAGES)
