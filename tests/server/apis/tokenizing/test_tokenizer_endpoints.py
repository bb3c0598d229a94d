"""tokenize, detokenize and tokenizer_info: real nodes of the demo model, no engine."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from scripted import ScriptedPipeline

from pipelines.nodes.text.templates.chat_template import ChatTemplate
from pipelines.nodes.text.tokenizing.tokenize import Tokenize
from server.apis.tokenizing import request as requests
from server.apis.tokenizing.unsupported_fields import REFUSED_CHAT

FOLDER = Path(__file__).parents[4] / "model_repo" / "braid-demo"
RESOURCES = SimpleNamespace(shared=lambda load, *of: load(*of), max_context=512, above={})
USER = {"role": "user", "content": "What is the weather in Oslo?"}
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}


@pytest.fixture(scope="module")
def nodes():
    template = ChatTemplate(ChatTemplate.Config(template="model/chat_template.jinja"), FOLDER)
    tokenize = Tokenize(Tokenize.Config(tokenizer="model/tokenizer.json"), FOLDER)
    for node in (template, tokenize):
        node.load(RESOURCES)
    return [template, tokenize]


@pytest.fixture
def rig(make_rig, nodes):
    pipeline = ScriptedPipeline()
    pipeline.lines = [SimpleNamespace(node=node) for node in nodes]
    return make_rig(pipeline)


@pytest.fixture
def ids(nodes):
    """The ids of a text whose special tokens are written out."""
    return lambda text: nodes[1].tokenizer.encode(text, add_special_tokens=False).ids


def tokenize(rig, path="/tokenize", **fields):
    return rig.post(path, {"model": "tiny", **fields})


def test_a_prompt_as_vllm_shows_it(rig, ids):
    wanted = ids("Hello world")
    assert tokenize(rig, prompt="Hello world").json == {
        "count": len(wanted),
        "max_model_len": 512,
        "tokens": wanted,
        "token_strs": None,
    }


def test_an_empty_prompt_has_no_tokens(rig):
    assert tokenize(rig, prompt="").json["tokens"] == []


def test_the_tokens_as_strings(rig):
    reply = tokenize(rig, prompt="Hello world", return_token_strs=True).json
    assert len(reply["token_strs"]) == reply["count"]
    assert reply["token_strs"][0].startswith("H")


def test_a_special_token_in_the_text_is_its_id(rig, nodes):
    assert tokenize(rig, prompt="<|im_end|>").json["tokens"] == [nodes[1].tokenizer.token_to_id("<|im_end|>")]


def test_a_model_need_not_be_named_when_there_is_one(rig):
    assert rig.post("/tokenize", {"prompt": "a"}).status == 200


@pytest.mark.parametrize("path", ["/tokenize", "/v1/tokenize", "/v3/tokenize", "/v3/v1/tokenize"])
def test_every_path_leads_there(rig, path):
    assert tokenize(rig, path, prompt="a").status == 200


def test_a_conversation_is_what_the_chat_endpoint_would_compute(rig, ids, nodes):
    reply = tokenize(rig, messages=[USER], tools=[TOOL])
    rig.post(
        "/v1/chat/completions", {"model": "tiny", "messages": [USER], "tools": [TOOL], "tool_choice": "none"}
    )
    asked = rig.pipeline.asked
    assert reply.json["tokens"] == ids(nodes[0].text(asked))


def test_a_conversation_asks_for_a_reply_unless_told_not_to(rig, ids):
    told = tokenize(rig, messages=[USER], add_generation_prompt=False).json["tokens"]
    asked = tokenize(rig, messages=[USER]).json["tokens"]
    assert asked[: len(told)] == told
    assert asked[len(told) :][:1] == ids("<|im_start|>")


@pytest.mark.parametrize("anew", [{}, {"add_generation_prompt": False}])
def test_a_conversation_may_go_on(rig, ids, anew):
    messages = [USER, {"role": "assistant", "content": "It is"}]
    fields = {"continue_final_message": True, **anew}
    tokens = tokenize(rig, messages=messages, **fields).json["tokens"]
    assert tokens[-len(ids("It is")) :] == ids("It is")
    marked = [USER, {**messages[1], "prefix": True}]
    assert tokenize(rig, messages=marked, **anew).json["tokens"] == tokens


def test_going_on_and_beginning_anew_exclude_each_other(rig):
    fields = {"continue_final_message": True, "add_generation_prompt": True}
    answer = tokenize(rig, messages=[USER], **fields)
    assert (answer.status, answer.error["param"]) == (400, "continue_final_message")


def test_template_arguments_reach_the_template(rig):
    plain = tokenize(rig, messages=[USER]).json["count"]
    thinking = tokenize(rig, messages=[USER], chat_template_kwargs={"enable_thinking": True}).json["count"]
    assert thinking < plain


def test_a_template_of_the_request_must_be_trusted(rig, make_rig):
    own = {"messages": [USER], "chat_template": "{{ messages[0].content }}"}
    refused = tokenize(rig, **own)
    assert (refused.status, refused.error["param"]) == (400, "chat_template")
    trusting = make_rig(rig.pipeline, trust_request_chat_template=True)
    assert tokenize(trusting, **own).json["tokens"] == tokenize(rig, prompt=USER["content"]).json["tokens"]


def test_a_conversation_may_be_longer_than_the_context(rig):
    reply = tokenize(rig, messages=[{"role": "user", "content": "again and " * 2000}]).json
    assert reply["count"] > reply["max_model_len"]


@pytest.mark.parametrize(
    ("field", "body"),
    [
        ("prompt", {"prompt": "word " * 50}),
        ("text", {"text": ["word " * 25] * 2}),
        ("messages", {"messages": [{"role": "user", "content": "word " * 50}]}),
    ],
    ids=["prompt", "text", "messages"],
)
def test_a_text_without_end_is_refused(rig, monkeypatch, field, body):
    monkeypatch.setattr("pipelines.worker.encoding.MAX_CHARS", 200)
    answer = tokenize(rig, **body)
    assert (answer.status, answer.error["param"]) == (400, field)
    assert "200 of them tokenized at most" in answer.error["message"]


def test_a_long_text_gives_the_ids_of_the_whole(rig, ids):
    text = "".join(f"{i} and {i * 7919}. " for i in range(12_000))
    assert len(text) > 200_000
    assert tokenize(rig, prompt=text).json["tokens"] == ids(text)
    assert tokenize(rig, text=text, max_length=3000).json["tokens"] == ids(text)[:3000]


@pytest.mark.parametrize("name", REFUSED_CHAT)
def test_a_refused_field_says_why(rig, name):
    answer = tokenize(rig, messages=[USER], **{name: {"a": 1}})
    assert (answer.status, answer.error["param"]) == (400, name)
    assert REFUSED_CHAT[name].reason in answer.error["message"]
    for neutral in (None, *REFUSED_CHAT[name].neutral):
        assert tokenize(rig, messages=[USER], **{name: neutral}).status == 200


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({}, "prompt"),
        ({"prompt": 5}, "prompt"),
        ({"prompt": ["a"]}, "prompt"),
        ({"prompt": "a", "add_special_tokens": "maybe"}, "add_special_tokens"),
        ({"messages": "hi"}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages.0.content"),
    ],
)
def test_a_wrong_field_is_named(rig, fields, param):
    answer = tokenize(rig, **fields)
    assert (answer.status, answer.error["param"]) == (400, param)


def test_a_broken_body_is_refused(rig):
    assert rig.post("/tokenize", b"{").status == rig.post("/tokenize", b"[]").status == 400


def test_openvinos_form_for_one_text(rig, ids):
    assert tokenize(rig, "/v3/tokenize", text="Hello world").json == {"tokens": ids("Hello world")}


def test_openvinos_form_for_several_texts(rig, ids):
    rows = tokenize(rig, "/v3/tokenize", text=["Hello", "Hello world"]).json["tokens"]
    assert rows == [ids("Hello"), ids("Hello world")]


def test_a_long_text_loses_its_end(rig, ids):
    assert tokenize(rig, text="Hello world", max_length=1).json["tokens"] == ids("Hello world")[:1]


@pytest.mark.parametrize("side", ["left", "right"])
def test_short_texts_are_padded(rig, ids, nodes, side):
    pad = nodes[1].tokenizer.token_to_id("<|endoftext|>")
    row = ids("Hello")
    fields = {"max_length": len(row) + 2, "pad_to_max_length": True, "padding_side": side}
    padded = tokenize(rig, text="Hello", **fields).json["tokens"]
    assert padded == ([pad, pad, *row] if side == "left" else [*row, pad, pad])


def test_without_a_length_the_longest_text_sets_it(rig):
    rows = tokenize(rig, text=["Hello", "Hello world"], pad_to_max_length=True).json["tokens"]
    assert len(rows[0]) == len(rows[1])


def test_padding_is_bounded(rig):
    fields = {"max_length": 2**20 - 1, "pad_to_max_length": True}
    answer = tokenize(rig, text=["a"] * 100, **fields)
    assert (answer.status, answer.error["param"]) == (400, "max_length")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"text": None}, "text field is required"),
        ({"text": []}, "text array should not be empty"),
        ({"text": [[]]}, "inner arrays in text should not be empty"),
        ({"text": ["a", 1]}, "text must be homogeneous"),
        ({"text": [True]}, "every element in text array should be either string or int"),
        ({"text": 5}, "text should be string, array of strings or array of integers"),
        ({"text": [1, 2]}, "Input should be string or array of strings"),
        ({"text": [[1, 2]]}, "Input should be string or array of strings"),
        ({"text": "a", "max_length": 0}, "max_length should be greater than 0"),
        ({"text": "a", "max_length": -1}, "max_length should be unsigned integer"),
        ({"text": "a", "max_length": 2**40}, "max_length should be less than 1048576"),
        ({"text": "a", "pad_to_max_length": 1}, "pad_to_max_length should be boolean"),
        ({"text": "a", "padding_side": "up"}, "padding_side should be either left or right"),
        ({"text": "a", "padding_side": 1}, "padding_side should be string, either left or right"),
        ({"text": "a", "add_special_tokens": "no"}, "add_special_tokens should be boolean"),
    ],
    ids=str,
)
def test_openvinos_words_for_a_wrong_field(rig, fields, words):
    answer = tokenize(rig, **fields)
    assert (answer.status, answer.error["message"]) == (400, words)


def test_truncation_preserves_special_tokens():
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from tokenizers.processors import TemplateProcessing

    from pipelines.nodes.text.tokenizing.text_reader import TextReader
    from pipelines.worker.encoding import tokenize_texts

    tokenizer = Tokenizer(WordLevel({"a": 0, "[B]": 1, "[E]": 2}, unk_token="a"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(
        single="[B] $A [E]", special_tokens=[("[B]", 1), ("[E]", 2)]
    )
    node = Tokenize(Tokenize.Config(tokenizer="t.json"), Path())
    node.tokenizer, node.reader = tokenizer, TextReader(tokenizer, 0)
    lines = [SimpleNamespace(node=node)]
    pipeline = SimpleNamespace(name="t", lines=lines, answering=lines)
    assert tokenize_texts(pipeline, ["a a a a"], True, 4, "text") == [[1, 0, 0, 2]]
    assert tokenize_texts(pipeline, ["a a a a"], False, 3, "text") == [[0, 0, 0]]
    assert tokenize_texts(pipeline, ["a a a a"], True, 1, "text") == [[1]]


def test_ids_are_text_again(rig, ids):
    text = "Hello <|im_end|> world"
    assert rig.post("/detokenize", {"tokens": ids(text)}).json == {"prompt": text, "content": text}


def test_no_ids_are_no_text(rig):
    assert rig.post("/detokenize", {"tokens": []}).json == {"prompt": "", "content": ""}


def test_an_id_outside_the_vocabulary_has_no_text(rig):
    assert rig.post("/detokenize", {"tokens": [2**31 - 1]}).json == {"prompt": "", "content": ""}


@pytest.mark.parametrize("tokens", [[-1], ["a"], [2**40], [1.5], None, "a"], ids=str)
def test_what_is_no_id_is_refused(rig, tokens):
    answer = rig.post("/detokenize", {"model": "tiny", "tokens": tokens})
    assert answer.status == 400
    assert answer.error["param"].startswith("tokens")


def test_the_tokenizer_is_described(rig):
    info = rig.get("/tokenizer_info").json
    assert info["tokenizer_class"] == "PreTrainedTokenizerFast"
    assert (info["eos_token"], info["model_max_length"]) == ("<|im_end|>", 2048)
    assert info["chat_template"].startswith("{#-")
    assert "<|im_start|>" in info["added_tokens_decoder"].values()


def test_a_description_names_no_folder(rig):
    assert str(FOLDER).encode() not in rig.get("/v3/tokenizer_info").body


@pytest.mark.parametrize("path", ["/tokenize", "/detokenize", "/tokenizer_info", "/v3/tokenize"])
def test_the_tokenizer_is_behind_the_key(make_rig, path):
    rig = make_rig(api_keys=("secret",))
    assert rig.ask("GET" if path.endswith("info") else "POST", path).status == 401


def test_a_graph_without_a_tokenizer_says_so(make_rig):
    answer = make_rig().post("/tokenize", {"prompt": "a"})
    assert (answer.status, answer.error["param"]) == (400, "model")


def test_an_unknown_model_is_not_found(rig):
    assert rig.post("/tokenize", {"model": "other", "prompt": "a"}).status == 404


def test_tokens_for_messages_are_counted(rig):
    sent = {"model": "tiny", "messages": [USER], "system": "Be brief."}
    counted = rig.post("/v1/messages/count_tokens", sent).json
    system = {"role": "system", "content": "Be brief."}
    number = tokenize(rig, messages=[system, USER]).json["count"]
    assert counted == {"input_tokens": number, "context_management": {"original_input_tokens": number}}


@pytest.mark.parametrize("prefix", ["/v1", "/v3", "/v3/v1"])
def test_tokens_of_an_input_are_counted_without_an_engine(rig, prefix):
    answer = rig.post(f"{prefix}/responses/input_tokens", {"model": "tiny", "input": "hi"})
    number = tokenize(rig, messages=[{"role": "user", "content": "hi"}]).json["count"]
    assert answer.json == {"object": "response.input_tokens", "input_tokens": number}
    assert rig.pipeline.calls == []


LONG = "again and " * 2000


@pytest.mark.parametrize(
    ("path", "body", "name"),
    [
        ("/v1/messages/count_tokens", {"messages": [{"role": "user", "content": LONG}]}, "input_tokens"),
        ("/v1/responses/input_tokens", {"input": LONG}, "input_tokens"),
        ("/v1/responses/input_tokens", {"input": LONG, "truncation": "auto"}, "input_tokens"),
        ("/v1beta/models/tiny:countTokens", {"contents": [{"parts": [{"text": LONG}]}]}, "totalTokens"),
        ("/tokenize", {"messages": [{"role": "user", "content": LONG}]}, "count"),
    ],
)
def test_a_conversation_that_is_too_long_is_counted_too(rig, path, body, name):
    answer = rig.post(path, {"model": "tiny", **body})
    assert answer.status == 200, answer.body
    assert answer.json[name] > 512


def test_every_format_is_in_the_table():
    formats = set(requests.TokenizerRequest.__subclasses__()) - {
        requests.DetokenizeRequest,
        requests.TokenizePrompt,
    }
    assert set(requests.FORMATS.values()) == formats


def test_content_as_llama_cpp_shows_it(rig, ids):
    assert tokenize(rig, content="Hello world").json == {"tokens": ids("Hello world")}
    pieces = tokenize(rig, content="Hello €", with_pieces=True).json["tokens"]
    assert [piece["id"] for piece in pieces] == ids("Hello €")
    data = [bytes(text) if isinstance(text, list) else text.encode() for text in (p["piece"] for p in pieces)]
    assert b"".join(data).decode() == "Hello €"


def test_content_in_which_special_tokens_are_text(rig, ids):
    written = tokenize(rig, content="<|im_end|>", parse_special=False).json["tokens"]
    assert (len(ids("<|im_end|>")), len(written) > 1) == (1, True)
    assert not {*ids("<|im_end|>")} & {*written}
