"""What coding agents send beside texts and calls: found tools, documents, and settings of Anthropic's servers."""

from __future__ import annotations

import base64
import json

import pytest
from messages_bodies import CALL, WEATHER, assistant, text, user
from test_messages_request import asked, refusal

from pipelines.base.bounded_processes import JobOutcome
from pipelines.base.errors import BadDocument, BadImage, ContextTooLong, RequestError
from server.apis.messages import documents
from server.media import pdf_text
from server.schema.anthropic_errors import anthropic_error
from server.schema.anthropic_models import anthropic_models
from server.schema.model_list import ModelInfo

LATER = {**WEATHER, "name": "get_tide", "defer_loading": True}
SEARCH = {**CALL, "name": "ToolSearch"}


def found(*names, **more):
    blocks = [{"type": "tool_reference", "tool_name": name} for name in names]
    return {"type": "tool_result", "tool_use_id": "t1", "content": blocks, **more}


def test_a_tool_that_is_loaded_later_is_shown_where_it_was_found():
    generation = asked(
        messages=[user("Tide?"), assistant([SEARCH]), user([found("get_tide", "get_tide", "gone")])],
        tools=[WEATHER, LATER],
    )
    assert [tool["function"]["name"] for tool in generation.tools] == ["get_weather", "get_tide"]
    assert generation.later_tools == {"get_tide"}
    declared, *names = (part["text"] for part in generation.messages[-1]["content"])
    assert json.loads(declared)["function"]["parameters"] == WEATHER["input_schema"]
    assert names == ["get_tide", "gone"]


def test_all_tools_are_shown_where_a_server_would_search():
    search = {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}
    generation = asked(tools=[search, WEATHER, LATER])
    assert len(generation.tools) == 2
    assert not generation.later_tools


def test_a_tool_of_a_server_is_left_out_beside_others():
    hosted = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}
    assert [tool["function"]["name"] for tool in asked(tools=[hosted, WEATHER]).tools] == ["get_weather"]
    choice = {"type": "tool", "name": "web_search"}
    assert refusal(tools=[hosted, WEATHER], tool_choice=choice).field == "tool_choice.name"


@pytest.mark.parametrize(
    "fields",
    [
        {"context_management": {"edits": [{"type": "clear_tool_uses_20250919", "trigger": {}}]}},
        {"fallbacks": [{"model": "other"}]},
        {"betas": ["a-new-one"]},
        {"speed": "fast"},
        {"diagnostics": {"previous_message_id": "msg_1"}},
        {"output_config": {"task_budget": {"type": "tokens", "total": 1000}}},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_settings_of_anthropics_servers_are_taken(fields):
    assert asked(**fields).messages == asked().messages


def document(source, **more):
    return {"type": "document", "source": source, **more}


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ({"type": "text", "media_type": "text/plain", "data": "Hi"}, "Hi"),
        ({"type": "content", "content": "Hi"}, "Hi"),
        ({"type": "content", "content": [text("Hi"), text("you")]}, "Hi\nyou"),
        ({"type": "base64", "media_type": "text/csv", "data": "YSxi"}, "a,b"),
    ],
)
def test_a_document_of_text_is_shown_with_its_title(source, shown):
    messages = [user([document(source, title="T", context="C", citations={"enabled": True}), text("?")])]
    assert asked(messages=messages).messages[0]["content"] == [text(f"Title: T\nC\n{shown}"), text("?")]


@pytest.mark.parametrize(
    ("source", "field"),
    [
        ({"type": "disk"}, "source.type"),
        ({"type": "base64", "media_type": "application/pdf"}, "source.data"),
        ({"type": "base64", "media_type": "application/pdf", "data": "?"}, "source.data"),
        ({"type": "content", "content": [{"type": "image"}]}, "source.content.0"),
        ({"type": "url", "url": "https://papers.test/a.pdf"}, "source"),
        ({"type": "base64", "media_type": "application/zip", "data": "AAAA"}, "source"),
    ],
)
def test_what_is_no_document_is_refused_where_it_stands(source, field):
    assert refusal(messages=[user([document(source)])]).field == f"messages.0.content.0.{field}"


