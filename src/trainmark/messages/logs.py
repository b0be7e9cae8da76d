"""Warnings about a log that was imported, found while reading it."""

from __future__ import annotations

from trainmark.messages.message import declare

_FACTS = {
    "framework": "框架",
    "devices": "设备数",
    "nodes": "节点数",
    "batch_size_per_device": "单设备批大小",
    "precision": "精度",
    "workload": "模型",
    "learning_rate": "学习率",
}


@declare(
    "path-disagrees",
    title="路径与日志不符",
    en="the log says {name} {log}, its path says {path}; the log is used",
    zh="日志中{name}为 {log}，路径中为 {path}；以日志为准",
    words=_FACTS,
)
def path_disagrees(*, name: str, log: str, path: str) -> None: ...


@declare(
    "config-contradicted",
    title="配置与实际不符",
    en="the printed configuration says {name} {config}, the run used {used}; what it used counts",
    zh="打印的配置中{name}为 {config}，实际使用的是 {used}；以实际为准",
    words=_FACTS,
)
def config_contradicted(*, name: str, config: str, used: str) -> None: ...


@declare(
    "scope-ambiguous",
    title="速率口径不明",
    en="the log does not say whether its rates are for one device or for all; no rate is reported",
    zh="其速率可能是单个设备的，也可能是全部设备的，日志没有说明；因此不给出速率",
)
def scope_ambiguous() -> None: ...


@declare(
    "devices-unknown",
    title="设备数未知",
    en="its rates are for one device and the log does not say how many there were; give --devices",
    zh="其速率是单个设备的，而日志没有说明设备数；请给出 --devices",
)
def devices_unknown() -> None: ...


@declare(
    "batch-unknown",
    title="批大小未知",
    en="it logs seconds per iteration but no batch size; rates count iterations; give --batch-size",
    zh="日志只有每次迭代的秒数，没有批大小；速率按迭代计；请给出 --batch-size",
)
def batch_unknown() -> None: ...


@declare(
    "one-node-of-many",
    title="仅为多个节点之一",
    en="the rate is that of one of {nodes} nodes; the others have their own logs",
    zh="该速率是 {nodes} 个节点之一的速率；其他节点另有各自的日志",
)
def one_node_of_many(*, nodes: int) -> None: ...


@declare(
    "several-ranks",
    title="多个 rank 写入同一文件",
    en="{count} lines of other ranks repeat the same steps and were left out",
    zh="其他 rank 的 {count} 行记录了相同的步，已略去",
)
def several_ranks(*, count: int) -> None: ...


@declare(
    "damaged",
    title="文件损坏",
    en="the file ends in the middle of its compressed data; everything before that was read",
    zh="文件在压缩数据的中间结束；此前的内容已读取",
)
def damaged() -> None: ...


@declare(
    "edited-times",
    title="时间戳被改动",
    en="the time stamps of its begin and end marks are {days:.0f} days away from those of its other lines",
    zh="其起止标记的时间戳与其他行的时间戳相差 {days:.0f} 天",
)
def edited_times(*, days: float) -> None: ...


@declare(
    "no-end",
    title="日志没有结束标记",
    en="the log has a test_begin but no test_finish; it may have been cut short",
    zh="日志有 test_begin 而没有 test_finish；日志可能不完整",
)
def no_end() -> None: ...


@declare(
    "median-not-mean",
    title="中位数不是平均值",
    en="it prints medians of the last steps and has neither totals nor time stamps; slow steps are not counted",
    zh="日志打印的是最近若干步的中位数，既无累计值也无时间戳；慢步未计入",
)
def median_not_mean() -> None: ...


@declare(
    "smoothed-not-mean",
    title="平滑值不是平均值",
    en="it prints moving averages and has neither totals nor time stamps; slow steps are counted only in part",
    zh="日志打印的是滑动平均值，既无累计值也无时间戳；慢步只部分计入",
)
def smoothed_not_mean() -> None: ...


@declare(
    "sampled-steps",
    title="只打印了部分步",
    en="it prints the time of one step in {every} and no running totals; the steps between are not counted",
    zh="日志每 {every} 步只打印一步的耗时，且无累计值；其间的步未计入",
)
def sampled_steps(*, every: int) -> None: ...


@declare(
    "includes-validation",
    title="耗时包含验证",
    en="the times of its epochs include the validation, and no line says how long that took; the speed is too low",
    zh="各轮的耗时包含验证，而日志没有给出验证的耗时；速度偏低",
)
def includes_validation() -> None: ...


@declare(
    "generic-reading",
    title="通用读取",
    en="no known log format fits; numbers with a unit such as images/s were read ({dialect}): check what they count, "
    "or describe the format with --pattern",
    zh="没有匹配的日志格式；按通用方式（{dialect}）读取了带单位的数字：请核对其含义，或用 --pattern 描述格式",
)
def generic_reading(*, dialect: str) -> None: ...


@declare(
    "clock-disagrees",
    title="打印值与时钟不符",
    en="the printed numbers add up to {printed_s:.4g} s, the time stamps of the same lines say {clock_s:.4g} s "
    "({times:.3g} times): check the unit, or what a number covers",
    zh="打印的数值合计 {printed_s:.4g} s，而各行时间戳为 {clock_s:.4g} s（{times:.3g} 倍）：请核对单位或数值的含义",
)
def clock_disagrees(*, printed_s: float, clock_s: float, times: float) -> None: ...


@declare(
    "no-time-printed",
    title="没有打印时间",
    en="it prints neither times nor time stamps, so it has no speed; `trainmark run -- COMMAND` measures it",
    zh="日志既未打印耗时也无时间戳，因此没有速度；可用 `trainmark run -- 命令` 测量",
)
def no_time_printed() -> None: ...
