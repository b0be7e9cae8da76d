"""Each export format, exactly; and that a run that failed is never a speed."""

from __future__ import annotations

import csv
import dataclasses
import io
import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from making import make_cell, make_run
from trainmark.analyse.laws import judge
from trainmark.cli.main import main
from trainmark.report.export.paddle_benchmark import MISSIONS, write_log
from trainmark.report.exporting import Exported, exports
from trainmark.store.folder import read_run
from trainmark.store.rows import RunRow


def row(tmp_path: Path, run_id: str = "run-a", *, seconds: float = 0.1, **changes: Any) -> RunRow:
    """Of 20 equal steps."""
    options = {name: changes.pop(name) for name in ("outcome", "reason", "extra") if name in changes}
    folder = make_run(tmp_path, run_id, cell=make_cell(**changes), seconds=[seconds] * 20, **options)
    found = read_run(folder)
    assert found is not None
    return found


def export(name: str, rows: list[RunRow]) -> Exported:
    exported: Exported = exports().load(name).export(rows)
    return exported


def stream(name: str, rows: list[RunRow]) -> str:
    text = export(name, rows).stream
    assert text is not None
    return text


def test_the_formats_are_found() -> None:
    assert exports().names() == ("ai-rank", "csv", "dlperf", "json", "mllog", "paddle-benchmark")
    assert all(found.value.summary and found.value.name == found.name for found in exports().found())


# -- PaddlePaddle benchmark --------------------------------------------------------------------------------------------


def test_paddle_benchmark_has_every_key_of_the_contract(tmp_path: Path) -> None:
    (line,) = stream("paddle-benchmark", [row(tmp_path)]).splitlines()
    assert json.loads(line) == {
        "log_file": "resnet50_bs4_fp32_sp_bs4_fp32_1",
        "model_name": "trainmark_resnet50_bs4_fp32",
        "mission_name": "图像分类",
        "direction_id": 0,
        "run_mode": "sp",
        "index": 1,
        "gpu_num": 1,
        "FINAL_RESULT": 40.0,
        "JOB_FAIL_FLAG": 0,
        "UNIT": "images/s",
        "log_with_profiler": None,
        "profiler_path": None,
    }


def test_paddle_benchmark_of_several_devices(tmp_path: Path) -> None:
    document = json.loads(stream("paddle-benchmark", [row(tmp_path, devices_per_node=8, precision="amp")]))
    assert "log_with_profiler" not in document
    assert document["run_mode"] == "mp"
    assert document["gpu_num"] == 8
    assert document["FINAL_RESULT"] == 320.0, "an already global speed is not multiplied by the devices"
    assert document["log_file"] == "resnet50_bs4_fp16_mp_bs4_fp16_8"


def test_paddle_benchmark_calls_pure_half_precision_by_its_own_name(tmp_path: Path) -> None:
    found = row(tmp_path, precision="fp16")
    assert json.loads(stream("paddle-benchmark", [found]))["log_file"] == "resnet50_bs4_pure_fp16_sp_bs4_pure_fp16_1"
    assert "use AMP to train. AMP level = O2\n" in write_log(found)


def test_the_last_loss_is_given_where_it_is_known(tmp_path: Path) -> None:
    steps = [
        {"kind": "step", "step": n, "seconds": 0.1, "samples": 4, "loss": loss} for n, loss in ((21, 0.9), (22, 0.05))
    ]
    assert json.loads(stream("paddle-benchmark", [row(tmp_path, "a", extra=steps)]))["LOSS_RESULT"] == 0.05
    assert "LOSS_RESULT" not in stream("paddle-benchmark", [row(tmp_path, "b")])
    assert "LOSS_RESULT" not in stream("paddle-benchmark", [row(tmp_path, "c", extra=steps, outcome="nan")])


def test_psenet_counts_its_batch_over_all_devices(tmp_path: Path) -> None:
    found = row(tmp_path, workload="psenet", devices_per_node=8, batch_size_per_device=8)
    assert json.loads(stream("paddle-benchmark", [found]))["model_name"] == "trainmark_psenet_bs64_fp32"


def test_all_five_missions_are_known() -> None:
    names = {workload: mission.name for workload, mission in MISSIONS.items()}
    assert names == {
        "resnet50": "图像分类", "hrnet_w18": "图像分割", "mask_rcnn": "目标检测", "tsm": "视频分类", "psenet": "OCR",
    }  # fmt: skip


