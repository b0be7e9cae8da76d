"""Published numbers beside a result: what was different there, and why none fits."""

from __future__ import annotations

from collections.abc import Sequence

from trainmark.messages.message import Message, declare


@declare(
    "reference-standing",
    en="you are at {share} of {name}« on {gpu}» ({publisher})«, which used {differences:and}»",
    zh="为 {name}«（{gpu}）»的 {share}（{publisher}）«；其设置不同：{differences}»",
)
def reference_standing(
    *, share: str, name: str, gpu: str | None, publisher: str, differences: Sequence[Message]
) -> None: ...


@declare("reference-gpu", en="another GPU, {gpu}", zh="GPU 为 {gpu}")
def other_gpu(*, gpu: str) -> None: ...


@declare("reference-framework", en="{framework}", zh="框架为 {framework}")
def other_framework(*, framework: str) -> None: ...


@declare("reference-layout", en="{layout}", zh="数据布局为 {layout}")
def other_layout(*, layout: str) -> None: ...


@declare("reference-batch", en="batch {batch}", zh="批大小为 {batch}")
def other_batch(*, batch: int) -> None: ...


@declare(
    "reference-note",
    en="{text}",
    zh="{text}",
    words={
        "decoded by DALI": "由 DALI 解码",
        "XLA": "XLA",
        "read from a chart": "数值读自图表",
        "read by eye from its logs": "数值由人工从日志读出",
        "rounded to whole images": "数值取整",
        "from a log beside the report": "数值来自报告旁的日志",
        "the report calls the unit batch/sec": "报告中的单位写作 batch/sec",
        "the public model code, torch 2.11, one run": "公开的模型代码，torch 2.11，单次运行",
        "60 lines of JAX, one run": "60 行 JAX 代码，单次运行",
        "fused SGD": "融合的 SGD",
    },
)
def reference_note(*, text: str) -> None: ...


@declare(
    "reference-on-cpu",
    en="no published number fits: they are of GPUs, this ran on a CPU",
    zh="没有可比的公开数据：公开数据均来自 GPU，而此处为 CPU",
)
def reference_on_cpu() -> None: ...


@declare(
    "reference-workload",
    en="no published number fits: none is known of {workload}",
    zh="没有可比的公开数据：没有 {workload} 的数据",
)
def reference_unknown_workload(*, workload: str) -> None: ...


@declare(
    "reference-unknown",
    en="no published number fits: the source does not tell {facts:and}",
    zh="没有可比的公开数据：来源没有说明{facts}",
    words={"precision": "精度", "data": "数据（真实或合成）", "devices": "设备数", "machine": "机器"},
)
def reference_unknown_facts(*, facts: Sequence[str]) -> None: ...


@declare(
    "reference-size",
    en="no published number fits: they are of the full size, this is {size}",
    zh="没有可比的公开数据：公开数据为完整尺寸，而此处为 {size}",
)
def reference_other_size(*, size: str) -> None: ...


@declare(
    "reference-precision",
    en="no published number fits: none is in {precision}, and another precision is not comparable",
    zh="没有可比的公开数据：没有 {precision} 的数据，不同精度不可比",
)
def reference_other_precision(*, precision: str) -> None: ...


@declare(
    "reference-data",
    en="no published number fits: none in this precision has {data} data",
    zh="没有可比的公开数据：该精度没有使用{data}数据的结果",
    words={"real": "真实", "synthetic": "合成"},
)
def reference_other_data(*, data: str) -> None: ...


@declare(
    "reference-devices",
    en="no published number fits: none is of {devices:# devices}",
    zh="没有可比的公开数据：没有 {devices} 个设备的数据",
)
def reference_other_devices(*, devices: int) -> None: ...
