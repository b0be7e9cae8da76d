"""`trainmark import`: turns logs of other training programs into results like our own."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainmark.cli.output import IndexingNote, open_store, print_results, say_next, stdout_console, talk
from trainmark.cli.parser import add_json_option, add_store_option, integer
from trainmark.errors import InputError
from trainmark.units import format_count, plain

if TYPE_CHECKING:
    from trainmark.logs.finding import FoundFile, Skipped
    from trainmark.logs.importing import Imported, Task

_SMALL_BYTES = 32 << 20
"""Less than this is read in this process: starting others would take longer."""
_MAX_NAMED = 20
_FRAMEWORKS = ("torch", "paddle", "tensorflow", "mxnet", "oneflow")
_PRECISIONS = ("fp32", "tf32", "amp", "bf16", "fp16", "pure_fp16")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="log files, or folders of them")
    facts = parser.add_argument_group("facts that the logs lack or have wrong (for all of them)")
    facts.add_argument("--model", metavar="NAME", help="name of the model")
    facts.add_argument("--workload", metavar="NAME", help="one of `trainmark list workloads`")
    facts.add_argument("--framework", choices=_FRAMEWORKS)
    facts.add_argument("--precision", choices=_PRECISIONS)
    facts.add_argument("--devices", type=integer(), metavar="N", help="number of devices on all nodes together")
    facts.add_argument("--nodes", type=integer(), metavar="N", help="number of machines")
    facts.add_argument("--batch-size", type=integer(), metavar="N", help="samples per device and step")
    parser.add_argument(
        "--pattern", type=Path, metavar="FILE", help="TOML file that describes a log format of your own"
    )
    parser.add_argument(
        "--protocol", metavar="NAME", help="also aggregate by a published method: see `trainmark list protocols`"
    )
    parser.add_argument("--workers", type=integer(), metavar="N", help="processes (default: all cores)")
    add_store_option(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    _check(args)
    files, skipped = _find(args.paths)
    results = _import_all(files, args)
    ids = [result.run_id for result in results if result.run_id is not None]
    if not ids:
        raise _nothing(results, skipped)
    rows = _rows(Path(args.store), ids)
    others = [*skipped, *_left_out(results)]
    if args.json:
        print_results(
            rows,
            protocol=args.protocol,
            skipped=[{"path": plain(item.path), "reason": plain(item.reason)} for item in others],
        )
    else:
        _print(rows, args.protocol)
    _say(results, others)
    say_next(rows, open_store(Path(args.store)), given=args.store)
    return 1 if any(result.is_failure for result in results) else 0


def _check(args: argparse.Namespace) -> None:
    if args.devices and args.nodes and args.devices % args.nodes:
        what = f"--devices: must be a multiple of --nodes ({args.nodes}), got {args.devices}"
        raise InputError(what, hint="--devices is the number on all nodes together")
    from trainmark.workloads.registry import load_cards

    if args.workload is not None and args.workload not in load_cards():
        raise InputError(f"--workload: unknown workload {args.workload!r}", hint="see `trainmark list workloads`")
    if args.pattern is not None:
        from trainmark.logs.pattern import load_pattern

        load_pattern(args.pattern)
    else:
        from trainmark.logs.registry import dialects

        for plugin in dialects().broken():
            talk(f"warning: {plugin}; {plugin.hint}")
    if args.protocol is not None:
        from trainmark.analyse.protocols import parse_protocol

        parse_protocol(args.protocol)


def _find(paths: Sequence[Path]) -> tuple[list[FoundFile], list[Skipped]]:
    from trainmark.logs.finding import find_files

    files, skipped = find_files(paths)
    if not files and skipped:
        raise _nothing([], skipped)
    if not files:
        raise InputError("no file to import", hint="pass log files, or folders of them")
    return files, skipped


def _import_all(files: Sequence[FoundFile], args: argparse.Namespace) -> list[Imported]:
    """Skips content that was imported before; reads the rest, each file in one process, and indexes it."""
    from trainmark.logs.importing import Imported, KnownLogs

    store = open_store(Path(args.store))
    store.check_writable()
    known = KnownLogs(store.root)
    done: dict[str, Imported] = {}
    todo: list[tuple[Task, int]] = []
    for file, twin in _with_twins(files):
        task = _task(file.path, args)
        if twin is not None:
            done[str(file.path)] = Imported(path=str(file.path), run_id=None, reason=f"the same content as {twin}")
            continue
        run_id = known.find(task, file.num_bytes)
        if run_id is not None:
            done[str(file.path)] = Imported(path=str(file.path), run_id=run_id, reason="known")
        else:
            todo.append((task, file.num_bytes))
    for result in _read(todo, args.workers, num_known=len(done)):
        done[result.path] = result
        if result.run_id is not None:
            store.index(store.root / result.run_id)
            if older := known.drop_older(result):
                store.forget(older)
    return [done[str(file.path)] for file in files]


def _with_twins(files: Sequence[FoundFile]) -> Iterator[tuple[FoundFile, Path | None]]:
    """Each file, and an earlier one with the same content; only files of one size are compared."""
    from trainmark.logs.opening import digest_of

    sizes: dict[int, int] = {}
    for file in files:
        sizes[file.num_bytes] = sizes.get(file.num_bytes, 0) + 1
    seen: dict[str, Path] = {}
    for file in files:
        digest = None
        if sizes[file.num_bytes] > 1:
            with contextlib.suppress(OSError):  # the reader will say what is wrong
                digest = digest_of(file.path)
        yield file, seen.get(digest) if digest else None
        if digest:
            seen.setdefault(digest, file.path)


def _task(path: Path, args: argparse.Namespace) -> Task:
    from trainmark.logs.importing import Task
    from trainmark.logs.record import Facts
    from trainmark.workloads.registry import load_cards

    given = Facts(
        model=args.model,
        workload=args.workload,
        framework=args.framework,
        precision=args.precision,
        devices=args.devices,
        nodes=args.nodes,
        batch_size_per_device=args.batch_size,
    )
    firsts = {name: card.targets[0] for name, card in load_cards().items()}
    targets = {name: {"metric": target.metric, "value": target.value} for name, target in firsts.items()}
    return Task(path=path, store=Path(args.store), given=given, pattern=args.pattern, targets=targets)


def _read(todo: Sequence[tuple[Task, int]], workers: int | None, *, num_known: int) -> Iterator[Imported]:
    from trainmark.cli.progress import file_progress
    from trainmark.host import num_cores
    from trainmark.logs.importing import import_file

    num_workers = min(workers or num_cores(), len(todo))
    total = sum(num_bytes for _, num_bytes in todo)
    with file_progress(len(todo), num_known) as advance:
        if num_workers <= 1 or (workers is None and total < _SMALL_BYTES):
            for task, _ in todo:
                yield import_file(task)
                advance()
            return
        yield from _read_in_processes(todo, num_workers, advance)


def _read_in_processes(todo: Sequence[tuple[Task, int]], num_workers: int, advance: Any) -> Iterator[Imported]:
    """Large files first, so that no process is left with a large one at the end."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor, as_completed

    from trainmark.logs.importing import import_file

    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(num_workers, mp_context=context) as pool:
        ordered = sorted(todo, key=lambda item: -item[1])
        futures = [pool.submit(import_file, task) for task, _ in ordered]
        try:
            for future in as_completed(futures):
                yield future.result()
                advance()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _rows(store: Path, ids: Sequence[str]) -> list[Any]:
    """The rows of these runs, in the order of the files."""
    opened = open_store(store)
    opened.sync(tell=IndexingNote())
    wanted = {run_id: place for place, run_id in enumerate(ids)}
    return sorted(opened.rows(wanted=wanted.__contains__), key=lambda row: wanted[row.id])


