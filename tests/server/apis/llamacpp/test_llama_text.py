"""llama.cpp's own paths: what bodies become, replies and streams, and its errors."""

from __future__ import annotations

import json

import numpy as np
import pytest
from one_test import in_one_test
from scripted import ScriptedPipeline, logprob, text

from server.apis.llamacpp.server_endpoints import normalized

COMPLETION, INFILL = "/completion", "/infill"


@pytest.fixture
def rig(make_rig):
    rig = make_rig(ScriptedPipeline(task="completion"))
    rig.pipeline.batches = [[(0, text("Hel"))], [(0, text("lo"))], [(0, text("", "stop"))]]
    return rig


def test_a_whole_reply(rig):
    reply = rig.post(COMPLETION, {"prompt": "hi", "n_predict": 9}).json
    assert (reply["content"], reply["stop"], reply["stop_type"]) == ("Hello", True, "eos")
    assert (reply["tokens_evaluated"], reply["tokens_predicted"], reply["tokens_cached"]) == (3, 3, 6)
    assert reply["timings"].keys() >= {"cache_n", "prompt_n", "prompt_ms", "predicted_per_second"}
    assert rig.pipeline.asked.default_max_tokens == 9
    assert rig.pipeline.asked.fallbacks["min_p"] == 0.05


@pytest.mark.parametrize(
    ("path", "fields"), [(COMPLETION, {"prompt": "hi"}), (INFILL, {"input_prefix": "a"})]
)
def test_a_text_that_may_be_longer_than_the_context_ends_there(rig, path, fields):
    body = {**fields, "input_suffix": "z", "n_predict": 1 << 20}
    assert rig.post(path, body).status == 200
    assert "max_tokens" not in rig.pipeline.asked.sampling
    assert rig.pipeline.asked.default_max_tokens == 1 << 20
    rig.post(path, {**body, "n_predict": -1})
    assert rig.pipeline.asked.default_max_tokens is None


def test_a_stream_ends_with_the_whole_object_and_no_mark(rig):
    data = rig.post(COMPLETION, {"prompt": "hi", "stream": True}).body.decode()
    events = [json.loads(line.removeprefix("data: ")) for line in data.splitlines() if line]
    assert [event["content"] for event in events] == ["Hel", "lo", ""]
    assert [event["stop"] for event in events] == [False, False, True]
    assert events[-1]["stop_type"] == "eos"


@pytest.mark.parametrize(
    ("finish", "reason", "kind", "word"),
    [("length", None, "limit", ""), ("stop", "END", "word", "END"), ("stop", 7, "eos", "")],
)
def test_why_a_text_ended(rig, finish, reason, kind, word):
    rig.pipeline.batches = [[(0, text("a", finish, stop_reason=reason))]]
    reply = rig.post(COMPLETION, {"prompt": "hi"}).json
    assert (reply["stop_type"], reply["stopping_word"]) == (kind, word)


def test_probabilities(rig):
    rig.pipeline.batches = [[(0, text("a", "stop", logprobs=[logprob("a", -0.5, ("b", -1.0))]))]]
    reply = rig.post(COMPLETION, {"prompt": "hi", "n_probs": 1}).json
    (token,) = reply["completion_probabilities"]
    assert (token["token"], token["logprob"], token["top_logprobs"][0]["token"]) == ("a", -0.5, "b")


def test_each_piece_of_a_stream_has_the_probabilities_of_its_tokens(rig):
    pieces = [("a", None), ("b", None), ("c", "stop")]
    rig.pipeline.batches = [
        [(0, text(piece, finish, logprobs=[logprob(piece, -0.5, ("z", -1.0))]))] for piece, finish in pieces
    ]
    data = rig.post(COMPLETION, {"prompt": "hi", "n_probs": 1, "stream": True}).body.decode()
    events = [json.loads(line.removeprefix("data: ")) for line in data.splitlines() if line]
    scored = [[token["token"] for token in event.get("completion_probabilities", [])] for event in events]
    assert scored == [["a"], ["b"], ["c"], []]
    assert "completion_probabilities" not in events[-1]


def test_samplers_that_are_not_listed_do_nothing(rig):
    body = {"prompt": "hi", "top_k": 5, "top_p": 0.5, "temperature": 0.2, "repeat_penalty": 1.3}
    rig.post(COMPLETION, {**body, "samplers": ["top_k", "temperature", "penalties"]})
    sampling = rig.pipeline.asked.sampling
    assert {name: sampling[name] for name in ("top_k", "top_p", "temperature", "repetition_penalty")} == {
        "top_k": 5,
        "top_p": 1.0,
        "temperature": 0.2,
        "repetition_penalty": 1.3,
    }
    rig.post(COMPLETION, {**body, "samplers": "kp"})
    sampling = rig.pipeline.asked.sampling
    assert (sampling["top_p"], sampling["temperature"], sampling["repetition_penalty"]) == (0.5, 1.0, 1.0)


@pytest.mark.parametrize("bias", [[[3, 2.0], [4, False]], {"3": 2.0, "4": False}])
def test_biases_are_pairs_or_an_object(rig, bias):
    rig.post(COMPLETION, {"prompt": "hi", "logit_bias": bias})
    assert rig.pipeline.asked.sampling["logit_bias"] == {3: 2.0, 4: -100.0}


