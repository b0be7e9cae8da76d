"""Warnings that follow from the numbers of one run: traps that made published results wrong."""

from __future__ import annotations

from trainmark.messages.message import Message, declare


@declare(
    "mean-of-rates",
    title="速率平均值偏高",
    en="the mean of its rates is {mean:number}, samples over seconds {rate:number}: {apart:.0%} apart",
    zh="各记录速率的平均值为 {mean:number}，样本数除以秒数为 {rate:number}：相差 {apart:.0%}",
)
def mean_of_rates(*, mean: float, rate: float, apart: float) -> None: ...


@declare(
    "stated-scope",
    title="日志自报速度的口径不符",
    en="its own {name} is {stated:number}, its records give {rate:number}: about "
    "«{times} times as much on {devices} devices, as if it counted only one part of {times}|"
    "{devices} times less, as if the rate of all devices had been multiplied by their number»",
    zh="日志自报的 {name} 为 {stated:number}，而由其记录得出 {rate:number}：«"
    "在 {devices} 个设备上约为前者的 {times} 倍，似乎只统计了 {times} 份中的一份|"
    "约为前者的 1/{devices}，似乎把全部设备的速率又乘了一次设备数»",
)
def stated_scope(*, name: str, stated: float, rate: float, devices: int, times: int | None) -> None:
    """`times`: the records give this many times the stated speed; None where they give less."""


@declare(
    "collapsed-record",
    title="末条记录骤降",
    en="the last record is {last:number}, the others are about {usual:number}; leave it out",
    zh="最后一条记录为 {last:number}，而通常为 {usual:number}；应将其排除",
)
def collapsed_record(*, last: float, usual: float) -> None: ...


@declare(
    "evaluation-inside",
    title="评估被计入训练时间",
    en="an evaluation lies within {records:# records}; about {lost_s:.3g} s of it count as training",
    zh="有 {records} 条记录包含评估；其中约 {lost_s:.3g} s 被计为训练时间",
)
def evaluation_inside(*, records: int, lost_s: float) -> None: ...


@declare(
    "epoch-index",
    title="epoch 序号被当作数目",
    en="its first evaluation is after 0 epochs: it gives the index of the epoch instead of their number",
    zh="首次评估被标为在 0 个 epoch 之后：epoch 的序号被当作数目",
)
def epoch_index() -> None: ...


@declare(
    "tf32-as-fp32",
    title="fp32 可能实为 TF32",
    en="fp32 on {machine}: frameworks use TF32 there by default, and the log does not say that it was turned off",
    zh="在 {machine} 上使用 fp32：框架在该硬件上默认使用 TF32，而日志没有说明已关闭",
)
def tf32_as_fp32(*, machine: str) -> None: ...


@declare("not-analysed", title="数值无法分析", en="its numbers cannot be analysed: {error}", zh="分析时出错：{error}")
def not_analysed(*, error: str) -> None: ...


@declare(
    "too-noisy",
    title="噪声过大",
    en="too noisy to be a result«: from {low:number} to {high:number} {unit}/s were seen»"
    "«, 95% interval ±{half_width:.0%}»; {advice}",
    zh="噪声过大，不能作为结果«：所见速度从 {low:number} 到 {high:number} {unit}/s»"
    "«，95% 置信区间 ±{half_width:.0%}»；{advice}",
)
def too_noisy(
    *, low: float | None, high: float | None, unit: str, half_width: float | None, advice: Message
) -> None: ...


@declare(
    "noise-cause",
    en="likely cause: «{cause}|unknown: look for other processes, steal time and lowered clocks (trainmark doctor), "
    "then run longer or use --repeat»",
    zh="可能的原因：«{cause}|未知：请检查其他进程、steal 时间和降频（trainmark doctor），"
    "然后延长运行时间或使用 --repeat»",
)
def noise_cause(*, cause: Message | None) -> None: ...


@declare(
    "only-two-runs",
    en="only two runs, which differ by {apart:.1%}; a third narrows the interval«; within a run: {doubt}»",
    zh="只有两次运行，相差 {apart:.1%}；再运行一次可缩小区间«；单次运行之内：{doubt}»",
)
def only_two_runs(*, apart: float, doubt: Message | None) -> None:
    """`doubt`: found in the steps of a run. It may be the cause, or have nothing to do with it."""
