"""Composed graphs behind the real server, by the clients that users have: each is a model as any other."""

from __future__ import annotations

import json
import shutil

import httpx
import pytest
from documents import ROOT
from later import Later
from openai import BadRequestError, OpenAI
from scripted_model import write_scripted_model

from pipelines import Local
from pipelines.nodes.composing.cite import SYSTEM
from pipelines.retrieval.cutting import Cutting
from pipelines.retrieval.index_folder import IndexFolder
from pipelines.retrieval.index_graph import index_graph
from pipelines.retrieval.index_settings import IndexSettings
from pipelines.retrieval.index_update import SourceDocument, update

anthropic = Later("anthropic")

TEXTS = {
    "bread.md": "# Bread\n\nYeast makes dough rise.\n\n## Ovens\n\nBread is baked in an oven at 230 degrees.",
    "moon.md": "# Moon\n\nThe moon is 384,000 kilometres away from the earth.",
    "whales.md": "# Whales\n\nWhales are mammals, and breathe air.",
    "law.md": "# Law\n\nA contract binds both parties.",
}
QUESTION = "What makes bread dough rise?"
ASKED = [{"role": "user", "content": QUESTION}]
GREEDY = {"temperature": 0, "max_tokens": 24}
SAID = "Yeast does [1], as in [1] and [2]."
MARKED = [(1, "[1]"), (1, "[1]"), (2, "[2]")]
STEPS = """\
version: 1
task: chat
nodes:
  hint: {type: ask, graph: braid-demo, template: "Name one word: {{ request }}", max_tokens: 6, temperature: 0}
  mood: {type: classify, graph: braid-sentiment, from: request}
  reply:
    type: ask
    graph: braid-demo
    from: {hint: hint, mood: mood}
    template: "{{ request }} ({{ hint }}, {{ mood.label }})"
"""
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Current weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


ADDED = ("writer", "handbook", "answers", "cited", "router", "steps")


@pytest.fixture(scope="module")
def server(demo):
    """The server of the shipped models, for a time with those of `ADDED`."""
    folder = demo.models
    write_scripted_model(folder / "writer", [SAID, SAID])
    documents = [SourceDocument.of_text(name, text, {}) for name, text in TEXTS.items()]
    with Local(folder, names=["braid-embed"]) as braid:

        def embed(texts):
            return braid.embed_kinds(texts, ["dense"], model="braid-embed", input_type="document")

        update(
            IndexFolder(folder / "handbook/index"),
            documents,
            IndexSettings("braid-embed", embed, Cutting(60)),
        )
    graph = index_graph("braid-embed", "braid-rerank", {"dense": 1.0}, "docs")
    (folder / "handbook/graph.yaml").write_text(graph)
    shipped = {name: (ROOT / f"examples/{name}/graph.yaml").read_text() for name in ("answers", "router")}
    write(folder, "answers", shipped["answers"].replace("smollm2", "braid-demo"))
    write(folder, "cited", shipped["answers"].replace("smollm2", "writer"))
    write(folder, "router", shipped["router"].replace("smollm2", "writer"))
    write(folder, "steps", STEPS)
    reload(demo)
    demo.wait_for(lambda: added(demo) == ({*ADDED}, {*ADDED}))
    yield demo
    for name in ADDED:
        shutil.rmtree(folder / name)
    reload(demo)
    demo.wait_for(lambda: added(demo) == (set(), set()))


def reload(server):
    httpx.post(f"{server.url}/v1/config/reload", timeout=None).raise_for_status()


def added(server):
    """The models of `ADDED` that each worker has loaded, and those that any of them knows."""
    with server.each_worker() as clients:
        listed = [client.get("/v1/models").json()["data"] for client in clients.values()]
    states = [
        {one["id"]: one["status"]["value"] for one in models if one["id"] in ADDED} for models in listed
    ]
    loaded = [{name for name, state in known.items() if state == "loaded"} for known in states]
    return set.intersection(*loaded), set().union(*states)


def write(folder, name, graph):
    (folder / name).mkdir()
    (folder / name / "graph.yaml").write_text(graph)


@pytest.fixture
def openai(server):
    with OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def post(server, path, **body):
    reply = httpx.post(f"{server.url}{path}", json=body, timeout=None)
    reply.raise_for_status()
    return reply.json()


def chat(server, model, messages, **fields):
    """The text, the tokens and the usage of a greedy reply."""
    body = {"model": model, "messages": messages, "logprobs": True, **GREEDY, **fields}
    reply = post(server, "/v1/chat/completions", **body)
    choice = reply["choices"][0]
    tokens = [entry["token"] for entry in (choice["logprobs"] or {"content": []})["content"]]
    return choice["message"]["content"], tokens, reply["usage"]


