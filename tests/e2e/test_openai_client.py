"""The real `openai` client against a real server: two workers, one engine, a fake model."""

from __future__ import annotations

import asyncio

import httpx
import openai
import pytest
from paced_model import byte_tokenizer
from patience import PATIENCE_S

MESSAGES = [{"role": "user", "content": "Say something."}]
RUNNING = "vllm:num_requests_running"


@pytest.fixture(scope="module", params=["/v1", "/v3"])
def client(request, server):
    with openai.OpenAI(base_url=server.url + request.param, api_key="none", max_retries=0) as made:
        yield made


@pytest.fixture(scope="module")
def v1(server):
    with openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0) as made:
        yield made


def greedy(client, **more):
    fields = {"model": "fake", "prompt": "once", "temperature": 0, "max_tokens": 24, **more}
    fields["extra_body"] = {"ignore_eos": True, **more.get("extra_body", {})}
    return client.completions.create(**fields)


def test_a_plain_chat(client):
    reply = client.chat.completions.create(model="fake", messages=MESSAGES, max_tokens=8)
    assert reply.choices[0].message.role == "assistant"
    assert reply.choices[0].finish_reason in ("stop", "length")
    assert reply.usage.completion_tokens <= 8
    assert reply.usage.prompt_tokens == 33  # a token for each byte and for each mark of ChatML


def test_a_streamed_chat_equals_a_plain_one(client):
    fields = {"model": "fake", "messages": MESSAGES, "temperature": 0, "max_tokens": 30}
    plain = client.chat.completions.create(**fields)
    stream = client.chat.completions.create(**fields, stream=True, stream_options={"include_usage": True})
    chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == plain.choices[0].message.content
    assert chunks[-1].usage.completion_tokens == plain.usage.completion_tokens
    finishes = [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices]
    assert [finish for finish in finishes if finish] == [plain.choices[0].finish_reason]


def test_a_completion_and_its_stream_agree(v1):
    plain = greedy(v1)
    streamed = "".join(chunk.choices[0].text for chunk in greedy(v1, stream=True))
    assert streamed == plain.choices[0].text
    assert plain.usage.prompt_tokens == 4


def test_a_seed_repeats_itself(v1):
    first, second = (greedy(v1, temperature=1, seed=7).choices[0].text for _ in range(2))
    other = greedy(v1, temperature=1, seed=8).choices[0].text
    assert first == second != other


def test_extra_body_reaches_sampling(v1):
    fields = {"temperature": 1.5, "seed": 7}
    one = greedy(v1, **fields, extra_body={"top_k": 1, "min_p": 0.05})
    assert one.choices[0].text == greedy(v1).choices[0].text


def test_n_gives_different_choices(v1):
    reply = v1.chat.completions.create(model="fake", messages=MESSAGES, n=2, max_tokens=12, seed=3)
    assert [choice.index for choice in reply.choices] == [0, 1]
    assert reply.choices[0].message.content != reply.choices[1].message.content


def test_several_prompts_and_choices(v1):
    reply = v1.completions.create(model="fake", prompt=["a", "b"], n=2, max_tokens=3, temperature=0.9)
    assert [choice.index for choice in reply.choices] == [0, 1, 2, 3]


def test_token_ids_are_a_prompt(v1):
    text = greedy(v1, prompt="once").choices[0].text
    ids = byte_tokenizer().encode("once").ids
    assert greedy(v1, prompt=ids).choices[0].text == text


@pytest.mark.parametrize("stream", [False, True])
def test_a_stop_string_is_found_across_chunks(v1, stream):
    whole = greedy(v1, max_tokens=60).choices[0].text
    stop = whole[5:9]
    expected = whole[: whole.index(stop)]
    if stream:
        chunks = list(greedy(v1, max_tokens=60, stop=stop, stream=True))
        text = "".join(chunk.choices[0].text for chunk in chunks)
        last = chunks[-1].choices[0]
    else:
        last = greedy(v1, max_tokens=60, stop=stop).choices[0]
        text = last.text
    assert (text, last.finish_reason, last.stop_reason) == (expected, "stop", stop)


def test_the_stop_string_can_be_included(v1):
    whole = greedy(v1, max_tokens=60).choices[0].text
    stop = whole[5:9]
    included = greedy(v1, max_tokens=60, stop=stop, extra_body={"include_stop_str_in_output": True})
    assert included.choices[0].text == whole[: whole.index(stop) + len(stop)]


