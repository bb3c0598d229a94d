"""Ids and log-probabilities hold every token that usage counts, however a choice ends; bytes are the text's."""

from __future__ import annotations

import asyncio
import json

import pytest
from asgi_client import AsgiClient
from fake_decoder import FAKE_GRAPH, write_fake_model
from one_test import in_one_test

from pipelines.host.in_process import InProcessClient
from pipelines.host.models.loader import ModelSource
from server.app import create_app
from server.base.settings import Settings
from server.connect import make_services

pytestmark = pytest.mark.slow

ENDS = [3, 50, 97, 98, 150, 180, 200, 257, 258]
LETTERS = list(range(65, 91))
FORMS = {
    "logits: {type: model, from: step,": "logits: {type: model, from: drafted,",
    "      logits:": "      drafted: {type: lookup, from: step, num_draft_tokens: 3, adaptive: false}\n      logits:",
}
GUIDED = FAKE_GRAPH.replace(
    "      next: {type: sampler, from: logits}",
    "      allowed: {type: grammar, from: logits, tokenizer: tokenizer.json}\n"
    "      next: {type: sampler, from: allowed}",
)
TOOL = {
    "type": "function",
    "function": {
        "name": "ping",
        "parameters": {
            "type": "object",
            "properties": {"on": {"type": "boolean"}},
            "required": ["on"],
            "additionalProperties": False,
        },
    },
}
NAMED = {"type": "function", "function": {"name": "ping"}}
REPEATS = {"min_pattern_size": 1, "max_pattern_size": 3, "min_count": 3}
ALL = {"ignore_eos": True}
WAYS = {
    "an end token of the model": {},
    "an end token, drafted": {"allowed_token_ids": [70, 71, 97]},
    "a stop token": {"stop_token_ids": LETTERS, **ALL},
    "a stop token that is text": {"stop_token_ids": LETTERS, **ALL, "include_stop_str_in_output": True},
    "a stop string": {"stop": ["A", "B", "C", "D"], **ALL, "allowed_token_ids": LETTERS},
    "a stop string of several tokens": {
        "stop": ["FG", "GF"],
        **ALL,
        "allowed_token_ids": [*LETTERS[:3], 37, 38],
    },
    "a stop string that stays": {"stop": ["A"], **ALL, "include_stop_str_in_output": True},
    "a stop string or an end": {"stop": ["zz"], "include_stop_str_in_output": True},
    "length": {"max_tokens": 7, **ALL},
    "length in a character": {"max_tokens": 7, **ALL, "allowed_token_ids": list(range(130, 250))},
    "the end before min_tokens": {"min_tokens": 20},
    "a repetition": {"repetition_detection": REPEATS, **ALL, "allowed_token_ids": [70, 71]},
    "a grammar that cannot go on": {"structured_outputs": {"choice": ["yes", "no"]}},
    "a grammar that may end": {"structured_outputs": {"regex": "[a-f]{2,40}"}},
    "a grammar and no end": {"structured_outputs": {"regex": "[a-f]{3}"}, **ALL},
    "a grammar that is cut": {"structured_outputs": {"regex": "[a-f]{30}"}, "max_tokens": 4},
    "a grammar with an end token as a stop token": {
        "structured_outputs": {"choice": ["yes"]},
        **ALL,
        "stop_token_ids": [258],
    },
    "the end alone": {"allowed_token_ids": [97]},
    "beams": {"use_beam_search": True, "n": 3, "temperature": 0},
    "beams of one length": {"use_beam_search": True, "n": 2, "temperature": 0, **ALL, "max_tokens": 5},
}
CHATS = {
    "a tool that must be called": {"tools": [TOOL], "tool_choice": "required", "max_tokens": 120},
    "a named tool": {"tools": [TOOL], "tool_choice": NAMED, "max_tokens": 120},
    "a tool call that is cut": {"tools": [TOOL], "tool_choice": "required", "max_tokens": 5},
    "a spent budget": {
        "thinking_token_budget": 4,
        "chat_template_kwargs": {"think": True},
        "structured_outputs": {"choice": ["yes", "no"]},
    },
}
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
ASKED = {"max_tokens": 28, "temperature": 1.0, "seed": 4, "return_token_ids": True}


def is_asked(way, model, path) -> bool:
    """Tools are asked for in chats, which end in every other way by the plain model: ends are found below both."""
    return path == CHAT if way in CHATS else path == COMPLETIONS or model == "plain"


@pytest.fixture(scope="module")
def replies(tmp_path_factory):
    """The replies of both models to each way to end, by path: whole, without log-probabilities, as a stream."""
    folder = tmp_path_factory.mktemp("models")
    drafted = GUIDED
    for before, after in FORMS.items():
        drafted = drafted.replace(before, after)
    for name, graph in {"plain": GUIDED, "drafted": drafted}.items():
        write_fake_model(folder / name, graph, sight_tokens=2)
        template = (folder / name / "chat_template.jinja").read_text()
        opened = "{%- if think is defined %}{{- '<think>' }}{%- endif %}"
        (folder / name / "chat_template.jinja").write_text(template + opened)
        (folder / name / "config.json").write_text(json.dumps({"eos_token_id": ENDS}))

    async def scene():
        client = InProcessClient(ModelSource(folder))
        settings = Settings()
        services = make_services(settings, client)
        async with AsgiClient(create_app(services)) as asgi:
            while len([card for card in services.catalogue.cards() if card.state == "ready"]) < 2:
                await asyncio.sleep(0.02)

            async def ask(path, body):
                answer = await asgi.post(path, body)
                assert answer.status == 200, answer.body
                return answer

            answers_found = {}
            for way, more in [*WAYS.items(), *CHATS.items()]:
                asked_for = {}
                for model in ("plain", "drafted"):
                    body = {**ASKED, "model": model, **more}
                    asked = {
                        CHAT: {**body, "messages": [{"role": "user", "content": "hi"}], "logprobs": True},
                        COMPLETIONS: {**body, "prompt": "hello", "logprobs": 0},
                    }
                    for path, whole_body in asked.items():
                        if not is_asked(way, model, path):
                            continue
                        stream = whole_body | {"stream": True, "stream_options": {"include_usage": True}}
                        bare = {name: value for name, value in whole_body.items() if name != "logprobs"}
                        asked_for[way, model, path] = (
                            (whole_body, bare) if "beams" in way else (whole_body, bare, stream)
                        )
                requested = [ask(path, body) for (_, _, path), some in asked_for.items() for body in some]
                answers = iter(await asyncio.gather(*requested))
                answers_found |= {case: [next(answers) for _ in some] for case, some in asked_for.items()}
            return answers_found

    return asyncio.run(scene())