def test_an_answer_from_passages_is_that_of_the_same_steps_over_http(server):
    hits = post(server, "/v1/search", model="handbook", query=QUESTION, top=20)["data"]
    texts = [hit["text"] for hit in hits]
    ranked = post(server, "/v1/rerank", model="braid-rerank", query=QUESTION, documents=texts, top_n=4)[
        "results"
    ]
    best = [hits[result["index"]] for result in ranked]
    passages = "\n\n".join(f"[{at}] {hit['heading']}\n{hit['text']}" for at, hit in enumerate(best, 1))
    asked = (
        "Answer the question from these passages. After what you take from a passage write its number, such as "
        f"[1].\n\n{passages}\n\nQuestion: {QUESTION}"
    )
    by_hand = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": asked}]
    text, tokens, usage = chat(server, "braid-demo", by_hand)
    whole, same_tokens, spent = chat(server, "answers", ASKED)
    assert (whole, same_tokens) == (text, tokens)
    assert spent["completion_tokens"] == usage["completion_tokens"]
    assert spent["prompt_tokens"] > usage["prompt_tokens"]  # and those of the search and the ranking


QUESTIONS = (
    "Who breathes air?",
    "How far away is the moon?",
    "Whom does a contract bind?",
    "How hot is an oven?",
)


def test_what_is_constant_before_the_passages_is_read_once(server):
    """Each prompt but the first finds all whole blocks before its first passage in the cache."""
    reused = []
    for question in QUESTIONS:
        asked = {"model": "answers", "messages": [{"role": "user", "content": question}], **GREEDY}
        headers = {"X-Braid-Trace": "1"}
        reply = httpx.post(f"{server.url}/v1/chat/completions", json=asked, headers=headers, timeout=None)
        last = reply.json()["trace"]["calls"][-1]
        assert last["line"] == "reply"
        reused.append(last["cached_tokens"])
    constant = _num_constant(server)
    assert constant > 2 * BLOCK
    assert all(constant - BLOCK < num_reused for num_reused in reused[1:]), (constant, reused)


BLOCK = 32
"""Tokens of a block of the demo model's cache at most."""


def _num_constant(server):
    """How many tokens all prompts with passages begin with."""
    asked = (
        "Answer the question from these passages. After what you take from a passage write its number, such as "
        "[1].\n\n[1] "
    )
    system = {"role": "system", "content": SYSTEM}
    prompts = [[system, {"role": "user", "content": asked + text}] for text in ("Bread", "Whales")]
    ids = [post(server, "/tokenize", model="braid-demo", messages=prompt)["tokens"] for prompt in prompts]
    return next(at for at, (one, other) in enumerate(zip(*ids, strict=False)) if one != other)


def test_a_reply_that_is_asked_in_steps_is_that_of_the_steps(server):
    hint, _, first = chat(
        server, "braid-demo", [{"role": "user", "content": f"Name one word: {QUESTION}"}], max_tokens=6
    )
    mood = post(server, "/classify", model="braid-sentiment", input=QUESTION)
    label, classified = mood["data"][0]["label"], mood["usage"]["prompt_tokens"]
    last = [{"role": "user", "content": f"{QUESTION} ({hint}, {label})"}]
    text, tokens, second = chat(server, "braid-demo", last)
    whole, same_tokens, spent = chat(server, "steps", ASKED)
    assert (whole, same_tokens) == (text, tokens)
    assert spent["completion_tokens"] == first["completion_tokens"] + second["completion_tokens"]
    assert spent["prompt_tokens"] == first["prompt_tokens"] + second["prompt_tokens"] + classified


def test_openais_client_reads_a_stream_with_choices_and_usage(openai):
    whole = openai.chat.completions.create(model="steps", messages=ASKED, seed=3, n=2, max_tokens=12)
    said, usage = {0: "", 1: ""}, None
    fields = {"seed": 3, "n": 2, "max_tokens": 12, "stream_options": {"include_usage": True}}
    for chunk in openai.chat.completions.create(model="steps", messages=ASKED, stream=True, **fields):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            said[choice.index] += choice.delta.content or ""
    assert list(said.values()) == [choice.message.content for choice in whole.choices]
    assert usage.total_tokens == whole.usage.total_tokens


def test_citations_are_annotations(openai, server):
    reply = openai.chat.completions.create(model="cited", messages=ASKED)
    message = reply.choices[0].message
    assert message.content == SAID
    cited = [annotation.file_citation for annotation in message.annotations]
    assert [
        (annotation["index"] + 1, SAID[annotation["start_index"] : annotation["end_index"]])
        for annotation in cited
    ] == MARKED
    assert next((citation["number"], citation["document"]) for citation in reply.citations) == (
        1,
        cited[0]["filename"],
    )
    assert reply.citations[0]["text"] in "".join(TEXTS.values())
    chunks = list(openai.chat.completions.create(model="cited", messages=ASKED, stream=True))
    streamed = [
        annotation
        for chunk in chunks
        for choice in chunk.choices
        for annotation in getattr(choice.delta, "annotations", ())
    ]
    assert [annotation["file_citation"] for annotation in streamed] == cited


