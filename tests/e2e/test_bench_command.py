"""`braid bench` as a process, with real servers; its figures beside what the server counted."""

from __future__ import annotations

import json
import time
import xml.etree.ElementTree as ElementTree

import pytest
from breadth import after
from terminal_program import run_inside, run_piped

from tools.lab.bench.base.load import Load, Request, Timings
from tools.lab.bench.figures import figures


@pytest.fixture
def bench(tmp_path):
    def run(url, *arguments):
        file = tmp_path / "figures.json"
        done = run_piped("bench", url, "--json", str(file), *arguments)
        return done, json.loads(file.read_text()) if file.exists() else None

    return run


@pytest.mark.parametrize("api", after(1, ["chat", "completions"]))
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
    assert {request["prompt_tokens"] for request in whole["requests"]} == {40}
    assert all(8 <= request["output_tokens"] <= 16 for request in whole["requests"])
    run_figures = whole["figures"]
    assert (run_figures["succeeded"], run_figures["failures"], run_figures["prompt_tokens"]) == (12, {}, 480)
    assert 1 <= run_figures["most_in_flight"] <= 4
    assert run_figures["first"]["p50_ms"] <= run_figures["whole"]["p50_ms"]
    assert "requests that succeeded" in done.stdout
    assert "output tokens/s over time" in done.stdout
    assert ElementTree.parse(picture).getroot().tag.endswith("svg")


@pytest.mark.breadth
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
def test_what_cannot_run_is_refused_before_it_starts(demo, tmp_path, arguments, message):
    file = tmp_path / "figures.json"
    done = run_inside("bench", demo.url, "--json", str(file), *arguments)
    assert done.returncode != 0
    assert message in done.stderr
    assert not file.exists()


REQUESTS, STREAMS, PROMPT, OUTPUT = 25, 4, 32, 40
STEP_S = 0.005
FIRST, WHOLE = TIMES = ("vllm:time_to_first_token_seconds", "vllm:e2e_request_latency_seconds")
PROMPTS, GENERATED = TOKENS = ("vllm:prompt_tokens_total", "vllm:generation_tokens_total")


@pytest.fixture(scope="module")
def counted(server, tmp_path_factory):
    """The file of one run, what the server counted meanwhile, and the seconds of the whole command.

    The server has steps of 5 ms and no other client; the command sends one request of two tokens first.
    """
    file = tmp_path_factory.mktemp("counted") / "run.json"
    counts = {"requests": REQUESTS, "streams": STREAMS, "prompt": PROMPT, "output": OUTPUT, "warmup": 0}
    options = [f"--{name}={count}" for name, count in counts.items()]
    server.tokens_at_rest()
    before = counters(server)
    begin_s = time.perf_counter()
    done = run_piped(
        "bench", server.url, "--model", "fake", "--api", "completions", *options, "--json", str(file)
    )
    whole_s = time.perf_counter() - begin_s
    assert done.returncode == 0, done.stderr

    def gained():
        return {name: value - before[name] for name, value in counters(server).items()}

    expected = {f"{name}_count": REQUESTS + 1 for name in TIMES} | {GENERATED: REQUESTS * OUTPUT + 2}
    server.wait_for(lambda: expected.items() <= gained().items())
    return json.loads(file.read_text()), gained(), whole_s


def counters(server):
    """By name: the samples that a run adds to."""
    names = [*TOKENS, *(f"{name}_{part}" for name in TIMES for part in ("sum", "count"))]
    return {name: server.metric(name) for name in names}


def test_it_counts_as_the_server_does(counted):
    """Each time is at least the server's own, which begins later and ends earlier, and fits into the run."""
    run, sums, whole_s = counted
    run_figures, requests = run["figures"], run["requests"]
    assert 0 < sums[PROMPTS] - run_figures["prompt_tokens"] < 2 * PROMPT  # the first request
    assert run_figures["output_tokens"] == sums[GENERATED] - 2 == REQUESTS * OUTPUT
    seconds, before_s = run_figures["seconds"], whole_s - run_figures["seconds"]
    assert REQUESTS / STREAMS * OUTPUT * STEP_S <= seconds <= whole_s
    assert run_figures["output_tokens_per_s"] * seconds == pytest.approx(REQUESTS * OUTPUT)
    ends = sum(request["end_s"] for request in requests)
    firsts = sum(request["arrivals_s"][0] for request in requests)
    assert sums[f"{WHOLE}_sum"] - before_s <= ends <= seconds * STREAMS
    assert sums[f"{FIRST}_sum"] - before_s <= firsts < ends
    for request in requests:
        assert request["end_s"] >= max(request["arrivals_s"][-1], OUTPUT * STEP_S)


def test_it_computes_as_the_other_client_does(counted):
    """From the times that were recorded, `tools.lab.bench` computes the same figures."""
    run, _, _ = counted
    run_figures, requests = run["figures"], run["requests"]
    load = Load(STREAMS, [Request([1] * PROMPT, OUTPUT)] * REQUESTS)
    times = [[request[name] for request in requests] for name in ("sent_s", "arrivals_s")]
    other = figures(load, Timings(run_figures["seconds"], *times))
    assert other.tokens_per_s == pytest.approx(run_figures["output_tokens_per_s"])
    milliseconds = {"rel": 0, "abs": 0.001}  # they are rounded in the file
    for name, p50_ms, p99_ms in (
        ("first", other.first_p50_ms, other.first_p99_ms),
        ("between", other.gap_p50_ms, other.gap_p99_ms),
    ):
        assert run_figures[name]["p50_ms"] == pytest.approx(p50_ms, **milliseconds)
        assert run_figures[name]["p99_ms"] == pytest.approx(p99_ms, **milliseconds)
    assert run_figures["per_token"]["p50_ms"] == pytest.approx(
        1000 / other.decode_tokens_per_s, **milliseconds
    )
