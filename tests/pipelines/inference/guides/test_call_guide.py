"""Tool calls in free text: the text is free until a call opens, and the call is one of the declared tools."""

from __future__ import annotations

import json
import random

import pytest
from breadth import after
from guide_rig import ENDS, VOCAB_SIZE, GuidedRig, allowed, grammar, grammar_node, text_of, tokens
from jsonschema import validate

from pipelines.inference.contracts.guide import GuideError
from pipelines.inference.guides.guide_compiler import GuideCompiler
from pipelines.nodes.text.parsers.tools import forms
from pipelines.wire.sampling_params import GuideSpec, HeldCalls, SamplingParams, Thinking

MARK = 2042
"""The id of <tool_call>, which may also be spelt in several tokens."""
PARAMETERS = {
    "type": "object",
    "properties": {
        "l0cation_x": {"type": "string", "maxLength": 6},
        "ünits": {"enum": ["C", "F"]},
        "n-days": {"type": "integer", "minimum": 0, "maximum": 99},
    },
    "required": ["l0cation_x", "n-days"],
    "additionalProperties": False,
}
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": PARAMETERS}} for name in ("f_1", "get.it")
]
MAKERS = GuideCompiler(tokens())


def held(name="hermes", once=False, tools=TOOLS) -> HeldCalls:
    form = forms.FORMS[name]
    return HeldCalls(form.trigger, grammar(forms.after_trigger(form, tools, parallel=not once)), once)


def guide(calls: HeldCalls, thinking: Thinking | None = None, **params):
    return MAKERS.maker(GuideSpec(None, thinking, calls), SamplingParams(**params))()


def plain(text: str) -> list[int]:
    return tokens().tokenizer.tokenize_str(text)


def feed(found, token_ids) -> list[int]:
    forced: list[int] = []
    for token_id in token_ids:
        assert token_id in allowed(found), text_of([token_id])
        forced = found.append(token_id)
    return forced


def append_all(found, token_ids) -> None:
    """Without regard to what is allowed."""
    for token_id in token_ids:
        found.append(token_id)


def calls_in(text: str) -> list[dict]:
    return [json.loads(piece.split("</tool_call>")[0]) for piece in text.split("<tool_call>")[1:]]


BODY = '\n{"name": "f_1", "arguments": {"l0cation_x": "a", "n-days": 3}}\n</tool_call>'


@pytest.mark.parametrize("opening", [[MARK], plain("<tool_call>"), plain("So.<tool_call>")], ids=str)
def test_only_what_follows_the_mark_is_held(opening):
    call_guide = guide(held(), logprobs=0)
    for token_id in (*plain("Any <tool text.\n"), 2040, 2043):  # special tokens too
        assert not allowed(call_guide) < set(range(VOCAB_SIZE)) - {2047, 2046, 2045, 2044}
        call_guide.append(token_id)
    feed(call_guide, opening)
    assert {text_of([token_id]) for token_id in allowed(call_guide)} <= {"\n", '\n{"', "\n{", "{", '{"'}
    feed(call_guide, tokens().spell(BODY))
    assert len(allowed(call_guide)) > VOCAB_SIZE - 10
    feed(call_guide, [*plain("and again "), *opening, *tokens().spell(BODY), max(ENDS)])
    assert not call_guide.finished  # the engine itself ends at an end token


@pytest.mark.parametrize("wrong", ["x", '\n{"name": "h', '\n{"name": "f_1", "arguments": {"city', "\n<"])
def test_what_is_no_call_of_a_declared_tool_cannot_follow_the_mark(wrong):
    found = guide(held(), logprobs=0)
    found.append(MARK)
    with pytest.raises(GuideError, match="could not be followed"):
        append_all(found, plain(wrong))


