"""Traces of a real server: what a collector receives of requests that end well, fail or are left."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys

import httpx
import pytest
from paced_model import write_model
from patience import PATIENCE_S
from server_process import ROOT, ServerProcess, chat, free_port

pytest.importorskip(
    "opentelemetry.exporter.otlp.proto.http", reason="pip install -e '.[otel]'", exc_type=ImportError
)
from trace_receiver import collector

pytestmark = pytest.mark.breadth

NODES = {
    "prompt": {},
    "tokens": {},
    "generated": {"queue": {}, "prefill": {}, "decode": {}},
    "text": {},
    "reply": {},
}
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.fixture(scope="module")
def received():
    with collector() as found:
        yield found


@pytest.fixture(scope="module")
def traced(received, tmp_path_factory):
    """A server of the shipped models that sends its traces."""
    models = tmp_path_factory.mktemp("traced") / "models"
    models.symlink_to(ROOT / "model_repo")
    with (
        environment(
            OTEL_EXPORTER_OTLP_ENDPOINT=received.url,
            OTEL_EXPORTER_OTLP_HEADERS="x-tenant=a1",
            OTEL_BSP_SCHEDULE_DELAY="50",
            OTEL_RESOURCE_ATTRIBUTES="deployment.environment=test",
        ),
        ServerProcess(models, WORKERS="2") as running,
    ):
        running.all_ready()
        yield running


@contextlib.contextmanager
def environment(**variables):
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        yield


@pytest.fixture
def send(traced, received):
    """Sends a request, and returns its reply and the root of its trace."""

    def post(path, body, **headers):
        reply = httpx.post(f"{traced.url}{path}", json=body, headers=headers, timeout=PATIENCE_S)
        return reply, root_of(traced, received, reply.headers["x-request-id"])

    return post


def root_of(server, received, request_id):
    def found():
        return [each for each in received.roots() if each.attributes["gen_ai.request.id"] == request_id]

    server.wait_for(found)
    return found()[0]


def body(**fields):
    return {"model": "braid-demo", "messages": [{"role": "user", "content": "Hello!"}], **fields}


@pytest.mark.parametrize("stream", [False, True])
def test_a_chat_is_one_tree_of_all_nodes(send, received, stream):
    reply, root = send("/v1/chat/completions", body(max_tokens=20, temperature=0.5, top_p=0.9, stream=stream))
    assert received.tree(root) == NODES
    assert (root.name, root.parent, root.status) == ("chat braid-demo", "", 0)
    said = root.attributes
    assert said["gen_ai.request.model"] == said["gen_ai.response.model"] == "braid-demo"
    assert (said["gen_ai.operation.name"], said["gen_ai.provider.name"]) == ("chat", "braid")
    assert (said["gen_ai.request.max_tokens"], said["gen_ai.request.temperature"]) == (20, 0.5)
    assert said["gen_ai.request.top_p"] == pytest.approx(0.9)
    assert said["gen_ai.request.stream"] is stream
    assert (said["http.response.status_code"], said["url.path"]) == (200, "/v1/chat/completions")
    if not stream:
        whole = reply.json()
        assert said["gen_ai.response.id"] == whole["id"]
        assert said["gen_ai.usage.input_tokens"] == whole["usage"]["prompt_tokens"]
        assert said["gen_ai.usage.output_tokens"] == whole["usage"]["completion_tokens"]
        assert said["gen_ai.response.finish_reasons"] == [whole["choices"][0]["finish_reason"]]
    assert "Hello" not in str([span.attributes for span in received.spans])


def test_spans_lie_within_their_parents_and_add_up(send, received):
    _, root = send("/v1/chat/completions", body(max_tokens=30, ignore_eos=True))
    for child in received.below(root):
        assert root.start_ns <= child.start_ns <= child.end_ns <= root.end_ns
    engine = next(span for span in received.below(root) if span.name == "generated")
    queue, prefill, decode = received.below(engine)
    assert (queue.end_ns, prefill.end_ns) == (
        pytest.approx(prefill.start_ns, abs=2),
        pytest.approx(decode.start_ns, abs=2),
    )
    said = root.attributes
    assert said["gen_ai.latency.time_in_model_decode"] == pytest.approx(
        (decode.end_ns - decode.start_ns) / 1e9
    )
    assert said["gen_ai.latency.time_to_first_token"] <= said["gen_ai.latency.e2e"]


def test_the_trace_of_the_client_goes_on(send, received):
    _, root = send(
        "/v1/completions",
        {"model": "braid-demo", "prompt": "Hi", "max_tokens": 2},
        traceparent=f"00-{TRACE}-{PARENT}-01",
    )
    assert (root.trace_id, root.parent) == (TRACE, PARENT)
    assert root.name == "text_completion braid-demo"
    assert {each.trace_id for each in received.below(root)} == {TRACE}


def test_what_the_client_does_not_sample_has_no_trace(traced, received, send):
    trace = "1" * 32
    headers = {"traceparent": f"00-{trace}-{PARENT}-00"}
    httpx.post(f"{traced.url}/v1/chat/completions", json=body(max_tokens=2), headers=headers)
    send("/v1/chat/completions", body(max_tokens=2))  # its trace comes after that of the request before
    send("/v1/chat/completions", body(max_tokens=2))
    assert trace not in {each.trace_id for each in received.spans}


def test_a_traceparent_that_is_none_begins_a_trace(send):
    _, root = send("/v1/chat/completions", body(max_tokens=2), traceparent="nonsense")
    assert root.parent == ""


def test_a_request_that_is_refused_has_a_trace(send, received):
    reply, root = send(
        "/v1/chat/completions", body(max_tokens=2, messages=[{"role": "user", "content": "a " * 9000}])
    )
    assert reply.status_code == root.attributes["http.response.status_code"] == 400
    assert (root.status, "error.type" in root.attributes) == (0, False)
    assert list(received.tree(root)) == ["prompt", "tokens", "generated"]


def test_a_request_that_is_left_has_a_trace(traced, received):
    with httpx.stream(
        "POST", f"{traced.url}/v1/chat/completions", json=body(max_tokens=1900, ignore_eos=True, stream=True)
    ) as reply:
        next(reply.iter_raw())
        request_id = reply.headers["x-request-id"]
    root = root_of(traced, received, request_id)
    assert root.attributes["gen_ai.response.finish_reasons"] == ["abort"]
    assert received.tree(root) == NODES


@pytest.mark.parametrize(
    ("path", "fields", "name", "nodes"),
    [
        ("/v1/embeddings", {"model": "braid-embed", "input": "x"}, "embeddings braid-embed", {"tokens", "vectors"}),
        ("/v1/classify", {"model": "braid-topics", "input": "x"}, "classify braid-topics", None),
        ("/v1/responses", {"model": "braid-demo", "input": "hi"}, "chat braid-demo", set(NODES)),
        ("/v1/messages", {"model": "pirate", "max_tokens": 4, "messages": [{"role": "user", "content": "hi"}]}, "chat pirate", set(NODES)),
    ],
)  # fmt: skip
def test_other_endpoints_have_their_nodes(send, received, path, fields, name, nodes):
    reply, root = send(path, fields)
    assert reply.status_code == 200, reply.text
    assert root.name == name
    graph = httpx.get(f"{reply.request.url.copy_with(path='/')}v1/models/{name.split()[1]}/graph")
    if graph.status_code == 200:
        assert set(received.tree(root)) == {each["name"] for each in graph.json()["nodes"]}
    if nodes and path != "/v1/embeddings":
        assert set(received.tree(root)) == nodes


def test_resource_and_headers_are_those_of_the_environment(send, received):
    send("/v1/chat/completions", body(max_tokens=2))
    assert received.resources[0]["service.name"] == "braid"
    assert received.resources[0]["deployment.environment"] == "test"
    assert received.headers[0]["x-tenant"] == "a1"


def test_a_client_with_opentelemetry_is_continued(traced, received):
    """Its own instrumentation writes the header; another program, since it changes httpx."""
    pytest.importorskip(
        "opentelemetry.instrumentation.httpx", reason="pip install opentelemetry-instrumentation-httpx"
    )
    code = f"""