CASES = [
    (way, model, path)
    for way in [*WAYS, *CHATS]
    for model in ("plain", "drafted")
    for path in (CHAT, COMPLETIONS)
    if is_asked(way, model, path)
]


def num_logprobs(choice) -> int:
    found = choice["logprobs"] or {}
    return len(found.get("content") or found.get("token_logprobs") or [])


def joined(answer) -> dict[int, dict]:
    """The choices of a stream: ids, number of log-probabilities and how they ended."""
    *chunks, last, done = answer.events
    assert (done, last["choices"]) == ("[DONE]", [])
    choices: dict[int, dict] = {}
    for choice in (choice for chunk in chunks for choice in chunk["choices"]):
        joined_choice = choices.setdefault(choice["index"], {"ids": [], "logprobs": 0})
        joined_choice["ids"] += choice.get("token_ids") or []
        joined_choice["logprobs"] += num_logprobs(choice)
        joined_choice["end"] = choice["finish_reason"], choice.get("stop_reason")
    return choices


@in_one_test("case", CASES)
def test_ids_and_log_probabilities_hold_every_token_that_is_counted(case, replies):
    whole, _, *streamed = replies[case]
    choices = whole.json["choices"]
    counts = [len(choice["token_ids"]) for choice in choices]
    assert [num_logprobs(choice) for choice in choices] == counts
    assert sum(counts) == whole.json["usage"]["completion_tokens"]
    assert min(counts) >= 1
    for stream in streamed:  # a beam search is sent whole
        choices_found = joined(stream)
        assert [joined_choice["logprobs"] for joined_choice in choices_found.values()] == counts
        assert [joined_choice["ids"] for joined_choice in choices_found.values()] == [
            choice["token_ids"] for choice in choices
        ]
        assert stream.events[-2]["usage"]["completion_tokens"] == sum(counts)
        ends = [(choice["finish_reason"], choice["stop_reason"]) for choice in choices]
        assert [joined_choice["end"] for joined_choice in choices_found.values()] == ends


@in_one_test("case", CASES)
def test_log_probabilities_change_no_token(case, replies):
    whole, bare, *_ = replies[case]
    named = ("token_ids", "finish_reason", "stop_reason")
    assert [[choice[name] for name in named] for choice in whole.json["choices"]] == [
        [choice[name] for name in named] for choice in bare.json["choices"]
    ]
    assert whole.json["usage"]["completion_tokens"] == bare.json["usage"]["completion_tokens"]


@in_one_test("case", CASES)
def test_the_last_id_of_a_choice_that_stopped_is_the_end_token(case, replies):
    for choice in replies[case][0].json["choices"]:
        reason, last = choice["stop_reason"], choice["token_ids"][-1]
        if choice["finish_reason"] in ("stop", "tool_calls") and not isinstance(reason, str):
            assert last == reason if reason is not None else last in ENDS


@in_one_test("case", [case for case in CASES if "completions" in case[2]])
def test_the_bytes_of_the_tokens_concatenate_to_the_text(case, replies):
    """Up to the end token, and to a character that the end cut off."""
    way, _, path = case
    if "chat" not in path or way in CHATS:
        return
    for choice in replies[case][0].json["choices"]:
        entries = choice["logprobs"]["content"]
        stopped = choice["finish_reason"] == "stop" and not isinstance(choice["stop_reason"], str)
        if stopped and "include_stop_str_in_output" not in WAYS[way]:
            entries = entries[:-1]
        raw = bytes(byte for entry in entries for byte in entry["bytes"])
        text = choice["message"]["content"]
        if isinstance(choice["stop_reason"], str):
            assert raw.decode(errors="replace").startswith(text)
        else:
            special = raw.decode(errors="replace").replace("<|im_end|>", "").replace("<|endoftext|>", "")
            assert special.rstrip("\N{REPLACEMENT CHARACTER}") == text
            assert not text.endswith("\N{REPLACEMENT CHARACTER}")


def test_the_ways_to_end_are_met(replies):
    met = {
        (choice["finish_reason"], type(choice["stop_reason"]).__name__)
        for whole, *_ in replies.values()
        for choice in whole.json["choices"]
    }
    wanted = {("stop", "NoneType"), ("stop", "int"), ("stop", "str"), ("length", "NoneType")}
    assert met >= {*wanted, ("repetition", "str"), ("tool_calls", "NoneType")}
    accepted = [
        (whole.json["usage"]["completion_tokens_details"] or {}).get("accepted_prediction_tokens", 0)
        for (_, model, _), (whole, *_) in replies.items()
        if model == "drafted"
    ]
    assert sum(accepted) > 20
