"""Warnings about the machine during a run: who else used it, and what slowed it down."""

from __future__ import annotations

from collections.abc import Sequence

from trainmark.messages.message import Message, declare


@declare("gpu", en="GPU {index}« of {host} (rank {rank})»", zh="«{host} 的 »GPU {index}«（rank {rank}）»")
def name_gpu(*, index: int, host: str | None, rank: int | None) -> None: ...


@declare("this-host", en="this host", zh="本机")
def this_host() -> None: ...


@declare(
    "foreign-gpu-process",
    title="GPU 被其他进程占用",
    en="{gpu} was shared in {shared} of {samples} samples, by «{name}|a process» (pid {pid})« using {used_bytes:bytes}»"
    "« and {more} more»; end it or choose a free GPU with CUDA_VISIBLE_DEVICES, then run again",
    zh="{gpu}：{samples} 次采样中有 {shared} 次被其他进程共用：«{name}|某进程»（pid {pid}«，占用 {used_bytes:bytes}»）"
    "«，另有 {more} 个进程»；请结束该进程，或用 CUDA_VISIBLE_DEVICES 选择空闲的 GPU，然后重新运行",
)
def foreign_gpu_process(
    *,
    gpu: Message,
    shared: int,
    samples: int,
    name: str | None,
    pid: int,
    used_bytes: int | None,
    more: int | None,
) -> None: ...


@declare(
    "power-capped",
    en="software power cap of {limit_w:.0f} W, usual {usual_w:.0f} W",
    zh="软件功耗上限 {limit_w:.0f} W（通常 {usual_w:.0f} W）",
)
def power_capped(*, limit_w: float, usual_w: float) -> None: ...


@declare(
    "throttled",
    title="GPU 降频",
    en="{gpu} was slowed down in {share:.0%} of {samples} samples ({reasons})«; SM clock {clock_mhz} MHz then»"
    "«, {free_mhz} otherwise»«, at most {max_mhz:.0f}»; {actions:and}, then run again",
    zh="{gpu}：{samples} 次采样中有 {share:.0%} 处于降频状态（{reasons}）«；当时 SM 频率为 {clock_mhz} MHz»"
    "«，其余时间为 {free_mhz} MHz»«，最高 {max_mhz:.0f} MHz»；请{actions:and}，然后重新运行",
    words={
        "hardware slowdown": "硬件降速",
        "software thermal slowdown": "软件过热降速",
        "hardware thermal slowdown": "硬件过热降速",
        "hardware power brake": "硬件功耗制动",
        "raise the limit with nvidia-smi -pl": "用 nvidia-smi -pl 提高功耗上限",
        "check cooling and power supply": "检查散热和供电",
        "check fans and air flow": "检查风扇和风道",
        "check the power supply": "检查供电",
    },
)
def throttled(
    *,
    gpu: Message,
    share: float,
    samples: int,
    reasons: Sequence[Message | str],
    clock_mhz: int | None,
    free_mhz: int | None,
    max_mhz: float | None,
    actions: Sequence[str],
) -> None: ...


@declare(
    "peak-not-measured",
    en="the peak of {machines:and} in {precisions:and} had not been measured; "
    "run trainmark doctor --peaks once on that machine, with PyTorch",
    zh="{machines:and} 在 {precisions:and} 下的峰值当时尚未测量；"
    "请在该机器上运行一次 trainmark doctor --peaks（需要 PyTorch）",
)
def peak_not_measured(*, machines: Sequence[str], precisions: Sequence[str]) -> None: ...


@declare(
    "clock-jump",
    title="系统时钟跳变",
    en="the clock of {host} jumped by {seconds:+.1f} s« ({times} times, this is the largest)» during the run: time "
    "stamps and wall time are off by that, steps and speed are not, since they use a clock that cannot be set; check "
    "the time service, or whether the machine slept",
    zh="{host}：运行期间时钟跳变 {seconds:+.1f} s«（共 {times} 次，此为最大一次）»；时间戳和总用时因此有误；"
    "步时和速度不受影响，因为它们所用的时钟无法被改动；请检查时间同步服务，或机器是否休眠过",
)
def clock_jump(*, host: Message | str, seconds: float, times: int | None) -> None: ...


@declare("noisy-neighbour", title="受其他负载干扰", en="{what}", zh="{what}")
def noisy_neighbour(*, what: Message) -> None: ...


@declare(
    "other-processes",
    en="other processes used {other:.2f} of {cores:# cores} of {host} while this run used {own:.2f}"
    "«, the busiest {busiest}»; end them or use a free machine, then run again",
    zh="{host}：{cores} 个核中，其他进程平均占用 {other:.2f} 个，本次运行占用 {own:.2f} 个«；最忙的是 {busiest}»；"
    "请结束这些进程或换用空闲的机器，然后重新运行",
)
def other_processes(*, host: Message | str, cores: int, other: float, own: float, busiest: Message | None) -> None: ...


@declare("busy-process", en="{name} (pid {pid}) with {cores:.2f}", zh="{name}（pid {pid}，占用 {cores:.2f} 个）")
def busy_process(*, name: str, pid: int, cores: float) -> None: ...


@declare(
    "cores-stolen",
    en="the hypervisor gave {stolen:.2f} of {cores:# cores} of {host} to other virtual machines while this run needed "
    "them; use a host of your own, or run at another time",
    zh="{host}：{cores} 个核中，虚拟机管理程序平均扣留了 {stolen:.2f} 个，供同一硬件上的其他虚拟机使用；"
    "请换用独占的主机，或另择时间运行",
)
def cores_stolen(*, host: Message | str, cores: int, stolen: float) -> None: ...