def test_citations_in_responses(openai):
    reply = openai.responses.create(model="cited", input=QUESTION)
    assert reply.output_text == SAID
    found = reply.output[0].content[0].annotations
    assert [(each.type, each.index) for each in found] == [("file_citation", at - 1) for at, _ in MARKED]
    events = list(openai.responses.create(model="cited", input=QUESTION, stream=True))
    added = [event.annotation for event in events if event.type == "response.output_text.annotation.added"]
    assert [each.index for each in added] == [at - 1 for at, _ in MARKED]


def test_citations_in_messages(server):
    with anthropic.Anthropic(base_url=server.url, api_key="none") as client:
        fields = {"model": "cited", "max_tokens": 100, "messages": ASKED}
        block = client.messages.create(**fields).content[0]
        assert (block.text, [citation.search_result_index for citation in block.citations]) == (SAID, [0, 1])
        assert block.citations[0].type == "search_result_location"
        with client.messages.stream(**fields) as stream:
            final = stream.get_final_message()
        assert [citation.model_dump() for citation in final.content[0].citations] == [
            citation.model_dump() for citation in block.citations
        ]
        assert final.usage.input_tokens > 0


def test_tools_reach_the_model_that_answers(openai):
    asked = {
        "messages": [{"role": "user", "content": "What is the weather in Oslo?"}],
        "tools": [WEATHER],
        **GREEDY,
    }
    direct = openai.chat.completions.create(model="braid-demo", **asked | {"max_tokens": 100})
    routed = openai.chat.completions.create(model="router", **asked | {"max_tokens": 100})
    calls = [reply.choices[0].message.tool_calls[0].function for reply in (direct, routed)]
    assert calls[0] == calls[1]


def test_the_path_of_a_request_comes_back(server):
    body = {"model": "router", "messages": ASKED, **GREEDY}
    reply = httpx.post(
        f"{server.url}/v1/chat/completions", json=body, headers={"X-Braid-Trace": "1"}, timeout=None
    )
    trace = reply.json()["trace"]
    assert [(call["line"], call["model"]) for call in trace["calls"]] == [
        ("topic", "braid-topics"),
        ("reply", trace["decisions"]["reply"]),
    ]
    assert (
        sum(call["completion_tokens"] for call in trace["calls"])
        == reply.json()["usage"]["completion_tokens"]
    )
    assert {"topic.tokens", "reply.generated"} & {span["node"] for span in trace["spans"]}
    assert "trace" not in post(server, "/v1/chat/completions", **body)
    body = {**body, "stream": True}
    headers = {"X-Braid-Trace": "1"}
    text = httpx.post(f"{server.url}/v1/chat/completions", json=body, headers=headers, timeout=None).text
    assert '"trace":{"spans":' in text


OPEN_WEBUI = ROOT / "tests/clients/histories/open_webui.json"


@pytest.mark.parametrize("model", ["answers", "router", "steps"])
def test_open_webui_s_requests_are_served(server, model):
    """Open WebUI sends what its page stores of each message, its settings and tools, and asks for a title."""
    ids = [listed["id"] for listed in httpx.get(f"{server.url}/v1/models").json()["data"]]
    assert model in ids
    for request in json.loads(OPEN_WEBUI.read_text())["requests"]:
        if request["path"] == "/v1/chat/completions":
            body = {**request["body"], "model": model, "max_tokens": 12}
            reply = httpx.post(server.url + request["path"], json=body, timeout=None)
            assert reply.status_code == 200, (request["name"], reply.text)
            assert ("data: [DONE]" in reply.text) == bool(body.get("stream")), request["name"]
            assert '"finish_reason":"' in reply.text, request["name"]
            assert '"error"' not in reply.text, request["name"]


def test_errors_name_the_line_before_a_stream_begins(openai):
    long = [{"role": "user", "content": "bread " * 40_000}]
    with pytest.raises(BadRequestError, match="line `hint`: "):
        openai.chat.completions.create(model="steps", messages=long, stream=True)
    image = [
        {"type": "text", "text": QUESTION},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
    ]
    with pytest.raises(BadRequestError, match="shows no `image_url` parts"):
        openai.chat.completions.create(model="steps", messages=[{"role": "user", "content": image}])
    with pytest.raises(BadRequestError, match="asks several models"):
        openai.chat.completions.create(model="steps", messages=ASKED, extra_body={"return_token_ids": True})
