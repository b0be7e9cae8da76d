"""The same facts in other words: what real logs print beside the usual form of their dialect."""

from __future__ import annotations

from pathlib import Path

import pytest
from samples import SAMPLES, import_text
from test_traps import STEADY, codes, ngc, paddle

from trainmark.analyse.protocols import apply_protocol
from trainmark.logs.registry import load_dialects
from trainmark.logs.stream import LogStream
from trainmark.report.document import describe_runs


def sample(dialect: str) -> str:
    return next(sample.text for sample in SAMPLES if sample.dialect == dialect)


# -- times to train ----------------------------------------------------------------------------------------------------


def test_a_first_percent_is_no_fraction(tmp_path: Path) -> None:
    """0.9 among 40.9 and 76.9 is 0.9%, which is below 0.759."""
    evals = "".join(
        f"AI-Rank-log 17041032{10 * epoch:02d}.1 eval_accuracy:{value}, total_epoch_cnt:{epoch}\n"
        for epoch, value in ((1, 0.9), (2, 40.9), (3, 76.9))
    )
    text = f"AI-Rank-log 1704103200.1 test_begin\n{evals}AI-Rank-log 1704103290.1 test_finish\n"
    row = import_text(tmp_path, ngc(STEADY) + text)
    assert describe_runs([row])[0]["time_to_train_s"] == pytest.approx(30.0)


