"""The engine host dies while lines of composed graphs stream, in every API: clients read why, and the next is served."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest
from fake_decoder import FAKE_GRAPH, write_fake_model
from patience import PATIENCE_S
from server_process import NO_LIMITS, ServerProcess

pytest.importorskip("websockets")  # of the extra `audio`

from websockets.asyncio.client import connect

LINES = {
    "handed": "  reply: {type: choose, shares: {fake: 1}}\n",
    "nested": "  reply: {type: graph, graph: handed, from: request}\n",
    "asked": """\
  first: {type: ask, graph: fake, template: "Say {{ request }}", max_tokens: 3}
  reply: {type: ask, graph: fake, from: {said: first}, template: "{{ said }}"}
""",
    "inner": """\
  first: {type: ask, graph: fake, template: "Say {{ request }}", max_tokens: 50000}
  reply: {type: ask, graph: fake, from: {said: first}, template: "{{ said }}"}
""",
    "joined": "  reply: {type: join, graphs: [fake, fake], how: majority}\n",
}
PLACES = {
    "fake": "",
    "handed": "line `reply`: model `fake`: ",
    "nested": "line `reply`: model `handed`: line `reply`: model `fake`: ",
    "asked": "line `reply`: model `fake`: ",
    "inner": "line `first`: model `fake`: ",
    "joined": "line `reply`: model `fake`: ",
}
"""What an error of each model begins with."""
DIED = "the engine died while it worked on this; it is being restarted"
HELD_BACK = ("inner", "joined")
"""Models whose streams have no text before all of it is known."""
USER = [{"role": "user", "content": "hi"}]
ITEM = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}


def requests(model, most, stream):
    """The path and the body of a request by each API that generates."""
    fields = {"model": model, "stream": stream}
    options = {"num_predict": most}
    gemini = "streamGenerateContent?alt=sse" if stream else "generateContent"
    contents = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
    return {
        "chat": ("/v1/chat/completions", {**fields, "messages": USER, "max_tokens": most}),
        "responses": ("/v1/responses", {**fields, "input": "hi", "max_output_tokens": max(16, most)}),
        "messages": ("/v1/messages", {**fields, "messages": USER, "max_tokens": most}),
        "ollama": ("/api/chat", {**fields, "messages": USER, "options": options}),
        "generate": ("/api/generate", {**fields, "prompt": "hi", "options": options}),
        "gemini": (
            f"/v1beta/models/{model}:{gemini}",
            {**contents, "generationConfig": {"maxOutputTokens": most}},
        ),
        "completion": ("/completion", {**fields, "prompt": "hi", "n_predict": most}),
    }


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    models = tmp_path_factory.mktemp("composed") / "models"
    plain = FAKE_GRAPH.replace(", reasoning: qwen3, tools: hermes", "")  # a parser may hold text back
    plain = plain.replace("max_sequences: 64", "max_sequences: 200")  # all requests of the test at once
    write_fake_model(models / "fake", plain, step_s=0.005, max_context=60_000)
    for name, lines in LINES.items():
        (models / name).mkdir()
        (models / name / "graph.yaml").write_text(f"version: 1\ntask: chat\nnodes:\n{lines}")
    with ServerProcess(models) as running:
        running.all_ready()
        yield running


class Stream:
    """One streamed reply: its lines as they come.  Before the first one an error is a reply of its own."""

    def __init__(self):
        self.lines = []

    async def read(self, client, path, body):
        async with client.stream("POST", path, json=body) as response:
            assert response.status_code in (200, 503)
            async for line in response.aiter_lines():
                self.lines += [line] * bool(line and not line.startswith(":"))
        return self.lines


async def converse(url, model, begun, most="inf"):
    """The last event of a response at /v1/realtime; `begun` is set at its first delta."""
    async with connect(f"{url.replace('http', 'ws')}/v1/realtime?model={model}", proxy=None) as socket:
        create = {"type": "response.create", "response": {"max_output_tokens": most}}
        for event in ({"type": "conversation.item.create", "item": ITEM}, create):
            await socket.send(json.dumps(event))
        event = {"type": ""}
        while event["type"] != "response.done":
            event = json.loads(await socket.recv())
            if event["type"] == "response.output_text.delta":
                begun.set()
        return event["response"]


def error_of(lines):
    """The last error that a stream has, as its API writes it."""
    texts = [line.removeprefix("data: ") for line in lines]
    events = [json.loads(text) for text in texts if text.startswith("{")]
    error = next(event for event in reversed(events) if "error" in json.dumps(event))
    error = error.get("response", error)["error"]
    return error if isinstance(error, str) else error["message"]


async def all_die(server):
    """By model and API, the errors of streams and of whole replies, which have the status 503."""
    streams, wholes, talks = {}, {}, {}
    async with httpx.AsyncClient(
        base_url=server.url, timeout=PATIENCE_S, limits=NO_LIMITS, verify=False
    ) as client:
        for model in PLACES:
            for api, (path, body) in requests(model, 50_000, stream=True).items():
                stream = Stream()
                streams[model, api] = (stream, asyncio.create_task(stream.read(client, path, body)))
            for api, (path, body) in requests(model, 50_000, stream=False).items():
                wholes[model, api] = asyncio.create_task(client.post(path, json=body))
            begun = asyncio.Event()
            talks[model] = (begun, asyncio.create_task(converse(server.url, model, begun)))
        async with asyncio.timeout(PATIENCE_S):
            for (model, _), (stream, _) in streams.items():
                while model not in HELD_BACK and len(stream.lines) < 8:
                    await asyncio.sleep(0.02)
            for model, (begun, _) in talks.items():
                if model not in HELD_BACK:
                    await begun.wait()
        count = len(streams) + len(wholes) + len(talks)
        count += count // len(PLACES)  # `joined` asks twice
        await asyncio.to_thread(server.wait_for, lambda: server.metric("vllm:num_requests_running") == count)
        server.host().kill()
        streamed = {key: error_of(await task) for key, (_, task) in streams.items()}
        replies = {key: await task for key, task in wholes.items()}
        spoken = {model: await task for model, (_, task) in talks.items()}
    return streamed, replies, spoken


def test_every_api_says_which_line_and_model_died_and_serves_again(server):
    streamed, replies, spoken = asyncio.run(all_die(server))
    assert streamed == {key: PLACES[key[0]] + DIED for key in streamed}
    assert {reply.status_code for reply in replies.values()} == {503}
    assert {key: error_of([reply.text]) for key, reply in replies.items()} == streamed
    for model, response in spoken.items():
        assert response["status"] == "failed", (model, response)
        assert response["status_details"]["error"]["message"] == PLACES[model] + DIED
    server.all_ready()
    for model in PLACES.keys() - {"inner"}:
        for path, body in requests(model, 4, stream=False).values():
            assert httpx.post(server.url + path, json=body, timeout=PATIENCE_S).status_code == 200
    again = asyncio.run(converse(server.url, "asked", asyncio.Event(), most=4))
    assert again["status"] == "incomplete", again
    server.wait_for(lambda: server.metric("vllm:num_requests_running") == 0)
    assert server.metric("vllm:kv_cache_usage_perc") == 0
    server.wait_for(lambda: httpx.get(f"{server.url}/v1/status").json()["requests"] == [])
