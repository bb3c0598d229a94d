"""Guides in the engine: any schedule gives what a sequence gives alone, and forced tokens cost no step."""

from __future__ import annotations

import json
import random
import re

import pytest
from breadth import after
from guide_rig import ENDS, GuidedRig, grammar, grammar_node, schema, text_of

from pipelines.base.errors import RequestError
from pipelines.inference.engine.generation_engine import Output
from pipelines.wire.sampling_params import GuideSpec, HeldCalls, Thinking

PERSON = {
    "type": "object",
    "properties": {
        "first_name": {"type": "string", "maxLength": 8},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "colour": {"enum": ["red", "green", "blue"]},
    },
    "required": ["first_name", "age", "colour"],
    "additionalProperties": False,
}
THOUGHT = Thinking("<think>", "</think>", opened=True, budget=6)
SPECS = [
    None,
    GuideSpec(schema(PERSON, disable_any_whitespace=True)),
    GuideSpec(schema(PERSON, disable_any_whitespace=True), THOUGHT),
    GuideSpec(None, THOUGHT),
    GuideSpec(grammar({"type": "choice", "choices": ["positive", "negative", "neutral"]})),
    GuideSpec(grammar({"type": "regex", "pattern": "[0-9]{3}-[a-z]{2,5}"})),
    GuideSpec(grammar({"type": "grammar", "grammar": 'root ::= "SELECT " [a-z]+ (" FROM " [a-z]+)?'})),
    GuideSpec(
        grammar(
            {"type": "sequence", "elements": [{"type": "any_text"}, {"type": "const_string", "value": "."}]}
        )
    ),
    GuideSpec(calls=HeldCalls("e", grammar({"type": "regex", "pattern": "[0-9]{3,5}-"}))),
    GuideSpec(calls=HeldCalls("ou", schema({"const": {"a": 1}}), once=True), thinking=THOUGHT),
]


@pytest.fixture(scope="module")
def node():
    made = grammar_node()
    yield made
    made.close()


def asked(draw: random.Random) -> dict:
    return {
        "prompt": [draw.randrange(2000) for _ in range(draw.randint(1, 30))],
        "n": draw.choice([1, 1, 3]),
        "max_tokens": draw.choice([4, 30, 50]),
        "temperature": draw.choice([0.0, 1.0]),
        "seed": draw.getrandbits(60),
        "min_tokens": draw.choice([0, 0, 40]),
        "ignore_eos": draw.random() < 0.2,
        "repetition_penalty": draw.choice([1.0, 1.3]),
        "logprobs": draw.choice([None, None, 1]),
        "stop_token_ids": draw.choice([[], [100, 101]]),
    }


@pytest.mark.parametrize("num_draft_tokens", [0, 4])
@pytest.mark.parametrize("seed", after(3, range(12)))
def test_any_schedule_gives_what_a_sequence_gives_alone(node, seed, num_draft_tokens):
    draw = random.Random(seed)
    wanted = {key: (draw.choice(SPECS), asked(draw)) for key in range(10)}
    swapping = seed % 3 == 0
    rig = GuidedRig(
        node,
        max_sequences=draw.randint(3, 6),
        max_step_tokens=draw.choice([8, 64]),
        num_blocks=draw.randint(14, 40),
        num_host_blocks=30 if swapping else 0,
        num_draft_tokens=num_draft_tokens,
    )
    lone = {key: GuidedRig(node) for key in wanted}
    for key, (spec, params) in wanted.items():
        lone[key].submit(key, spec, **params)
        lone[key].run()
        rig.foreseen |= lone[key].outputs
    for key, (spec, params) in wanted.items():
        rig.submit(key, spec, **params)
        for _ in range(draw.randint(0, 6)):
            rig.step()
            if rig.engine.scheduler.running and draw.random() < 0.2:
                rig.engine.scheduler._preempt(rig.engine.scheduler.running[-1])
    rig.run()
    for key, (_, params) in wanted.items():
        for choice in range(params["n"]):
            assert rig.outputs.get((key, choice)) == lone[key].outputs.get((key, choice))
            assert rig.finish(key, choice) == lone[key].finish(key, choice)
    assert (rig.engine.counts().accepted_tokens > 50) == (num_draft_tokens > 0)


