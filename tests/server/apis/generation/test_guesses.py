"""Tokens that were drafted ahead: what a request may ask of them, and what replies tell."""

from __future__ import annotations

from copy import deepcopy

import pytest
from scripted import logprob, said

from pipelines.values.reply_values import TextUpdate
from pipelines.wire.token_piece import Speculation
from server.schema.reply_models import ChatCompletion, Completion

FIRST, SECOND = logprob("a", -0.1), logprob("c", -0.3, ("d", -1.5))
SPEAK = [[(0, said("a", logprobs=[logprob("a")], token_ids=[1]))]]
DRAFTED = [
    *SPEAK,
    [
        (
            0,
            said(
                "bc",
                logprobs=[logprob("b"), logprob("c")],
                token_ids=[2, 3],
                speculation=Speculation(4, 1),
                drafted=[None, SECOND],
            ),
        )
    ],
    [(0, said("", "stop", speculation=Speculation(6, 1)))],
]
BEAMS = {"use_beam_search": True, "best_of": 2}


def texts(batches):
    """The same pieces as a completion's graph gives them."""
    return [
        [(choice, TextUpdate(deepcopy(update.piece), update.content, [])) for choice, update in batch]
        for batch in batches
    ]


@pytest.mark.parametrize(
    ("field", "value", "name"),
    [
        ("num_assistant_tokens", 32, "num_draft_tokens"),
        ("num_assistant_tokens", 0, "num_draft_tokens"),
        ("assistant_confidence_threshold", 0.4, "draft_threshold"),
        ("max_ngram_size", 8, "max_ngram"),
    ],
)
@pytest.mark.parametrize("prefix", ["/v1", "/v3"])
def test_a_field_becomes_the_engines(rig, prefix, field, value, name):
    chat = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}], field: value}
    assert rig.post(prefix + "/chat/completions", chat).status == 200
    assert rig.pipeline.asked.sampling[name] == value
    assert rig.post(prefix + "/responses", {"model": "tiny", "input": "hi", field: value}).status == 200
    assert rig.pipeline.asked.sampling[name] == value


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("num_assistant_tokens", 33),
        ("num_assistant_tokens", -1),
        ("num_assistant_tokens", "many"),
        ("assistant_confidence_threshold", 1.01),
        ("assistant_confidence_threshold", -0.1),
        ("max_ngram_size", 0),
        ("max_ngram_size", 9),
        ("include_draft_logprobs", "maybe"),
    ],
)
def test_what_cannot_be_is_refused_by_name(rig, field, value):
    for answer in (rig.chat(**{field: value}), rig.complete(**{field: value})):
        assert answer.status == 400
        assert answer.error["param"] == field


def test_a_draft_has_a_length_or_a_threshold(rig):
    both = {"num_assistant_tokens": 3, "assistant_confidence_threshold": 0.5}
    assert rig.chat(**both).error["param"] == "assistant_confidence_threshold"
    answer = rig.post("/v3/completions", {"model": "tiny", "prompt": "hi", **both})
    assert answer.json["error"].startswith(
        "Parameters `assistant_confidence_threshold` and `num_assistant_tokens` are mutually exclusive"
    )
    assert rig.chat(num_assistant_tokens=0, assistant_confidence_threshold=0.5).status == 200


def test_beams_are_not_guessed_ahead(rig):
    assert rig.complete(num_assistant_tokens=3, **BEAMS).error["param"] == "num_assistant_tokens"
    assert rig.complete(num_assistant_tokens=0, **BEAMS).status == 200
    answer = rig.post(
        "/v3/completions", {"model": "tiny", "prompt": "hi", "best_of": 2, "num_assistant_tokens": 3}
    )
    assert answer.status == 400
    assert answer.json["error"].startswith("Beam search and parallel sampling are not compatible")


def test_the_drafts_log_probabilities_go_with_the_tokens_own(rig):
    rig.chat(include_draft_logprobs=True)
    assert "draft_logprobs" not in rig.pipeline.asked.sampling
    rig.chat(include_draft_logprobs=True, logprobs=True)
    assert rig.pipeline.asked.sampling["draft_logprobs"] is True
    rig.complete(include_draft_logprobs=True, logprobs=0)
    assert rig.pipeline.asked.sampling["draft_logprobs"] is True


def test_usage_tells_what_came_true(rig):
    rig.pipeline.batches = [[(0, said("a", speculation=Speculation(3, 1)))], *DRAFTED]
    details = rig.chat().json["usage"]["completion_tokens_details"]
    assert details == {"accepted_prediction_tokens": 1, "rejected_prediction_tokens": 5}
    events = rig.chat(stream=True, stream_options={"include_usage": True}).events[:-1]
    assert events[-1]["usage"]["completion_tokens_details"] == details


