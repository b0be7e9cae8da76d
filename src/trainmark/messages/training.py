"""About a training or a measurement of speed while it runs: its end, its loss, its memory, its samples."""

from __future__ import annotations

from collections.abc import Sequence

from trainmark.messages.message import Message, declare

# -- could not resume --------------------------------------------------------------------------------------------------


@declare(
    "checkpoint-refused",
    en="the checkpoint {name} was refused and nothing of it was used: {why}; run without --resume to start over",
    zh="检查点 {name} 被拒绝，未使用其中任何内容：{why}；不带 --resume 运行即可重新开始",
)
def checkpoint_refused(*, name: str, why: Message) -> None: ...


@declare(
    "checkpoint-has-objects",
    en="it has objects that could run code, and trainmark writes only tensors and plain values",
    zh="其中有可能执行代码的对象，而 trainmark 只写入张量和普通数值",
)
def checkpoint_has_objects() -> None: ...


@declare(
    "checkpoint-damaged", en="it is damaged, or not a checkpoint ({error})", zh="文件已损坏，或不是检查点（{error}）"
)
def checkpoint_damaged(*, error: str) -> None: ...


@declare(
    "checkpoint-of-another",
    en="it is not a trainmark checkpoint of this workload ({error})",
    zh="它不是本任务的 trainmark 检查点（{error}）",
)
def checkpoint_of_another(*, error: str) -> None: ...


# -- ended as wanted -------------------------------------------------------------------------------------------------


@declare("steps-done", en="{steps:# steps} done«, {epochs:# epochs}»", zh="已完成 {steps} 步«（{epochs:g} 个 epoch）»")
def steps_done(*, steps: int, epochs: float | None) -> None: ...


@declare(
    "target-reached",
    en="target reached after {steps:# steps}, {epochs:# epochs}: {reached}",
    zh="{steps} 步（{epochs:g} 个 epoch）后达到目标：{reached}",
)
def target_reached(*, steps: int, epochs: float, reached: Sequence[str]) -> None: ...


@declare(
    "target-not-reached",
    title="未达到目标",
    en="target not reached in {steps:# steps}, {epochs:# epochs}: {wanted}",
    zh="完成 {steps} 步（{epochs:g} 个 epoch）后仍未达到目标：{wanted}",
)
def target_not_reached(*, steps: int, epochs: float, wanted: Sequence[str]) -> None: ...


@declare("time-limit", en="stopped at the {seconds:g} s limit", zh="已到 {seconds:g} s 的时间上限")
def time_limit(*, seconds: float) -> None: ...


@declare(
    "target-missed",
    en="{reason} (target ±{target:.3g}% not reached: ±{half_width:.2g}%)",
    zh="{reason}（未达到目标 ±{target:.3g}%：±{half_width:.2g}%）",
)
def target_missed(*, reason: Message, target: float, half_width: float) -> None:
    """In percent."""


@declare("noisy-end", en="{reason}; too noisy to be a result", zh="{reason}；噪声过大，不能作为结果")
def noisy_end(*, reason: Message) -> None: ...


@declare(
    "precise-enough",
    en="precise enough: ±{half_width:.2%}, target ±{target:.2%}",
    zh="精度已够：±{half_width:.2%}，目标 ±{target:.2%}",
)
def precise_enough(*, half_width: float, target: float) -> None: ...


@declare(
    "step-limit",
    en="stopped at the limit of {steps:# steps}; {why}",
    zh="已到 {steps} 步的上限；{why}",
)
def step_limit(*, steps: int, why: Message) -> None: ...


@declare("first-steps", en="{steps} of the first {least} steps measured", zh="前 {least} 步中已测量 {steps} 步")
def first_steps(*, steps: int, least: int) -> None: ...


@declare(
    "too-few-steps",
    en="{steps:# steps} since the warm-up, at least {least} are needed",
    zh="预热后只有 {steps} 步，至少需要 {least} 步",
)
def too_few_steps(*, steps: int, least: int) -> None: ...


@declare(
    "interval-too-wide",
    en="target ±{target:.2%} not reached: ±{half_width:.2%}",
    zh="未达到目标 ±{target:.2%}：现为 ±{half_width:.2%}",
)
def interval_too_wide(*, half_width: float, target: float) -> None: ...


@declare(
    "too-little-freedom",
    en="the interval of ±{half_width:.2%} has {dof:.0f} degrees of freedom, at least {least:.0f} are needed",
    zh="±{half_width:.2%} 的区间只有 {dof:.0f} 个自由度，至少需要 {least:.0f} 个",
)
def too_little_freedom(*, half_width: float, dof: float, least: float) -> None: ...


