"""Request fields without effect here: refused where they would change the reply, else ignored for a reason.

A field that a request model declares is honoured.  Any other field is in exactly one of the tables here, or
it is unknown and the request is refused with the nearest known name.  No field is ignored silently.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from graphs.errors import nearest
from pipelines.errors import RequestError
from server.http.error_text import quoted

MAX_SHOWN_NAME = 64
NONE: Mapping[str, Any] = {}


class Refused(NamedTuple):
    """Why a field is refused.  The values in `neutral`, and null, have no effect and are accepted."""

    reason: str
    neutral: tuple[Any, ...] = ()


NO_TOKEN_OFFSETS = "offsets belong to rendering a prompt, which this server does not offer"
TEXT_ONLY = "this server answers with text only"
OPERATOR_SETS = "only the operator sets this, not a request"
NO_CACHE_MOVES = "caches are not moved between servers"

REFUSED: dict[str, Refused] = {
    "return_token_offsets": Refused(NO_TOKEN_OFFSETS, (False,)),
    "return_mm_kwargs": Refused(TEXT_ONLY, (False,)),
    "watermarking": Refused("watermarks are not supported", (False,)),
    "routed_experts_prompt_start": Refused("routed experts are not reported", (0,)),
    "mm_payload": Refused(TEXT_ONLY, ("none", "tensors")),
    "mm_hashes": Refused(TEXT_ONLY, ([],)),
    "media_io_kwargs": Refused(OPERATOR_SETS, ({},)),
    "mm_processor_kwargs": Refused(OPERATOR_SETS, ({},)),
    "kv_transfer_params": Refused(NO_CACHE_MOVES, ({},)),
    "ec_transfer_params": Refused(NO_CACHE_MOVES, ({},)),
    "disaggregate_info": Refused(NO_CACHE_MOVES, ({},)),
    "vllm_xargs": Refused("this server has no plug-ins that read it", ({},)),
    "response_max_tokens": Refused("replies have no limit of their own; use max_tokens"),
    "collect_metrics": Refused("metrics are at /metrics, not in replies", (False,)),
}
"""Fields of both generation endpoints that a request may carry only with a neutral value."""

REFUSED_CHAT: dict[str, Refused] = {
    "functions": Refused("deprecated: use `tools`", ([],)),
    "function_call": Refused("deprecated: use `tool_choice`", ("none",)),
    "audio": Refused(TEXT_ONLY),
    "modalities": Refused(TEXT_ONLY + '; allowed: ["text"]', (["text"], [])),
    "moderation": Refused("this server does not moderate"),
    "verbosity": Refused('only "medium", the model\'s own, is supported', ("medium",)),
    "web_search_options": Refused("this server does not search the web"),
    "add_special_tokens": Refused("the chat template writes the special tokens", (False,)),
    "logprob_start_len": Refused("use prompt_logprobs"),
    "chunk_frames": Refused(TEXT_ONLY),
    "suffix": Refused("a field of completions", ("",)),
    "prompt": Refused("a field of completions; use `messages`", ("",)),
}
REFUSED_COMPLETION: dict[str, Refused] = {
    "suffix": Refused("suffix is only supported for models with FIM completion rendering", ("",)),
    "prompt_embeds": Refused("prompts as embeddings are not supported yet"),
    "top_logprobs": Refused("a field of chat/completions; use `logprobs`, the number of alternatives", (0,)),
    "thinking_token_budget": Refused("a field of chat/completions: a raw prompt has no reasoning", (-1,)),
    "reasoning_max_tokens": Refused("a field of chat/completions: a raw prompt has no reasoning", (-1,)),
    "return_prompt_text": Refused("a field of chat/completions; use `echo`", (False,)),
}

IGNORED: dict[str, str] = {
    "user": "a name for the operator's own statistics; it does not change the answer",
    "safety_identifier": "a name for the operator's own statistics; it does not change the answer",
    "metadata": "labels of stored completions; nothing is stored",
    "store": "chat completions are not stored",
    "service_tier": "there is one tier",
    "session_id": "a hint for routing between machines; here one engine serves all sessions",
    "prediction": "a hint for speed; it does not change the answer",
    "prompt_cache_key": "a hint for speed; equal prompt beginnings are found without it",
    "prompt_cache_options": "a hint for speed; equal prompt beginnings are found without it",
    "prompt_cache_retention": "a hint for speed; the cache retains as much as fits",
    "trace_context": "a name for the operator's own traces; it does not change the answer",
    "guided_decoding_backend": "there is one compiler of grammars",
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


def check_fields(
    others: Mapping[str, Any],
    known: Iterable[str],
    refused: Mapping[str, Refused] = NONE,
    ignored: Mapping[str, str] = NONE,
    where: str = "",
) -> None:
    """Check the fields of an object that its model does not declare; `where` is the path of the object.

    Raises RequestError for a refused field with a value that is not neutral, and for an unknown field.  Null
    is neutral; inside an object of the request an unknown field may be null too, as clients send back what
    replies held.
    """
    for name, value in others.items():
        if name in ignored or (value is None and (where or name in refused)):
            continue
        if name not in refused:
            raise unknown_field(name, [*known, *refused, *ignored], where)
        if not any(_same(value, neutral) for neutral in refused[name].neutral):
            raise RequestError(
                f"`{where}{name}`: {refused[name].reason} (got {quoted(value)})", field=where + name
            )


def unknown_field(name: str, known: Iterable[str], where: str = "") -> RequestError:
    """An error that names the nearest known field."""
    near = nearest(name[:MAX_SHOWN_NAME], known)
    hint = f"; did you mean `{where}{near}`?" if near else ""
    field = where + name[:MAX_SHOWN_NAME]
    return RequestError(f"unknown field `{field}`{hint}", field=field)


def _same(value: Any, neutral: Any) -> bool:
    """Equal, and not one of Python's bool-is-int coincidences."""
    return value == neutral and isinstance(value, bool) == isinstance(neutral, bool)
