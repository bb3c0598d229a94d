"""Files of chat's and Responses' messages: their text is in the prompt, or an error says why it is not."""

from __future__ import annotations

import asyncio
import base64

import pytest
from scripted_model import serving, write_scripted_model

from pipelines.base.errors import BadDocument
from server.media import pdf_text
from server.media.file_parts import FileReader

TEXT = b"The paper says 42"


def data(content=TEXT, media_type="text/plain"):
    return f"data:{media_type};base64,{base64.b64encode(content).decode()}"


def chat(file):
    parts = [{"type": "text", "text": "Read."}, {"type": "file", "file": file}]
    return {"messages": [{"role": "user", "content": parts}]}


def response(file):
    return {"input": [{"role": "user", "content": [{"type": "input_file", **file}]}]}


def output(file):
    call = {"type": "function_call", "call_id": "c", "name": "read", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_file", **file}]}
    return {"input": [{"role": "user", "content": "Read."}, call, result]}


ASKED = [("/v1/chat/completions", chat), ("/v1/responses", response), ("/v1/responses", output)]
PLACES = ("messages.0.content.1.file", "input.0.content.0", "input.2.output.0")


@pytest.mark.parametrize(("path", "body"), ASKED, ids=PLACES)
@pytest.mark.parametrize("name", ["a.txt", None])
def test_the_text_of_a_file_is_shown_under_its_name(rig, path, body, name):
    file = {"file_data": data(), **({"filename": name} if name else {})}
    found = rig.post(path, body(file))
    assert found.status == 200, found.body
    (message,) = [one for one in rig.pipeline.calls[-1].request.messages if "42" in str(one["content"])]
    shown = message["content"][-1]["text"]
    assert shown == (f"Title: {name}\n" if name else "") + TEXT.decode()


@pytest.mark.parametrize(
    ("file", "fault"),
    [
        ({"file_id": "file-1"}, ".file_data`: a text in base64 is required"),
        ({"file_data": "data:text/plain;base64,!"}, ".file_data`: Invalid base64 data"),
        ({"file_data": data(media_type="application/zip")}, "`: files of type `application/zip`"),
        ({"file_data": data(media_type="application/pdf")}, "`: "),
    ],
)
@pytest.mark.parametrize(
    ("path", "body", "place"), [(*asked, at) for asked, at in zip(ASKED, PLACES, strict=True)]
)
def test_a_file_that_is_not_read_is_refused_at_its_place(rig, path, body, place, file, fault):
    found = rig.post(path, body(file))
    assert found.status == 400
    assert found.error["message"].startswith(f"`{place}{fault}")
    assert found.error["param"].startswith(place)


def test_tokens_of_a_conversation_are_those_with_the_text_of_its_files(tmp_path):
    write_scripted_model(tmp_path / "scripted", ["Done."])
    text = [{"type": "text", "text": "Read."}, {"type": "text", "text": f"Title: a.txt\n{TEXT.decode()}"}]
    plain = {"messages": [{"role": "user", "content": text}]}
    asked = chat({"file_data": data(), "filename": "a.txt"})

    async def scene():
        async with serving(tmp_path) as client:
            for path in ("/tokenize", "/v1/chat/completions/render"):
                answer, other = await client.post(path, asked), await client.post(path, plain)
                assert answer.status == other.status == 200, answer.body
                ids = [answer.json.get("tokens") or answer.json["token_ids"] for answer in (answer, other)]
                assert ids[0] == ids[1]

    asyncio.run(scene())


def test_a_file_in_one_of_several_conversations_is_read_there(rig):
    asked = chat({"file_data": data()})["messages"]
    assert rig.post("/v1/chat/completions/batch", {"messages": [asked, asked]}).status == 200
    refused = rig.post("/v1/chat/completions/batch", {"messages": [asked, chat({})["messages"]]})
    assert refused.error["param"] == "messages.1.0.content.1.file.file_data"


def test_without_a_reader_the_error_says_what_to_install(rig, monkeypatch):
    monkeypatch.setattr(pdf_text, "READER", "no_such_package")
    found = rig.post("/v1/chat/completions", chat({"file_data": data(b"%PDF-1.4", "application/pdf")}))
    assert "braid-server[documents]" in found.error["message"]


@pytest.mark.parametrize(
    ("name", "is_text"), [("a.TXT", True), ("a.md", True), ("a.pdf", False), (None, False)]
)
def test_without_a_media_type_the_name_says_what_it_is(monkeypatch, name, is_text):
    monkeypatch.setattr("server.media.file_parts.read_pdf", lambda *given: "pages")
    bare = base64.b64encode(TEXT).decode()
    shown = FileReader().text({"filename": name, "file_data": bare}, "x")
    assert shown.endswith(TEXT.decode() if is_text else "pages")


def test_files_that_have_taken_all_their_seconds_are_refused():
    with pytest.raises(BadDocument, match="may take 20 s together"):
        pdf_text.read_pdf(b"%PDF-1.4 never read", "x", pdf_text.Left(-0.1, 100))
