"""POST embeddings: what is asked of the model, and replies as vLLM sends them."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from pathlib import Path

import numpy as np
import pytest
from one_test import in_one_test
from patience import PATIENCE_S
from pooled_calls import PooledPipeline, rows, vector

from graphs.errors import MAX_LISTED
from pipelines.base.errors import RequestError
from pipelines.requests.pooling.embedding import MAX_IN_HEADER
from pipelines.requests.pooling.input_parsing import MAX_TEXTS
from pipelines.values.node_values import PooledOutputs
from pipelines.worker.model_table import ModelCard
from server.apis.pooling.base_endpoint import LONG_REPLY_VALUES, LONG_TEXTS_BYTES
from server.apis.pooling.replies.reply_models import EmbeddingList

PATH = "/v1/embeddings"
RECORDED = Path(__file__).parents[2] / "recorded"
WORDS = {"input": "hi"}
TALK = [{"role": "user", "content": "hello"}]


def recorded(name):
    return json.loads((RECORDED / name).read_text())["response"]


def recorded_rig(make_rig):
    """A model that gives the recorded vector for each text."""
    pipeline = PooledPipeline()
    pipeline.name = "tiny-qwen3"
    [row] = recorded("embed__001_float.json")["json"]["data"]
    pipeline.value = PooledOutputs(np.array([row["embedding"]], np.float32))
    return make_rig(pipeline)


@pytest.fixture
def rig(make_rig):
    return make_rig(PooledPipeline())


@pytest.fixture
def ask(rig):
    def ask(**fields):
        answer = rig.post(PATH, {"model": "tiny", **fields})
        assert answer.status == 200, answer.body
        return rig.pipeline.asked

    return ask


@pytest.fixture
def refusal(rig):
    def refusal(**fields):
        answer = rig.post(PATH, {"model": "tiny", **fields})
        assert answer.status == 400, answer.body
        return answer.error

    return refusal


def test_a_reply_is_the_recorded_one(make_rig):
    wanted = recorded("embed__001_float.json")
    reply_id = wanted["json"]["id"].removeprefix("embd-")
    answer = recorded_rig(make_rig).post(PATH, {"input": [1, 2, 3, 4, 5]}, x_request_id=reply_id)
    reply = answer.json
    assert abs(reply["created"] - wanted["json"]["created"]) > 1000
    assert json.dumps({**reply, "created": wanted["json"]["created"]}) == json.dumps(wanted["json"])
    assert answer.headers["content-type"] == wanted["headers"]["content-type"]


def test_bytes_and_their_header_are_the_recorded_ones(make_rig):
    wanted = recorded("embed__011_bytes_f16.json")
    told = json.loads(wanted["headers"]["metadata"])
    body = {"input": [1, 2, 3, 4, 5], "encoding_format": "bytes", "embed_dtype": "float16"}
    answer = recorded_rig(make_rig).post(
        PATH, {**body, "endianness": "little"}, x_request_id=told["id"].removeprefix("embd-")
    )
    assert answer.body == base64.b64decode(wanted["body_b64"])
    assert answer.headers["content-type"] == "application/octet-stream"
    got = json.loads(answer.headers["metadata"])
    assert json.dumps({**got, "created": told["created"]}) == wanted["headers"]["metadata"]


def test_bytes_only_has_no_header(rig):
    answer = rig.post(PATH, {**WORDS, "encoding_format": "bytes_only", "endianness": "big"})
    assert "metadata" not in answer.headers
    assert np.frombuffer(answer.body, ">f4").tolist() == vector(0).tolist()


def test_base64_holds_float32_as_clients_read_it(rig):
    answer = rig.post(PATH, {"input": ["a", "b"], "encoding_format": "base64"})
    found = [
        np.frombuffer(base64.b64decode(each["embedding"]), "<f4").tolist() for each in answer.json["data"]
    ]
    assert found == [vector(0).tolist(), vector(1).tolist()]


@pytest.mark.parametrize("format", [None, "float", "base64"])
def test_what_is_written_is_what_the_schema_says(format, rig):
    body = {"input": ["a", "b"]} | ({"encoding_format": format} if format else {})
    written = rig.post(PATH, body).body
    assert json.loads(EmbeddingList.model_validate_json(written).to_json()) == json.loads(written)


def test_a_long_reply_is_whole_and_in_order(rig):
    num_texts = LONG_REPLY_VALUES // 4 + 1
    reply = rig.post(PATH, {"input": ["a"] * num_texts}).json
    assert [each["index"] for each in reply["data"]] == list(range(num_texts))
    assert [each["embedding"] for each in reply["data"]] == rows(num_texts).values.tolist()
    assert reply["usage"]["prompt_tokens"] == num_texts


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("hi", ["hi"]),
        (["a", "bc"], ["a", "bc"]),
        ([1, 2], [[1, 2]]),
        ([[1, 2], [3]], [[1, 2], [3]]),
        (["a", [3]], ["a", [3]]),
        ([1.0, 2], [[1, 2]]),
    ],
    ids=str,
)
def test_every_form_of_input_is_read(given, read, ask):
    assert [each.ids or each.text for each in ask(input=given).prompts] == read


@pytest.mark.parametrize(
    "body",
    [{"messages": TALK}, {"input": TALK}, {"messages": [TALK]}, {"input": [TALK]}],
    ids=["messages", "input", "several", "several in input"],
)
def test_conversations_are_read_wherever_they_stand(body, ask):
    asked = ask(**body)
    assert asked.conversations == [TALK]
    assert asked.prompts == []
    assert (asked.add_generation_prompt, asked.add_special_tokens) == (None, None)  # as the graph says


def test_several_conversations_have_a_vector_each(rig):
    assert len(rig.post(PATH, {"messages": [TALK, TALK, TALK]}).json["data"]) == 3


def test_fields_of_the_template_reach_it(ask):
    asked = ask(messages=TALK, add_generation_prompt=True, chat_template_kwargs={"a": 1})
    assert (asked.add_generation_prompt, asked.template_kwargs) == (True, {"a": 1})
    asked = ask(messages=TALK, continue_final_message=True, add_special_tokens=True)
    assert (asked.continue_final_message, asked.add_special_tokens) == (True, True)


def test_a_prefix_is_no_field_of_what_is_embedded(rig):
    answer = rig.post(PATH, {"messages": [*TALK, {"role": "assistant", "content": "It", "prefix": True}]})
    assert (answer.status, answer.error["param"]) == (400, f"messages.{len(TALK)}.prefix")


def test_a_trusted_template_reaches_it(make_rig):
    rig = make_rig(PooledPipeline(), trust_request_chat_template=True)
    assert rig.post(PATH, {"messages": TALK, "chat_template": "{{ 1 }}"}).status == 200
    assert rig.pipeline.asked.chat_template == "{{ 1 }}"


def test_special_tokens_are_on_for_texts_unless_refused(ask):
    assert [each.add_special_tokens for each in ask(input=["a", "b"]).prompts] == [True, True]
    assert [each.add_special_tokens for each in ask(input="a", add_special_tokens=False).prompts] == [False]


def test_what_is_not_said_is_as_the_model_likes(ask):
    asked = ask(**WORDS)
    assert (asked.activate, asked.dimensions, asked.priority, asked.purpose) == (True, None, 0, None)
    assert (asked.truncate_prompt_tokens, asked.truncate_left) == (None, False)


def test_every_field_reaches_the_model(ask):
    asked = ask(
        **WORDS,
        dimensions=2,
        use_activation=False,
        priority=3,
        truncate_prompt_tokens=-1,
        truncation_side="left",
        user="me",
        cache_salt="salt",
        task="embed",
    )
    assert (asked.dimensions, asked.activate, asked.priority) == (2, False, 3)
    assert (asked.truncate_prompt_tokens, asked.truncate_left) == (-1, True)


def test_the_headers_priority_counts_more(rig):
    rig.post(PATH, {**WORDS, "priority": 3}, x_vllm_priority="-7")
    assert rig.pipeline.asked.priority == -7


def test_ids_of_requests_name_replies(rig):
    assert rig.post(PATH, {**WORDS, "request_id": "mine"}).json["id"] == "embd-mine"
    assert rig.post(PATH, {**WORDS, "request_id": "mine"}, x_request_id="rq-7").json["id"] == "embd-rq-7"


@in_one_test(
    "body, words, field",
    [
        ({"input": [[1], []]}, "The decoder prompt cannot be empty", "input.1"),
        ({"input": []}, "You must pass at least one prompt", "input"),
        ({}, "`input` is required", "input"),
        ({"input": [-1]}, "Token id -1 is out of vocabulary", "input.0"),
        ({"input": [[5], [2**40]]}, f"Token id {2**40} is out of vocabulary", "input.1.0"),
        ({"input": [[1, "a"]]}, "`input.0.1` must be a token id", "input.0.1"),
        ({"input": 5}, "`input` must be a string", "input"),
        ({"input": ["a", None]}, "`input.1`: an input must be a string", "input.1"),
        ({"input": "a", "messages": TALK}, "either `input` or `messages`", "messages"),
        ({"messages": []}, "Cannot apply chat template to an empty conversation", "messages"),
        ({"messages": [TALK, []]}, "Cannot apply chat template to an empty conversation", "messages.1"),
        ({"messages": [{"role": 5}]}, "`messages.0.role` must be", "messages.0.role"),
        (
            {"messages": [TALK, [{"role": "user", "content": [{"type": "text"}]}]]},
            "`messages.1.0.content.0.text` is required",
            "messages.1.0.content.0.text",
        ),
        ({"messages": [TALK, 5]}, "`messages.1` must be a list of messages", "messages.1"),
        ({"messages": [*TALK, "x"]}, "`messages.1` must be a message", "messages.1"),
        ({"messages": TALK, "chat_template": "x"}, "BRAID_TRUST_REQUEST_CHAT_TEMPLATE", "chat_template"),
        ({"input": "a", "add_generation_prompt": True}, "conversations only", "add_generation_prompt"),
        ({"input": "a", "normalize": True}, "use `use_activation` instead", "normalize"),
        ({"input": "a", "encoding_format": "hex"}, "`encoding_format` must be", "encoding_format"),
        ({"input": "a", "embed_dtype": "int3"}, "`embed_dtype` must be", "embed_dtype"),
        ({"input": "a", "endianness": "middle"}, "`endianness` must be", "endianness"),
        ({"input": "a", "truncate_prompt_tokens": -2}, "must be -1", "truncate_prompt_tokens"),
        ({"input": "a", "cache_salt": "a@b"}, "must not contain '@'", "cache_salt"),
        ({"input": "a", "task": "classify"}, "use POST pooling", "task"),
        ({"input": "a", "late_chunking": True}, "a vector of its own", "late_chunking"),
    ],
)
def test_what_is_wrong_is_said(body, words, field, refusal):
    error = refusal(**body)
    assert words in error["message"]
    assert error["param"] == field


def test_more_texts_than_the_bound_are_refused(refusal):
    error = refusal(input=["a"] * (MAX_TEXTS + 1))
    assert error["message"].startswith(f"`input` may hold {MAX_TEXTS} texts at most, got {MAX_TEXTS + 1}")


def test_a_header_too_long_for_clients_is_refused(rig, refusal):
    texts = ["a"] * (MAX_IN_HEADER + 1)
    assert "use `bytes_only`" in refusal(input=texts, encoding_format="bytes")["message"]
    assert rig.post(PATH, {"input": texts, "encoding_format": "bytes_only"}).status == 200
    answer = rig.post(PATH, {"input": texts[1:], "encoding_format": "bytes"})
    assert len(json.loads(answer.headers["metadata"])["data"]) == MAX_IN_HEADER
    assert len(answer.headers["metadata"]) < 64 << 10


def test_what_the_model_refuses_is_told(rig):
    rig.pipeline.value = RequestError("Token id 9 is out of vocabulary", "input")
    answer = rig.post(PATH, WORDS)
    assert (answer.status, answer.error["message"]) == (400, "Token id 9 is out of vocabulary")


@pytest.mark.parametrize("task", ["token_embed", "classify", "rerank", "chat"])
def test_a_model_of_another_task_is_a_404_that_says_so(task, make_rig):
    answer = make_rig(PooledPipeline(task)).post(PATH, {**WORDS, "model": "tiny"})
    assert answer.status == 404
    assert f"its task is {task}" in answer.error["message"]


def test_a_hang_up_closes_the_call(rig):
    rig.pipeline.value = "forever"

    async def scenario(client):
        request = client.begin_post(PATH, WORDS)
        while not rig.pipeline.calls:
            await asyncio.sleep(0)
        request.hang_up()
        await asyncio.wait_for(request.task, PATIENCE_S)

    rig.run(scenario)
    assert rig.pipeline.calls[0].closed
    assert rig.services.admission.num_inside == 0


def test_of_many_models_that_would_do_some_are_named(make_rig):
    rig = make_rig(PooledPipeline("classify"))
    cards = [ModelCard(f"m{i:02}", 1, 1, 512, "ready", [], "embed") for i in range(MAX_LISTED + 5)]
    rig.services.catalogue.models.extend(cards)
    for body in (WORDS, {**WORDS, "model": "tiny"}):
        assert rig.post(PATH, body).error["message"].endswith(f"m{MAX_LISTED - 1}, 5 more")


def test_a_templates_variables_count_with_each_conversation(rig, refusal, monkeypatch):
    monkeypatch.setattr("pipelines.requests.pooling.input_parsing.MAX_TOTAL_CHARS", 25)
    body = {"messages": [TALK] * 2, "chat_template_kwargs": {"x": "12345"}}  # 14 characters
    assert rig.post(PATH, {**body, "messages": TALK}).status == 200
    assert refusal(**body)["param"] == "chat_template_kwargs"


@pytest.mark.parametrize(("length", "on_loop"), [(10, True), (LONG_TEXTS_BYTES, False)])
def test_many_texts_are_tokenized_off_the_event_loop(rig, monkeypatch, length, on_loop):
    threads, prepare = [], rig.pipeline.prepare

    def recorded(*given, **more):
        threads.append(threading.current_thread())
        return prepare(*given, **more)

    monkeypatch.setattr(rig.pipeline, "prepare", recorded)
    assert rig.post(PATH, {"input": ["x"] * length}).status == 200
    assert [thread is threading.main_thread() for thread in threads] == [on_loop]


@pytest.mark.parametrize(
    ("given", "purpose"),
    [("query", "search_query"), ("passage", "search_document"), ("own", "own"), (None, None)],
)
def test_an_input_type_is_the_purpose_of_the_vectors(ask, given, purpose):
    assert ask(input="a", input_type=given).purpose == purpose
