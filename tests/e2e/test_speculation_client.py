"""The `openai` client against models whose graphs speculate, by lookup or with a draft model."""

from __future__ import annotations

import httpx
import openai
import pytest
from breadth import after
from mixed_models import DRAFT_TOKENS

MESSAGES = [{"role": "user", "content": "Say something."}]
REPEATS = {"lookup": {"allowed_token_ids": [65, 66]}}
"""Of two tokens, what comes next has been there before."""


@pytest.fixture
def server(mixed):
    return mixed


@pytest.fixture(scope="module")
def client(mixed):
    with openai.OpenAI(base_url=mixed.url + "/v1", api_key="none", max_retries=0) as made:
        yield made


def chat(client, model, like=None, **more):
    """One reply, by the sampling of the model `like`."""
    fields = {"model": model, "messages": MESSAGES, "max_tokens": 48, "seed": 3, **more}
    fields["extra_body"] = {
        "ignore_eos": True,
        **REPEATS.get(like or model, {}),
        **more.get("extra_body", {}),
    }
    return client.chat.completions.create(**fields)


@pytest.mark.parametrize("temperature", after(1, [0.8, 0]))
@pytest.mark.parametrize("name", DRAFT_TOKENS)
def test_a_reply_equals_the_plain_model_s_and_counts_accepted_tokens(client, name, temperature):
    plain, drafted = (chat(client, model, name, temperature=temperature) for model in ("plain", name))
    assert drafted.choices[0].message.content == plain.choices[0].message.content
    assert plain.usage.completion_tokens_details.accepted_prediction_tokens is None
    details = drafted.usage.completion_tokens_details
    assert details.accepted_prediction_tokens > 0
    assert details.rejected_prediction_tokens > 0
    assert drafted.usage.completion_tokens == plain.usage.completion_tokens == 48


@pytest.mark.parametrize("name", after(1, DRAFT_TOKENS))
def test_a_stream_equals_the_whole_reply(client, name):
    whole = chat(client, name, temperature=0)
    chunks = list(chat(client, name, temperature=0, stream=True, stream_options={"include_usage": True}))
    streamed = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert streamed == whole.choices[0].message.content
    assert chunks[-1].usage.completion_tokens_details.accepted_prediction_tokens > 0


def test_each_choice_has_its_own_draft_tokens(client):
    reply = chat(client, "lookup", n=3, temperature=0.8)
    plain = chat(client, "plain", "lookup", n=3, temperature=0.8)
    assert [choice.message.content for choice in reply.choices] == [
        choice.message.content for choice in plain.choices
    ]


def test_log_probabilities_of_draft_tokens_are_returned(client):
    requested = {"include_draft_logprobs": True}
    reply = chat(client, "draft", temperature=0, logprobs=True, top_logprobs=1, extra_body=requested)
    drafted = reply.choices[0].draft_logprobs["content"]
    assert len(drafted) == reply.usage.completion_tokens_details.accepted_prediction_tokens
    assert all(entry["logprob"] <= 0 for entry in drafted)
    plain = chat(client, "plain", temperature=0, logprobs=True, extra_body=requested)
    assert plain.choices[0].draft_logprobs is None


@pytest.mark.parametrize(
    ("prefix", "model", "field", "nodes"),
    [
        ("/v1", "plain", "num_assistant_tokens", "lookup or draft"),
        ("/v3", "draft", "max_ngram_size", "lookup"),
    ],
)
def test_a_field_without_its_node_is_refused(server, prefix, model, field, nodes):
    with openai.OpenAI(base_url=server.url + prefix, api_key="none", max_retries=0) as client:
        with pytest.raises(openai.BadRequestError) as refused:
            chat(client, model, extra_body={field: 3})
        assert f"`{field}` needs a {nodes} node" in refused.value.response.text


def test_a_request_can_switch_speculation_off(client):
    reply = chat(client, "lookup", temperature=0, extra_body={"num_assistant_tokens": 0})
    assert reply.usage.completion_tokens_details.rejected_prediction_tokens is None


def test_the_responses_api_accepts_the_field(client):
    requested = {"ignore_eos": True, "num_assistant_tokens": 2}
    reply = client.responses.create(model="lookup", input="hi", max_output_tokens=24, extra_body=requested)
    assert reply.usage.output_tokens == 24


def test_metrics_count_draft_and_accepted_tokens(client, server):
    chat(client, "lookup", temperature=0)
    name, draft_tokens = "vllm:spec_decode_num_accepted_tokens", "vllm:spec_decode_num_draft_tokens_total"

    def counts():
        places = (f'lookup",position="{place}' for place in range(4))
        by_place = [server.metric(f"{name}_per_pos_total", place) for place in places]
        return server.metric(f"{name}_total", "lookup"), by_place

    # what other tests have drafted may still be published between two reads
    server.wait_for(lambda: (read := counts())[0] == sum(read[1]) > 0)
    accepted, by_place = counts()
    assert by_place == sorted(by_place, reverse=True)
    assert server.metric(draft_tokens, "lookup") > accepted
    assert server.metric(draft_tokens, "plain") == 0


def test_metrics_time_the_phases_of_every_choice(client, server):
    names = [
        f"vllm:request_{phase}_time_seconds_count" for phase in ("queue", "prefill", "decode", "inference")
    ]
    before = [server.metric(name, "plain") for name in names]
    chat(client, "plain", n=2)
    wanted = [count + 2 for count in before]
    server.wait_for(lambda: [server.metric(name, "plain") for name in names] == wanted)


def test_metrics_report_tokens_per_step_and_the_cache(client, server):
    chat(client, "plain")
    assert server.metric("vllm:iteration_tokens_total_count", "plain") > 40
    text = httpx.get(f"{server.url}/metrics").text
    (line,) = [
        row for row in text.splitlines() if row.startswith("vllm:cache_config_info{") and "plain" in row
    ]
    assert 'block_size="16"' in line
    assert 'enable_prefix_caching="True"' in line
    assert line.endswith(" 1.0")
