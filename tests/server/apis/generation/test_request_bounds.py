"""What a client sends is bounded before it costs time, and never comes back whole."""

from __future__ import annotations

import difflib
import json
import re
from importlib import import_module
from pathlib import Path

import pytest
from every_case import every_case
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from graphs.errors import MAX_LISTED, MAX_WORD_CHARS, hint, nearest
from pipelines.base.errors import MAX_FIELD_BYTES, MAX_MESSAGE_BYTES, BraidError, NotFound, RequestError
from pipelines.requests.fields.error_text import MAX_VALUE_CHARS, quoted
from pipelines.wire.sampling_params import SamplingParams, check_ids
from pipelines.worker.catalogue import Catalogue
from server.http import request_body
from server.http.request_body import MAX_DEPTH, MAX_KEYS, MAX_VALUES, check_structure

ROOT = Path(__file__).parents[4]
LONG_NAME = "fake" * 15_000
ROOM = 1024
"""What the envelope of an error adds to its message."""


def test_a_long_word_is_compared_with_nothing(monkeypatch):
    monkeypatch.setattr(difflib, "get_close_matches", lambda *_: pytest.fail("compared"))
    assert nearest("f" * (MAX_WORD_CHARS + 1), ["f" * MAX_WORD_CHARS]) is None


def test_many_allowed_words_are_not_listed_whole():
    words = [f"model-{i}" for i in range(1000)]
    text = hint("nothing like them", words, "models")
    assert text.endswith(f"model-{MAX_LISTED - 1}, {1000 - MAX_LISTED} more")


def test_a_catalogue_does_not_echo_a_long_name():
    catalogue = Catalogue(type("Client", (), {"status": object()})())
    with pytest.raises(NotFound) as error:
        catalogue.get(LONG_NAME)
    assert len(error.value.message) < 2 * MAX_WORD_CHARS


@pytest.mark.parametrize("character", ["a", "é", "😀", "\ud800"])
def test_an_error_text_is_cut_to_its_bound(character):
    error = BraidError(character * 100_000, field=character * 100_000)
    for text, most in ((error.message, MAX_MESSAGE_BYTES), (error.field, MAX_FIELD_BYTES)):
        assert most - 8 < len(text.encode()) <= most
        assert text.endswith("...")
    assert str(error) == error.message


@pytest.mark.parametrize("character", ["a", "é", "😀"])
def test_an_error_text_of_common_size_stays(character):
    text = character * (MAX_MESSAGE_BYTES // len(character.encode()))
    assert BraidError(text).message == text


def test_ids_at_fault_are_not_listed_whole():
    with pytest.raises(RequestError) as error:
        check_ids(SamplingParams(logit_bias=dict.fromkeys(range(600_000), 1.0)), 100)
    shown = ", ".join(map(str, range(100, 116)))
    assert error.value.message == (
        f"token_id(s) [{shown}] and 599884 more in logit_bias contain out-of-vocab token ids. "
        "Vocabulary size: 100"
    )


@pytest.mark.parametrize(
    "value",
    ["x" * 200, ["x" * 10**6] * 2, {"a" * 10**6: "b" * 10**6}, [[1] * 10**6]],
    ids=lambda value: str(value)[:20],
)
def test_a_quoted_value_is_cut(value):
    assert len(quoted(value)) == MAX_VALUE_CHARS
    assert quoted(value).endswith("...")


def test_a_quoted_value_is_not_followed_deep():
    assert quoted([[[[[1] * 10**6]]]]) == '[[["..."]]]'


@pytest.mark.parametrize("value", [5, "x", [1, "a"], {"a": {"b": [1, 2, None]}}, [[]], {}])
def test_a_short_value_is_quoted_as_json(value):
    assert quoted(value) == json.dumps(value)


ECHOED = {
    "model": ("/v1/completions", {"model": LONG_NAME, "prompt": "hi"}),
    "field": ("/v1/completions", {"prompt": "hi", LONG_NAME: 1}),
    "role": ("/v1/chat/completions", {"messages": [{"role": LONG_NAME, "content": "hi"}]}),
    "part": ("/v1/chat/completions", {"messages": [{"role": "user", "content": [{"type": LONG_NAME}]}]}),
    "format": (
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": "hi"}], "response_format": {"type": LONG_NAME}},
    ),
    "tool": (
        "/v1/chat/completions",
        {
            "messages": [{"role": "user", "content": "hi"}],
            "tools": [{"type": "function", "function": {"name": LONG_NAME}}],
            "tool_choice": {"type": "function", "function": {"name": LONG_NAME}},
        },
    ),
    "choice": (
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": "hi"}], "tool_choice": LONG_NAME},
    ),
    "response": ("/v1/responses", {"input": "hi", "previous_response_id": LONG_NAME}),
    "embedding": ("/v1/embeddings", {"input": "hi", "encoding_format": LONG_NAME}),
    "tokenize": ("/tokenize", {"prompt": "hi", LONG_NAME: 1}),
    "logit_bias": ("/v1/completions", {"prompt": "hi", "logit_bias": {LONG_NAME: 1}}),
    "template": ("/v1/chat/completions", {"messages": LONG_NAME}),
}


@pytest.mark.parametrize("name", ECHOED)
def test_no_answer_echoes_what_was_long(name, rig):
    path, body = ECHOED[name]
    answer = rig.post(path, {"model": "tiny", **body})
    assert len(answer.body) < MAX_MESSAGE_BYTES + ROOM
    assert answer.status < 500


@pytest.mark.parametrize("path", ["/v1/models/", "/v1/responses/", "/"])
def test_a_long_path_is_not_echoed(path, rig):
    answer = rig.get(path + LONG_NAME)
    assert answer.status == 404
    assert len(answer.body) < MAX_MESSAGE_BYTES + ROOM


DEEP = b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1)


