"""`braid bench` as a process, with real servers; its figures beside those of the client of `tools.bench`."""

from __future__ import annotations

import json
import statistics
import xml.etree.ElementTree as ElementTree

import pytest
from terminal_program import run_piped

from tools.bench.client import request_over_http
from tools.bench.figures import figures
from tools.bench.load import Load, Request


@pytest.fixture
def bench(tmp_path):
    def run(url, *arguments):
        file = tmp_path / "figures.json"
        done = run_piped("bench", url, "--json", str(file), *arguments)
        return done, json.loads(file.read_text()) if file.exists() else None

    return run


@pytest.mark.parametrize("api", ["chat", "completions"])
def test_lengths_are_exact_and_everything_is_counted(demo, bench, api, tmp_path):
    picture = tmp_path / "plot.svg"
    options = (
        "--requests",
        "12",
        "--streams",
        "4",
        "--warmup",
        "2",
        "--output",
        "8-16",
        "--plot",
        str(picture),
    )
    done, whole = bench(demo.url, "--api", api, "--prompt", "40", *options)
    assert done.returncode == 0, done.stderr
    assert {each["prompt_tokens"] for each in whole["requests"]} == {40}
    assert all(8 <= each["output_tokens"] <= 16 for each in whole["requests"])
    found = whole["figures"]
    assert (found["succeeded"], found["failures"], found["prompt_tokens"]) == (12, {}, 480)
    assert 1 <= found["most_in_flight"] <= 4
    assert found["first"]["p50_ms"] <= found["whole"]["p50_ms"]
    assert "requests that succeeded" in done.stdout
    assert "output tokens/s over time" in done.stdout
    assert ElementTree.parse(picture).getroot().tag.endswith("svg")


def test_requests_at_a_rate(demo, bench):
    done, whole = bench(demo.url, "--rate", "50", "--requests", "10", "--output", "4", "--warmup", "0")
    assert done.returncode == 0, done.stderr
    due = [each["due_s"] for each in sorted(whole["requests"], key=lambda each: each["due_s"])]
    assert due[0] == 0.0
    assert len(set(due)) == 10
    assert all(each["sent_s"] >= each["due_s"] - 0.001 for each in whole["requests"])  # timers count in ms


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--model", "no-such-model"), "404: The model `no-such-model` does not exist"),
        (("--prompt", "9000"), "400: This model's maximum context length"),
        (("--prompt", "many"), "many is no length"),
        (("--rate", "0"), "--rate"),
    ],
)
def test_what_cannot_run_is_refused_before_it_starts(demo, bench, arguments, message):
    done, whole = bench(demo.url, *arguments)
    assert done.returncode != 0
    assert message in done.stderr
    assert whole is None


@pytest.mark.breadth
def test_it_agrees_with_the_other_client(server, bench):
    """A model whose steps take 5 ms: both clients find what it gives, in turns."""
    ours, theirs = [], []
    for turn in range(3):
        load = Load(4, [Request([1 + turn + number] * 32, 40) for number in range(24)])
        theirs.append(figures(load, request_over_http(server.port, "fake", load)))
        options = ("--api", "completions", "--requests", "24", "--streams", "4", "--seed", str(turn))
        done, whole = bench(server.url, *options, "--prompt", "32", "--output", "40")
        assert done.returncode == 0, done.stderr
        ours.append(whole["figures"])
    rates = [each["output_tokens_per_s"] for each in ours]
    assert statistics.median(rates) == pytest.approx(
        statistics.median(each.tokens_per_s for each in theirs), rel=0.15
    )
    gaps = [each["between"]["p50_ms"] for each in ours]
    assert statistics.median(gaps) == pytest.approx(
        statistics.median(each.gap_p50_ms for each in theirs), rel=0.1
    )
