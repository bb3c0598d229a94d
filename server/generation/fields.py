"""Request fields that are not honoured: refused when they would change the answer, or ignored for a reason.

A field that a request model declares is honoured.  Any other field is in exactly one of the tables here, or
it is unknown and the request is refused with the nearest known name: nothing is dropped in silence.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from graphs.errors import nearest
from pipelines.errors import RequestError

MAX_SHOWN_NAME = 64


class Refused(NamedTuple):
    """Why a field is refused.  The values in `neutral` (and null) ask for nothing and pass."""

    reason: str
    neutral: tuple[Any, ...] = ()


NO_GRAMMAR = "constrained output is not supported yet: this model's graph has no grammar node"
ONE_CHOICE = "beam search is not supported; use `n` for several samples"
NO_PROMPT_LOGPROBS = "log-probabilities of the prompt are not supported yet"
NO_TOKEN_IDS = "token ids in replies are not supported yet"
TEXT_ONLY = "this server answers with text only"
OPERATOR_SETS = "only the operator sets this, not a request"

REFUSED: dict[str, Refused] = {
    "response_format": Refused(NO_GRAMMAR + '; allowed: {"type": "text"}', ({"type": "text"},)),
    "structured_outputs": Refused(NO_GRAMMAR),
    "guided_json": Refused(NO_GRAMMAR),
    "guided_regex": Refused(NO_GRAMMAR),
    "guided_choice": Refused(NO_GRAMMAR),
    "guided_grammar": Refused(NO_GRAMMAR),
    "use_beam_search": Refused(ONE_CHOICE, (False,)),
    "best_of": Refused(ONE_CHOICE, (1,)),
    "length_penalty": Refused(ONE_CHOICE, (1,)),
    "prompt_logprobs": Refused(NO_PROMPT_LOGPROBS),
    "logprob_token_ids": Refused("log-probabilities of chosen ids are not supported yet; use top_logprobs"),
    "return_tokens_as_token_ids": Refused(NO_TOKEN_IDS, (False,)),
    "return_token_ids": Refused(NO_TOKEN_IDS, (False,)),
    "return_token_offsets": Refused(NO_TOKEN_IDS, (False,)),
    "return_prompt_text": Refused("the rendered prompt is not given back", (False,)),
    "return_mm_kwargs": Refused(TEXT_ONLY, (False,)),
    "echo": Refused("giving the prompt back is not supported yet", (False,)),
    "truncate_prompt_tokens": Refused("prompts are not truncated; shorten the prompt"),
    "truncation_side": Refused("prompts are not truncated; shorten the prompt"),
    "watermarking": Refused("watermarks are not supported", (False,)),
    "repetition_detection": Refused("repetition detection is not supported yet; use repetition_penalty"),
    "thinking_token_budget": Refused("a thinking budget is not supported yet", (-1,)),
    "routed_experts_prompt_start": Refused("routed experts are not reported"),
    "stream_interval": Refused("every step is streamed; allowed: 1", (1,)),
    "mm_payload": Refused(TEXT_ONLY, ("none",)),
    "media_io_kwargs": Refused(OPERATOR_SETS, ({},)),
    "mm_processor_kwargs": Refused(OPERATOR_SETS, ({},)),
    "kv_transfer_params": Refused("caches are not moved between servers", ({},)),
    "ec_transfer_params": Refused("caches are not moved between servers", ({},)),
    "vllm_xargs": Refused("this server has no plug-ins that read it", ({},)),
    "num_assistant_tokens": Refused("speculation is set in the model's graph, not in a request"),
    "assistant_confidence_threshold": Refused("speculation is set in the model's graph, not in a request"),
    "max_ngram_size": Refused("speculation is set in the model's graph, not in a request"),
}
"""Fields of both generation endpoints that a request may carry only with a neutral value."""

REFUSED_CHAT: dict[str, Refused] = {
    "chat_template": Refused("a template from a request is not trusted; the model's own is used"),
    "functions": Refused("deprecated: use `tools`", ([],)),
    "function_call": Refused("deprecated: use `tool_choice`", ("none",)),
    "audio": Refused(TEXT_ONLY),
    "modalities": Refused(TEXT_ONLY + '; allowed: ["text"]', (["text"], [])),
    "moderation": Refused("this server does not moderate"),
    "verbosity": Refused('only "medium", the model\'s own, is supported', ("medium",)),
    "web_search_options": Refused("this server does not search the web"),
    "add_special_tokens": Refused("the chat template writes the special tokens", (False,)),
    "logprob_start_len": Refused(NO_PROMPT_LOGPROBS),
    "chunk_frames": Refused(TEXT_ONLY),
}
REFUSED_COMPLETION: dict[str, Refused] = {
    "suffix": Refused("suffix is only supported for models with FIM completion rendering", ("",)),
    "prompt_embeds": Refused("prompts as embeddings are not supported yet"),
    "top_logprobs": Refused("a field of chat/completions; use `logprobs`, the number of alternatives", (0,)),
}

IGNORED: dict[str, str] = {
    "user": "a name for the operator's own statistics; it does not change the answer",
    "safety_identifier": "a name for the operator's own statistics; it does not change the answer",
    "metadata": "labels of stored completions; nothing is stored",
    "store": "nothing is stored, whatever is asked",
    "service_tier": "there is one tier",
    "priority": "requests run in the order of their arrival, as in vLLM without priority scheduling",
    "session_id": "a hint for routing between machines; here one engine serves all sessions",
    "prediction": "a hint for speed; it does not change the answer",
    "prompt_cache_key": "a hint for speed; equal prompt beginnings are found without it",
    "prompt_cache_options": "a hint for speed; equal prompt beginnings are found without it",
    "prompt_cache_retention": "a hint for speed; the cache keeps what it has room for",
    "spaces_between_special_tokens": "the detokenizer never puts spaces between special tokens",
}
"""Field → why it may be accepted without effect."""

IGNORED_IN_MESSAGES: dict[str, str] = {
    "annotations": "what an earlier reply carried; templates do not read it",
    "audio": "what an earlier reply carried; templates do not read it",
}
IGNORED_IN_PARTS: dict[str, str] = {
    "cache_control": "a hint for speed; equal prompt beginnings are found without it",
    "prompt_cache_breakpoint": "a hint for speed; equal prompt beginnings are found without it",
    "annotations": "what an earlier reply carried; templates do not read it",
    "logprobs": "what an earlier reply carried; templates do not read it",
}


def check_others(others: Mapping[str, Any], refused: Mapping[str, Refused], known: Iterable[str]) -> None:
    """Look at the fields that the request model does not declare.

    Raises RequestError for a refused field with a value that is not neutral, and for an unknown field.
    """
    for name, value in others.items():
        if name in IGNORED or (value is None and name in refused):
            continue
        if name not in refused:
            raise unknown_field(name, [*known, *refused, *IGNORED])
        if not any(_same(value, neutral) for neutral in refused[name].neutral):
            raise RequestError(f"`{name}`: {refused[name].reason} (got {shown(value)})", field=name)


def unknown_field(name: str, known: Iterable[str], where: str = "") -> RequestError:
    """An error that names the nearest known field."""
    near = nearest(name[:MAX_SHOWN_NAME], known)
    hint = f"; did you mean `{where}{near}`?" if near else ""
    field = where + name[:MAX_SHOWN_NAME]
    return RequestError(f"unknown field `{field}`{hint}", field=field)


def shown(value: Any) -> str:
    """A value for an error message: JSON, cut short; containers by their size."""
    if isinstance(value, dict | list) and len(value) > 2:
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 100 else text[:97] + "..."


def _same(value: Any, neutral: Any) -> bool:
    """Equal, and not one of Python's bool-is-int coincidences."""
    return value == neutral and isinstance(value, bool) == isinstance(neutral, bool)
