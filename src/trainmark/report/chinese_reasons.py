"""In Chinese: why a run ended as it did, why a count is missing, why a cause is not known.

The sentences are made in `launch`, `worker`, `store` and `plan`; a test builds each by the function that makes it. The
first that matches counts, so that the particular stand before the general.
"""

from __future__ import annotations

from trainmark.report.translation import Template

_EXITS = (
    Template("exit code {code:n}", "退出码 {code}"),
    Template("signal {number:n}", "信号 {number}"),
    Template(
        "SIGKILL (by a person or by the kernel for lack of memory: see dmesg)",
        "SIGKILL（人为终止，或因内存不足被内核终止：见 dmesg）",
    ),
)

_RANKS = (
    Template("rank {rank:n}: {reason:t}", "rank {rank}：{reason}"),
    Template("rank {rank:n}« ({where:t})» {what:s}", "rank {rank}«（{where}）»{what}"),
    Template("the launcher, which takes its ranks with it, {what:s}", "启动器（所有 rank 随之结束）{what}"),
    Template("pid {pid:n} on {host:w}", "{host} 上的 pid {pid}"),
    Template("on {host:w}", "在 {host} 上"),
    Template("ended without a word", "未留下任何信息就结束了"),
    Template(
        "was ended by the kernel for lack of memory on the host (SIGKILL); use a smaller --batch-size",
        "因主机内存不足被内核终止（SIGKILL）；请减小 --batch-size",
    ),
    Template(
        "was ended by {how:t} when memory ran out; use a smaller --batch-size",
        "在内存耗尽时被终止：{how}；请减小 --batch-size",
    ),
    Template(
        "ended with {how:t} when memory ran out; use a smaller --batch-size",
        "在内存耗尽时异常结束：{how}；请减小 --batch-size",
    ),
    Template("was ended by {how:t}", "被终止：{how}"),
    Template("ended with {how:t}", "异常结束：{how}"),
    Template("is stopped", "处于停止状态"),
    Template("is stopped by a debugger", "被调试器暂停"),
    Template("has ended", "已结束"),
    Template(
        "waits inside the kernel (a disk, a network drive or a driver)",
        "在内核中等待（磁盘、网络盘或驱动）",
    ),
    Template(
        "made its last step {step:n}, while others came to {most:n}",
        "停在第 {step} 步，而其他 rank 已到第 {most} 步",
    ),
)

_ENDINGS = (
    Template("a process could not be ended", "有进程无法终止"),
    Template(
        "all steps were done, but the process then ended with {how:t}",
        "所有步均已完成，但进程随后异常结束：{how}",
    ),
    Template("ended by {how:t}", "终止信号：{how}"),
    Template("ended before the last step with {how:t}", "未到最后一步就结束：{how}"),
    Template(
        "took longer than {seconds:n} s; raise --timeout-s if that is normal for it",
        "用时超过 {seconds} s；如属正常，请增大 --timeout-s",
    ),
    Template("interrupted by {who:w}; the steps so far are kept", "被 {who} 中断；已完成的步均已保留"),
    Template("interrupted by {who:w} before it began", "尚未开始就被 {who} 中断"),
    Template("interrupted by {who:w}", "被 {who} 中断"),
    Template("the controller failed«: {error}»", "控制进程出错«：{error}»"),
    Template(
        "the controller ended before the run did; the steps so far are kept",
        "控制进程先于运行结束；已完成的步均已保留",
    ),
    Template("still running", "仍在运行"),
    Template("starting", "正在启动"),
    Template("the folder cannot be read: {why:t}", "运行目录无法读取：{why}"),
    Template("{file:w} is damaged", "{file} 已损坏"),
)

_SILENCE = (
    Template(
        "all ranks had ended for {seconds:n} s, but their processes had not",
        "所有 rank 已结束 {seconds} s，但其进程仍未退出",
    ),
    Template(
        "no step for {seconds:n} s« (usual step {usual})»«: {what:l}»",
        "已有 {seconds} s 没有完成任何一步«（通常一步用时 {usual}）»«：{what}»",
    ),
    Template("{what:l}; the others wait for it", "{what}；其余 rank 在等待它"),
    Template("no rank is behind another", "没有 rank 落后于其他 rank"),
    Template("process {pid:n} of the run is stopped", "本次运行的进程 {pid} 处于停止状态"),
    Template(
        "neither a step nor a word for {seconds:n} s« (usually {usual} from one to the next)»«: {what:l}»",
        "已有 {seconds} s 既没有完成任何一步，也没有任何输出«（通常每隔 {usual} 一次）»«：{what}»",
    ),
    Template(
        "for the stacks of a command: pip install py-spy (and, not as root, allow ptrace)",
        "如需命令的调用栈：pip install py-spy（非 root 用户还须允许 ptrace）",
    ),
    Template("py-spy could read no process: {problem:t}", "py-spy 无法读取任何进程：{problem}"),
    Template("no process is left", "已没有进程"),
    Template("the stacks could not be written: {why}", "无法写入调用栈：{why}"),
)

