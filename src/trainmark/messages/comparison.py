"""Why a comparison came out as it did: the reasons of verdicts, the runs that were left out, and the answer."""

from __future__ import annotations

from collections.abc import Sequence

from trainmark.messages.message import Message, declare


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


@declare("no-runs", en="no usable run of {side}«: {why}»", zh="{side} 没有可用的运行«：{why}»")
def no_runs(*, side: str, why: Message | None) -> None: ...


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


# -- not comparable ----------------------------------------------------------------------------------------------------


@declare("work-differs", en="the work differs: {facts}", zh="工作内容不同：{facts}")
def work_differs(*, facts: Sequence[Message]) -> None: ...


@declare(
    "differs-in",
    en="{name} («{one}|unknown», «{other}|unknown»)",
    zh="{name}（«{one}|未知»，«{other}|未知»）",
)
def differs_in(*, name: str, one: str | None, other: str | None) -> None: ...


@declare(
    "not-proven-equal",
    en="«{one}|unknown» and «{other}|unknown» are not proven equal: they may compute different things",
    zh="尚未证明 «{one}|未知» 与 «{other}|未知» 等价：两者的计算可能不同",
)
def not_proven_equal(*, one: str | None, other: str | None) -> None: ...


# -- runs that do not count --------------------------------------------------------------------------------------------


@declare("run-not-ok", en="it ended with {outcome}", zh="结束状态为 {outcome}")
def not_ok(*, outcome: str) -> None: ...


@declare("run-without-speed", en="it has no throughput", zh="没有吞吐量")
def no_speed() -> None: ...


@declare("run-changed", en="its files were changed after it ended", zh="其文件在结束后被改动")
def changed_run() -> None: ...


@declare("run-incomplete", en="records are missing at its end", zh="结尾缺少记录")
def incomplete_run() -> None: ...


@declare("run-breaks-law", en="it breaks the law {law}: {why}", zh="违反规律 {law}：{why}")
def breaks_law(*, law: str, why: Message) -> None: ...


@declare("run-too-noisy", en="too noisy: its interval is ±{width:.0%}", zh="噪声过大：区间为 ±{width:.0%}")
def run_too_noisy(*, width: float) -> None: ...


@declare(
    "side-too-noisy",
    en="{side} is too noisy: its runs are between {low:number} and {high:number}; add runs, or find what disturbs them",
    zh="{side} 噪声过大：各次运行介于 {low:number} 与 {high:number} 之间；请增加运行次数，或找出干扰来源",
)
def side_too_noisy(*, side: str, low: float, high: float) -> None: ...


@declare(
    "run-refused",
    en="the only run of {side} has no interval: {why}",
    zh="{side} 唯一的运行无法给出区间：{why}",
)
def run_refused(*, side: str, why: Message) -> None: ...


@declare("doubtful", en="in runs of {side}: {why}", zh="{side} 的运行中：{why}")
def doubtful(*, side: str, why: Message) -> None: ...


@declare("run-far", en="it is far from all other runs", zh="与其余运行相差太远")
def far_from_others() -> None: ...


@declare("left-out", en="left out of {side}: {why}", zh="未计入 {side}：{why}")
def left_out(*, side: str, why: Message) -> None: ...


# -- notes -------------------------------------------------------------------------------------------------------------


@declare("only-in", en="only in {side}", zh="只在 {side} 中")
def only_in(*, side: str) -> None: ...


@declare(
    "history-used",
    en="the spread between runs is also that of {runs} earlier runs of this cell on this machine",
    zh="运行间的离散程度还参考了该配置在本机的 {runs} 次历史运行",
)
def history_used(*, runs: int) -> None: ...


@declare(
    "counted-as-repeats",
    en="{axes:and} of {side} unknown: its {runs} runs count as repeats because they are of one folder or sweep",
    zh="{side} 的{axes}未知：其 {runs} 次运行因属于同一目录或同一次扫描而视为重复",
    words={"work": "工作", "code": "代码", "machine": "机器"},
)
def counted_as_repeats(*, axes: Sequence[str], side: str, runs: int) -> None: ...


