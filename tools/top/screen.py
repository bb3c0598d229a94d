"""The numbers of /v1/status as tables for a terminal.  Nothing in it is a text of a request or of a reply."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from rich.bar import Bar
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

Status = Mapping[str, Any]
BLOCKS = "▁▂▃▄▅▆▇█"
BAR, POINTS = 30, 60
ERRORS = 5
TABLE: dict[str, Any] = {"box": None, "pad_edge": False, "title_justify": "left", "title_style": "bold"}
STATES = {"ready": "green", "down": "bold red", "failed": "red"}
RATES = (
    ("running", "running", "{:.0f}"),
    ("waiting", "waiting", "{:.0f}"),
    ("prompt tokens/s", "prompt_tokens_per_s", "{:.0f}"),
    ("output tokens/s", "output_tokens_per_s", "{:.0f}"),
    ("prefix hits", "prefix_hit_rate", "{:.0%}"),
    ("drafts accepted", "draft_accept_rate", "{:.0%}"),
)
"""Numbers of the chosen model: name, series of the history, form."""


def screen(status: Status, url: str, height: int) -> RenderableType:
    """All of it, in about `height` lines: of requests and nodes those that fit."""
    nodes, errors = status["nodes"], status["errors"][:ERRORS]
    taken = 8 + len(status["models"]) + len(status["queues"]) + len(nodes) + len(errors)
    parts: list[RenderableType] = [_head(status, url), _models(status), Text()]
    if status["model"] is not None:
        parts += [_numbers(status), *(_queue(queue) for queue in status["queues"] if queue["blocks"]), Text()]
        parts += [_requests(status["requests"], max(3, height - taken - 10)), Text(), _nodes(nodes)]
    if errors:
        parts += [Text(), _errors(errors)]
    return Group(*parts)


def _head(status: Status, url: str) -> Text:
    server = status["server"]
    up_s = max(0.0, status["created"] - server["started"])
    line = Text.assemble(("Braid ", "bold"), f"{server['version']} at {url}, up {_duration(up_s)}")
    for engine in status["engines"]:
        state, memory = engine["state"], engine["resident_bytes"]
        line.append(f"   engine {engine['engine']} ").append(state, STATES.get(state, "yellow"))
        line.append(f" {_bytes(memory)}" if memory else "")
    workers = [each["resident_bytes"] for each in status["processes"] if each["process"] == "worker"]
    return line.append(f"   {len(workers)} workers {_bytes(sum(workers))}" if workers else "")


def _models(status: Status) -> Table:
    table = Table(**TABLE)
    for name in ("", "model", "state", "task", "size"):
        table.add_column(name)
    for name in ("running", "waiting"):
        table.add_column(name, justify="right")
    table.add_column("adapters")
    for model in status["models"]:
        is_chosen = model["id"] == status["model"]
        table.add_row(
            "▶" if is_chosen else " ",
            Text(model["id"], "bold" if is_chosen else ""),
            Text("; ".join([model["state"], *model["problems"]]), STATES.get(model["state"], "yellow")),
            model["task"] or "",
            _bytes(model["bytes"]) if model["bytes"] else "",
            str(model["running"]),
            str(model["waiting"]),
            Text(", ".join(adapter["id"] for adapter in model["adapters"])),
        )
    return table


def _numbers(status: Status) -> Text:
    series = status["history"]["series"]
    line = Text.assemble((f"{status['model']}  ", "bold"))
    for name, field, form in RATES:
        newest = (series.get(field) or [None])[-1]
        if newest is not None:
            line.append(f" {name} ", "dim").append(form.format(newest)).append(" ")
    totals = status["totals"]
    line.append(" preemptions ", "dim").append(str(totals["preemptions"]))
    line.append("  failed ", "dim").append(f"{totals['failed']} of {totals['requests']}")
    return line.append("\n").append(spark(series.get("output_tokens_per_s") or []), "cyan")


def spark(values: Sequence[float | None]) -> str:
    """The last minute as a line of small bars."""
    numbers = [each or 0.0 for each in values[-POINTS:]]
    top = max(numbers, default=0.0) or 1.0
    return "".join(BLOCKS[round(each / top * (len(BLOCKS) - 1))] for each in numbers)


def _queue(queue: Mapping[str, Any]) -> Table:
    blocks = queue["blocks"]
    used, reusable, total = blocks["used"], blocks["reusable"], max(1, blocks["total"])
    table = Table.grid(padding=(0, 1))
    bar = Text.assemble(
        ("█" * round(used / total * BAR), "green"),
        ("▒" * round(reusable / total * BAR), "blue"),
    )
    bar.append("·" * max(0, BAR - len(bar)), "dim")
    counts = (
        f"{used} blocks used, {reusable} reusable, {blocks['free']} free, of {blocks['block_tokens']} tokens"
    )
    swapped = f"; {queue['swapped']} swapped out" if queue["swapped"] else ""
    table.add_row(Text(f"{queue['node']} ({queue['engine']})"), bar, Text(counts + swapped))
    return table


def _requests(requests: Sequence[Mapping[str, Any]], rows: int) -> Table:
    shown = requests[:rows]
    left_out = f", the first {rows}" if len(requests) > rows else ""
    table = Table(title=f"{len(requests)} requests in flight{left_out}", **TABLE)
    for name in ("id", "model", "state"):
        table.add_column(name)
    table.add_column("prompt", width=BAR // 2)
    for name in ("done of prompt", "cached", "output", "age"):
        table.add_column(name, justify="right")
    for request in shown:
        prompt = max(1, request["prompt_tokens"])
        choice = f" #{request['choice']}" if request["choice"] else ""
        table.add_row(
            Text(request["id"] + choice),
            Text(request["adapter"] or request["model"]),
            request["state"],
            Bar(prompt, 0, request["prompt_done"], width=BAR // 2, color="cyan"),
            f"{request['prompt_done']} of {request['prompt_tokens']}",
            str(request["cached_tokens"]),
            f"{request['output_tokens']} of {request['max_tokens']}",
            _duration(request["age_s"]),
        )
    return table


def _nodes(nodes: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(title="nodes", **TABLE)
    table.add_column("node", min_width=max((len(node["path"]) for node in nodes), default=0))
    for name in ("type", "process"):
        table.add_column(name)
    for name in ("runs", "mean", "mean now", "share now"):
        table.add_column(name, justify="right")
    for node in nodes:
        table.add_row(
            Text(node["path"]),
            node["type"],
            node["process"],
            str(node["runs"]),
            _milliseconds(node["mean_s"]),
            _milliseconds(node["recent_mean_s"]),
            f"{node['recent_share']:.0%}" if node["recent_share"] is not None else "",
        )
    return table


def _errors(errors: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(title="errors", expand=True, **TABLE)
    for name, width in (("at", 8), ("status", 6), ("request", 20)):
        table.add_column(name, no_wrap=True, width=width)
    table.add_column("message", no_wrap=True, ratio=1)
    for error in errors:
        at = time.strftime("%H:%M:%S", time.localtime(error["at"]))
        texts = (error["id"], f"{error['path']}: {error['message']}")
        table.add_row(at, Text(str(error["status"]), "red"), *(Text(each) for each in texts))
    return table


def _milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1000:.3f} ms"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, hours = seconds / 60, seconds / 3600
    return f"{minutes:.0f} min" if minutes < 120 else f"{hours:.0f} h"


def _bytes(number: float) -> str:
    return f"{number / 1e9:.1f} GB" if number >= 1e9 else f"{number / 1e6:.0f} MB"