_COMMANDS = (
    Template("the last loss that the command printed was {loss:w}", "命令最后打印的损失值为 {loss}"),
    Template("the loss was no number at step {step:w}", "第 {step} 步的损失值不是数字"),
    Template(
        "the command was ended by the kernel for lack of memory on the host (SIGKILL)",
        "主机内存不足，命令被内核终止（SIGKILL）",
    ),
    Template("the command was ended by {how:t}", "命令被终止：{how}"),
    Template("the command ended with exit code {code:n}«: {last}»", "命令以退出码 {code} 结束«：{last}»"),
)

_TRAINING = (
    Template(
        "{kind:w}: CUDA out of memory.« {detail}»; out of memory« within the {limit} that this process may have»: "
        "use a smaller --batch-size",
        "显存不足«（本进程的上限为 {limit}）»：请减小 --batch-size；原始错误：{kind}: CUDA out of memory.« {detail}»",
    ),
    Template(
        "{error}; out of memory« within the {limit} that this process may have»: use a smaller --batch-size",
        "内存不足«（本进程的上限为 {limit}）»：请减小 --batch-size；原始错误：{error}",
    ),
    Template(
        "the loss was {loss:n} at every step, to the last digit: nothing is being trained",
        "每一步的损失值都是 {loss}，分毫不差：实际上没有在训练",
    ),
    Template("the loss was {loss:n} at step {step:n}; {advice:t}", "第 {step} 步的损失值为 {loss}；{advice}"),
    Template(
        "fp16 holds nothing above 65504: try --precision bf16; else {advice:t}",
        "fp16 无法表示大于 65504 的数：请尝试 --precision bf16；或者，{advice}",
    ),
    Template(
        "the learning rate was {rate:n}« on its way to {peak:n}»: try --lr {lower:n} (the recipe's own)",
        "当时学习率为 {rate}«（正升至 {peak}）»：请尝试 --lr {lower}（配方的默认值）",
    ),
    Template(
        "the learning rate was {rate:n}« on its way to {peak:n}»: try --lr {lower:n} (a tenth)",
        "当时学习率为 {rate}«（正升至 {peak}）»：请尝试 --lr {lower}（降为十分之一）",
    ),
    Template(
        "the loss did not fall: {first:n} at first, {last:n} at last; check the data and the learning rate",
        "损失值没有下降：开始为 {first}，最后为 {last}；请检查数据和学习率",
    ),
    Template(
        "the loss rose from {first:n} to {last:n}; try a lower learning rate",
        "损失值从 {first} 升至 {last}；请尝试更低的学习率",
    ),
    Template(
        "no weight changed in {steps:n} steps: the optimizer does nothing",
        "{steps} 步内没有任何权重发生变化：优化器没有起作用",
    ),
    Template(
        "the evaluation gave {metric:w} = {value:n}, which is no fraction between 0 and 1",
        "评估得到 {metric} = {value}，不是 0 到 1 之间的数",
    ),
    Template("records could not be written: {why}", "无法写入记录：{why}"),
    Template("this data has no epochs; give --data DIR", "该数据没有 epoch 之分；请给出 --data DIR"),
    Template("as another rank asked; see its rank file", "应另一 rank 的要求结束；见其 rank 文件"),
)

_SKIPS = (
    Template(
        "{framework:w} is not installed; pip install 'trainmark[{extra:w}]'",
        "未安装 {framework}；请执行 pip install 'trainmark[{extra}]'",
    ),
    Template(
        "no NVIDIA GPU is visible here; use --device cpu, or look at nvidia-smi and CUDA_VISIBLE_DEVICES",
        "本机没有可见的 NVIDIA GPU；请使用 --device cpu，或检查 nvidia-smi 和 CUDA_VISIBLE_DEVICES",
    ),
    Template(
        "{asked:n} devices asked for, {there:n} GPU(s) here; use --devices {most:n} or fewer",
        "要求 {asked} 个设备，本机有 {there} 块 GPU；请使用 --devices {most} 或更少",
    ),
    Template(
        "{asked:n} devices asked for, {there:n} CPU core(s) here; use --devices {most:n} or fewer",
        "要求 {asked} 个设备，本机有 {there} 个 CPU 核；请使用 --devices {most} 或更少",
    ),
    Template(
        "{asked:n} nodes asked for, 1 machine is known; give --hosts A,B or --launcher slurm",
        "要求 {asked} 个节点，已知机器只有 1 台；请给出 --hosts A,B 或 --launcher slurm",
    ),
    Template(
        "{asked:n} nodes asked for, {known:n} machines are known; give --hosts A,B or --launcher slurm",
        "要求 {asked} 个节点，已知机器有 {known} 台；请给出 --hosts A,B 或 --launcher slurm",
    ),
    Template(
        "tf32 is a mode of NVIDIA GPUs; a CPU has none; use --precision fp32",
        "tf32 是 NVIDIA GPU 的模式，CPU 没有；请使用 --precision fp32",
    ),
)

_COMMUNICATION = (
    Template(
        "the whole step is one captured graph, exchange included",
        "整个训练步（包括通信）被捕获为一个 CUDA graph",
    ),
    Template("there is one process only", "只有一个进程"),
    Template("it could not be measured: {error}", "无法测量：{error}"),
)

REASONS = (*_EXITS, *_RANKS, *_ENDINGS, *_SILENCE, *_COMMANDS, *_TRAINING, *_SKIPS, *_COMMUNICATION)
