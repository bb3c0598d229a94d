"""Every field a client may know: honoured, refused by name, or ignored for a reason in one table."""

from __future__ import annotations

import inspect

import pytest
from breadth import after
from one_test import in_one_test
from openai.resources.chat.completions import Completions as OpenAIChat
from openai.resources.completions import Completions as OpenAICompletions
from scripted import ScriptedPipeline

from pipelines.requests.fields.known_fields import IGNORED, REFUSED_COMPLETION
from pipelines.requests.generation.chat import ChatRequest
from pipelines.requests.generation.completion import CompletionRequest

VLLM = """
temperature top_p top_k min_p presence_penalty frequency_penalty repetition_penalty n seed stop stop_token_ids
include_stop_str_in_output ignore_eos min_tokens max_tokens logit_bias allowed_token_ids bad_words
skip_special_tokens spaces_between_special_tokens prompt_logprobs logprob_token_ids use_beam_search
length_penalty truncate_prompt_tokens truncation_side watermarking repetition_detection thinking_token_budget
add_special_tokens response_format structured_outputs priority request_id session_id
return_tokens_as_token_ids return_token_ids routed_experts_prompt_start return_token_offsets mm_payload
return_mm_kwargs cache_salt kv_transfer_params ec_transfer_params vllm_xargs stream_interval best_of user
service_tier model stream stream_options logprobs echo
guided_json guided_regex guided_choice guided_grammar guided_whitespace_pattern guided_decoding_backend
""".split()  # noqa: SIM905
VLLM_CHAT = """
messages top_logprobs max_completion_tokens tools tool_choice parallel_tool_calls reasoning_effort
include_reasoning add_generation_prompt continue_final_message documents chat_template chat_template_kwargs
media_io_kwargs mm_processor_kwargs return_prompt_text
""".split()  # noqa: SIM905
VLLM_COMPLETIONS = ["prompt", "prompt_embeds", "suffix"]

FAST_DEPLOY = """
prompt_token_ids return_token_ids metadata max_tokens min_tokens reasoning_max_tokens temperature top_p top_k
min_p frequency_penalty presence_penalty repetition_penalty seed stop stop_token_ids
include_stop_str_in_output bad_words bad_words_token_ids logits_processors_args logprobs prompt_logprobs
temp_scaled_logprobs top_p_normalized_logprobs include_draft_logprobs include_logprobs_decode_token guided_json
guided_regex guided_choice guided_grammar structural_tag response_format mm_hashes n stream_options
max_streaming_response_tokens user request_id collect_metrics trace_context disaggregate_info model
response_max_tokens
""".split()  # noqa: SIM905
FAST_DEPLOY_CHAT = """
messages completion_token_ids disable_chat_template chat_template chat_template_kwargs max_completion_tokens
top_logprobs
""".split()  # noqa: SIM905
FAST_DEPLOY_COMPLETIONS = ["prompt", "best_of", "echo", "suffix"]

OVMS = """
model stream stream_options max_tokens ignore_eos stop include_stop_str_in_output temperature top_p min_p top_k
seed repetition_penalty frequency_penalty presence_penalty length_penalty best_of n num_assistant_tokens
assistant_confidence_threshold max_ngram_size skip_special_tokens logprobs logit_bias user
""".split()  # noqa: SIM905
OVMS_CHAT = """
messages tools tool_choice max_completion_tokens response_format chat_template_kwargs modalities audio
chunk_frames parallel_tool_calls top_logprobs store metadata service_tier prediction
""".split()  # noqa: SIM905
OVMS_COMPLETIONS = ["prompt", "echo"]

NEMO_GYM_CHAT = """
messages model chat_template_kwargs metadata logprobs top_logprobs return_tokens_as_token_ids
return_token_ids max_tokens reasoning_effort tools tool_choice parallel_tool_calls
""".split()  # noqa: SIM905
NEMO_GYM_COMPLETIONS = """
model prompt max_tokens temperature top_p n seed stop frequency_penalty presence_penalty logit_bias
response_format user logprobs return_token_ids return_tokens_as_token_ids add_special_tokens
""".split()  # noqa: SIM905

LLAMA_CPP = ["n_predict", "repeat_penalty", "grammar", "json_schema"]
SGLANG = ["json_schema", "regex", "ebnf"]