@pytest.mark.parametrize("outcome", ["failed", "oom", "nan", "hang", "killed", "timeout", None])
def test_a_run_without_an_ok_is_a_failure_and_no_speed(tmp_path: Path, outcome: str | None) -> None:
    found = row(tmp_path, outcome=outcome)
    document = json.loads(stream("paddle-benchmark", [found]))
    assert (document["JOB_FAIL_FLAG"], document["FINAL_RESULT"]) == (1, 0.0)
    assert stream("dlperf", [found]) == "{}\n"
    assert "tracked_stats" not in stream("mllog", [found])
    assert '"status": "aborted"' in stream("mllog", [found])
    log = export("ai-rank", [found]).files["resnet50/log/CPUx1.log"]
    assert "avg_ips" not in log
    assert "test_finish" not in log
    assert next(csv.DictReader(io.StringIO(stream("csv", [found]))))["throughput"] == ""


def test_a_slow_run_is_no_failure(tmp_path: Path) -> None:
    document = json.loads(stream("paddle-benchmark", [row(tmp_path, seconds=5.7)]))
    assert (document["JOB_FAIL_FLAG"], document["FINAL_RESULT"]) == (0, 0.701754)


def test_the_log_of_a_workload_can_be_imported(tmp_path: Path) -> None:
    """With the same devices, batch and speed."""
    found = row(tmp_path / "s", devices_per_node=2)
    text = export("paddle-benchmark", [found]).files["resnet50_bs4_fp32_mp_bs4_fp32_2"]
    assert text.splitlines()[3].endswith("batch_cost: 0.1 sec, ips: 40 images/sec")
    log = tmp_path / "resnet50.log"
    log.write_text(text)
    assert main(["import", str(log), "--store", str(tmp_path / "imported")]) == 0
    (folder,) = (path for path in (tmp_path / "imported").iterdir() if path.is_dir())
    back = read_run(folder)
    assert back is not None
    assert (back.dialect, back.devices, back.batch_size_per_device, back.workload) == ("paddle", 2, 4, "resnet50")
    speeds = [json.loads(stream("paddle-benchmark", [each]))["FINAL_RESULT"] for each in (found, back)]
    assert speeds == [80.0, 80.0]


def test_the_log_of_a_failure_is_what_it_printed(tmp_path: Path) -> None:
    found = row(tmp_path, outcome="failed")
    exported = export("paddle-benchmark", [found])
    assert list(exported.logs.values()) == [found.id]
    assert set(exported.logs).isdisjoint(exported.files)


def test_tf32_is_never_called_fp32(tmp_path: Path) -> None:
    assert "fp32" not in stream("paddle-benchmark", [row(tmp_path, precision="tf32")])


def test_a_stranger_s_name_makes_no_path(tmp_path: Path) -> None:
    found = row(tmp_path, workload="../../etc/passwd")
    for name in ("paddle-benchmark", "ai-rank"):
        assert all(".." not in file.split("/") for file in export(name, [found]).files)
    long = row(tmp_path, "long", workload="测" * 5000)
    for name in ("paddle-benchmark", "ai-rank"):
        assert all(len(part.encode()) < 256 for file in export(name, [long]).files for part in file.split("/"))


# -- DLPerf ------------------------------------------------------------------------------------------------------------

SEED = {
    (1, 1): (353.77, 350.54, 354.28, 352.50, 351.55, 350.77),
    (1, 2): (654.90, 625.95, 631.30, 638.81, 611.51, 639.43),
    (1, 4): (1352.04, 1353.20, 1361.19, 1362.62, 1356.96, 1358.67),
    (1, 8): (2607.74, 2632.94, 2620.69, 2617.84, 2628.77, 2619.20),
    (2, 8): (4885.12, 4888.30, 4897.39, 4913.18, 4887.00, 4871.62),
    (4, 8): (9243.73, 9333.09, 9329.65, 9337.39, 9295.01, 9332.23),
}


def seed_rows(tmp_path: Path) -> list[RunRow]:
    rows = []
    for (nodes, devices), speeds in SEED.items():
        for repeat, speed in enumerate(speeds, start=1):
            shape = {"nodes": nodes, "devices_per_node": devices, "batch_size_per_device": 128, "repeat": repeat}
            seconds = nodes * devices * 128 / speed
            rows.append(row(tmp_path, f"{nodes}n{devices}g-{repeat}", seconds=seconds, **shape))
    return rows