@pytest.mark.parametrize("spec", [spec for spec in SPECS if spec is not None])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_forced_tokens_cost_no_step_and_change_no_text(node, spec, temperature):
    """With log-probabilities nothing is forced: every token needs its logits."""
    rigs = GuidedRig(node), GuidedRig(node)
    for rig, logprobs in zip(rigs, (None, 0), strict=True):
        rig.submit("a", spec, temperature=temperature, seed=5, logprobs=logprobs)
        rig.run()
    forcing, plain = rigs
    assert forcing.outputs == plain.outputs
    assert forcing.finish("a") == plain.finish("a")
    assert plain.steps == len(plain.outputs["a", 0])
    assert (plain.outputs["a", 0][-1] in ENDS) == (plain.finish("a") == "stop")
    assert forcing.steps <= plain.steps


def test_forced_tokens_save_steps(node):
    rig = GuidedRig(node)
    rig.submit("a", GuideSpec(schema(PERSON, disable_any_whitespace=True)))
    rig.run()
    assert json.loads(rig.text("a")).keys() == PERSON["properties"].keys()
    assert rig.steps < 0.7 * len(rig.outputs["a", 0])


def test_every_choice_has_a_guide_of_its_own(node):
    rig = GuidedRig(node)
    rig.submit("a", SPECS[5], n=4, temperature=1.0, seed=3)
    rig.run()
    texts = {rig.text("a", choice) for choice in range(4)}
    assert len(texts) == 4
    assert {rig.finish("a", choice) for choice in range(4)} == {"stop"}


@pytest.mark.parametrize("limit", range(1, 12))
def test_forced_tokens_stay_within_max_tokens(node, limit):
    rig = GuidedRig(node)
    rig.submit("a", SPECS[1], max_tokens=limit)
    rig.run()
    assert len(rig.outputs["a", 0]) == limit
    assert rig.finish("a") == "length"


def test_what_has_no_room_for_its_end_did_not_stop(node):
    rig = GuidedRig(node)
    spec = GuideSpec(grammar({"type": "const_string", "value": "positive"}))
    rig.submit("a", spec, max_tokens=100)
    rig.run()
    length = len(rig.outputs["a", 0])
    rig.submit("b", spec, max_tokens=length - 1)
    rig.submit("c", spec, max_tokens=length)
    rig.run()
    assert (rig.finish("b"), rig.finish("c")) == ("length", "stop")


def test_a_forced_stop_token_ends_the_sequence(node):
    rig = GuidedRig(node)
    rig.submit("a", SPECS[1])
    rig.run()
    stop = rig.outputs["a", 0][2]
    rig.submit("b", SPECS[1], stop_token_ids=[stop])
    rig.run()
    assert rig.outputs["b", 0] == rig.outputs["a", 0][:3]
    assert rig.endings["b", 0].piece.stop_reason == stop


@pytest.mark.parametrize(
    "forbids",
    [
        {"min_tokens": 50},
        {"ignore_eos": True},
        {"allowed_token_ids": [5]},
        {"bad_words_ids": [[token] for token in range(100)]},
        {"logit_bias": dict.fromkeys(range(500), -100.0)},
    ],
    ids=str,
)
def test_a_grammar_is_kept_to_whatever_else_is_forbidden(node, forbids):
    rig = GuidedRig(node)
    rig.submit("a", SPECS[4], **forbids)
    rig.submit("b", GuideSpec(grammar({"type": "regex", "pattern": "[a-z]{3}( [a-z]{3}){0,3}"})), **forbids)
    rig.run()
    assert rig.text("a") in ("positive", "negative", "neutral")
    assert all(len(word) == 3 for word in rig.text("b").split(" "))


