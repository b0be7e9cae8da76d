"""Why a cell of a plan cannot run here, with what to do about it."""

from __future__ import annotations

from trainmark.messages.message import declare

ON_EVERY_MACHINE = frozenset({"tf32-on-cpu", "no-precision", "no-precision-on-cpu", "no-recipe", "no-fast-paddle"})
"""Codes of what no other machine would change."""


@declare(
    "framework-missing",
    en="{framework} is not installed; pip install {package}",
    zh="未安装 {framework}；请执行 pip install {package}",
)
def framework_missing(*, framework: str, package: str) -> None: ...


@declare(
    "no-gpu",
    en="no NVIDIA GPU is visible here; use --device cpu, or check nvidia-smi and CUDA_VISIBLE_DEVICES",
    zh="本机没有可见的 NVIDIA GPU；请使用 --device cpu，或检查 nvidia-smi 和 CUDA_VISIBLE_DEVICES",
)
def no_gpu() -> None: ...


@declare(
    "framework-for-cpus-only",
    en="the installed {framework} is built for CPUs only; use --device cpu, or install {build}",
    zh="已安装的 {framework} 仅支持 CPU；请使用 --device cpu，或安装 {build}",
)
def framework_for_cpus_only(*, framework: str, build: str) -> None: ...


@declare(
    "too-few-gpus",
    en="{wanted} devices requested, {available:# GPUs} available; use --devices {available} or fewer",
    zh="要求 {wanted} 个设备，本机有 {available} 块 GPU；请使用 --devices {available} 或更少",
)
def too_few_gpus(*, wanted: int, available: int) -> None: ...


@declare(
    "too-few-cores",
    en="{wanted} devices requested, {available:# CPU cores} available; use --devices {available} or fewer",
    zh="要求 {wanted} 个设备，本机有 {available} 个 CPU 核；请使用 --devices {available} 或更少",
)
def too_few_cores(*, wanted: int, available: int) -> None: ...


@declare(
    "too-few-nodes",
    en="{wanted} nodes requested, {known:# machines} known; give --hosts A,B or --launcher slurm",
    zh="要求 {wanted} 个节点，已知机器有 {known} 台；请给出 --hosts A,B 或 --launcher slurm",
)
def too_few_nodes(*, wanted: int, known: int) -> None: ...


@declare(
    "tf32-on-cpu",
    en="tf32 needs an NVIDIA GPU; use --precision fp32 on a CPU",
    zh="tf32 是 NVIDIA GPU 的模式，CPU 没有；请使用 --precision fp32",
)
def tf32_on_cpu() -> None: ...


@declare(
    "no-precision",
    en="{framework} does not train in {precision}; use --precision {known}",
    zh="{framework} 不支持以 {precision} 训练；请使用 --precision {known}",
)
def no_precision(*, framework: str, precision: str, known: str) -> None: ...


@declare(
    "no-precision-on-cpu",
    en="{framework} trains in {precision} on a GPU only, its CPU kernels lack it; use --precision {known}",
    zh="{framework} 只能在 GPU 上以 {precision} 训练，其 CPU 内核不支持；请使用 --precision {known}",
)
def no_precision_on_cpu(*, framework: str, precision: str, known: str) -> None: ...


@declare(
    "no-recipe",
    en="{workload} has no recipe {recipe} in {framework}; use --recipe {known}",
    zh="{workload} 在 {framework} 中没有配方 {recipe}；请使用 --recipe {known}",
)
def no_recipe(*, framework: str, recipe: str, workload: str, known: str) -> None: ...


@declare(
    "no-fast-paddle",
    en="paddle has no recipe fast: to_static was slower than the dynamic graph on a CPU, with CINN too, and it"
    " was not tried on a GPU; use --recipe reference",
    zh="paddle 没有 fast 配方：在 CPU 上 to_static（含 CINN）比动态图慢，也未在 GPU 上试过；请使用 --recipe reference",
)
def no_fast_paddle() -> None: ...


@declare(
    "data-missing",
    en="the data set is not here (looked for {path} in this folder); pass --data DIR",
    zh="数据集不在本机（在当前目录中查找 {path}）；请给出 --data DIR",
)
def data_missing(*, path: str) -> None: ...
