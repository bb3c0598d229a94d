"""HTTP requests in /metrics: by the template of the path, and nothing that a client can make up."""

import asyncio

import pytest
from patience import until
from prometheus_client.parser import text_string_to_metric_families
from scripted import HI

BODY = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}

pytestmark = pytest.mark.usefixtures("few_metrics")


def read(text):
    """(name, labels) → value of the HTTP metrics, as Prometheus reads them; the others are many."""
    ours = "".join(line for line in text.splitlines(keepends=True) if "http_" in line)
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(ours)
        for sample in family.samples
    }


def gained(rig, scenario):
    """What a scenario added to the HTTP metrics, and its result."""

    async def whole(client):
        before = read((await client.get("/metrics")).body.decode())
        result = await scenario(client)
        after = read((await client.get("/metrics")).body.decode())
        return result, {key: value - before.get(key, 0) for key, value in after.items()}

    result, change = rig.run(whole)
    return result, {key: value for key, value in change.items() if value and key[0].startswith("http_")}


def requests(change):
    return {key[1]: value for key, value in change.items() if key[0] == "http_requests_total"}


def counted(handler, method, status, number=1):
    return {(("handler", handler), ("method", method), ("status", status)): number}


@pytest.mark.parametrize(
    ("method", "path", "handler", "status"),
    [
        ("GET", "/v1/models", "/v1/models", "2xx"),
        ("GET", "/v1/models/", "/v1/models", "2xx"),
        ("GET", "/v1/models/no/such/model", "/v1/models/{name:path}", "4xx"),
        ("GET", "/v1/responses/resp_1", "/v1/responses/{response_id}", "4xx"),
        ("GET", "/v1/chat/completions", "/v1/chat/completions", "4xx"),
        ("DELETE", "/no/such/path", "none", "4xx"),
        ("PROPFIND", "/v1/models", "/v1/models", "4xx"),
    ],
)
def test_a_request_is_counted_under_its_template(rig, method, path, handler, status):
    method_label = "other" if method == "PROPFIND" else method
    _, change = gained(rig, lambda client: client.ask(method, path))
    assert requests(change) == counted(handler, method_label, status)


def test_an_unknown_key_is_counted_where_it_knocked(make_rig):
    rig = make_rig(api_keys=("secret",))

    async def scenario(client):
        await client.post("/v1/chat/completions", BODY)
        await client.get("/no/such/path")

    _, change = gained(rig, scenario)
    assert requests(change) == {
        **counted("/v1/chat/completions", "POST", "4xx"),
        **counted("none", "GET", "4xx"),
    }


@pytest.mark.parametrize("path", ["/metrics", "/health", "/load", "/ping", "/version", "/v2/health/live"])
def test_what_watchers_ask_is_not_counted(rig, path):
    _, change = gained(rig, lambda client: client.get(path))
    assert change == {}


def test_sizes_and_times(rig):
    answer, change = gained(rig, lambda client: client.post("/v1/chat/completions", BODY))
    handler = ("handler", "/v1/chat/completions")
    assert change["http_response_size_bytes_sum", (handler,)] == len(answer.body)
    assert change["http_response_size_bytes_count", (handler,)] == 1
    assert change["http_request_size_bytes_count", (handler,)] == 1
    assert change["http_request_duration_highr_seconds_count", ()] == 1
    assert change["http_request_duration_seconds_count", (handler, ("method", "POST"))] == 1


def test_a_stream_is_counted_with_its_last_byte(rig):
    last = asyncio.Event()
    rig.pipeline.batches = [*HI[:-1], last, HI[-1]]

    async def scenario(client):
        stream = client.begin_post("/v1/chat/completions", {**BODY, "stream": True})
        await stream.answer.wrote.wait()
        early = read((await client.get("/metrics")).body.decode())
        last.set()
        await stream.task
        return early

    early, change = gained(rig, scenario)
    handler = ("handler", "/v1/chat/completions")
    assert requests(change) == counted("/v1/chat/completions", "POST", "2xx")
    (labels,) = requests(change)
    at_end = rig.run(lambda client: client.get("/metrics")).body.decode()
    assert read(at_end)["http_requests_total", labels] == early.get(("http_requests_total", labels), 0) + 1
    assert change["http_request_duration_seconds_count", (handler, ("method", "POST"))] == 1
    assert ("http_response_size_bytes_sum", (handler,)) not in change


def test_a_client_that_left_is_counted(rig):
    rig.pipeline.batches = ["forever"]

    async def scenario(client):
        waiting = client.begin_post("/v1/chat/completions", BODY)
        await until(lambda: rig.pipeline.calls)
        waiting.hang_up()
        await waiting.task

    _, change = gained(rig, scenario)
    assert requests(change) == counted("/v1/chat/completions", "POST", "4xx")


@pytest.mark.parametrize(
    ("path", "body", "request_type"),
    [
        ("/v1/chat/completions", BODY, "chat_completions"),
        ("/v1/messages", {**BODY, "max_tokens": 5}, "chat_completions"),
        ("/v1/responses", {"model": "tiny", "input": "hi", "store": False}, "responses"),
    ],
)
@pytest.mark.parametrize("streams", [False, True])
def test_tool_calls_are_counted_by_kind_of_request(rig, path, body, request_type, streams):
    rig.post(path, {**body, "stream": streams})
    assert rig.pipeline.calls[-1].counted_as == (request_type, streams)
