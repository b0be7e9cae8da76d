"""What another package adds is found, used and gone with it; a broken one is an error only for who asks for it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from installing import install_sample, run_trainmark, write_metadata

ORIGIN = "trainmark-sample 1.2"
NAMES = {
    "workloads": "sample_line",
    "engines": "sample",
    "dialects": "sample-log",
    "launchers": "sample-nice",
    "exports": "sample-lines",
    "formats": "sample-points",
}
SHORT = ("--max-seconds", "1", "--min-seconds", "0.2", "--max-steps", "400", "--device", "cpu")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder on the path of the subprocesses, as site-packages is."""
    folder = tmp_path / "site"
    folder.mkdir()
    return folder


def list_all(site: Path, cwd: Path) -> dict[str, dict[str, str]]:
    """By kind, the origin of each name."""
    done = run_trainmark("list", "--json", site=site, cwd=cwd)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    return {kind: {item["name"]: item["origin"] for item in found[kind]} for kind in NAMES}


def run_json(*words: str, site: Path, cwd: Path) -> dict[str, Any]:
    done = run_trainmark(*words, "--json", site=site, cwd=cwd)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_the_kinds_are_listed_with_their_origin_and_gone_with_their_package(site: Path, tmp_path: Path) -> None:
    before = list_all(site, tmp_path)
    install_sample(site)
    with_sample = list_all(site, tmp_path)
    for kind, name in NAMES.items():
        assert name not in before[kind]
        assert with_sample[kind] == {**before[kind], name: ORIGIN}
        assert set(before[kind].values()) == {"built-in"}
    shown = run_trainmark("list", "workloads", site=site, cwd=tmp_path)
    assert f"sample_line           {ORIGIN}  Straight line, regression" in shown.stdout
    shutil.rmtree(site)
    site.mkdir()
    assert list_all(site, tmp_path) == before


def test_a_workload_runs_with_the_engine_and_the_launcher_of_a_plugin(site: Path, tmp_path: Path) -> None:
    install_sample(site)
    words = ("run", "sample_line", "--launcher", "sample-nice", *SHORT)
    (result,) = run_json(*words, site=site, cwd=tmp_path)["results"]
    assert (result["outcome"], result["workload"], result["framework"]) == ("ok", "sample_line", "sample")
    assert result["median"] > 0  # on a busy machine the throughput may be too noisy to be a number
    folder = tmp_path / "runs" / result["id"]
    command = json.loads((folder / "command.json").read_text())
    assert (command["launcher"], command["argv"][0]) == ("sample-nice", "nice")
    assert json.loads((folder / "env.json").read_text())["engine"] == "sample"
    losses = [json.loads(line).get("loss") for line in (folder / "rank0.jsonl").read_text().splitlines()]
    known = [loss for loss in losses if loss is not None]
    assert known[-1] < known[0], "it learned"


def test_a_suite_names_the_workload_of_a_plugin(site: Path, tmp_path: Path) -> None:
    install_sample(site)
    (tmp_path / "my.toml").write_text('name = "mine"\n[[cells]]\nworkload = "sample_line"\nbatch_size = [50, 100]\n')
    cells = run_json("plan", "my.toml", "--device", "cpu", site=site, cwd=tmp_path)["cells"]
    assert [(cell["framework"], cell["batch_size_per_device"], cell["skip"]) for cell in cells] == [
        ("sample", 50, None),
        ("sample", 100, None),
    ]


def test_a_log_is_read_by_the_dialect_and_written_by_the_export_of_a_plugin(site: Path, tmp_path: Path) -> None:
    install_sample(site)
    lines = "".join(f"sample-log| it {number} speed 200.0 points/s\n" for number in range(50))
    (tmp_path / "train.log").write_text(lines)
    (result,) = run_json("import", "train.log", site=site, cwd=tmp_path)["results"]
    assert (result["dialect"], result["median"]) == ("sample-log", 200.0)
    done = run_trainmark("export", "--format", "sample-lines", site=site, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, f"{result['id']} None ok\n")
    shutil.rmtree(site)
    site.mkdir()
    done = run_trainmark("export", "--format", "sample-lines", site=site, cwd=tmp_path)
    assert done.returncode == 2
    assert "sample-lines" in done.stderr


