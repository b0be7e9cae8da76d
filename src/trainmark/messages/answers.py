"""The first sentences of a report: what is fastest, by how much, what changed and what failed."""

from __future__ import annotations

from collections.abc import Sequence

from trainmark.messages.message import Message, declare


@declare(
    "said-fastest",
    en="{what} trains at {speed}« ({interval})» with {configuration}",
    zh="{what} 的训练速度为 {speed}«（{interval}）»，配置为 {configuration}",
)
def answer_fastest(*, what: str, speed: Message, interval: str | None, configuration: str) -> None: ...


@declare("said-speed", en="{value} {unit}/s", zh="{value} {unit}/秒", words={
    "images": "图像", "clips": "片段", "frames": "帧", "samples": "样本", "examples": "样例", "iterations": "迭代",
    "sequences": "序列", "sentences": "句", "tokens": "词元", "words": "词", "steps": "步"})  # fmt: skip
def answer_speed(*, value: str, unit: str) -> None: ...


@declare(
    "said-frameworks",
    en="this page names no winner among {frameworks}; {command} says whether two of them are proven to train the same "
    "thing, and which is faster",
    zh="本页不判定 {frameworks} 之间的快慢；{command} 说明其中两者是否已证明训练内容相同，以及哪个更快",
)
def answer_frameworks(*, frameworks: Sequence[str], command: str) -> None: ...


@declare(
    "said-times",
    en="{times} times as fast as {base}",
    zh="是 {base} 的 {times} 倍",
)
def answer_times(*, times: str, base: str) -> None: ...


@declare(
    "said-scaling",
    en="{what}: {devices} devices are {speedup} times as fast as {base}, {efficiency} of ideal"
    "« (mostly lost to {cause})»",
    zh="{what}：{devices} 个设备的速度是 {base} 个设备的 {speedup} 倍，为理想值的 {efficiency}«（主要损失于{cause}）»",
    words={
        "communication": "通信",
        "slower compute": "计算变慢",
        "neither communication nor compute": "通信和计算之外的原因",
    },
)
def answer_scaling(*, what: str, devices: int, base: int, speedup: str, efficiency: str, cause: str | None) -> None: ...


@declare(
    "said-changed",
    en="{what}: {new} is {verdict} compared with {old}: {why}",
    zh="{what}：{new} 与 {old} 相比{verdict}：{why}",
    words={"faster": "更快", "slower": "更慢", "the same": "相同", "undecided": "无法判定"},
)
def answer_changed(*, what: str, new: str, old: str, verdict: str, why: Message) -> None: ...


@declare(
    "said-target",
    en="{what} reached its target in {seconds:seconds} ({target})",
    zh="{what} 用时 {seconds:seconds} 达到目标（{target}）",
)
def answer_target(*, what: str, seconds: float, target: str) -> None: ...


@declare(
    "said-failed",
    en="No result from {failed} of {runs:# runs}: {outcomes}",
    zh="{runs} 次运行中有 {failed} 次没有结果：{outcomes}",
)
def answer_failed(*, failed: int, runs: int, outcomes: Sequence[Message]) -> None: ...


@declare(
    "said-outcome",
    en="{num} {outcome}",
    zh="{outcome} {num} 次",
    words={
        "oom": "内存/显存不足",
        "nan": "损失值异常",
        "hang": "卡死",
        "killed": "被终止",
        "failed": "失败",
        "timeout": "超时",
        "running": "运行中",
        "too noisy": "噪声过大",
        "without a measured speed": "未测得速度",
    },
)
def answer_outcome(*, num: int, outcome: str) -> None: ...


@declare("said-all-ok", en="{runs:# runs}, all with a result", zh="{runs} 次运行全部有结果")
def answer_all_ok(*, runs: int) -> None: ...


@declare(
    "said-marked",
    en="{num:# results} marked with !, which cannot be right ({laws}); see the remarks",
    zh="{num} 个结果不合理，以 ! 标记（{laws}）；见说明",
)
def answer_marked(*, num: int, laws: Sequence[str]) -> None: ...


@declare("said-more", en="And {num} more, in the results below", zh="另有 {num} 项，见下文结果")
def answer_more(*, num: int) -> None: ...


@declare(
    "said-nothing",
    en="No run has finished successfully yet, so there is no speed to report",
    zh="还没有成功结束的运行，因此没有可报告的速度",
)
def answer_nothing() -> None: ...


@declare(
    "said-too-noisy",
    en="«{what}: »{runs:# runs} finished, but no speed can be told: too noisy«, {seen} were seen»",
    zh="«{what}：»{runs} 次运行已成功结束，但无法给出速度：噪声过大«，所见 {seen}»",
)
def answer_too_noisy(*, what: str | None, runs: int, seen: Message | None) -> None: ...


@declare(
    "said-unmeasured",
    en="{runs:# runs} finished without a measured speed",
    zh="{runs} 次运行已成功结束，但未测得速度",
)
def answer_unmeasured(*, runs: int) -> None: ...
