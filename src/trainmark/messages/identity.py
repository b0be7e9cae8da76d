"""About runs whose code or machine is not recorded."""

from __future__ import annotations

from trainmark.messages.message import declare


@declare(
    "pooled-unknown",
    title="代码或机器未知",
    en="averaged over {num:# runs}« of the folder {folder}»« of the sweep {sweep}» that do not record their code or "
    "machine; keep logs of different code in different folders",
    zh="«文件夹 {folder} 中»«扫描 {sweep} 中»的共 {num} 次运行取了平均，但没有记录其代码或机器；"
    "不同代码的日志请放在不同的文件夹中",
)
def pooled_unknown(*, num: int, folder: str | None, sweep: str | None) -> None: ...
