"""Ollama's `options`: their types, and the fields of a generation request that they become."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pipelines.base.errors import RequestError
from pipelines.requests.fields.known_fields import check_fields
from server.dialects.rules import boolean, number, text, whole

BY_GRAPH = "the graph of the model says how it is run"


class KnownOption(NamedTuple):
    """`kind` is a name of KINDS; `field` is that of the generation request, "" for what is read here."""

    kind: str
    field: str = ""


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(text, value))


KINDS: Mapping[str, Callable[[Any], bool]] = {
    "integer": whole,
    "float32": number,
    "boolean": boolean,
    "array": _texts,
}
"""Ollama's names of types."""
OPTIONS: Mapping[str, KnownOption] = {
    "num_ctx": KnownOption("integer"),
    "num_predict": KnownOption("integer"),
    "seed": KnownOption("integer", "seed"),
    "temperature": KnownOption("float32", "temperature"),
    "top_k": KnownOption("integer", "top_k"),
    "top_p": KnownOption("float32", "top_p"),
    "min_p": KnownOption("float32", "min_p"),
    "repeat_penalty": KnownOption("float32", "repetition_penalty"),
    "typical_p": KnownOption("float32", "typical_p"),
    "mirostat": KnownOption("integer", "mirostat"),
    "mirostat_tau": KnownOption("float32", "mirostat_tau"),
    "mirostat_eta": KnownOption("float32", "mirostat_eta"),
    "presence_penalty": KnownOption("float32", "presence_penalty"),
    "frequency_penalty": KnownOption("float32", "frequency_penalty"),
    "stop": KnownOption("array", "stop"),
    "draft_num_predict": KnownOption("integer", "num_assistant_tokens"),
}
IGNORED = {
    "num_keep": "a full context is shortened by whole messages, and the system message always stays",
    "repeat_last_n": "penalties look at the whole text",
    "numa": BY_GRAPH,
    "num_batch": BY_GRAPH,
    "num_gpu": BY_GRAPH,
    "main_gpu": BY_GRAPH,
    "low_vram": BY_GRAPH,
    "f16_kv": BY_GRAPH,
    "vocab_only": BY_GRAPH,
    "use_mmap": BY_GRAPH,
    "use_mlock": BY_GRAPH,
    "num_thread": BY_GRAPH,
    "tfs_z": "a sampler that Ollama itself has no more",
    "penalize_newline": "a sampler that Ollama itself has no more",
}
"""Option → why it may be sent without effect."""


def read_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a generation request that options stand for.  Null is not set.  Raises RequestError."""
    given = {name: value for name, value in options.items() if value is not None}
    check_fields({name: given[name] for name in given.keys() - OPTIONS}, OPTIONS, {}, IGNORED, "options.")
    for name in given.keys() & OPTIONS:
        if not KINDS[OPTIONS[name].kind](given[name]):
            raise RequestError(f'option "{name}" must be of type {OPTIONS[name].kind}', field="options")
    return {option.field: given[name] for name, option in OPTIONS.items() if option.field and name in given}


def most_tokens(options: Mapping[str, Any]) -> int | None:
    """The limit of a reply: `num_predict`, else the context that the client wants; None: the model's."""
    wanted = [options.get(name) for name in ("num_predict", "num_ctx")]
    return next((number for number in wanted if number is not None and number > 0), None)
