"""Which rank of a run ended or hangs, and what is known of it."""

from __future__ import annotations

from collections.abc import Sequence

from trainmark.messages.message import Message, declare


@declare("rank-reason", en="rank {rank}: {reason}", zh="rank {rank}：{reason}")
def rank_reason(*, rank: int, reason: Message) -> None: ...


@declare(
    "rank",
    en="rank {rank}« (pid {pid} on {host})| (pid {pid})| (on {host})»",
    zh="rank {rank}«（{host} 上的 pid {pid}）|（pid {pid}）|（在 {host} 上）| »",
)
def name_rank(*, rank: int, pid: int | None, host: str | None) -> None: ...


@declare("launcher", en="the launcher (and all ranks with it)", zh="启动器（所有 rank 随之结束）")
def launcher() -> None: ...


# -- ranks that ended ------------------------------------------------------------------------------------------------


@declare("rank-vanished", en="{who} ended without a message", zh="{who}未留下任何信息就结束了")
def rank_vanished(*, who: Message) -> None: ...


@declare("node-failed", en="node {host} failed, as Slurm reports", zh="Slurm 报告节点 {host} 故障")
def node_failed(*, host: str) -> None: ...


@declare("rank-killed", en="{who} was killed by {how}", zh="{who}被终止：{how}")
def rank_killed(*, who: Message, how: Message) -> None: ...


@declare("rank-failed", en="{who} ended with {how}", zh="{who}异常结束：{how}")
def rank_failed(*, who: Message, how: Message) -> None: ...


@declare(
    "rank-out-of-memory",
    en="{ended} when memory ran out; use a smaller --batch-size",
    zh="{ended}；当时内存已耗尽；请减小 --batch-size",
)
def rank_out_of_memory(*, ended: Message) -> None: ...


@declare(
    "rank-killed-by-kernel",
    en="{who} was killed by the kernel because the host ran out of memory (SIGKILL); use a smaller --batch-size",
    zh="{who}因主机内存不足被内核终止（SIGKILL）；请减小 --batch-size",
)
def rank_killed_by_kernel(*, who: Message) -> None: ...


# -- ranks that hang -------------------------------------------------------------------------------------------------


@declare("rank-stopped", en="{who} is stopped", zh="{who}处于停止状态")
def rank_stopped(*, who: Message) -> None: ...


@declare("rank-in-debugger", en="{who} is stopped by a debugger", zh="{who}被调试器暂停")
def rank_in_debugger(*, who: Message) -> None: ...


@declare("rank-ended", en="{who} has ended", zh="{who}已结束")
def rank_ended(*, who: Message) -> None: ...


@declare(
    "rank-in-kernel",
    en="{who} waits inside the kernel (a disk, a network drive or a driver)",
    zh="{who}在内核中等待（磁盘、网络盘或驱动）",
)
def rank_in_kernel(*, who: Message) -> None: ...


@declare(
    "rank-behind",
    en="{who} stopped after step {step}, while others reached step {most}",
    zh="{who}停在第 {step} 步，而其他 rank 已到第 {most} 步",
)
def rank_behind(*, who: Message, step: int, most: int) -> None: ...


@declare("others-wait", en="{cause}; the others wait for it", zh="{cause}；其余 rank 在等待它")
def others_wait(*, cause: Message) -> None: ...


@declare("none-behind", en="no rank is behind the others", zh="没有 rank 落后于其他 rank")
def none_behind() -> None: ...


@declare("process-stopped", en="process {pid} of the run is stopped", zh="本次运行的进程 {pid} 处于停止状态")
def process_stopped(*, pid: int) -> None: ...


@declare(
    "no-step",
    en="no step for {seconds:.0f} s« (usual step {usual_s:seconds})»«: {causes}»",
    zh="已有 {seconds:.0f} s 没有完成任何一步«（通常一步用时 {usual_s:seconds}）»«：{causes}»",
)
def no_step(*, seconds: float, usual_s: float | None, causes: Sequence[Message]) -> None: ...


@declare(
    "processes-hang",
    en="all ranks finished {seconds:.0f} s ago, but their processes did not exit",
    zh="所有 rank 已结束 {seconds:.0f} s，但其进程仍未退出",
)
def processes_hang(*, seconds: float) -> None: ...


@declare(
    "another-rank",
    en="ended because another rank asked to; see its rank file",
    zh="应另一 rank 的要求结束；见其 rank 文件",
)
def another_rank() -> None: ...