EVERYWHERE = [*LLAMA_CPP, *SGLANG, *VLLM, *FAST_DEPLOY, *OVMS]
CHAT_FIELDS = {*EVERYWHERE, *VLLM_CHAT, *FAST_DEPLOY_CHAT, *OVMS_CHAT, *NEMO_GYM_CHAT}
COMPLETION_FIELDS = {
    *EVERYWHERE,
    *VLLM_COMPLETIONS,
    *FAST_DEPLOY_COMPLETIONS,
    *OVMS_COMPLETIONS,
    *NEMO_GYM_COMPLETIONS,
}
"""What the documents of the servers and clients that Braid follows name."""

NOT_IN_THE_BODY = {"self", "extra_headers", "extra_query", "extra_body", "timeout"}


def openai_fields(resource):
    return set(inspect.signature(resource.create).parameters) - NOT_IN_THE_BODY


def places(name, request):
    """In which of the three tables a field stands."""
    tables = {"honoured": request.model_fields, "refused": request.refused, "ignored": IGNORED}
    return [table for table, names in tables.items() if name in names]


@in_one_test("name", sorted(CHAT_FIELDS.union(openai_fields(OpenAIChat))))
def test_every_known_chat_field_has_one_place(name):
    assert len(places(name, ChatRequest)) == 1


@in_one_test("name", sorted(COMPLETION_FIELDS.union(openai_fields(OpenAICompletions))))
def test_every_known_completion_field_has_one_place(name):
    assert len(places(name, CompletionRequest)) == 1


@in_one_test("request_type", [ChatRequest, CompletionRequest])
def test_no_field_stands_in_two_tables(request_type):
    names = {*request_type.model_fields, *request_type.refused, *IGNORED}
    assert {name: places(name, request_type) for name in names if len(places(name, request_type)) != 1} == {}


@in_one_test("name", sorted(ChatRequest.refused))
def test_a_refused_field_is_named_with_its_reason(rig, name):
    answer = rig.chat(**{name: {"x": "not neutral"}})
    assert answer.status == 400
    assert answer.error["param"] == name
    assert f"`{name}`" in answer.error["message"]
    assert ChatRequest.refused[name].reason in answer.error["message"]


@in_one_test("name", sorted(REFUSED_COMPLETION))
def test_a_refused_field_of_completions_too(rig, name):
    assert rig.complete(**{name: 17}).error["param"] == name


@in_one_test("name", sorted(ChatRequest.refused))
def test_a_refused_field_may_be_neutral(rig, name):
    for neutral in (None, *ChatRequest.refused[name].neutral):
        assert rig.chat(**{name: neutral}).status == 200, neutral


def test_false_is_not_zero(rig):
    assert rig.chat(routed_experts_prompt_start=False).status == 400


@in_one_test("name", sorted(IGNORED))
def test_an_ignored_field_has_a_reason_and_no_effect(rig, name):
    assert len(IGNORED[name]) > 10
    assert rig.chat(**{name: {"any": "thing"}}).status == 200


@in_one_test("name", sorted(set(ChatRequest.model_fields) - {"messages", "model"}))
def test_null_means_not_set(rig, name):
    assert rig.chat(**{name: None}).status == 200


def test_no_tool_parser_no_tools(make_rig):
    rig = make_rig(ScriptedPipeline(tools=None))
    tools = [{"type": "function", "function": {"name": "f"}}]
    answer = rig.chat(tools=tools)
    assert answer.status == 400
    assert "parse_reply" in answer.error["message"]
    assert rig.chat(tools=tools, tool_choice="none").status == 200


WEIRD = [0, -1, 1e400, -0.0, 2**70, 0.5, True, False, "", "x", [], [[]], [None], {}, {"": None}, {"a": {}}]


def statuses(rig, path, body, name, every):
    """The statuses of requests of `body` with weird values of the field `name`: all values, or a fifth, by the field."""

    async def scenario(client):
        return [
            (await client.post(path, {**body, name: value})).status
            for value in WEIRD[len(name) % every :: every]
        ]

    return rig.run(scenario)


@pytest.mark.parametrize("every", after(1, [5, 1]))
@in_one_test("name", sorted({*ChatRequest.model_fields, *ChatRequest.refused, *IGNORED}))
def test_no_value_of_a_chat_field_is_a_fault_of_ours(rig, name, every):
    body = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}
    found = statuses(rig, "/v1/chat/completions", body, name, every)
    assert set(found) <= {200, 400, 404}, found


@pytest.mark.parametrize("every", after(1, [5, 1]))
@in_one_test("name", sorted({*CompletionRequest.model_fields, *CompletionRequest.refused}))
def test_no_value_of_a_completion_field_is_a_fault_of_ours(rig, name, every):
    found = statuses(rig, "/v1/completions", {"model": "tiny", "prompt": "hi"}, name, every)
    assert set(found) <= {200, 400, 404}, found
