"""Is the throughput of unmodified public scripts right? Compares each with an independent count of steps.

    python benchmarks/public_scripts --sources DIR --python PYTHON [--work DIR] [--only NAME,NAME]
        [--device cuda] [--list]

`cases.toml` has the scripts: the command, the source line that runs once per step, the lines of evaluations,
checkpoints and new epochs, and the samples of a step, as the options of the command say. `--sources` is a folder with
the published repositories, as OWNER+NAME; `--python` is an interpreter, 3.12 or later, with the libraries that they
need. Nothing is downloaded: `make_data.py` makes small data sets and models in the work folder.

Each script runs once, under `trainmark run --`. In the same run `line_counter` notes when those source lines run.
Printed is the throughput of the result against

- the same steps: the intervals between step lines, without those in which a pause line ran, from the end of the
  result's warm-up on. What the observer counts, times, or leaves out wrongly shows here.
- the rest of the run: the last 80% of these intervals, whatever the result's warm-up was.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parent
_ROOT = _HERE.parents[1]
_LIMIT_S = 420


@dataclass(frozen=True, kw_only=True)
class Case:
    name: str
    script: str
    """What the table calls it."""
    folder: str
    """Where the command runs, under the sources (or `{work}`)."""
    command: str
    step: tuple[str, str]
    """End of the file's path, and a regular expression for the line that runs once per step."""
    per_step: float
    """Samples, images or tokens of all processes together in one step."""
    unit: str
    pause: tuple[tuple[str, str], ...] = ()
    done: tuple[tuple[str, str], ...] = ()
    """Of a script that runs ahead of its device: lines that run when it has waited for all steps since the last pause.
    Only the steps together have a time then, from the first step line to this one."""
    lines_per_step: int = 1
    """How often the step line runs for one step: gradient accumulation, or a generator and a critic."""
    processes: int = 1
    device: str = "cpu"
    environment: dict[str, str] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    """Where the script expects data, relative to its folder, and what of ours is there."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    case: Case
    dialect: str | None = None
    witness: str | None = None
    unit: str | None = None
    value: float | None = None
    same_steps: float | None = None
    """The independent rate over the steps of the result."""
    last_part: float | None = None
    """The independent rate over the last 80%."""
    steps: int = 0
    failure: str | None = None
    warnings: tuple[str, ...] = ()

    def error(self, count: float | None) -> str:
        return "" if count is None or self.value is None else f"{self.value / count - 1:+.2%}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sources", type=Path)
    parser.add_argument("--python", type=Path, default=Path(sys.executable))
    parser.add_argument("--work", type=Path, default=Path("public-scripts"))
    parser.add_argument("--only", default="")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--list", action="store_true", help="only the names of the scripts")
    args = parser.parse_args()
    names = args.only.split(",") if args.only else [case.name for case in read_cases() if case.device == args.device]
    cases = [case for case in read_cases() if case.name in names]
    if args.list:
        print("\n".join(f"{case.name}: {case.script}" for case in cases))
        return
    if args.sources is None:
        parser.error("--sources is needed")
    work, python = args.work.resolve(), args.python.absolute()  # a link to an interpreter is an environment of its own
    needed = {name for case in cases for name in re.findall(r"{data}/(\w+)", f"{case.command} {case.links}")}
    subprocess.run([python, _HERE / "make_data.py", work / "data", *needed], check=True)
    print(
        "| script | processes | log format | witness | unit | steps | error, same steps | error, last 80% | warnings |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for case in cases:
        print(to_row(measure(case, sources=args.sources.resolve(), python=python, work=work)), flush=True)


def read_cases() -> list[Case]:
    with (_HERE / "cases.toml").open("rb") as file:
        return [
            Case(
                **{
                    **row,
                    "step": tuple(row["step"]),
                    **{name: tuple(tuple(line) for line in row.get(name, ())) for name in ("pause", "done")},
                }
            )
            for row in tomllib.load(file)["case"]
        ]


def measure(case: Case, *, sources: Path, python: Path, work: Path) -> Outcome:
    output = work / "out" / case.name
    subprocess.run(["rm", "-rf", output], check=True)
    (output / "lines").mkdir(parents=True)
    words = {"python": str(python), "bin": str(python.parent), "data": str(work / "data"), "out": str(output)}
    lines = [["step", *case.step], *(["pause", *line] for line in case.pause)]
    lines += [["done", *line] for line in case.done]
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(_HERE / "line_counter"),
        "LINE_COUNTER": json.dumps({"folder": str(output / "lines"), "lines": lines}),
        **{name: value.format(**words) for name, value in case.environment.items()},
    }
    own_paths = [str(_ROOT / "src"), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    begin = f"import sys; sys.path[:0] = {own_paths!r}; from trainmark.cli.main import main; sys.exit(main())"
    command = [word.format(**words) for word in shlex.split(case.command)]
    argv = ["run", "--json", "--store", str(output / "runs"), "--timeout-s", str(_LIMIT_S), "--", *command]
    folder = sources / case.folder.format(**words)
    for place, target in case.links.items():
        link = folder / place
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(target.format(**words))
    done = subprocess.run(
        [sys.executable, "-c", begin, *argv], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    (output / "said").write_text(done.stdout + done.stderr)
    try:
        result = json.loads(done.stdout)["results"][0]
    except (ValueError, LookupError):
        return Outcome(case=case, failure=done.stderr.strip()[-300:])
    return judge(case, result, read_lines(output / "lines"))


def read_lines(folder: Path) -> list[tuple[str, float]]:
    """Of the first process that trained."""
    for path in sorted(folder.glob("*.lines")):
        rows = [line.split() for line in path.read_text().splitlines()]
        if sum(name == "step" for name, _ in rows) > 1:
            return [(name, float(time_s)) for name, time_s in rows]
    return []


def intervals(lines: list[tuple[str, float]], lines_per_step: int) -> list[float]:
    """Seconds of the steps between which no pause line ran; the first step line only starts the clock."""
    found, begin, is_clean, seen = [], None, True, 0
    for name, time_s in lines:
        if name == "pause":
            is_clean = False
            continue
        seen += 1
        if seen % lines_per_step:
            continue
        if begin is not None and is_clean:
            found.append(time_s - begin)
        begin, is_clean = time_s, True
    return found


def spans(lines: list[tuple[str, float]]) -> list[float]:
    """Seconds of the steps from a pause to where the script has waited for them, the same for each of them."""
    found, begin, num_steps = list[float](), None, 0
    for name, time_s in lines:
        if name == "pause":
            begin, num_steps = None, 0
        elif name == "step":
            begin, num_steps = time_s if begin is None else begin, num_steps + 1
        elif begin is not None:
            found += [(time_s - begin) / num_steps] * num_steps
            begin, num_steps = None, 0
    return found


def judge(case: Case, result: dict[str, Any], lines: list[tuple[str, float]]) -> Outcome:
    found = spans(lines) if case.done else intervals(lines, case.lines_per_step)
    throughput = result.get("throughput")
    if not isinstance(throughput, dict) or not found:
        reason = f"outcome {result.get('outcome')}, {len(found)} steps counted, throughput {throughput}"
        return Outcome(case=case, steps=len(found), failure=reason)
    same, last = found[-throughput["steps"] :], found[len(found) // 5 :]
    return Outcome(
        case=case,
        dialect=result["dialect"],
        witness=result["witness"],
        unit=throughput["unit"].removesuffix("/s"),
        value=throughput["value"] or _seen(case, result),
        same_steps=case.per_step * len(same) / sum(same) if same else None,
        last_part=case.per_step * len(last) / sum(last),
        steps=len(found),
        warnings=tuple(warning["code"] for warning in result["warnings"]),
    )


def _seen(case: Case, result: dict[str, Any]) -> float | None:
    """A result that is too noisy has no value: what its witness saw is compared all the same."""
    witnesses = result["witnesses"]
    value = witnesses.get(result["witness"])
    is_in_steps = witnesses.get("unit") == "iterations" != case.unit
    return value * case.per_step if value is not None and is_in_steps else value


def to_row(outcome: Outcome) -> str:
    case = outcome.case
    start = f"| {case.script} | {case.processes} "
    if outcome.failure is not None:
        return start + f"| {outcome.failure} |"
    unit = outcome.unit if outcome.unit == case.unit else f"{outcome.unit}, wrong: {case.unit}"
    errors = f"{outcome.error(outcome.same_steps)} | {outcome.error(outcome.last_part)}"
    read = f"| {outcome.dialect} | {outcome.witness} | {unit} | {outcome.steps} "
    return start + read + f"| {errors} | {', '.join(outcome.warnings)} |"


if __name__ == "__main__":
    main()