@pytest.mark.parametrize("order", [slice(None), slice(None, None, -1), slice(5, None)])
def test_dlperf_speedups_do_not_depend_on_the_order(tmp_path: Path, order: slice) -> None:
    rows = seed_rows(tmp_path)
    rows = [*rows[order], *(found for found in rows if found not in rows[order])]
    cases = json.loads(stream("dlperf", rows))["resnet50"]
    assert list(cases) == ["1n1g", "1n2g", "1n4g", "1n8g", "2n8g", "4n8g"]
    speedups = [round(case["speedup"], 2) for case in cases.values()]
    assert speedups == [1.0, 1.80, 3.85, 7.44, 13.88, 26.44]
    base = cases["1n1g"]["median_speed"]
    assert [round(case["median_speed"] / base, 2) for case in cases.values()] == [1.0, 1.80, 3.86, 7.44, 13.88, 26.51]
    assert cases["1n4g"] == {
        "average_speed": 1357.45, "median_speed": 1357.82, "batch_size_per_device": 128, "speedup": 3.85381,
    }  # fmt: skip


def test_dlperf_divides_only_what_has_the_same_batch(tmp_path: Path) -> None:
    rows = [
        row(tmp_path, "a", batch_size_per_device=4),
        row(tmp_path, "b", batch_size_per_device=8, devices_per_node=2),
        row(tmp_path, "c", batch_size_per_device=8, devices_per_node=4),
    ]
    assert [case["speedup"] for case in json.loads(stream("dlperf", rows))["resnet50"].values()] == [1.0, None, None]


def test_dlperf_keeps_cases_apart_that_differ_in_more_than_devices(tmp_path: Path) -> None:
    rows = [row(tmp_path, "a"), row(tmp_path, "b", precision="amp"), row(tmp_path, "c", batch_size_per_device=8)]
    assert sorted(json.loads(stream("dlperf", rows))) == ["resnet50_b4_amp", "resnet50_b4_fp32", "resnet50_b8_fp32"]


def test_dlperf_divides_only_what_has_the_same_software(tmp_path: Path) -> None:
    old, new = {"framework": "torch 2.3.0"}, {"framework": "torch 2.9.0", "git": {"commit": "c" * 40}}
    one, two = row(tmp_path, "a"), row(tmp_path, "b", devices_per_node=2)
    rows = [dataclasses.replace(one, environment=old), dataclasses.replace(two, environment=new)]
    assert [case["speedup"] for case in json.loads(stream("dlperf", rows))["resnet50"].values()] == [1.0, None]
    rows.append(dataclasses.replace(one, environment=new))
    found = json.loads(stream("dlperf", rows))
    assert sorted(found) == ["resnet50_torch 2.3.0_unknown", "resnet50_torch 2.9.0_cccccccc"]
    assert found["resnet50_torch 2.9.0_cccccccc"]["1n2g"]["speedup"] == 2.0


def test_dlperf_leaves_out_what_is_on_an_unknown_number_of_nodes(tmp_path: Path) -> None:
    rows = [row(tmp_path, "a"), row(tmp_path, "b", devices_per_node=8), row(tmp_path, "c", outcome="failed")]
    rows = [dataclasses.replace(found, nodes=None) for found in rows]
    exported = export("dlperf", rows)
    assert list(json.loads(exported.stream or "")["resnet50"]) == ["1n1g"], "one device is on one node"
    assert list(exported.left_out) == ["b", "c"]
    assert "import it with --devices N --nodes N" in exported.left_out["b"]
    assert exported.left_out["c"] == "no speed"


def test_runs_that_are_left_out_are_told_and_not_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(tmp_path / "s", "run-a")
    make_run(tmp_path / "s", "run-b", outcome="failed")
    words = ["export", "--format", "dlperf", "--store", str(tmp_path / "s")]
    assert main(words) == 0
    assert capsys.readouterr().err == "1 run left out: no speed\n"
    target = str(tmp_path / "result.json")
    assert main([*words, "--output", target]) == 0
    assert f"1 run written to {target} (1 file)\n1 run left out: no speed\n" in capsys.readouterr().err


# -- AI-Rank -----------------------------------------------------------------------------------------------------------