def _left_out(results: Sequence[Imported]) -> list[Skipped]:
    from trainmark.logs.finding import Skipped

    return [Skipped(path=result.path, reason=result.reason or "") for result in results if result.run_id is None]


def _nothing(results: Sequence[Imported], skipped: Sequence[Skipped]) -> InputError:
    from trainmark.logs.importing import NO_DIALECT

    others = [*((item.path, item.reason) for item in results), *((item.path, item.reason) for item in skipped)]
    named = "; ".join(f"{path}: {reason}" for path, reason in others[:3])
    hint = "pass log files, or folders of them"
    if any(reason == NO_DIALECT for _, reason in others):
        hint = "`trainmark list dialects` shows the known log formats; --pattern FILE describes one of your own"
    return InputError(f"no log found in {format_count(len(others), 'files')}", why=named, hint=hint)


def _print(rows: Sequence[Any], protocol: str | None) -> None:
    from trainmark.analyse.table import build_lines
    from trainmark.report.console import print_lines, print_protocol

    console = stdout_console()
    print_lines(build_lines(rows), console)
    if protocol is not None:
        print_protocol(rows, protocol, console)


def _say(results: Sequence[Imported], others: Sequence[Skipped]) -> None:
    num_known = sum(result.reason == "known" for result in results)
    num_new = sum(result.run_id is not None for result in results) - num_known
    talk(f"{format_count(num_new, 'logs')} imported, {num_known} already imported, {len(others)} skipped")
    for item in others[:_MAX_NAMED]:
        talk(f"  skipped: {item.path}: {item.reason}")
    if len(others) > _MAX_NAMED:
        talk(f"  and {len(others) - _MAX_NAMED} more (--json lists all)")
