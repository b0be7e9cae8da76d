"""Small logs in the grammars of other programs, written for these tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainmark.logs.importing import Task, import_file
from trainmark.logs.record import Facts
from trainmark.store.folder import read_run
from trainmark.store.rows import RunRow

TARGETS = {"resnet50": {"metric": "top1", "value": 0.759}}


def import_text(
    root: Path, text: str | bytes, *, name: str = "run.log", pattern: Path | None = None, **given: Any
) -> RunRow:
    """Through the real importer: file, stream, folder and back."""
    path = root / "logs" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    task = Task(path=path, store=root / "store", given=Facts(**given), pattern=pattern, targets=TARGETS)
    result = import_file(task)
    assert result.run_id is not None, result.reason
    row = read_run(root / "store" / result.run_id)
    assert row is not None
    return row


@dataclass(frozen=True, kw_only=True)
class Sample:
    dialect: str
    text: str
    records: int
    last: float | None
    """Global rate of the last record."""
    framework: str | None
    facts: dict[str, Any]


def repeat(line: Callable[[int], str], num: int = 3) -> str:
    return "".join(line(number) + "\n" for number in range(1, num + 1))


SAMPLES = (
    Sample(
        dialect="paddle",
        text="2 GPUs used: 4\nbatch_size: 8\n"
        + repeat(
            lambda n: (
                f"2024-01-01 10:00:0{n} [INFO]\t[TRAIN] epoch: 1, iter: {10 * n}/100, loss: 0.5{n}, lr: 0.01, "
                f"batch_cost: 0.5000, reader_cost: 0.001, ips: 16.0000 samples/sec | ETA 00:01:00"
            )
        )
        + "2024-01-01 10:00:09 [INFO]\t[EVAL] #Images: 50 mIoU: 0.4321 Acc: 0.9 Kappa: 0.9\n",
        records=3,
        last=64.0,
        framework="paddle",
        facts={"devices": 4, "batch_size_per_device": 8},
    ),
    Sample(
        dialect="paddle",
        text="PADDLE_TRAINERS_NUM | 8 |\n"
        + repeat(
            lambda n: (
                f"[2024/01/01 10:00:0{n}] ppocr INFO: epoch: [1/20], global_step: {n}, lr: 0.1, loss: 2.{n}, "
                f"avg_reader_cost: 0.1 s, avg_batch_cost: 0.25 s, avg_samples: 16.0, ips: 64.0 samples/s, eta: 0:01:00"
            )
        ),
        records=3,
        last=512.0,
        framework="paddle",
        facts={"devices": 8, "batch_size_per_device": 16},
    ),
    Sample(
        dialect="paddle-rec",
        text="I0101 communicator.h:205] trainers: 4\n"
        "2024-01-01 10:00:00,1 - INFO - Epoch: 0, Batch: 100, avg_samples: 10.0, ips: 9.5 example/sec\n"
        "2024-01-01 10:00:01,1 - INFO - Epoch: 0, using time 10.0 second, ips 150.0 example/sec.\n",
        records=1,
        last=150.0,
        framework="paddle",
        facts={"nodes": 4},
    ),
    Sample(
        dialect="openmmlab",
        text="Distributed training: True\n    samples_per_gpu=4,\ngpu_ids = range(0, 2)\noptimizer_config = dict()\n"
        + repeat(
            lambda n: (
                f"2024-01-01 10:00:0{n},1 - mmseg - INFO - Iter [{50 * n}/8000]\tlr: 9.9e-03, eta: 1:00:00, "
                f"time: 0.400, data_time: 0.01, memory: 2048, decode.loss_seg: 1.3, loss: 1.{n}"
            )
        )
        + "2024-01-01 10:01:00,1 - mmseg - INFO - Iter(val) [150]\tmIoU: 0.3210, mAcc: 0.4\n",
        records=3,
        last=20.0,
        framework="torch",
        facts={"devices": 2, "batch_size_per_device": 4, "precision": "fp32", "peak_memory_bytes": 2048 * 2**20},
    ),
    Sample(
        dialect="detectron2",
        text="Command: num_gpus=8, num_machines=1, opts=[]\n  AMP:\n    ENABLED: False\n  IMS_PER_BATCH: 16\n"
        + repeat(
            lambda n: (
                f"[01/01 10:00:0{n}] d2.utils.events INFO:  eta: 1:00:00  iter: {20 * n - 1}  total_loss: 2.0{n}"
                f"  time: 0.{300 - n}  data_time: 0.01  lr: 0.0004  max_mem: 2723M"
            )
        ),
        records=3,
        last=16 / 0.297,
        framework="torch",
        facts={"devices": 8, "batch_size_per_device": 2, "precision": "fp32"},
    ),
    Sample(
        dialect="maskrcnn-benchmark",
        text="  IMS_PER_BATCH: 4\n"
        + repeat(
            lambda n: (
                f"DLL 2024-01-01 10:00:0{n}.1 - Training Iteration: {20 * n}  eta : 0:01:00  memory : 4911.2  "
                f"loss : 2.3{n} (3.7)  time : 0.3{n} (0.44)  data : 0.02 (0.03) "
            )
        )
        + "Training perf is: 12.500000 FPS\n",
        records=3,
        last=4 / 0.33,
        framework="torch",
        facts={},
    ),
    Sample(
        dialect="dllogger",
        text="DLL 2024-01-01 10:00:00.1 - PARAMETER arch : resnet50  batch_size : 256  amp : True  world_size : 8\n"
        + repeat(
            lambda n: (
                f"DLL 2024-01-01 10:00:1{n}.1 - Epoch: 0 Iteration: {n}  train.loss : 7.{n}  "
                f"train.total_ips : {6000 + n}.50 img/s"
            )
        )
        + "DLL 2024-01-01 10:01:00.1 - Epoch: 0  val.top1 : 76.20 % val.total_ips : 9000.0 img/s\n"
        + "DLL 2024-01-01 10:01:00.1 - Summary: train.total_ips : 6001.9 img/s\n",
        records=3,
        last=6003.5,
        framework=None,
        facts={"devices": 8, "batch_size_per_device": 256, "precision": "amp", "workload": "resnet50"},
    ),
    Sample(
        dialect="dllogger-json",
        text=repeat(
            lambda n: (
                f'DLLL {{"timestamp": "170000000{n}.5", "type": "LOG", "step": [0, {n}], '
                f'"data": {{"train.loss": 7.{n}, "train.total_ips": "{370 + n}.0"}}}}'
            )
        ),
        records=3,
        last=373.0,
        framework=None,
        facts={},
    ),
    Sample(
        dialect="mllog",
        text=':::MLLOG {"key": "global_batch_size", "value": 1024, "time_ms": 1700000000000}\n'
        ':::MLLOG {"key": "run_start", "value": null, "time_ms": 1700000000000}\n'
        ':::MLLOG {"key": "tracked_stats", "value": {"throughput": 2500.0}, "time_ms": 1700000100000, '
        '"metadata": {"step": 100}}\n'
        ':::MLLOG {"key": "eval_accuracy", "value": 0.76, "time_ms": 1700000200000, "metadata": {"epoch_num": 4}}\n'
        ':::MLLOG {"key": "run_stop", "value": null, "time_ms": 1700000300000}\n',
        records=1,
        last=2500.0,
        framework=None,
        facts={"wall_s": 300.0},
    ),
    Sample(
        dialect="torch-example",
        text="Adding temporal shift...\nvideo number:1600\n"
        + repeat(
            lambda n: (
                f"Epoch: [0][{20 * n}/100], lr: 0.00250\tTime 0.40{n} (0.45)\tData 0.1 (0.1)\tLoss 5.9{n} (5.9)\t"
                f"Prec@1 0.0 (0.0)"
            )
        )
        + "Testing Results: Prec@1 44.084 Prec@5 71.4 Loss 2.4\n",
        records=3,
        last=16 / 0.403,
        framework="torch",
        facts={"unit": "clips"},
    ),
    Sample(
        dialect="psenet",
        text=repeat(
            lambda n: (
                f"({n}/62) LR: 0.001000 | Batch: 0.20{n}s | Total: 0min | ETA: 0min | Loss: 0.6{n} | Loss(text): 0.1"
            )
        ),
        records=3,
        last=8 / 0.203,
        framework="torch",
        facts={},
    ),
    Sample(
        dialect="gluon",
        text="Namespace(amp=False, batch_size=8, gpus='0', epochs=1)\n"
        + repeat(lambda n: f"[Epoch 0][Batch {10 * n - 1}], LR: 3.41E-07, Speed: 3{n}.5 samples/sec, ObjLoss=6.7"),
        records=3,
        last=33.5,
        framework="mxnet",
        facts={"devices": 1, "batch_size_per_device": 8, "precision": "fp32"},
    ),
    Sample(
        dialect="oneflow",
        text="model = resnet50\nbatch_size_per_device = 128\ngpu_num_per_node = 8\nnum_nodes = 2\n"
        + repeat(
            lambda n: (
                f"train: epoch 0, iter {20 * n}, loss: 7.0{n}, top_1: 0.001, top_k: 0.005, samples/s: 39{n}8.891 "
                f"159793394{n}.98"
            )
        ),
        records=3,
        last=3938.891,
        framework="oneflow",
        facts={"devices": 16, "nodes": 2, "batch_size_per_device": 128},
    ),
    Sample(
        dialect="dlperf-paddle",
        text=repeat(
            lambda n: (
                f"2024-01-01 10:00:0{n},001-INFO: [Pass 0, train batch {n}] \tloss 7.0{n}, acc1 0.0, lr 0.1, "
                f"elapse 0.250 sec"
            )
        ),
        records=3,
        last=32.0,
        framework="paddle",
        facts={},
    ),
    Sample(
        dialect="tensorflow-maskrcnn",
        text=repeat(lambda n: f"[1,0]<stdout>:[MaskRCNN] INFO    : throughput: {n}.4 samples/sec")
        + "[1,0]<stdout>:[MaskRCNN] INFO    : Average throughput: 39.3 samples/sec\n"
        + "horovodrun -np 8 python mask_rcnn_main.py --train_batch_size 4 --amp\n",
        records=1,
        last=39.3,
        framework="tensorflow",
        facts={"devices": 8, "batch_size_per_device": 4},
    ),
    Sample(
        dialect="bert-tensorflow",
        text=repeat(
            lambda n: (
                f"DLL 2024-01-01 10:0{n}:00.1 - Iteration: {n}  throughput_train : 53{n}.5 seq/s total_loss : 11.{n}"
            )
        )
        + "DLL 2024-01-01 10:09:00.1 -  throughput_train : 470.2 seq/s\n",
        records=3,
        last=533.5,
        framework="tensorflow",
        facts={"unit": "sequences"},
    ),
    Sample(
        dialect="bert-torch",
        text="+ num_gpus=8\nDLL 2024-01-01 10:00:00.1 - PARAMETER batch_size_per_gpu : 96\n"
        "DLL 2024-01-01 10:09:00.1 -  e2e_train_time : 684.2 s training_sequences_per_second : 543.75 sequences/s "
        "final_loss : 7.9 None\n",
        records=1,
        last=543.75,
        framework="torch",
        facts={"devices": 8, "batch_size_per_device": 96, "wall_s": 684.2},
    ),
    Sample(
        dialect="transformer-torch",
        text="| training on 2 GPUs\n| max_tokens=5120, x\n"
        + repeat(
            lambda n: (
                f"Transformer | epoch 0 | step {10 * n} |avg loss 16.0 |avg tokens 4746.0 |tokens/s 967{n}.5 "
                f"|walltime 13.5 |"
            )
        ),
        records=3,
        last=9673.5,
        framework="torch",
        facts={"devices": 2, "batch_size_per_device": 5120, "unit": "tokens"},
    ),
    Sample(
        dialect="huggingface",
        text="***** Running training *****\n  Num examples = 1,000\n  Instantaneous batch size per device = 8\n"
        "  5%|5   | 50/1000 [00:25<07:55,  2.00it/s]\r 10%|#   | 100/1000 [00:50<07:30,  2.00it/s]\n"
        "{'loss': 2.1, 'learning_rate': 5e-05, 'epoch': 0.5}\n"
        "{'train_runtime': 123.4, 'train_samples_per_second': 16.2, 'train_steps_per_second': 2.0, "
        "'train_loss': 1.9, 'epoch': 2.0}\n",
        records=1,
        last=16.2,
        framework="torch",
        facts={"batch_size_per_device": 8, "wall_s": 123.4},
    ),
    Sample(
        dialect="lightning",
        text="All distributed processes registered. Starting with 2 processes\n"
        + "\r".join(
            f"Epoch 0:  {10 * n}%|###       | {10 * n}/100 [00:0{n}<00:10,  8.00it/s, v_num=3, train_loss=2.3{n}]"
            for n in (1, 1, 2, 3)
        )
        + "\n",
        records=3,
        last=128.0,
        framework="torch",
        facts={"devices": 2},
    ),
    Sample(
        dialect="timm",
        text="Training in distributed mode with multiple processes. Process 0, total 8, device cuda:0.\n"
        "AMP not enabled. Training in float32.\n"
        + repeat(
            lambda n: (
                f"Train: 0 [  {50 * n}/1251 (  4%)]  Loss: 6.9{n} (6.96)  Time: 0.256s, 4000.0{n}/s  "
                f"(0.312s,  3282.05/s)  LR: 1.000e-05  Data: 0.012 (0.067)"
            )
        ),
        records=3,
        last=4000.03,
        framework="torch",
        facts={"devices": 8, "batch_size_per_device": 128, "precision": "fp32"},
    ),
    Sample(
        dialect="torchtitan",
        text="[titan] 2024-01-01 10:00:00,1 - root - INFO - Building 1-D device mesh with ['dp_shard'], [8]\n"
        + repeat(
            lambda n: (
                f"\x1b[31m[titan] 2024-01-01 10:00:0{n},1 - root - INFO - \x1b[0mstep: {10 * n}  loss:  8.02{n}  "
                f"memory: 25.30GiB(32.0%)  tps: 6,54{n}  tflops: 45.2  mfu: 14.5%"
            )
        ),
        records=3,
        last=6543.0 * 8,
        framework="torch",
        facts={"devices": 8, "unit": "tokens"},
    ),
)

SAMPLES += (
    Sample(
        dialect="ai-rank",
        text="- AI-Rank-log 1558631910.424 load_data, checksum:abc\n"
        "- AI-Rank-log 1558631910.424 test_begin\n"
        "- AI-Rank-log 1558631912.424 eval_accuracy:0.75, total_epoch_cnt:1\n"
        "- AI-Rank-log 1558631918.424 eval_accuracy:0.765, total_epoch_cnt:2\n"
        "- AI-Rank-log 1558631922.454 test_finish\n"
        "- AI-Rank-log 1558631922.454 total_use_time:12.03sec\n"
        "- AI-Rank-log 1558631922.454 avg_ips:1190images/sec\n",
        records=0,
        last=None,
        framework=None,
        facts={"wall_s": 12.03},
    ),
)

GIVEN = {
    "psenet": {"devices": 1, "batch_size_per_device": 8},
    "maskrcnn-benchmark": {"devices": 1},
    "dlperf-paddle": {"devices": 1, "batch_size_per_device": 8},
    "lightning": {"batch_size_per_device": 8},
    "torch-example": {"devices": 1},
}
"""What a log of the family does not tell and a user gives by a flag."""
