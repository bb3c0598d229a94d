"""Constraints from a request to its text: through a graph, the wire and a real engine."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from fake_decoder import FAKE_GRAPH, write_fake_model
from test_pipeline import HELLO, asking

from pipelines.base.errors import RequestError
from pipelines.values.node_values import Prompt
from pipelines.values.tasks import Constraint, GenerationInput
from pipelines.wire.sampling_params import Beams

GUIDED_GRAPH = FAKE_GRAPH.replace(
    "      next: {type: sampler, from: logits}",
    "      allowed: {type: grammar, from: logits, tokenizer: tokenizer.json}\n"
    "      next: {type: sampler, from: allowed}",
)
ANSWER = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}, "colour": {"enum": ["red", "green"]}},
    "required": ["ok", "colour"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    write_fake_model(folder / "tiny", GUIDED_GRAPH)
    write_fake_model(folder / "plain")
    completion = GUIDED_GRAPH.replace("task: chat", "task: completion").splitlines(keepends=True)
    bare = [line.replace("from: prompt", "from: request.prompts") for line in completion]
    write_fake_model(
        folder / "bare", "".join(line for line in bare if "_reply" not in line and "_template" not in line)
    )
    with asking(folder) as asked:
        yield asked


def request(kind=None, value=None, sampling=None, **fields) -> GenerationInput:
    constraint = None if kind is None else Constraint(kind, value, "structured_outputs")
    params = {"max_tokens": 60, "temperature": 0.0, **(sampling or {})}
    asked = {"parse_reasoning": False, **fields}
    return GenerationInput(prompts=[Prompt(ids=[5, 6, 7])], sampling=params, constraint=constraint, **asked)


def texts(ask, wanted: GenerationInput, name="tiny") -> list[tuple[str, str]]:
    pieces = ask(wanted, name)
    return [
        ("".join(piece.content for piece in pieces[choice]), pieces[choice][-1].piece.finish)
        for choice in sorted(pieces)
    ]


@pytest.mark.parametrize("logprobs", [None, 2])
def test_a_schema_is_kept_to(ask, logprobs):
    wanted = request("json_schema", ANSWER, {"logprobs": logprobs, "temperature": 1.0}, n=3)
    wanted.constraint.options["disable_any_whitespace"] = True
    for text, finish in texts(ask, wanted):
        assert finish == "stop"
        assert json.loads(text).keys() == {"ok", "colour"}


def test_a_choice_is_one_of_them(ask):
    assert texts(ask, request("choice", ["positive", "negative"])) in (
        [("positive", "stop")],
        [("negative", "stop")],
    )


def test_a_stop_string_ends_what_is_forced(ask):
    assert texts(ask, request("regex", "one two three", stop=[" th"])) == [("one two", "stop")]


def test_special_tokens_of_a_structural_tag_are_these_tokens(ask):
    tag = {"format": {"type": "const_string", "value": "a<|im_start|>b"}}
    wanted = request("structural_tag", tag, skip_special_tokens=False)
    (pieces,) = ask(wanted).values()
    assert "".join(piece.content for piece in pieces) == "a<|im_start|>b"
    assert sum(update.piece.num_tokens for update in pieces) == 3 + 1  # and its end


def test_what_is_invalid_is_refused_before_anything_runs(ask):
    with pytest.raises(RequestError, match="Grammar error: Invalid type: foo") as caught:
        ask(request("json_schema", {"type": "foo"}))
    assert caught.value.field == "structured_outputs"


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        (request("json"), "structured_outputs"),
        (request(thinking_budget=5), "thinking_token_budget"),
        (
            GenerationInput(messages=HELLO, tool_choice="required", tools=[{"type": "function"}]),
            "tool_choice",
        ),
    ],
    ids=["constraint", "budget", "tools"],
)
def test_a_graph_without_a_grammar_node_says_so(ask, wanted, field):
    with pytest.raises(RequestError, match="this model's graph has no grammar node") as caught:
        ask(wanted, "plain")
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("asked", "field", "said"),
    [
        ({"thinking_budget": 5}, "thinking_token_budget", "looks for no reasoning"),
        ({"tool_choice": "required"}, "tool_choice", "looks for no tool calls"),
    ],
)
def test_what_no_line_of_the_graph_takes_up_is_refused(ask, asked, field, said):
    with pytest.raises(RequestError, match=said) as caught:
        ask(request(**asked), "bare")
    assert caught.value.field == field


def test_reasoning_is_bounded_and_the_answer_keeps_to_its_schema(ask):
    """The marks are text to this tokenizer: a budget closes them byte by byte."""
    wanted = request("json_schema", ANSWER, parse_reasoning=True, thinking_budget=4)
    wanted.constraint.options["disable_any_whitespace"] = True
    wanted = replace(wanted, prompts=[Prompt(text="<|im_start|>assistant\n<think>\n")])
    (pieces,) = ask(wanted).values()
    assert json.loads("".join(piece.content for piece in pieces)).keys() == {"ok", "colour"}
    assert pieces[-1].piece.finish == "stop"


def test_beams_keep_to_no_grammar(ask):
    with pytest.raises(RequestError, match="beam search"):
        ask(request("json", sampling={"beams": Beams(2)}))
