"""Scores, samples, beams and guided outputs of a real server equal those of transformers, alone and in a batch."""

from __future__ import annotations

import asyncio
import json
import re
from functools import cache
from itertools import product
from typing import Any

import httpx
import jsonschema
import numpy as np
import pytest
from breadth import after
from exact_models import CHECKPOINT, END, ENGINES, VOCABULARY, Reference, export, write_model
from patience import PATIENCE_S
from server_process import ServerProcess
from tokenizers import Tokenizer

TOOLS = {"tools-hermes": "hermes", "tools-qwen": "qwen3_coder", "tools-gemma": "functiongemma"}
"""A family whose calls are written in its own form, one of XML, and one that falls back to plain JSON."""
WITHIN = 1e-4
TEXTS = ["The quick brown fox", "Once upon a time in a land far away, " * 4, "{'a': [1, 2, 3]}"]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    exported = export(tmp_path_factory.mktemp("exported") / "model")
    models = tmp_path_factory.mktemp("exact") / "models"
    for engine in ENGINES:
        write_model(models / engine, exported, engine)
    write_model(models / "tight", exported, "onnxruntime", memory_gb=0.0007)
    for name, tools in TOOLS.items():
        write_model(models / name, exported, "onnxruntime", tools)
    with ServerProcess(models) as running:
        running.all_ready()
        yield running


@pytest.fixture(scope="module")
def reference():
    return Reference()


@pytest.fixture(scope="module")
def tiny_tokenizer():
    return Tokenizer.from_file(str(CHECKPOINT / "tokenizer.json"))


@pytest.fixture(scope="module")
def prompts():
    """Of one token, shorter than a block, longer than a step, and some with a common beginning."""
    rng = np.random.default_rng(5)
    alone = [rng.integers(3, VOCABULARY, size=size).tolist() for size in (1, 2, 7, 33, 64, 150)]
    return [*alone, alone[5][:100] + alone[3], alone[5][:128] + alone[2], alone[4] + alone[4]]


async def post(client: httpx.AsyncClient, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = await client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def ask(server, bodies, path="/v1/completions", together=True) -> list[dict[str, Any]]:
    """The replies to requests sent one after the other, or all together."""

    async def scene():
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=server.url, timeout=PATIENCE_S, limits=limits) as client:
            if together:
                return await asyncio.gather(*(post(client, path, body) for body in bodies))
            return [await post(client, path, body) for body in bodies]

    return asyncio.run(scene())


def events(server, body, path="/v1/completions") -> list[dict[str, Any]]:
    with httpx.stream("POST", server.url + path, json={**body, "stream": True}, timeout=PATIENCE_S) as answer:
        lines = [line.removeprefix("data: ") for line in answer.iter_lines() if line.startswith("data: ")]
    assert lines.pop() == "[DONE]"
    return [json.loads(line) for line in lines]


# Scores of prompts


def scored(model: str, prompt, **more) -> dict[str, Any]:
    requested = {"model": model, "prompt": prompt, "echo": True, "logprobs": 1, "max_tokens": 0}
    return {**requested, "temperature": 0, **more}


def check_scores(answer: dict[str, Any], expected: list[float]) -> None:
    first, *rest = answer["choices"][0]["logprobs"]["token_logprobs"]
    assert first is None
    assert rest == pytest.approx(expected, abs=WITHIN)


def check_same(found: dict[str, list[Any]], expected: dict[str, list[Any]]) -> None:
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        for one, other in zip(found[name], values, strict=True):
            numbers = one is not None and not isinstance(one, str)
            assert one == (pytest.approx(other, abs=WITHIN) if numbers else other)


@pytest.mark.parametrize(
    ("model", "together"),
    after(2, [("onnxruntime", False), ("openvino", True), ("onnxruntime", True), ("openvino", False)]),
)
def test_an_echo_s_scores_are_those_of_transformers(model, together, server, reference, prompts):
    fresh = [scored(model, ids, cache_salt=f"{together}") for ids in prompts]
    for _ in range(2):  # the second time, what may be reused is in the cache
        answers = ask(server, fresh, together=together)
        for ids, answer in zip(prompts, answers, strict=True):
            check_scores(answer, reference.logprobs(ids))


