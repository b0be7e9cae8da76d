"""How often a verdict is false, and how small a slow-down is found, on this machine.

A script of CPU-bound steps lies in two checkouts of one repository. Each comparison measures it three times in each,
in the order A B B A A B, so that a machine that slowly changes its speed changes both sides alike. Every run is a
process of its own under `trainmark run -- CMD`; the verdicts are those of `compare` and `check`.

    python benchmarks/false_alarms.py DIR                               # 100 with the same code, 30 with a slow-down
    python benchmarks/false_alarms.py DIR --part same --comparisons 100
    python benchmarks/false_alarms.py DIR --part slower --planted 30 --slow-down 0.03
    python benchmarks/false_alarms.py DIR --part report                 # judges what DIR holds; measures nothing

What is finished is kept in DIR, and the same command continues. Leave the machine alone while it measures.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median, stdev, variance

from trainmark.analyse.gate_result import Status
from trainmark.analyse.gate_throughput import status_of
from trainmark.analyse.tolerance import DEFAULTS, Metric
from trainmark.analyse.verdict import DEFAULT_TOLERANCE, Judgement, judge
from trainmark.cli.main import main as trainmark
from trainmark.host import cpu_name, num_cores
from trainmark.units import format_count

_ORDER = "ABBAAB"
_UNITS = 1000
"""Of work in a step; a slow-down of 3% is 30 more."""
_SCRIPT = '''\
"""Steps of a known amount of work that fits the first-level cache, so that only the processor's speed matters."""
import hashlib

from trainmark import mark

DATA = bytes(4096)

for _ in range({steps} + 1):
    digest = hashlib.sha256()
    for _ in range({units}):
        digest.update(DATA)
    mark.step(samples=1)
