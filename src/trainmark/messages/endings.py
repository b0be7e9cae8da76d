"""Why a run ended as it did: its processes, its controller, its folder."""

from __future__ import annotations

from trainmark.messages.message import Message, declare

# -- how a process ended ---------------------------------------------------------------------------------------------


@declare("exit-code", en="exit code {exit_code}", zh="退出码 {exit_code}")
def exit_code(*, exit_code: int) -> None: ...


@declare("signal", en="{name}", zh="{name}")
def named_signal(*, name: str) -> None: ...


@declare("signal-number", en="signal {number}", zh="信号 {number}")
def numbered_signal(*, number: int) -> None: ...


@declare(
    "sigkill",
    en="SIGKILL (sent by a person, or by the kernel when memory ran out: see dmesg)",
    zh="SIGKILL（人为终止，或因内存不足被内核终止：见 dmesg）",
)
def sigkill() -> None: ...


# -- how a run ended -------------------------------------------------------------------------------------------------


@declare("raised", en="{error}", zh="{error}")
def raised(*, error: str) -> None:
    """An exception of a library or a script, in its own words."""


@declare("process-left", en="a process could not be killed", zh="有进程无法终止")
def process_left() -> None: ...


@declare(
    "failed-after-last-step",
    en="all steps were done, but the process then failed: {how}",
    zh="所有步均已完成，但进程随后异常结束：{how}",
)
def failed_after_last_step(*, how: Message) -> None: ...


@declare(
    "died-after-last-step",
    title="最后一步之后异常结束",
    en="all steps were done and recorded; then: {how}",
    zh="所有步均已完成并记录；随后：{how}",
)
def died_after_last_step(*, how: Message) -> None:
    """The measurement is complete, so it keeps its result."""


@declare("killed", en="killed by {how}", zh="终止信号：{how}")
def killed(*, how: Message) -> None: ...


@declare("ended-early", en="ended before the last step: {how}", zh="未到最后一步就结束：{how}")
def ended_early(*, how: Message) -> None: ...


@declare(
    "processes-remained", en="{reason}; its processes did not exit by themselves", zh="{reason}；其进程没有自行退出"
)
def processes_remained(*, reason: Message) -> None:
    """A finished run whose processes had to be ended."""


@declare(
    "timeout",
    en="took longer than {seconds:.0f} s; raise --timeout-s if that is normal",
    zh="用时超过 {seconds:.0f} s；如属正常，请增大 --timeout-s",
)
def timed_out(*, seconds: float) -> None: ...


# -- interruptions ---------------------------------------------------------------------------------------------------


@declare("interrupted", en="interrupted by {signal}", zh="被 {signal} 中断")
def interrupted(*, signal: str) -> None: ...


@declare(
    "interrupted-steps-kept",
    en="interrupted by {signal}; the steps so far are kept",
    zh="被 {signal} 中断；已完成的步均已保留",
)
def interrupted_steps_kept(*, signal: str) -> None: ...


@declare("interrupted-at-start", en="interrupted by {signal} before it started", zh="尚未开始就被 {signal} 中断")
def interrupted_at_start(*, signal: str) -> None: ...


# -- the controller --------------------------------------------------------------------------------------------------


@declare("controller-failed", en="the controller failed«: {error}»", zh="控制进程出错«：{error}»")
def controller_failed(*, error: str | None) -> None: ...


@declare(
    "controller-gone",
    en="the controller ended before the run did; the steps so far are kept",
    zh="控制进程先于运行结束；已完成的步均已保留",
)
def controller_gone() -> None: ...


@declare("controller-stopped", en="the controller asked to stop", zh="控制进程要求停止")
def controller_stopped() -> None: ...


# -- the folder ------------------------------------------------------------------------------------------------------


@declare("running", en="still running", zh="仍在运行")
def running() -> None: ...


@declare("starting", en="starting", zh="正在启动")
def starting() -> None: ...


@declare("unreadable", en="the folder cannot be read: «{file}: »{why}", zh="运行目录无法读取：«{file}：»{why}")
def unreadable(*, file: str | None, why: Message | str) -> None: ...


@declare("file-damaged", en="{file} is damaged", zh="{file} 已损坏")
def file_damaged(*, file: str) -> None: ...


@declare(
    "changed-after-end",
    title="结束后文件被改动",
    en="not as the run left it: {files}; its numbers may have changed",
    zh="与运行结束时不一致：{files}；其数值可能已改变",
)
def changed_after_end(*, files: list[str]) -> None: ...


@declare(
    "no-end-record",
    title="记录缺少结尾",
    en="{file} has no record of the end, though the run ended well: records are missing",
    zh="运行正常结束，但 {file} 中没有结束记录：缺少部分记录",
)
def no_end_record(*, file: str) -> None: ...


@declare("imported", en="imported from {path}", zh="从 {path} 导入")
def imported(*, path: str) -> None: ...
