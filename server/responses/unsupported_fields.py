"""Fields of a Responses request that are not honoured: refused, or ignored for a reason.  Tables only.

A field that stands nowhere here is declared in `request.py`, or is in PASSED and means what it means in
chat/completions; any other is unknown and refused with the nearest known name.  Knows nothing of HTTP.
"""

from __future__ import annotations

from server.generation.requests.known_fields import Refused

PASSED = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "repetition_detection",
    "logit_bias",
    "allowed_token_ids",
    "bad_words",
    "bad_words_token_ids",
    "stop",
    "stop_token_ids",
    "include_stop_str_in_output",
    "min_tokens",
    "ignore_eos",
    "num_assistant_tokens",
    "assistant_confidence_threshold",
    "max_ngram_size",
    "skip_special_tokens",
    "spaces_between_special_tokens",
    "seed",
    "cache_salt",
    "priority",
    "logits_processors_args",
    "temp_scaled_logprobs",
    "top_p_normalized_logprobs",
    "structured_outputs",
    "structural_tag",
    "guided_json",
    "guided_regex",
    "guided_choice",
    "guided_grammar",
    "guided_whitespace_pattern",
    "chat_template_kwargs",
    "thinking_token_budget",
    "reasoning_max_tokens",
    "include_reasoning",
    "parallel_tool_calls",
    "truncation_side",
    "session_id",
    "watermarking",
    "media_io_kwargs",
    "mm_processor_kwargs",
    "mm_payload",
    "kv_transfer_params",
    "ec_transfer_params",
    "vllm_xargs",
)
"""Fields that go to the chat request as they are: it checks, honours, refuses or ignores them."""

HOSTED = "tools that the server runs itself are not supported; allowed: function"

REFUSED: dict[str, Refused] = {
    "prompt": Refused("prompt template is not supported"),
    "conversation": Refused("conversations are not kept; use `previous_response_id`"),
    "moderation": Refused("this server does not moderate"),
    "context_management": Refused("contexts are not compacted; use `truncation`", ([],)),
    "image": Refused("this server answers with text only"),
    "access_programs": Refused("there are no access programs"),
    "enable_response_messages": Refused("the rendered messages are not given back", (False,)),
    "previous_input_messages": Refused("use `input` or `previous_response_id`", ([],)),
    "messages": Refused("a field of chat/completions; use `input`"),
    "max_tokens": Refused("a field of chat/completions; use `max_output_tokens`"),
    "max_completion_tokens": Refused("a field of chat/completions; use `max_output_tokens`"),
    "response_format": Refused("a field of chat/completions; use `text.format`"),
    "reasoning_effort": Refused("a field of chat/completions; use `reasoning.effort`"),
    "logprobs": Refused("use `include` with message.output_text.logprobs, and `top_logprobs`", (False,)),
    "include_draft_logprobs": Refused("a field of chat/completions", (False,)),
    "n": Refused("a response has one output", (1,)),
}
"""Fields that a request may carry only with a neutral value (or null)."""

REFUSED_TEXT: dict[str, Refused] = {
    "verbosity": Refused('only "medium", the model\'s own, is supported', ("medium",)),
}
REFUSED_REASONING: dict[str, Refused] = {
    "mode": Refused("there is one mode", ("standard",)),
    "context": Refused("the model's chat template decides which earlier reasoning it reads", ("auto",)),
}
REFUSED_STREAM_OPTIONS: dict[str, Refused] = {
    "include_obfuscation": Refused("streams are not padded", (False,)),
}
REFUSED_TOOL: dict[str, Refused] = {
    "async": Refused("the client runs its functions as it likes", (False,)),
    "defer_loading": Refused("every tool is shown to the model", (False,)),
    "allowed_callers": Refused("only the model itself calls functions", (["direct"],)),
}

IGNORED: dict[str, str] = {
    "max_tool_calls": "counts calls of tools that the server runs itself; there are none",
    "user": "a name for the operator's own statistics; it does not change the answer",
    "safety_identifier": "a name for the operator's own statistics; it does not change the answer",
    "prompt_cache_key": "a hint for speed; equal prompt beginnings are found without it",
    "prompt_cache_retention": "a hint for speed; the cache keeps what it has room for",
    "prompt_cache_options": "a hint for speed; equal prompt beginnings are found without it",
    "service_tier": "there is one tier, default",
}
"""Field → why it may be accepted without effect.  The reply repeats those that a response has."""

IGNORED_REASONING: dict[str, str] = {
    "summary": "the reasoning itself is sent, which says more than its summary",
    "generate_summary": "the reasoning itself is sent, which says more than its summary",
}
IGNORED_TOOL: dict[str, str] = {
    "output_schema": "describes what the client's own function gives back; templates do not read it",
}
IGNORED_IN_ITEMS: dict[str, str] = {
    "id": "the name of an earlier item; templates do not read it",
    "status": "what an earlier reply carried; templates do not read it",
    "phase": "what an earlier reply carried; templates do not read it",
    "caller": "what an earlier reply carried; templates do not read it",
    "encrypted_content": "only the server that wrote it can read it; this one sends its reasoning as text",
    "created_by": "what an earlier reply carried; templates do not read it",
    "prompt_token_ids": "what a trainer keeps beside an earlier reply; templates do not read it",
    "generation_token_ids": "what a trainer keeps beside an earlier reply; templates do not read it",
    "generation_log_probs": "what a trainer keeps beside an earlier reply; templates do not read it",
}
IGNORED_INCLUDES: dict[str, str] = {
    "reasoning.encrypted_content": "the reasoning is sent as text, which may be sent back",
    "message.input_image.image_url": "inputs are text only",
    "computer_call_output.output.image_url": "belongs to a tool that this server does not run",
    "file_search_call.results": "belongs to a tool that this server does not run",
    "web_search_call.results": "belongs to a tool that this server does not run",
    "web_search_call.action.sources": "belongs to a tool that this server does not run",
    "code_interpreter_call.outputs": "belongs to a tool that this server does not run",
}
"""Value of `include` → why it adds nothing."""