def test_what_is_allowed_besides_is_honoured_where_the_grammar_leaves_a_choice(node):
    rig = GuidedRig(node)
    spec = GuideSpec(grammar({"type": "regex", "pattern": "[a-z]{3}"}))
    letters = {letter: next(i for i in range(200) if text_of([i]) == letter) for letter in "xyz"}
    rig.submit("a", spec, allowed_token_ids=[letters["x"]])
    rig.submit("b", spec, allowed_token_ids=list(letters.values()), bad_words_ids=[[letters["x"]]])
    rig.run()
    assert rig.text("a") == "xxx"
    assert set(rig.text("b")) <= {"y", "z"}


def test_end_tokens_only_where_the_grammar_is_complete(node):
    rig = GuidedRig(node)
    bias = dict.fromkeys(ENDS, 100.0)
    rig.submit("a", SPECS[6], logit_bias=bias)
    rig.submit("b", SPECS[5], logit_bias=bias)
    rig.run()
    assert rig.text("a").startswith("SELECT ")
    assert re.fullmatch("[0-9]{3}-[a-z]{2,5}", rig.text("b"))
    assert rig.finish("a") == rig.finish("b") == "stop"


def test_log_probabilities_are_those_of_the_model(node):
    """Before the mask: what the grammar forbids may have been likelier."""
    rig = GuidedRig(node)
    outputs: list[Output] = []
    rig.submit("a", SPECS[4], logprobs=2)
    while rig.engine.has_work:
        outputs += rig.engine.step()
    ranks = [told.rank for output in outputs for told in output.piece.logprobs.tokens]
    assert len(ranks) == sum(len(output.piece.token_ids) for output in outputs)
    assert max(ranks) > 2


def test_a_grammar_that_costs_too_much_ends_its_sequence_alone(node):
    """An ambiguous grammar: every token doubles what the parser must keep."""
    rig = GuidedRig(node)
    rig.submit("a", GuideSpec("start: r\nr: " + " ".join(["(/[a-z]/ r)?"] * 60)), max_tokens=300)
    rig.submit("b", SPECS[5])
    rig.run()
    assert rig.finish("b") == "stop"
    assert rig.finish("a") == "error"
    assert "the grammar could not be followed" in rig.endings["a", 0].error
    assert rig.endings["a", 0].error_status == 400


def test_an_invalid_grammar_is_refused_when_its_guide_is_made(node):
    with pytest.raises(RequestError, match="Grammar error"):
        GuidedRig(node).submit("a", GuideSpec("start: missing"))


MARKED = ["<tool_call>x", "<|im_end|>", "a<|im_start|>b</think>"]


@pytest.mark.parametrize("logprobs", [None, 0])
@pytest.mark.parametrize(
    ("format", "wanted"),
    [
        *(({"type": "choice", "choices": [text]}, text) for text in MARKED),
        *(({"type": "regex", "pattern": re.escape(text).replace("<", "[<]")}, text) for text in MARKED),
        *(({"type": "json_schema", "json_schema": {"const": text}}, f'"{text}"') for text in MARKED),
        ({"type": "const_string", "value": MARKED[2]}, MARKED[2]),
    ],
    ids=str,
)
def test_text_of_marks_is_written_as_the_grammar_means_it(node, format, wanted, logprobs):
    """As text where the client says text, with the tokens themselves in a format's constant text."""
    rig = GuidedRig(node)
    rig.submit("a", GuideSpec(grammar(format)), logprobs=logprobs)
    rig.run()
    assert rig.text("a") == wanted
    assert rig.finish("a") == "stop"
    marks = {2037, 2038, 2039, 2040, 2041, 2042, 2043} & set(rig.outputs["a", 0][:-1])
    assert bool(marks) == (format["type"] == "const_string")