def test_an_evaluation_by_the_logs_own_name_of_our_metric(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(import_text.__globals__["TARGETS"], "hrnet_w18", {"metric": "miou", "value": 0.78})
    tail = "2024-01-01 10:01:01 [INFO]\t[EVAL] #Images: 500 mIoU: 0.7812 Acc: 0.96 Kappa: 0.9\n"
    row = import_text(tmp_path, paddle(17.0, devices=1, batch=8, tail=tail), name="hrnet.log")
    assert describe_runs([row])[0]["time_to_train_s"] == 60.0


# -- records -----------------------------------------------------------------------------------------------------------


def test_torchtitan_in_its_own_colours(tmp_path: Path) -> None:
    lines = "".join(
        f"[rank0]:\x1b[31mstep: {10 * n:2}  \x1b[32mloss:  8.02  \x1b[33mmemory: 25.30GiB(32.0%)  "
        f"\x1b[34mtps: 6,543  \x1b[36mtflops: 45.2  \x1b[35mmfu: 14.5%\x1b[39m\n"
        for n in range(1, 5)
    )
    row = import_text(tmp_path, "Building 1-D device mesh with ['dp_shard'], [8]\n" + lines)
    assert (row.dialect, describe_runs([row])[0]["last"]) == ("torchtitan", 6543.0 * 8)


def test_thousands_are_set_off_by_commas(tmp_path: Path) -> None:
    rates = [6000.0 + step for step in range(8)]
    row = import_text(tmp_path, ngc(rates).replace("total_ips : 6", "total_ips : 6,"))
    assert describe_runs([row])[0]["last"] == 6007.0


def test_two_numbers_with_a_comma_between_stay_two(tmp_path: Path) -> None:
    text = ngc(STEADY).replace("train.loss : 7.0 ", "train.loss : 7.5,250 ")
    assert set(import_text(tmp_path, text).losses) == {7.5}


def test_a_bar_that_is_drawn_again_is_no_other_rank(tmp_path: Path) -> None:
    assert codes(import_text(tmp_path, sample("lightning"), batch_size_per_device=8)) == []


def test_paddleclas_tells_iteration_and_epoch(tmp_path: Path) -> None:
    text = "GPUs used: 8\n" + "".join(
        f"[2024/01/01 10:00:{10 * epoch + n:02d}] ppcls INFO: [Train][Epoch {epoch}/2][Iter: {10 * n}/50]lr: 0.1, "
        f"loss: 7.0, batch_cost: 1.0s, reader_cost: 0.5, ips: 256.0 samples/s\n"
        for epoch in (1, 2)
        for n in range(5)
    )
    row = import_text(tmp_path, text)
    assert row.steps.tolist() == [0, 10, 20, 30, 40] * 2
    assert (row.samples / row.samples[0]).tolist() == [1, 10, 10, 10, 10] * 2


def test_mxnet_tells_the_first_and_the_last_batch(tmp_path: Path) -> None:
    lines = "".join(f"Epoch[0] Batch [{n}-{n + 20}]\tSpeed: 100.50 samples/sec\taccuracy=0.1\n" for n in (0, 20, 40))
    assert import_text(tmp_path, lines).steps.tolist() == [20, 40, 60]


def test_the_table_of_the_trainer_repeats_its_one_record(tmp_path: Path) -> None:
    table = "***** train metrics *****\n  train_runtime = 0:02:03.40\n  train_samples_per_second = 16.2\n"
    both = import_text(tmp_path, sample("huggingface") + table)
    assert (describe_runs([both])[0]["records"], both.wall_s) == (1, 123.4)
    only = import_text(tmp_path, table, name="table.log")
    assert (describe_runs([only])[0]["records"], only.wall_s) == (0, None)
    assert apply_protocol("stated", only)["value"] == 16.2


def test_a_log_cut_down_to_its_statement(tmp_path: Path) -> None:
    row = import_text(tmp_path, "Training perf is: 9.199632 FPS\n", name="pytorch_gpu1_fp32_bs2.txt")
    assert (row.dialect, describe_runs([row])[0]["records"]) == ("maskrcnn-benchmark", 0)
    assert apply_protocol("stated:name=Training perf", row)["value"] == 9.199632


def test_a_text_about_a_log_is_none() -> None:
    stream = LogStream(load_dialects())
    stream.feed(b'{"rule": "\\"Training perf is: 9.199632 FPS\\" on the last line"}\n')
    assert stream.dialect is None


def test_records_may_come_long_after_the_protocol_began() -> None:
    stream = LogStream(load_dialects())
    stream.feed(b"AI-Rank-log 1704103200.1 test_begin\n")
    assert stream.dialect is not None
    assert stream.dialect.name == "ai-rank"
    found = stream.feed(ngc(STEADY).encode())
    assert (stream.dialect.name, len(found)) == ("dllogger", len(STEADY))


def test_maskrcnn_benchmark_is_not_its_child(tmp_path: Path) -> None:
    text = "  IMS_PER_BATCH: 16\n" + "".join(
        f"2018-10-23 10:00:{n:02d},1 maskrcnn_benchmark.trainer INFO: eta: 1:00:00  iter: {20 * n}  loss: 1.2 (2.3)  "
        f"time: 0.5000 (0.6000)  data: 0.01 (0.02)  lr: 0.010000  max mem: 3000\n"
        for n in range(1, 9)
    )
    row = import_text(tmp_path, text)
    assert (row.dialect, row.peak_memory_bytes) == ("maskrcnn-benchmark", 3000 * 2**20)
    # The batch of all devices is told, so their number is not needed.
    assert (codes(row), row.unit, describe_runs([row])[0]["last"]) == ([], "images", 32.0)


def test_oneflow_s_validation(tmp_path: Path) -> None:
    line = "validation: epoch 0, iter 195, top_1: 0.698640, top_k: 0.25, samples/s: 2505.0 1597933999.98\n"
    row = import_text(tmp_path, sample("oneflow") + line)
    assert [(e["epoch"], e["value"], round(e["time_s"])) for e in row.evals] == [(1, 0.69864, 58)]


def test_an_evaluation_that_each_rank_prints_is_one(tmp_path: Path) -> None:
    text = "".join(f"[1,{rank}]<stdout>:{line}\n" for line in SAMPLES[0].text.splitlines() for rank in range(4))
    assert [e["value"] for e in import_text(tmp_path, text).evals] == [0.4321]


# -- facts -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("videos", "steps", "batch"), [(234584, 14661, 16), (1000, 16, None), (1000, 1, None)])
def test_the_batch_of_an_epoch_only_where_one_fits(videos: int, steps: int, batch: int | None, tmp_path: Path) -> None:
    """1000 videos in 16 steps are batches of 60, 64 or 66: the rounded quotient is 62."""
    lines = "".join(f"Epoch: [0][{n}/{steps}], lr: 0.0025\tTime 0.4 (0.4)\tLoss 5.9 (5.9)\n" for n in range(8))
    row = import_text(tmp_path, f"video number:{videos}\n{lines}", devices=1)
    assert row.batch_size_per_device == batch
    assert codes(row) == ([] if batch else ["batch-unknown"])


def test_what_stands_before_a_line_of_megabytes_is_not_forgotten(tmp_path: Path) -> None:
    text = SAMPLES[0].text.replace("batch_size", "x" * 8_000_000 + "\nbatch_size", 1)
    row = import_text(tmp_path, text)
    assert (row.devices, codes(row)) == (4, [])


def test_pytorch_s_example_names_its_model(tmp_path: Path) -> None:
    lines = "".join(f"Epoch: [0][{10 * n}/100]\tTime  0.500 ( 0.5)\tLoss 5.9 (5.9)\n" for n in range(1, 9))
    assert import_text(tmp_path, f"=> creating model 'resnet50'\n{lines}").workload == "resnet50"


def test_two_lines_that_belong_together_on_windows(tmp_path: Path) -> None:
    text = sample("detectron2").replace("ENABLED: False", "ENABLED: True").replace("\n", "\r\n")
    assert import_text(tmp_path, text).precision == "amp"


def test_parameters_and_epochs_in_json(tmp_path: Path) -> None:
    told = '{"arch": "resnet50", "batch_size": 256, "amp": true, "world_size": 8}'
    text = f'DLLL {{"timestamp": "1700000000.5", "step": "PARAMETER", "data": {told}}}\n' + sample("dllogger-json")
    text += 'DLLL {"timestamp": "1700000100.5", "step": [0], "data": {"val.top1": 12.5}}\n'
    row = import_text(tmp_path, text)
    assert (row.workload, row.devices, row.batch_size_per_device, row.precision) == ("resnet50", 8, 256, "amp")
    assert [(e["epoch"], e["value"]) for e in row.evals] == [(1, 12.5)]


def test_a_log_of_mmengine(tmp_path: Path) -> None:
    text = "    GPU number: 8\ntrain_dataloader = dict(\n    batch_size=2,\n    dataset=x)\n"
    for step in range(50, 400, 50):
        text += f"2024/01/01 10:00:{step // 10:02d} - mmengine - INFO - Iter(train) [{step:5}/80000]  lr: 1.0e-02  "
        text += "eta: 1:00:00  time: 0.4000  data_time: 0.01  memory: 5000  loss: 1.0\n"
    text += "2024/01/01 10:01:00 - mmengine - INFO - Iter(val) [500/500]    aAcc: 90.0000  mIoU: 70.1200  mAcc: 80.0\n"
    row = import_text(tmp_path, text)
    assert (row.devices, row.batch_size_per_device, describe_runs([row])[0]["last"]) == (8, 2, 40.0)
    assert [(e["step"], e["value"]) for e in row.evals] == [(350, 70.12)]


def test_what_our_own_mllog_export_tells(tmp_path: Path) -> None:
    text = ':::MLLOG {"key": "number_of_nodes", "value": 2, "time_ms": 1700000000000}\n'
    text += ':::MLLOG {"key": "accelerators_per_node", "value": 8, "time_ms": 1700000000000}\n'
    text += ':::MLLOG {"key": "eval_accuracy", "value": {"BBOX": 0.38, "SEGM": 0.34}, "time_ms": 1700000000000}\n'
    row = import_text(tmp_path, text)
    assert (row.nodes, row.devices) == (2, 16)
    assert [(e["metric"], e["value"]) for e in row.evals] == [("bbox_mAP", 0.38)]


# -- warnings ----------------------------------------------------------------------------------------------------------


def test_seconds_and_a_batch_leave_nothing_ambiguous(tmp_path: Path) -> None:
    lines = "".join(f"({n}/62) LR: 0.001 | Batch: 0.500s | ips: 32.0 | Loss: 0.6\n" for n in range(1, 9))
    row = import_text(tmp_path, lines, devices=2, batch_size_per_device=8)
    assert (codes(row), describe_runs([row])[0]["last"]) == ([], 32.0)


def test_seconds_and_samples_in_a_pattern_are_a_speed(tmp_path: Path) -> None:
    pattern = tmp_path / "mine.toml"
    pattern.write_text(
        'name = "mine"\nanchor = "sec/it"\nunit = "clips"\n'
        "record = 'step (?P<step>[0-9]+) (?P<seconds>[0-9.]+) sec/it bs (?P<samples>[0-9]+)'\n"
    )
    lines = "".join(f"step {10 * n} 0.5 sec/it bs 64\n" for n in range(1, 9))
    row = import_text(tmp_path, lines, pattern=pattern)
    assert (codes(row), row.unit, describe_runs([row])[0]["last"]) == ([], "clips", 128.0)


def test_a_number_in_front_may_be_what_a_pattern_reads(tmp_path: Path) -> None:
    pattern = tmp_path / "mine.toml"
    record = "record = '^(?P<step>[0-9]+): speed (?P<rate>[0-9.]+) img/s'"
    pattern.write_text(f'name = "mine"\nanchor = "img/s"\n{record}\n')
    row = import_text(tmp_path, "".join(f"{n}: speed 10{n}.5 img/s\n" for n in range(1, 9)), pattern=pattern)
    assert (row.steps.tolist(), codes(row)) == (list(range(1, 9)), [])


def test_a_total_that_was_multiplied_by_the_devices_once_more(tmp_path: Path) -> None:
    tail = "AI-Rank-log 1704103200.1 test_begin\nAI-Rank-log 1704103300.1 test_finish\n"
    tail += "AI-Rank-log 1704103300.1 avg_ips:3440images/sec\n"
    assert codes(import_text(tmp_path, paddle(430.0, devices=8, batch=8, tail=tail))) == ["stated-scope"]


def test_as_many_devices_on_other_nodes(tmp_path: Path) -> None:
    row = import_text(tmp_path, sample("oneflow"), name="4n4g/r50_b128_fp32_1.log")
    assert (codes(row), row.nodes, row.devices) == (["path-disagrees"], 2, 16)
    assert codes(import_text(tmp_path, sample("oneflow"), name="1n8g/r50_b128_fp32_1.log")) == ["path-disagrees"]


@pytest.mark.parametrize("line", ["allow_tf32=False", "export NVIDIA_TF32_OVERRIDE=0", "TF32 is disabled"])
def test_strict_precision_that_the_log_states(line: str, tmp_path: Path) -> None:
    head = f"GPU 0: NVIDIA A100-SXM4-80GB\n{line}\n"
    assert codes(import_text(tmp_path, ngc(STEADY, amp=False, head=head))) == []


# -- protocols ---------------------------------------------------------------------------------------------------------


def dlperf(lengths: list[int], seconds: list[float]) -> str:
    return "".join(
        f"[Pass {epoch}, train batch {step}] \tloss 7.0, acc1 0.0, lr 0.1, elapse {each} sec\n"
        for epoch, (length, each) in enumerate(zip(lengths, seconds, strict=True))
        for step in range(length)
    )


@pytest.mark.parametrize(
    ("lengths", "seconds"), [([150, 150], [0.25, 0.5]), ([20, 50, 50, 50], [9.0, 0.25, 0.25, 9.0])]
)
def test_dlperf_counts_iterations_through_the_epochs(lengths: list[int], seconds: list[float], tmp_path: Path) -> None:
    row = import_text(tmp_path, dlperf(lengths, seconds), name="1n1g/r50_b128_fp32_1.log")
    answer = apply_protocol("dlperf", row)
    assert (answer["value"], answer["records"]) == (512.0, 100)


def test_steps_a_second_need_no_batch(tmp_path: Path) -> None:
    lines = "".join(f"Epoch: [0][{10 * n}/100]\tTime 0.500 (0.5)\tLoss 5.9 (5.9)\n" for n in range(1, 10))
    row = import_text(tmp_path, lines)
    values = [apply_protocol(f"paddle-benchmark:mode={mode}", row)["value"] for mode in range(4)]
    assert values == [None, 2.0, 2.0, None]


def test_a_step_has_no_fixed_number_of_tokens(tmp_path: Path) -> None:
    """0.5 s a step are 2 steps a second, which a rate in tokens and a batch in sequences cannot give."""
    text = paddle(4000.0, devices=4, batch=8).replace("samples/sec", "tokens/sec")
    row = import_text(tmp_path, text, batch_size_per_device=8)
    values = [apply_protocol(f"paddle-benchmark:mode={mode}", row)["value"] for mode in range(-1, 4)]
    assert values == [pytest.approx(4000.0), None, None, None, None]
