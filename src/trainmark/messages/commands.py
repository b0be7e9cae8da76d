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
