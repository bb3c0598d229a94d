"""A reply that was ended from outside, by a cancel or a pause, does not look complete in any API."""

from __future__ import annotations

import json

from every_case import every_case
from scripted import ScriptedPipeline, said, text

WORDS = "The reply was aborted"
TURNS = [{"role": "user", "content": "hi"}]
GEMINI = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
MESSAGES = {"max_tokens": 64, "messages": TURNS}
CASES = [
    ("/v1/messages", MESSAGES, False, '"type":"api_error"'),
    ("/v1/messages", MESSAGES | {"stream": True}, True, '"type":"api_error"'),
    ("/api/chat", {"model": "tiny", "messages": TURNS, "stream": False}, False, '{"error":"'),
    ("/api/chat", {"model": "tiny", "messages": TURNS}, True, '{"error":"'),
    ("/api/generate", {"model": "tiny", "prompt": "hi", "stream": False}, False, '{"error":"'),
    ("/api/generate", {"model": "tiny", "prompt": "hi"}, True, '{"error":"'),
]
NAMED = [
    ("/v1/chat/completions", {"messages": TURNS}, "abort"),
    ("/v1/completions", {"prompt": "hi"}, "abort"),
    ("/v1/responses", {"input": "hi", "store": False}, "failed"),
    ("/v1beta/models/tiny:generateContent", GEMINI, "OTHER"),
]


def aborted(make_rig, made=said):
    pipeline = ScriptedPipeline()
    pipeline.batches = [[(0, made("Hel"))], [(0, made("lo"))], [(0, made("", "abort"))]]
    return make_rig(pipeline)


@every_case(("path", "body", "streams", "error"), CASES)
def test_an_api_without_a_word_for_it_ends_with_an_error(path, body, streams, error, make_rig):
    answer = aborted(make_rig).post(path, body)
    assert WORDS in answer.body.decode()
    assert error in answer.body.decode()
    if streams:
        assert (answer.status, b"Hel" in answer.body) == (200, True)
        assert WORDS in answer.body.decode().strip().rpartition("\n")[2], "the error is the last event"
    else:
        assert (answer.status, answer.headers["x-should-retry"]) == (500, "false")


@every_case(("path", "body", "word"), NAMED)
def test_an_api_with_a_word_for_it_says_that(path, body, word, make_rig):
    made = text if path == "/v1/completions" else said
    answer = aborted(make_rig, made).post(path, body)
    assert answer.status == 200
    assert f'"{word}"' in json.dumps(answer.json)