def test_a_token_that_opens_a_call_and_goes_on_wrongly_is_not_allowed():
    """The mark ends inside a token."""
    joined = next(i for i in range(VOCAB_SIZE) if len(text_of([i])) > 4 and text_of([i]).isalpha())
    mark, rest = "Q" + text_of([joined])[:2], text_of([joined])[2:]
    (first,), (other,) = plain("Q"), plain("x")
    for follows, fits in ((rest, True), ("0", False)):
        call_guide = guide(
            HeldCalls(mark, grammar({"type": "const_string", "value": f"{follows}!"})), logprobs=0
        )
        assert joined in allowed(call_guide)
        call_guide.append(first)
        assert (joined in allowed(call_guide)) == fits
        assert other in allowed(call_guide)
        if fits:
            call_guide.append(joined)
            assert {text_of([token_id])[0] for token_id in allowed(call_guide)} == {"!"}


def test_the_output_ends_after_the_one_call_that_is_allowed():
    call_guide = guide(held(once=True), logprobs=0)
    feed(call_guide, [MARK, *tokens().spell(BODY)])
    assert allowed(call_guide) == {tokens().end_id}
    feed(call_guide, [tokens().end_id])
    assert call_guide.finished
    forcing = guide(held(once=True))
    assert forcing.append(MARK) == []  # a line or none: both are written
    assert text_of(forcing.append(*plain("\n"))).startswith('{"name": "')
    forcing = guide(HeldCalls("<tool_call>", grammar({"type": "const_string", "value": "x"}), once=True))
    assert forcing.append(MARK) == [*plain("x"), tokens().end_id]
    assert forcing.finished


def test_marks_inside_reasoning_open_nothing():
    found = guide(held(), Thinking("<think>", "</think>"), logprobs=0)
    feed(found, tokens().spell("<think>Shall I write <tool_call>? Or <tool_call>x. Yes.</think>\n"))
    assert len(allowed(found)) > VOCAB_SIZE - 10
    feed(found, [MARK, *tokens().spell(BODY)])
    unopened = guide(held(), Thinking("<think>", "</think>"), logprobs=0)
    with pytest.raises(GuideError, match="could not be followed"):
        append_all(unopened, tokens().spell("<tool_call>Hello"))


@pytest.fixture(scope="module")
def node():
    made = grammar_node()
    yield made
    made.close()


@pytest.mark.parametrize("num_draft_tokens", after(1, [4, 0]))
@pytest.mark.parametrize("temperature", after(1, [1.0, 0.0]))
def test_every_call_of_a_random_model_is_valid(node, temperature, num_draft_tokens):
    """Its outputs are noise, and a bias makes it open a call soon; alone and with draft tokens it is the same."""
    params = {"temperature": temperature, "max_tokens": 200, "seed": 3, "n": 3, "logit_bias": {MARK: 9.0}}
    rig, lone = GuidedRig(node, num_draft_tokens=num_draft_tokens), GuidedRig(node)
    for key in range(4):
        prompt = [random.Random(key).randrange(2000) for _ in range(5)]
        spec = GuideSpec(calls=held(once=key % 2 == 1))
        lone.submit(key, spec, prompt, logprobs=0 if key % 3 == 0 else None, **params)
        lone.run()
        rig.foreseen |= lone.outputs
        rig.submit(key, spec, prompt, logprobs=0 if key % 3 == 0 else None, **params)
    rig.run()
    assert rig.outputs == lone.outputs
    num_calls = 0
    for (key, choice), ids in rig.outputs.items():
        text = text_of(ids)
        if rig.finish(key, choice) == "length":
            text = text[: text.rfind("<tool_call>")]
        for call in calls_in(text):
            num_calls += 1
            assert call["name"] in ("f_1", "get.it")
            validate(call["arguments"], PARAMETERS)
        assert key % 2 == 0 or len(calls_in(text_of(ids))) <= 1
    assert num_calls > 10


def test_free_text_costs_no_masks(node):
    class Counting(type(node)):
        def run(self, logits):
            out = super().run(logits)
            masked.append(out.masks is not None)
            return out

    masked: list[bool] = []
    counting = Counting(node.config, node.folder)
    counting.start(VOCAB_SIZE, ENDS)
    rig = GuidedRig(counting)
    mark = "§"
    rig.submit("a", GuideSpec(calls=HeldCalls(mark, grammar({"type": "const_string", "value": "x"}))))
    rig.run()
    assert mark not in rig.text("a")
    assert len(masked) > 20
    assert sum(masked) < len(masked) / 4
    counting.close()
