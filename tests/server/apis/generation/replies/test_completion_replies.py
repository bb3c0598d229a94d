"""Whole completions: choices of several prompts, log-probabilities, both tasks."""

from __future__ import annotations

import json
from pathlib import Path

from scripted import ScriptedPipeline, logprob, said, text

from server.schema.reply_models import Completion

RECORDED = Path(__file__).parents[3] / "recorded"


def test_choices_of_several_prompts_are_numbered_through(rig):
    rig.pipeline.batches = [[(i, said(str(i), "length", num_cached=1)) for i in range(4)]]
    reply = rig.complete(prompt=["a", "b"], n=2).json
    assert [(choice["index"], choice["text"]) for choice in reply["choices"]] == [
        (0, "0"),
        (1, "1"),
        (2, "2"),
        (3, "3"),
    ]
    assert reply["usage"]["prompt_tokens"] == 6
    assert reply["usage"]["prompt_tokens_details"]["cached_tokens"] == 2


def test_a_completion_has_the_keys_that_vllm_recorded(rig):
    recorded = json.loads((RECORDED / "gen__045_cmpl_logprobs5.json").read_text())
    rig.pipeline.batches = [[(0, said("a", "stop", logprobs=[logprob("a")]))]]
    reply = rig.complete(logprobs=5).json
    assert recorded.keys() == reply.keys()
    assert recorded["choices"][0].keys() == reply["choices"][0].keys()
    assert recorded["choices"][0]["logprobs"].keys() == reply["choices"][0]["logprobs"].keys()
    Completion.model_validate(reply)


def test_logprobs_list_offsets_and_alternatives(rig):
    entries = [logprob("ab", -0.5, ("x", -0.1)), logprob("", -1.0), logprob("c", float("-inf"))]
    rig.pipeline.batches = [[(0, said("abc", "stop", logprobs=entries))]]
    shown = rig.complete(logprobs=1).json["choices"][0]["logprobs"]
    assert shown == {
        "text_offset": [0, 2, 2],
        "token_logprobs": [-0.5, -1.0, -9999.0],
        "tokens": ["ab", "", "c"],
        "top_logprobs": [{"x": -0.1, "ab": -0.5}, {"": -1.0}, {"c": -9999.0}],
    }


def test_a_completion_graph_completes(make_rig):
    rig = make_rig(ScriptedPipeline(task="completion"))
    rig.pipeline.batches = [[(0, text("a"))], [(0, text("b", "stop", stop_reason=5))]]
    choice = rig.complete().json["choices"][0]
    assert (choice["text"], choice["finish_reason"], choice["stop_reason"]) == ("ab", "stop", 5)


def test_a_completion_graph_does_not_chat(make_rig):
    answer = make_rig(ScriptedPipeline(task="completion")).chat()
    assert answer.status == 400
    assert "no chat_template node" in answer.error["message"]


def test_a_graph_that_generates_nothing_does_not_complete(make_rig):
    answer = make_rig(ScriptedPipeline(task="embedding")).complete()
    assert answer.status == 404
    assert "embedding" in answer.error["message"]


def test_a_long_prompt_is_prepared_in_a_thread_and_served(rig):
    assert rig.complete(prompt="x" * 40_000).status == 200
    assert len(rig.pipeline.asked.prompts[0].text) == 40_000