@pytest.mark.parametrize("model", after(1, ENGINES))
def test_prompt_logprobs_are_those_of_transformers(model, server, reference, prompts):
    requested = [
        {"model": model, "prompt": ids, "prompt_logprobs": 3, "max_tokens": 2, "temperature": 0}
        for ids in prompts
    ]
    for ids, answer in zip(prompts, ask(server, requested), strict=True):
        first, *rest = answer["choices"][0]["prompt_logprobs"]
        rows = reference.log_softmax(ids)
        assert first is None
        assert len(rest) == len(ids) - 1
        for row, token, reported in zip(rows[:-1], ids[1:], rest, strict=True):
            wanted = {int(token_id) for token_id in np.argsort(-row)[:3]} | {token}
            assert {int(name) for name in reported} == wanted
            logprobs = {int(name): entry["logprob"] for name, entry in reported.items()}
            assert logprobs == pytest.approx({token_id: row[token_id] for token_id in wanted}, abs=WITHIN)
            assert reported[str(token)]["rank"] == 1 + int((row > row[token]).sum())


def test_a_conversation_s_scores_are_those_of_transformers(server, reference):
    messages = [{"role": "user", "content": TEXTS[1]}]
    requested = {"model": "onnxruntime", "messages": messages, "max_tokens": 4, "temperature": 0}
    requested |= {"prompt_logprobs": 0, "logprobs": True, "return_token_ids": True}
    (answer,) = ask(server, [requested], "/v1/chat/completions")
    ids = answer["prompt_token_ids"]
    reported = [
        entry[str(token)]["logprob"]
        for token, entry in zip(ids[1:], answer["prompt_logprobs"][1:], strict=True)
    ]
    drawn = [entry["logprob"] for entry in answer["choices"][0]["logprobs"]["content"]]
    every = ids + answer["choices"][0]["token_ids"]
    assert reported + drawn == pytest.approx(reference.logprobs(every), abs=WITHIN)


@pytest.mark.parametrize("max_tokens", after(1, [5, 0]))
def test_text_and_ids_and_streams_are_scored_alike(max_tokens, server, reference, tiny_tokenizer):
    for text in TEXTS:
        ids = tiny_tokenizer.encode(text).ids
        more = {"max_tokens": max_tokens, "return_token_ids": True}
        by_text, by_ids = ask(server, [scored("onnxruntime", prompt, **more) for prompt in (text, ids)])
        choice = by_text["choices"][0]
        check_scores(by_text, reference.logprobs(ids + choice["token_ids"]))
        check_same(by_ids["choices"][0]["logprobs"], choice["logprobs"])
        pieces = [event["choices"][0] for event in events(server, scored("onnxruntime", text, **more))]
        reported = [piece["logprobs"] for piece in pieces if piece["logprobs"]]
        joined = {name: [value for part in reported for value in part[name]] for name in choice["logprobs"]}
        check_same(joined, choice["logprobs"])
        assert "".join(piece["text"] for piece in pieces) == choice["text"]


def loglikelihoods(server, pairs, num_tokens: int) -> list[tuple[float, bool]]:
    """(sum of the continuation's log-probabilities, whether it is the greedy one), as lm-eval reads them."""
    body = {"model": "onnxruntime", "prompt": [context + rest for context, rest in pairs], "temperature": 0}
    body |= {"max_tokens": num_tokens, "logprobs": 1, "seed": 1234, "echo": True}
    (answer,) = ask(server, [body])
    texts = []
    for choice, (context, rest) in zip(answer["choices"], pairs, strict=True):
        logprobs = choice["logprobs"]
        place = slice(len(context), len(context) + len(rest))
        tokens, tops = logprobs["token_logprobs"][place], logprobs["top_logprobs"][place]
        greedy = all(token == max(top.values()) for token, top in zip(tokens, tops, strict=True))
        texts.append((sum(tokens), greedy))
    return texts