EVALS = [
    {"kind": "eval", "step": 10, "epoch": 1, "time_s": 4.0, "metric": "top1", "value": 0.5},
    {"kind": "eval", "step": 20, "epoch": 2, "time_s": 8.0, "metric": "top1", "value": 0.76},
]
SYSTEM_KEYS = [
    "accelerator_memory_capacity",
    "accelerator_name",
    "accelerators_per_node",
    "host_memory_capacity",
    "host_processor_core_count",
    "host_processor_name",
    "host_processors_per_node",
    "host_storage_capacity",
    "host_storage_type",
    "number_of_nodes",
    "operating_system",
    "software_stack",
    "submitter",
    "hardware_name",
    "hardware_type",
]


def test_ai_rank_log_lines(tmp_path: Path) -> None:
    files = export("ai-rank", [row(tmp_path, extra=EVALS)]).files
    assert files["resnet50/log/CPUx1.log"].splitlines() == [
        "- AI-Rank-log 1.000 load_data, checksum:unknown",
        "- AI-Rank-log 1.000 test_begin",
        "- AI-Rank-log 5.000 eval_accuracy:0.5, total_epoch_cnt:1",
        "- AI-Rank-log 9.000 eval_accuracy:0.76, total_epoch_cnt:2",
        "- AI-Rank-log 13.000 test_finish",
        "- AI-Rank-log 13.000 total_use_time:12.00sec",
        "- AI-Rank-log 13.000 avg_ips:40.0images/sec",
    ]


def test_ai_rank_summary_and_system(tmp_path: Path) -> None:
    rows = [row(tmp_path, "a", device="cuda", extra=EVALS), row(tmp_path, "b", device="cuda", devices_per_node=8)]
    files = export("ai-rank", rows).files
    assert set(files) == {
        "resnet50/log/GPUx1.log", "resnet50/log/GPUx8.log", "summary_metrics.json", "system_information.json",
    }  # fmt: skip
    single, eight = json.loads(files["summary_metrics.json"])
    assert (single["throughput"], single["accuracy"], single["speed-up"]) == (40.0, 0.76, None)
    assert (eight["throughput"], eight["accuracy"], eight["speed-up"]) == (320.0, None, 8.0)
    assert (eight["devices"], eight["Time2Train"]) == (8, None)
    system = json.loads(files["system_information.json"])
    assert list(system) == SYSTEM_KEYS
    assert (system["accelerators_per_node"], system["number_of_nodes"]) == (8, 1)


def test_ai_rank_keeps_every_run(tmp_path: Path) -> None:
    rows = [row(tmp_path, "a"), row(tmp_path, "b", repeat=2), row(tmp_path, "c", precision="bf16")]
    assert sorted(export("ai-rank", rows).files)[:3] == [
        "resnet50/log/CPUx1-bs4-bf16.log", "resnet50/log/CPUx1-bs4-fp32.log", "resnet50/log/CPUx1-bs4-fp32_2.log",
    ]  # fmt: skip


def trained(tmp_path: Path, run_id: str, time_s: float | None, **changes: Any) -> RunRow:
    """A run that reached its target after `time_s`, or never."""
    evals = ({"metric": "top1", "value": 0.76, "time_s": time_s},) if time_s else ()
    found = row(tmp_path, run_id, precision="amp", device="cuda", **changes)
    return dataclasses.replace(found, evals=evals, until_target={"top1": 0.759})


def test_ai_rank_training_speedups_have_the_right_base_in_any_order(tmp_path: Path) -> None:
    rows = [
        trained(tmp_path, "one", 126697.0),
        trained(tmp_path, "eight", 17460.8, devices_per_node=8),
        trained(tmp_path, "no-target", None, batch_size_per_device=8),
        trained(tmp_path, "other-batch", 15000.0, batch_size_per_device=8, devices_per_node=8),
        trained(tmp_path, "other-framework", 100000.0, framework="paddle", devices_per_node=2),
        trained(tmp_path, "paddle-eight", 25000.0, framework="paddle", devices_per_node=8),
    ]
    wanted = {
        ("torch", 4, 1): (None, None),
        ("torch", 4, 8): (7.26, 1),
        ("torch", 8, 1): (None, None),
        ("torch", 8, 8): (None, None),
        ("paddle", 4, 2): (None, None),
        ("paddle", 4, 8): (4.0, 2),
    }
    for order in itertools.islice(itertools.permutations(rows), 0, 720, 97):
        found = {}
        for line in json.loads(export("ai-rank", list(order)).files["summary_metrics.json"]):
            speedup = line["Time2Train_speed-up"]
            key = (line["framework"], line["batch_size_per_device"], line["devices"])
            found[key] = (speedup and round(speedup, 2), line["Time2Train_speed-up_base_devices"])
        assert found == wanted


