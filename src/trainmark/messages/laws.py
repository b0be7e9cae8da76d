"""What a result that cannot be right says: each code is a law of `analyse/laws.py`, see docs/concepts/warnings.md."""

from __future__ import annotations

from trainmark.messages.message import declare


@declare(
    "superlinear",
    title="超线性加速",
    en="{speedup:.2f} times the speed with {ratio:g} times the devices: the base is too slow«; base: {base}»",
    zh="设备数为 {ratio:g} 倍，速度却为 {speedup:.2f} 倍：基准偏慢«；基准：{base}»",
)
def superlinear(*, speedup: float, ratio: float, base: str | None) -> None:
    """`base`: id of the first run that the speed was divided by."""


@declare(
    "more-is-slower",
    title="设备更多反而更慢",
    en="{ratio:g} times the devices are slower together: {speedup:.2f} times the speed of {base}",
    zh="设备数为 {ratio:g} 倍，总速度反而更低：仅为 {base} 的 {speedup:.2f} 倍",
)
def more_is_slower(*, speedup: float, ratio: float, base: str) -> None: ...


@declare(
    "faster-than-clock",
    title="速度高于时钟所示",
    en="its records claim {claimed:number} {unit}/s, but by its time stamps {clock:number} {unit}/s were done: "
    "{times:.3g} times as much",
    zh="其记录声称 {claimed:number} {unit}/s，而按时间戳只完成 {clock:number} {unit}/s：前者为后者的 {times:.3g} 倍",
)
def faster_than_clock(*, claimed: float, clock: float, unit: str, times: float) -> None: ...


@declare(
    "above-peak",
    title="超过硬件峰值",
    en="{claimed:.4g} TFLOP/s per device is above the peak of {machine} in {precision}: {peak:.4g} TFLOP/s",
    zh="每个设备 {claimed:.4g} TFLOP/s，超过 {machine} 在 {precision} 下的峰值 {peak:.4g} TFLOP/s",
)
def above_peak(*, claimed: float, peak: float, machine: str, precision: str) -> None: ...


@declare(
    "impossible-metric",
    title="指标超出可能范围",
    en="{metric} is {value:g}; it cannot be below 0 or above {most:g}",
    zh="{metric} 为 {value:g}；不可能小于 0 或大于 {most:g}",
)
def impossible_metric(*, metric: str, value: float, most: float) -> None: ...


@declare(
    "odd-first-loss",
    title="首个损失值异常",
    en="the first loss is {loss:.4g}; untrained weights and {classes} classes give about {expected:.4g}: "
    "wrong labels, loaded weights or another loss",
    zh="首个损失值为 {loss:.4g}；未训练的权重与 {classes} 个类别应约为 {expected:.4g}："
    "标签有误、加载了权重，或损失函数不同",
)
def odd_first_loss(*, loss: float, classes: int, expected: float) -> None: ...


@declare(
    "identical-repeat",
    title="重复运行完全相同",
    en="its {steps:# step durations} are those of {other} to the last digit: a copy, not a repeat",
    zh="其 {steps} 个步用时与 {other} 完全一致：是副本而非重复测量",
)
def identical_repeat(*, steps: int, other: str) -> None: ...


@declare(
    "far-repeat",
    title="某次重复偏离其余",
    en="{apart:+.1%} from the mean of its {others} other repeats, which agree within ±{spread:.1%}",
    zh="与其余 {others} 次重复的平均值相差 {apart:+.1%}，而其余各次相互之差在 ±{spread:.1%} 以内",
)
def far_repeat(*, apart: float, others: int, spread: float) -> None: ...