@pytest.mark.parametrize("num_tokens", after(1, [1, 0]))
def test_an_evaluation_s_likelihoods_are_those_of_transformers(num_tokens, server, reference, prompts):
    pairs = [(ids[:-3], ids[-3:]) for ids in prompts if len(ids) > 6]
    for context, _ in pairs[:4]:
        greedy = list(context)
        for _ in range(3):
            greedy.append(int(reference.log_softmax(greedy)[-1].argmax()))
        pairs.append((context, greedy[-3:]))
    likelihoods = loglikelihoods(server, pairs, num_tokens)
    for (context, rest), (total, is_greedy) in zip(pairs, likelihoods, strict=True):
        rows = reference.log_softmax(context + rest)[len(context) - 1 : -1]
        assert total == pytest.approx(sum(rows[range(len(rest)), rest]), abs=3 * WITHIN)
        assert is_greedy == (rows.argmax(1).tolist() == rest)


# Beams


@pytest.mark.parametrize(
    ("width", "count", "penalty"), after(1, [(3, 2, -1.0), (4, 4, 0.5), (2, 1, 1.0), (5, 3, 2.0)])
)
def test_beams_are_those_of_transformers(width, count, penalty, server, reference, prompts):
    requested = {
        "model": "onnxruntime",
        "n": count,
        "best_of": width,
        "length_penalty": penalty,
        "max_tokens": 12,
    }
    requested |= {"return_token_ids": True}
    some = [prompts[1], prompts[3], prompts[5]]
    bodies = [{**requested, "prompt": ids} for ids in some]
    expected = [reference.beams(ids, width, count, 12, length_penalty=penalty) for ids in some]
    more = {"use_beam_search": True, "temperature": 0}
    for answers in (
        ask(server, [body | more for body in bodies], "/v1/completions"),
        ask(server, bodies, "/v3/completions"),
    ):
        assert [[choice["token_ids"] for choice in answer["choices"]] for answer in answers] == expected


# Seeds


def drawing(model: str, prompts, max_tokens: int = 48) -> list[dict[str, Any]]:
    """Requests of many kinds, each with a seed."""
    kinds = [
        {"temperature": 1.0},
        {"temperature": 0.7, "top_p": 0.9},
        {"temperature": 1.3, "top_k": 50, "n": 3},
        {"temperature": 1.0, "structured_outputs": {"regex": "[a-z ]{20,40}"}, "n": 2},
        {"temperature": 1.0, "min_p": 0.01, "presence_penalty": 0.5, "frequency_penalty": 0.2},
    ]
    requested = {"model": model, "max_tokens": max_tokens, "ignore_eos": True, "return_token_ids": True}
    return [
        {**requested, **kind, "prompt": ids, "seed": seed}
        for seed, (kind, ids) in enumerate(zip(kinds * 2, prompts[-5:] + prompts[1:6], strict=True))
    ]


def drawn(answers) -> list[list[Any]]:
    return [[(choice["token_ids"], choice["text"]) for choice in answer["choices"]] for answer in answers]


@pytest.mark.parametrize("model", after(1, ENGINES))
def test_a_seed_draws_the_same_in_any_company(model, server, prompts):
    bodies = drawing(model, prompts, max_tokens=24)
    alone = drawn(ask(server, bodies, together=False))
    assert drawn(ask(server, bodies[::-1]))[::-1] == alone
    others = [{**body, "seed": 1000 + at} for at, body in enumerate(bodies)]
    assert drawn(ask(server, [*others, *bodies]))[len(others) :] == alone


def test_a_seed_draws_the_same_after_a_preemption(server, prompts):
    alone = drawn(ask(server, drawing("onnxruntime", prompts)))
    assert drawn(ask(server, drawing("tight", prompts))) == alone
    server.wait_for(lambda: server.metric("vllm:num_preemptions_total", "tight") > 0)


