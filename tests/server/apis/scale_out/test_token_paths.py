"""vLLM's render and generate: what one server renders, another generates from."""

from __future__ import annotations

import json

import pytest
from fake_decoder import byte_tokenizer, write_fake_model
from live_app import answers

GENERATE = "/inference/v1/generate"
CHAT = {"model": "fake", "messages": [{"role": "user", "content": "hé"}], "max_tokens": 6, "temperature": 0}
IDS = byte_tokenizer().encode("abc").ids


@pytest.fixture(scope="module")
def replies(tmp_path_factory):
    models = tmp_path_factory.mktemp("repository")
    write_fake_model(models / "fake")
    sampling = {"max_tokens": 6, "temperature": 0, "logprobs": 2, "output_kind": 2, "skip_clone": True}
    tokens = {"model": "fake", "token_ids": IDS, "sampling_params": sampling}
    text = {"model": "fake", "prompt": ["abc", "dé"], "max_tokens": 6, "temperature": 0}
    first = answers(
        models,
        [
            ("/v1/chat/completions/render", CHAT),
            ("/v1/chat/completions", CHAT | {"return_token_ids": True}),
            ("/v1/completions/render", text | {"return_token_offsets": True, "seed": 3}),
            ("/v1/completions", text | {"return_token_ids": True, "logprobs": 2}),
            (GENERATE, tokens),
            (GENERATE, tokens | {"stream": True, "stream_options": {"include_usage": True}}),
        ],
    )
    again = answers(
        models, [(GENERATE, first[0].json), ("/inference/v1/abort_requests", {"request_ids": ["x"]})]
    )
    return dict(
        zip(
            ("rendered", "chat", "prompts", "texts", "tokens", "stream", "again", "abort"),
            first + again,
            strict=True,
        )
    )


def test_a_rendered_conversation_generates_the_same_tokens(replies):
    chat, rendered = replies["chat"].json, replies["rendered"].json
    assert rendered["token_ids"] == chat["prompt_token_ids"]
    assert rendered["sampling_params"]["max_tokens"] == 6
    assert rendered["request_id"].startswith("chatcmpl-")
    again = replies["again"].json
    assert again["choices"][0]["token_ids"] == chat["choices"][0]["token_ids"]
    assert again["request_id"].startswith("generate-tokens-")
    assert again["usage"]["prompt_tokens"] == chat["usage"]["prompt_tokens"]


def test_rendered_prompts_have_offsets(replies):
    one, other = replies["prompts"].json
    assert [one["token_ids"], other["token_ids"]] == [
        choice["prompt_token_ids"] for choice in replies["texts"].json["choices"]
    ]
    assert one["token_offsets"] == [[0, 1], [1, 2], [2, 3]]
    assert other["token_offsets"] == [[0, 1], [1, 2], [1, 2]]
    assert one["sampling_params"]["seed"] == 3


def test_tokens_and_their_log_probabilities(replies):
    choice, text = replies["tokens"].json["choices"][0], replies["texts"].json["choices"][0]
    assert choice["token_ids"] == text["token_ids"]
    assert choice["finish_reason"] == text["finish_reason"]
    content = choice["logprobs"]["content"]
    assert [entry["token_id"] for entry in content] == choice["token_ids"]
    assert [entry["logprob"] for entry in content] == text["logprobs"]["token_logprobs"]
    assert {len(entry["top_logprobs"]) for entry in content} == {2}
    assert choice["weight_versions"] == [{"version": "default", "start": 0, "end": len(choice["token_ids"])}]


def test_a_stream_has_the_same_tokens(replies):
    events = replies["stream"].events
    assert events.pop() == "[DONE]"
    usage = events.pop()["usage"]
    whole = replies["tokens"].json
    assert [token for each in events for token in each["choices"][0]["token_ids"]] == whole["choices"][0][
        "token_ids"
    ]
    assert usage["completion_tokens"] == whole["usage"]["completion_tokens"]


def test_an_abort_of_what_is_not_there_is_none(replies):
    assert (replies["abort"].status, replies["abort"].body) == (200, b"")


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "token_ids"),
        ({"token_ids": []}, "token_ids"),
        ({"token_ids": ["a"]}, "token_ids.0"),
        ({"token_ids": [1]}, "sampling_params"),
        ({"token_ids": [1], "sampling_params": {"temperature": -1}}, "sampling_params.temperature"),
        ({"token_ids": [1], "sampling_params": {}, "output_mode": "text"}, "output_mode"),
        ({"token_ids": [1], "sampling_params": {}, "features": {"a": 1}}, "features"),
    ],
)
def test_a_wrong_body_names_its_field(rig, body, param):
    found = rig.post(GENERATE, body)
    assert (found.status, found.error["param"]) == (400, param)


def test_an_abort_ends_requests_by_the_ids_of_replies(rig):
    found = rig.post("/inference/v1/abort_requests", {"request_ids": ["generate-tokens-a", "b"]})
    assert found.status == 200
    assert rig.services.client.cancelled == ["a", "b"]
    assert rig.post("/inference/v1/abort_requests", {}).error["param"] == "request_ids"


def test_the_reply_of_a_script(rig):
    found = rig.post(GENERATE, {"token_ids": [1], "sampling_params": {}})
    assert json.loads(found.body)["choices"][0]["finish_reason"] == "stop"


LINES = """version: 1
task: chat
nodes:
  topic: {type: decide, graph: fake, from: request, question: "Is it short?"}
  reply: {type: ask, graph: other, from: {topic: topic}, template: "{{ topic }}"}
"""


@pytest.mark.parametrize("path", ["/v1/chat/completions/render", "/v1/completions/render", "/apply-template"])
def test_the_prompts_that_a_composed_graph_makes_while_it_runs_are_not_rendered(tmp_path, path):
    """That of its last model alone was shown, which is none of what it asks."""
    for name in ("fake", "other"):
        write_fake_model(tmp_path / name)
    (tmp_path / "asks").mkdir()
    (tmp_path / "asks" / "graph.yaml").write_text(LINES)
    body = {"prompt": "a"} if "completions/render" in path and "chat" not in path else CHAT
    (refused,) = answers(tmp_path, [(path, body | {"model": "asks"})])
    assert refused.status == 400
    assert refused.error.get("param", "model") == "model"  # llama.cpp's errors name no field
    assert "`fake`, `other`" in refused.error["message"]
