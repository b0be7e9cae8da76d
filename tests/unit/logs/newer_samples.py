"""Small logs in the grammars of today's training programs, as their public code prints them."""

from __future__ import annotations

from samples import Sample, repeat

NEWER_SAMPLES = (
    Sample(
        dialect="nanogpt",
        text="tokens per iteration will be: 16,384\nfound vocab_size = 65 (inside data/meta.pkl)\n"
        "number of parameters: 10.65M\nstep 0: train loss 4.2874, val loss 4.2823\n"
        + repeat(lambda n: f"iter {10 * n}: loss 2.10{n}3, time 40.0{n}ms, mfu 17.93%"),
        records=3,
        last=16384 / 0.04003,
        framework="torch",
        facts={"unit": "tokens"},
    ),
    Sample(
        dialect="modded-nanogpt",
        text="step:0/1845 val_loss:10.8289 train_time:0ms step_avg:0.03ms\n"
        + repeat(lambda n: f"step:{n}/1845 train_time:{100 * n}ms step_avg:100.0{n}ms")
        + "step:3/1845 val_loss:6.5012 train_time:305ms step_avg:101.67ms\n"
        + "peak memory allocated: 39125 MiB reserved: 40000 MiB\n",
        records=3,
        last=1 / 0.10003,
        framework="torch",
        facts={"unit": "iterations"},
    ),
    Sample(
        dialect="mingpt",
        text="number of parameters: 2.51M\nrunning on device cuda\niter_dt 0.00ms; iter 0: train loss 4.19120\n"
        + repeat(lambda n: f"iter_dt 25.3{n}ms; iter {10 * n}: train loss 2.1234{n}"),
        records=3,
        last=1 / 0.02533,
        framework="torch",
        facts={"unit": "iterations"},
    ),
    Sample(
        dialect="torch-mnist",
        text=repeat(lambda n: f"Train Epoch: 1 [{640 * n}/60000 ({n}%)]\tLoss: 1.77{n}000")
        + "\nTest set: Average loss: 0.0567, Accuracy: 9812/10000 (98%)\n",
        records=3,
        last=None,
        framework="torch",
        facts={"unit": "samples"},
    ),
    Sample(
        dialect="word-language-model",
        text=repeat(
            lambda n: (
                f"| epoch   1 | {200 * n:5d}/ 2983 batches | lr 20.00 | ms/batch 12.3{n} | loss  7.62 | ppl  2035.36"
            )
        )
        + "-" * 89
        + "\n| end of epoch   1 | time: 37.61s | valid loss  5.85 | valid ppl   347.05\n",
        records=3,
        last=1 / 0.01233,
        framework="torch",
        facts={"unit": "iterations"},
    ),
    Sample(
        dialect="metric-logger",
        text="Not using distributed mode\n"
        "Namespace(data_path='/data', model='resnet18', device='cuda', batch_size=32, epochs=90, amp=False)\n"
        + repeat(
            lambda n: (
                f"Epoch: [0]  [{10 * n:4d}/3750]  eta: 0:20:01  lr: 0.1  img/s: 92.24  loss: 6.9{n} (7.0)  "
                f"acc1: 0.0000 (0.2)  acc5: 0.0 (0.9)  time: 0.320{n}  data: 0.0010  max mem: 5535"
            )
        )
        + "Epoch: [0] Total time: 0:20:01\nTest:   [  0/157]  eta: 0:00:40  loss: 5.5 (5.5)  acc1: 3.1 (3.1)  "
        "time: 0.2550  data: 0.2000  max mem: 5535\nTest:  Acc@1 69.758 Acc@5 89.078\n",
        records=3,
        last=32 / 0.3203,
        framework="torch",
        facts={"devices": 1, "batch_size_per_device": 32, "model": "resnet18"},
    ),
    Sample(
        dialect="metric-logger",
        text="[10:00:00.123456] | distributed init (rank 0): env://, gpu 0\n"
        "[10:00:00.223456] Namespace(accum_iter=1,\nbatch_size=64,\nworld_size=8)\n"
        + repeat(
            lambda n: (
                f"[10:00:0{n}.123456] Epoch: [3]  [{20 * n:4d}/1251]  eta: 0:10:01  lr: 0.000009  "
                f"loss: 0.9{n} (0.9500)  time: 0.500{n}  data: 0.0002  max mem: 12345"
            )
        )
        + "[10:30:00.1] Epoch: [3] Total time: 0:10:30 (0.5012 s / it)\n",
        records=3,
        last=64 * 8 / 0.5003,
        framework="torch",
        facts={"devices": 8, "batch_size_per_device": 64},
    ),
    Sample(
        dialect="keras",
        text="Epoch 1/2\n"
        + "".join(
            "\x08"
            * 60
            + f"\r\x1b[1m{100 * n}/300\x1b[0m \x1b[32m{'━' * 5 * n}\x1b[0m\x1b[37m{'━' * (20 - 5 * n)}\x1b[0m "
            f"\x1b[1m2s\x1b[0m 50ms/step - accuracy: 0.5{n}00 - loss: 1.5{n}00"
            for n in (1, 1, 2)
        )
        + "\x08" * 60
        + f"\r\x1b[1m300/300\x1b[0m \x1b[32m{'━' * 20}\x1b[0m\x1b[37m\x1b[0m \x1b[1m16s\x1b[0m 53ms/step - "
        "accuracy: 0.8000 - loss: 0.6000 - val_accuracy: 0.9000 - val_loss: 0.3000\n",
        records=2,
        last=1 / 0.05,
        framework=None,
        facts={"unit": "iterations"},
    ),
    Sample(
        dialect="keras",
        text="".join(
            f"Epoch {n}/3\n469/469 - 3s - 6ms/step - accuracy: 0.9{n}00 - loss: 0.2{n}00\n" for n in (1, 2, 3)
        ),
        records=3,
        last=1 / 0.006,
        framework=None,
        facts={"unit": "iterations"},
    ),
    Sample(
        dialect="keras",
        text="".join(
            f"Epoch {n}/3\n"
            + "\x08" * 70
            + "\r  1/469 [..............................] - ETA: 2:03 - loss: 2.3\x08\x08"
            "\r469/469 [==============================] - 2s 4ms/step - loss: 0.25 - accuracy: 0.92 - val_loss: 0.14\n"
            for n in (1, 2, 3)
        )
        + "313/313 [==============================] - 0s 1ms/step - loss: 0.1 - accuracy: 0.97\n",
        records=3,
        last=1 / 0.004,
        framework=None,
        facts={"unit": "iterations"},
    ),
    Sample(
        dialect="paddle-hapi",
        text="The loss value printed in the log is the current step, and the metric is the average value.\nEpoch 1/2\n"
        + repeat(lambda n: f"step {10 * n}/40 - loss: 0.6{n} - acc: 0.93{n} - 26ms/step")
        + "Eval begin...\nstep 10/10 - loss: 0.1 - acc: 0.97 - 11ms/step\nEval samples: 640\nEpoch 2/2\n"
        + "step  40/40 [==============================] - loss: 0.3 - acc: 0.95 - 25ms/step\n",
        records=4,
        last=1 / 0.025,
        framework="paddle",
        facts={"unit": "iterations"},
    ),
    Sample(
        dialect="ultralytics",
        text="engine/trainer: agnostic_nms=False, amp=True, batch=16, epochs=2, model=yolo11n.yaml, task=detect\n"
        "      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size\n"
        + "".join(
            f"\r\x1b[K        1/2      2.61G      1.15{n}      1.398      1.192         81        640: {n}0% "
            f"━╸────────── {10 * n}/100 5.{n}it/s {2.0 * n:.1f}s<1:1{n}"
            for n in (1, 2, 3)
        )
        + "\n                 Class     Images  Instances      Box(P          R      mAP50  mAP50-95): 100% ━━━ 4/4 "
        "9.1it/s 0.4s\n                   all        128        929      0.667      0.583      0.672      0.438\n",
        records=3,
        last=16 * 5.3,
        framework="torch",
        facts={"model": "yolo11n.yaml"},
    ),
    Sample(
        dialect="ultralytics",
        text="engine/trainer: task=detect, mode=train, model=yolov8n.yaml, epochs=2, batch=8, imgsz=640\n"
        + "\r".join(
            f"        1/2      2.61G      1.15{n}      1.398      1.192         81        640:  {n}0%|███       | "
            f"{10 * n}/100 [00:0{2 * n}<00:10,  5.{n}0it/s]"
            for n in (1, 2, 3)
        )
        + "\n",
        records=3,
        last=8 * 5.3,
        framework="torch",
        facts={},
    ),
    Sample(
        dialect="lightning",
        text="".join(
            f"\x1b[2K\r\x1b[37mEpoch 0/9 \x1b[0m \x1b[35m━━━━━━╸\x1b[0m\x1b[37m━━━━\x1b[0m \x1b[37m{10 * n}/100\x1b[0m "
            f"\x1b[38;5;245m0:00:{10 * n} • 0:01:00\x1b[0m \x1b[38;5;249m1.0{n}it/s\x1b[0m \x1b[37mv_num: 3.000\x1b[0m"
            for n in (1, 2, 3)
        )
        + "\n",
        records=3,
        last=1.03,
        framework="torch",
        facts={},
    ),
    Sample(
        dialect="openmmlab",
        text="2024/01/01 10:00:00 - mmengine - INFO - \nSystem environment:\n    Distributed training: False\n"
        "    GPU number: 1\n\ntrain_dataloader = dict(\n    batch_sampler=dict(type='AspectRatioBatchSampler'),\n"
        "    batch_size=16,\n"
        + repeat(
            lambda n: (
                f"2024/01/01 10:00:{10 * n} - mmengine - INFO - Epoch(train)   [1][{50 * n:4d}/1196]  lr: 1.0000e-02  "
                f"eta: 0:10:00  time: 0.200{n}  data_time: 0.0012  memory: 1234  loss: 2.3{n}00"
            )
        )
        + "2024/01/01 10:10:00 - mmengine - INFO - Epoch(val) [1][157/157]    accuracy: 63.9900  data_time: 0.0042  "
        "time: 0.0280\n",
        records=3,
        last=16 / 0.2003,
        framework="torch",
        facts={"devices": 1, "batch_size_per_device": 16},
    ),
    Sample(
        dialect="tqdm",
        text="01/02/2024 10:00:00 - INFO - __main__ - ***** Running training *****\n"
        "01/02/2024 10:00:00 - INFO - __main__ -   Num examples = 1000\n"
        "01/02/2024 10:00:00 - INFO - __main__ -   Instantaneous batch size per device = 8\n"
        "01/02/2024 10:00:00 - INFO - main -   Total train batch size (w. parallel, distributed & accumulation) = 8\n"
        "Loading weights: 100%|██████████| 148/148 [00:00<00:00, 512.3it/s]\n"
        + "\r".join(f"{25 * n:3d}%|██▌       | {25 * n}/100 [00:{12 * n}<00:30,  2.0{n}it/s]" for n in (1, 2, 3))
        + "\n01/02/2024 10:01:00 - INFO - __main__ - epoch 0: {'accuracy': 0.8325}\n",
        records=3,
        last=8 * 2.03,
        framework=None,
        facts={"batch_size_per_device": 8},
    ),
    Sample(
        dialect="generic",
        text=repeat(lambda n: f"[trainer] step {10 * n} | loss 2.{n} | 81{n}.5 images/sec | grad 0.5"),
        records=3,
        last=813.5,
        framework=None,
        facts={"unit": "images"},
    ),
    Sample(
        dialect="generic",
        text=repeat(lambda n: f"epoch 1 iteration {10 * n}: loss=2.{n}, 45.{n} ms/step"),
        records=3,
        last=1 / 0.0453,
        framework=None,
        facts={"unit": "iterations"},
    ),
    Sample(
        dialect="generic",
        text=repeat(lambda n: f"step {10 * n}: 1.{n}M tok/s, loss 2.{n}"),
        records=3,
        last=1.3e6,
        framework=None,
        facts={"unit": "tokens"},
    ),
)
