"""Request fields without effect here: refused where they would change the reply, else ignored for a reason.

A field that a request model declares is honoured.  Any other field is in exactly one of the tables here, or
it is unknown: ignored, counted, and reported where it is misspelt.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any, ClassVar, NamedTuple

from pydantic import ConfigDict, model_validator

from pipelines.base.deferred_model import DeferredModel
from pipelines.base.errors import RequestError
from pipelines.requests.fields.error_text import quoted
from pipelines.requests.fields.unknown_fields import ignore_unknown

NONE: Mapping[str, Any] = {}


class Refused(NamedTuple):
    """Why a field is refused.  The values in `neutral`, and null, have no effect and are accepted."""

    reason: str
    neutral: tuple[Any, ...] = ()


NO_TOKEN_OFFSETS = "offsets belong to rendering a prompt; use completions/render"
TEXT_ONLY = "this server answers with text only"
NO_MEDIA = "settings for images, audio and video; refused beside images, which the model's own scale"
NO_VERBOSITY = "models have no such setting; ask for it in the prompt"
NO_CACHE_MOVES = "caches are not moved between servers"

REFUSED: dict[str, Refused] = {
    "return_token_offsets": Refused(NO_TOKEN_OFFSETS, (False,)),
    "return_mm_kwargs": Refused(TEXT_ONLY, (False,)),
    "watermarking": Refused("watermarks are not supported", (False,)),
    "mm_payload": Refused(TEXT_ONLY, ("none", "tensors")),
    "logits_processors": Refused("requests bring no code; see `logits_processors_args`", ([],)),
    "kv_transfer_params": Refused(NO_CACHE_MOVES, ({},)),
    "ec_transfer_params": Refused(NO_CACHE_MOVES, ({},)),
    "disaggregate_info": Refused(NO_CACHE_MOVES, ({},)),
    "vllm_xargs": Refused("this server has no plug-ins that read it", ({},)),
    "response_max_tokens": Refused("replies have no limit of their own; use max_tokens"),
    "collect_metrics": Refused("metrics are at /metrics, not in replies", (False,)),
}
"""Fields of both generation endpoints that a request may carry only with a neutral value."""

REFUSED_CHAT: dict[str, Refused] = {
    "audio": Refused(TEXT_ONLY),
    "modalities": Refused(TEXT_ONLY + '; allowed: ["text"]', (["text"], [])),
    "moderation": Refused("this server does not moderate"),
    "add_special_tokens": Refused("the chat template writes the special tokens", (False,)),
    "logprob_start_len": Refused("use prompt_logprobs"),
    "chunk_frames": Refused(TEXT_ONLY),
    "suffix": Refused("a field of completions", ("",)),
    "prompt": Refused("a field of completions; use `messages`", ("",)),
}
REFUSED_COMPLETION: dict[str, Refused] = {
    "mm_hashes": Refused("names of images, which are in the messages of chat/completions", ([],)),
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
    "media_io_kwargs": NO_MEDIA,
    "mm_processor_kwargs": NO_MEDIA,
    "safe_prompt": "this server adds no system prompt of its own",
    "verbosity": NO_VERBOSITY,
    "web_search_options": "this server does not search the web; the model answers by itself",
    "spaces_between_special_tokens": "the detokenizer never puts spaces between special tokens",
}
"""Field → why it may be accepted without effect."""

EARLIER_REPLY = "what an earlier reply carried; templates do not read it"
IGNORED_STREAM_OPTIONS: dict[str, str] = {
    "include_obfuscation": "streams are not padded; their text is the same",
}
IGNORED_IN_MESSAGES: dict[str, str] = {
    "annotations": EARLIER_REPLY,
    "audio": EARLIER_REPLY,
    "cache_control": "a hint for speed; equal prompt beginnings are found without it",
    "images": EARLIER_REPLY,
    "provider_specific_fields": EARLIER_REPLY,
    "reasoning_details": EARLIER_REPLY,
    "thinking_blocks": EARLIER_REPLY,
}
IGNORED_IN_CALLS: dict[str, str] = {
    "extra_content": EARLIER_REPLY,
    "index": EARLIER_REPLY,
    "provider_specific_fields": EARLIER_REPLY,
}
IGNORED_IN_PARTS: dict[str, str] = {
    "cache_control": "a hint for speed; equal prompt beginnings are found without it",
    "prompt_cache_breakpoint": "a hint for speed; equal prompt beginnings are found without it",
    "annotations": EARLIER_REPLY,
    "logprobs": EARLIER_REPLY,
}
IGNORED_IN_IMAGE_PARTS: dict[str, str] = {
    "detail": "an image is scaled to the one size that the model reads",
}
REFUSED_IN_IMAGE_PARTS: dict[str, Refused] = {
    "file_id": Refused("this server stores no files; send the image as `image_url`"),
}
IGNORED_IN_IMAGES: dict[str, str] = {
    "detail": "an image is scaled to the one size that the model reads",
}


def check_fields(
    others: Mapping[str, Any],
    known: Iterable[str],
    refused: Mapping[str, Refused] = NONE,
    ignored: Mapping[str, str] = NONE,
    where: str = "",
) -> None:
    """Check the fields of an object that its model does not declare; `where` is the path of the object.

    Raises RequestError for a refused field with a value that is not neutral.  Null is neutral; inside an
    object of the request an unknown field may be null too, as clients send back what replies held.
    """
    for name, value in others.items():
        if name in ignored or (value is None and (where or name in refused)):
            continue
        if name not in refused:
            ignore_unknown(name, chain(known, refused, ignored), where)
        elif not any(_same(value, neutral) for neutral in refused[name].neutral):
            raise RequestError(
                f"`{where}{name}`: {refused[name].reason} (got {quoted(value)})",
                field=where + name,
                word="unsupported_parameter",
            )


class Options(DeferredModel):
    """A small object in a request, whose other fields are checked when it is read; `where` is its path."""

    model_config = ConfigDict(extra="allow", protected_namespaces=())
    where: ClassVar[str]
    refused: ClassVar[Mapping[str, Refused]] = NONE
    ignored: ClassVar[Mapping[str, str]] = NONE

    @model_validator(mode="after")
    def _check_other_fields(self) -> Options:
        """Raises RequestError."""
        if self.model_extra:
            known = type(self).model_fields
            check_fields(self.model_extra, known, self.refused, self.ignored, f"{self.where}.")
        return self


def _same(value: Any, neutral: Any) -> bool:
    """Equal, and not one of Python's bool-is-int coincidences."""
    return value == neutral and isinstance(value, bool) == isinstance(neutral, bool)
