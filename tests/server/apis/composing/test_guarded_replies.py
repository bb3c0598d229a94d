"""Guarded models over every API that generates: a classifier and guard models decide what clients read."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from documents import ROOT
from every_case import every_case
from scripted_model import held_open, write_scripted_model

from pipelines.nodes.composing.judge import Judge

GOOD = "What a lovely film, I enjoyed every minute of it."
BAD = " But the ending was terrible, boring and a complete waste of time, awful acting, I hated it."
PRAISE, RANT = "I loved this film", "Awful, terrible and boring, I hated it"
SORRY = "I would rather not say."
GUARDS = {
    "ended": "labels: [negative]",
    "said": f"labels: [negative], refusal: {SORRY}",
    "unseen": "labels: [negative], checks: [request]",
    "late": "labels: [negative], checks: [reply], window: 200",
    "lenient": "labels: [negative], threshold: 1",
    "strict": "labels: [negative], checks: [request], roles: [user, tool, system, assistant]",
}
GRAPH = "version: 1\ntask: chat\nnodes:\n  reply: {type: guard, graph: talk, by: %s, from: request, every: 8, %s}\n"
LLAMA = "<BEGIN UNSAFE CONTENT CATEGORIES>{% for m in messages %}\n{{ m.role }}: {{ m.content }}{% endfor %}"
LLAMA += "{{- '\\n<|im_start|>assistant\\n' }}"
CHAT = "/v1/chat/completions"


def write(folder: Path, graph: str) -> None:
    folder.mkdir()
    (folder / "graph.yaml").write_text(graph)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("guarded")
    write_scripted_model(folder / "talk", [("Just", "Fine."), GOOD + BAD])
    shutil.copytree(ROOT / "model_repo" / "braid-sentiment", folder / "feelings")
    for name, settings in GUARDS.items():
        write(folder / name, GRAPH % ("feelings", settings))
    return folder


@pytest.fixture(scope="module")
def played(models):
    """Runs a scene with a client of a server with all of them."""
    with held_open(models, responses_store=False) as play:
        yield play


def body(model, text, **more):
    return {"model": model, "messages": [{"role": "user", "content": text}], "max_tokens": 200, **more}


def choice_of(answer):
    assert answer.status == 200, answer.body
    (choice,) = answer.json["choices"]
    return choice["message"]["content"], choice["finish_reason"]


def stream_of(answer):
    """The text of a stream, its reasons to end, and its usage."""
    chunks = [event["choices"][0] for event in answer.events if event != "[DONE]" and event["choices"]]
    text = "".join(chunk["delta"].get("content") or "" for chunk in chunks)
    return text, [chunk["finish_reason"] for chunk in chunks if chunk["finish_reason"]]


def test_a_request_that_the_classifier_refuses_reaches_no_model(played):
    async def scene(client):
        refused = await client.post(CHAT, body("ended", RANT))
        assert refused.status == 400
        assert refused.error["message"].startswith("line `reply`: the request was refused: negative 0.")
        earlier = body("ended", "Go on")
        earlier["messages"] = [{"role": "user", "content": RANT}, *earlier["messages"]]
        assert (await client.post(CHAT, earlier)).status == 400
        assert choice_of(await client.post(CHAT, body("said", RANT))) == (SORRY, "content_filter")
        assert stream_of(await client.post(CHAT, body("said", RANT, stream=True))) == (
            SORRY,
            ["content_filter"],
        )
        two = await client.post(CHAT, body("said", RANT, n=2))
        assert [choice["message"]["content"] for choice in two.json["choices"]] == [SORRY, SORRY]

    played(scene)


def test_no_form_of_a_request_hides_its_text(played):
    asked = {"role": "user", "content": "Go on"}
    call = {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    messages = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": RANT},
    ]
    begun = {"role": "assistant", "content": RANT}
    chats = [
        ("ended", {"messages": [asked, *messages]}),
        ("ended", {"messages": [{"role": "user", "content": f"{RANT}. " * 40 + "It was lovely. " * 400}]}),
        ("ended", {"messages": [{"role": "user", "content": [{"type": "text", "text": RANT}]}, asked]}),
        (
            "ended",
            {"messages": [asked, begun], "continue_final_message": True, "add_generation_prompt": False},
        ),
        ("strict", {"messages": [{"role": "developer", "content": RANT}, asked]}),
        ("strict", {"messages": [asked], "chat_template_kwargs": {"documents": [{"text": RANT}]}}),
    ]

    async def scene(client):
        for model, fields in chats:
            refused = await client.post(CHAT, {"model": model, "max_tokens": 4, **fields})
            assert refused.status == 400, (fields, refused.body)
            assert "the request was refused: negative" in refused.error["message"], fields
        tokens = await client.post(
            "/v1/completions", {"model": "ended", "prompt": [72, 105], "max_tokens": 4}
        )
        assert tokens.status == 400
        assert "token ids are refused" in tokens.error["message"]

        image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
        shown = [{"role": "user", "content": [{"type": "text", "text": "Go on"}, image]}]
        refused = await client.post(CHAT, {"model": "ended", "messages": shown, "max_tokens": 4})
        assert refused.error["param"] == "messages.0.content.1"
        assert "its judge reads no `image_url` parts" in refused.error["message"]

    played(scene)


def test_decisions_about_a_growing_text_are_the_classifiers_own(played, monkeypatch):
    judged, fault = [], Judge.fault

    async def noted(self, call, texts, conversation):
        fault_found = await fault(self, call, texts, conversation)
        judged.append((texts[0], fault_found is not None))
        return fault_found

    monkeypatch.setattr(Judge, "fault", noted)

    async def scene(client):
        text, reasons = stream_of(await client.post(CHAT, body("ended", PRAISE, stream=True)))
        assert reasons == ["content_filter"]
        assert (GOOD + BAD).startswith(text)
        assert judged[0][0] == PRAISE
        assert [refused for _, refused in judged] == [False] * (len(judged) - 1) + [True]
        assert text == ("" if len(judged) == 2 else judged[-2][0]), "what passed last was sent, and no more"
        for asked, refused in judged:
            own = await client.post(
                "/classify", {"model": "feelings", "input": asked, "truncate_prompt_tokens": -1}
            )
            probs = own.json["data"][0]["probs"]
            assert (probs[0] >= 0.5) == refused, asked

    played(scene)


def test_what_is_not_refused_is_the_models_own_reply(played):
    async def scene(client):
        own = await client.post(CHAT, body("talk", "Just do it", logprobs=True))
        for model in ("ended", "late", "lenient"):
            guarded = await client.post(CHAT, body(model, "Just do it", logprobs=True))
            assert guarded.json["choices"] == own.json["choices"]
            used = guarded.json["usage"]
            assert used["completion_tokens"] == own.json["usage"]["completion_tokens"]
            assert used["prompt_tokens"] >= own.json["usage"]["prompt_tokens"]
        for model in ("unseen", "lenient"):
            assert choice_of(await client.post(CHAT, body(model, PRAISE))) == (GOOD + BAD, "stop")

    played(scene)


def test_a_batch_of_conversations_counts_what_lines_read(played):
    async def scene(client):
        one = (await client.post(CHAT, body("lenient", "Just do it"))).json["usage"]
        conversation = [{"role": "user", "content": "Just do it"}]
        fields = {"model": "lenient", "messages": [conversation] * 2, "max_tokens": 200}
        both = (await client.post(f"{CHAT}/batch", fields)).json["usage"]
        assert both["prompt_tokens"] == 2 * one["prompt_tokens"] > 0
        assert both["completion_tokens"] == 2 * one["completion_tokens"]

    played(scene)


def test_what_counts_and_completes_a_prompt_takes_guarded_models_too(played):
    async def scene(client):
        asked = {"input": "Just do it"}
        counts = [
            (await client.post("/v1/responses/input_tokens", {"model": model, **asked})).json["input_tokens"]
            for model in ("talk", "lenient")
        ]
        assert counts[0] == counts[1] > 0
        fields = {"prompt": "<|im_start|>user\nJust<|im_end|>\n<|im_start|>assistant\n", "n_predict": 9}
        own, guarded = [
            (await client.post("/completion", {"model": model, **fields})).json
            for model in ("talk", "lenient")
        ]
        assert guarded["content"] == own["content"] != ""

    played(scene)


def test_the_window_holds_back_what_what_follows_may_explain(played):
    async def scene(client):
        assert stream_of(await client.post(CHAT, body("late", PRAISE, stream=True))) == (
            "",
            ["content_filter"],
        )
        text, reasons = stream_of(await client.post(CHAT, body("said", PRAISE, stream=True)))
        assert reasons == ["content_filter"]
        assert text.endswith(SORRY)
        assert (GOOD + BAD).startswith(text.removesuffix(SORRY))

    played(scene)


MESSAGES = [{"role": "user", "content": PRAISE}]
GEMINI = {"contents": [{"role": "user", "parts": [{"text": PRAISE}]}]}
APIS = {
    "/v1/completions": (
        {"prompt": "<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n"},
        "content_filter",
    ),
    CHAT: ({"messages": MESSAGES}, "content_filter"),
    "/v1/messages": ({"messages": MESSAGES}, "refusal"),
    "/v1/responses": ({"input": PRAISE, "max_output_tokens": 200, "max_tokens": None}, "content_filter"),
    "/v1beta/models/late:generateContent": (GEMINI, "SAFETY"),
    "/api/chat": ({"messages": MESSAGES, "stream": False}, "stop"),
}
"""Path → a request, and the reason of its reply's end in the words of the API."""