def test_the_best_of_several_samples_are_the_likeliest(server, prompts):
    requested = {"model": "onnxruntime", "prompt": prompts[3], "max_tokens": 12, "temperature": 1, "seed": 4}
    requested |= {"logprobs": 0, "ignore_eos": True}
    every, best = ask(server, [{**requested, "n": 8}, {**requested, "n": 3, "best_of": 8}])

    def mean(choice):
        return np.mean(choice["logprobs"]["token_logprobs"])

    likeliest = sorted(every["choices"], key=mean, reverse=True)[:3]
    assert [choice["text"] for choice in best["choices"]] == [choice["text"] for choice in likeliest]


# Structured outputs

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "tags": {"type": "array", "items": {"enum": ["a", "b", "c"]}, "maxItems": 3},
        "home": {
            "type": "object",
            "properties": {"street": {"type": "string", "maxLength": 8}, "zip": {"pattern": "^[0-9]{5}$"}},
            "required": ["zip"],
            "additionalProperties": False,
        },
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}
LIST = 'start: "[" item ("," item){0,3} "]"\nitem: /[0-9]{1,3}/ | "(" item ")"\n'


def is_person(text: str) -> bool:
    jsonschema.validate(json.loads(text), PERSON)
    return True


def is_list(text: str) -> bool:
    return re.fullmatch(r"\[\(*\d{1,3}\)*(,\(*\d{1,3}\)*){0,3}\]", text) and text.count("(") == text.count(
        ")"
    )


GUIDES = {
    "choice": ({"choice": ["yes", "no", "yes and no"]}, lambda text: text in ("yes", "no", "yes and no")),
    "regex": (
        {"regex": r"(\d{1,3}\.){3}\d{1,3}"},
        lambda text: re.fullmatch(r"([0-9]{1,3}\.){3}[0-9]{1,3}", text),
    ),
    "json": ({"json": PERSON}, is_person),
    "grammar": ({"grammar": LIST}, is_list),
}


@pytest.mark.parametrize("model", after(1, ENGINES))
def test_guided_outputs_match_their_guides(model, server):
    """Four choices of each of eight concurrent requests, on random weights."""
    requested = {"model": model, "prompt": TEXTS[0], "temperature": 1, "n": 4, "max_tokens": 300}
    jobs = [(name, seed) for name in GUIDES for seed in range(2)]
    bodies = [{**requested, "seed": seed, "structured_outputs": GUIDES[name][0]} for name, seed in jobs]
    ended = 0
    for (name, _), answer in zip(jobs, ask(server, bodies), strict=True):
        for choice in answer["choices"]:
            if choice["finish_reason"] == "stop":
                ended += 1
                assert GUIDES[name][1](choice["text"]), (name, choice)
    assert ended > 0.9 * 4 * len(jobs)


