"""What a graph allows a request to ask for: most tokens of an answer, most beams, and sampling by default."""

from __future__ import annotations

import json

import pytest
from fake_decoder import FAKE_GRAPH, write_fake_model
from test_pipeline import asking

from pipelines.base.errors import RequestError
from pipelines.values.node_values import Prompt
from pipelines.values.tasks import GenerationInput
from pipelines.wire.sampling_params import Beams

PROMPTS = [Prompt(text="one")]


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    """Asks a graph that allows five tokens and two beams, of a model that would like to say nine."""
    models = tmp_path_factory.mktemp("models")
    limits = "type: scheduler\n    max_tokens_limit: 5\n    best_of_limit: 3\n"
    graph = FAKE_GRAPH.replace("type: scheduler\n", limits)
    graph = graph.replace("from: logits}", "from: logits, defaults: generation_config.json}")
    folder = write_fake_model(models / "tiny", graph)
    (folder / "generation_config.json").write_text(json.dumps({"max_new_tokens": 9, "do_sample": False}))
    with asking(models) as asked:
        yield asked


def length(ask, **sampling):
    pieces = ask(GenerationInput(prompts=PROMPTS, sampling={"ignore_eos": True, **sampling}))
    return sum(update.piece.num_tokens for update in pieces[0])


def test_an_answer_is_no_longer_than_the_graph_allows_whoever_is_silent(ask):
    assert length(ask) == 5


def test_a_shorter_answer_may_be_asked_for(ask):
    assert length(ask, max_tokens=3) == 3


def test_more_than_the_graph_allows_is_refused(ask):
    with pytest.raises(RequestError, match="max_tokens exceeds limit provided in graph config: 5"):
        length(ask, max_tokens=6)


def test_more_beams_than_the_graph_allows_are_refused(ask):
    with pytest.raises(RequestError, match="best_of exceeds limit provided in graph config: 3"):
        length(ask, beams=Beams(3))
    assert length(ask, beams=Beams(2)) == 5


def test_a_dialect_may_sample_where_the_model_says_greedy(ask):
    def texts(**more):
        requests = [GenerationInput(prompts=PROMPTS, sampling={"seed": seed}, **more) for seed in range(4)]
        return {"".join(update.content for update in ask(request)[0]) for request in requests}

    assert len(texts()) == 1
    assert len(texts(samples_always=True)) > 1
    assert len(texts(samples_always=True, fallbacks={"top_k": 1})) == 1
