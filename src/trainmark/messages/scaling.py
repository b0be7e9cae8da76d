"""About several numbers of devices side by side, and the exchange between ranks."""

from __future__ import annotations

from collections.abc import Sequence

from trainmark.messages.message import declare


@declare(
    "step-captured",
    en="the whole step, exchange included, is one captured graph",
    zh="整个训练步（包括通信）被捕获为一个 CUDA graph",
)
def step_captured() -> None: ...


@declare("one-process", en="there is only one process", zh="只有一个进程")
def one_process() -> None: ...


@declare("exchange-failed", en="it could not be measured: {error}", zh="无法测量：{error}")
def exchange_failed(*, error: str) -> None: ...


@declare(
    "step-time-unknown",
    en="the time of a step is unknown: no batch size, or a speed that counts something else",
    zh="单步用时未知：没有批大小，或速度的单位与批不同",
)
def step_time_unknown() -> None: ...


@declare("exchange-not-measured", en="communication was not measured in these runs", zh="这些运行没有测量通信")
def exchange_not_measured() -> None: ...


@declare(
    "base-exchange-not-measured",
    en="communication was not measured in the runs of the base",
    zh="基准的运行没有测量通信",
)
def base_exchange_not_measured() -> None: ...


@declare(
    "mixed-batch",
    title="批大小不一致",
    en="batch {batch} per device on {devices} devices, {base_batches} on {base_devices}: their ratio is not a speed-up",
    zh="{devices} 个设备时单设备批大小为 {batch}，{base_devices} 个设备时为 {base_batches}：两者之比不是加速比",
)
def mixed_batch(*, batch: int, devices: int, base_batches: Sequence[str], base_devices: int) -> None: ...
