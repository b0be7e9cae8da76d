"""The frameworks: what plan, launchers and worker must know about each without importing it.

A run has one process per device with every framework. Another package adds a framework by an entry point
`trainmark.engines` that names a `Framework`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

from trainmark import plugins


@dataclass(frozen=True, kw_only=True)
class Framework:
    name: str
    """As in `--framework NAME`, in a workload's card and in the file name of its part: `workloads/*/NAME.py`."""
    summary: str
    module: str
    """The framework is installed if this module can be found."""
    distribution: str
    """The package whose version is reported."""
    other_distributions: tuple[str, ...] = ()
    """Packages that hold the same framework: one of them is installed instead, such as that for GPUs."""
    parts: tuple[str, ...] = ()
    """Packages that are installed beside it, have versions of their own and decide what is computed."""
    settings: tuple[str, ...] = ()
    """Prefixes of environment variables that can change what it computes."""
    is_extra: bool = False
    """Installed as an extra of trainmark, `trainmark[NAME]`."""
    engine: str | None = None
    """The module with `build_engine`, `is_out_of_memory` and `limit_memory`, see `trainmark.worker.engine`.

    None: the framework is known to launchers and reports, but trainmark cannot train with it yet.
    """

    precisions: tuple[str, ...] = ("fp32", "tf32", "amp", "bf16")
    """Those that it can train in, on a GPU."""
    cpu_precisions: tuple[str, ...] = ("fp32", "amp", "bf16")
    """Those that it can train in on a CPU."""
    cpu_threads: int | None = None
    """Of each process of a run on a CPU; None: the cores are shared out among the processes."""
    is_for_cpus_only: Callable[[], bool] = lambda: False
    """Whether the installed build cannot use a GPU, as far as that can be seen without importing it."""
    gpu_build: str = "its build for GPUs"
    """What to install for one that can."""

    def installed_version(self) -> str | None:
        """From package metadata: importing torch to learn its version costs seconds."""
        from importlib import metadata  # 30 ms, which `--help` need not pay

        if importlib.util.find_spec(self.module) is None:
            return None
        for name in (self.distribution, *self.other_distributions):
            with contextlib.suppress(metadata.PackageNotFoundError):
                return metadata.version(name) or "unknown"  # pip may be half way through
        return "unknown"

    def versions_of_parts(self) -> dict[str, str]:
        """Of those that are installed."""
        from importlib import metadata

        found = {}
        for name in self.parts:
            with contextlib.suppress(metadata.PackageNotFoundError):
                found[name] = metadata.version(name) or "unknown"
        return found

    def requirement(self) -> str:
        """What follows `pip install` in a shell to get this framework with all that trainmark needs beside it."""
        return required_extra(self.name) if self.is_extra else self.distribution

    def precisions_on(self, device: str) -> tuple[str, ...]:
        return self.cpu_precisions if device == "cpu" else self.precisions


def _has_only_cpus(module: str, version_file: str, kinds_of_gpu: Sequence[str]) -> Callable[[], bool]:
    """By constants in a file of the package, one for each kind of GPU; what they do not tell is taken to be there."""

    def look() -> bool:
        found = importlib.util.find_spec(module)
        try:
            text = Path(found.origin or "").parent.joinpath(version_file).read_text(encoding="utf-8") if found else ""
        except (OSError, ValueError):
            return False
        values = re.findall(rf"^(?:{'|'.join(kinds_of_gpu)})\b[^=\n]*=\s*(\S+)", text, re.MULTILINE)
        return bool(values) and {value.strip("'\"") for value in values} <= {"None", "False"}

    return look


def _is_jax_for_cpus() -> bool:
    """What drives a GPU is an entry point, a module in the package `jax_plugins`, or named by a variable."""
    from importlib import metadata

    has_plugins = metadata.entry_points(group="jax_plugins") or importlib.util.find_spec("jax_plugins") is not None
    return not has_plugins and not os.environ.get("PJRT_NAMES_AND_LIBRARY_PATHS")


_BUILT_IN = (
    Framework(
        name="torch",
        summary="PyTorch",
        module="torch",
        distribution="torch",
        settings=("TORCH_ALLOW_TF32",),
        is_extra=True,
        engine="trainmark.worker.torch",
        is_for_cpus_only=_has_only_cpus("torch", "version.py", ("cuda", "hip")),
        gpu_build="torch (CUDA)",
    ),
    Framework(
        name="paddle",
        summary="PaddlePaddle",
        module="paddle",
        distribution="paddlepaddle",
        other_distributions=("paddlepaddle-gpu",),
        settings=("FLAGS_",),
        is_extra=True,
        engine="trainmark.worker.paddle",
        precisions=("fp32", "tf32", "amp", "bf16", "fp16"),
        cpu_precisions=("fp32",),  # its CPU kernels for convolutions and norms have float32 and float64 only
        cpu_threads=1,  # its own default; HRNet-W18 was 2.4 to 9 times slower with two threads on two cores
        is_for_cpus_only=_has_only_cpus("paddle", "version/__init__.py", ("cuda_version", "hip_version")),
        gpu_build="paddlepaddle-gpu>=3.3",
    ),
    Framework(
        name="jax",
        summary="JAX",
        module="jax",
        distribution="jax",
        parts=("jaxlib", "optax"),
        settings=("XLA_FLAGS", "JAX_"),
        is_extra=True,
        engine="trainmark.worker.jax",
        is_for_cpus_only=_is_jax_for_cpus,
        gpu_build="jax[cuda13]",
    ),
)


def required_extra(name: str) -> str:
    """As an argument of `pip install`. A trainmark that was installed from a folder may be on no package index."""
    from importlib import metadata

    try:
        origin = json.loads(metadata.distribution("trainmark").read_text("direct_url.json") or "{}")
    except metadata.PackageNotFoundError:
        origin = {}
    folder = unquote(urlsplit(origin.get("url", "")).path)
    # Not Path.is_file: it fails for a folder of another user that this one may not read.
    if "dir_info" not in origin or not os.path.isfile(os.path.join(folder, "pyproject.toml")):  # noqa: PTH113, PTH118
        return f"'trainmark[{name}]'"
    option = "-e " if origin["dir_info"].get("editable") else ""
    return f"{option}{shlex.quote(f'{folder}[{name}]')}"


@cache
def frameworks() -> plugins.Registry[Framework]:
    own = plugins.loaders(_BUILT_IN)
    return plugins.Registry(plugins.ENGINES, kind="framework", built_in=own, check=plugins.expect(Framework))


def setting_prefixes(names: Iterable[str] = ()) -> tuple[str, ...]:
    """Of the built-in frameworks and of these. No other plugin is imported: it might import its framework too."""
    own = [*_BUILT_IN, *(frameworks().load(name) for name in names)]
    return tuple(dict.fromkeys(prefix for framework in own for prefix in framework.settings))
