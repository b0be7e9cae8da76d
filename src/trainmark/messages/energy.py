"""Why energy was not measured, and a warning where two ways to measure it disagree."""

from __future__ import annotations

from trainmark.messages.message import Message, declare


@declare(
    "energy-not-recorded",
    en="this run did not record energy counters",
    zh="该运行没有记录能耗计数器",
)
def energy_not_recorded() -> None: ...


@declare(
    "energy-counter-missing",
    en="the GPU or its driver has no energy counter (NVML, from Volta on)",
    zh="GPU 或其驱动没有能耗计数器（NVML，Volta 及更新的 GPU 才有）",
)
def counter_missing() -> None: ...


@declare(
    "energy-gpu-partitioned",
    en="the GPU is partitioned (MIG): its counter includes the other parts",
    zh="GPU 被分区（MIG）：计数器包含其他分区的能耗",
)
def gpu_partitioned() -> None: ...


@declare(
    "energy-no-powercap",
    en="this host has no energy counter of its processor ({path} has no package)",
    zh="本机没有处理器能耗计数器（{path} 中没有 package）",
)
def no_powercap(*, path: str) -> None: ...


@declare(
    "energy-counter-unreadable",
    en="the energy counter of the processor cannot be read ({path}: {why}); only root may read it on most systems",
    zh="无法读取处理器能耗计数器（{path}：{why}）；多数系统只允许 root 读取",
)
def counter_unreadable(*, path: str, why: str) -> None: ...


@declare(
    "energy-too-short",
    en="the steady steps lasted {seconds:seconds} with {readings:# readings} of the counter: too short; measure for at "
    "least {needed:seconds}",
    zh="稳态步只持续了 {seconds:seconds}，计数器读数 {readings} 次：时间太短；请至少测量 {needed:seconds}",
)
def energy_too_short(*, seconds: float, readings: int, needed: float) -> None: ...


@declare(
    "energy-part-missing",
    en="only {known} of {devices:# devices} have an energy counter«: {why}»",
    zh="{devices} 个设备中只有 {known} 个有能耗计数器«：{why}»",
)
def energy_part_missing(*, known: int, devices: int, why: Message | None) -> None: ...


@declare(
    "energy-disagrees",
    title="能耗计数器与功率积分不符",
    en="energy by the counter is {counter_w:.4g} W on average, by sampled power {sampled_w:.4g} W: {apart:.0%} apart",
    zh="按能耗计数器平均为 {counter_w:.4g} W，按功率采样为 {sampled_w:.4g} W：相差 {apart:.0%}",
)
def energy_disagrees(*, counter_w: float, sampled_w: float, apart: float) -> None: ...
