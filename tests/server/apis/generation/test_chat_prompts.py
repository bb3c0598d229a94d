"""Where the prompt of a conversation comes from, and what the model is told beside it."""

from __future__ import annotations

import pytest
from scripted import said

TEMPLATE = "{{ messages[0].content }}"


def ids(rig):
    return [prompt.ids for prompt in rig.pipeline.asked.prompts]


def test_messages_may_be_token_ids(rig):
    assert rig.chat(messages=[1, 2, 3]).status == 200
    assert (ids(rig), rig.pipeline.asked.messages) == ([[1, 2, 3]], None)
    assert rig.pipeline.asked.parse_reasoning is True


def test_ids_take_the_place_of_what_the_template_makes(rig):
    rig.chat(prompt_token_ids=[4, 5])
    assert (ids(rig), rig.pipeline.asked.messages) == ([[4, 5]], None)


def test_messages_beside_ids_are_checked_all_the_same(rig):
    part = {"type": "video_url", "video_url": {"url": "x"}}
    answer = rig.chat(messages=[{"role": "user", "content": [part]}], prompt_token_ids=[4])
    assert answer.error["param"] == "messages.0.content.0"


def test_with_ids_no_message_is_needed(rig):
    body = {"model": "tiny", "prompt_token_ids": [4]}
    assert rig.post("/v1/chat/completions", body).status == 200
    assert rig.chat(messages=[], prompt_token_ids=[4]).status == 200


def test_a_reply_may_begin_with_given_tokens(rig):
    rig.chat(completion_token_ids=[8, 9])
    assert rig.pipeline.asked.completion_ids == [8, 9]


def test_ids_of_completions_count_more_than_text(rig):
    rig.pipeline.batches = [[(0, said("a", "stop")), (1, said("b", "stop"))]]
    assert rig.complete(prompt="", prompt_token_ids=[[1], [2, 3]]).status == 200
    assert ids(rig) == [[1], [2, 3]]


@pytest.mark.parametrize("content", ["hi", [{"type": "text", "text": "hi"}]])
def test_without_a_template_the_first_message_is_the_prompt(rig, content):
    rig.chat(messages=[{"role": "user", "content": content}], disable_chat_template=True)
    assert [prompt.text for prompt in rig.pipeline.asked.prompts] == ["hi"]


def test_a_template_of_a_request_must_be_trusted(make_rig):
    rig = make_rig(trust_request_chat_template=True)
    assert rig.chat(chat_template=TEMPLATE).status == 200
    assert rig.pipeline.asked.chat_template == TEMPLATE


BUDGETS = [
    ({"thinking_token_budget": 7}, 7),
    ({"thinking_token_budget": 0}, 0),
    ({"thinking_token_budget": -1}, None),
    ({"reasoning_max_tokens": 5}, 5),
    ({"reasoning_max_tokens": 5, "thinking_token_budget": 3}, 3),
    ({"reasoning_max_tokens": 5, "reasoning_effort": "high"}, None),
    ({}, None),
]


@pytest.mark.parametrize(("fields", "budget"), BUDGETS)
def test_the_smallest_budget_bounds_the_reasoning(rig, fields, budget):
    assert rig.chat(**fields).status == 200
    assert rig.pipeline.asked.thinking_budget == budget


def test_the_side_of_a_cut_reaches_the_pipeline(rig):
    rig.chat(truncate_prompt_tokens=5)
    assert rig.pipeline.asked.truncate_left is True
    rig.chat(truncate_prompt_tokens=5, truncation_side="right")
    assert rig.pipeline.asked.truncate_left is False


@pytest.mark.parametrize("model", ["", "default", None])
def test_no_name_is_the_only_model(rig, model):
    assert rig.chat(model=model).json["model"] == "tiny"
