"""`trainmark run -- CMD`: real processes of scripts that know nothing of us, or one line of us."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from making import heed_interrupts
from trainmark.cli.main import main
from trainmark.launch import supervise
from trainmark.launch.processes import find
from waiting import wait_until

SCRIPTS = Path(__file__).parent / "scripts"
ROOT = Path(__file__).parents[2]

MARKED = """
import sys, time
from trainmark import mark
for i in range(12):
    time.sleep(0.01)
    mark.step(samples=int(sys.argv[1]))
mark.evaluation("top1", 0.5, epoch=1)
"""


def run(store: Path, *argv: str, capsys: pytest.CaptureFixture[str], code: int = 0) -> list[dict[str, Any]]:
    """In this process, which loads no framework."""
    assert main(["run", "--store", str(store), "--json", *argv]) == code
    results: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["results"]
    assert not any(find(result["id"]) for result in results), "a process outlived its run"
    return results


def write_script(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "script.py"
    path.write_text(text)
    return [sys.executable, str(path)]


def read(store: Path, result: dict[str, Any], name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((store / result["id"] / name).read_text())
    return document


def test_what_is_known_at_the_end_stands_before_the_end_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A kill after exit.json must not leave a finished run that has lost its dialect."""
    found = []
    write_exit = supervise._write_exit

    def look_first(folder: Path, *args: Any, **more: Any) -> None:
        found.append(json.loads((folder / "run.json").read_text())["dialect"])
        write_exit(folder, *args, **more)

    monkeypatch.setattr(supervise, "_write_exit", look_first)
    run(tmp_path / "s", "--", *write_script(tmp_path, MARKED), "4", capsys=capsys)
    assert found == ["mark"]


