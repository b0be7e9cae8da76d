"""In Chinese: a title for each warning code, and the sentences of them all; docs/concepts/warnings.md explains them.

A test builds each sentence by the function that makes it.
"""

from __future__ import annotations

from trainmark.report.translation import Template

TITLES = {
    "foreign-gpu-process": "GPU 被其他进程占用",
    "throttled": "GPU 降频",
    "clock-jump": "系统时钟跳变",
    "noisy-neighbour": "受其他负载干扰",
    "mean-of-rates": "速率平均值偏高",
    "stated-scope": "日志自报速度的口径不符",
    "collapsed-record": "末条记录骤降",
    "evaluation-inside": "评估被计入训练时间",
    "superlinear": "超线性加速",
    "mixed-batch": "批大小不一致",
    "tf32-as-fp32": "fp32 可能实为 TF32",
    "path-disagrees": "路径与日志不符",
    "config-contradicted": "配置与实际不符",
    "scope-ambiguous": "速率口径不明",
    "devices-unknown": "设备数未知",
    "batch-unknown": "批大小未知",
    "one-node-of-many": "仅为多个节点之一",
    "epoch-index": "epoch 序号被当作数目",
    "not-analysed": "数值无法分析",
    "several-ranks": "多个 rank 写入同一文件",
    "damaged": "文件损坏",
    "edited-times": "时间戳被改动",
    "no-end": "日志没有结束标记",
    "bad-sample": "样本损坏",
    "not-compiled": "未经编译",
    "target-not-reached": "未达到目标",
    "no-records": "没有速度记录",
    "uneven-marks": "各进程标记的步数不一致",
}

_MACHINE = (
    Template(
        "{gpu:t} was shared in {shared:n} of {all:n} samples, by {name:t} (pid {pid:n})« with {memory:n} GiB»"
        "« and {more:n} more»; end it or choose a free GPU with CUDA_VISIBLE_DEVICES, then run again",
        "{gpu}：{all} 次采样中有 {shared} 次被其他进程共用：{name}（pid {pid}«，占用 {memory} GiB»）"
        "«，另有 {more} 个进程»；请结束该进程，或用 CUDA_VISIBLE_DEVICES 选择空闲的 GPU，然后重新运行",
    ),
    Template(
        "{gpu:t} was slowed down in {share:n}% of {all:n} samples ({reasons:l})"
        "«; SM clock {clock:n} MHz then«, {free:n} otherwise»«, at most {most:n}»»; {actions:l}, then run again",
        "{gpu}：{all} 次采样中有 {share}% 处于降频状态（{reasons}）"
        "«；当时 SM 频率为 {clock} MHz»«，其余时间为 {free} MHz»«，最高 {most} MHz»；请{actions}，然后重新运行",
    ),
    Template("GPU {index:n} of {host:w} (rank {rank:n})", "{host} 的 GPU {index}（rank {rank}）"),
    Template("a process", "某进程"),
    Template("software power cap of {limit:n} W, usual {usual:n} W", "软件功耗上限 {limit} W（通常 {usual} W）"),
    Template("hardware slowdown", "硬件降速"),
    Template("software thermal slowdown", "软件过热降速"),
    Template("hardware thermal slowdown", "硬件过热降速"),
    Template("hardware power brake", "硬件功耗制动"),
    Template("raise the limit with nvidia-smi -pl", "用 nvidia-smi -pl 提高功耗上限"),
    Template("check cooling and power supply", "检查散热和供电"),
    Template("check fans and air flow", "检查风扇和风道"),
    Template("check the power supply", "检查供电"),
    Template(
        "the clock of {host:t} jumped {how:t} during the run: time stamps and wall time are wrong by that, steps and "
        "speed are not, since their clock cannot be set; check the time service, or whether it slept",
        "{host}：运行期间时钟跳变 {how}；时间戳和总用时因此有误；步时和速度不受影响，因为它们所用的时钟无法被改动；"
        "请检查时间同步服务，或机器是否休眠过",
    ),
    Template("by {by:n} s", "{by} s"),
    Template("{times:n} times, by {by:n} s at most", "{times} 次，最大一次为 {by} s"),
    Template("this host", "本机"),
    Template(
        "other processes used {other:n} of {cores:n} core(s) of {host:t} while this run used {own:n}"
        "«, the busiest {busiest:t}»; end them or take a free machine, then run again",
        "{host}：{cores} 个核中，其他进程平均占用 {other} 个，本次运行占用 {own} 个«；最忙的是 {busiest}»；"
        "请结束这些进程或换用空闲的机器，然后重新运行",
    ),
    Template("{name} (pid {pid:n}) with {cores:n}", "{name}（pid {pid}，占用 {cores} 个）"),
    Template(
        "the hypervisor kept back {stolen:n} of {cores:n} core(s) of {host:t} that were wanted here, for other "
        "machines on the same hardware; take a host of your own, or run at another time",
        "{host}：{cores} 个核中，虚拟机管理程序平均扣留了 {stolen} 个，供同一硬件上的其他虚拟机使用；"
        "请换用独占的主机，或另择时间运行",
    ),
)

