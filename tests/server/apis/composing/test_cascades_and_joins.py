"""Cascades and joins over HTTP: the reply is that of one of the models, or what is made of all of theirs."""

from __future__ import annotations

import asyncio
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
from documents import ROOT
from fake_decoder import FAKE_GRAPH, write_fake_model
from scripted_model import GRAPH as SCRIPTED
from scripted_model import held_open, write_scripted_model

CHAT = "/v1/chat/completions"
QUESTION = "How far away is the moon?"
CASCADE = "graph: tiny, larger: other, at_least"
NEARLY = "The moon is about 384,000 kilometres away from the earth."
EXACTLY = NEARLY.replace("about ", "on average ")
DECIDED = "graph: nearly, larger: exactly, measure: decision, by: other"
LOOKUP = "drafted: {type: lookup, from: step, adaptive: false}"
JOINS = {
    "vote": ("chat", "graphs: [yes, no, loud], how: majority"),
    "surest": ("chat", "graphs: [tiny, other], how: best"),
    "ranked": ("chat", "graphs: [yes, far], how: best, by: ranking"),
    "mixed": ("classify", "graphs: [feelings, moods], how: mean, weights: [3, 1]"),
    "fused": ("rerank", "graphs: [ranking, again], how: fuse"),
}
NESTED = {
    "within": ("cascade", "graph: not_taken, larger: taken, at_least: -100"),
    "beyond": ("cascade", "graph: not_taken, larger: taken, at_least: 0"),
    "asked_of_both": ("join", "graphs: [within, beyond], how: best"),
    "all": ("join", "graphs: [vote, no, yes, guarded, loud, far, no, no], how: majority"),
    "guarded": ("guard", "graph: vote, by: feelings, labels: [negative], threshold: 1"),
}
"""Cascades whose models are cascades, and joins of joins, of guards and of cascades."""
JUDGED = "It is exact."
ASKS = f"""\
version: 1
task: chat
nodes:
  topic: {{type: decide, graph: other, from: request, question: {JUDGED}, options: [moon, bread, law]}}
  holds: {{type: decide, graph: other, from: request, question: {JUDGED}}}
  reply:
    type: ask
    graph: yes
    from: {{topic: topic, holds: holds}}
    template: "{{{{ topic }}}} {{{{ topic.scores.moon }}}} {{{{ holds.scores.yes }}}}"
"""
GRAPH = "version: 1\ntask: {}\nnodes:\n  reply: {{type: {}, from: request, {}}}\n"


def write(folder: Path, *parts: str) -> None:
    folder.mkdir()
    (folder / "graph.yaml").write_text(GRAPH.format(*parts))


def chat(model, **more):
    asked = {"role": "user", "content": QUESTION}
    return {"model": model, "messages": [asked], "max_tokens": 6, "temperature": 0, "ignore_eos": True} | more


def write_two(folder: Path) -> None:
    """The models that cascades name."""
    write_fake_model(folder / "tiny", FAKE_GRAPH, max_context=128)
    write_fake_model(folder / "other")
    template = (folder / "other" / "chat_template.jinja").read_text()
    (folder / "other" / "chat_template.jinja").write_text("Other:\n" + template)


def write_joined(folder: Path) -> None:
    """The models that joins name beside these."""
    for name, text in (
        ("yes", "Yes."),
        ("no", "No."),
        ("loud", "YES."),
        ("far", "The moon is 384,000 km away."),
    ):
        write_scripted_model(folder / name, [text])
    write_scripted_model(folder / "nearly", [NEARLY])
    drafting = SCRIPTED.replace(
        "logits: {type: model, from: step", f"{LOOKUP}\n      logits: {{type: model, from: drafted"
    )
    write_scripted_model(folder / "exactly", [EXACTLY], graph=drafting)
    shutil.copytree(ROOT / "model_repo" / "braid-sentiment", folder / "feelings")
    shutil.copytree(folder / "feelings", folder / "moods")
    graph = folder / "moods" / "graph.yaml"
    graph.write_text(graph.read_text().replace("type: softmax", "type: sigmoid"))
    for name in ("ranking", "again"):
        shutil.copytree(ROOT / "model_repo" / "braid-rerank", folder / name)


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """Runs scenes with a client of all models; the bounds of cascades are beside what was measured over HTTP."""
    folder = tmp_path_factory.mktemp("models")
    write_two(folder)
    with held_open(folder, responses_store=False) as play:
        mean, least, entropy = play(measured)
        share = play(lambda client: decided(client, f"Request: {QUESTION}\n\nReply: {NEARLY}", JUDGED))
    write_joined(folder)
    for name, measure, bound in (
        ("taken", "mean_logprob", mean - 0.001),
        ("not_taken", "mean_logprob", mean + 0.001),
        ("least_taken", "least_logprob", least - 0.001),
        ("least_not_taken", "least_logprob", least + 0.001),
        ("entropy_taken", "entropy", -entropy - 0.001),
        ("entropy_not_taken", "entropy", -entropy + 0.001),
    ):
        write(folder / name, "chat", "cascade", f"{CASCADE}: {bound}, measure: {measure}")
    for name, (task, settings) in JOINS.items():
        write(folder / name, task, "join", settings)
    settings = f"{DECIDED}, question: {JUDGED}, at_least"
    for name, bound in (("agreed", share - 0.001), ("denied", share + 0.001)):
        write(folder / name, "chat", "cascade", f"{settings}: {bound}")
    write(folder / "undrafted", "chat", "cascade", f"{settings}: {share + 0.001}, drafts: false")
    for name, settings in NESTED.items():
        write(folder / name, "chat", *settings)
    (folder / "asks").mkdir()
    (folder / "asks" / "graph.yaml").write_text(ASKS)
    with held_open(folder, responses_store=False) as play:
        yield play


