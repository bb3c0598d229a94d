"""No request, however broken, gets a 5xx or no answer, and every refusal has the envelope.

Requests come from the OpenAPI document, true to it and not, and from bodies that are broken by hand.  They go
to a real server around a model of few tokens.
"""

from __future__ import annotations

import json

import httpx
import pytest
from breadth import after
from broken_bodies import BODIES, BROKEN, GUIDES, MESSAGES, PARAMETERS, WRONG, body_of, places, replaced
from every_route import ROOT_ROUTES, ROUTES
from fake_decoder import FAKE_GRAPH, write_fake_model
from hypothesis import HealthCheck, given, settings
from later import Later
from patience import PATIENCE_S
from server_process import ServerProcess
from whole_document import described_operations, whole_document

from server.services.paths import PREFIXES

schemathesis = Later("schemathesis")
GRAPH = FAKE_GRAPH.replace("    max_sequences: 64\n", "    max_sequences: 64\n    max_context: 96\n").replace(
    "next: {type: sampler, from: logits}",
    "allowed: {type: grammar, from: logits, tokenizer: tokenizer.json}\n"
    "      next: {type: sampler, from: allowed}",
)
NUM_EXAMPLES, NUM_MORE_EXAMPLES, NUM_ALIAS_EXAMPLES = 2, 8, 2
"""Of an operation; `make breadth` draws more."""
SAME_AT_ROOT = ROOT_ROUTES.keys() & ROUTES.keys()
GEMINI = (":generateContent", ":streamGenerateContent", ":countTokens")
SAME_BODY = (
    "/messages/count_tokens",
    "/responses/input_tokens",
    "/chat/completions/batch",
    "/invocations",
    "/render",
)
"""The ends of paths whose bodies are read by the models of another path: those of messages take long to draw."""


def is_alias(name: str) -> bool:
    """Whether a path, or an operation on it, is served by the handler of another.

    /v3 by that of /v1, /v1 by that of the root, a version of a model by that of the model, Gemini's /v1 by
    its /v1beta.
    """
    path = name.rpartition(" ")[2]
    is_version = "/versions/{version}" in path or (path.endswith(GEMINI) and path.startswith("/v1/"))
    is_prefixed = path.startswith("/v1/") and path.removeprefix("/v1") in SAME_AT_ROOT
    return path.startswith("/v3/") or is_version or is_prefixed


def of_alias(path: str) -> list[pytest.MarkDecorator]:
    """`make breadth` sends to aliases too."""
    return [pytest.mark.breadth] if is_alias(path) else []


def of_breadth(path: str, mode: str) -> list[pytest.MarkDecorator]:
    """`make breadth` draws for paths too whose bodies are those of others, and wrong bodies beside those of hand."""
    is_by_hand = mode == "negative" and path.endswith(tuple(BODIES))
    return [pytest.mark.breadth] if is_by_hand or path.endswith(SAME_BODY) else of_alias(path)


TWO_EVENTS = {"max-stream-events": 2}
"""Of a stream: that of the status never ends, and has an event a second."""
DRAWN = {
    f"{method} {path}": operation
    for (method, path), operation in described_operations().items()
    if not path.startswith("/v3/v1/") and path != "/metrics"
}
CASES = [
    pytest.param(name, mode, id=f"{name} {mode}", marks=of_breadth(name, mode))
    for name, operation in DRAWN.items()
    for mode in ("positive", "negative")
    if mode == "positive" or operation.bodies or operation.query
]
POSTS = [path for path, made in ROOT_ROUTES.items() if hasattr(made, "on_post")]
POSTS += [
    prefix + path for prefix in PREFIXES[:2] for path, made in ROUTES.items() if hasattr(made, "on_post")
]

FILLED = [pytest.param(path, marks=of_alias(path)) for path in POSTS if body_of(path)]


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    models = tmp_path_factory.mktemp("server") / "models"
    write_fake_model(models / "fake", GRAPH)
    with ServerProcess(models) as server:
        server.ready()
        yield server.url