@pytest.mark.parametrize("model", after(1, ENGINES))
def test_the_log_probability_of_the_end_is_that_of_transformers(model, server, reference, prompts):
    """What a trainer needs to learn when to stop: of the end that is drawn, and of one that a grammar forces."""
    drawn = {
        "model": model,
        "max_tokens": 3,
        "logprobs": 0,
        "return_token_ids": True,
        "allowed_token_ids": [END],
    }
    forced = {
        "model": model,
        "logprobs": 0,
        "return_token_ids": True,
        "structured_outputs": {"choice": ["yes"]},
    }
    answers = ask(server, [{**asked, "prompt": ids} for ids in prompts[:6] for asked in (drawn, forced)])
    for at, answer in enumerate(answers):
        prompt, choice = prompts[at // 2], answer["choices"][0]
        token_ids, reported = choice["token_ids"], choice["logprobs"]["token_logprobs"]
        assert (token_ids[-1], choice["finish_reason"]) == (END, "stop")
        assert answer["usage"]["completion_tokens"] == len(token_ids) == len(reported)
        expected = reference.logprobs(prompt + token_ids)[len(prompt) - 1 :]
        assert reported == pytest.approx(expected, abs=WITHIN)


def test_log_probabilities_under_a_grammar_are_the_model_s_own(server, reference):
    requested = {"model": "onnxruntime", "prompt": TEXTS[0], "temperature": 1, "seed": 1, "max_tokens": 60}
    requested |= {"structured_outputs": {"json": PERSON}, "logprobs": 2, "return_token_ids": True}
    (answer,) = ask(server, [requested])
    choice = answer["choices"][0]
    prompt, made = choice["prompt_token_ids"], choice["token_ids"]
    reported = choice["logprobs"]["token_logprobs"]
    assert reported == pytest.approx(
        reference.logprobs(prompt + made)[len(prompt) - 1 :][: len(reported)], abs=WITHIN
    )


# Calls of tools

TOOL = {"type": "function", "function": {"name": "register", "parameters": PERSON}}
OTHER = {
    "type": "function",
    "function": {
        "name": "wait",
        "parameters": {
            "type": "object",
            "properties": {"seconds": {"type": "number", "minimum": 0}, "why": {"enum": ["rain", "</tool>"]}},
            "required": ["seconds", "why"],
            "additionalProperties": False,
        },
    },
}
SCHEMAS = {each["function"]["name"]: each["function"]["parameters"] for each in (TOOL, OTHER)}
NAMED = {"type": "function", "function": {"name": "register"}}
NUM_SEEDS = [4, 24]
"""In `make test`, and in `make breadth`."""


def calling(model: str, choice: Any, seed: int) -> dict[str, Any]:
    return {
        "model": model,
        "messages": [{"role": "user", "content": "Register Anna."}],
        "tools": [TOOL, OTHER],
        "tool_choice": choice,
        "temperature": 1.3,
        "seed": seed,
        "max_tokens": 240,
        "parallel_tool_calls": seed % 2 == 0,
    }


CHOICES = {"required": "required", "named": NAMED}
ALWAYS = list(zip(TOOLS, ("required", "named", "required"), strict=True))
FORCED = after(len(ALWAYS), ALWAYS + [each for each in product(TOOLS, CHOICES) if each not in ALWAYS])


@pytest.fixture(scope="module")
def called(server):
    """`called(model, choice, num_seeds)` → a body of each seed and the replies, requested together once."""

    @cache
    def requested(model, choice, num_seeds):
        bodies = [calling(model, CHOICES[choice], seed) for seed in range(num_seeds)]
        return bodies, ask(server, bodies, "/v1/chat/completions")

    return requested


@pytest.mark.parametrize("num_seeds", after(1, NUM_SEEDS))
@pytest.mark.parametrize(("model", "choice"), FORCED)
def test_forced_calls_hold_to_their_schemas(model, choice, num_seeds, called):
    bodies, answers = called(model, choice, num_seeds)
    ended = 0
    for body, answer in zip(bodies, answers, strict=True):
        reply = answer["choices"][0]
        if reply["finish_reason"] == "length":
            continue
        ended += 1
        calls = reply["message"]["tool_calls"]
        assert calls, (body, reply)
        assert body["parallel_tool_calls"] or len(calls) == 1
        for call in calls:
            name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
            assert choice == "required" or name == "register"
            jsonschema.validate(arguments, SCHEMAS[name])
    assert ended > 0.3 * len(bodies)  # the others lost their way in a number without an end


@pytest.mark.parametrize("seeds", after(1, [range(1), range(1, 3)]), ids=["one", "more"])
@pytest.mark.parametrize(("model", "choice"), FORCED)
def test_streamed_calls_are_the_whole_calls(model, choice, seeds, called, server):
    bodies, answers = called(model, choice, NUM_SEEDS[0])
    for seed in seeds:
        whole = answers[seed]["choices"][0]["message"].get("tool_calls") or []
        joined: dict[int, list[str]] = {}
        for event in events(server, bodies[seed], "/v1/chat/completions"):
            for piece in event["choices"][0]["delta"].get("tool_calls") or []:
                name, arguments = piece["function"].get("name"), piece["function"].get("arguments")
                joined_call = joined.setdefault(piece["index"], ["", ""])
                joined[piece["index"]] = [joined_call[0] + (name or ""), joined_call[1] + (arguments or "")]
        reported = [[call["function"]["name"], call["function"]["arguments"]] for call in whole]
        assert list(joined.values()) == reported