import httpx
from opentelemetry.instrumentation.httpx import HTTPXClientInstrumentor
from opentelemetry.sdk.trace import TracerProvider
provider = TracerProvider()
HTTPXClientInstrumentor().instrument(tracer_provider=provider)
with provider.get_tracer("client").start_as_current_span("mine") as span:
    reply = httpx.post("{traced.url}/v1/completions", json={{"model": "braid-demo", "prompt": "Hi", "max_tokens": 2}})
    print(reply.headers["x-request-id"], f"{{span.get_span_context().trace_id:032x}}")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    request_id, trace_id = done.stdout.split()
    root = root_of(traced, received, request_id)
    assert (root.trace_id, bool(root.parent)) == (trace_id, True)


def test_an_engine_that_dies_leaves_a_trace_with_an_error(received, tmp_path):
    write_model(tmp_path / "models" / "fake")
    with (
        environment(
            OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=f"{received.url}/v1/traces", OTEL_BSP_SCHEDULE_DELAY="50"
        ),
        ServerProcess(tmp_path / "models") as server,
    ):
        server.ready()
        with httpx.stream("POST", f"{server.url}/v1/chat/completions", json=chat(3000, stream=True)) as reply:
            request_id, lines = reply.headers["x-request-id"], reply.iter_lines()
            next(lines)
            server.host().kill()
            assert any("error" in line for line in lines)
        root = root_of(server, received, request_id)
    assert (root.status, root.attributes["error.type"]) == (2, "503")


def test_the_last_spans_are_sent_when_the_server_ends(received, tmp_path):
    write_model(tmp_path / "models" / "fake")
    late = environment(OTEL_EXPORTER_OTLP_ENDPOINT=received.url, OTEL_BSP_SCHEDULE_DELAY="60000")
    with late, ServerProcess(tmp_path / "models") as server:
        server.ready()
        reply = httpx.post(f"{server.url}/v1/chat/completions", json=chat(2))
    assert reply.headers["x-request-id"] in {
        each.attributes["gen_ai.request.id"] for each in received.roots()
    }


@pytest.mark.breadth
def test_a_collector_that_is_not_there_disturbs_no_request(tmp_path):
    write_model(tmp_path / "models" / "fake")
    with (
        environment(
            OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{free_port()}", OTEL_BSP_SCHEDULE_DELAY="50"
        ),
        ServerProcess(tmp_path / "models") as server,
    ):
        server.ready()
        assert all(httpx.post(f"{server.url}/v1/chat/completions", json=chat(2)).is_success for _ in range(5))
        server.wait_for(
            lambda: re.search(
                "opentelemetry.*(export|refused)|Exception while exporting|Connection refused", server.log()
            )
        )
