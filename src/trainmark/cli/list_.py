"""`trainmark list`: what can be measured."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from trainmark.cli.output import next_command, print_json, stdout_console
from trainmark.cli.parser import add_json_option

KINDS = ("workloads", "suites", "launchers", "formats", "dialects", "protocols", "exports")
_NAME_WIDTH = 22


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", nargs="?", choices=KINDS, help="only these (default: all)")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    found = _collect()
    kinds = [args.kind] if args.kind else list(KINDS)
    if args.json:
        print_json(**{kind: found[kind] for kind in kinds})
        return 0
    _print(found, kinds)
    next_command("trainmark run quick")
    return 0


def _collect() -> dict[str, list[dict[str, Any]]]:
    from trainmark.analyse.protocols import PROTOCOLS
    from trainmark.datasets.formats import all_formats
    from trainmark.launch.registry import SUMMARIES
    from trainmark.logs.registry import load_dialects
    from trainmark.report.exporting import format_names, load_format
    from trainmark.spec.files import read_toml, shipped_suites
    from trainmark.workloads.registry import load_cards

    cards = [{**asdict(card), "summary": f"{card.title}, {card.task}"} for card in load_cards().values()]
    suites = [
        {"name": name, "summary": str(read_toml(path).get("summary", ""))} for name, path in shipped_suites().items()
    ]
    formats = [{"name": name, "summary": format_.summary} for name, format_ in all_formats().items()]
    exports = [{"name": name, "summary": load_format(name).SUMMARY} for name in format_names()]
    dialects = [{"name": dialect.name, "summary": dialect.summary} for dialect in load_dialects()]
    protocols = [
        {"name": name, "summary": protocol.summary, "options": dict(protocol.defaults)}
        for name, protocol in PROTOCOLS.items()
    ]
    return {
        "workloads": cards,
        "suites": suites,
        "launchers": [{"name": name, "summary": summary} for name, summary in SUMMARIES.items()],
        "formats": formats,
        "dialects": dialects,
        "protocols": protocols,
        "exports": exports,
    }


def _print(found: dict[str, list[dict[str, Any]]], kinds: list[str]) -> None:
    from rich.text import Text

    from trainmark.report.layout import fold

    console = stdout_console()
    for kind in kinds:
        console.print(Text(kind, style="bold"))
        for item in found[kind]:
            text = f"  {item['name']:<{_NAME_WIDTH}}{item.get('summary', '')}".rstrip()
            console.print(Text(fold(text, console, indent=_NAME_WIDTH + 2)))