@pytest.mark.serial
def test_a_real_script_s_speed_is_its_own_statement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Trains on the CPU for seconds. The observed steps are compared with the script's own clock over the very same
    iterations, and the result with the observed steps: what else the machine does meanwhile changes all of them.
    """
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    times = tmp_path / "times"
    script = [sys.executable, str(SCRIPTS / "train_shapes.py"), "-b", "{batch_size}", "--iterations", "600"]
    store = tmp_path / "s"
    (result,) = run(store, "--batch-size", "32", "--", *script, "--times", str(times), capsys=capsys)
    assert (result["outcome"], result["dialect"], result["source"]) == ("ok", "torch-example", "command")
    assert (result["framework"], result["batch_size_per_device"], result["devices"]) == ("torch", 32, 1)
    speed = result["throughput"]
    assert (speed["unit"], result["witness"], result["records"]) == ("images/s", "observer", 599)
    assert all(result["witnesses"][name] > 0 for name in ("observer", "log", "clock"))
    lines = (store / result["id"] / "rank0.observed.jsonl").read_text().splitlines()
    steps = [record for record in map(json.loads, lines) if record["kind"] == "step"]
    seconds = [step["seconds"] for step in steps]
    assert len(seconds) == 599
    # The first iteration starts the clock, and the script's lines are ten iterations apart.
    printed = [float(line) for line in times.read_text().split()]
    own = 590 * 32 / sum(seconds[9:])
    assert own == pytest.approx(590 * 32 / (printed[-1] - printed[0]), rel=0.05)
    output = (store / result["id"] / "output.log").read_text()
    assert own == pytest.approx(float(re.findall(r"([\d.]+) images/s", output)[-1]), rel=0.05)
    if speed["value"] is None:  # the machine was busy
        assert "too-noisy" in {warning["code"] for warning in result["warnings"]}
        return
    used = seconds[speed["warmup_steps"] :]
    assert speed["value"] == pytest.approx(32 * len(used) / sum(used), rel=1e-6)


def test_placeholders_sweep(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = write_script(tmp_path, MARKED)
    flags = ["--batch-size", "16,32", "--precision", "fp32,amp", "--repeat", "2", "--seed", "7"]
    command = [*script, "{batch_size}", "--amp={precision}", "{seed}", "{other}"]
    results = run(tmp_path / "s", *flags, "--", *command, capsys=capsys)
    asked = [(r["repeat"], r["batch_size_per_device"], r["precision"]) for r in results]
    assert asked == [(n, b, p) for n in (1, 2) for b in (16, 32) for p in ("fp32", "amp")]
    assert len({result["cell_id"] for result in results}) == 4
    assert read(tmp_path / "s", results[1], "command.json")["argv"] == [*script, "16", "--amp=amp", "7", "{other}"]
    assert read(tmp_path / "s", results[1], "run.json")["cell"]["command"] == command
    assert all(result["outcome"] == "ok" for result in results)


def test_marks_are_exact_and_win_over_what_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    misleading = "print('Epoch: [0][1/2]\\tTime  0.001 ( 0.001)\\tLoss 1.0 (1.0)')\n"
    script = write_script(tmp_path, misleading + MARKED + misleading)
    (result,) = run(tmp_path / "s", "--", *script, "40", capsys=capsys)
    assert (result["dialect"], result["records"]) == ("mark", 11)
    asked = shlex.join(["trainmark", "run", "--store", str(tmp_path / "s"), "--json", "--", *script, "40"])
    assert read(tmp_path / "s", result, "run.json")["asked"] == asked
    assert 40 / 0.1 < result["median"] < 40 / 0.01
    assert [(e["metric"], e["value"], e["epoch"]) for e in result["evals"]] == [("top1", 0.5, 1.0)]
    environment = read(tmp_path / "s", result, "env.json")
    assert environment["num_cores"] > 0
    assert "torch" in environment["packages"]


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_two_devices_without_a_placeholder_are_two_processes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = write_script(tmp_path, MARKED)
    (result,) = run(tmp_path / "s", "--devices", "2", "--", *script, "10", capsys=capsys)
    command = read(tmp_path / "s", result, "command.json")
    assert (command["launcher"], result["devices"], result["records"]) == ("torchrun", 2, 11)
    steps = [json.loads(line) for line in (tmp_path / "s" / result["id"] / "rank0.jsonl").read_text().splitlines()]
    seconds = sum(step["seconds"] for step in steps if step["kind"] == "step")
    assert result["mean_of_rates"] > 1.5 * 11 * 10 / seconds, "both processes count"


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
@pytest.mark.parametrize(
    ("launcher", "how"), [("torchrun", "file"), ("torchrun", "module"), ("spawn", "file"), ("paddle", "file")]
)
def test_options_of_a_script_are_not_those_of_its_launcher(
    launcher: str, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """--n begins like --nnodes, --m like --max-restarts, and -- is a word like any other."""
    pytest.importorskip({"paddle": "paddle"}.get(launcher, "torch"))
    options = ["--n", "12", "--m", "-h", "--nnodes", "x", "--", "-m"]
    text = MARKED.replace("int(sys.argv[1])", "3") + f"assert sys.argv[1:] == {options}, sys.argv\n"
    file = write_script(tmp_path, text)
    monkeypatch.chdir(tmp_path)
    command = [sys.executable, "-m", "script"] if how == "module" else file
    (result,) = run(tmp_path / "s", "--devices", "2", "--launcher", launcher, "--", *command, *options, capsys=capsys)
    assert (result["outcome"], result["devices"]) == ("ok", 2)
    assert read(tmp_path / "s", result, "command.json")["launcher"] == launcher


def test_a_failing_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = write_script(tmp_path, "print('starting'); raise KeyError('labels')")
    (result,) = run(tmp_path / "s", "--", *script, capsys=capsys, code=1)
    assert result["outcome"] == "failed"
    assert result["reason"] == "the command ended with exit code 1: KeyError: 'labels'"
    assert result["throughput"] is None
    assert "Traceback" in (tmp_path / "s" / result["id"] / "output.log").read_text()


def test_a_report_is_offered_only_where_there_is_something_to_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "s"
    words = ["run", "--store", str(store), "--"]
    assert main([*words, "sh", "-c", "exit 3"]) == 1
    (output,) = store.glob("*/output.log")
    assert capsys.readouterr().err.endswith(f"next: look at {output}\n")
    assert main([*words, *write_script(tmp_path, MARKED), "4"]) == 0
    assert capsys.readouterr().err.endswith(f"next: trainmark report --store {store}\n")
    before = set(store.glob("*/exit.json"))
    assert main([*words, "sh", "-c", "exit 4"]) == 1
    (ending,) = set(store.glob("*/exit.json")) - before
    failed = ending.parent.name
    assert capsys.readouterr().err.endswith(f"next: trainmark show {failed} --store {store}\n")


def test_out_of_memory_and_nan_are_outcomes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = write_script(tmp_path, "raise RuntimeError('CUDA out of memory. Tried to allocate 20.00 GiB')")
    (result,) = run(tmp_path / "s", "--", *script, capsys=capsys, code=1)
    assert result["outcome"] == "oom"
    line = "print('Epoch: [0][%d/9]\\tTime  0.100 ( 0.100)\\tLoss nan (nan)' % i)"
    script = write_script(tmp_path, f"for i in range(9): {line}")
    (result,) = run(tmp_path / "s", "--", *script, capsys=capsys, code=1)
    assert (result["outcome"], result["throughput"]) == ("nan", None)


@pytest.mark.serial
def test_a_hanging_script_is_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    quick = ["--hang-least-s", "1", "--hang-factor", "3", "--retries", "0"]
    line = "print('Epoch: [0][%d/99]\\tTime  0.150 ( 0.150)\\tLoss 1.0 (1.0)' % i); time.sleep(0.15)"
    script = write_script(tmp_path, f"import time\nfor i in range(12): {line}\ntime.sleep(100)")
    (result,) = run(tmp_path / "s", *quick, "--batch-size", "3", "--", *script, capsys=capsys, code=1)
    assert result["outcome"] == "hang"
    assert result["records"] >= 8


def test_a_time_out_ends_children_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    child = "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(100)'],"
    script = write_script(tmp_path, f"{child} start_new_session=True)\ntime.sleep(100)")
    (result,) = run(tmp_path / "s", "--timeout-s", "1.5", "--", *script, capsys=capsys, code=1)
    assert result["outcome"] == "timeout"


def test_ctrl_c_keeps_what_was_marked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = write_script(tmp_path, MARKED.replace("range(12)", "range(10000)"))
    argv = [sys.executable, "-m", "trainmark.cli.main", "run", "--store", str(tmp_path / "s"), "--", *script, "4"]
    process = subprocess.Popen(
        argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=heed_interrupts
    )
    wait_until(
        lambda: [path for path in (tmp_path / "s").glob("*/rank0.jsonl") if path.read_text().count("step") > 20],
        what="20 steps are recorded",
    )
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "interrupted with 0 of 1 run done" in err
    assert main(["show", "--json", "--store", str(tmp_path / "s")]) == 0
    (result,) = json.loads(capsys.readouterr().out)["results"]
    assert (result["outcome"], result["dialect"], result["throughput"]) == ("killed", "mark", None)
    assert result["records"] > 5


def test_output_that_nobody_knows_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--store", str(tmp_path), "--", "echo", "going well"]) == 1
    out, err = capsys.readouterr()
    (output,) = tmp_path.glob("*/output.log")
    assert err.endswith(f"next: trainmark import {output} --pattern FILE.toml --store {tmp_path}\n")
    assert "no-records" in out
    assert "--pattern" in out
    assert "mark.step" in out
    assert main(["show", "--json", "--store", str(tmp_path)]) == 0
    (result,) = json.loads(capsys.readouterr().out)["results"]
    assert (result["outcome"], result["records"], result["throughput"]) == ("ok", 0, None)


def test_no_shell_ever_sees_the_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    word = f"$(touch {tmp_path}/made); `id` && {{seed}}"
    (result,) = run(tmp_path / "s", "--", "echo", word, "--", "--json", capsys=capsys, code=1)
    expected = f"$(touch {tmp_path}/made); `id` && 0 -- --json\n"
    assert (tmp_path / "s" / result["id"] / "output.log").read_text() == expected
    assert not (tmp_path / "made").exists()


# -- run_benchmark.sh --------------------------------------------------------------------------------------------------


def benchmark(*argv: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    program = f"{sys.executable} -m trainmark.cli.main"
    environment = {key: value for key, value in os.environ.items() if key != "CUDA_VISIBLE_DEVICES"}
    environment |= {"TRAINMARK": program, "TRAINMARK_ARGS": "--device cpu --size small", **variables}
    script = str(ROOT / "scripts" / "run_benchmark.sh")
    return subprocess.run(
        ["bash", script, *argv], cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=300
    )


def test_run_benchmark_sp(tmp_path: Path) -> None:
    done = benchmark("sp", "2", "fp32", "3", cwd=tmp_path, MODEL="resnet50", TRAIN_LOG_DIR="logs")
    assert done.returncode == 0, done.stderr
    name = "resnet50_bs2_fp32_sp_bs2_fp32_1"
    assert {path.name for path in (tmp_path / "logs").iterdir()} == {name, f"{name}_speed", "runs"}
    document = json.loads((tmp_path / "logs" / f"{name}_speed").read_text().splitlines()[-1])
    assert (document["JOB_FAIL_FLAG"], document["gpu_num"], document["run_mode"]) == (0, 1, "sp")
    assert document["FINAL_RESULT"] > 0
    (run_folder,) = (path for path in (tmp_path / "logs" / "runs").iterdir() if path.is_dir())
    steps = [line for line in (run_folder / "rank0.jsonl").read_text().splitlines() if '"kind":"step"' in line]
    assert len(steps) == 3, "MAX_ITER is the number of iterations"


@pytest.mark.parametrize(
    ("argv", "variables", "says"),
    [
        ("xx 8 fp32 10", {"MODEL": "psenet"}, "RUN_MODE xx is not supported"),
        ("sp 8 bf16 10", {"MODEL": "psenet"}, "FP_ITEM bf16 is not supported"),
        ("sp 8 fp32 10", {"MODEL": "vgg"}, "MODEL vgg is not known"),
        ("sp 8 fp32", {"MODEL": "tsm"}, "four or five arguments"),
        ("sp -1 fp32 10", {"MODEL": "tsm"}, "BATCH_SIZE must be an integer >= 1, got -1"),
        ("sp 8 fp32 0", {"MODEL": "tsm"}, "MAX_ITER must be an integer >= 1, got 0"),
        ("mp 8 fp32 10", {"MODEL": "tsm", "CUDA_VISIBLE_DEVICES": "3"}, "two devices or more"),
        ("sp 8 fp32 10", {"MODEL": "tsm", "CUDA_VISIBLE_DEVICES": "0,1"}, "sp is one process"),
        ("mp 64 fp32 10", {"MODEL": "psenet", "CUDA_VISIBLE_DEVICES": "0,1,2"}, "does not divide by 3"),
    ],
)
def test_run_benchmark_refuses(argv: str, variables: dict[str, str], says: str, tmp_path: Path) -> None:
    done = benchmark(*argv.split(), cwd=tmp_path, **variables)
    assert done.returncode == 2
    assert says in done.stderr
    assert list(tmp_path.iterdir()) == [], "nothing was started and nothing written"