def test_ai_rank_compares_times_to_train_only_of_one_software_and_target(tmp_path: Path) -> None:
    old, new = {"framework": "torch 2.3.0"}, {"framework": "torch 2.9.0"}
    rows = [
        dataclasses.replace(trained(tmp_path, "old-one", 8000.0), environment=old),
        dataclasses.replace(trained(tmp_path, "new-two", 3000.0, devices_per_node=2), environment=new),
        dataclasses.replace(trained(tmp_path, "new-eight", 1000.0, devices_per_node=8), environment=new),
        dataclasses.replace(
            trained(tmp_path, "easy", 500.0, devices_per_node=4), environment=new, until_target={"top1": 0.7}
        ),
    ]
    found = {line["devices"]: line for line in json.loads(export("ai-rank", rows).files["summary_metrics.json"])}
    bases = {devices: line["Time2Train_speed-up_base_devices"] for devices, line in found.items()}
    assert bases == {1: None, 2: None, 4: None, 8: 2}
    assert found[8]["Time2Train_speed-up"] == 3.0
    same = {devices: line["speed-up_same_environment"] for devices, line in found.items()}
    assert same == {1: None, 2: None, 4: True, 8: True}


def test_ai_rank_says_where_the_base_is_of_other_software(tmp_path: Path) -> None:
    one, two = row(tmp_path, "one"), row(tmp_path, "two", devices_per_node=2)
    rows = [dataclasses.replace(one, environment={"framework": "torch 2.3.0"}), two]
    _, found = json.loads(export("ai-rank", rows).files["summary_metrics.json"])
    assert (found["speed-up"], found["speed-up_same_environment"]) == (2.0, False)


def test_ai_rank_states_the_base_of_the_throughput(tmp_path: Path) -> None:
    rows = [row(tmp_path, f"r{n}", devices_per_node=n) for n in (8, 2)]
    eight, two = json.loads(export("ai-rank", rows).files["summary_metrics.json"])
    assert (eight["speed-up"], eight["speed-up_base_devices"]) == (4.0, 2)
    assert (two["speed-up"], two["speed-up_base_devices"]) == (None, None)


BOX_AND_MASK = [
    {"kind": "eval", "step": 10, "epoch": 1, "time_s": 4.0, "metric": "box_ap", "value": 0.377},
    {"kind": "eval", "step": 10, "epoch": 1, "time_s": 4.0, "metric": "mask_ap", "value": 0.339},
    {"kind": "eval", "step": 20, "epoch": 2, "metric": "box_ap", "value": 0.38},
]


def test_eval_accuracy_is_the_main_metric_and_has_a_time(tmp_path: Path) -> None:
    found = row(tmp_path, workload="mask_rcnn", extra=BOX_AND_MASK)
    files = export("ai-rank", [found]).files
    lines = [line for line in files["mask_rcnn/log/CPUx1.log"].splitlines() if "eval_accuracy" in line]
    assert lines == ["- AI-Rank-log 5.000 eval_accuracy:0.377, total_epoch_cnt:1"]
    (summary,) = json.loads(files["summary_metrics.json"])
    assert (summary["metric"], summary["accuracy"]) == ("box_ap", 0.38)
    evaluations = [line for line in parse_mllog(stream("mllog", [found])) if "metric" in line["metadata"]]
    assert [(line["key"], line["value"], line["metadata"]["metric"], line["time_ms"]) for line in evaluations] == [
        ("eval_accuracy", 0.377, "box_ap", 5000),
        ("tracked_stats", {"mask_ap": 0.339}, "mask_ap", 5000),
    ]


def test_the_stated_target_names_the_main_metric(tmp_path: Path) -> None:
    found = row(tmp_path, workload="mask_rcnn", extra=BOX_AND_MASK)
    found = dataclasses.replace(found, log={"target": {"metric": "mask_ap", "value": 0.33}})
    log = export("ai-rank", [found]).files["mask_rcnn/log/CPUx1.log"]
    assert (log.count("eval_accuracy"), log.count("eval_accuracy:0.339,")) == (1, 1)


