"""Why a comparison came out as it did: the reasons of verdicts."""

from __future__ import annotations

from trainmark.messages.message import declare


@declare(
    "is-faster",
    en="{change:+.1%}, between {low:+.1%} and {high:+.1%} with 95% confidence",
    zh="快 {change:+.1%}，95% 置信区间为 {low:+.1%} 至 {high:+.1%}",
)
def is_faster(*, change: float, low: float, high: float) -> None: ...


@declare(
    "is-slower",
    en="{change:+.1%}, between {low:+.1%} and {high:+.1%} with 95% confidence",
    zh="慢 {change:+.1%}，95% 置信区间为 {low:+.1%} 至 {high:+.1%}",
)
def is_slower(*, change: float, low: float, high: float) -> None: ...


@declare(
    "is-same",
    en="the difference is within ±{tolerance:.3g}% (between {low:+.2%} and {high:+.2%})",
    zh="差异在 ±{tolerance:.3g}% 以内（{low:+.2%} 至 {high:+.2%}）",
)
def is_same(*, tolerance: float, low: float, high: float) -> None:
    """`tolerance`: in per cent."""


@declare(
    "one-run-each",
    en="one run on each side and no history of this cell: the spread between runs is unknown; add 2 runs to each side",
    zh="两侧各只有一次运行，且没有该配置的历史：运行间的离散程度未知；请每侧再运行 2 次",
)
def one_run_each() -> None: ...


@declare(
    "no-runs",
    en="no usable run «of {side}»",
    zh="«{side} »没有可用的运行",
)
def no_runs(*, side: str | None) -> None: ...


@declare(
    "noise-hides",
    en="the difference lies between {low:+.1%} and {high:+.1%}, runs of one side differ by {spread:.2%}; "
    "«about {more:# more runs} on each side would decide|"
    "over 100 more runs would be needed: reduce the noise or pass a larger --tolerance»",
    zh="差异在 {low:+.1%} 与 {high:+.1%} 之间，同一侧各次运行相差 {spread:.2%}；"
    "«每侧大约再运行 {more} 次即可判定|需要再运行 100 次以上：请降低噪声，或放宽 --tolerance»",
)
def noise_hides(*, low: float, high: float, spread: float, more: int | None) -> None: ...


@declare(
    "chance-among-many",
    en="{change:+.1%} would be a difference in one cell, but among {cells} cells chance gives one like it; "
    "«about {more:# more runs} on each side would decide|"
    "over 100 more runs would be needed: reduce the noise or pass a larger --tolerance»",
    zh="若只比较一个配置，{change:+.1%} 可算差异，但在 {cells} 个配置中偶然就会出现一个；"
    "«每侧大约再运行 {more} 次即可判定|需要再运行 100 次以上：请降低噪声，或放宽 --tolerance»",
)
def chance_among_many(*, change: float, cells: int, more: int | None) -> None: ...


@declare(
    "far-run",
    en="one run of {side} is {gap:+.1%} from all the others: run {side} again to see whether it happens often",
    zh="{side} 有一次运行与其余运行相差 {gap:+.1%}：请再次运行 {side}，看是否经常发生",
)
def far_run(*, side: str, gap: float) -> None: ...