async def measured(client):
    """The mean and the least of the log-probabilities of the small model's reply, and its mean entropy."""
    logprobs_found = await logprobs(client, "tiny")
    answer = await client.post(CHAT, chat("tiny", logprobs=True, top_logprobs=20))
    tokens = answer.json["choices"][0]["logprobs"]["content"]
    places = [
        {
            tuple(alternative["bytes"]): alternative["logprob"]
            for alternative in [token, *token["top_logprobs"]]
        }
        for token in tokens
    ]
    entropies = [-sum(math.exp(logprob) * logprob for logprob in place.values()) for place in places]
    return sum(logprobs_found) / len(logprobs_found), min(logprobs_found), sum(entropies) / len(entropies)


async def decided(client, text, statement):
    """How probable a statement about a text is, by the endpoint for decisions."""
    asked = {"type": "predicate", "instructions": statement}
    answer = await client.post("/v1/decisions", {"model": "other", "input": text, "questions": [asked]})
    return answer.json["answers"][0]["probability"]


async def logprobs(client, model):
    answer = await client.post(CHAT, chat(model, logprobs=True))
    return [token["logprob"] for token in answer.json["choices"][0]["logprobs"]["content"]]


async def choice_of(client, model, **more):
    answer = await client.post(CHAT, chat(model, **more))
    assert answer.status == 200, answer.body
    return answer.json["choices"], answer.json["usage"]


async def text_of_stream(client, model):
    answer = await client.post(CHAT, chat(model, stream=True))
    events = [event["choices"][0] for event in answer.events if event != "[DONE]"]
    return "".join(event["delta"].get("content") or "" for event in events)


def test_a_cascade_gives_the_whole_reply_of_one_model(played):
    async def scene(client):
        small, spent = await choice_of(client, "tiny")
        large, more = await choice_of(client, "other")
        assert small != large
        for name in ("taken", "least_taken", "entropy_taken"):
            choices, used = await choice_of(client, name)
            assert choices == small
            assert used["completion_tokens"] == spent["completion_tokens"]
            assert used["prompt_tokens"] == spent["prompt_tokens"]
            assert await text_of_stream(client, name) == small[0]["message"]["content"]
        for name in ("not_taken", "least_not_taken", "entropy_not_taken"):
            choices, used = await choice_of(client, name)
            assert choices == large
            assert used["completion_tokens"] == spent["completion_tokens"] + more["completion_tokens"]
            assert used["prompt_tokens"] == spent["prompt_tokens"] + more["prompt_tokens"]
            assert await text_of_stream(client, name) == large[0]["message"]["content"]

    played(scene)


def test_a_cascade_shows_log_probabilities_where_they_are_wanted(played):
    async def scene(client):
        assert (await choice_of(client, "taken"))[0][0]["logprobs"] is None
        assert await logprobs(client, "taken") == await logprobs(client, "tiny")
        for more in ({}, {"top_logprobs": 2}):
            own = await choice_of(client, "tiny", logprobs=True, **more)
            assert (await choice_of(client, "entropy_taken", logprobs=True, **more))[0] == own[0]

    played(scene)


def test_the_larger_model_answers_what_the_small_one_cannot(played):
    async def scene(client):
        long = {"messages": [{"role": "user", "content": "word " * 60}]}
        assert (await client.post(CHAT, chat("tiny", **long))).status == 400
        larger, _ = await choice_of(client, "other", **long)
        assert (await choice_of(client, "taken", **long))[0] == larger

    played(scene)


def test_several_choices_are_taken_together(played):
    async def scene(client):
        sampled = {"n": 3, "temperature": 1, "seed": 4}
        assert len((await choice_of(client, "taken", **sampled))[0]) == 3

    played(scene)


def test_most_votes_win(played):
    async def scene(client):
        for stream in (False, True):
            text = await text_of_stream(client, "vote") if stream else (await choice_of(client, "vote"))[0]
            assert (text if stream else text[0]["message"]["content"]) == "Yes."
        assert (await client.post(CHAT, chat("vote", n=2))).status == 400

    played(scene)


