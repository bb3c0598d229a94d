"""Grafana dashboards read what `/metrics` of a server has after some traffic: Braid's own, and vLLM's."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path

import httpx
import pytest
from patience import PATIENCE_S
from prometheus_client.parser import text_string_to_metric_families

from pipelines.telemetry.metric_names import METRICS

DASHBOARD = json.loads((Path(__file__).parents[2] / "docs/grafana/braid.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
QUERIES = {
    f"{panel['title']}, {target['refId']}": target["expr"] for panel in PANELS for target in panel["targets"]
}
ENGINE_QUERIES = {name: query for name, query in QUERIES.items() if "braid:engine_" in query}
"""Only a server with several engines has these metrics: tests/e2e/test_several_engines.py."""
RARE = ("braid:key_", "braid:busiest_expert", "braid:unused_experts")
"""Metrics of named keys, and of mixtures whose graph has `routed_experts`: the shared server has neither."""
RARE_QUERIES = {name: query for name, query in QUERIES.items() if any(start in query for start in RARE)}
METRIC = re.compile(r"\b(?:(?:vllm|braid):|http_|process_)\w+")
SELECTOR = re.compile(r"([\w:]+)\{([^{}]*)\}")
MATCHER = re.compile(r"(\w+)=~\"")
GROUPED = re.compile(r"\bby \(([^)]*)\)")
OF_THE_SCRAPE = {"instance"}
"""Labels that Prometheus adds."""

HISTOGRAMS = [
    "vllm:e2e_request_latency_seconds",
    "vllm:inter_token_latency_seconds",
    "vllm:time_to_first_token_seconds",
]
VLLMS = {
    **{f"{name}_{part}": () for name in HISTOGRAMS for part in ("bucket", "sum", "count")},
    "vllm:prompt_tokens_total": (),
    "vllm:generation_tokens_total": (),
    "vllm:num_requests_running": (),
    "vllm:num_requests_waiting": (),
    "vllm:kv_cache_usage_perc": (),
    "vllm:request_prompt_tokens_bucket": ("le",),
    "vllm:request_generation_tokens_bucket": ("le",),
    "vllm:request_success_total": ("finished_reason",),
    "vllm:request_queue_time_seconds_sum": (),
    "vllm:request_prefill_time_seconds_sum": (),
    "vllm:request_decode_time_seconds_sum": (),
    "vllm:request_max_num_generation_tokens_sum": (),
}
"""What vLLM's own dashboards (grafana.json, performance and query statistics) read, with `model_name`."""

TOOL = {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}
CHAT = {
    "model": "braid-demo",
    "messages": [{"role": "user", "content": "What is the weather in Oslo?"}],
    "tools": [{"type": "function", "function": TOOL}],
    "max_tokens": 40,
}


@pytest.fixture(scope="module")
def series(demo):
    """Name → the label sets that it has after some traffic."""
    with httpx.Client(base_url=demo.url, timeout=PATIENCE_S) as client:
        for body in (CHAT, {**CHAT, "stream": True, "n": 2, "temperature": 1}):
            client.post("/v1/chat/completions", json=body).raise_for_status()
        client.post("/v1/embeddings", json={"model": "braid-embed", "input": ["a", "b"]}).raise_for_status()
        demo.wait_for(lambda: "vllm:iteration_tokens_total" in client.get("/metrics").text)
        demo.wait_for(lambda: 'outcome="tool_call"' in client.get("/metrics").text)
        return series_of(client.get("/metrics").text)


def series_of(text):
    """Name → the label sets that it has in what `/metrics` wrote."""
    found = defaultdict(list)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name].append(sample.labels.keys())
    return found


def test_queries_read_metrics_that_exist(series):
    for name in sorted(QUERIES.keys() - ENGINE_QUERIES.keys() - RARE_QUERIES.keys()):
        check_query(series, QUERIES[name])


def test_queries_of_keys_and_mixtures_read_metrics_that_are_declared():
    declared = {
        f"{name}_total" if spec.kind == "counter" else name: [set(spec.labels)]
        for name, spec in METRICS.items()
    }
    assert len(RARE_QUERIES) == 5
    for query in RARE_QUERIES.values():
        check_query(declared, query)


def check_query(series, query):
    selectors = SELECTOR.findall(query)
    assert {name for name, _ in selectors} == set(METRIC.findall(query)) != set()
    for name, matchers in selectors:
        wanted = {*MATCHER.findall(matchers)} - OF_THE_SCRAPE
        assert any(wanted <= labels for labels in series[name]), (name, wanted)
    for labels in GROUPED.findall(query):
        wanted = set(re.split(r",\s*", labels)) - OF_THE_SCRAPE
        assert any(wanted <= keys for name, _ in selectors for keys in series[name]), labels


def test_vllms_dashboards_find_their_metrics(series):
    missing = [
        name
        for name, labels in VLLMS.items()
        if not any({"model_name", *labels} <= keys for keys in series[name])
    ]
    assert missing == []


def test_each_panel_has_a_place_and_a_source_of_data():
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    places = [tuple(panel["gridPos"][side] for side in "xy") for panel in DASHBOARD["panels"]]
    assert len(set(places)) == len(places)
    variables = {each["name"] for each in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(PANELS))) - {"__rate_interval"}
    assert used == variables
