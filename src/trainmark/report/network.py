"""The output of `doctor --network`: a row per size, and the verdict in one line."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from trainmark.analyse.communication import Network
from trainmark.units import format_bytes, format_count, format_number, plain


def print_network(network: Network, console: Console) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("size", "time", "algorithm GB/s", "bus GB/s"):
        table.add_column(heading, justify="right")
    for exchange in network.exchanges:
        rates = (exchange.algorithm_gb_per_s, exchange.bus_gb_per_s)
        texts = (format_bytes(exchange.num_bytes), format_micro(exchange.seconds), *(_rate(rate) for rate in rates))
        table.add_row(*(Text(text) for text in texts))
    console.print(table)
    if network.left_out_bytes:
        sizes = ", ".join(format_bytes(size) for size in network.left_out_bytes)
        console.print(Text(f"skipped, would take too long: {sizes}"))
    console.print(Text(verdict(network)))


def verdict(network: Network) -> str:
    """latency 45 µs, 8.4 GB/s at 64.0 MiB over gloo, 2 processes on 1 host"""
    largest = network.exchanges[-1]
    hosts = format_count(len(network.hosts), "hosts")
    return plain(
        f"latency {format_micro(network.latency_s)}, {_rate(largest.bus_gb_per_s)} GB/s at "
        f"{format_bytes(largest.num_bytes)} over {network.backend}, {network.num_ranks} processes on {hosts}"
    )


def describe_network(network: Network) -> dict[str, Any]:
    return {**asdict(network), "latency_s": network.latency_s, "verdict": verdict(network)}


def format_micro(seconds: float) -> str:
    """0.0000453 -> 45.3 µs; in milliseconds from 10 ms up."""
    if seconds < 0.01:
        return f"{format_number(seconds * 1e6, digits=3)} µs"
    return f"{format_number(seconds * 1e3, digits=3)} ms"


def _rate(gb_per_s: float) -> str:
    return format_number(gb_per_s, digits=3)