def test_every_api_ends_a_refused_reply_in_its_own_words(played):
    async def scene(client):
        for path, (fields, reason) in APIS.items():
            is_gemini = fields is GEMINI
            asked = fields if is_gemini else {"model": "late", "max_tokens": 200, **fields}
            answer = await client.post(
                path, {key: value for key, value in asked.items() if value is not None}
            )
            assert answer.status == 200, (path, answer.body)
            assert f'"{reason}"' in answer.body.decode(), (path, answer.body)
            assert "waste" not in answer.body.decode(), path

    played(scene)


def test_decisions_are_counted_by_line(played):
    async def scene(client):
        before = await decisions(client)
        for model, text in (("ended", RANT), ("ended", PRAISE), ("ended", "Just do it")):
            await client.post(CHAT, body(model, text))
        after = await decisions(client)
        assert {way: after[way] - before.get(way, 0) for way in after} == {
            "request refused": 1,
            "reply refused": 1,
            "passed": 1,
        }

    played(scene)


async def decisions(client):
    lines = (await client.get("/metrics")).body.decode().splitlines()
    found = [
        line
        for line in lines
        if line.startswith("braid:line_decisions_total") and 'model_name="ended"' in line
    ]
    return {line.split('decision="')[1].split('"')[0]: float(line.rsplit(" ", 1)[1]) for line in found}


@every_case(("verdict", "reply"), [("safe", "Fine."), ("unsafe\nS1", ""), ("I cannot tell", "")])
def test_a_guard_model_decides_by_its_verdict(tmp_path_factory, verdict, reply):
    folder = tmp_path_factory.mktemp("guard")
    write_scripted_model(folder / "talk", ["Fine."])
    graph = (folder / "talk" / "graph.yaml").read_text()
    graph = graph.replace("      allowed:", "      #").replace("from: allowed", "from: logits")
    graph = graph.replace("reasoning: qwen3, tools: hermes", "guard: llama_guard")
    write_scripted_model(folder / "judge", [verdict], graph=graph)
    (folder / "judge" / "chat_template.jinja").write_text(LLAMA)
    write(folder / "safe", GRAPH % ("judge", "checks: [reply]"))

    async def scene(client):
        return choice_of(await client.post(CHAT, body("safe", "hi")))

    with held_open(folder) as play:
        assert play(scene) == (reply, "stop" if reply else "content_filter")
