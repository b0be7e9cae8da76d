"""About commands of the user's own: how they ended, and what they did not tell."""

from __future__ import annotations

from collections.abc import Sequence

from trainmark.messages.message import Message, declare


@declare(
    "command-exited",
    en="the command ended with exit code {exit_code}«: {last_line}»",
    zh="命令以退出码 {exit_code} 结束«：{last_line}»",
)
def command_exited(*, exit_code: int, last_line: str | None) -> None: ...


@declare(
    "command-rank-failed",
    en="the command ended with exit code {exit_code}: rank {rank}: {error}",
    zh="命令以退出码 {exit_code} 结束：rank {rank}：{error}",
)
def command_rank_failed(*, exit_code: int, rank: int, error: str) -> None: ...


@declare("command-killed", en="the command was killed by {how}", zh="命令被终止：{how}")
def command_killed(*, how: Message) -> None: ...


@declare(
    "command-out-of-memory",
    en="the command was killed by the kernel because the host ran out of memory (SIGKILL)",
    zh="主机内存不足，命令被内核终止（SIGKILL）",
)
def command_out_of_memory() -> None: ...


@declare(
    "command-printed-bad-loss",
    en="the last loss that the command printed was {loss}",
    zh="命令最后打印的损失值为 {loss}",
)
def command_printed_bad_loss(*, loss: str) -> None: ...


@declare(
    "command-bad-loss",
    en="the loss was not a finite number« at step {step}»",
    zh="«第 {step} 步的»损失值不是有限的数",
)
def command_bad_loss(*, step: int | None) -> None: ...


@declare(
    "bad-mark",
    en="mark.step(samples={got})« at step {step}»: samples must be a finite number >= 0",
    zh="«第 {step} 步的 »mark.step(samples={got})：samples 必须是大于等于 0 的有限数",
)
def bad_mark(*, step: int | None, got: str) -> None: ...


@declare(
    "no-records",
    title="没有速度记录",
    en="no throughput found in the output of the command; give a regular expression with --pattern FILE.toml, or put "
    "`from trainmark import mark` and `mark.step(samples=...)` into the script",
    zh="命令的输出中没有识别出速度；请用 --pattern FILE.toml 给出正则表达式，"
    "或在脚本中加入 `from trainmark import mark` 和 `mark.step(samples=...)`",
)
def no_records() -> None: ...


@declare(
    "uneven-marks",
    title="各进程标记的步数不一致",
    en="its processes marked between {least} and {most} steps; only the first {least} of each count",
    zh="各进程标记的步数在 {least} 到 {most} 之间；每个进程只计前 {least} 步",
)
def uneven_marks(*, least: int, most: int) -> None: ...


@declare(
    "steps-left-out",
    title="部分步未计入",
    en="the speed is that of the first {used:# steps}; {left_out:# later steps} are left out, since memory is limited",
    zh="速度只反映前 {used} 步；为限制内存，其后的 {left_out} 步未计入",
)
def steps_left_out(*, used: int, left_out: int) -> None: ...


@declare(
    "uneven-observed",
    title="各进程的步数不一致",
    en="its processes did between {least} and {most} steps; only the first {least} of each count",
    zh="各进程执行的步数在 {least} 到 {most} 之间；每个进程只计前 {least} 步",
)
def uneven_observed(*, least: int, most: int) -> None: ...


@declare(
    "dispatch-times",
    title="部分步的时间不是完成时间",
    en="{count:# steps} of {total} have the time at which the host started them, not when the device was done: all "
    "their results were reused by the next step; call `mark.step` after a result is there for an exact speed",
    zh="{total} 步中有 {count} 步记录的是主机发起的时间，而不是设备完成的时间：其全部结果都被下一步复用；"
    "如需准确速度，请在结果可用之后调用 `mark.step`",
)
def dispatch_times(*, count: int, total: int) -> None: ...


# -- witnesses -------------------------------------------------------------------------------------------------------


@declare(
    "witnesses-disagree",
    title="速度的几种来源不一致",
    en="the result rests on the {witness}, and other witnesses differ by {apart:.1%} over the same time« (observer "
    "{observer:.6g})»« (mark {mark:.6g})»« (log {log:.6g})»« (clock {clock:.6g})», in {unit}/s",
    zh="结果以 {witness} 为准，同一时段内其他来源与之相差 {apart:.1%}«（observer {observer:.6g}）»«（mark {mark:.6g}）»"
    "«（log {log:.6g}）»«（clock {clock:.6g}）»，单位 {unit}/s",
)
def witnesses_disagree(
    *,
    witness: str,
    apart: float,
    unit: str,
    observer: float | None,
    mark: float | None,
    log: float | None,
    clock: float | None,
) -> None: ...


@declare(
    "not-observed",
    title="未能从进程内部观测训练步",
    en="its steps were not observed from inside: {why}",
    zh="未能从进程内部观测训练步：{why}",
)
def not_observed(*, why: Message) -> None: ...


@declare(
    "hook-not-loaded",
    en="no Python process loaded the start-up hook (not Python, run with -S, -I or -E, embedded, or with a PYTHONPATH "
    "of its own)",
    zh="没有 Python 进程加载启动钩子（不是 Python，使用了 -S、-I 或 -E，嵌入式解释器，或自行设置了 PYTHONPATH）",
)
def hook_not_loaded() -> None: ...


@declare(
    "no-framework",
    en="none of torch, paddle, tensorflow, keras and jax was imported by a Python process of the command",
    zh="命令的 Python 进程没有导入 torch、paddle、tensorflow、keras 或 jax",
)
def no_framework() -> None: ...


@declare(
    "no-optimizer-step",
    en="{frameworks} was imported, but fewer than two optimizer steps were seen",
    zh="导入了 {frameworks}，但看到的优化器步数不足两步",
)
def no_optimizer_step(*, frameworks: Sequence[str]) -> None: ...


@declare("observer-failed", en="the observer failed: {errors}", zh="观测程序出错：{errors}")
def observer_failed(*, errors: Sequence[str]) -> None: ...


# -- silence ---------------------------------------------------------------------------------------------------------


@declare(
    "no-output",
    en="no step and no output for {seconds:.0f} s« (usually one every {usual_s:seconds})»«: {stopped}»«; {no_stacks}»",
    zh="已有 {seconds:.0f} s 既没有完成任何一步，也没有任何输出«（通常每隔 {usual_s:seconds} 一次）»"
    "«：{stopped}»«；{no_stacks}»",
)
def no_output(
    *, seconds: float, usual_s: float | None, stopped: Sequence[Message], no_stacks: Message | None
) -> None: ...


@declare(
    "py-spy-missing",
    en="to see the stacks of a command, pip install py-spy (without root, also allow ptrace)",
    zh="如需命令的调用栈：pip install py-spy（非 root 用户还须允许 ptrace）",
)
def py_spy_missing() -> None: ...


@declare("py-spy-failed", en="py-spy could not read any process: {problem}", zh="py-spy 无法读取任何进程：{problem}")
def py_spy_failed(*, problem: Message | str) -> None: ...


@declare("no-process", en="no process is left", zh="已没有进程")
def no_process() -> None: ...


@declare("stacks-not-written", en="the stacks could not be written: {why}", zh="无法写入调用栈：{why}")
def stacks_not_written(*, why: str) -> None: ...