# -- MLPerf ------------------------------------------------------------------------------------------------------------


def parse_mllog(text: str) -> list[dict[str, Any]]:
    """As the parser of the package expects: the token, then one JSON object with these keys."""
    found = []
    for line in text.splitlines():
        assert line.startswith(":::MLLOG ")
        document = json.loads(line.removeprefix(":::MLLOG "))
        assert list(document) == ["namespace", "time_ms", "event_type", "key", "value", "metadata"]
        assert isinstance(document["time_ms"], int)
        assert document["event_type"] in ("POINT_IN_TIME", "INTERVAL_START", "INTERVAL_END")
        found.append(document)
    return found


def test_mllog_lines(tmp_path: Path) -> None:
    lines = parse_mllog(stream("mllog", [row(tmp_path, extra=EVALS)]))
    by_key = {line["key"]: line for line in lines}
    assert by_key["submission_benchmark"]["value"] == "resnet"
    assert by_key["global_batch_size"]["value"] == 4
    assert (by_key["run_start"]["event_type"], by_key["run_start"]["time_ms"]) == ("INTERVAL_START", 1000)
    evaluations = [line for line in lines if line["key"] == "eval_accuracy"]
    assert [(line["value"], line["metadata"]["epoch_num"]) for line in evaluations] == [(0.5, 1), (0.76, 2)]
    assert by_key["tracked_stats"]["value"]["throughput"] == pytest.approx(40)
    assert by_key["run_stop"]["metadata"]["status"] == "success"
    assert by_key["run_stop"]["time_ms"] == 13000


@pytest.mark.parametrize(("nodes", "per_node"), [(None, None), (8, 8)])
def test_devices_of_a_node_are_known_only_with_the_nodes(
    nodes: int | None, per_node: int | None, tmp_path: Path
) -> None:
    run = dataclasses.replace(row(tmp_path), devices=64, nodes=nodes)
    lines = [json.loads(line.removeprefix(":::MLLOG ")) for line in stream("mllog", [run]).splitlines()]
    assert [line["value"] for line in lines if line["key"] == "accelerators_per_node"] == [per_node]
    system = json.loads(export("ai-rank", [run]).files["system_information.json"])
    assert system["accelerators_per_node"] == (0 if run.device == "cpu" else per_node)


def test_the_public_package_reads_mllog(tmp_path: Path) -> None:
    parser = pytest.importorskip(
        "mlperf_logging.compliance_checker.mlp_parser", reason="mlperf-logging is not installed"
    )
    rows = [row(tmp_path, "a", extra=EVALS), row(tmp_path, "b", outcome="oom", reason="ключ \u2028 \x1b[31m")]
    path = tmp_path / "result.txt"
    path.write_text(stream("mllog", rows))
    lines, errors = parser.parse_file(str(path), ruleset="5.0.0")
    assert errors == []
    assert len(lines) == len(path.read_text().splitlines())
    assert [line.value["value"] for line in lines if line.key == "eval_accuracy"] == [0.5, 0.76]


# -- csv, json and the command line ------------------------------------------------------------------------------------


def test_csv(tmp_path: Path) -> None:
    (found,) = csv.DictReader(io.StringIO(stream("csv", [row(tmp_path, extra=EVALS)])))
    assert (found["id"], found["workload"], float(found["throughput"])) == ("run-a", "resnet50", pytest.approx(40))
    assert (found["last_metric"], found["last_value"], found["unit"]) == ("top1", "0.76", "images/s")
    assert found["epochs"] == ""


def test_csv_never_starts_a_formula(tmp_path: Path) -> None:
    (found,) = csv.DictReader(io.StringIO(stream("csv", [row(tmp_path, outcome="failed", reason="=1+1\n\x1b[2J")])))
    assert found["reason"] == "'=1+1��[2J"


def test_json_is_what_show_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(tmp_path, "run-a")
    assert main(["export", "--format", "json", "--store", str(tmp_path)]) == 0
    exported = capsys.readouterr().out
    assert main(["show", "--json", "--store", str(tmp_path)]) == 0
    assert capsys.readouterr().out == exported


