"""Prompt and token details of replies, through a real server: the whole way from sampler to client."""

from __future__ import annotations

import openai
import pytest

PROMPT = "once upon a time"
MESSAGES = [{"role": "user", "content": "Say something."}]


@pytest.fixture(scope="module")
def client(server):
    with openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0) as made:
        yield made


def complete(client, prompt=PROMPT, **more):
    requested = {"model": "fake", "prompt": prompt, "temperature": 0, "max_tokens": 8, **more}
    requested["extra_body"] = {"ignore_eos": True, "return_token_ids": True, **more.get("extra_body", {})}
    return client.completions.create(**requested)


def test_a_generated_token_scores_the_same_as_part_of_a_prompt(client):
    made = complete(client, logprobs=2).choices[0]
    ids = made.prompt_token_ids + made.token_ids
    scored = complete(client, ids, echo=True, logprobs=2, max_tokens=0).choices[0].logprobs
    assert scored.token_logprobs[0] is None
    assert len(scored.tokens) == len(ids)
    tail = scored.token_logprobs[-len(made.token_ids) :]
    assert tail == pytest.approx(made.logprobs.token_logprobs, abs=1e-4)


def test_a_score_does_not_depend_on_what_is_in_the_cache(client):
    requested = {
        "prompt": "the same beginning, a different end",
        "echo": True,
        "logprobs": 0,
        "max_tokens": 0,
    }
    fresh = complete(client, **requested, extra_body={"cache_salt": "fresh"}).choices[0].logprobs
    complete(client, requested["prompt"])
    again = complete(client, **requested).choices[0].logprobs
    assert again.token_logprobs[1:] == pytest.approx(fresh.token_logprobs[1:], abs=1e-6)


def test_an_echo_and_its_stream_agree(client):
    requested = {"echo": True, "logprobs": 1}
    whole = complete(client, **requested).choices[0]
    chunks = [chunk.choices[0] for chunk in complete(client, **requested, stream=True)]
    assert "".join(chunk.text for chunk in chunks) == whole.text
    assert whole.text.startswith(PROMPT)
    streamed = [value for chunk in chunks if chunk.logprobs for value in chunk.logprobs.token_logprobs]
    assert streamed == whole.logprobs.token_logprobs
    offsets = [value for chunk in chunks if chunk.logprobs for value in chunk.logprobs.text_offset]
    assert offsets == whole.logprobs.text_offset


def test_token_ids_score_like_their_conversation(client):
    more = {"return_token_ids": True, "return_prompt_text": True, "ignore_eos": True}
    requested = {"model": "fake", "temperature": 0, "max_tokens": 8}
    first = client.chat.completions.create(**requested, messages=MESSAGES, extra_body=more)
    assert first.prompt_text.endswith("<|im_start|>assistant\n")
    again = client.chat.completions.create(**requested, messages=first.prompt_token_ids, extra_body=more)
    assert again.choices[0].token_ids == first.choices[0].token_ids
    assert again.prompt_text == first.prompt_text
    begun = {**more, "completion_token_ids": first.choices[0].token_ids[:3]}
    rest = client.chat.completions.create(**requested, messages=MESSAGES, extra_body=begun)
    assert rest.choices[0].token_ids[:5] == first.choices[0].token_ids[3:]
    assert rest.prompt_token_ids == first.prompt_token_ids + first.choices[0].token_ids[:3]


def test_a_batch_equals_single_requests(client):
    other = [{"role": "user", "content": "Something else."}]
    requested = {"model": "fake", "temperature": 0, "max_tokens": 8}
    alone = [client.chat.completions.create(**requested, messages=each) for each in (MESSAGES, other)]
    body = {**requested, "messages": [MESSAGES, other]}
    together = client.post("/chat/completions/batch", body=body, cast_to=object)
    texts = [choice["message"]["content"] for choice in together["choices"]]
    assert texts == [reply.choices[0].message.content for reply in alone]
    total = sum(reply.usage.completion_tokens for reply in alone)
    assert together["usage"]["completion_tokens"] == total


def test_a_cut_prompt_is_its_end(client):
    cut = complete(client, extra_body={"truncate_prompt_tokens": 4}).choices[0]
    assert cut.prompt_token_ids == complete(client, PROMPT[-4:]).choices[0].prompt_token_ids
    begin = {"truncate_prompt_tokens": 4, "truncation_side": "right"}
    left = complete(client, extra_body=begin).choices[0]
    assert left.prompt_token_ids == complete(client, PROMPT[:4]).choices[0].prompt_token_ids


def test_the_best_of_several_samples_scores_highest(client):
    requested = {"temperature": 1, "seed": 5, "logprobs": 0}

    def mean(choice):
        return sum(choice.logprobs.token_logprobs) / len(choice.logprobs.token_logprobs)

    drawn = complete(client, n=4, **requested).choices
    best = complete(client, best_of=4, **requested).choices
    assert [choice.text for choice in best] == [max(drawn, key=mean).text]
