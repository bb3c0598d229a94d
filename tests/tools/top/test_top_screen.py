"""What `braid top` shows of a status."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from server.status.reply_models import StatusReply
from tools.top.screen import screen, spark

NODE = {"path": "generated.logits", "type": "model", "process": "engine host", "runs": 9, "seconds": 0.9, "mean_s": 0.1,
        "share": 0.5, "recent_mean_s": 0.0125, "recent_share": 0.25, "recent_runs": 4}  # fmt: skip
REQUEST = {"id": "chatcmpl-7", "choice": 1, "engine": "0", "node": "generated", "model": "m", "adapter": None,
           "state": "running", "prompt_tokens": 80, "prompt_done": 40, "cached_tokens": 16, "output_tokens": 3,
           "max_tokens": 30, "blocks": 6, "age_s": 1.5}  # fmt: skip
STATUS = {
    "created": 1000.0,
    "model": "m",
    "server": {"version": "1", "started": 400.0, "needs_key": False, "needs_admin_key": False, "default_model": "m"},
    "engines": [{"engine": "0", "state": "down", "pid": 1, "resident_bytes": 2_000_000_000}],
    "processes": [{"process": "worker", "pid": 2, "resident_bytes": 5_000_000, "cpu_seconds": 1.0}],
    "models": [
        {"id": each, "state": "ready", "problems": [], "task": "chat", "version": 1, "bytes": 7_000_000,
         "on_request": False, "adapters": [{"id": "pirate"}], "running": 1, "waiting": 2, "instance": 0}
        for each in ("m", "[red]other")
    ],
    "nodes": [NODE],
    "phases": [],
    "queues": [
        {"engine": "0", "node": "generated", "kind": "generation", "running": 1, "waiting": 2, "swapped": 3,
         "blocks": {"total": 60, "used": 30, "reusable": 10, "free": 20, "block_tokens": 16}}
    ],
    "requests": [REQUEST],
    "history": {"end": 1000.0, "series": {"running": [1, 2], "output_tokens_per_s": [0, 5, 10], "prefix_hit_rate": [0.5]}},
    "totals": {"preemptions": 4, "requests": 9, "failed": 1},
    "errors": [{"id": "x", "at": 990.0, "status": 500, "path": "/v1/completions", "model": "m", "message": "[b]broken"}],
    "recent": [],
}  # fmt: skip


def shown(status, height=50):
    whole = StatusReply.model_validate(status).model_dump(mode="json")
    console = Console(file=io.StringIO(), width=110, height=height)
    console.print(screen(whole, "http://a/v1", height))
    return console.file.getvalue()


@pytest.mark.parametrize(
    "text",
    [
        "up 10 min",
        "engine 0 down 2.0 GB",
        "1 workers 5 MB",
        "▶  m",
        "[red]other",
        "pirate",
        "running 2",
        "output tokens/s 10",
        "prefix hits 50%",
        "failed 1 of 9",
        "▁▅█",
        "█" * 15 + "▒" * 5 + "·" * 10,
        "30 blocks used, 10 reusable, 20 free, of 16 tokens; 3 swapped out",
        "1 requests in flight",
        "chatcmpl-7 #1",
        "40 of 80",
        "3 of 30",
        "12.500 ms",
        "25%",
        "[b]broken",
    ],
)
def test_a_number_is_shown(text):
    assert text in shown(STATUS)


def test_of_many_requests_those_that_fit_are_shown():
    many = {**STATUS, "requests": [{**REQUEST, "id": f"r{number}"} for number in range(200)]}
    text = shown(many, height=40)
    assert "200 requests in flight, the first " in text
    assert len(text.splitlines()) <= 40
    assert shown(many, height=2000).count("40 of 80") == 200


def test_a_server_without_a_model_in_detail():
    nothing = {"model": None, "models": [], "nodes": [], "queues": [], "requests": [], "errors": []}
    assert "engine 0 down" in shown({**STATUS, **nothing})


def test_a_spark_of_nothing_and_of_gaps():
    assert spark([]) == ""
    assert spark([None, 2.0]) == "▁█"
