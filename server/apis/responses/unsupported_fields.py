"""Tables of the Responses request fields that have no effect: refused, or ignored for a stated reason.

Supported fields are declared in `request.py`, or are in PASSED and mean what they mean in chat/completions.
Any other field is refused with the nearest known name.
"""

from __future__ import annotations

from pipelines.requests.fields.known_fields import NO_VERBOSITY, Refused

PASSED = (
    "top_n_sigma",
    "typical_p",
    "xtc_probability",
    "xtc_threshold",
    "dry_multiplier",
    "dry_base",
    "dry_allowed_length",
    "dry_penalty_last_n",
    "dry_sequence_breakers",
    "mirostat",
    "mirostat_tau",
    "mirostat_eta",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "repetition_penalty",
    "repeat_penalty",
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
    "grammar",
    "json_schema",
    "ebnf",
    "regex",
    "chat_template_kwargs",
    "enable_thinking",
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
"""Fields that are copied to the chat request, which checks, honours, refuses or ignores them."""

REFUSED: dict[str, Refused] = {
    "prompt": Refused("prompt template is not supported"),
    "conversation": Refused("conversations are not stored; use `previous_response_id`"),
    "moderation": Refused("this server does not moderate"),
    "context_management": Refused("contexts are not compacted; use `truncation`", ([],)),
    "image": Refused("this server generates text only"),
    "access_programs": Refused("access programs are not supported"),
    "enable_response_messages": Refused("the rendered messages are not returned", (False,)),
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

REFUSED_REASONING: dict[str, Refused] = {
    "mode": Refused("reasoning has one mode", ("standard",)),
    "context": Refused(
        "the model's chat template decides which earlier reasoning is part of the prompt", ("auto",)
    ),
}
REFUSED_TOOL: dict[str, Refused] = {
    "async": Refused("the client decides how it runs its functions", (False,)),
    "allowed_callers": Refused("only the model itself calls functions", (["direct"],)),
}

IGNORED: dict[str, str] = {
    "max_tool_calls": "counts calls of tools that the server runs itself, and this server runs no tools",
    "user": "a name for the operator's own statistics; it does not change the answer",
    "client_metadata": "a note of the client for itself",
    "safety_identifier": "a name for the operator's own statistics; it does not change the answer",
    "prompt_cache_key": "a performance hint; shared prompt prefixes are found without it",
    "prompt_cache_retention": "a performance hint; the cache retains as many prefixes as fit",
    "prompt_cache_options": "a performance hint; shared prompt prefixes are found without it",
    "service_tier": "the only tier is default",
}
"""Field → why it is accepted without effect.  A response repeats those that are among its fields."""

IGNORED_TEXT: dict[str, str] = {
    "verbosity": NO_VERBOSITY,
}
IGNORED_REASONING: dict[str, str] = {
    "summary": "the complete reasoning is sent instead of a summary",
    "generate_summary": "the complete reasoning is sent instead of a summary",
}
IGNORED_TOOL: dict[str, str] = {
    "output_schema": "describes the result of the client's function; chat templates do not use it",
}
IGNORED_IN_ITEMS: dict[str, str] = {
    "id": "the id of an earlier item; chat templates do not use it",
    "status": "a field of earlier responses; chat templates do not use it",
    "phase": "a field of earlier responses; chat templates do not use it",
    "caller": "a field of earlier responses; chat templates do not use it",
    "encrypted_content": "only the server that encrypted it can read it; this server sends reasoning as text",
    "execution": "who ran the search; chat templates do not use it",
    "namespace": "part of the name that the model is shown",
    "internal_chat_message_metadata_passthrough": "a note of the client for itself",
    "created_by": "a field of earlier responses; chat templates do not use it",
    "prompt_token_ids": "training data of an earlier reply; chat templates do not use it",
    "generation_token_ids": "training data of an earlier reply; chat templates do not use it",
    "generation_log_probs": "training data of an earlier reply; chat templates do not use it",
}
IGNORED_INCLUDES: dict[str, str] = {
    "reasoning.encrypted_content": "reasoning is sent as text, and may be sent back as text",
    "message.input_image.image_url": "input items always have the URLs of their images",
    "computer_call_output.output.image_url": "belongs to a tool that this server does not run",
    "file_search_call.results": "belongs to a tool that this server does not run",
    "web_search_call.results": "belongs to a tool that this server does not run",
    "web_search_call.action.sources": "belongs to a tool that this server does not run",
    "code_interpreter_call.outputs": "belongs to a tool that this server does not run",
}
"""Value of `include` → why it has no effect."""
