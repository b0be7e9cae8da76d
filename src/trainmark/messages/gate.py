"""What `check` found about a cell, and why `check --update` refuses a result."""

from __future__ import annotations

from collections.abc import Sequence

from trainmark.messages.message import Message, declare

_METRICS = {"throughput": "吞吐量", "peak memory": "峰值内存", "time to first step": "首步用时", "accuracy": "精度指标"}


# -- throughput --------------------------------------------------------------------------------------------------------


@declare(
    "gate-slower",
    en="{loss:.1%} slower than the baseline (95% interval {low:+.1%} to {high:+.1%}); {tolerance:.1%} is allowed",
    zh="比基准慢 {loss:.1%}（95% 区间 {low:+.1%} 至 {high:+.1%}）；允许 {tolerance:.1%}",
)
def slower(*, loss: float, low: float, high: float, tolerance: float) -> None: ...


@declare(
    "gate-within",
    en="{change:+.1%} ({low:+.1%} to {high:+.1%}), within the {tolerance:.1%} that are allowed",
    zh="{change:+.1%}（{low:+.1%} 至 {high:+.1%}），在允许的 {tolerance:.1%} 之内",
)
def within(*, change: float, low: float, high: float, tolerance: float) -> None: ...


@declare(
    "gate-faster",
    en="{change:+.1%} ({low:+.1%} to {high:+.1%}): faster; update the baseline to keep it so",
    zh="{change:+.1%}（{low:+.1%} 至 {high:+.1%}）：变快了；更新基准即可守住",
)
def faster(*, change: float, low: float, high: float) -> None: ...


@declare(
    "gate-undecided",
    en="{change:+.1%}, but anything from {low:+.1%} to {high:+.1%} is possible: cannot tell whether more than the "
    "{tolerance:.1%} that are allowed were lost; runs differ by {spread:.1%}; {advice}",
    zh="{change:+.1%}，但 {low:+.1%} 至 {high:+.1%} 都有可能：无法判断损失是否超过允许的 {tolerance:.1%}；"
    "各次运行相差 {spread:.1%}；{advice}",
)
def undecided(*, change: float, low: float, high: float, tolerance: float, spread: float, advice: Message) -> None: ...


@declare(
    "gate-one-run",
    en="{change:+.1%}, but from one run on each side nobody can tell how much runs differ; {advice}",
    zh="{change:+.1%}，但两侧各只有一次运行，无从得知运行之间的差异；{advice}",
)
def one_run(*, change: float, advice: Message) -> None: ...


@declare(
    "gate-chance",
    en="{change:+.1%} ({low:+.1%} to {high:+.1%}) would be a regression in one cell, but among {cells} cells chance "
    "gives one like it; {advice}",
    zh="若只有一个配置，{change:+.1%}（{low:+.1%} 至 {high:+.1%}）可算性能回退，但在 {cells} 个配置中偶然就会出现一个；"
    "{advice}",
)
def chance(*, change: float, low: float, high: float, cells: int, advice: Message) -> None: ...


@declare("gate-more-runs", en="run with --repeat {repeat}", zh="请用 --repeat {repeat} 运行")
def more_runs(*, repeat: int) -> None: ...


@declare(
    "gate-more-baseline",
    en="the baseline has only {runs:# runs}: update it from --repeat {repeat}, then run as many",
    zh="基准只有 {runs} 次运行：请先用 --repeat {repeat} 的结果更新基准，再运行同样多次",
)
def more_baseline(*, runs: int, repeat: int) -> None: ...


@declare(
    "gate-less-noise",
    en="more runs would not decide it: reduce the noise, or allow more",
    zh="增加运行次数也无法判定：请先降低噪声，或放宽容差",
)
def less_noise() -> None: ...


@declare(
    "gate-far-run",
    en="one of the {side} runs is {gap:+.1%} from all the others; run again to see whether it happens often",
    zh="{side}运行中有一次与其余运行相差 {gap:+.1%}；请再次运行，看是否经常发生",
    words={"new": "新的", "accepted": "已接受的"},
)
def far_run(*, side: str, gap: float) -> None: ...


@declare("gate-no-number", en="has no throughput that can be judged: {why}", zh="没有可评判的吞吐量：{why}")
def no_number(*, why: Message) -> None: ...


@declare(
    "gate-too-noisy",
    en="too noisy: the interval of its runs is ±{half_width:.0%}; keep other work off the machine, or run longer",
    zh="噪声过大：各次运行的区间为 ±{half_width:.0%}；请让机器空闲，或延长运行时间",
)
def too_noisy(*, half_width: float) -> None: ...