def test_usage_sums_the_choices(rig):
    rig.pipeline.batches = [
        [
            (0, said("a", "stop", speculation=Speculation(3, 1), num_reasoning=1)),
            (1, said("b", speculation=Speculation(5, 2))),
        ],
        [(1, said("b", "stop", speculation=Speculation(9, 4)))],
    ]
    details = rig.chat(n=2).json["usage"]["completion_tokens_details"]
    assert details == {
        "reasoning_tokens": 1,
        "accepted_prediction_tokens": 5,
        "rejected_prediction_tokens": 7,
    }


def test_who_never_guesses_tells_nothing_of_it(rig):
    assert rig.chat().json["usage"]["completion_tokens_details"] is None
    events = rig.chat(stream=True, stream_options={"include_usage": True}).events[:-1]
    assert "completion_tokens_details" not in events[-1]["usage"]


def test_draft_logprobs_are_there_for_who_asks(rig):
    rig.pipeline.batches = DRAFTED
    assert "draft_logprobs" not in rig.chat(logprobs=True).json["choices"][0]
    reply = rig.chat(logprobs=True, include_draft_logprobs=True).json
    ChatCompletion.model_validate(reply)
    (entry,) = reply["choices"][0]["draft_logprobs"]["content"]
    assert (entry["token"], entry["logprob"]) == ("c", -0.3)
    assert [other["token"] for other in entry["top_logprobs"]] == ["d"]
    assert len(reply["choices"][0]["logprobs"]["content"]) == 3


def test_draft_logprobs_are_null_where_nothing_was_guessed(rig):
    rig.pipeline.batches = [*SPEAK, [(0, said("", "stop"))]]
    assert rig.chat(logprobs=True, include_draft_logprobs=True).json["choices"][0]["draft_logprobs"] is None
    assert rig.chat(include_draft_logprobs=True).json["choices"][0]["draft_logprobs"] is None
    rig.pipeline.task, rig.pipeline.batches = "completion", texts(rig.pipeline.batches)
    assert rig.complete(logprobs=0, include_draft_logprobs=True).json["choices"][0]["draft_logprobs"] is None


def test_a_stream_tells_them_with_their_tokens(rig):
    rig.pipeline.batches = DRAFTED
    events = rig.chat(logprobs=True, include_draft_logprobs=True, stream=True).events[:-1]
    found = [event["choices"][0].get("draft_logprobs") for event in events]
    assert [entry["content"][0]["token"] for entry in found if entry] == ["c"]
    told = events[found.index(next(filter(None, found)))]["choices"][0]
    assert [entry["token"] for entry in told["logprobs"]["content"]] == ["b", "c"]


@pytest.mark.parametrize("size", [1, 5])
def test_joined_pieces_tell_the_same(rig, size):
    rig.pipeline.batches = [
        *DRAFTED[:1],
        [(0, said("x", logprobs=[logprob("x")], token_ids=[9]))],
        *DRAFTED[1:],
    ]
    events = rig.chat(logprobs=True, include_draft_logprobs=True, stream=True, stream_interval=size).events[
        :-1
    ]
    draft_logprobs = [event["choices"][0].get("draft_logprobs") for event in events]
    assert [entry["content"][0]["token"] for entry in draft_logprobs if entry] == ["c"]


def test_a_completion_shows_where_its_guesses_stand(rig):
    rig.pipeline.task, rig.pipeline.batches = "completion", texts(DRAFTED)
    reply = rig.complete(logprobs=1, include_draft_logprobs=True).json
    Completion.model_validate(reply)
    drafted = reply["choices"][0]["draft_logprobs"]
    assert (drafted["tokens"], drafted["token_logprobs"], drafted["text_offset"]) == (["c"], [-0.3], [2])
    events = rig.complete(logprobs=1, include_draft_logprobs=True, stream=True).events[:-1]
    (streamed,) = [told for event in events if (told := event["choices"][0].get("draft_logprobs"))]
    assert streamed == drafted


def test_an_echoed_prompt_moves_them(rig):
    rig.pipeline.task, rig.pipeline.batches = "completion", texts(DRAFTED)
    reply = rig.complete(logprobs=1, include_draft_logprobs=True, echo=True).json
    shown, drafted = reply["choices"][0]["logprobs"], reply["choices"][0]["draft_logprobs"]
    assert drafted["text_offset"] == shown["text_offset"][-1:]


def test_hidden_reasoning_hides_its_guesses(rig):
    pieces = [logprob("a"), logprob("c")]
    piece = said(
        "c",
        "stop",
        reasoning="a",
        logprobs=pieces,
        token_ids=[1, 2],
        is_reasoning=[True, False],
        speculation=Speculation(2, 2),
        drafted=[FIRST, SECOND],
    )
    rig.pipeline.batches = [[(0, piece)]]
    choice = rig.chat(logprobs=True, include_draft_logprobs=True, include_reasoning=False).json["choices"][0]
    assert [entry["token"] for entry in choice["draft_logprobs"]["content"]] == ["c"]