@pytest.fixture(scope="module")
def operations():
    """Method and path → what draws requests of it."""
    paths = {path: item for path, item in whole_document()["paths"].items() if not path.startswith("/v3/v1/")}
    config = schemathesis.config.SchemathesisConfig.from_dict(TWO_EVENTS)
    document = schemathesis.openapi.from_dict(whole_document() | {"paths": paths}, config=config)
    operations = {
        f"{operation.method.upper()} {operation.path}": operation
        for result in document.get_all_operations()
        for operation in [result.ok()]
    }
    assert operations.keys() == {*DRAWN, "GET /metrics"}
    return operations


@pytest.fixture(scope="module")
def client(url):
    with httpx.Client(base_url=url, timeout=PATIENCE_S) as client:
        yield client


def check(status: int, text: str, asked: object) -> None:
    assert status < 500, (status, text, asked)
    if status >= 400 and status != 405:
        error = json.loads(text)["error"]
        message = error["message"] if isinstance(error, dict) else error
        assert isinstance(message, str), (text, asked)
        assert message, (text, asked)


@pytest.mark.slow
@pytest.mark.parametrize("num_examples", after(1, [NUM_EXAMPLES, NUM_MORE_EXAMPLES]))
@pytest.mark.parametrize(("name", "mode"), CASES)
def test_requests_of_the_document_are_answered(name, mode, num_examples, url, operations):
    drawn = operations[name].as_strategy(generation_mode=schemathesis.GenerationMode(mode))

    @settings(
        max_examples=NUM_ALIAS_EXAMPLES if is_alias(name) else num_examples,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=drawn)
    def ask(case):
        if mode == "positive" and isinstance(case.body, dict):
            case.body["model"] = "fake"  # so that more than the model is looked at
        answer = case.call(base_url=url, timeout=PATIENCE_S)
        check(answer.status_code, answer.text, case.as_curl_command() if answer.status_code >= 500 else name)

    ask()


@pytest.mark.parametrize("every", after(1, [3, 1]))
@pytest.mark.parametrize("path", [pytest.param(path, marks=of_alias(path)) for path in POSTS])
def test_broken_bodies_are_refused(path, every, client):
    """Each path gets every third body, the next path the bodies after these; `make breadth` sends all."""
    for name, body in [*BROKEN.items()][POSTS.index(path) % every :: every]:
        answer = client.post(path, content=body, headers={"content-type": "application/json"})
        check(answer.status_code, answer.text, name)


@pytest.mark.parametrize("every", after(1, [7, 1]))
@pytest.mark.parametrize("path", FILLED)
def test_a_wrong_value_in_any_field_is_answered(path, every, client):
    """Each place gets every seventh value, the next place the values after these; `make breadth` sends all."""
    body = {"model": "fake", **body_of(path)}
    for number, place in enumerate(places(body)):
        for value in WRONG[number % every :: every]:
            text = json.dumps(replaced(body, place, value))
            answer = client.post(path, content=text, headers={"content-type": "application/json"})
            check(answer.status_code, answer.text, text[:500])


@pytest.mark.parametrize("guide", after(len(GUIDES) - 1, GUIDES), ids=str)  # the last one takes seconds
def test_a_guide_that_cannot_be_followed_is_answered(guide, client):
    body = {"prompt": "hi", "max_tokens": 8, "structured_outputs": guide}
    answer = client.post("/v1/completions", json=body)
    check(answer.status_code, answer.text, guide)


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "f"}}], ids=str)
@pytest.mark.parametrize("parameters", PARAMETERS, ids=str)
def test_a_function_that_cannot_be_called_is_answered(parameters, choice, client):
    tool = {"type": "function", "function": {"name": "f", "parameters": parameters, "strict": True}}
    body = {"messages": MESSAGES, "max_tokens": 8, "tools": [tool], "tool_choice": choice}
    answer = client.post("/v1/chat/completions", json=body)
    check(answer.status_code, answer.text, parameters)
    flat = {"type": "function", **tool["function"]}
    asked = {"input": "hi", "max_output_tokens": 8, "tools": [flat], "tool_choice": "required"}
    answer = client.post("/v1/responses", json=asked)
    check(answer.status_code, answer.text, parameters)
    told = {"name": "f", "input_schema": parameters}
    message = {"messages": MESSAGES, "max_tokens": 8, "tools": [told], "tool_choice": {"type": "any"}}
    answer = client.post("/v1/messages", json=message)
    check(answer.status_code, answer.text, parameters)