def test_cascades_and_joins_are_models_of_others(played):
    """The models asked are tiny and other for `not_taken`, tiny alone for `taken`."""

    async def scene(client):
        (small, spent), (large, more) = [await choice_of(client, name) for name in ("tiny", "other")]
        for name, choices, models in (
            ("within", large, (spent, more)),
            ("beyond", small, (spent, more, spent)),
        ):
            reply, used = await choice_of(client, name)
            assert reply == choices
            for kind in ("prompt_tokens", "completion_tokens"):
                assert used[kind] == sum(usage[kind] for usage in models), (name, kind)
            assert await text_of_stream(client, name) == choices[0]["message"]["content"]
            own = "other" if name == "within" else "tiny"
            assert await logprobs(client, name) == await logprobs(client, own)
        means = [float(np.mean(await logprobs(client, name))) for name in ("within", "beyond")]
        best, _ = await choice_of(client, "asked_of_both")
        assert best == (large if means[0] >= means[1] else small)
        (voted,), _ = await choice_of(client, "all", max_tokens=40, ignore_eos=False)
        assert voted["message"]["content"] == "Yes."  # of eight: YES. by a join, its guard, `yes` and `loud`

    played(scene)


def test_the_surest_reply_is_the_best(played):
    async def scene(client):
        means = {name: np.mean(await logprobs(client, name)) for name in ("tiny", "other")}
        best = max(means, key=lambda name: means[name])
        assert (await choice_of(client, "surest"))[0] == (await choice_of(client, best))[0]

    played(scene)


def test_a_ranking_model_finds_the_best_answer(played):
    async def scene(client):
        (choice,), _ = await choice_of(client, "ranked", max_tokens=30)
        assert choice["message"]["content"] == "The moon is 384,000 km away."

    played(scene)


def test_probabilities_are_averaged(played):
    async def scene(client):
        found = {}
        for name in ("feelings", "moods", "mixed"):
            answer = await client.post("/classify", {"model": name, "input": ["I loved it", "Awful"]})
            found[name] = np.array([each["probs"] for each in answer.json["data"]])
        assert np.allclose(found["mixed"], 0.75 * found["feelings"] + 0.25 * found["moods"], atol=1e-6)
        assert not np.allclose(found["feelings"], found["moods"])

    played(scene)


def test_rankings_are_fused(played):
    async def scene(client):
        asked = {"query": QUESTION, "documents": ["Dough rises.", "The moon is far.", "Yes."]}
        own = (await client.post("/rerank", {"model": "ranking", **asked})).json["results"]
        fused = (await client.post("/rerank", {"model": "fused", **asked})).json["results"]
        assert [each["index"] for each in fused] == [each["index"] for each in own]
        assert np.allclose([each["relevance_score"] for each in fused], [2 / 61, 2 / 62, 2 / 63])

    played(scene)


async def paused(client, model):
    """The answer to a request whose calls of other models a pause ends."""
    await client.post("/pause?mode=keep", {})
    asking = asyncio.create_task(client.post(CHAT, chat(model), **{"X-Braid-Trace": "1"}))
    while not asking.done():
        await client.post("/pause?mode=abort", {})
    await client.post("/resume", {})
    return asking.result()


def test_a_decision_that_a_pause_ends_is_no_error_of_the_server(played):
    async def scene(client):
        answer = await paused(client, "asks")
        assert (answer.status, answer.error["type"]) == (400, "BadRequestError")
        assert answer.error["message"].endswith("The request was cancelled.")

    played(scene)


def test_no_further_model_is_asked_where_a_pause_ends_the_first_reply(played):
    async def scene(client):
        found = (await paused(client, "not_taken")).json
        assert found["choices"][0]["finish_reason"] == "abort"
        assert found["trace"]["decisions"] == {"reply": "tiny"}

    played(scene)


def test_a_decision_about_a_reply_takes_it_or_has_the_larger_model_verify_it(played):
    async def scene(client):
        asked = {"max_tokens": 60, "ignore_eos": False}
        small, _ = await choice_of(client, "nearly", **asked)
        large, alone = await choice_of(client, "exactly", **asked)
        assert (await choice_of(client, "agreed", **asked))[0] == small
        for name in ("denied", "undrafted"):
            choices, used = await choice_of(client, name, **asked)
            assert choices == large
            accepted = used["completion_tokens_details"]["accepted_prediction_tokens"]
            most = alone["completion_tokens_details"]["accepted_prediction_tokens"]
            assert accepted > most + 10 if name == "denied" else accepted == most

    played(scene)


def test_decisions_of_lines_are_those_of_the_endpoint(played):
    async def scene(client):
        trace = await client.post(CHAT, chat("asks"), **{"X-Braid-Trace": "1"})
        assert trace.status == 200, trace.body
        choice = {
            "type": "choice",
            "instructions": JUDGED,
            "choices": [{"value": value} for value in ("moon", "bread", "law")],
        }
        body = {"model": "other", "input": QUESTION, "questions": [choice]}
        own = (await client.post("/v1/decisions", body)).json["answers"][0]
        assert trace.json["trace"]["decisions"]["topic"] == own["choice"]
        holds = await decided(client, QUESTION, JUDGED) > 0.5
        assert trace.json["trace"]["decisions"]["holds"] == ("yes" if holds else "no")

    played(scene)