def test_a_data_set_of_the_format_of_a_plugin_is_made_and_checked(site: Path, tmp_path: Path) -> None:
    install_sample(site)
    made = run_trainmark("data", "make", "sample-points", "points", "--images", "7", site=site, cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    checked = run_trainmark("data", "check", "sample-points", "points", site=site, cwd=tmp_path)
    assert checked.returncode == 0, checked.stderr
    assert len((tmp_path / "points" / "points.csv").read_text().splitlines()) == 7


def test_without_its_package_the_workload_is_unknown(site: Path, tmp_path: Path) -> None:
    done = run_trainmark("run", "sample_line", *SHORT, site=site, cwd=tmp_path)
    assert done.returncode == 2
    assert "sample_line" in done.stderr


BROKEN = {
    "trainmark.workloads": ("no_such", "no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
    "trainmark.engines": ("odd", "oddities:NUMBER", "expected a trainmark.frameworks.Framework, got int"),
    "trainmark.dialects": ("boom", "oddities:NUMBER", "expected a trainmark.logs.dialect.Dialect, got int"),
    "trainmark.launchers": ("local", "oddities:NUMBER", "the name is already used by a built-in launcher"),
    "trainmark.exports": ("gone", "oddities:NOTHING", "AttributeError"),
    "trainmark.formats": ("quits", "quitter:FORMAT", "SystemExit: 3"),
}
ASKED = {
    "trainmark.workloads": ("run", "no_such"),
    "trainmark.launchers": ("run", "resnet50", "--launcher", "local"),
    "trainmark.exports": ("export", "--format", "gone"),
    "trainmark.formats": ("data", "make", "quits", "made"),
}


def install_broken(site: Path) -> None:
    (site / "oddities.py").write_text("NUMBER = 3\n")
    (site / "quitter.py").write_text("import sys\nsys.exit(3)\n")
    points = {group: {name: value} for group, (name, value, _) in BROKEN.items()}
    write_metadata(site, "broken-plugin", "0.9", points)


def test_broken_plugins_are_warnings_of_list_and_hurt_no_other_verb(site: Path, tmp_path: Path) -> None:
    before = list_all(site, tmp_path)
    install_broken(site)
    done = run_trainmark("list", "--json", site=site, cwd=tmp_path)
    assert done.returncode == 0
    warnings = [line for line in done.stderr.splitlines() if line.startswith("warning:")]
    assert len(warnings) == len(BROKEN)
    for group, (name, value, reason) in BROKEN.items():
        (line,) = (line for line in warnings if group in line)
        assert f"'{name}' of broken-plugin 0.9" in line
        assert f"{group}: {name} = {value}" in line
        assert reason in line
        assert "uninstall broken-plugin" in line
    assert list_all(site, tmp_path) == before
    (tmp_path / "train.log").write_text("Epoch: [0][10/100] Time 0.1 (0.1) Data 0.0 (0.0) Loss 1.0 (1.0)\n" * 30)
    assert "'boom' of broken-plugin" in run_trainmark("import", "train.log", site=site, cwd=tmp_path).stderr
    for words in ("plan quick", "import train.log", "show", "export --format csv", "doctor"):
        done = run_trainmark(*words.split(), site=site, cwd=tmp_path)
        assert done.returncode == 0, f"{words}: {done.stderr}"


@pytest.mark.parametrize("group", ASKED)
def test_asking_for_a_broken_plugin_is_an_error_that_names_it(group: str, site: Path, tmp_path: Path) -> None:
    install_broken(site)
    name, value, reason = BROKEN[group]
    done = run_trainmark(*ASKED[group], site=site, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    for part in ("broken-plugin 0.9", f"{group}: {name} = {value}", reason):
        assert part in done.stderr
    assert "Traceback" not in done.stderr


def test_a_workload_whose_framework_is_broken_is_an_error(site: Path, tmp_path: Path) -> None:
    install_sample(site)
    shutil.rmtree(site / "trainmark_sample-1.2.dist-info")
    points = {"workloads": "sample_line = trainmark_sample.line", "engines": "sample = trainmark_sample:NOTHING"}
    groups = {f"trainmark.{kind}": dict([text.split(" = ")]) for kind, text in points.items()}
    write_metadata(site, "trainmark-sample", "1.3", groups)
    done = run_trainmark("run", "sample_line", *SHORT, site=site, cwd=tmp_path)
    assert done.returncode == 2
    assert "'sample' of trainmark-sample 1.3" in done.stderr
    assert "trainmark.engines: sample = trainmark_sample:NOTHING" in done.stderr


def test_two_packages_with_one_name(site: Path, tmp_path: Path) -> None:
    install_sample(site)
    write_metadata(site, "other", "3", {"trainmark.workloads": {"sample_line": "trainmark_sample.line"}})
    done = run_trainmark("run", "sample_line", *SHORT, site=site, cwd=tmp_path)
    assert done.returncode == 2
    assert "the name is also used by" in done.stderr
    assert "other 3" in done.stderr
    assert ORIGIN in done.stderr


def test_help_reads_no_entry_points(site: Path, tmp_path: Path) -> None:
    """It must start at once, whatever is installed."""
    (site / "sitecustomize.py").write_text(
        "import atexit, sys\natexit.register(lambda: print('importlib.metadata' in sys.modules, file=sys.stderr))\n"
    )
    done = run_trainmark("--help", site=site, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "False\n")