def test_prompts_are_texts_ids_or_several(rig):
    rig.pipeline.batches = [[(0, text("a", "stop")), (1, text("b", "stop"))]]
    replies = rig.post(COMPLETION, {"prompt": ["hi", [1, 2]]}).json
    assert [reply["content"] for reply in replies] == ["a", "b"]
    assert [(prompt.text, prompt.ids) for prompt in rig.pipeline.asked.prompts] == [
        ("hi", None),
        (None, [1, 2]),
    ]


def test_no_tokens_are_wanted_but_the_prompt_is_computed(rig):
    reply = rig.post(COMPLETION, {"prompt": "hi", "n_predict": 0}).json
    assert (reply["content"], reply["tokens_predicted"]) == ("", 0)
    assert rig.pipeline.asked.default_max_tokens == 1


@pytest.mark.parametrize("stream", [True, False])
def test_a_line_that_is_indented_less_ends_the_text(rig, stream):
    pieces = ["if x:\n   ", " y = 1\n", "\n    z\n  en", "d"]
    rig.pipeline.batches = [[(0, text(piece))] for piece in pieces] + ["forever"]
    reply = rig.post(COMPLETION, {"prompt": "hi", "n_indent": 4, "stream": stream})
    if stream:
        events = [
            json.loads(line.removeprefix("data: ")) for line in reply.body.decode().splitlines() if line
        ]
        content, last = "".join(event["content"] for event in events), events[-1]
    else:
        last = reply.json
        content = last["content"]
    assert content == "if x:\n    y = 1\n\n    z\n  "
    assert last["stop_type"] == "limit"
    assert rig.pipeline.calls[-1].closed


def test_a_text_ends_at_its_time_once_it_has_a_line_break(rig):
    rig.pipeline.batches = [[(0, text("a"))], 0.05, [(0, text("b\nc"))], "forever"]
    reply = rig.post(COMPLETION, {"prompt": "hi", "t_max_predict_ms": 1}).json
    assert (reply["content"], reply["stop_type"]) == ("ab\nc", "limit")


def test_infill_is_a_text_with_a_gap(rig):
    extra = [{"text": "x", "filename": "x.py"}, {"text": "y"}]
    rig.post(INFILL, {"input_prefix": "a", "prompt": "b", "input_suffix": "z", "input_extra": extra})
    (prompt,) = rig.pipeline.asked.prompts
    assert (prompt.gap.prefix, prompt.gap.suffix, prompt.gap.others) == (
        "ab",
        "z",
        (("x.py", "x"), ("tmp", "y")),
    )
    assert 0 < prompt.gap.room < 512


WRONG = [
    (COMPLETION, b"{", "JSON"),
    (COMPLETION, {}, '"prompt" is required'),
    (COMPLETION, {"prompt": {"multimodal_data": ["x"]}}, "prompt"),
    (COMPLETION, {"prompt": []}, "prompt"),
    (COMPLETION, {"prompt": ""}, "not empty"),
    (COMPLETION, {"prompt": [10**30]}, "vocabulary"),
    (COMPLETION, {"prompt": 3}, "prompt"),
    (COMPLETION, {"prompt": [[-1]]}, "vocabulary"),
    (COMPLETION, {"n_predict": "9"}, "n_predict"),
    (COMPLETION, {"temperature": "hot"}, "temperature"),
    (COMPLETION, {"top_p": 7}, "top_p"),
    (COMPLETION, {"stream": 1}, "stream"),
    (COMPLETION, {"logit_bias": [[1]]}, "logit_bias"),
    (COMPLETION, {"logit_bias": [["a", 1]]}, "logit_bias"),
    (COMPLETION, {"logit_bias": [[1, 10**400]]}, "logit_bias"),
    (COMPLETION, {"t_max_predict_ms": 10**400}, "t_max_predict_ms"),
    (COMPLETION, {"dry_sequence_breakers": [""]}, "dry_sequence_breakers"),
    (COMPLETION, {"lora": [{"id": 0, "scale": 1}]}, "lora"),
    (COMPLETION, {"post_sampling_probs": True}, "post_sampling_probs"),
    (COMPLETION, {"stop": [1]}, "stop"),
    (COMPLETION, {"samplers": [1]}, "samplers"),
    (COMPLETION, {"model": "none"}, "none"),
    (INFILL, {"input_suffix": "z"}, '"input_prefix" is required'),
    (INFILL, {"input_prefix": "a"}, '"input_suffix" is required'),
    (
        INFILL,
        {"input_prefix": "a", "input_suffix": "z", "input_extra": [{}]},
        "extra_context chunk must contain",
    ),
    (INFILL, {"input_prefix": "a", "input_suffix": "z", "prompt": [1]}, '"prompt" must be a string'),
]


@in_one_test("path, body, fault", WRONG)
def test_wrong_bodies_have_llama_cpps_errors(rig, path, body, fault):
    if path == COMPLETION and body not in (b"{", {}):
        body = {"prompt": "hi", **body}
    reply = rig.post(path, body)
    status, kind = (404, "not_found_error") if fault == "none" else (400, "invalid_request_error")
    assert (reply.status, reply.error["code"], reply.error["type"]) == (status, status, kind), reply.body
    assert fault in reply.error["message"]


def test_norms_are_llama_cpps():
    vector = np.array([3.0, -4.0], np.float32)
    assert normalized(vector, -1).tolist() == [3, -4]
    assert normalized(vector, 2).tolist() == pytest.approx([0.6, -0.8])
    assert normalized(vector, 1).tolist() == pytest.approx([3 / 7, -4 / 7])
    assert normalized(vector, 0).tolist() == pytest.approx([24570, -32760])
    assert np.linalg.norm(normalized(vector, 3), 3) == pytest.approx(1)
