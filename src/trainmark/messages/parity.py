"""Whether frameworks train the same thing: what `parity` answers, and why `compare` gives no winner."""

from __future__ import annotations

from trainmark.messages.message import declare


@declare(
    "parity-holds",
    en="{workload}: {sides} train the same thing, as far as these stages show",
    zh="{workload}：就这些检查阶段而言，{sides} 训练的内容相同",
)
def parity_holds(*, workload: str, sides: list[str]) -> None: ...


@declare(
    "parity-fails",
    en="{workload}: {one} and {other} do not train the same thing: stage {stage} fails at {worst}",
    zh="{workload}：{one} 与 {other} 训练的内容不同：阶段 {stage} 在 {worst} 处不成立",
)
def parity_fails(*, workload: str, one: str, other: str, stage: str, worst: str) -> None: ...


@declare(
    "parity-not-checked",
    en="{one} and {other} are not proven equal, so neither is called faster; run: {command}",
    zh="尚未证明 {one} 与 {other} 等价，因此不判定快慢；请执行：{command}",
)
def parity_not_checked(*, one: str, other: str, command: str) -> None: ...


@declare(
    "parity-outdated",
    en="{one} and {other} were checked with another {what}, so neither is called faster; run: {command}",
    zh="{one} 与 {other} 的检查使用的是不同的 {what}，因此不判定快慢；请执行：{command}",
)
def parity_outdated(*, one: str, other: str, what: str, command: str) -> None: ...


@declare(
    "parity-stage-failed",
    en="{one} and {other} are not equal: stage {stage} of the parity check failed at {worst}; run: {command}",
    zh="{one} 与 {other} 不等价：等价检查的阶段 {stage} 在 {worst} 处不成立；请执行：{command}",
)
def parity_stage_failed(*, one: str, other: str, stage: str, worst: str, command: str) -> None: ...


@declare(
    "parity-stage-missing",
    en="{one} and {other} are not proven equal: stage {stage} of the parity check has not run; run: {command}",
    zh="尚未证明 {one} 与 {other} 等价：等价检查的阶段 {stage} 尚未执行；请执行：{command}",
)
def parity_stage_missing(*, one: str, other: str, stage: str, command: str) -> None: ...