@pytest.mark.parametrize(
    "body",
    [DEEP[1:-1], b'"' + DEEP + b'"', b'["\\"' + DEEP + b'"]', b'["\\\\", "' + DEEP + b'"]', b"[]," * 200],
    ids=["deepest", "text", "escaped quote", "escaped backslash", "beside"],
)
def test_bodies_of_common_depth_pass(body):
    check_structure(body)


@pytest.mark.parametrize(
    "body",
    [DEEP, b'["\\\\", ' + DEEP, b'["' + DEEP + b'", ' + DEEP + b"]", b'{"a":' * 65 + b"1" + b"}" * 65],
    ids=["lists", "after a backslash", "after a text", "objects"],
)
def test_deep_bodies_are_refused(body):
    with pytest.raises(RequestError, match="deeper than 64 levels"):
        check_structure(body)


def test_a_body_of_many_values_is_refused():
    check_structure(b"[" + b"1," * (MAX_VALUES - 1) + b"1]")
    check_structure(b'["' + b"1," * MAX_VALUES + b'"]')
    with pytest.raises(RequestError, match=f"may hold {MAX_VALUES} values at most"):
        check_structure(b"[" + b"1," * MAX_VALUES + b"1]")


def test_a_body_of_many_keys_is_refused():
    check_structure(b"{" + b'"":1,' * (MAX_KEYS - 1) + b'"":1}')
    check_structure(b'["' + b":" * (MAX_KEYS + 1) + b'"]')
    with pytest.raises(RequestError, match=f"may hold {MAX_KEYS} named values at most"):
        check_structure(b"{" + b'"":1,' * MAX_KEYS + b'"":1}')


VALUES = st.recursive(
    st.text('a"\\[]{},\n', max_size=6) | st.integers(0, 9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('"[', max_size=2), inner, max_size=3),
    max_leaves=20,
)


def depth_of(value):
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(depth_of, inner), default=0)


@given(value=VALUES)
def test_depth_is_measured_as_a_parser_sees_it(value):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(request_body, "MAX_DEPTH", 2)
        patch.setattr(request_body, "SLICE_BYTES", 3)
        try:
            check_structure(json.dumps(value).encode())
            refused = False
        except RequestError:
            refused = True
    assert refused == (depth_of(value) > 2)


def request_models():
    """The bodies of all endpoints, with the models inside them: what modules named after requests hold."""
    for file in (path for package in ("pipelines", "server") for path in (ROOT / package).rglob("*.py")):
        if "/request" in str(file):
            import_module(".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"))
    models, open_ends = set(), [BaseModel]
    while open_ends:
        subclasses = [subclass for subclass in open_ends.pop().__subclasses__() if subclass not in models]
        models.update(subclasses)
        open_ends += subclasses
    ours = [model for model in models if re.match(r"(pipelines|server)\.(.*\.)?request", model.__module__)]
    assert len(ours) > 70
    return sorted(ours, key=str)


def lists_of(schema):
    """The core schemas of all lists in a core schema that look at their items."""
    if isinstance(schema, dict):
        if schema.get("type") == "list" and schema.get("items_schema", {}).get("type", "any") != "any":
            yield schema
        for key, value in schema.items():
            if key not in ("metadata", "serialization"):
                yield from lists_of(value)
    elif isinstance(schema, list | tuple):
        for inner in schema:
            yield from lists_of(inner)


@every_case("model", request_models())
def test_a_list_is_refused_at_its_first_bad_item(model):
    """Pydantic writes an error of a kilobyte for each bad item otherwise."""
    slow = [each for each in lists_of(model.__pydantic_core_schema__) if not each.get("fail_fast")]
    assert slow == []