_NUMBERS = (
    Template(
        "the mean of its rates is {mean:n}, samples over seconds {rate:n}: {apart:n}% apart",
        "各记录速率的平均值为 {mean}，样本数除以秒数为 {rate}：相差 {apart}%",
    ),
    Template(
        "its own {name} is {value:n}, its records give {rate:n}: about {times:n} times as much on {devices:n} devices, "
        "as if it counted one part of {parts:n}",
        "日志自报的 {name} 为 {value}，而由其记录得出 {rate}：在 {devices} 个设备上约为前者的 {times} 倍，"
        "似乎只统计了 {parts} 份中的一份",
    ),
    Template(
        "its own {name} is {value:n}, its records give {rate:n}: about {times:n} times less, as if a rate of all "
        "devices had been multiplied by their number",
        "日志自报的 {name} 为 {value}，而由其记录得出 {rate}：约为前者的 1/{times}，"
        "似乎把全部设备的速率又乘了一次设备数",
    ),
    Template(
        "the last record says {last:n} where {usual:n} is usual; leave it out",
        "最后一条记录为 {last}，而通常为 {usual}；应将其排除",
    ),
    Template(
        "an evaluation lies in {num:n} record(s); about {lost:n} s of it count as training",
        "有 {num} 条记录包含评估；其中约 {lost} s 被计为训练时间",
    ),
    Template(
        "its first evaluation is after 0 epochs: the index of the epoch stands for their number",
        "首次评估被标为在 0 个 epoch 之后：epoch 的序号被当作数目",
    ),
    Template(
        "fp32 on {machine}: frameworks use TF32 there unless told not to, and the log does not say that they were",
        "在 {machine} 上使用 fp32：框架在该硬件上默认使用 TF32，除非明确关闭，而日志没有说明已关闭",
    ),
    Template(
        "batch {batch:n} per device on {devices:n} devices, {sizes} on {fewest:n}: a quotient of the two is "
        "no speed-up",
        "{devices} 个设备时单设备批大小为 {batch}，{fewest} 个设备时为 {sizes}：两者之比不是加速比",
    ),
    Template(
        "{speed:n} times the speed with {ratio:n} times the devices: the base is too slow",
        "设备数为 {ratio} 倍，速度却为 {speed} 倍：基准偏慢",
    ),
    Template("its numbers cannot be analysed: {error}", "分析时出错：{error}"),
    Template(
        "its processes marked between {least:n} and {most:n} steps; only the first {kept:n} of each count",
        "各进程标记的步数在 {least} 到 {most} 之间；每个进程只计前 {kept} 步",
    ),
)

_LOGS = (
    Template("framework", "框架"),
    Template("devices", "设备数"),
    Template("nodes", "节点数"),
    Template("batch_size_per_device", "单设备批大小"),
    Template("precision", "精度"),
    Template("workload", "模型"),
    Template("learning_rate", "学习率"),
    Template(
        "the log says {name:t} {log}, its path says {path}; the log counts",
        "日志中{name}为 {log}，路径中为 {path}；以日志为准",
    ),
    Template(
        "the printed configuration says {name:t} {config}, the run used {used}; the run counts",
        "打印的配置中{name}为 {config}，实际使用的是 {used}；以实际为准",
    ),
    Template(
        "its rates may be those of one device or of all, and the log does not tell; no rate is given",
        "其速率可能是单个设备的，也可能是全部设备的，日志没有说明；因此不给出速率",
    ),
    Template(
        "its rates are those of one device and the number of devices is not told; give --devices",
        "其速率是单个设备的，而日志没有说明设备数；请给出 --devices",
    ),
    Template(
        "it tells seconds of an iteration but no batch size; rates count iterations; give --batch-size",
        "日志只有每次迭代的秒数，没有批大小；速率按迭代计；请给出 --batch-size",
    ),
    Template(
        "the rate is that of one of {nodes:n} nodes; the others have logs of their own",
        "该速率是 {nodes} 个节点之一的速率；其他节点另有各自的日志",
    ),
    Template(
        "{count:n} lines of other ranks told the same steps and were left out",
        "其他 rank 的 {count} 行记录了相同的步，已略去",
    ),
    Template(
        "the file ends in the middle of its compressed data; what came before was read",
        "文件在压缩数据的中间结束；此前的内容已读取",
    ),
    Template(
        "its protocol's time stamps are {days:n} days away from those of its other lines",
        "其协议的时间戳与其他行的时间戳相差 {days} 天",
    ),
    Template(
        "the log's protocol has a test_begin and no test_finish; it may have been cut short",
        "日志的协议有 test_begin 而没有 test_finish；日志可能不完整",
    ),
)

_RUN = (
    Template(
        "the target was not reached in {steps:n} step(s), {epochs:n} epoch(s) done: {wanted}",
        "完成 {steps} 步（{epochs} 个 epoch）后仍未达到目标：{wanted}",
    ),
    Template(
        "images are resized by matrix products, which slows training on a GPU, since no kernel was built ({why}); "
        "Triton and a C compiler build it",
        "未能编译缩放内核（{why}），图像改用矩阵乘法缩放，会拖慢 GPU 训练；编译它需要 Triton 和 C 编译器",
    ),
    Template(
        "no C++ compiler (g++) was found, so `fast` runs without torch.compile; install g++",
        "没有找到 C++ 编译器（g++），因此 `fast` 未使用 torch.compile；请安装 g++",
    ),
    Template(
        "nothing that the command printed is known as a speed; give a regular expression with --pattern FILE.toml, or "
        "put `from trainmark import mark` and `mark.step(samples=...)` into the script",
        "命令的输出中没有识别出速度；请用 --pattern FILE.toml 给出正则表达式，"
        "或在脚本中加入 `from trainmark import mark` 和 `mark.step(samples=...)`",
    ),
)

SENTENCES = (*_MACHINE, *_NUMBERS, *_LOGS, *_RUN)