@declare(
    "epochs-apart",
    en="epochs to the target, not part of the verdict: A «{one}|none», B «{other}|none»"
    "«; ratio {ratio:.2f}»« ({low:.2f} … {high:.2f})»",
    zh="达到目标所需的 epoch 数（不计入结论）：A «{one}|无»，B «{other}|无»"
    "«；比值 {ratio:.2f}»«（{low:.2f} … {high:.2f}）»",
)
def epochs_apart(
    *, one: Sequence[str], other: Sequence[str], ratio: float | None, low: float | None, high: float | None
) -> None: ...


@declare("more-notes", en="and {num} more: --json has all", zh="另有 {num} 条：--json 给出全部")
def more_notes(*, num: int) -> None: ...


@declare(
    "several-axes",
    en="{axes:and} differ: the ratio does not tell which of them made it",
    zh="{axes}均不同：比值无法说明是哪一个造成的",
)
def several_axes(*, axes: Sequence[str]) -> None: ...


@declare("all-cells", en="all cells: {name}", zh="全部配置：{name}")
def all_cells(*, name: str) -> None: ...


@declare("some-cells", en="{num} of {cells} cells", zh="{cells} 个配置中的 {num} 个")
def some_cells(*, num: int, cells: int) -> None: ...


@declare("geometric-mean", en="geometric mean of {cells}", zh="{cells} 个配置的几何平均")
def geometric_mean(*, cells: int) -> None: ...


# -- the answer --------------------------------------------------------------------------------------------------------


@declare(
    "answer-faster",
    en="{b} is {percent:.1f}% faster than {a}",
    zh="{b} 比 {a} 快 {percent:.1f}%",
)
def answer_faster(*, a: str, b: str, percent: float) -> None: ...


@declare(
    "answer-slower",
    en="{b} is {percent:.1f}% slower than {a}",
    zh="{b} 比 {a} 慢 {percent:.1f}%",
)
def answer_slower(*, a: str, b: str, percent: float) -> None: ...


@declare(
    "answer-times",
    en="{b} is {times:.2f} times as fast as {a}",
    zh="{b} 的速度是 {a} 的 {times:.2f} 倍",
)
def answer_times(*, a: str, b: str, times: float) -> None: ...


@declare(
    "answer-same",
    en="{a} and {b} are equally fast, within ±{tolerance:.3g}%",
    zh="{a} 与 {b} 一样快，相差在 ±{tolerance:.3g}% 以内",
)
def answer_same(*, a: str, b: str, tolerance: float) -> None:
    """`tolerance`: in per cent."""


@declare("answer-inconclusive", en="no verdict on {a} and {b}: {why}", zh="无法判定 {a} 与 {b}：{why}")
def answer_inconclusive(*, a: str, b: str, why: Message) -> None: ...


@declare("answer-not-comparable", en="{a} and {b} are not comparable: {why}", zh="{a} 与 {b} 不可比：{why}")
def answer_not_comparable(*, a: str, b: str, why: Message) -> None: ...


@declare(
    "answer-many",
    en="{b} against {a}, {cells:# cells}: {counts}«; geometric mean {change:+.1%}»",
    zh="{b} 对比 {a}，{cells} 个配置：{counts}«；几何平均 {change:+.1%}»",
)
def answer_many(*, a: str, b: str, cells: int, counts: Sequence[Message], change: float | None) -> None: ...


VERDICTS = {
    # English and Chinese, as a table has them.
    "faster": "更快",
    "slower": "更慢",
    "same": "相同",
    "inconclusive": "无法判定",
    "not comparable": "不可比",
}


@declare("verdict-count", en="{num} {verdict}", zh="{num} 个{verdict}", words=VERDICTS)
def verdict_count(*, num: int, verdict: str) -> None: ...


@declare("answer-nothing-shared", en="{a} and {b} have no cell in common", zh="{a} 与 {b} 没有共同的配置")
def answer_nothing_shared(*, a: str, b: str) -> None: ...
