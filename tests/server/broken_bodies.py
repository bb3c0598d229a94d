"""Bodies to break, and what they are broken with.  Knows nothing of how they are sent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

MESSAGES = [{"role": "user", "content": "hi"}]
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
BODIES: dict[str, dict[str, Any]] = {
    "/chat/completions": {
        "messages": MESSAGES,
        "max_tokens": 2,
        "temperature": 0.5,
        "n": 1,
        "stop": ["x"],
        "logit_bias": {"5": 1},
        "tools": [TOOL],
        "tool_choice": "auto",
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "x", "schema": {"type": "integer"}},
        },
        "stream_options": None,
        "logprobs": True,
        "top_logprobs": 1,
        "chat_template_kwargs": {},
    },
    "/chat/completions/batch": {"messages": [MESSAGES], "max_tokens": 2},
    "/completions": {
        "prompt": "hi",
        "max_tokens": 2,
        "logprobs": 1,
        "echo": True,
        "seed": 1,
        "bad_words": ["x"],
        "structured_outputs": {"regex": "a+"},
    },
    "/responses": {
        "input": [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}],
        "max_output_tokens": 2,
        "text": {"format": {"type": "text"}},
        "reasoning": {"effort": "low"},
        "metadata": {"a": "b"},
        "include": [],
        "store": False,
    },
    "/responses/input_tokens": {"input": "hi"},
    "/messages": {"messages": MESSAGES, "max_tokens": 2, "system": "x", "stop_sequences": ["x"]},
    "/messages/count_tokens": {"messages": MESSAGES, "system": [{"type": "text", "text": "x"}]},
    "/tokenize": {"prompt": "hi", "add_special_tokens": True},
    "/detokenize": {"tokens": [1, 2]},
    "/embeddings": {
        "input": ["hi", "you"],
        "encoding_format": "base64",
        "embed_dtype": "float16",
        "endianness": "big",
        "truncate_prompt_tokens": 5,
        "truncation_side": "left",
        "add_special_tokens": False,
    },
    "/pooling": {"input": [[1, 2], [3]], "encoding_format": "float", "use_activation": False},
    "/classify": {"messages": [MESSAGES], "add_generation_prompt": True, "chat_template_kwargs": {"a": 1}},
    "/score": {
        "text_1": {"content": [{"type": "text", "text": "hi"}]},
        "text_2": ["a", {"text": "b"}],
        "max_tokens_per_query": 3,
        "max_tokens_per_doc": 3,
        "instruction": "x",
        "chat_template_kwargs": {"a": 1},
        "use_activation": False,
        "truncate_prompt_tokens": 9,
    },
    "/rerank": {
        "query": "hi",
        "documents": [{"text": "a", "title": "b"}, {"text": "c"}],
        "top_n": 1,
        "return_documents": True,
        "rank_fields": ["title", "text"],
        "chunk_documents": False,
        "max_tokens_per_doc": 3,
    },
    "/embed": {
        "texts": ["hi", "you"],
        "input_type": "search_query",
        "embedding_types": ["float", "int8", "base64"],
        "truncate": "START",
        "max_tokens": 5,
        "priority": 1,
    },
    "/invocations": {"prompt": "hi", "max_tokens": 2},
}
"""Path → a body with a value in many fields, each of which is replaced by what does not belong there."""

WRONG: list[Any] = [
    None,
    True,
    -1,
    0,
    1.5,
    10**30,
    -(2**63) - 1,
    1e308,
    "",
    "x",
    "a\x00b",
    "\ud800",
    "x" * 5000,
    [],
    [[]],
    [None],
    [{}],
    {},
    {"": None},
    {"type": "bogus"},
    {"type": ["text"]},
]
GUIDES: list[dict[str, Any]] = [
    {"choice": ["<|im_end|>", "<|im_end|>x"]},
    {"choice": [""]},
    {"choice": ["\u0000", "😀"]},
    {"regex": "<\\|im_start\\|>x"},
    {"regex": ""},
    {"regex": "(a*)*b"},
    {"regex": "(?=a)b"},
    {"grammar": 'start: "<|im_end|>"'},
    {"grammar": "start: <|im_end|>"},
    {"grammar": "start: start"},
    {"grammar": 'root ::= "a" root | root "b"'},
    {"grammar": "root ::= "},
    {"json": {"const": "<|im_end|>"}},
    {"json": {"$ref": "#"}},
    {"json": {"$ref": "http://example.com/schema.json"}},
    {"json": {"allOf": [{"type": "string"}, {"type": "integer"}]}},
    {"json": {"pattern": "["}},
    {"json": {"type": "array", "minItems": 10**9}},
    {"json": {"type": "string", "minLength": 10**9}},
    {"json": False},
    {"json_object": False},
    {"structural_tag": '{"type": "structural_tag", "format": {"type": "any_text"}}'},
    {"structural_tag": "{"},
    {"regex": "a{1000}{1000}"},
]
"""Guides that are wrong, or that allow nothing, or that are written with the text of special tokens."""
PARAMETERS: list[Any] = [
    *(None, True, 5, "x", [], {}),
    {"type": "foo"},
    {"type": ["object", "null"]},
    {"type": "array"},
    {"$ref": "#/nope"},
    {"type": "object", "properties": []},
    {"type": "object", "properties": {"a": None}},
    {"type": "object", "properties": {"": {"pattern": "["}}},
    {"type": "object", "properties": {"</tool_call>": {"const": "</tool_call>"}}},
    {"type": "object", "required": ["b"], "additionalProperties": False},
    {"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}},
]
"""Schemas of a function's parameters that are wrong, or that nothing fulfils."""
BROKEN: dict[str, bytes] = {
    "empty": b"",
    "blank": b" \n",
    "cut": b'{"messages": [{"role": "user", "content": "hi',
    "no object": b"[]",
    "a number": b"1",
    "null": b"null",
    "a text": b'"messages"',
    "not a number": b'{"temperature": NaN, "max_tokens": Infinity}',
    "a huge number": b'{"max_tokens": ' + b"9" * 5000 + b"}",
    "a huge exponent": b'{"temperature": 1e99999}',
    "deep lists": b'{"messages": ' + b"[" * 20_000 + b"]" * 20_000 + b"}",
    "deep objects": b'{"a":' * 20_000 + b"1" + b"}" * 20_000,
    "lone surrogate": b'{"prompt": "\\ud800", "messages": [{"role": "user", "content": "\\udfff"}]}',
    "not UTF-8": b'{"prompt": "\xff\xfe"}',
    "NUL": b'{"prompt": "\\u0000", "model": "\\u0000"}',
    "raw NUL": b'{"prompt": "\x00"}',
    "same key twice": b'{"prompt": "a", "prompt": 5, "messages": [], "messages": 5}',
    "UTF-16": '{"prompt": "hi"}'.encode("utf-16"),
    "two byte order marks": b'\xef\xbb\xbf\xef\xbb\xbf{"prompt": "hi"}',
    "many fields": b"{" + b",".join(b'"a%d":1' % i for i in range(3_000)) + b"}",
    "two values": b'{"prompt": "hi"} {"prompt": "hi"}',
}


def body_of(path: str) -> dict[str, Any]:
    """The body of the longest path in BODIES that `path` ends with."""
    return next((body for end, body in BODIES.items() if path.endswith(end)), {})


def places(value: Any) -> Iterator[tuple[Any, ...]]:
    """Where anything stands in a value: keys and indices, from outside."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield (key,)
        yield from ((key, *place) for place in places(each))


def replaced(value: Any, place: tuple[Any, ...], wrong: Any) -> Any:
    """A copy of `value` with `wrong` at a place."""
    if not place:
        return wrong
    copy = value.copy()
    copy[place[0]] = replaced(copy[place[0]], place[1:], wrong)
    return copy
