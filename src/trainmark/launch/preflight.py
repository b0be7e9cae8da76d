"""The check of all machines before a run: what to ask them, and what is wrong according to their answers. Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trainmark.launch.job import Command, Job, on_host, own_python, worker_environment
from trainmark.launch.rank_command import LEASE
from trainmark.launch.registry import launchers
from trainmark.runfolder.records import PREFLIGHT_SIGN
from trainmark.units import format_count

MODULE = "trainmark.worker.preflight"
_MOST_CLOCK_S = 1.0
_LEAST_DISK_BYTES = 100 << 20
_LEAST_SHM_BYTES = 256 << 20
_LEAST_FILES = 1024
Answer = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Finding:
    where: str
    what: str
    hint: str
    is_fatal: bool = True


def build_commands(job: Job, launcher: str, request: Mapping[str, Any]) -> tuple[Command, ...]:
    """Through the remote shell, not through torchrun, which starts no process if one machine is missing."""
    argv = (*own_python(job.python), MODULE, json.dumps(request, separators=(",", ":")))
    chosen = launchers().load(launcher)
    if chosen.has_one_command:
        commands = chosen.commands(replace(job, argv=argv))
        return tuple(replace(command, environment=_without_lease(command.environment)) for command in commands)
    common = {"WORLD_SIZE": str(len(job.hosts)), "MASTER_ADDR": job.master_address, "MASTER_PORT": str(job.port)}
    return tuple(
        on_host(job, host, argv, {**worker_environment(job), **common, "RANK": str(number)})
        for number, host in enumerate(job.hosts)
    )


def _without_lease(environment: Mapping[str, str]) -> dict[str, str]:
    """The check takes seconds: no controller renews a lease for it."""
    return {name: value for name, value in environment.items() if name != LEASE}


def num_expected(job: Job, launcher: str) -> int:
    return job.num_processes if launchers().load(launcher).has_one_command else len(job.hosts)


def read_answers(output: str) -> list[Answer]:
    """From the output of any launcher; other lines are skipped."""
    found = []
    for line in output.splitlines():
        _, sign, text = line.partition(PREFLIGHT_SIGN)
        if not sign:
            continue
        try:
            answer = json.loads(text)
        except ValueError:
            continue
        if isinstance(answer, dict) and isinstance(answer.get("rank"), int):
            found.append(answer)
    return found


def judge(
    answers: Sequence[Answer], *, job: Job, num_answers: int, own_code: str, said: Mapping[str, str]
) -> list[Finding]:
    """`said` is the end of what each command printed, by host; it is shown for machines that did not answer."""
    by_rank = {answer["rank"]: answer for answer in answers}
    names = {rank: f"{answer.get('host')} (rank {rank})" for rank, answer in by_rank.items()}
    if num_answers == len(job.hosts):
        names = {rank: f"{host.name} (rank {rank})" for rank, host in enumerate(job.hosts)}
    findings = []
    for rank in sorted(set(range(num_answers)) - by_rank.keys()):
        own = job.hosts[rank].name if rank in names else ""
        findings.append(_say_silent(names.get(rank, f"rank {rank}"), said.get(own, said.get("", ""))))
    for rank, answer in sorted(by_rank.items()):
        findings += _judge_one(names[rank], answer, job)
    return [*findings, *_find_differences(by_rank, own_code, names), *_find_clocks(by_rank, names)]


def _say_silent(where: str, output: str) -> Finding:
    lines = output.strip().splitlines()
    why = f": {lines[-1][:200]}" if lines else ""
    hint = "check that the machine is up and that the same command can be started there by hand"
    return Finding(where=where, what=f"no answer{why}", hint=hint)


def _judge_one(where: str, answer: Answer, job: Job) -> list[Finding]:
    faults = []
    if answer.get("error"):
        faults.append(
            (f"cannot reach the master at {answer['error']}", "open the port between the machines, or set interface")
        )
    if answer.get("unreachable"):
        ranks = ", ".join(map(str, answer["unreachable"]))
        faults.append((f"cannot reach rank {ranks}", "open the ports between the machines, or set interface"))
    if not answer.get("sees_store"):
        faults.append(("does not see the store", "use --store DIR on a file system that all machines share"))
    elif not answer.get("writes_store", True):
        faults.append(("cannot write to the store", "check for a read-only mount or root squashing"))
    faults.extend((f"does not see {path}", "mount it there too") for path in answer.get("missing_data", ()))
    if answer.get("framework") is None and job.argv is None:
        faults.append(("the framework is not installed", "install the same version as here"))
    gpus = answer.get("num_gpus")
    if job.device == "cuda" and (gpus or 0) < job.processes_per_node:
        there = format_count(gpus, "GPUs") if gpus else "no GPU"
        faults.append((f"has {there}, {job.processes_per_node} needed", "use fewer --devices"))
    free = answer.get("free_bytes")
    if free is not None and free < _LEAST_DISK_BYTES:
        faults.append((f"only {free >> 20} MB free for records", "free some space, or use --store DIR"))
    found = [Finding(where=where, what=what, hint=hint) for what, hint in faults]
    return found + [Finding(where=where, what=what, hint=hint, is_fatal=False) for what, hint in _notes(answer)]


def _notes(answer: Answer) -> list[tuple[str, str]]:
    found = []
    shm, files = answer.get("shm_bytes"), answer.get("open_files")
    if shm is not None and shm < _LEAST_SHM_BYTES:
        found.append((f"only {shm >> 20} MB of /dev/shm", "loaders and NCCL may fail: docker run --shm-size=8g"))
    if files is not None and 0 <= files < _LEAST_FILES:
        found.append((f"at most {files} open files", "ulimit -n 65536"))
    return found


def _find_differences(by_rank: dict[int, Answer], own_code: str, names: Mapping[int, str]) -> list[Finding]:
    """Versions are compared with those of most machines; the code, with that of this one."""
    found = []
    for name in ("python", "framework"):
        values = {rank: str(answer.get(name)) for rank, answer in by_rank.items()}
        usual = Counter(values.values()).most_common(1)[0][0] if values else None
        found += [
            Finding(where=names[rank], what=f"{name} {value}, others {usual}", hint="install the same version")
            for rank, value in values.items()
            if value != usual
        ]
    for rank, answer in by_rank.items():
        if answer.get("code") != own_code:
            what = (
                f"trainmark {answer.get('trainmark')} with different code than here ({answer.get('code')}, {own_code})"
            )
            found.append(Finding(where=names[rank], what=what, hint="install the same version there"))
    return found


def _find_clocks(by_rank: dict[int, Answer], names: Mapping[int, str]) -> list[Finding]:
    offsets = by_rank.get(0, {}).get("clock_offsets_s", {})
    return [
        Finding(
            where=names.get(int(rank), f"rank {rank}"),
            what=f"its clock differs from the master's by {offset:+.1f} s",
            hint="start chrony or ntpd; until then time stamps of ranks cannot be compared",
            is_fatal=False,
        )
        for rank, offset in offsets.items()
        if abs(offset) > _MOST_CLOCK_S
    ]
