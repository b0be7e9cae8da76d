"""`trainmark list`: what can be measured, read and written, and which package each comes from."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from trainmark.cli.output import next_command, print_json, stdout_console, talk
from trainmark.cli.parser import add_json_option

if TYPE_CHECKING:
    from trainmark.plugins import Registry

KINDS = ("workloads", "suites", "engines", "launchers", "formats", "dialects", "protocols", "exports")
_NAME_WIDTH = 22


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", nargs="?", choices=KINDS, help="only these (default: all)")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    kinds = [args.kind] if args.kind else list(KINDS)
    found = {kind: items for kind, items in _collect().items() if kind in kinds}
    registries = [registry for kind, registry in _registries().items() if kind in kinds]
    if args.json:
        print_json(**{kind: found[kind] for kind in kinds})
    else:
        _print(found, kinds)
    for plugin in (plugin for registry in registries for plugin in registry.broken()):
        talk(f"warning: {plugin}; {plugin.hint}")
    if not args.json:
        next_command("trainmark run quick")
    return 0


def _registries() -> dict[str, Registry[Any]]:
    from trainmark.datasets.formats import formats
    from trainmark.frameworks import frameworks
    from trainmark.launch.registry import launchers
    from trainmark.logs.registry import dialects
    from trainmark.report.exporting import exports
    from trainmark.workloads.registry import workloads

    return {
        "workloads": workloads(),
        "engines": frameworks(),
        "launchers": launchers(),
        "formats": formats(),
        "dialects": dialects(),
        "exports": exports(),
    }


def _collect() -> dict[str, list[dict[str, Any]]]:
    from trainmark.analyse.protocols import PROTOCOLS
    from trainmark.frameworks import frameworks
    from trainmark.spec.files import read_toml, shipped_suites

    suites = [
        {"name": name, "summary": str(read_toml(path).get("summary", ""))} for name, path in shipped_suites().items()
    ]
    protocols = [
        {"name": name, "summary": protocol.summary, "options": dict(protocol.defaults)}
        for name, protocol in PROTOCOLS.items()
    ]
    pluggable = {
        kind: [{**_describe(found.value), "origin": str(found.origin)} for found in registry.found()]
        for kind, registry in _registries().items()
    }
    pluggable["engines"] = [item for item in pluggable["engines"] if frameworks().load(item["name"]).engine]
    return {**pluggable, "suites": suites, "protocols": protocols}


def _describe(value: Any) -> dict[str, Any]:
    from trainmark.workloads.registry import Workload

    if isinstance(value, Workload):
        return {**asdict(value.card), "summary": f"{value.card.title}, {value.card.task}"}
    return {"name": value.name, "summary": value.summary}


def _print(found: dict[str, list[dict[str, Any]]], kinds: list[str]) -> None:
    from rich.text import Text

    from trainmark.report.layout import fold

    console = stdout_console()
    for kind in kinds:
        console.print(Text(kind, style="bold"))
        width = max((len(item.get("origin", "")) for item in found[kind]), default=0)
        for item in found[kind]:
            origin = f"{item['origin']:<{width + 2}}" if "origin" in item else ""
            text = f"  {item['name']:<{_NAME_WIDTH}}{origin}{item.get('summary', '')}".rstrip()
            console.print(Text(fold(text, console, indent=_NAME_WIDTH + len(origin) + 2)))
