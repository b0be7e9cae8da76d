"""Whether frameworks train the same thing: what `parity` answers, and why `compare` gives no winner."""

from __future__ import annotations

from trainmark.messages.message import Message, declare


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
    "parity-nothing",
    en="{workload}: {one} and {other} were not compared in any stage; choose other --stages or --precision",
    zh="{workload}：没有任何阶段比较了 {one} 与 {other}；请选择其他 --stages 或 --precision",
)
def parity_nothing(*, workload: str, one: str, other: str) -> None: ...


@declare(
    "parity-short",
    en="a trajectory of {steps:# steps} is too short to prove anything; use --steps {least} or more",
    zh="{steps} 步的轨迹过短，不构成证明；请使用 --steps {least} 或更多",
)
def parity_short(*, steps: int, least: int) -> None: ...


# -- why compare gives no winner ---------------------------------------------------------------------------------------


@declare(
    "parity-not-checked",
    en="{one} and {other} are not proven equal, so neither is called faster; run: {command}",
    zh="尚未证明 {one} 与 {other} 等价，因此不判定快慢；请执行：{command}",
)
def parity_not_checked(*, one: str, other: str, command: str) -> None: ...


@declare(
    "parity-outdated",
    en="{one} and {other} were checked with another {what}, so neither is called faster; run: {command}",
    zh="{one} 与 {other} 的检查使用的是另一{what}，因此不判定快慢；请执行：{command}",
    words={
        "version of trainmark's code": "版本的 trainmark 代码",
        "version of the check": "版本的检查代码",
        "version of a framework": "框架版本",
    },
)
def parity_outdated(*, one: str, other: str, what: str, command: str) -> None: ...


@declare(
    "parity-other-settings",
    en="{one} and {other} are not proven equal: {names} can change results, and had other values in the parity check "
    "than in these runs; set or unset {names} as in the env.json of the runs, then run: {then}",
    zh="尚未证明 {one} 与 {other} 等价：{names} 会影响结果，而等价检查时的取值与这些运行不同；"
    "请按运行的 env.json 设置或取消 {names}，然后执行：{then}",
)
def parity_other_settings(*, one: str, other: str, names: list[str], then: str) -> None: ...


@declare(
    "parity-settings-disagree",
    en="{one} and {other} are not proven equal: {names} can change results, and had different values in these runs, "
    "which no parity check can have; measure both again with the same value",
    zh="尚未证明 {one} 与 {other} 等价：{names} 会影响结果，而这些运行的取值各不相同，任何等价检查都无法同时符合；"
    "请以相同取值重新测量两者",
)
def parity_settings_disagree(*, one: str, other: str, names: list[str]) -> None: ...


@declare(
    "parity-runs-outdated",
    en="{one} and {other} are not proven equal, and these runs were not made with the trainmark and the frameworks "
    "that are installed here; measure both again, then run: {then}",
    zh="尚未证明 {one} 与 {other} 等价，且这些运行不是用本机安装的 trainmark 和框架得到的；"
    "请重新测量两者，然后执行：{then}",
)
def parity_runs_outdated(*, one: str, other: str, then: str) -> None: ...


@declare(
    "parity-impossible",
    en="{one} and {other} are not proven equal, so neither is called faster; no parity check can prove it: {why}",
    zh="尚未证明 {one} 与 {other} 等价，因此不判定快慢；没有等价检查能够证明：{why}",
)
def parity_impossible(*, one: str, other: str, why: Message) -> None: ...


@declare(
    "parity-no-precision",
    en="{framework} has no {precision} on {device}",
    zh="{framework} 在 {device} 上没有 {precision}",
)
def parity_no_precision(*, framework: str, precision: str, device: str) -> None: ...


@declare(
    "parity-recipes-differ",
    en="a check compares one recipe of all frameworks with PyTorch's reference, and these runs use {one} and {other}",
    zh="一次检查只用所有框架的同一配方与 PyTorch 的 reference 比较，而这些运行使用 {one} 与 {other}",
)
def parity_recipes_differ(*, one: str, other: str) -> None: ...


@declare(
    "parity-stage-failed",
    en="{one} and {other} are not equal: stage {stage} of the parity check failed at {worst}; run: {command}",
    zh="{one} 与 {other} 不等价：等价检查的阶段 {stage} 在 {worst} 处不成立；请执行：{command}",
)
def parity_stage_failed(*, one: str, other: str, stage: str, worst: str, command: str) -> None: ...


@declare(
    "parity-stage-missing",
    en="{one} and {other} are not proven equal: these stages of the parity check have not run« on {device}»: "
    "{stages}; run: {command}",
    zh="尚未证明 {one} 与 {other} 等价：等价检查的以下阶段«在 {device} 上»尚未执行：{stages}；请执行：{command}",
)
def parity_stage_missing(*, one: str, other: str, stages: list[str], device: str | None, command: str) -> None: ...


@declare(
    "parity-stage-short",
    en="{one} and {other} are not proven equal: stage {stage} of the parity check was too short, it needs {steps} "
    "steps and {repeats} repeats of the reference; run: {command}",
    zh="尚未证明 {one} 与 {other} 等价：等价检查的阶段 {stage} 过短：至少需要 {steps} 步，"
    "且参考实现重复 {repeats} 次；请执行：{command}",
)
def parity_stage_short(*, one: str, other: str, stage: str, steps: int, repeats: int, command: str) -> None: ...