@declare(
    "not-far-enough",
    en="{steps} of {far} steps measured: what is rare is not seen in fewer",
    zh="已测量 {far} 步中的 {steps} 步：步数更少则看不到罕见的情况",
)
def not_far_enough(*, steps: int, far: int) -> None: ...


@declare("sizes-done", en="all sizes done", zh="所有大小均已测量")
def sizes_done() -> None:
    """The measurement of the network."""


# -- memory ----------------------------------------------------------------------------------------------------------


@declare(
    "out-of-memory",
    en="{error}; out of memory« within the {limit_bytes:bytes} that this process may use»: use a smaller --batch-size",
    zh="内存/显存不足«（本进程的上限为 {limit_bytes:bytes}）»：请减小 --batch-size；原始错误：{error}",
)
def out_of_memory(*, error: str, limit_bytes: int | None) -> None: ...


# -- the loss --------------------------------------------------------------------------------------------------------


@declare(
    "bad-loss", en="the loss was {loss} at step {step}«; {advice}»", zh="第 {step} 步的损失值为 {loss}«；{advice}»"
)
def bad_loss(*, loss: str, step: int, advice: Message | None) -> None: ...


@declare(
    "try-lower-rate",
    en="the learning rate was {rate:.3g}« (rising to {peak:.3g})»: try --lr {lower:.3g} ({whose})",
    zh="当时学习率为 {rate:.3g}«（正升至 {peak:.3g}）»：请尝试 --lr {lower:.3g}（{whose}）",
    words={"the recipe's own": "配方的默认值", "a tenth": "降为十分之一"},
)
def try_lower_rate(*, rate: float, peak: float | None, lower: float, whose: str) -> None: ...


@declare(
    "try-bf16",
    en="fp16 cannot hold numbers above 65504: try --precision bf16; otherwise {advice}",
    zh="fp16 无法表示大于 65504 的数：请尝试 --precision bf16；或者，{advice}",
)
def try_bf16(*, advice: Message) -> None: ...


@declare(
    "loss-constant",
    en="the loss was {loss:.4g} at every step, to the last digit: nothing is being trained",
    zh="每一步的损失值都是 {loss:.4g}，分毫不差：实际上没有在训练",
)
def loss_constant(*, loss: float) -> None: ...


@declare(
    "loss-rose",
    en="the loss rose from {first:.4g} to {last:.4g}; try a lower learning rate",
    zh="损失值从 {first:.4g} 升至 {last:.4g}；请尝试更低的学习率",
)
def loss_rose(*, first: float, last: float) -> None: ...


@declare(
    "loss-did-not-fall",
    en="the loss did not fall: {first:.4g} at the start, {last:.4g} at the end; check the data and the learning rate",
    zh="损失值没有下降：开始为 {first:.4g}，最后为 {last:.4g}；请检查数据和学习率",
)
def loss_did_not_fall(*, first: float, last: float) -> None: ...


# -- what is not right -----------------------------------------------------------------------------------------------


@declare(
    "weights-unchanged",
    en="no weight changed in {steps} steps: the optimizer does nothing",
    zh="{steps} 步内没有任何权重发生变化：优化器没有起作用",
)
def weights_unchanged(*, steps: int) -> None: ...


@declare(
    "metric-out-of-range",
    en="the evaluation gave {metric} = {value}, which is not between 0 and 1",
    zh="评估得到 {metric} = {value}，不在 0 到 1 之间",
)
def metric_out_of_range(*, metric: str, value: str) -> None: ...


@declare("records-not-written", en="records could not be written: {why}", zh="无法写入记录：{why}")
def records_not_written(*, why: str) -> None: ...


@declare("no-epochs", en="this data has no epochs; give --data DIR", zh="该数据没有 epoch 之分；请给出 --data DIR")
def no_epochs() -> None: ...


# -- warnings --------------------------------------------------------------------------------------------------------


@declare("bad-sample", title="样本损坏", en="{path}: {problem}", zh="{path}：{problem}")
def bad_sample(*, path: str, problem: str) -> None: ...


@declare("not-compiled", title="未经编译", en="{what}", zh="{what}")
def not_compiled(*, what: Message) -> None: ...


@declare(
    "no-cpp-compiler",
    en="no C++ compiler (g++) was found, so `fast` runs without torch.compile; install g++",
    zh="没有找到 C++ 编译器（g++），因此 `fast` 未使用 torch.compile；请安装 g++",
)
def no_cpp_compiler() -> None: ...


@declare(
    "no-resize-kernel",
    en="the kernel that resizes images could not be built ({why}), so they are resized by matrix products, which slows "
    "training on a GPU; building it needs Triton and a C compiler",
    zh="未能编译缩放内核（{why}），图像改用矩阵乘法缩放，会拖慢 GPU 训练；编译它需要 Triton 和 C 编译器",
)
def no_resize_kernel(*, why: str) -> None: ...