def test_export_to_a_file_a_folder_and_nowhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = tmp_path / "s"
    folder = make_run(store, "run-a")
    (folder / "output.log").write_text("what it printed\n")
    base = ["export", "--store", str(store), "--format"]
    assert main([*base, "paddle-benchmark", "-o", str(tmp_path / "line.json")]) == 0
    assert json.loads((tmp_path / "line.json").read_text())["FINAL_RESULT"] == 40.0
    assert main([*base, "paddle-benchmark", "-o", f"{tmp_path}/deep/folder/"]) == 0
    name = "resnet50_bs4_fp32_sp_bs4_fp32_1"
    log = (tmp_path / "deep/folder" / name).read_text()
    assert log.startswith("model: ResNet-50 v1.5, GPUs used: 1, batch_size: 4\n")
    assert json.loads((tmp_path / "deep/folder" / f"{name}_speed").read_text())["log_file"] == name
    capsys.readouterr()
    assert main([*base, "ai-rank"]) == 2
    assert "--output DIR" in capsys.readouterr().err
    assert main([*base, "csv", "-o", str(tmp_path / "no" / "x.csv")]) == 2
    assert "cannot write the export" in capsys.readouterr().err
    assert main([*base, "csv", "nonsense"]) == 2
    assert "begins with 'nonsense'" in capsys.readouterr().err


def test_files_are_written_whole_or_not_at_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The second file cannot be written, so the first is not there either."""
    store, out = tmp_path / "s", tmp_path / "out"
    make_run(store, "run-a")
    out.mkdir()
    (out / "resnet50").write_text("a file where a folder is needed")
    before = {path: path.read_bytes() for path in out.rglob("*")}
    assert main(["export", "--format", "ai-rank", "--store", str(store), "-o", str(out)]) == 2
    assert "cannot write the export" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in out.rglob("*")} == before


# -- an attempt that was repeated --------------------------------------------------------------------------------------


def test_an_interrupted_run_that_was_resumed_is_no_failure(tmp_path: Path) -> None:
    """Ctrl-C, then the same command: the first attempt was killed, the second one counts."""
    killed = row(tmp_path, "run-a", outcome="killed", reason="interrupted by Ctrl-C")
    done = dataclasses.replace(row(tmp_path, "run-b"), retry_of=killed.id, attempt=2)
    (document,) = map(json.loads, stream("paddle-benchmark", [killed, done]).splitlines())
    assert (document["JOB_FAIL_FLAG"], document["FINAL_RESULT"]) == (0, 40.0)
    assert "aborted" not in stream("mllog", [killed, done])
    (line,) = csv.DictReader(io.StringIO(stream("csv", [killed, done])))
    assert line["outcome"] == "ok"
    logs = [path for path in export("ai-rank", [killed, done]).files if path.endswith(".log")]
    assert logs == ["resnet50/log/CPUx1.log"]
    for name in ("paddle-benchmark", "mllog", "csv", "ai-rank"):
        assert export(name, [killed, done]).left_out == {"run-a": "an attempt that was repeated"}


def test_a_run_that_was_killed_for_good_is_a_failure(tmp_path: Path) -> None:
    killed = row(tmp_path, "run-a", outcome="killed", reason="interrupted by Ctrl-C")
    assert json.loads(stream("paddle-benchmark", [killed]))["JOB_FAIL_FLAG"] == 1


def test_file_names_have_no_path_of_an_interpreter(tmp_path: Path) -> None:
    command = dataclasses.replace(
        row(tmp_path), workload=None, source="command", model="/opt/v/bin/python train.py -b 4"
    )
    assert list(export("paddle-benchmark", [command]).files) == ["train.py--b-4_bs4_fp32_sp_bs4_fp32_1_speed"]
    assert "train.py--b-4/log/CPUx1.log" in export("ai-rank", [command]).files


# -- a run that breaks a law -------------------------------------------------------------------------------------------


def test_a_marked_run_is_marked_in_every_format(tmp_path: Path) -> None:
    base, fast = row(tmp_path, "run-a"), row(tmp_path, "run-b", devices_per_node=2, seconds=0.02)
    judge([base, fast])
    for name in ("ai-rank", "csv", "dlperf", "json", "mllog", "paddle-benchmark"):
        exported = export(name, [base, fast])
        assert any("superlinear" in text for text in exported.files.values()), name
        own = export(name, [base])
        assert not any("superlinear" in text for text in own.files.values()), name