@declare("gate-left-out", en="run {run} does not count: {why}", zh="运行 {run} 不计入：{why}")
def left_out(*, run: str, why: Message) -> None: ...


@declare(
    "gate-pass-without",
    en="{rest}, but {why}; measure again, or accept it with a reason",
    zh="{rest}，但{why}；请重新测量，或注明理由后接受它",
)
def pass_without(*, rest: Message, why: Message) -> None: ...


# -- other metrics -----------------------------------------------------------------------------------------------------


@declare(
    "gate-worse",
    en="{metric} is {change:+.1%} against the worst run of the baseline; {tolerance:.0%} is allowed",
    zh="{metric}与基准中最差的一次相比为 {change:+.1%}；允许 {tolerance:.0%}",
    words=_METRICS,
)
def worse(*, metric: str, change: float, tolerance: float) -> None: ...


@declare(
    "gate-no-worse",
    en="{metric} is {change:+.1%} against the worst run of the baseline, within the {tolerance:.0%} that are allowed",
    zh="{metric}与基准中最差的一次相比为 {change:+.1%}，在允许的 {tolerance:.0%} 之内",
    words=_METRICS,
)
def no_worse(*, metric: str, change: float, tolerance: float) -> None: ...


@declare(
    "gate-no-metric",
    en="{metric} is in the baseline, but no run recorded it",
    zh="基准中有{metric}，但没有任何运行记录它",
    words=_METRICS,
)
def no_metric(*, metric: str) -> None: ...


@declare(
    "gate-other-metric",
    en="the evaluations report {now}, the baseline has {before}",
    zh="评估报告的是 {now}，基准中是 {before}",
)
def other_metric(*, now: str, before: str) -> None: ...


# -- a cell as a whole -------------------------------------------------------------------------------------------------


@declare(
    "gate-failed",
    en="{failed} of {runs:# runs} failed: {run}: {outcome}: {why}",
    zh="{runs} 次运行中有 {failed} 次失败：{run}：{outcome}：{why}",
)
def failed(*, failed: int, runs: int, run: str, outcome: str, why: Message) -> None: ...


@declare("gate-unfinished", en="run {run} has not ended yet", zh="运行 {run} 尚未结束")
def unfinished(*, run: str) -> None: ...


@declare("gate-not-measured", en="in the baseline, but not measured", zh="在基准中，但未被测量")
def not_measured() -> None: ...


@declare(
    "gate-outdated",
    en="not measured with the newest code: its runs are of commit {commit}, the newest of {newest}; run it too, or "
    "pass --since to say which runs count",
    zh="未用最新代码测量：它的运行属于提交 {commit}，最新的运行属于 {newest}；请也运行它，或用 --since 指定要算的运行",
)
def outdated(*, commit: str, newest: str) -> None: ...


@declare(
    "gate-stale",
    en="not measured since the baseline was accepted: {run} is its own run",
    zh="自基准被接受以来没有新的测量：{run} 是基准自己的运行",
)
def stale(*, run: str) -> None: ...


@declare(
    "gate-other-machine",
    en="measured on another machine than the baseline«: {differences:and}»",
    zh="测量所用的机器与基准不同«：{differences:and}»",
)
def other_machine(*, differences: Sequence[str]) -> None: ...


@declare(
    "gate-new",
    en="not in the baseline yet; trainmark check --update adds it",
    zh="尚不在基准中；可用 check --update 添加",
)
def new_cell() -> None: ...


@declare(
    "gate-unknown-machine",
    en="the machine is unknown on both sides, as in imported logs: make sure that it was the same",
    zh="两侧的机器均未知（导入的日志即如此）：请自行确认是同一台机器",
)
def unknown_machine() -> None: ...


@declare("gate-all-off", en="the tolerances turn every metric off", zh="容差设置关闭了所有指标")
def all_off() -> None: ...


@declare("gate-skipped", en="a baseline of another machine«: {machine}»", zh="另一台机器的基准«：{machine}»")
def skipped(*, machine: str | None) -> None: ...


@declare(
    "gate-too-few-runs",
    en="has {runs:# runs}, and a baseline needs {least} or more to know how much runs differ; use --repeat {advised}",
    zh="只有 {runs} 次运行，而基准至少需要 {least} 次才能知道运行之间的差异；请用 --repeat {advised} 运行",
)
def too_few_runs(*, runs: int, least: int, advised: int) -> None: ...
