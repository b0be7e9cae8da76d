"""What limits an interval: found in the series of steps and said beside the number; no interval is too narrow then."""

from __future__ import annotations

from trainmark.messages.message import declare


@declare(
    "within-one-run",
    en="the interval is within one run: another run may differ by more; use --repeat",
    zh="该区间只反映单次运行之内的波动：另一次运行的差别可能更大；请使用 --repeat",
)
def within_one_run() -> None: ...


@declare(
    "two-levels",
    en="the speed switched between two levels: {high:number} and {low:number}, {times:# times}; run longer or "
    "lock clocks",
    zh="速度在两个水平之间切换：{high:number} 与 {low:number}（{times} 次）；请延长运行时间或锁定时钟频率",
)
def two_levels(*, high: float, low: float, times: int) -> None: ...


@declare(
    "drift",
    en="the speed drifted by {change:+.1%} during the run and has not settled; let the machine reach its temperature, "
    "or run longer",
    zh="运行期间速度漂移了 {change:+.1%}，尚未稳定；请等机器温度稳定，或延长运行时间",
)
def drift(*, change: float) -> None: ...


@declare(
    "still-warming-up",
    en="still warming up: the speed changed by {change:+.1%} during the run and has not settled; run longer",
    zh="仍在预热：运行期间速度变化了 {change:+.1%}，尚未稳定；请延长运行时间",
)
def still_warming_up(*, change: float) -> None: ...


@declare(
    "rare-stalls",
    en="rare stalls: {stalls:# steps} of {steps} took up to {times:.3g} times as long as usual; run longer to see how "
    "often",
    zh="偶发停顿：{steps} 步中有 {stalls} 步的用时最多为平常的 {times:.3g} 倍；请延长运行时间以确定其频率",
)
def rare_stalls(*, stalls: int, steps: int, times: float) -> None: ...


@declare(
    "long-pause",
    en="step {step} took {times:.3g} times as long as usual (a second compilation, a stall?): it counts in the value, "
    "and whether it comes again cannot be told; run longer",
    zh="第 {step} 步的用时为平常的 {times:.3g} 倍（再次编译或停顿？）：它计入数值，无法判断是否会再次出现；"
    "请延长运行时间",
)
def long_pause(*, step: int, times: float) -> None: ...


@declare(
    "period",
    en="every {period}th step takes longer; the value is of whole periods",
    zh="每隔 {period} 步就有一步较慢；数值取自完整的周期",
)
def periodic(*, period: int) -> None: ...


@declare(
    "printed-digits",
    en="durations are rounded to {share:.2%} of a step, too coarse for a narrow interval; log more digits",
    zh="时间只精确到一步的 {share:.2%}，不足以给出较窄的区间；请记录更多位数",
)
def printed_digits(*, share: float) -> None: ...