'''
_LADDER = (0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.06, 0.08, 0.10, 0.15, 0.20)
_WANTED = 0.9


@dataclass(frozen=True, kw_only=True)
class Comparison:
    a: tuple[float, ...]
    b: tuple[float, ...]
    """Steps per second of each run; fewer than three where a run was too noisy to have a result."""

    @property
    def is_whole(self) -> bool:
        return len(self.a) == len(self.b) == len(_ORDER) // 2


# -- measuring ---------------------------------------------------------------------------------------------------------


def measure(folder: Path, part: str, number: int, *, steps: int, slow_down: float) -> None:
    """Continue up to `number` comparisons."""
    kept = folder / f"{part}.jsonl"
    checkouts = {side: folder / f"{part}-{side}" for side in "AB"}
    _make_checkout(checkouts["A"], _SCRIPT.format(steps=steps, units=_UNITS), source=None)
    units = round(_UNITS * (1 + slow_down))
    _make_checkout(checkouts["B"], _SCRIPT.format(steps=steps, units=units), source=checkouts["A"])
    for count in range(len(_read(kept)), number):
        values: dict[str, list[float | None]] = {"A": [], "B": []}
        for side in _ORDER:
            values[side].append(_run(checkouts[side], folder / f"{part}-runs"))
        with kept.open("a") as file:
            file.write(json.dumps(values) + "\n")
        print(f"{part}: {count + 1} of {number}", file=sys.stderr)


def _make_checkout(folder: Path, script: str, *, source: Path | None) -> None:
    if (folder / "train.py").exists():
        if (folder / "train.py").read_text() != script:
            raise SystemExit(f"{folder.parent} was measured with other options: pass the same, or another DIR")
        return
    quiet = [
        "git",
        "-c",
        "user.name=benchmark",
        "-c",
        "user.email=benchmark@localhost",
        "-c",
        "init.defaultBranch=main",
    ]
    start = ["init", "--quiet", str(folder)] if source is None else ["clone", "--quiet", str(source), str(folder)]
    subprocess.run([*quiet, *start], check=True)
    (folder / "train.py").write_text(script)
    subprocess.run([*quiet, "-C", str(folder), "add", "train.py"], check=True)
    subprocess.run([*quiet, "-C", str(folder), "commit", "--quiet", "--allow-empty", "-m", "Train"], check=True)


def _run(checkout: Path, store: Path) -> float | None:
    """One run by the command line itself, called in this process to save its start-up; the script has its own.

    None for a run that is too noisy to have a result.
    """
    said = io.StringIO()
    with contextlib.chdir(checkout), contextlib.redirect_stdout(said), contextlib.redirect_stderr(io.StringIO()):
        code = trainmark(["run", "--json", "--store", str(store), "--", sys.executable, "train.py"])
    (result,) = json.loads(said.getvalue())["results"]
    if code != 0 or result["throughput"] is None:
        raise SystemExit(f"the run {result['id']} has no result: {result['reason']}")
    value = result["throughput"]["value"]
    return None if value is None else float(value)


# -- judging -----------------------------------------------------------------------------------------------------------


def report(folder: Path) -> str:
    same = _read(folder / "same.jsonl")
    parts = [_describe_machine(same), _describe_same(same)] if same else []
    parts += [_describe_ladder(same)] if same else []
    for path in sorted(folder.glob("slower-*.jsonl")):
        parts.append(_describe_planted(_read(path), float(path.stem.removeprefix("slower-"))))
    return "\n\n".join(parts)


def _read(path: Path) -> list[Comparison]:
    lines = path.read_text().splitlines() if path.exists() else []
    found = [json.loads(line) for line in lines]
    return [Comparison(a=_known(values["A"]), b=_known(values["B"])) for values in found]


def _known(values: Sequence[float | None]) -> tuple[float, ...]:
    return tuple(value for value in values if value is not None)


def _judge(comparisons: Sequence[Comparison], *, factor: float = 1.0, has_history: bool = True) -> list[str]:
    """The verdicts of `compare`, in the order of time."""
    found = _judge_all(comparisons, factor=factor, has_history=has_history, tolerance=DEFAULT_TOLERANCE)
    return ["inconclusive" if judged is None else judged.verdict for judged in found]


def _check(comparisons: Sequence[Comparison]) -> str:
    """What `check` says with its default tolerance, A being the baseline."""
    tolerance = DEFAULTS[Metric.THROUGHPUT]
    found = _judge_all(comparisons, factor=1.0, has_history=True, tolerance=tolerance)
    counts = Counter(Status.INCONCLUSIVE if judged is None else status_of(judged, tolerance) for judged in found)
    said = ", ".join(f"{status} {counts[status]}" for status in (Status.PASS, Status.REGRESSION, Status.INCONCLUSIVE))
    return f"  check with its default tolerance of {tolerance:.0%}: {said}"


def _judge_all(
    comparisons: Sequence[Comparison], *, factor: float, has_history: bool, tolerance: float
) -> Iterator[Judgement | None]:
    """A store knows the runs of earlier comparisons, a fresh one does not. None where a run was too noisy."""
    history: list[tuple[float, ...]] = []
    for one in comparisons:
        if not one.is_whole:
            yield None
            continue
        slower = tuple(factor * value for value in one.b)
        yield judge(one.a, slower, history=history if has_history else (), tolerance=tolerance)
        history += [one.a, one.b]


def _describe_machine(same: Sequence[Comparison]) -> str:
    whole = [one for one in same if one.is_whole]
    if not whole:
        return "no comparison has six runs with a result"
    sides = [[math.log(value) for value in side] for one in whole for side in (one.a, one.b)]
    everything = [value for side in sides for value in side]
    # Within a side: what a comparison has to cope with. Over all runs: also how the machine drifted meanwhile.
    within = math.sqrt(fmean(variance(side) for side in sides))
    machine = f"{cpu_name()}, {format_count(num_cores(), 'cores')}"
    noisy = f"; {len(same) - len(whole)} comparisons with a run that was too noisy" if len(whole) < len(same) else ""
    return (
        f"{machine}: {len(everything)} runs, {fmean(map(math.exp, everything)):.1f} steps/s; standard deviation "
        f"between the runs of a side {within:.2%} (median {median(stdev(side) for side in sides):.2%}), over all runs "
        f"{stdev(everything):.2%}{noisy}"
    )


def _describe_same(same: Sequence[Comparison]) -> str:
    lines = [f"The same code on both sides, {len(same)} comparisons of 3 and 3 runs:"]
    for has_history, words in ((True, "with the history of the store"), (False, "without history")):
        counts = Counter(_judge(same, has_history=has_history))
        said = ", ".join(f"{name} {counts[name]}" for name in ("faster", "slower", "same", "inconclusive"))
        lines.append(f"  {words}: {said}; false verdicts: {counts['faster'] + counts['slower']}")
    return "\n".join([*lines, _check(same)])


def _describe_ladder(same: Sequence[Comparison]) -> str:
    """Side B of the same data, scaled."""
    lines = ["Found (verdict slower) where side B is scaled by 1 / (1 + slow-down):"]
    smallest: dict[bool, float | None] = {True: None, False: None}
    for slow_down in _LADDER:
        shares = {}
        for has_history in (True, False):
            verdicts = _judge(same, factor=1 / (1 + slow_down), has_history=has_history)
            shares[has_history] = verdicts.count("slower") / len(verdicts)
            if smallest[has_history] is None and shares[has_history] >= _WANTED:
                smallest[has_history] = slow_down
        lines.append(f"  {slow_down:5.1%}: {shares[True]:4.0%} with history, {shares[False]:4.0%} without")
    for has_history, words in ((True, "with history"), (False, "without")):
        found = smallest[has_history]
        lines.append(f"  smallest of these found in 90% {words}: {'none' if found is None else f'{found:.1%}'}")
    return "\n".join(lines)


def _describe_planted(planted: Sequence[Comparison], slow_down: float) -> str:
    lines = [f"A slow-down of {slow_down:.1%} in the script of side B, {len(planted)} comparisons of 3 and 3 runs:"]
    ratio = math.exp(fmean(math.log(value) for one in planted for value in one.b)
                     - fmean(math.log(value) for one in planted for value in one.a))  # fmt: skip
    lines.append(f"  side B is {1 - ratio:.1%} slower over all runs")
    for has_history, words in ((True, "with the history of the store"), (False, "without history")):
        counts = Counter(_judge(planted, has_history=has_history))
        lines.append(f"  {words}: slower in {counts['slower']} of {len(planted)}, faster in {counts['faster']}")
    return "\n".join([*lines, _check(planted)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--part", choices=("all", "same", "slower", "report"), default="all")
    parser.add_argument("--comparisons", type=int, default=100, help="with the same code on both sides")
    parser.add_argument("--planted", type=int, default=30, help="comparisons with a slow-down")
    parser.add_argument("--slow-down", type=float, default=0.03)
    parser.add_argument("--steps", type=int, default=200, help="of a run; about 3 ms each")
    args = parser.parse_args()
    folder = args.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if args.part in ("all", "same"):
        measure(folder, "same", args.comparisons, steps=args.steps, slow_down=0.0)
    if args.part in ("all", "slower"):
        measure(folder, f"slower-{args.slow_down:g}", args.planted, steps=args.steps, slow_down=args.slow_down)
    print(report(folder))


if __name__ == "__main__":
    main()
