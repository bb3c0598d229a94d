"""The kinds of requests that a soak sends, how often each, and what its reply must hold."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

CHAT, EMBED, RERANK, TOPICS = "braid-demo", "braid-embed", "braid-rerank", "braid-topics"
WORDS = (
    "Oslo",
    "rain",
    "seven",
    "the",
    "moon",
    "bread",
    "door",
    "how",
    "green",
    "Peru",
    "and",
    "winter",
    "of",
)
FORCED = {"type": "function", "function": {"name": "get_weather"}}
WEATHER = {
    "name": "get_weather",
    "description": "Current weather of a city",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 12}},
        "required": ["city"],
    },
}
SSE_END = b"data: [DONE]"


@dataclass(frozen=True)
class SoakRequest:
    """`holds`: bytes that the reply must contain; `hang_up_after`: pieces of it until the client leaves.

    `polled`: the reply is a background response, which is read until it has ended.
    """

    path: str
    body: bytes = b""
    method: str = "POST"
    status: int = 200
    holds: bytes = b""
    hang_up_after: int | None = None
    polled: bool = False


def soak_request(seed: int, number: int) -> tuple[str, SoakRequest]:
    """The kind and the content of request `number`: the same for the same seed."""
    rng = Random(f"{seed}-{number}")
    (name,) = rng.choices(list(KINDS), [weight for weight, _ in KINDS.values()])
    return name, KINDS[name][1](rng)


def _text(rng: Random, most: int = 24) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(2, most))) + f" {rng.randrange(10**6)}"


def _post(path: str, holds: bytes, **body: Any) -> SoakRequest:
    return SoakRequest(path, json.dumps(body).encode(), holds=holds)


def _chat(rng: Random, holds: bytes = b'"finish_reason"', **fields: Any) -> SoakRequest:
    sampling = {"max_tokens": rng.randint(1, 48), "temperature": rng.choice([0, 0.7, 1.2])}
    body = {"model": CHAT, "messages": [{"role": "user", "content": _text(rng)}], **sampling, **fields}
    return _post("/v1/chat/completions", holds, **body)


def _stream(rng: Random) -> SoakRequest:
    return _chat(rng, SSE_END, stream=True, stream_options={"include_usage": True})


def _abort(rng: Random) -> SoakRequest:
    request = _chat(rng, b"", stream=True, max_tokens=200, ignore_eos=True)
    return replace(request, hang_up_after=rng.randrange(8))


def _abort_whole(rng: Random) -> SoakRequest:
    return replace(_chat(rng, b"", max_tokens=200, ignore_eos=True, n=2), hang_up_after=0)


def _choices(rng: Random) -> SoakRequest:
    return _chat(rng, b'"index":2', n=3, temperature=1)


def _beams(rng: Random) -> SoakRequest:
    return _chat(rng, b'"finish_reason"', n=2, use_beam_search=True, max_tokens=12, temperature=0)


def _log_probs(rng: Random) -> SoakRequest:
    return _chat(rng, b'"top_logprobs"', logprobs=True, top_logprobs=5)


def _tool(rng: Random) -> SoakRequest:
    tools = [{"type": "function", "function": WEATHER}]
    return _chat(rng, b'"tool_calls"', tools=tools, tool_choice=FORCED, max_tokens=60)


def _schema(rng: Random) -> SoakRequest:
    """A schema that was not seen before in most cases, so that grammars are compiled."""
    names = [f"{rng.choice(WORDS)}_{rng.randrange(1000)}" for _ in range(rng.randint(1, 4))]
    kinds = [{"type": "integer"}, {"type": "string", "maxLength": 8}, {"type": "boolean"}]
    schema = {"type": "object", "properties": {name: rng.choice(kinds) for name in names}, "required": names}
    wanted = {"type": "json_schema", "json_schema": {"name": "record", "schema": schema}}
    return _chat(rng, response_format=wanted, max_tokens=60)


def _regex(rng: Random) -> SoakRequest:
    return _chat(rng, structured_outputs={"regex": f"[a-f]{{{rng.randint(1, 9)}}}-[0-9]{{2}}"}, max_tokens=40)


def _completion(rng: Random) -> SoakRequest:
    prompts = [_text(rng, 60) for _ in range(rng.randint(1, 3))]
    return _post("/v1/completions", b'"text"', model=CHAT, prompt=prompts, max_tokens=rng.randint(1, 24))


def _embeddings(rng: Random) -> SoakRequest:
    texts = [_text(rng, 60) for _ in range(rng.randint(1, 16))]
    return _post("/v1/embeddings", b'"embedding"', model=EMBED, input=texts)


def _rerank(rng: Random) -> SoakRequest:
    documents = [_text(rng) for _ in range(rng.randint(1, 8))]
    return _post("/v1/rerank", b'"relevance_score"', model=RERANK, query=_text(rng), documents=documents)


def _classify(rng: Random) -> SoakRequest:
    return _post("/classify", b'"probs"', model=TOPICS, input=[_text(rng), _text(rng)])


def _responses(rng: Random, **fields: Any) -> SoakRequest:
    body = {"model": CHAT, "input": _text(rng), "max_output_tokens": rng.randint(16, 48), **fields}
    return _post("/v1/responses", b'"output"', **body)


def _responses_stream(rng: Random) -> SoakRequest:
    return replace(_responses(rng, stream=True), holds=b'"sequence_number"')


def _background(rng: Random) -> SoakRequest:
    return replace(_responses(rng, background=True), polled=True)


def _messages(rng: Random) -> SoakRequest:
    streamed = rng.random() < 0.5
    body = {"max_tokens": rng.randint(1, 48), "messages": [{"role": "user", "content": _text(rng)}]}
    holds = b"message_stop" if streamed else b'"stop_reason"'
    return _post("/v1/messages", holds, model=CHAT, stream=streamed, **body)


def _tokenize(rng: Random) -> SoakRequest:
    return _post("/tokenize", b'"tokens"', model=CHAT, prompt=_text(rng, 200))


def _page(rng: Random) -> SoakRequest:
    return SoakRequest(rng.choice(["/metrics", "/health", "/v1/models", "/load"]), method="GET")


def _bad(rng: Random) -> SoakRequest:
    """What is refused, for one of many reasons."""
    path, body, status = rng.choice(
        [
            ("/v1/chat/completions", b'{"model": "braid-demo", "messages": [', 400),
            ("/v1/chat/completions", b"\xff\xfe", 400),
            ("/v1/chat/completions", _body(messages=_text(rng)), 400),
            ("/v1/chat/completions", _body(messages=[], temperature=9), 400),
            ("/v1/completions", _body(prompt="a", max_tokens=-1), 400),
            ("/v1/completions", _body(prompt=_text(rng, 9) * 400), 400),
            ("/v1/completions", _body(prompt="a", structured_outputs={"regex": "("}), 400),
            ("/v1/completions", _body(model=f"missing-{rng.randrange(10**6)}", prompt="a"), 404),
            ("/v1/embeddings", _body(input="a"), 404),
            (f"/v1/missing/{rng.randrange(10**6)}", b"{}", 404),
        ]
    )
    return SoakRequest(path, body, status=status)


def _body(**fields: Any) -> bytes:
    return json.dumps({"model": CHAT, **fields}).encode()


KINDS: dict[str, tuple[int, Callable[[Random], SoakRequest]]] = {
    "chat": (18, _chat),
    "chat, streamed": (16, _stream),
    "stream, client leaves": (9, _abort),
    "whole, client leaves": (3, _abort_whole),
    "three choices": (4, _choices),
    "beams": (3, _beams),
    "log-probabilities": (3, _log_probs),
    "forced tool": (5, _tool),
    "JSON Schema": (4, _schema),
    "regex": (3, _regex),
    "completions": (5, _completion),
    "embeddings": (6, _embeddings),
    "rerank": (3, _rerank),
    "classify": (3, _classify),
    "responses": (3, _responses),
    "responses, streamed": (2, _responses_stream),
    "responses, background": (2, _background),
    "messages": (4, _messages),
    "tokenize": (2, _tokenize),
    "metrics, health, models": (1, _page),
    "bad requests": (5, _bad),
}
"""Kind → how many of a hundred or so, and what makes one."""