def pdf(*texts):
    """A PDF file with a page for each text."""
    kids = " ".join(f"{4 + 2 * i} 0 R" for i in range(len(texts)))
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", f"<< /Type /Pages /Kids [{kids}] /Count {len(texts)} >>"]
    objects.append("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    for i, words in enumerate(texts):
        drawn = f"BT /F1 18 Tf 20 50 Td ({words}) Tj ET" if words else ""
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 400 100] /Contents {5 + 2 * i} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>"
        )
        objects.append(f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream")
    out, places = "%PDF-1.4\n", []
    for number, pdf_object in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n{pdf_object}\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    size = len(objects) + 1
    return (
        f"{out}xref\n0 {size}\n0000000000 65535 f \n{table}trailer << /Size {size} /Root 1 0 R >>\n"
        f"startxref\n{len(out)}\n%%EOF\n"
    ).encode()


def pdf_block(data):
    source = {"type": "base64", "media_type": "application/pdf", "data": base64.b64encode(data).decode()}
    return document(source)


def test_the_text_of_a_pdf_file_is_read():
    pytest.importorskip("pypdfium2")
    messages = [user([pdf_block(pdf("Hello paper 42", "Page two")), text("?")])]
    shown = asked(messages=messages).messages[0]["content"][0]["text"]
    assert shown == "Hello paper 42\n\nPage two"
    assert asked(messages=messages).messages[0]["content"][0]["text"] == shown


@pytest.mark.parametrize("data", [b"%PDF-1.4 no", pdf("")], ids=["damaged", "without text"])
def test_a_pdf_file_without_text_is_refused_in_the_clients_words(data):
    pytest.importorskip("pypdfium2")
    error = refusal(messages=[user([pdf_block(data)])])
    assert anthropic_error(error).error.message.startswith("Could not process PDF: messages.0.content.0")


def test_without_a_reader_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(pdf_text, "READER", "no_such_package")
    error = refusal(messages=[user([pdf_block(pdf("Nobody reads this"))])])
    assert isinstance(error, BadDocument)
    assert "braid-server[documents]" in error.message


VLLM = "This model's maximum context length is 24000 tokens. However, your prompt contains "


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            BadImage("m takes text only", "messages.1"),
            "Could not process image: messages.1: m takes text only",
        ),
        (
            ContextTooLong(f"{VLLM}25000 input tokens, which leaves no room for output."),
            "prompt is too long: 25000 tokens > 23999 maximum",
        ),
        (
            ContextTooLong(f"{VLLM}at least 24001 input tokens."),
            "prompt is too long: 24001 tokens > 23999 maximum",
        ),
        (
            ContextTooLong(
                "You passed 200000 input characters. However, the model's context length is only 16 tokens "
                "(at most 160 characters)."
            ),
            "prompt is too long: 20000 tokens > 15 maximum",
        ),
        (RequestError("`temperature` is wrong", "temperature"), "`temperature` is wrong"),
    ],
)
def test_errors_have_the_words_by_which_clients_repair_them(error, text):
    assert anthropic_error(error).error.message == text


def test_models_have_anthropics_shape_where_its_header_is_sent(rig):
    listed = rig.get("/v1/models", anthropic_version="2023-06-01").json
    (model,) = listed["data"]
    assert (model["type"], model["display_name"], listed["first_id"]) == ("model", "tiny", "tiny")
    assert not listed["has_more"]
    assert rig.get("/v1/models/tiny", anthropic_version="2023-06-01").json == model
    assert rig.get("/v1/models").json["object"] == "list"


def test_pages_of_models():
    models = [ModelInfo.model_construct(id=name, created=1, max_model_len=None) for name in "abcd"]

    def page(**asked):
        fields = {"limit": None, "after": None, "before": None, **asked}
        listed = anthropic_models(models, **fields)
        return "".join(model.id for model in listed.data), listed.has_more

    assert page() == ("abcd", False)
    assert page(limit=3) == ("abc", True)
    assert page(limit=3, after="c") == ("d", False)
    assert page(limit=2, before="d") == ("bc", True)
    with pytest.raises(RequestError, match="limit"):
        page(limit=0)


@pytest.mark.parametrize(("took_s", "allowed_s"), [(0.1, [20, 19.9, 19.8]), (15.0, [20, 5])])
def test_the_pdf_files_of_a_request_are_bounded_together(monkeypatch, took_s, allowed_s):
    """By their characters, and by the seconds of reading: with none left, a file is refused unread."""
    limits = []

    def outcome(job, limit_s):
        limits.append(limit_s)
        return JobOutcome({"text": "Twenty characters or"}, took_s)

    monkeypatch.setattr(pdf_text, "READER", "json")  # the process that reads is another test's
    monkeypatch.setattr(pdf_text.PROCESSES, "outcome", outcome)
    monkeypatch.setattr(documents, "MAX_CHARS", 50)
    blocks = [pdf_block(b"%d of %.1f" % (number, took_s)) for number in range(3)]
    assert refusal(messages=[user(blocks)]).field == "messages.0.content.2.source"
    assert limits == pytest.approx(allowed_s)
    assert refusal(messages=[user([blocks[0]] * 3)]).field == "messages.0.content.2.source"
    assert len(limits) == len(allowed_s)
