"""Models of text refuse images by name, wherever a request may have them."""

from __future__ import annotations

import json

from test_live_models import ask, models

__all__ = ["ask", "models"]  # fixtures

SHOWN = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
ITEM = {"content": [{"type": "text", "text": "what"}, SHOWN]}
TALK = [{"role": "user", **ITEM}]
REQUESTS = [
    ("/v1/embeddings", "vectors", {"messages": TALK}, "messages.0.content.1", "image_url"),
    ("/v1/embeddings", "vectors", {"input": [TALK, TALK]}, "input.0.0.content.1", "image_url"),
    ("/v3/embeddings", "vectors", {"input": TALK}, "input.0.content.1", "image_url"),
    ("/pooling", "tokens", {"messages": TALK}, "messages.0.content.1", "image_url"),
    ("/classify", "moods", {"messages": TALK}, "messages.0.content.1", "image_url"),
    ("/v2/embed", "vectors", {"images": [SHOWN["image_url"]["url"]]}, "images.0", "image"),
    ("/v1/embed", "vectors", {"inputs": [ITEM]}, "inputs.0.content.1", "image_url"),
    ("/v1/score", "vectors", {"data_1": "a", "data_2": ITEM}, "data_2.0.content.1", "image_url"),
    ("/score", "pairs", {"queries": [ITEM], "documents": ["a"]}, "queries.0.content.1", "image_url"),
    ("/v2/rerank", "pairs", {"query": "a", "documents": ["b", ITEM]}, "documents.1.content.1", "image_url"),
    ("/rerank", "tokens", {"query": ITEM, "documents": ["b"]}, "query.content.1", "image_url"),
]


def test_every_endpoint_names_the_image(ask):
    answers = ask(*((path, {"model": model, **body}) for path, model, body, *_ in REQUESTS))
    for answer, (path, model, _, where, kind) in zip(answers, REQUESTS, strict=True):
        words = f"`{where}`: {model} is not a multimodal model: it takes text only, so `{kind}` parts are"
        assert answer.status == 400, (path, answer.body)
        assert words in json.dumps(answer.json, ensure_ascii=False), path