def test_chat_logprobs(v1):
    reply = v1.chat.completions.create(
        model="fake", messages=MESSAGES, temperature=0, max_tokens=3, logprobs=True, top_logprobs=2
    )
    content = reply.choices[0].logprobs.content
    assert len(content) == reply.usage.completion_tokens
    for entry in content:
        assert len(entry.top_logprobs) == 2
        assert entry.logprob == entry.top_logprobs[0].logprob <= 0


def test_completion_logprobs(v1):
    shown = greedy(v1, max_tokens=4, logprobs=2).choices[0].logprobs
    assert len(shown.tokens) == len(shown.token_logprobs) == len(shown.top_logprobs) == 4


def test_logprobs_in_a_stream(v1):
    chunks = list(greedy(v1, max_tokens=4, logprobs=1, stream=True))
    tokens = [
        token for chunk in chunks if chunk.choices[0].logprobs for token in chunk.choices[0].logprobs.tokens
    ]
    assert len(tokens) == 4


def test_models_are_listed_and_retrieved(client):
    assert [model.id for model in client.models.list()][:2] == ["fake", "tuned"]
    assert client.models.retrieve("fake").owned_by == "braid"


def test_a_wrong_model_is_not_found(client):
    with pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(model="fak", messages=MESSAGES)
    assert "did you mean `fake`" in caught.value.response.text


BAD = [({"temperature": 9}, "temperature"), ({"n": 0}, "n"), ({"max_tokens": "many"}, "max_tokens")]


@pytest.mark.parametrize(("fields", "param"), BAD)
def test_a_bad_parameter_is_named(v1, fields, param):
    with pytest.raises(openai.BadRequestError) as caught:
        v1.chat.completions.create(**{"model": "fake", "messages": MESSAGES, **fields})
    assert caught.value.param == param


def test_an_unknown_parameter_is_ignored_and_reported(v1):
    reply = v1.chat.completions.with_raw_response.create(
        model="fake", messages=MESSAGES, max_tokens=2, extra_body={"top_kk": 5}
    )
    assert reply.headers["X-Braid-Ignored-Fields"] == "top_kk;nearest=top_k"


def test_a_prompt_that_is_too_long_is_refused(v1):
    with pytest.raises(openai.BadRequestError, match="maximum context length is 4096 tokens"):
        greedy(v1, prompt="x" * 5000)


@pytest.mark.parametrize("stream", [False, True])
def test_a_token_outside_the_vocabulary_is_refused(v1, stream):
    with pytest.raises(openai.BadRequestError, match="vocabulary"):
        greedy(v1, prompt=[1, 99999], stream=stream)


def test_json_without_a_grammar_node_is_refused(v1):
    with pytest.raises(openai.BadRequestError, match="no grammar node"):
        v1.chat.completions.create(model="fake", messages=MESSAGES, response_format={"type": "json_object"})


def test_64_concurrent_streams(server):
    async def one(client, i):
        stream = await client.completions.create(
            model="fake", prompt=f"number {i}", max_tokens=20, stream=True, extra_body={"ignore_eos": True}
        )
        return [chunk.choices[0].finish_reason async for chunk in stream][-1]

    async def all_of_them():
        async with openai.AsyncOpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0) as client:
            return await asyncio.gather(*(one(client, i) for i in range(64)))

    assert asyncio.run(all_of_them()) == ["length"] * 64


def test_a_disconnect_frees_its_sequence(server, v1):
    before = server.tokens_at_rest()
    stream = v1.completions.create(
        model="fake", prompt="long", max_tokens=4000, stream=True, extra_body={"ignore_eos": True}
    )
    next(iter(stream))
    server.wait_for(lambda: server.metric(RUNNING) == 1)
    stream.response.close()
    assert server.tokens_at_rest() - before < 4000


def test_a_disconnect_without_a_stream_frees_its_sequence(server):
    before = server.tokens_at_rest()
    body = {"model": "fake", "prompt": "long", "max_tokens": 4000, "ignore_eos": True}
    patience = httpx.Timeout(PATIENCE_S, read=0.3)
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(server.url + "/v1/completions", json=body, timeout=patience)
    assert server.tokens_at_rest() - before < 4000
