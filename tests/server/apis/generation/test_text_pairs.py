"""Completions of models with an encoder and a decoder, over real graphs: the answers are transformers'."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from later import missing
from live_app import live_app
from tiny_text_models import CONTEXT, END, generated, save_tiny, tiny_text_model
from tokenizers import Tokenizer

if missing("transformers"):
    pytest.skip("needs the export extra", allow_module_level=True)
from tools.export.__main__ import main

pytestmark = pytest.mark.slow

NUM_TOKENS = 10
TEXTS = ["A boat.", "The moon is far away from here", "x", "Bread needs an hour to rise, then two"]
GREEDY = {"model": "pair", "max_tokens": NUM_TOKENS, "ignore_eos": True, "repetition_penalty": 2.0}
GREEDY |= {"return_token_ids": True, "skip_special_tokens": False}


@pytest.fixture(scope="module")
def model():
    return tiny_text_model("bart")


@pytest.fixture(scope="module")
def repository(model, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("pairs")
    source = save_tiny(model, folder / "source")
    options = ["--models", str(folder / "repository"), "--no-first-run", "--weights", "fp32"]
    done = CliRunner().invoke(main, [str(source), "--name", "pair", *options])
    assert done.exit_code == 0, done.output
    graph = folder / "repository/pair/graph.yaml"
    text = graph.read_text().replace("decoder.onnx, device: cpu", "decoder.onnx, device: cpu, precision: f32")
    graph.write_text(text.replace("encoder.onnx, device: cpu", "encoder.onnx, device: cpu, precision: f32"))
    return folder / "repository"


@pytest.fixture
def ask(repository):
    """What the server answers each body, sent together."""

    def whole(*bodies, path="/v1/completions"):
        return live_app(repository).ask_together((path, body) for body in bodies)

    return whole


@pytest.fixture(scope="module")
def read(repository):
    """The ids of a text, with the end that the tokenizer gives it."""
    tokenizer = Tokenizer.from_file(str(repository / "pair/model/tokenizer.json"))
    return lambda text: tokenizer.encode(text).ids


def test_texts_are_answered_as_transformers_answers_them(ask, model, read):
    wanted = [generated(model, read(text), NUM_TOKENS, repetition_penalty=2.0)[0] for text in TEXTS]
    together, *apart, streamed = ask(
        GREEDY | {"prompt": TEXTS, "n": 2, "logprobs": 1},
        *(GREEDY | {"prompt": text} for text in TEXTS),
        GREEDY | {"prompt": TEXTS[1], "stream": True},
    )
    assert together.status == 200, together.body
    choices = together.json["choices"]
    assert [choice["token_ids"] for choice in choices] == [ids for ids in wanted for _ in range(2)]
    assert [choice["prompt_token_ids"] for choice in choices[::2]] == [read(text) for text in TEXTS]
    assert [answer.json["choices"][0]["token_ids"] for answer in apart] == wanted
    assert together.json["usage"]["prompt_tokens"] == sum(len(read(text)) for text in TEXTS)
    assert together.json["usage"]["completion_tokens"] == 2 * len(TEXTS) * NUM_TOKENS
    assert len(choices[0]["logprobs"]["tokens"]) == NUM_TOKENS
    events = [event["choices"][0] for event in streamed.events[:-1] if event["choices"]]
    assert [token_id for event in events for token_id in event["token_ids"]] == wanted[1]
    assert all(len(set(ids)) > 3 for ids in wanted)


def test_beams_grammars_and_stop_strings_work(ask, model, read):
    beams, held, stopped = ask(
        {"model": "pair", "prompt": TEXTS[1], "max_tokens": 8, "n": 3, "use_beam_search": True}
        | {"return_token_ids": True, "ignore_eos": True, "temperature": 0},
        {"model": "pair", "prompt": TEXTS[1], "structured_outputs": {"choice": ["yes", "no"]}},
        {"model": "pair", "prompt": TEXTS[1], "structured_outputs": {"regex": "ab!c+"}, "stop": "!"},
    )
    assert beams.status == 200, beams.body
    assert [choice["token_ids"] for choice in beams.json["choices"]] == generated(
        model, read(TEXTS[1]), 8, beams=3
    )
    assert held.json["choices"][0]["text"] in ("yes", "no")
    assert stopped.json["choices"][0]["text"] == "ab"
    assert stopped.json["choices"][0]["stop_reason"] == "!"


REFUSED = [
    ({"echo": True}, "echo"),
    ({"echo": True, "logprobs": 1}, "echo"),
    ({"prompt_logprobs": 1}, "prompt_logprobs"),
    ({"prompt": "long " * CONTEXT}, "input_tokens"),
    ({"prompt": "long " * CONTEXT, "stream": True}, "input_tokens"),
    ({"prompt": [[5] * (CONTEXT + 1)]}, "input_tokens"),
    ({"max_tokens": CONTEXT + 1}, "max_tokens"),
    ({"prompt": [[5, 100_000]]}, None),
]


def test_what_it_cannot_do_is_refused_by_name(ask):
    answers = ask(*({"model": "pair", "prompt": "hi", **fields} for fields, _ in REFUSED))
    found = [(answer.status, answer.error["param"]) for answer in answers]
    assert found == [(400, field) for _, field in REFUSED]


def test_it_does_not_chat(ask):
    (answer,) = ask(
        {"model": "pair", "messages": [{"role": "user", "content": "hi"}]}, path="/v1/chat/completions"
    )
    assert (answer.status, "does not chat" in answer.error["message"]) == (400, True)


def test_a_text_ends_where_the_model_ends_it(ask, model, read):
    """Greedy without `ignore_eos`: the same text as generate, up to its end."""
    ends = [generated(model, read(text), 40, eos_token_id=END)[0] for text in TEXTS]
    answers = ask(
        *({"model": "pair", "prompt": text, "max_tokens": 40, "return_token_ids": True} for text in TEXTS)
    )
    assert [each.json["choices"][0]["token_ids"] for each in answers] == ends
